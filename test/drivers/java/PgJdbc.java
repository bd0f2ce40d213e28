import java.io.ByteArrayInputStream;
import java.io.ByteArrayOutputStream;
import java.io.EOFException;
import java.io.IOException;
import java.io.InputStream;
import java.io.OutputStream;
import java.io.UncheckedIOException;
import java.sql.Connection;
import java.sql.PreparedStatement;
import java.sql.ResultSet;
import java.sql.SQLException;
import java.sql.Statement;
import java.sql.Types;
import java.util.HexFormat;
import java.util.List;
import org.postgresql.PGConnection;

class PgJdbc {
	// ---- what doc/drivers.md shows ----

	static void insert(Connection db, long id, String name, byte[] document) throws SQLException {
		try (var insert = db.prepareStatement("INSERT INTO docs (id, name, document) VALUES (?, ?, ?)")) {
			insert.setLong(1, id);
			insert.setString(2, name);
			insert.setBytes(3, document);
			insert.executeUpdate();
		}
	}

	static byte[] select(Connection db, long id) throws SQLException {
		try (var select = db.prepareStatement("SELECT document FROM docs WHERE id = ?")) {
			select.setLong(1, id);
			try (ResultSet row = select.executeQuery()) {
				row.next();
				return row.getBytes(1);
			}
		}
	}

	/** Stores a file of up to 1 GB; the client does not hold it in memory. */
	static void insertStream(Connection db, long id, InputStream file, long length) throws SQLException {
		try (var insert = db.prepareStatement("INSERT INTO docs (id, document) VALUES (?, ?)")) {
			insert.setLong(1, id);
			insert.setBinaryStream(2, file, length);
			insert.executeUpdate();
		}
	}

	/** Stores a file of any length, in pieces of 1 MB. */
	static void upload(Connection db, long id, String name, InputStream file)
			throws SQLException, IOException {
		db.setAutoCommit(false);
		try (var create = db.prepareStatement("SELECT securefile_create('docs', 'document')");
				var write = db.prepareStatement("SELECT securefile_write(?, ?)");
				var insert = db.prepareStatement(
						"INSERT INTO docs (id, name, document) VALUES (?, ?, securefile_finish(?))")) {
			ResultSet row = create.executeQuery();
			row.next();
			int handle = row.getInt(1);

			byte[] piece;
			while ((piece = file.readNBytes(1024 * 1024)).length > 0) {
				write.setInt(1, handle); // setLong() finds no such function
				write.setBytes(2, piece);
				write.execute();
			}

			insert.setLong(1, id);
			insert.setString(2, name);
			insert.setInt(3, handle);
			insert.executeUpdate();
			db.commit();
		} catch (Throwable problem) {
			giveUp(db, problem);
			throw problem;
		}
		db.setAutoCommit(true);
	}

	/** Ends the transaction.  If that fails, too, as on a closed connection, the first problem is the one to tell. */
	static void giveUp(Connection db, Throwable problem) {
		try {
			db.rollback();
			db.setAutoCommit(true);
		} catch (SQLException another) {
			problem.addSuppressed(another);
		}
	}

	/** Reads a file of any length, in pieces of 256 KB. */
	static void download(Connection db, long id, OutputStream to) throws SQLException, IOException {
		db.setAutoCommit(false); // else the fetch size does nothing
		try (var select = db.prepareStatement("SELECT securefile_chunks(document) FROM docs WHERE id = ?")) {
			select.setFetchSize(4);
			select.setLong(1, id);
			try (ResultSet pieces = select.executeQuery()) {
				while (pieces.next())
					to.write(pieces.getBytes(1));
			}
			db.commit();
		} catch (Throwable problem) {
			giveUp(db, problem);
			throw problem;
		}
		db.setAutoCommit(true);
	}

	// ---- tests ----

	private final Drivers tests;
	private Connection db;

	PgJdbc(Drivers tests) {
		this.tests = tests;
	}

	void runAll() throws Exception {
		try (Connection connection = Drivers.connect()) {
			db = connection;
			Drivers.execute(db, "CREATE TABLE docs (id bigint PRIMARY KEY, name text, document securefile)");
			try {
				runTests();
			} finally {
				Drivers.execute(db, "DROP TABLE docs");
			}
		}
	}

