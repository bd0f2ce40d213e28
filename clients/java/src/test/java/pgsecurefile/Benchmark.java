package pgsecurefile;

import java.io.BufferedOutputStream;
import java.io.ByteArrayInputStream;
import java.io.InputStream;
import java.io.OutputStream;
import java.nio.ByteBuffer;
import java.sql.Connection;
import java.sql.PreparedStatement;
import java.sql.ResultSet;
import java.sql.SQLException;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Random;
import java.util.concurrent.Callable;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import org.postgresql.PGConnection;
import org.postgresql.PGStatement;
import org.postgresql.largeobject.LargeObject;
import org.postgresql.largeobject.LargeObjectManager;

/**
 * Beside the driver's own ways, in one run: "table" as the white paper of SecureFiles has it for
 * JDBC (512 KB to 32 MB, buffers of 64 KB to 1 MB, 1 and 4 streams), "value" for 50 MB, "border"
 * for short values.  Prints medians, MB/s.
 */
public final class Benchmark {
	private static final int MB = 1024 * 1024;

	private Benchmark() {
	}

	/** A way to store and to fetch the value of a number. */
	private interface Way {
		void write(Connection db, int id, byte[] bytes, int buffer) throws Exception;

		long read(Connection db, int id, int buffer) throws Exception;
	}

	/** Work in a transaction. */
	private interface Body<T> {
		T run() throws Exception;
	}

	private static <T> T inTransaction(Connection db, Body<T> body) throws Exception {
		db.setAutoCommit(false);
		try {
			T result = body.run();
			db.commit();
			return result;
		} finally {
			db.setAutoCommit(true);
		}
	}

	private static long drain(InputStream in, int buffer) throws Exception {
		byte[] some = new byte[buffer];
		long length = 0;
		for (int count; (count = in.read(some)) >= 0;)
			length += count;
		return length;
	}

	private static void pour(OutputStream out, byte[] bytes, int buffer) throws Exception {
		for (int at = 0; at < bytes.length; at += buffer)
			out.write(bytes, at, Math.min(buffer, bytes.length - at));
	}

	private static final class Stream implements Way {
		@Override
		public void write(Connection db, int id, byte[] bytes, int buffer) throws Exception {
			SecureFile.of(db, "bench_s", "document", id).write(out -> {
				for (int at = 0; at < bytes.length; at += buffer)
					out.write(bytes, at, Math.min(buffer, bytes.length - at));
			});
		}

		@Override
		public long read(Connection db, int id, int buffer) throws Exception {
			try (SecureFileChannel channel = SecureFile.of(db, "bench_s", "document", id).open()) {
				ByteBuffer some = ByteBuffer.allocate(buffer);
				while (channel.read(some) >= 0)
					some.clear();
				return channel.size();
			}
		}
	}

	private static final class Whole implements Way {
		@Override
		public void write(Connection db, int id, byte[] bytes, int buffer) throws Exception {
			SecureFile.of(db, "bench_s", "document", id).put(bytes);
		}

		@Override
		public long read(Connection db, int id, int buffer) throws Exception {
			return SecureFile.of(db, "bench_s", "document", id).get().length;
		}
	}

	private static final class Large implements Way {
		@Override
		public void write(Connection db, int id, byte[] bytes, int buffer) throws Exception {
			inTransaction(db, () -> {
				LargeObjectManager manager = db.unwrap(PGConnection.class).getLargeObjectAPI();
				long oid = manager.createLO();
				try (LargeObject object = manager.open(oid, LargeObjectManager.WRITE);
						OutputStream out = new BufferedOutputStream(object.getOutputStream(), buffer)) {
					pour(out, bytes, buffer);
				}
				try (PreparedStatement put = db.prepareStatement("INSERT INTO bench_l VALUES (?, ?)"
						+ " ON CONFLICT (id) DO UPDATE SET document = excluded.document")) {
					put.setInt(1, id);
					put.setLong(2, oid);
					put.execute();
				}
				return null;
			});
		}

		@Override
		public long read(Connection db, int id, int buffer) throws Exception {
			return inTransaction(db, () -> {
				long oid = Long.parseLong(Server.ask(db, "SELECT document FROM bench_l WHERE id = " + id));
				try (LargeObject object = db.unwrap(PGConnection.class).getLargeObjectAPI().open(oid, LargeObjectManager.READ);
						InputStream in = object.getInputStream(buffer, Long.MAX_VALUE)) {
					return drain(in, buffer);
				}
			});
		}
	}

	private static final class Driver implements Way {
		private final String table;
		private final boolean stream;
		private final boolean binary;

		/** Bytes come in binary from the first execution on, or from the fifth. */
		Driver(String table, boolean stream, boolean binary) {
			this.table = table;
			this.stream = stream;
			this.binary = binary;
		}

		@Override
		public void write(Connection db, int id, byte[] bytes, int buffer) throws Exception {
			try (PreparedStatement put = db.prepareStatement("INSERT INTO " + table + " VALUES (?, ?)"
					+ " ON CONFLICT (id) DO UPDATE SET document = excluded.document")) {
				put.setInt(1, id);
				if (stream)
					put.setBinaryStream(2, new ByteArrayInputStream(bytes), bytes.length);
				else
					put.setBytes(2, bytes);
				put.execute();
			}
		}

		@Override
		public long read(Connection db, int id, int buffer) throws Exception {
			try (PreparedStatement get = db.prepareStatement("SELECT document FROM " + table + " WHERE id = ?")) {
				if (binary)
					get.unwrap(PGStatement.class).setPrepareThreshold(-1);
				get.setInt(1, id);
				try (ResultSet row = get.executeQuery()) {
					row.next();
					return stream ? drain(row.getBinaryStream(1), buffer) : row.getBytes(1).length;
				}
			}
		}
	}

