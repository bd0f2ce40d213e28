package pgsecurefile;

import java.io.ByteArrayInputStream;
import java.io.IOException;
import java.io.InputStream;
import java.io.OutputStream;
import java.nio.file.Files;
import java.nio.file.OpenOption;
import java.nio.file.Path;
import java.nio.file.StandardCopyOption;
import java.nio.file.StandardOpenOption;
import java.sql.Blob;
import java.sql.Connection;
import java.sql.SQLException;

/**
 * One value of a column of type {@code securefile}: a row of a table, named by its key.
 *
 * <p>It works in the transaction of the connection, and commits nothing.  With autocommit each
 * call, or each channel, stream and Blob from its opening to its close, is a transaction of its
 * own; autocommit is off in between, and statements of the application belong to it.
 *
 * <p>Up to 1 MB a value goes as one parameter or result, above in pieces, in constant memory.
 */
public final class SecureFile {
	/** Up to this length a value is passed whole. */
	static final int VALUE_BYTES = 1024 * 1024;

	private final Place place;
	private Progress progress;

	private SecureFile(Place place) {
		this.place = place;
	}

	// ---- which value ----

	/**
	 * The value of a row with a key.  The table is "docs", or "schema.docs"; a name that has a double
	 * quote in it is taken as it is written, as {@code "my schema"."a.b"}.
	 *
	 * @param connection a connection of pgJDBC, or one of a pool that unwraps to it
	 * @param table the table
	 * @param column the column of type securefile
	 * @param key a value of the primary key; or a Map, column to value
	 * @return the value, which need not be there yet
	 * @throws SQLException if the database has no extension, or the table no such key
	 */
	public static SecureFile of(Connection connection, String table, String column, Object key) throws SQLException {
		return new SecureFile(new Place(new Link(connection), table, column, key, null, null));
	}

	/**
	 * The value of the row that a condition fits.  Such a row has to be there.
	 *
	 * @param connection as that of {@link #of}
	 * @param table the table
	 * @param column the column of type securefile
	 * @param condition SQL, with a ? for each parameter
	 * @param parameters the parameters
	 * @return the value
	 * @throws SQLException if the database has no extension
	 */
	public static SecureFile where(Connection connection, String table, String column, String condition, Object... parameters)
			throws SQLException {
		return new SecureFile(new Place(new Link(connection), table, column, null, condition, parameters));
	}

	/**
	 * Another column that is set whenever the value is stored.
	 *
	 * @param column its name
	 * @param value its value
	 * @return this
	 */
	public SecureFile with(String column, Object value) {
		place.values.put(column, value);
		return this;
	}

	/**
	 * Whom put() and get() tell how far they are.
	 *
	 * @param told called after each piece
	 * @return this
	 */
	public SecureFile progress(Progress told) {
		progress = told;
		return this;
	}

	// ---- about it ----

	/**
	 * Whether the row is there, and does not have NULL.
	 *
	 * @return whether it is
	 * @throws SQLException if that cannot be asked
	 */
	public boolean exists() throws SQLException {
		return found(length0());
	}

	/**
	 * The length; it reads no bytes of the value.
	 *
	 * @return the length in bytes
	 * @throws SQLException if there is no value
	 */
	public long length() throws SQLException {
		Long length = length0();
		if (!found(length))
			throw place.missing();
		return length;
	}

	private static boolean found(Long length) {
		return length != null && length >= 0;
	}

	/** -1 stands for NULL, null for no row. */
	private Long length0() throws SQLException {
		return place.select("COALESCE(pg_catalog.length(" + place.column + "), -1)", "", false, row -> row.getLong(1));
	}

	// ---- open ----

	/**
	 * Opens the value as a channel.  The options are those of {@link java.nio.channels.FileChannel#open}:
	 * READ (the default), WRITE, APPEND, TRUNCATE_EXISTING, CREATE, CREATE_NEW.  To write locks the row.
	 *
	 * @param options how to open it
	 * @return the channel
	 * @throws SQLException if there is no value, or for CREATE_NEW if there is a row
	 */
	public SecureFileChannel open(OpenOption... options) throws SQLException {
		return new SecureFileChannel(place, new OpenMode(options));
	}

	/**
	 * A stream that reads the value, with mark and reset.
	 *
	 * @return the stream
	 * @throws SQLException if there is no value
	 */
	public InputStream newInputStream() throws SQLException {
		return new ChannelInputStream(open(), 0, Long.MAX_VALUE, true);
	}