	private void runTests() {
		List<Payload> payloads = Payload.all();
		for (int i = 0; i < payloads.size(); i++) {
			long id = i;
			Payload payload = payloads.get(i);
			tests.run("setBytes and getBytes, " + payload.name(), () -> {
				insert(db, id, payload.name(), payload.data());
				check(id, payload.data());
			});
		}
		Payload large = Payload.streamed();
		tests.run("setBinaryStream with a length, " + large.name(), () -> {
			insertStream(db, 50, new ByteArrayInputStream(large.data()), large.data().length);
			check(50, large.data());
		});
		tests.run("pieces, " + large.name(), () -> pieces(large));
		tests.run("an upload whose source ends early", this::cutOff);
		tests.run("a download that is given up", this::givenUp);
		tests.run("what the server says when it ends the session of an upload", () -> ended(false));
		tests.run("what the server says when it ends the session of a download", () -> ended(true));
		for (String option : List.of("prepareThreshold=0", "prepareThreshold=1", "prepareThreshold=-1",
				"binaryTransfer=false", "preferQueryMode=simple", "preferQueryMode=extendedForPrepared",
				"preferQueryMode=extendedCacheEverything", "stringtype=unspecified"))
			tests.run(option, () -> withOption(option));
		tests.run("a statement used again", this::usedAgain);
		tests.run("ways to set and to get", this::waysToSet);
		tests.run("setNull", this::setNull);
		for (String option : List.of("reWriteBatchedInserts=false", "reWriteBatchedInserts=true"))
			tests.run("batch, " + option, () -> batch(option));
		tests.run("updatable ResultSet", this::updatable);
		tests.run("upsert, RETURNING", this::upsert);
		tests.run("getGeneratedKeys", this::generatedKeys);
		tests.run("WHERE document = ?", this::find);
		tests.run("arrays", this::arrays);
		tests.run("CallableStatement", this::callable);
		tests.run("CopyManager", this::copy);
		tests.run("Blob is refused", this::blob);
		tests.run("metadata of results and parameters", this::metadata);
		tests.run("getColumns", this::columns);
	}

	/** Reads a value back, and asks the server for its MD5. */
	private void check(long id, byte[] written) throws Exception {
		check(db, id, written);
	}

	static void check(Connection db, long id, byte[] written) throws Exception {
		Payload.same(select(db, id), written);
		try (var select = db.prepareStatement("SELECT md5(document) FROM docs WHERE id = ?")) {
			select.setLong(1, id);
			ResultSet row = select.executeQuery();
			row.next();
			Payload.sameOnServer(row.getString(1), written);
		}
	}

	private void checkAll(long id) throws Exception {
		for (Payload payload : Payload.small())
			check(id++, payload.data());
	}

	private void pieces(Payload payload) throws Exception {
		upload(db, 51, payload.name(), new ByteArrayInputStream(payload.data()));
		ByteArrayOutputStream read = new ByteArrayOutputStream();
		download(db, 51, read);
		Payload.same(read.toByteArray(), payload.data());
	}

	private interface AtEnd {
		void run() throws IOException;
	}

	/** Some bytes; then something happens, and that is the end of the file. */
	private static InputStream fileThen(AtEnd what) {
		return new ByteArrayInputStream(new byte[100]) {
			@Override
			public int read(byte[] to, int at, int length) {
				int read = super.read(to, at, length);
				if (read < 0)
					try {
						what.run();
					} catch (IOException problem) {
						throw new UncheckedIOException(problem);
					}
				return read;
			}
		};
	}

	/** Nothing is stored, the connection is fit for use, and the problem is the one that the file had. */
	private void cutOff() throws Exception {
		EOFException early = new EOFException("cut off");
		try {
			upload(db, 52, "cut off", fileThen(() -> {
				throw early;
			}));
			throw new AssertionError("it was stored");
		} catch (UncheckedIOException problem) {
			Payload.equal(problem.getCause(), early);
		}
		Payload.equal(db.getAutoCommit(), true);
		Payload.equal(count("SELECT count(*) FROM docs WHERE id = 52"), 0L);
	}

