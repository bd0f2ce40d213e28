package pgsecurefile;

import static java.nio.file.StandardOpenOption.APPEND;
import static java.nio.file.StandardOpenOption.CREATE;
import static java.nio.file.StandardOpenOption.CREATE_NEW;
import static java.nio.file.StandardOpenOption.DELETE_ON_CLOSE;
import static java.nio.file.StandardOpenOption.READ;
import static java.nio.file.StandardOpenOption.TRUNCATE_EXISTING;
import static java.nio.file.StandardOpenOption.WRITE;
import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertNull;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.io.ByteArrayInputStream;
import java.io.ByteArrayOutputStream;
import java.io.IOException;
import java.io.InputStream;
import java.nio.ByteBuffer;
import java.nio.channels.ClosedChannelException;
import java.nio.channels.NonReadableChannelException;
import java.nio.channels.NonWritableChannelException;
import java.nio.file.Files;
import java.nio.file.OpenOption;
import java.nio.file.Path;
import java.sql.Connection;
import java.sql.SQLException;
import java.util.Arrays;
import java.util.List;
import java.util.Map;
import java.util.Random;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

/** Values as files: what is written is read, in all ways. */
class SecureFileTest {
	private static final int PIECE = Handle.PIECE_BYTES;

	@TempDir
	Path folder;

	private Connection db;

	@BeforeEach
	void connect() throws SQLException {
		db = Server.connect();
		Server.execute(db, "DROP TABLE IF EXISTS docs",
				"CREATE TABLE docs (id int PRIMARY KEY, name text, document securefile)");
	}

	@AfterEach
	void disconnect() throws SQLException {
		assertTrue(db.getAutoCommit(), "autocommit is as it was");
		db.close();
	}

	private SecureFile doc(int id) throws SQLException {
		return SecureFile.of(db, "docs", "document", id);
	}

	private static final int[] LENGTHS = {0, 1, 4000, 4001, PIECE - 1, PIECE, PIECE + 1, 1024 * 1024, 1024 * 1024 + 1, 4 * 1024 * 1024 - 1,
			4 * 1024 * 1024, 4 * 1024 * 1024 + 1, 9_000_000};

	@Test
	void wholeValues() throws Exception {
		for (int length : LENGTHS) {
			byte[] bytes = Server.bytes(length, length);
			Path source = Files.write(folder.resolve("source"), bytes);
			doc(1).put(bytes);
			assertEquals(length, doc(2).put(new ByteArrayInputStream(bytes)));
			assertEquals(length, doc(3).put(source));
			doc(4).write(out -> out.write(bytes));
			assertEquals("1", Server.ask(db, "SELECT count(DISTINCT securefile_digest(document, 'sha256')) FROM docs"), "length " + length);
			assertArrayEquals(bytes, doc(1).get());

			ByteArrayOutputStream memory = new ByteArrayOutputStream();
			assertEquals(length, doc(2).get(memory));
			assertArrayEquals(bytes, memory.toByteArray());
			assertEquals(length, doc(3).get(folder.resolve("target")));
			assertArrayEquals(bytes, Files.readAllBytes(folder.resolve("target")));
			assertEquals(length, doc(4).length());
		}
	}

	@Test
	void targetsThatAreNoFiles() throws Exception {
		byte[] bytes = Server.bytes(3, 3_000_000);
		doc(1).put(bytes);
		Path link = Files.createSymbolicLink(folder.resolve("link"), Files.write(folder.resolve("linked"), new byte[9]));
		doc(1).get(link);
		assertTrue(Files.isSymbolicLink(link));
		assertArrayEquals(bytes, Files.readAllBytes(folder.resolve("linked")));

		Path pipe = folder.resolve("pipe");
		assertEquals(0, new ProcessBuilder("mkfifo", pipe.toString()).start().waitFor());
		Process reader = new ProcessBuilder("cat", pipe.toString()).redirectOutput(folder.resolve("read").toFile()).start();
		assertEquals(bytes.length, doc(1).get(pipe));
		assertEquals(0, reader.waitFor());
		assertArrayEquals(bytes, Files.readAllBytes(folder.resolve("read")));
		assertTrue(!Files.isRegularFile(pipe), "the pipe is still one");
	}

	@Test
	void parts() throws Exception {
		byte[] bytes = Server.bytes(5, 5_000_000);
		doc(1).put(bytes);
		int[][] ranges = {{0, 0}, {0, 10}, {4_999_990, 10}, {4_999_990, 100}, {5_000_000, 1}, {6_000_000, 5}, {1_000_000, 3_000_000}, {1, Integer.MAX_VALUE}};
		for (int[] range : ranges) {
			int start = Math.min(range[0], bytes.length);
			int end = (int) Math.min((long) start + range[1], bytes.length);
			assertArrayEquals(Arrays.copyOfRange(bytes, start, end), doc(1).get(range[0], range[1]), Arrays.toString(range));
		}
		assertEquals(0, doc(1).get(Long.MAX_VALUE, 5).length);
	}