	/**
	 * A stream that writes the value anew; it is stored when the stream is closed.
	 *
	 * @return the stream
	 * @throws SQLException if nothing can be written
	 */
	public SecureFileOutputStream newOutputStream() throws SQLException {
		return new SecureFileOutputStream(openAnew(), 0, true);
	}

	private SecureFileChannel openAnew() throws SQLException {
		return open(StandardOpenOption.WRITE, StandardOpenOption.CREATE, StandardOpenOption.TRUNCATE_EXISTING);
	}

	/**
	 * The value as a Blob, until it is freed; free() stores what was changed.
	 *
	 * @param options as those of {@link #open}; READ and WRITE for a Blob that can be changed
	 * @return the Blob
	 * @throws SQLException if there is no value
	 */
	public Blob blob(OpenOption... options) throws SQLException {
		return new ChannelBlob(open(options));
	}

	// ---- put ----

	/** Writes a value. */
	@FunctionalInterface
	public interface Writer {
		/**
		 * Writes to the stream; an exception means that nothing is to be stored.
		 *
		 * @param out the value
		 * @throws IOException if the value cannot be written
		 * @throws SQLException if the program's own statements fail
		 */
		void write(OutputStream out) throws IOException, SQLException;
	}

	/**
	 * Stores what a program writes; if it ends with an exception, nothing.
	 *
	 * @param writer the program
	 * @throws IOException what the program throws
	 * @throws SQLException if nothing can be stored
	 */
	public void write(Writer writer) throws IOException, SQLException {
		SecureFileChannel channel = openAnew();
		finish(channel, () -> writer.write(new SecureFileOutputStream(channel, 0, false)));
	}

	private interface Work {
		void run() throws IOException, SQLException;
	}

	/** Closes the channel after the work, or aborts; an IOException that has an SQLException is that. */
	private static void finish(SecureFileChannel channel, Work work) throws IOException, SQLException {
		try {
			work.run();
			channel.close();
		} catch (IOException problem) {
			channel.abort();
			if (problem.getCause() instanceof SQLException)
				throw (SQLException) problem.getCause();
			throw problem;
		} catch (SQLException | RuntimeException | Error problem) {
			channel.abort();
			throw problem;
		}
	}

	/**
	 * Stores the file at a path.
	 *
	 * @param source the path
	 * @return the length
	 * @throws IOException if it cannot be read
	 * @throws SQLException if it cannot be stored
	 */
	public long put(Path source) throws IOException, SQLException {
		try (InputStream in = Files.newInputStream(source)) {
			return put(in, Files.size(source));
		}
	}

	/**
	 * Stores what a stream gives, up to its end; the stream is not closed.
	 *
	 * @param source the stream
	 * @return the length
	 * @throws IOException if it cannot be read
	 * @throws SQLException if it cannot be stored
	 */
	public long put(InputStream source) throws IOException, SQLException {
		return put(source, -1);
	}

	/**
	 * Stores bytes.
	 *
	 * @param bytes the bytes
	 * @throws SQLException if they cannot be stored
	 */
	public void put(byte[] bytes) throws SQLException {
		try {
			put(new ByteArrayInputStream(bytes), bytes.length);
		} catch (IOException problem) {
			throw new AssertionError(problem);
		}
	}

	private long put(InputStream source, long total) throws IOException, SQLException {
		byte[] first = source.readNBytes(VALUE_BYTES + 1);
		if (first.length <= VALUE_BYTES) {
			place.put("?", first);
			if (progress != null)
				progress.moved(first.length, first.length);
			return first.length;
		}
		SecureFileChannel channel = openAnew();
		long[] length = {0};
		finish(channel, () -> length[0] = channel.copyFrom(first, source, progress, total));
		return length[0];
	}

	// ---- get ----

	/**
	 * Fetches the value into memory.
	 *
	 * @return its bytes
	 * @throws SQLException if there is no value, or it has more bytes than an array
	 */
	public byte[] get() throws SQLException {
		return bytes(0, Long.MAX_VALUE);
	}

	/**
	 * Fetches a part of the value into memory.
	 *
	 * @param offset where it begins, from 0
	 * @param length its length; what lies behind the end of the value is left out
	 * @return the bytes
	 * @throws SQLException if there is no value, or it cannot be read
	 */
	public byte[] get(long offset, int length) throws SQLException {
		if (offset < 0 || length < 0)
			throw new IllegalArgumentException("offset and length cannot be negative");
		return bytes(Math.min(offset, Long.MAX_VALUE - 1), length); // positions of SQL begin with 1
	}