	/** A document of 10 TB; reading it takes hours. */
	private void givenUp() throws Exception {
		Drivers.execute(db, "INSERT INTO docs (id, document) VALUES (53, securefile_truncate('x'::securefile, 10000000000000))");
		IOException closed = new IOException("closed");
		try {
			download(db, 53, new OutputStream() {
				@Override
				public void write(int one) throws IOException {
					throw closed;
				}
			});
			throw new AssertionError("it was read");
		} catch (IOException problem) {
			Payload.equal(problem, closed);
		}
		Payload.equal(db.getAutoCommit(), true);
		Drivers.execute(db, "DELETE FROM docs WHERE id = 53");
	}

	private void ended(boolean download) throws Exception {
		try (Connection other = Drivers.connect()) {
			long session = other.unwrap(PGConnection.class).getBackendPID();
			AtEnd end = () -> {
				try {
					Payload.equal(count("SELECT pg_terminate_backend(" + session + ", 60000)::int"), 1L);
				} catch (SQLException problem) {
					throw new IOException(problem);
				}
			};
			if (download)
				download(other, 51, new OutputStream() {
					private boolean ended;

					@Override
					public void write(int one) throws IOException {
						if (!ended)
							end.run();
						ended = true;
					}
				});
			else
				upload(other, 54, "ended", fileThen(end));
			throw new AssertionError("it went on");
		} catch (SQLException problem) {
			Payload.equal(problem.getSQLState(), "57P01");
			Payload.equal(problem.getMessage(), "FATAL: terminating connection due to administrator command");
		}
		Payload.equal(count("SELECT count(*) FROM docs WHERE id = 54"), 0L);
	}

	private long count(String query) throws SQLException {
		try (var statement = db.createStatement(); ResultSet row = statement.executeQuery(query)) {
			row.next();
			return row.getLong(1);
		}
	}

	private void withOption(String option) throws Exception {
		try (Connection other = Drivers.connect(option)) {
			long id = 100;
			for (Payload payload : Payload.small()) {
				insert(other, id, payload.name(), payload.data());
				check(other, id++, payload.data());
			}
			checkAll(100);
			try (ResultSet rows = other.createStatement()
					.executeQuery("SELECT document FROM docs WHERE id BETWEEN 100 AND 199 ORDER BY id")) {
				for (Payload payload : Payload.small()) {
					rows.next();
					Payload.same(rows.getBytes(1), payload.data());
				}
			}
		} finally {
			Drivers.execute(db, "DELETE FROM docs WHERE id BETWEEN 100 AND 199");
		}
	}

	/** Often enough that pgJDBC prepares it at the server, and reads in binary. */
	private void usedAgain() throws Exception {
		Drivers.execute(db, "INSERT INTO docs (id) VALUES (200)");
		try (var update = db.prepareStatement("UPDATE docs SET document = ? WHERE id = 200");
				var select = db.prepareStatement("SELECT document FROM docs WHERE id = 200")) {
			for (int round = 0; round < 3; round++)
				for (Payload payload : Payload.small()) {
					update.setBytes(1, payload.data());
					update.executeUpdate();
					ResultSet row = select.executeQuery();
					row.next();
					Payload.same(row.getBytes(1), payload.data());
				}
		}
	}

	private interface Setter {
		void set(PreparedStatement statement, byte[] data) throws SQLException;
	}

	private void waysToSet() throws Exception {
		List<Setter> setters = List.of(
				(statement, data) -> statement.setObject(1, data),
				(statement, data) -> statement.setObject(1, data, Types.BINARY),
				(statement, data) -> statement.setObject(1, data, Types.VARBINARY),
				(statement, data) -> statement.setObject(1, data, Types.LONGVARBINARY),
				(statement, data) -> statement.setBinaryStream(1, new ByteArrayInputStream(data)),
				(statement, data) -> statement.setBinaryStream(1, new ByteArrayInputStream(data), data.length),
				(statement, data) -> statement.setBinaryStream(1, new ByteArrayInputStream(data), (long) data.length));
		Drivers.execute(db, "INSERT INTO docs (id) VALUES (201)");
		try (var update = db.prepareStatement("UPDATE docs SET document = ? WHERE id = 201");
				var select = db.prepareStatement("SELECT document FROM docs WHERE id = 201")) {
			for (Setter setter : setters)
				for (Payload payload : Payload.small().subList(1, 7)) {
					setter.set(update, payload.data());
					update.executeUpdate();
					check(201, payload.data());
					ResultSet row = select.executeQuery();
					row.next();
					Payload.same(row.getBinaryStream(1).readAllBytes(), payload.data());
					Payload.same((byte[]) row.getObject(1), payload.data());
					Payload.same(row.getObject(1, byte[].class), payload.data());
				}
		}
	}