	/** A channel beside an array: reads, writes, seeks and cuts at random. */
	@Test
	void atRandom() throws Exception {
		Random random = new Random(44);
		byte[] model = Server.bytes(1, 3_000_000);
		doc(1).put(model);
		for (int round = 0; round < 3; round++) {
			try (SecureFileChannel channel = doc(1).open(READ, WRITE)) {
				for (int i = 0; i < 150; i++)
					model = step(random, channel, model);
				assertArrayEquals(model, Server.readAll(channel));
			}
			assertArrayEquals(model, doc(1).get());
		}
	}

	private static byte[] step(Random random, SecureFileChannel channel, byte[] model) throws IOException {
		int size = 1 << random.nextInt(20);
		int length = random.nextInt(size) + 1;
		if (random.nextInt(3) > 0)
			channel.position(random.nextInt(model.length + (random.nextInt(9) == 0 ? 300_000 : 1)));
		int at = (int) channel.position();
		switch (random.nextInt(8)) {
		case 0:
			byte[] some = Server.bytes(at, length);
			assertEquals(length, channel.write(ByteBuffer.wrap(some)));
			byte[] longer = Arrays.copyOf(model, Math.max(model.length, at + length));
			System.arraycopy(some, 0, longer, at, length);
			return longer;
		case 1:
			if (random.nextInt(4) > 0)
				return model;
			int cut = random.nextInt(model.length) + 1;
			channel.truncate(cut);
			assertEquals(Math.min(at, cut), channel.position());
			return Arrays.copyOf(model, cut);
		default:
			ByteBuffer buffer = random.nextBoolean() ? ByteBuffer.allocate(length) : ByteBuffer.allocateDirect(length);
			int expected = Math.min(length, model.length - at);
			assertEquals(expected <= 0 ? -1 : expected, channel.read(buffer));
			if (expected > 0)
				assertEquals(ByteBuffer.wrap(model, at, expected), buffer.flip());
			return model;
		}
	}

	@Test
	void inputStreams() throws Exception {
		byte[] bytes = Server.bytes(6, 3_000_000);
		doc(1).put(bytes);
		try (InputStream in = doc(1).newInputStream()) {
			assertEquals(bytes[0] & 0xff, in.read());
			assertEquals(bytes.length - 1, in.available());
			assertTrue(in.markSupported());
			in.mark(0);
			assertEquals(2_000_000, in.skip(2_000_000));
			assertEquals(bytes[2_000_001] & 0xff, in.read());
			in.reset();
			assertArrayEquals(Arrays.copyOfRange(bytes, 1, bytes.length), in.readAllBytes());
			assertEquals(-1, in.read());
			assertEquals(0, in.skip(1));
			in.reset();
			ByteArrayOutputStream memory = new ByteArrayOutputStream();
			assertEquals(bytes.length - 1, in.transferTo(memory));
			assertArrayEquals(Arrays.copyOfRange(bytes, 1, bytes.length), memory.toByteArray());
		}
	}

	@Test
	void outputStreams() throws Exception {
		byte[] bytes = Server.bytes(7, 700_000);
		try (SecureFileOutputStream out = doc(1).newOutputStream()) {
			for (int i = 0; i < 1000; i++)
				out.write(bytes[i]);
			out.flush();
			out.write(bytes, 1000, bytes.length - 1000);
		}
		assertArrayEquals(bytes, doc(1).get());
		SecureFileOutputStream given = doc(1).newOutputStream();
		given.write(1);
		given.abort();
		given.close();
		assertArrayEquals(bytes, doc(1).get(), "abort() leaves the value");
	}

