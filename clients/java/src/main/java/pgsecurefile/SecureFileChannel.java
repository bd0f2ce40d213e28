package pgsecurefile;

import java.io.IOException;
import java.io.InputStream;
import java.io.OutputStream;
import java.nio.ByteBuffer;
import java.nio.channels.ClosedChannelException;
import java.nio.channels.NonReadableChannelException;
import java.nio.channels.NonWritableChannelException;
import java.nio.channels.SeekableByteChannel;
import java.sql.SQLException;

/**
 * An open value, as {@link SecureFile#open SecureFile.open()} makes it.
 *
 * <p>Reads that follow each other read ahead, up to 4 MB by one statement; writes are gathered, up
 * to 4 MB, and sent together.  Between two calls the connection is free for other statements.
 * {@link #close} stores what was written, {@link #abort} does not.  An error on the way to the
 * server aborts by itself.
 *
 * <p>Problems of the database are an IOException with the SQLException as its cause.  A channel
 * and its connection are used by one thread at a time.
 */
public final class SecureFileChannel implements SeekableByteChannel {
	private static final int AHEAD_PIECES = 16;

	private final Place place;
	private final Link link;
	private final Transaction transaction;
	private final OpenMode mode;
	private final Handle handle;
	private final boolean isNew;
	private boolean open = true;
	private boolean changed;
	private long position;
	private long length;

	private final Ahead ahead = new Ahead();
	private int aheadPieces;
	private long lastEnd;
	private final Gather gather = new Gather();

	SecureFileChannel(Place place, OpenMode mode) throws SQLException {
		this.place = place;
		this.link = place.link;
		this.mode = mode;
		transaction = new Transaction(link.connection);
		try {
			Handle old = mode.keepsOld() ? openOld() : null;
			isNew = old == null;
			handle = isNew ? openNew() : old;
		} catch (SQLException | RuntimeException problem) {
			transaction.rollBack(problem);
			throw problem;
		}
		changed = isNew;
		position = mode.append ? length : 0;
		lastEnd = position;
	}

	private Handle openOld() throws SQLException {
		String columns = link.function("securefile_open") + "(" + place.column + ", " + (mode.write ? "'rw'" : "'r'")
				+ "), pg_catalog.length(" + place.column + ")";
		Handle old = place.select(columns, mode.write ? " FOR UPDATE" : "", false, row -> {
			int number = row.getInt(1);
			if (row.wasNull())
				return null;
			length = row.getLong(2);
			return new Handle(link, number);
		});
		if (old == null && !mode.create)
			throw place.missing();
		return old;
	}

	private Handle openNew() throws SQLException {
		boolean known = mode.createNew || !mode.create || !place.hasKey();
		boolean exists = known && place.exists();
		if (mode.createNew && exists)
			throw new SQLException("there is a row already: " + place, "23505");
		if (known && !mode.createNew && !exists)
			throw place.missing();
		return Handle.create(place);
	}

	// ---- reading ----

	/**
	 * Reads as many bytes as there is room for; fewer at the end only.
	 *
	 * @return how many bytes were read, -1 at the end
	 */
	@Override
	public synchronized int read(ByteBuffer target) throws IOException {
		checkReads();
		if (!target.hasRemaining())
			return 0;
		return (int) ended(readTo(target.remaining(), target::put));
	}

	synchronized int read(byte[] bytes, int offset, int count) throws IOException {
		checkReads();
		if (count == 0)
			return 0;
		int[] at = {offset};
		return (int) ended(readTo(count, (from, start, size) -> {
			System.arraycopy(from, start, bytes, at[0], size);
			at[0] += size;
		}));
	}

	private static long ended(long count) {
		return count == 0 ? -1 : count;
	}

	private void checkReads() throws IOException {
		check();
		if (!mode.read)
			throw new NonReadableChannelException();
	}

