package pgsecurefile;

import java.io.IOException;
import java.nio.ByteBuffer;
import java.sql.PreparedStatement;
import java.sql.ResultSet;
import java.sql.SQLException;
import org.postgresql.copy.CopyOut;
import org.postgresql.util.ByteStreamWriter;

/** A handle of the server, and pieces on the wire: one round trip for a window of pieces. */
final class Handle {
	/** Bytes of one piece: two of the extension's units. */
	static final int PIECE_BYTES = 256 * 1024;

	/** "PGCOPY\n\377\r\n\0", flags, and the length of what follows in the head of COPY's binary form. */
	private static final int COPY_HEAD_BYTES = 19;

	private final Link link;
	private final int number;

	Handle(Link link, int number) {
		this.link = link;
		this.number = number;
	}

	static Handle create(Place place) throws SQLException {
		String sql = "SELECT " + place.link.function("securefile_create")
				+ "(CAST(? AS pg_catalog.regclass), CAST(? AS pg_catalog.name))";
		try (PreparedStatement create = place.link.prepare(sql, place.table, place.columnName);
				ResultSet row = create.executeQuery()) {
			row.next();
			return new Handle(place.link, row.getInt(1));
		}
	}

	// ---- reading ----

	/** Each row seeks first, so that nobody has to know the server's position. */
	private String readCommand(long start, long length) {
		String at = start + " OPERATOR(pg_catalog.+) o";
		String rest = length + " OPERATOR(pg_catalog.-) o";
		return "COPY (SELECT " + link.function("securefile_seek") + "(" + number + ", " + at + ", 0), "
				+ link.function("securefile_read") + "(" + number + ", LEAST(" + PIECE_BYTES + ", " + rest + ")::pg_catalog.int4)"
				+ " FROM pg_catalog.generate_series(0::pg_catalog.int8, " + (length - 1) + ", " + PIECE_BYTES + ") AS o)"
				+ " TO STDOUT (FORMAT binary)";
	}

	/**
	 * Hand the bytes of a range to a sink, a piece at a time, as they arrive.  COPY sends them in
	 * binary whatever the settings of the driver.  If the sink fails, the rest is taken and dropped:
	 * the connection is free afterwards.
	 */
	void read(long start, long length, Sink sink) throws SQLException, IOException {
		CopyOut copy = link.driver.getCopyAPI().copyOut(readCommand(start, length));
		Throwable failed = null;
		long received = 0;
		byte[] message;
		while ((message = copy.readFromCopy()) != null) {
			try {
				if (failed == null)
					received += takeRow(message, sink);
			} catch (IOException | RuntimeException | Error problem) {
				failed = problem;
			}
		}
		if (failed instanceof IOException)
			throw (IOException) failed;
		if (failed instanceof Error)
			throw (Error) failed;
		if (failed != null)
			throw (RuntimeException) failed;
		if (received != length)
			throw new SQLException("the server sent fewer bytes than there are", "08P01");
	}

	/** The server sends each row in a message, the head before the first, and an end. */
	private static int takeRow(byte[] message, Sink sink) throws IOException {
		ByteBuffer row = ByteBuffer.wrap(message);
		if (message.length > COPY_HEAD_BYTES && message[0] == 'P' && message[1] == 'G')
			row.position(COPY_HEAD_BYTES + row.getInt(COPY_HEAD_BYTES - 4));
		if (row.remaining() < 2 || row.getShort() != 2)
			return 0;
		row.position(row.position() + 4 + row.getInt(row.position()));
		int length = row.getInt();
		if (length > 0)
			sink.take(message, row.position(), length);
		return Math.max(length, 0);
	}

	// ---- writing ----

	/** Bytes of an array that the driver sends from where they are. */
	private static ByteStreamWriter slice(byte[] bytes, int offset, int length) {
		return new ByteStreamWriter() {
			@Override
			public int getLength() {
				return length;
			}

			@Override
			public void writeTo(ByteStreamTarget target) throws IOException {
				target.getOutputStream().write(bytes, offset, length);
			}
		};
	}

	/**
	 * Write bytes from a position on, in pieces that end at multiples of PIECE_BYTES.  The driver
	 * sends all statements of the text before it waits for the first answer.
	 */
	void write(long start, byte[] bytes, int offset, int length) throws SQLException {
		int first = (int) Math.min(length, PIECE_BYTES - start % PIECE_BYTES);
		int pieces = 1 + (length - first + PIECE_BYTES - 1) / PIECE_BYTES;
		String sql = "SELECT " + link.function("securefile_seek") + "(?, ?, 0)"
				+ ("; SELECT " + link.function("securefile_write") + "(?, ?)").repeat(pieces);
		try (PreparedStatement write = link.connection.prepareStatement(sql)) {
			write.setInt(1, number);
			write.setLong(2, start);
			int done = 0;
			for (int i = 0; i < pieces; i++) {
				int count = i == 0 ? first : Math.min(PIECE_BYTES, length - done);
				write.setInt(2 * i + 3, number);
				write.setObject(2 * i + 4, slice(bytes, offset + done, count));
				done += count;
			}
			write.execute();
		}
	}

	void truncate(long length) throws SQLException {
		link.execute("SELECT " + link.function("securefile_truncate") + "(?, ?)", number, length);
	}

	// ---- the end ----

	void finish(Place place, boolean isNew) throws SQLException {
		String value = link.function("securefile_finish") + "(?)";
		if (isNew)
			place.insert(value, number);
		else
			place.put(value, number);
	}

	void close() throws SQLException {
		link.execute("SELECT " + link.function("securefile_close") + "(?)", number);
	}
}