	@Test
	void options() throws Exception {
		byte[] first = "first".getBytes();
		assertThrows(NoSuchValueException.class, () -> doc(1).open());
		assertThrows(NoSuchValueException.class, () -> doc(1).open(WRITE));
		assertThrows(NoSuchValueException.class, () -> doc(1).open(WRITE, TRUNCATE_EXISTING));
		assertEquals("02000", assertThrows(SQLException.class, () -> doc(1).get()).getSQLState());
		assertThrows(NoSuchValueException.class, () -> doc(1).length());
		assertFalse(doc(1).exists());
		assertThrows(UnsupportedOperationException.class, () -> doc(1).open(DELETE_ON_CLOSE));
		assertThrows(IllegalArgumentException.class, () -> doc(1).open(READ, APPEND));

		write(1, first, WRITE, CREATE_NEW);
		assertEquals("23505", assertThrows(SQLException.class, () -> doc(1).open(WRITE, CREATE_NEW)).getSQLState());
		write(1, "F".getBytes(), WRITE);
		write(1, " and last".getBytes(), APPEND);
		assertEquals("First and last", new String(doc(1).get()));
		write(1, "new".getBytes(), WRITE, TRUNCATE_EXISTING);
		write(2, first, WRITE, CREATE);
		write(2, "l".getBytes(), READ, WRITE, CREATE);
		write(3, first, APPEND, CREATE);
		assertEquals("new lirst first", new String(doc(1).get()) + " " + new String(doc(2).get()) + " " + new String(doc(3).get()));

		Server.execute(db, "INSERT INTO docs VALUES (4)");
		assertThrows(NoSuchValueException.class, () -> doc(4).open());
		assertThrows(NoSuchValueException.class, () -> doc(4).get());
		write(4, first, WRITE, TRUNCATE_EXISTING);
		assertArrayEquals(first, doc(4).get(), "NULL is a row to write to");
	}

	private void write(int id, byte[] bytes, OpenOption... options) throws Exception {
		try (SecureFileChannel channel = doc(id).open(options)) {
			channel.write(ByteBuffer.wrap(bytes));
		}
	}

	@Test
	void asTheInterfaceSays() throws Exception {
		doc(1).put(new byte[10]);
		SecureFileChannel channel = doc(1).open();
		assertThrows(NonWritableChannelException.class, () -> channel.write(ByteBuffer.allocate(1)));
		assertThrows(NonWritableChannelException.class, () -> channel.truncate(1));
		assertThrows(IllegalArgumentException.class, () -> channel.position(-1));
		assertEquals(0, channel.read(ByteBuffer.allocate(0)));
		assertEquals(-1, channel.position(10).read(ByteBuffer.allocate(1)));
		channel.close();
		channel.close();
		assertFalse(channel.isOpen());
		assertThrows(ClosedChannelException.class, () -> channel.read(ByteBuffer.allocate(1)));
		assertThrows(ClosedChannelException.class, channel::size);
		try (SecureFileChannel written = doc(1).open(WRITE)) {
			assertThrows(NonReadableChannelException.class, () -> written.read(ByteBuffer.allocate(1)));
			written.truncate(20);
			assertEquals(10, written.size(), "truncate() does not lengthen");
			assertThrows(IllegalArgumentException.class, () -> written.truncate(-1));
		}
	}

	@Test
	void rowsAndColumns() throws Exception {
		Server.execute(db, "DROP SCHEMA IF EXISTS \"a.b\" CASCADE", "CREATE SCHEMA \"a.b\"",
				"CREATE TABLE \"a.b\".\"q?\"\"t\" (lang text, n int, \"d?\" securefile, said text NOT NULL, PRIMARY KEY (lang, n))");
		String table = "\"a.b\".\"q?\"\"t\"";
		byte[] bytes = Server.bytes(8, 2_000_000);
		SecureFile file = SecureFile.of(db, table, "d?", Map.of("lang", "en", "n", 1)).with("said", "what");
		file.put(bytes);
		assertEquals("what", Server.ask(db, "SELECT said FROM " + table));
		assertArrayEquals(bytes, file.get());
		SecureFile same = SecureFile.where(db, table, "d?", "lang = ? AND n < ?", "en", 5);
		assertArrayEquals(bytes, same.get());
		same.with("said", "more").put(new byte[3]);
		assertEquals("more 3", Server.ask(db, "SELECT said || ' ' || length(\"d?\") FROM " + table));

		SQLException noKey = assertThrows(SQLException.class, () -> SecureFile.of(db, table, "d?", 1));
		assertTrue(noKey.getMessage().contains("no primary key of one column"), noKey.getMessage());
		assertThrows(NoSuchValueException.class, () -> SecureFile.where(db, table, "d?", "n = 7").put(new byte[1]));
		assertThrows(NoSuchValueException.class, () -> SecureFile.where(db, table, "d?", "n = 7").open(WRITE, CREATE));
		Server.execute(db, "INSERT INTO " + table + " VALUES ('en', 2, 'x', '')");
		SecureFile two = SecureFile.where(db, table, "d?", "lang = 'en'");
		assertEquals("21000", assertThrows(SQLException.class, two::open).getSQLState());
		for (int length : new int[] {10, 2_000_000}) {
			SQLException several = assertThrows(SQLException.class, () -> two.put(new byte[length]));
			assertTrue(several.getMessage().contains("several rows fit"), several.getMessage());
		}
		assertEquals("3 1", Server.ask(db, "SELECT string_agg(length(\"d?\")::text, ' ' ORDER BY n) FROM " + table));

		for (String evil : List.of(table + "; DROP TABLE " + table + "; --", table + " AS x", "\"a", "\"a\"b\"", "a b.\"c\""))
			assertThrows(IllegalArgumentException.class, () -> SecureFile.where(db, evil, "d?", "true"), evil);
		Server.execute(db, "DROP SCHEMA \"a.b\" CASCADE");
	}