	/** Hand the next bytes to a sink, fewer than wanted at the end only; how many they were. */
	private long readTo(long want, Sink sink) throws IOException {
		sendGathered();
		long count = Math.max(0, Math.min(want, length - position));
		if (position != lastEnd)
			aheadPieces = 0;
		long done = ahead.give(position, count, sink);
		if (done < count) {
			if (position == lastEnd)
				aheadPieces = aheadPieces == 0 ? 1 : Math.min(AHEAD_PIECES, 2 * aheadPieces);
			fetch(position + done, position + count, goal(position + count), sink);
		}
		position += count;
		lastEnd = position;
		return count;
	}

	/** To where to read ahead: whole pieces, since the next read wants the rest of this one. */
	private long goal(long end) {
		if (aheadPieces == 0)
			return end;
		return Math.min(length, (end / Handle.PIECE_BYTES + aheadPieces) * Handle.PIECE_BYTES);
	}

	/** Fetch bytes: those before an end for the sink, the others to be kept. */
	private void fetch(long start, long end, long goal, Sink sink) throws IOException {
		long[] at = {start};
		ahead.forget();
		guarded(() -> handle.read(start, goal - start, (bytes, offset, size) -> {
			int now = (int) Math.max(0, Math.min(size, end - at[0]));
			if (now > 0)
				sink.take(bytes, offset, now);
			if (now < size)
				ahead.add(at[0] + now, bytes, offset + now, size - now);
			at[0] += size;
		}));
	}

	/**
	 * Hand all bytes from the position up to an end to a sink, a window after the other.  The sink is
	 * the application's, and may use the connection: it is called when a window has come.
	 */
	synchronized void copyTo(long end, Sink sink) throws IOException {
		checkReads();
		sendGathered();
		while (position < Math.min(end, length)) {
			long until = Math.min(Math.min(end, length), position + Gather.WINDOW_BYTES);
			fetch(position, position, until, sink);
			ahead.give(position, until - position, sink);
			position = lastEnd = until;
		}
	}

	// ---- writing ----

	/**
	 * Writes all bytes that remain in the source; with APPEND at the end.  A position behind the end
	 * leaves a gap, which reads as zeros and takes no space.
	 */
	@Override
	public synchronized int write(ByteBuffer source) throws IOException {
		checkWrites();
		int count = source.remaining();
		beginWrite();
		while (source.hasRemaining()) {
			int part = part(source.remaining());
			source.get(gather.bytes, gather.length, part);
			gathered(part);
		}
		return count;
	}

	synchronized void write(byte[] bytes, int offset, int count) throws IOException {
		checkWrites();
		beginWrite();
		int done = 0;
		while (done < count) {
			int part = part(count - done);
			System.arraycopy(bytes, offset + done, gather.bytes, gather.length, part);
			gathered(part);
			done += part;
		}
	}

	/** Write what a stream gives after its first bytes, up to its end; with progress. */
	synchronized long copyFrom(byte[] first, InputStream source, Progress progress, long total) throws IOException {
		write(first, 0, first.length);
		long done = first.length;
		while (true) {
			int part = part(Handle.PIECE_BYTES);
			int count = source.read(gather.bytes, gather.length, part);
			if (count < 0)
				return done;
			gathered(count);
			done += count;
			if (progress != null && count > 0)
				progress.moved(done, total);
		}
	}

	private void checkWrites() throws IOException {
		check();
		if (!mode.write)
			throw new NonWritableChannelException();
	}

	private void beginWrite() throws IOException {
		if (mode.append)
			position = length;
		ahead.forget();
		if (position != gather.end())
			sendGathered();
		if (gather.length == 0)
			gather.start = position;
	}

	/** How many of some bytes are to be put behind those that are gathered. */
	private int part(int count) {
		int part = Math.min(count, gather.room());
		gather.reserve(part);
		return part;
	}

	private void gathered(int part) throws IOException {
		gather.length += part;
		position += part;
		length = Math.max(length, position);
		changed = true;
		if (gather.room() == 0)
			sendGathered();
	}

	private void sendGathered() throws IOException {
		int size = gather.length;
		if (size == 0)
			return;
		guarded(() -> handle.write(gather.start, gather.bytes, 0, size));
		gather.start += size;
		gather.length = 0;
	}