	private static Map<String, Way> ways(String... names) {
		Map<String, Way> all = new LinkedHashMap<>();
		all.put("securefile-jdbc", new Stream());
		all.put("put, get", new Whole());
		all.put("setBytes, securefile", new Driver("bench_s", false, true));
		all.put("LargeObject", new Large());
		all.put("setBinaryStream, bytea", new Driver("bench_b", true, false));
		all.put("setBytes, bytea", new Driver("bench_b", false, false));
		all.put("setBinaryStream, bytea in binary", new Driver("bench_b", true, true));
		all.put("setBytes, bytea in binary", new Driver("bench_b", false, true));
		all.keySet().retainAll(Arrays.asList(names));
		return all;
	}

	private static void clear(Connection db) throws SQLException {
		Server.execute(db, "SELECT lo_unlink(document) FROM bench_l", "TRUNCATE bench_s, bench_b, bench_l");
	}

	private static void makeTables(Connection db) throws SQLException {
		Server.execute(db, "DROP TABLE IF EXISTS bench_s, bench_b, bench_l",
				"CREATE TABLE bench_s (id int PRIMARY KEY, document securefile)",
				"CREATE TABLE bench_b (id int PRIMARY KEY, document bytea)",
				"ALTER TABLE bench_b ALTER document SET STORAGE external",
				"CREATE TABLE bench_l (id int PRIMARY KEY, document oid)");
	}

	private static double seconds(Callable<?> work) throws Exception {
		long start = System.nanoTime();
		work.call();
		return (System.nanoTime() - start) / 1e9;
	}

	/** Each stream with a connection of its own does work for some numbers. */
	private interface Each {
		void run(Connection db, int id) throws Exception;
	}

	private static double streams(List<Connection> dbs, int values, Each each) throws Exception {
		ExecutorService threads = Executors.newFixedThreadPool(dbs.size());
		try {
			return seconds(() -> {
				List<Future<?>> all = new ArrayList<>();
				for (int s = 0; s < dbs.size(); s++) {
					int stream = s;
					all.add(threads.submit(() -> {
						for (int i = 0; i < values; i++)
							each.run(dbs.get(stream), stream * values + i);
						return null;
					}));
				}
				for (Future<?> one : all)
					one.get();
				return null;
			});
		} finally {
			threads.shutdown();
		}
	}

	private static double median(List<Double> all) {
		double[] sorted = all.stream().mapToDouble(x -> x).sorted().toArray();
		return sorted[sorted.length / 2];
	}

	/** One line: MB/s of each way, writes and reads; each with connections of its own, as a program's first. */
	private static void line(String what, Map<String, Way> ways, int runs, int streams, int values, int size, int buffer) throws Exception {
		byte[] bytes = new byte[size];
		new Random(size).nextBytes(bytes);
		Map<String, List<Double>> times = new LinkedHashMap<>();
		for (int run = 0; run < runs; run++) {
			for (Map.Entry<String, Way> way : ways.entrySet()) {
				List<Connection> dbs = new ArrayList<>();
				for (int i = 0; i < streams; i++)
					dbs.add(Server.connect());
				double write = streams(dbs, values, (db, id) -> way.getValue().write(db, id, bytes, buffer));
				double read = streams(dbs, values, (db, id) -> {
					if (way.getValue().read(db, id, buffer) != size)
						throw new IllegalStateException(way.getKey());
				});
				times.computeIfAbsent(way.getKey() + ": write", x -> new ArrayList<>()).add(write);
				times.computeIfAbsent(way.getKey() + ": read", x -> new ArrayList<>()).add(read);
				for (Connection db : dbs)
					db.close();
			}
			try (Connection db = Server.connect()) {
				clear(db);
			}
		}
		StringBuilder said = new StringBuilder(what);
		times.forEach((name, all) -> said.append(String.format(" | %s %.0f", name, (double) size * values * streams / 1e6 / median(all))));
		System.out.println(said);
	}

	/**
	 * Runs one of the benchmarks.
	 *
	 * @param args which; how many runs (3); how many bytes a stream (64 MB)
	 * @throws Exception whatever fails
	 */
	public static void main(String[] args) throws Exception {
		int runs = args.length > 1 ? Integer.parseInt(args[1]) : 3;
		int total = args.length > 2 ? Integer.parseInt(args[2]) : 64 * MB;
		try (Connection db = Server.connect()) {
			makeTables(db);
		}
		switch (args[0]) {
		case "table":
			for (int streams : new int[] {1, 4}) {
				for (int size : new int[] {MB / 2, MB, 4 * MB, 32 * MB}) {
					int buffer = Math.min(MB, Math.max(65536, size / 8));
					line(streams + " stream(s), " + size / 1024 + " KB, buffer " + buffer / 1024 + " KB",
							ways("securefile-jdbc", "LargeObject", "setBinaryStream, bytea"), runs, streams, Math.max(1, total / size), size, buffer);
				}
			}
			break;
		case "value":
			line("50 MB", ways("securefile-jdbc", "put, get", "setBinaryStream, bytea", "setBytes, bytea",
					"setBinaryStream, bytea in binary", "setBytes, bytea in binary"), runs, 1, 1, 50_000_000, MB);
			break;
		default:
			for (int kb : new int[] {64, 128, 256, 512, 1024, 2048, 5120})
				line(kb + " KB", ways("securefile-jdbc", "setBytes, securefile"), runs, 1, Math.max(1, total / 1024 / kb), kb * 1024, kb * 1024);
		}
	}
}