	/** In another schema than the extension's usual one, and with an empty search_path. */
	@Test
	void elsewhere() throws Exception {
		Server.execute(db, "DROP DATABASE IF EXISTS jdbc_elsewhere", "CREATE DATABASE jdbc_elsewhere");
		try (Connection other = Server.connectTo(Server.url(Server.port(), "jdbc_elsewhere"))) {
			SQLException none = assertThrows(SQLException.class, () -> SecureFile.of(other, "public.t", "d", 1));
			assertTrue(none.getMessage().contains("CREATE EXTENSION securefile"), none.getMessage());
			Server.execute(other, "CREATE SCHEMA \"e\"\"x?\"", "CREATE EXTENSION securefile SCHEMA \"e\"\"x?\"",
					"CREATE TABLE t (id int PRIMARY KEY, d \"e\"\"x?\".securefile)", "SET search_path = ''");
			byte[] bytes = Server.bytes(9, 3_000_000);
			SecureFile file = SecureFile.of(other, "public.t", "d", 1);
			file.put(bytes);
			assertArrayEquals(bytes, file.get());
			assertArrayEquals(Arrays.copyOfRange(bytes, 7, 12), file.get(7, 5));
			try (SecureFileChannel channel = file.open(READ, WRITE)) {
				channel.truncate(5);
			}
			assertEquals(5, file.length());
		}
		Server.execute(db, "DROP DATABASE jdbc_elsewhere");
	}

	/** However the driver is told to speak. */
	@Test
	void settingsOfTheDriver() throws Exception {
		byte[] bytes = Server.bytes(10, 5_000_000);
		List<String[]> settings = List.of(new String[] {"preferQueryMode", "simple"}, new String[] {"preferQueryMode", "extendedForPrepared"},
				new String[] {"preferQueryMode", "extendedCacheEverything"}, new String[] {"prepareThreshold", "0"},
				new String[] {"prepareThreshold", "-1"}, new String[] {"binaryTransfer", "false"}, new String[] {"autosave", "always"},
				new String[] {"reWriteBatchedInserts", "true"});
		for (String[] setting : settings) {
			String what = String.join("=", setting);
			try (Connection other = Server.connect(setting)) {
				SecureFile file = SecureFile.of(other, "docs", "document", 1);
				for (int i = 0; i < 7; i++) {
					file.put(Arrays.copyOf(bytes, 100_000 + i));
					assertArrayEquals(Arrays.copyOf(bytes, 100_000 + i), file.get(), what);
				}
				file.put(bytes);
				assertArrayEquals(bytes, file.get(), what);
			}
		}
	}

	@Test
	void progressAndFailures() throws Exception {
		byte[] bytes = Server.bytes(11, 3_000_000);
		long[] last = new long[3];
		Progress progress = (done, total) -> {
			assertTrue(done > last[0]);
			last[0] = done;
			last[1] = total;
			last[2]++;
		};
		doc(1).progress(progress).put(Files.write(folder.resolve("source"), bytes));
		assertEquals("[3000000, 3000000]", Arrays.toString(Arrays.copyOf(last, 2)));
		assertTrue(last[2] > 5);
		last[0] = 0;
		doc(1).progress(progress).get();
		assertEquals("[3000000, 3000000]", Arrays.toString(Arrays.copyOf(last, 2)));

		Progress stop = (done, total) -> {
			if (done > 1_500_000)
				throw new IllegalStateException("enough");
		};
		assertThrows(IllegalStateException.class, () -> doc(2).progress(stop).put(bytes));
		assertFalse(doc(2).exists());
		Path target = Files.write(folder.resolve("target"), new byte[] {1});
		assertThrows(IllegalStateException.class, () -> doc(1).progress(stop).get(target));
		assertArrayEquals(new byte[] {1}, Files.readAllBytes(target));
		assertEquals(2, Files.list(folder).count(), "nothing is left beside it");
		IOException cause = assertThrows(IOException.class, () -> doc(2).write(out -> {
			out.write(bytes);
			throw new IOException("the source is cut off");
		}));
		assertEquals("the source is cut off", cause.getMessage());
		assertNull(Server.ask(db, "SELECT 1 FROM docs WHERE id = 2"));
	}
}