	/**
	 * Sends what waits to the server; it is stored by {@link #close}.
	 *
	 * @throws IOException if it cannot be sent
	 */
	public synchronized void flush() throws IOException {
		check();
		sendGathered();
	}

	/** Cuts the value; a size above the length changes nothing, as the interface wants it. */
	@Override
	public synchronized SecureFileChannel truncate(long size) throws IOException {
		checkWrites();
		if (size < 0)
			throw new IllegalArgumentException("a length cannot be negative: " + size);
		if (size < length) {
			sendGathered();
			ahead.forget();
			guarded(() -> handle.truncate(size));
			length = size;
			changed = true;
		}
		position = Math.min(position, size);
		return this;
	}

	// ---- the position ----

	@Override
	public synchronized long position() throws IOException {
		check();
		return position;
	}

	@Override
	public synchronized SecureFileChannel position(long newPosition) throws IOException {
		check();
		if (newPosition < 0)
			throw new IllegalArgumentException("a position cannot be negative: " + newPosition);
		position = newPosition;
		return this;
	}

	/** The length of the value, with what was written. */
	@Override
	public synchronized long size() throws IOException {
		check();
		return length;
	}

	/**
	 * A stream of the bytes from the position on; closing it closes the channel.
	 *
	 * @return the stream
	 * @throws IOException if the channel is closed
	 */
	public InputStream newInputStream() throws IOException {
		return new ChannelInputStream(this, position(), Long.MAX_VALUE, true);
	}

	/**
	 * A stream that writes from the position on; closing it closes the channel, and so stores.
	 *
	 * @return the stream
	 * @throws IOException if the channel is closed
	 */
	public SecureFileOutputStream newOutputStream() throws IOException {
		return new SecureFileOutputStream(this, position(), true);
	}

	/**
	 * Writes the bytes from the position to the end to a stream.
	 *
	 * @param target where to
	 * @return how many bytes they were
	 * @throws IOException if they cannot be read or written
	 */
	public synchronized long transferTo(OutputStream target) throws IOException {
		long start = position();
		copyTo(Long.MAX_VALUE, target::write);
		return position - start;
	}

	// ---- the end ----

	private interface Work {
		void run() throws SQLException, IOException;
	}

	/** An error on the way ends the channel: what was written is not to be stored. */
	private void guarded(Work work) throws IOException {
		try {
			work.run();
		} catch (SQLException problem) {
			end(problem);
			throw failed(problem);
		} catch (IOException | RuntimeException | Error problem) {
			end(problem);
			throw problem;
		}
	}

	static IOException failed(SQLException problem) {
		return new IOException(problem.getMessage(), problem);
	}

	private void check() throws ClosedChannelException {
		if (!open)
			throw new ClosedChannelException();
	}

	@Override
	public synchronized boolean isOpen() {
		return open;
	}

	/** Stores what was written, in the transaction; commits, if that is the channel's own. */
	@Override
	public synchronized void close() throws IOException {
		if (!open)
			return;
		sendGathered();
		open = false;
		ahead.forget();
		try {
			if (changed)
				handle.finish(place, mode.createNew);
			else
				closeHandle();
			transaction.commit();
		} catch (SQLException problem) {
			transaction.rollBack(problem);
			throw failed(problem);
		}
	}

	/** In a transaction that has failed there is no handle any more. */
	private void closeHandle() throws SQLException {
		try {
			handle.close();
		} catch (SQLException problem) {
			if (!"25P02".equals(problem.getSQLState()))
				throw problem;
		}
	}

	/** Closes, and stores nothing; rolls back, if the transaction is the channel's own. */
	public synchronized void abort() {
		if (open)
			end(null);
	}

	private void end(Throwable problem) {
		open = false;
		ahead.forget();
		if (transaction.rollBack(problem))
			return;
		try {
			closeHandle();
		} catch (SQLException another) {
			if (problem != null && problem != another)
				problem.addSuppressed(another);
		}
	}
}
