package pgsecurefile;

import java.nio.ByteBuffer;
import java.sql.Connection;
import java.sql.DriverManager;
import java.sql.ResultSet;
import java.sql.SQLException;
import java.sql.Statement;
import java.util.Properties;
import java.util.Random;

/** The server of PGHOST, PGPORT, PGUSER and PGDATABASE: by TCP, without a password, a superuser. */
final class Server {
	private Server() {
	}

	private static String setting(String name, String other) {
		String value = System.getenv(name);
		return value == null || value.isEmpty() ? other : value;
	}

	static String host() {
		return setting("PGHOST", "127.0.0.1");
	}

	static int port() {
		return Integer.parseInt(setting("PGPORT", "5432"));
	}

	static String database() {
		return setting("PGDATABASE", "postgres");
	}

	static String user() {
		return setting("PGUSER", System.getProperty("user.name"));
	}

	static boolean isLong() {
		return !setting("PGSECUREFILE_LONG", "").isEmpty();
	}

	static String url(int port, String database) {
		return "jdbc:postgresql://" + host() + ":" + port + "/" + database;
	}

	static Connection connectTo(String url, String... options) throws SQLException {
		Properties properties = new Properties();
		properties.setProperty("user", user());
		for (int i = 0; i < options.length; i += 2)
			properties.setProperty(options[i], options[i + 1]);
		return DriverManager.getConnection(url, properties);
	}

	static Connection connect(String... options) throws SQLException {
		return connectTo(url(port(), database()), options);
	}

	static void execute(Connection db, String... commands) throws SQLException {
		try (Statement statement = db.createStatement()) {
			for (String command : commands)
				statement.execute(command);
		}
	}

	/** The first column of the first row as text; null for no row. */
	static String ask(Connection db, String query) throws SQLException {
		try (Statement statement = db.createStatement();
				ResultSet row = statement.executeQuery(query)) {
			return row.next() ? row.getString(1) : null;
		}
	}

	static byte[] bytes(long seed, int length) {
		byte[] bytes = new byte[length];
		new Random(seed).nextBytes(bytes);
		return bytes;
	}

	static byte[] readAll(SecureFileChannel channel) throws Exception {
		ByteBuffer all = ByteBuffer.allocate((int) channel.size());
		channel.position(0).read(all);
		return all.array();
	}
}
