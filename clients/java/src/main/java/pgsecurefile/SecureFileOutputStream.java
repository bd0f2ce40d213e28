package pgsecurefile;

import java.io.IOException;
import java.io.OutputStream;
import java.util.Objects;

/**
 * Writes a value.  {@link #close} stores it, also where an exception ends a try block: a program
 * whose source may fail calls {@link #abort} then, or uses {@link SecureFile#write} or
 * {@link SecureFile#put(java.io.InputStream)}, which do so by themselves.
 */
public final class SecureFileOutputStream extends OutputStream {
	private final SecureFileChannel channel;
	private final boolean closes;
	private final byte[] one = new byte[1];
	private long position;

	SecureFileOutputStream(SecureFileChannel channel, long start, boolean closes) {
		this.channel = channel;
		this.position = start;
		this.closes = closes;
	}

	@Override
	public void write(int value) throws IOException {
		one[0] = (byte) value;
		write(one, 0, 1);
	}

	@Override
	public void write(byte[] bytes, int offset, int length) throws IOException {
		Objects.checkFromIndexSize(offset, length, bytes.length);
		channel.position(position);
		channel.write(bytes, offset, length);
		position = channel.position();
	}

	/** Sends what waits to the server; it is stored by {@link #close}. */
	@Override
	public void flush() throws IOException {
		if (channel.isOpen())
			channel.flush();
	}

	/** Stores what was written, in the transaction; commits, if that is the stream's own. */
	@Override
	public void close() throws IOException {
		if (closes)
			channel.close();
		else
			flush();
	}

	/** Closes, and stores nothing; rolls back, if the transaction is the stream's own. */
	public void abort() {
		channel.abort();
	}
}
