import java.security.MessageDigest;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.HexFormat;
import java.util.List;
import java.util.Random;

/** A value to store; NULL has no data. */
record Payload(String name, byte[] data) {
	static final int MB = 1024 * 1024;

	static byte[] random(int length) {
		byte[] data = new byte[length];
		new Random(length).nextBytes(data);
		return data;
	}

	static boolean longRun() {
		return "long".equals(System.getenv("SECUREFILE_PAYLOADS"));
	}

	static List<Payload> small() {
		return List.of(
				new Payload("NULL", null),
				new Payload("0 bytes", new byte[0]),
				new Payload("10 bytes", new byte[] { 0, -1, '\'', '"', '\\', '\n', 0, -128, 'x', 0 }),
				new Payload("the text \\x4142", "\\x4142".getBytes()),
				new Payload("the text a\\134b", "a\\134b".getBytes()),
				new Payload("the text a\\\\b", "a\\\\b".getBytes()),
				new Payload("10 KB", random(10 * 1024)));
	}

	static List<Payload> all() {
		List<Payload> all = new ArrayList<>(small());
		all.add(new Payload("5 MB", random(5 * MB)));
		if (longRun())
			all.add(new Payload("200 MB", random(200 * MB)));
		return all;
	}

	/** What is moved in pieces. */
	static Payload streamed() {
		return longRun() ? new Payload("200 MB", random(200 * MB)) : new Payload("5 MB", random(5 * MB + 1));
	}

	/** Compares what was read with what was written, NULL and the empty value included. */
	static void same(byte[] read, byte[] written) {
		if (!Arrays.equals(read, written))
			throw new AssertionError("read " + show(read) + ", wrote " + show(written));
	}

	/** Compares what the server says of a stored value with what was written. */
	static void sameOnServer(String serverMD5, byte[] written) throws Exception {
		String expected = written == null ? null
				: HexFormat.of().formatHex(MessageDigest.getInstance("MD5").digest(written));
		equal(serverMD5, expected);
	}

	static void equal(Object found, Object expected) {
		if (found == null ? expected != null : !found.equals(expected))
			throw new AssertionError("found " + found + ", expected " + expected);
	}

	private static String show(byte[] data) {
		return data == null ? "NULL"
				: data.length + " bytes (" + HexFormat.of().formatHex(Arrays.copyOf(data, Math.min(20, data.length))) + ")";
	}
}
