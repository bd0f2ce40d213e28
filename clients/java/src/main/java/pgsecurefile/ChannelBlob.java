package pgsecurefile;

import java.io.IOException;
import java.io.InputStream;
import java.io.OutputStream;
import java.nio.ByteBuffer;
import java.sql.Blob;
import java.sql.SQLException;
import java.sql.SQLFeatureNotSupportedException;
import java.util.Arrays;

/** An open value as a Blob: positions count from 1. */
final class ChannelBlob implements Blob {
	private static final int SEARCH_BYTES = 1024 * 1024;

	private final SecureFileChannel channel;

	ChannelBlob(SecureFileChannel channel) {
		this.channel = channel;
	}

	private interface Work<T> {
		T run() throws IOException;
	}

	private static <T> T sql(Work<T> work) throws SQLException {
		try {
			return work.run();
		} catch (IOException problem) {
			if (problem.getCause() instanceof SQLException)
				throw (SQLException) problem.getCause();
			throw new SQLException("the Blob is closed", "55000", problem);
		} catch (java.nio.channels.NonWritableChannelException problem) {
			throw new SQLFeatureNotSupportedException("the Blob was opened to read only", "55000", problem);
		}
	}

	private static long from1(long position) throws SQLException {
		if (position < 1)
			throw new SQLException("positions of a Blob begin with 1, not " + position, "22023");
		return position - 1;
	}

	private static void checkLength(long length) throws SQLException {
		if (length < 0)
			throw new SQLException("a length cannot be negative: " + length, "22023");
	}

	@Override
	public long length() throws SQLException {
		return sql(channel::size);
	}

	// ---- reading ----

	@Override
	public byte[] getBytes(long position, int length) throws SQLException {
		long start = from1(position);
		checkLength(length);
		return sql(() -> {
			byte[] bytes = new byte[(int) Math.max(0, Math.min(length, channel.size() - start))];
			channel.position(start).read(ByteBuffer.wrap(bytes));
			return bytes;
		});
	}

	@Override
	public InputStream getBinaryStream() throws SQLException {
		length();
		return new ChannelInputStream(channel, 0, Long.MAX_VALUE, false);
	}

	@Override
	public InputStream getBinaryStream(long position, long length) throws SQLException {
		long start = from1(position);
		checkLength(length);
		if (start > length() || length > length() - start)
			throw new SQLException("the Blob ends at " + length(), "22023");
		return new ChannelInputStream(channel, start, start + length, false);
	}

	@Override
	public long position(byte[] pattern, long start) throws SQLException {
		long from = from1(start);
		return sql(() -> find(pattern, from));
	}

	@Override
	public long position(Blob pattern, long start) throws SQLException {
		if (pattern.length() > length())
			return -1;
		return position(pattern.getBytes(1, Math.toIntExact(pattern.length())), start);
	}

	/** Search in windows that have the end of the one before. */
	private long find(byte[] pattern, long from) throws IOException {
		byte[] window = new byte[SEARCH_BYTES + pattern.length];
		int kept = 0;
		long at = from;
		while (at + kept < channel.size()) {
			channel.position(at + kept);
			int end = kept + channel.read(window, kept, window.length - kept);
			for (int i = 0; i + pattern.length <= end; i++) {
				if (Arrays.equals(window, i, i + pattern.length, pattern, 0, pattern.length))
					return at + i + 1;
			}
			kept = Math.min(end, Math.max(0, pattern.length - 1));
			System.arraycopy(window, end - kept, window, 0, kept);
			at += end - kept;
		}
		return -1;
	}

	// ---- writing ----

	@Override
	public int setBytes(long position, byte[] bytes) throws SQLException {
		return setBytes(position, bytes, 0, bytes.length);
	}

	@Override
	public int setBytes(long position, byte[] bytes, int offset, int length) throws SQLException {
		long start = from1(position);
		return sql(() -> channel.position(start).write(ByteBuffer.wrap(bytes, offset, length)));
	}

	@Override
	public OutputStream setBinaryStream(long position) throws SQLException {
		long start = from1(position);
		length();
		return new SecureFileOutputStream(channel, start, false);
	}

	@Override
	public void truncate(long length) throws SQLException {
		checkLength(length);
		sql(() -> channel.truncate(length));
	}

	@Override
	public void free() throws SQLException {
		sql(() -> {
			channel.close();
			return null;
		});
	}
}