	private byte[] bytes(long offset, long length) throws SQLException {
		try {
			Memory memory = new Memory();
			fetch(offset, length, memory);
			return memory.bytes;
		} catch (IOException problem) {
			throw new SQLException(problem.getMessage(), "54000", problem);
		}
	}

	/**
	 * Fetches the value into the file at a path, or where a link there leads, which is replaced when all has come.
	 * A pipe or a device is written to.
	 *
	 * @param target the path
	 * @return the length
	 * @throws IOException if it cannot be written
	 * @throws SQLException if there is no value, or it cannot be read
	 */
	public long get(Path target) throws IOException, SQLException {
		if (Files.exists(target) && !Files.isRegularFile(target)) {
			try (OutputStream out = Files.newOutputStream(target)) {
				return get(out);
			}
		}
		Path file = Files.exists(target) ? target.toRealPath() : target.toAbsolutePath();
		Path part = file.resolveSibling("." + file.getFileName() + "." + Long.toHexString(System.nanoTime()) + ".part");
		try {
			long length;
			try (OutputStream out = Files.newOutputStream(part, StandardOpenOption.WRITE, StandardOpenOption.CREATE_NEW)) {
				length = get(out);
			}
			Files.move(part, file, StandardCopyOption.ATOMIC_MOVE);
			return length;
		} finally {
			Files.deleteIfExists(part);
		}
	}

	/**
	 * Writes the value to a stream, which is not closed.
	 *
	 * @param target the stream
	 * @return the length
	 * @throws IOException if the stream fails
	 * @throws SQLException if there is no value, or it cannot be read
	 */
	public long get(OutputStream target) throws IOException, SQLException {
		return fetch(0, Long.MAX_VALUE, new Target() {
			@Override
			public void expect(long length) {
			}

			@Override
			public void take(byte[] bytes, int offset, int length) throws IOException {
				target.write(bytes, offset, length);
			}
		});
	}

	/** A sink that is told first how many bytes will come. */
	private interface Target extends Sink {
		void expect(long length) throws IOException;
	}

	private static final class Memory implements Target {
		byte[] bytes;
		private int done;

		@Override
		public void expect(long length) throws IOException {
			if (length > Integer.MAX_VALUE - 8)
				throw new IOException("the value has " + length + " bytes, more than an array: use pieces");
			bytes = new byte[(int) length];
		}

		@Override
		public void take(byte[] from, int offset, int length) {
			System.arraycopy(from, offset, bytes, done, length);
			done += length;
		}
	}

	/** A value's length, and a range of its bytes, if they are few. */
	private static final class Found {
		long length;
		byte[] bytes;
	}

	private Found find(long start, long count) throws SQLException {
		String length = "pg_catalog.length(" + place.column + ")";
		String rest = length + " - " + start;
		boolean whole = start == 0 && count >= VALUE_BYTES;
		String part = whole
				? place.column
				: "pg_catalog.substring(" + place.column + ", " + (start + 1) + "::pg_catalog.int8, " + Math.min(count, VALUE_BYTES)
						+ "::pg_catalog.int8)";
		String columns = length + ", CASE WHEN LEAST(" + count + "::pg_catalog.int8, " + rest + ") <= " + VALUE_BYTES + " THEN " + part
				+ " END";
		Found found = place.select(columns, "", true, row -> {
			Found value = new Found();
			value.length = row.getLong(1);
			value.bytes = row.wasNull() ? null : row.getBytes(2);
			return row.getObject(1) == null ? null : value;
		});
		if (found == null)
			throw place.missing();
		return found;
	}

	private long fetch(long start, long count, Target target) throws IOException, SQLException {
		Found found = find(start, count);
		if (found.bytes != null) {
			target.expect(found.bytes.length);
			target.take(found.bytes, 0, found.bytes.length);
			if (progress != null)
				progress.moved(found.bytes.length, found.bytes.length);
			return found.bytes.length;
		}
		SecureFileChannel channel = open();
		long[] total = {0};
		finish(channel, () -> total[0] = copy(channel, start, count, target));
		return total[0];
	}

	private long copy(SecureFileChannel channel, long start, long count, Target target) throws IOException {
		long end = Math.min(channel.size(), count > Long.MAX_VALUE - start ? Long.MAX_VALUE : start + count);
		long total = Math.max(0, end - start);
		target.expect(total);
		channel.position(start);
		if (target instanceof Memory && progress == null)
			return channel.read(((Memory) target).bytes, 0, (int) total);
		long[] done = {0};
		channel.copyTo(end, (bytes, offset, length) -> {
			target.take(bytes, offset, length);
			done[0] += length;
			if (progress != null)
				progress.moved(done[0], total);
		});
		return total;
	}
}
