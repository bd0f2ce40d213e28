package pgsecurefile;

import static java.nio.file.StandardOpenOption.CREATE;
import static java.nio.file.StandardOpenOption.READ;
import static java.nio.file.StandardOpenOption.WRITE;
import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;
import static org.junit.jupiter.api.Assumptions.assumeTrue;

import com.zaxxer.hikari.HikariConfig;
import com.zaxxer.hikari.HikariDataSource;
import java.io.IOException;
import java.io.InputStream;
import java.io.OutputStream;
import java.nio.ByteBuffer;
import java.security.DigestInputStream;
import java.security.MessageDigest;
import java.sql.Connection;
import java.sql.SQLException;
import java.util.ArrayList;
import java.util.List;
import java.util.Random;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.postgresql.PGConnection;

/** Whose transaction it is, round trips, cancel, lost connections, pools, and long values. */
class TransactionTest {
	private static final byte[] OLD = Server.bytes(1, 6_000_000);
	private static final byte[] NEW = Server.bytes(2, 6_000_000);

	private Connection db;
	private Connection other;

	@BeforeEach
	void connect() throws SQLException {
		db = Server.connect();
		other = Server.connect();
		Server.execute(db, "DROP TABLE IF EXISTS moves", "CREATE TABLE moves (id int PRIMARY KEY, document securefile)");
		file(db).put(OLD);
	}

	@AfterEach
	void disconnect() throws SQLException {
		db.close();
		other.close();
	}

	private static SecureFile file(Connection connection) throws SQLException {
		return SecureFile.of(connection, "moves", "document", 1);
	}

	@Test
	@Timeout(120)
	void autocommit() throws Exception {
		SecureFileChannel channel = file(db).open(READ, WRITE);
		channel.write(ByteBuffer.wrap(NEW));
		channel.flush();
		assertFalse(db.getAutoCommit());
		Server.execute(db, "INSERT INTO moves VALUES (2)");
		assertArrayEquals(OLD, file(other).get());
		channel.close();
		assertTrue(db.getAutoCommit());
		assertArrayEquals(NEW, file(other).get());
		assertEquals("2", Server.ask(other, "SELECT count(*) FROM moves"));

		SecureFileChannel given = file(db).open(WRITE);
		given.write(ByteBuffer.wrap(OLD));
		Server.execute(db, "INSERT INTO moves VALUES (3)");
		given.abort();
		assertTrue(db.getAutoCommit());
		assertArrayEquals(NEW, file(other).get());
		assertEquals("2", Server.ask(other, "SELECT count(*) FROM moves"));
	}

	@Test
	@Timeout(120)
	void transactionOfTheCaller() throws Exception {
		db.setAutoCommit(false);
		file(db).put(NEW);
		assertArrayEquals(NEW, file(db).get());
		assertArrayEquals(OLD, file(other).get());
		db.rollback();
		assertArrayEquals(OLD, file(db).get());
		SecureFileChannel given = file(db).open(WRITE);
		given.write(ByteBuffer.wrap(NEW));
		given.abort();
		Server.execute(db, "INSERT INTO moves VALUES (2)");
		try (OutputStream out = SecureFile.of(db, "moves", "document", 2).newOutputStream();
				InputStream in = file(db).newInputStream()) {
			in.transferTo(out);
		}
		db.commit();
		assertEquals("1", Server.ask(other, "SELECT count(DISTINCT securefile_digest(document, 'sha256')) FROM moves WHERE id < 3"));
		assertArrayEquals(OLD, SecureFile.of(other, "moves", "document", 2).get());
	}

	@Test
	@Timeout(120)
	void readersSeeOneSnapshot() throws Exception {
		try (SecureFileChannel channel = file(db).open()) {
			ByteBuffer start = ByteBuffer.allocate(1000);
			channel.read(start);
			file(other).put(NEW);
			Server.execute(other, "DELETE FROM moves");
			assertArrayEquals(OLD, Server.readAll(channel));
		}
		assertFalse(file(db).exists());
	}

	@Test
	@Timeout(120)
	void writersLockTheRow() throws Exception {
		try (SecureFileChannel channel = file(db).open(READ, WRITE)) {
			Server.execute(other, "SET lock_timeout = '10ms'");
			SQLException locked = assertThrows(SQLException.class, () -> file(other).open(WRITE));
			assertEquals("55P03", locked.getSQLState());
			assertTrue(other.getAutoCommit());
			assertEquals(OLD.length, channel.size());
		}
	}

	/** Pieces do not cost a round trip each. */
	@Test
	@Timeout(120)
	void roundTrips() throws Exception {
		byte[] bytes = Server.bytes(3, 20 * 1024 * 1024);
		try (Relay relay = new Relay();
				Connection far = Server.connectTo(Server.url(relay.port(), Server.database()))) {
			file(far).put(OLD);
			relay.trips();
			file(far).write(out -> {
				for (int at = 0; at < bytes.length; at += 65536)
					out.write(bytes, at, 65536);
			});
			int writes = relay.trips();
			assertTrue(writes <= 16, writes + " round trips to write 80 pieces");
			try (InputStream in = file(far).newInputStream()) {
				assertArrayEquals(bytes, in.readAllBytes());
			}
			int reads = relay.trips();
			assertTrue(reads <= 18, reads + " round trips to read 80 pieces");
			assertEquals(bytes.length, file(far).get(OutputStream.nullOutputStream()));
			int gets = relay.trips();
			assertTrue(gets <= 10, gets + " round trips to get 80 pieces");
		}
	}

