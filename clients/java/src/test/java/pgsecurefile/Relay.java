package pgsecurefile;

import java.io.IOException;
import java.io.InputStream;
import java.io.OutputStream;
import java.net.InetAddress;
import java.net.ServerSocket;
import java.net.Socket;
import java.util.concurrent.atomic.AtomicInteger;

/** Passes one connection on to the server, and counts round trips: questions that follow an answer. */
final class Relay implements AutoCloseable {
	private final ServerSocket door = new ServerSocket(0, 1, InetAddress.getLoopbackAddress());
	private final AtomicInteger trips = new AtomicInteger();
	private volatile boolean answered = true;
	private volatile Socket near;

	Relay() throws IOException {
		start(() -> {
			near = door.accept();
			try (Socket far = new Socket(Server.host(), Server.port())) {
				start(() -> pass(far.getInputStream(), near.getOutputStream(), false));
				pass(near.getInputStream(), far.getOutputStream(), true);
			}
		});
	}

	private interface Work {
		void run() throws IOException;
	}

	private static void start(Work work) {
		Thread thread = new Thread(() -> {
			try {
				work.run();
			} catch (IOException closed) {
				// as close() wants it
			}
		});
		thread.setDaemon(true);
		thread.start();
	}

	private void pass(InputStream from, OutputStream to, boolean question) throws IOException {
		byte[] some = new byte[65536];
		int count;
		while ((count = from.read(some)) > 0) {
			if (question && answered)
				trips.incrementAndGet();
			answered = !question;
			to.write(some, 0, count);
		}
		to.close();
	}

	int port() {
		return door.getLocalPort();
	}

	/** Round trips since the last call. */
	int trips() {
		return trips.getAndSet(0);
	}

	/** Break the connection. */
	void cut() throws IOException {
		near.close();
	}

	@Override
	public void close() throws IOException {
		door.close();
		if (near != null)
			near.close();
	}
}
