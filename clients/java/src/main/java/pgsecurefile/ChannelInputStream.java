package pgsecurefile;

import java.io.IOException;
import java.io.InputStream;
import java.io.OutputStream;
import java.util.Objects;

/** A range of an open value as a stream; it has a position of its own. */
final class ChannelInputStream extends InputStream {
	private final SecureFileChannel channel;
	private final boolean closes;
	private final long end;
	private final byte[] one = new byte[1];
	private long position;
	private long mark;

	ChannelInputStream(SecureFileChannel channel, long start, long end, boolean closes) {
		this.channel = channel;
		this.position = mark = start;
		this.end = end;
		this.closes = closes;
	}

	private long left() throws IOException {
		return Math.max(0, Math.min(end, channel.size()) - position);
	}

	@Override
	public int read() throws IOException {
		return read(one, 0, 1) < 0 ? -1 : one[0] & 0xff;
	}

	@Override
	public int read(byte[] bytes, int offset, int length) throws IOException {
		Objects.checkFromIndexSize(offset, length, bytes.length);
		if (length == 0)
			return 0;
		int count = (int) Math.min(length, left());
		if (count == 0)
			return -1;
		channel.position(position);
		channel.read(bytes, offset, count);
		position += count;
		return count;
	}

	@Override
	public long skip(long count) throws IOException {
		long skipped = Math.max(0, Math.min(count, left()));
		position += skipped;
		return skipped;
	}

	@Override
	public int available() throws IOException {
		return (int) Math.min(Integer.MAX_VALUE, left());
	}

	@Override
	public long transferTo(OutputStream target) throws IOException {
		long count = left();
		channel.position(position);
		channel.copyTo(position + count, target::write);
		position += count;
		return count;
	}

	@Override
	public boolean markSupported() {
		return true;
	}

	@Override
	public void mark(int limit) {
		mark = position;
	}

	@Override
	public void reset() {
		position = mark;
	}

	@Override
	public void close() throws IOException {
		if (closes)
			channel.close();
	}
}