	@Test
	@Timeout(120)
	void cancel() throws Exception {
		int[] calls = {0};
		SQLException cancelled = assertThrows(SQLException.class, () -> file(db).progress((done, total) -> {
			if (calls[0]++ == 2)
				cancelFromElsewhere();
		}).put(NEW));
		assertEquals("57014", cancelled.getSQLState());
		assertTrue(db.getAutoCommit());
		assertArrayEquals(OLD, file(db).get());
	}

	/** A request that comes between two statements is kept by the handle. */
	private void cancelFromElsewhere() {
		try {
			db.unwrap(PGConnection.class).cancelQuery();
			Thread.sleep(100);
		} catch (SQLException | InterruptedException problem) {
			throw new IllegalStateException(problem);
		}
	}

	@Test
	@Timeout(120)
	void lostConnections() throws Exception {
		try (Relay relay = new Relay()) {
			Connection far = Server.connectTo(Server.url(relay.port(), Server.database()));
			SecureFileChannel channel = file(far).open(READ, WRITE);
			channel.write(ByteBuffer.wrap(NEW));
			relay.cut();
			assertThrows(IOException.class, channel::close);
			assertFalse(channel.isOpen());
			assertTrue(far.isClosed());
		}
		SecureFileChannel reader = file(db).open();
		reader.read(ByteBuffer.allocate(10));
		Server.execute(other, "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE state = 'idle in transaction'");
		IOException ended = assertThrows(IOException.class, () -> reader.position(5_000_000).read(ByteBuffer.allocate(1_000_000)));
		assertTrue(ended.getCause() instanceof SQLException);
		assertArrayEquals(OLD, file(other).get(), "nothing was stored");
	}

	@Test
	@Timeout(120)
	void pools() throws Exception {
		HikariConfig config = new HikariConfig();
		config.setJdbcUrl(Server.url(Server.port(), Server.database()));
		config.setUsername(Server.user());
		config.setMaximumPoolSize(3);
		ExecutorService threads = Executors.newFixedThreadPool(6);
		try (HikariDataSource pool = new HikariDataSource(config)) {
			List<Future<?>> all = new ArrayList<>();
			for (int i = 0; i < 30; i++) {
				int id = 10 + i;
				all.add(threads.submit(() -> {
					byte[] bytes = Server.bytes(id, 1_500_000);
					try (Connection lent = pool.getConnection()) {
						SecureFile.of(lent, "moves", "document", id).put(bytes);
					}
					try (Connection lent = pool.getConnection();
							InputStream in = SecureFile.of(lent, "moves", "document", id).newInputStream()) {
						assertArrayEquals(bytes, in.readAllBytes());
					}
					return null;
				}));
			}
			for (Future<?> one : all)
				one.get();
			try (Connection lent = pool.getConnection()) {
				assertTrue(lent.getAutoCommit());
				SecureFile.of(lent, "moves", "document", 1).open(WRITE).write(ByteBuffer.wrap(NEW));
			}
			try (Connection lent = pool.getConnection()) {
				assertTrue(lent.getAutoCommit());
				assertArrayEquals(OLD, SecureFile.of(lent, "moves", "document", 1).get(), "a channel that is forgotten stores nothing");
			}
		} finally {
			threads.shutdown();
		}
	}

	/** 2 GB and more of bytes by chance, with the memory of this process (pom.xml). */
	private static final class LongSource extends InputStream {
		private final byte[] some = new byte[65536];
		private final Random random = new Random(4);
		private long left;

		LongSource(long length) {
			left = length;
		}

		@Override
		public int read() {
			throw new UnsupportedOperationException();
		}

		@Override
		public int read(byte[] bytes, int offset, int length) {
			int count = (int) Math.min(Math.min(length, some.length), left);
			if (count == 0 && length > 0)
				return -1;
			random.nextBytes(some);
			System.arraycopy(some, 0, bytes, offset, count);
			left -= count;
			return count;
		}
	}

	@Test
	@Timeout(900)
	void longValues() throws Exception {
		assumeTrue(Server.isLong(), "2 GB: a part of make check-long");
		long length = (1L << 31) + 12345;
		assertTrue(Runtime.getRuntime().maxMemory() < 128L << 20);
		MessageDigest sent = MessageDigest.getInstance("SHA-256");
		assertEquals(length, file(db).put(new DigestInputStream(new LongSource(length), sent)));
		byte[] digest = sent.digest();
		assertEquals(length, file(db).length());
		MessageDigest came = MessageDigest.getInstance("SHA-256");
		try (InputStream in = new DigestInputStream(file(db).newInputStream(), came)) {
			assertEquals(length, in.transferTo(OutputStream.nullOutputStream()));
		}
		assertArrayEquals(digest, came.digest());
		try (SecureFileChannel channel = file(db).open(READ, WRITE, CREATE)) {
			channel.position(length).write(ByteBuffer.wrap("end".getBytes()));
			ByteBuffer end = ByteBuffer.allocate(3);
			assertEquals(3, channel.position(length).read(end));
			assertEquals("end", new String(end.array()));
		}
		assertTrue(assertThrows(SQLException.class, () -> file(db).get()).getMessage().contains("use pieces"));
		assertEquals("end", new String(file(db).get(length, 10)));
	}
}