	private void setNull() throws Exception {
		try (var update = db.prepareStatement("UPDATE docs SET document = ? WHERE id = 201")) {
			for (int type : new int[] { Types.BINARY, Types.VARBINARY, Types.LONGVARBINARY, Types.NULL, Types.OTHER }) {
				Drivers.execute(db, "UPDATE docs SET document = 'x' WHERE id = 201");
				update.setNull(1, type);
				update.executeUpdate();
				check(201, null);
			}
		}
	}

	private void batch(String option) throws Exception {
		try (Connection other = Drivers.connect(option);
				var insert = other.prepareStatement("INSERT INTO docs (id, document) VALUES (?, ?)")) {
			for (int round = 0; round < 3; round++) {
				long id = 300;
				for (Payload payload : Payload.small()) {
					insert.setLong(1, id++);
					insert.setBytes(2, payload.data());
					insert.addBatch();
				}
				insert.executeBatch();
				checkAll(300);
				Drivers.execute(db, "DELETE FROM docs WHERE id BETWEEN 300 AND 399");
			}
		}
	}

	private void updatable() throws Exception {
		try (var statement = db.createStatement(ResultSet.TYPE_SCROLL_INSENSITIVE, ResultSet.CONCUR_UPDATABLE);
				ResultSet rows = statement.executeQuery(
						"SELECT id, document FROM docs WHERE id BETWEEN 400 AND 499 ORDER BY id")) {
			long id = 400;
			for (Payload payload : Payload.small()) {
				rows.moveToInsertRow();
				rows.updateLong(1, id);
				rows.updateBytes(2, payload.data());
				rows.insertRow();
				check(id++, payload.data());
			}
			rows.first();
			for (Payload payload : Payload.small().subList(1, 7)) {
				rows.updateBinaryStream(2, new ByteArrayInputStream(payload.data()), payload.data().length);
				rows.updateRow();
				Payload.same(rows.getBytes(2), payload.data());
				rows.refreshRow();
				Payload.same(rows.getBytes(2), payload.data());
				check(400, payload.data());
			}
			rows.updateNull(2);
			rows.updateRow();
			check(400, null);
		}
	}

	private void upsert() throws Exception {
		try (var upsert = db.prepareStatement("""
				INSERT INTO docs (id, document) VALUES (500, ?)
				ON CONFLICT (id) DO UPDATE SET document = EXCLUDED.document RETURNING document""")) {
			for (Payload payload : Payload.small()) {
				upsert.setBytes(1, payload.data());
				ResultSet row = upsert.executeQuery();
				row.next();
				Payload.same(row.getBytes(1), payload.data());
				check(500, payload.data());
			}
		}
	}

	private void generatedKeys() throws Exception {
		try (var update = db.prepareStatement("UPDATE docs SET document = ? WHERE id = 500",
				new String[] { "id", "document" })) {
			for (Payload payload : Payload.small()) {
				update.setBytes(1, payload.data());
				update.executeUpdate();
				ResultSet row = update.getGeneratedKeys();
				row.next();
				Payload.same(row.getBytes("document"), payload.data());
			}
		}
	}

	private void find() throws Exception {
		try (var select = db.prepareStatement("SELECT min(id) FROM docs WHERE document = ?")) {
			for (int id = 1; id < Payload.small().size(); id++) {
				select.setBytes(1, Payload.small().get(id).data());
				ResultSet row = select.executeQuery();
				row.next();
				Payload.equal(row.getInt(1), id);
			}
		}
	}

