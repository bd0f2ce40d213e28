package pgsecurefile;

import static java.nio.file.StandardOpenOption.READ;
import static java.nio.file.StandardOpenOption.WRITE;
import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.io.InputStream;
import java.io.OutputStream;
import java.sql.Blob;
import java.sql.Connection;
import java.sql.SQLException;
import java.util.Arrays;
import org.junit.jupiter.api.Test;

/** A value as a java.sql.Blob. */
class BlobTest {
	@Test
	void blob() throws Exception {
		byte[] bytes = Server.bytes(1, 3_000_000);
		int border = 1024 * 1024 + 30; // less than a pattern before the end of the first window
		byte[] across = Arrays.copyOfRange(bytes, border, border + 40);
		try (Connection db = Server.connect()) {
			Server.execute(db, "DROP TABLE IF EXISTS blobs", "CREATE TABLE blobs (id int PRIMARY KEY, document securefile)");
			SecureFile file = SecureFile.of(db, "blobs", "document", 1);
			file.put(bytes);

			Blob blob = file.blob();
			assertEquals(bytes.length, blob.length());
			assertArrayEquals(Arrays.copyOfRange(bytes, 9, 29), blob.getBytes(10, 20));
			assertEquals(1, blob.getBytes(bytes.length, 20).length);
			assertEquals(0, blob.getBytes(bytes.length + 1, 20).length);
			assertArrayEquals(bytes, blob.getBinaryStream().readAllBytes());
			try (InputStream part = blob.getBinaryStream(10, 2_000_000)) {
				assertArrayEquals(Arrays.copyOfRange(bytes, 9, 2_000_009), part.readAllBytes());
			}
			assertEquals(border + 1, blob.position(across, 1));
			assertEquals(border + 1, blob.position(across, border + 1));
			assertEquals(-1, blob.position(across, border + 2));
			assertEquals(2_999_991, blob.position(Arrays.copyOfRange(bytes, 2_999_990, 3_000_000), 1));
			assertEquals(-1, blob.position(new byte[40], 1));
			assertEquals(1, blob.position(blob, 1));
			for (long[] wrong : new long[][] {{0, 1}, {1, -1}, {3_000_002, 0}, {1, 3_000_001}})
				assertEquals("22023", assertThrows(SQLException.class, () -> blob.getBinaryStream(wrong[0], wrong[1])).getSQLState());
			assertThrows(SQLException.class, () -> blob.getBytes(0, 1));
			assertThrows(SQLException.class, () -> blob.setBytes(1, bytes));
			blob.free();
			blob.free();
			assertThrows(SQLException.class, blob::length);
			assertTrue(db.getAutoCommit());

			Blob edited = file.blob(READ, WRITE);
			assertEquals(5, edited.setBytes(3_000_001, "12345".getBytes()));
			assertEquals(2, edited.setBytes(1, "xyz".getBytes(), 1, 2));
			try (OutputStream out = edited.setBinaryStream(5)) {
				out.write("five".getBytes());
			}
			assertEquals("yz", new String(edited.getBytes(1, 2)));
			edited.truncate(3_000_002);
			edited.free();
			byte[] stored = file.get();
			assertEquals("yz five 12", new String(stored, 0, 2) + " " + new String(stored, 4, 4) + " " + new String(stored, 3_000_000, 2));
			assertEquals(3_000_002, stored.length);
		}
	}
}