	private void arrays() throws Exception {
		byte[][] documents = Payload.small().stream().map(Payload::data).toArray(byte[][]::new);
		try (var insert = db.prepareStatement(
				"INSERT INTO docs (id, document) SELECT 599 + n, d FROM unnest(?::bytea[]) WITH ORDINALITY AS u (d, n)");
				var select = db.prepareStatement("""
						SELECT array_agg(document::bytea ORDER BY id) FROM docs
						WHERE id BETWEEN 600 AND 699 AND document = ANY (?)""")) {
			insert.setArray(1, db.createArrayOf("bytea", documents));
			insert.executeUpdate();
			checkAll(600);
			for (int round = 0; round < 7; round++) {
				select.setArray(1, db.createArrayOf("bytea", documents));
				ResultSet row = select.executeQuery();
				row.next();
				byte[][] read = (byte[][]) row.getArray(1).getArray();
				Payload.equal(read.length, documents.length - 1);
				for (int i = 0; i < read.length; i++)
					Payload.same(read[i], documents[i + 1]);
			}
		}
	}

	private void callable() throws Exception {
		Drivers.execute(db, """
				CREATE FUNCTION document_of(bigint) RETURNS securefile LANGUAGE sql
				AS 'SELECT document FROM docs WHERE id = $1'""");
		try (var call = db.prepareCall("{? = call document_of(?)}")) {
			for (int id = 0; id < Payload.small().size(); id++) {
				call.registerOutParameter(1, Types.BINARY);
				call.setLong(2, id);
				call.execute();
				Payload.same(call.getBytes(1), Payload.small().get(id).data());
			}
		} finally {
			Drivers.execute(db, "DROP FUNCTION document_of");
		}
	}

	private void copy() throws Exception {
		StringBuilder lines = new StringBuilder();
		int id = 700;
		for (Payload payload : Payload.small())
			lines.append(id++).append('\t')
					.append(payload.data() == null ? "\\N" : "\\\\x" + HexFormat.of().formatHex(payload.data()))
					.append('\n');
		var manager = db.unwrap(PGConnection.class).getCopyAPI();
		manager.copyIn("COPY docs (id, document) FROM STDIN", new ByteArrayInputStream(lines.toString().getBytes()));
		checkAll(700);
		ByteArrayOutputStream out = new ByteArrayOutputStream();
		manager.copyOut("COPY (SELECT id, document FROM docs WHERE id BETWEEN 700 AND 799 ORDER BY id) TO STDOUT", out);
		Payload.equal(out.toString(), lines.toString());
	}

	private interface Refused {
		void run(PreparedStatement update) throws SQLException;
	}

	/** What is for large objects is refused, and says so. */
	private void blob() throws Exception {
		List<Refused> attempts = List.of(
				update -> update.setBlob(1, new ByteArrayInputStream(new byte[10])),
				update -> update.setNull(1, Types.BLOB));
		for (Refused attempt : attempts) {
			db.setAutoCommit(false); // large objects want it so
			try (var update = db.prepareStatement("UPDATE docs SET document = ? WHERE id = 201")) {
				attempt.run(update);
				update.executeUpdate();
				throw new AssertionError("it was taken");
			} catch (SQLException problem) {
				Payload.equal(problem.getSQLState(), "42804");
			} finally {
				db.rollback();
				db.setAutoCommit(true);
			}
		}
		try (ResultSet row = db.createStatement().executeQuery("SELECT document FROM docs WHERE id = 2")) {
			row.next();
			row.getBlob(1);
			throw new AssertionError("getBlob() gave something");
		} catch (SQLException problem) {
			Payload.equal(problem.getSQLState(), "22003");
		}
	}

	private void metadata() throws Exception {
		try (var select = db.prepareStatement("SELECT document FROM docs WHERE document = ?")) {
			var row = select.getMetaData();
			Payload.equal(row.getColumnTypeName(1), "bytea");
			Payload.equal(row.getColumnType(1), Types.BINARY);
			Payload.equal(row.getColumnClassName(1), "[B");
			var parameters = select.getParameterMetaData();
			Payload.equal(parameters.getParameterTypeName(1), "bytea");
			Payload.equal(parameters.getParameterType(1), Types.BINARY);
		}
	}

	private void columns() throws Exception {
		try (ResultSet row = db.getMetaData().getColumns(null, null, "docs", "document")) {
			row.next();
			Payload.equal(row.getString("TYPE_NAME"), "securefile");
			Payload.equal(row.getInt("DATA_TYPE"), Types.OTHER);
		}
	}
}
