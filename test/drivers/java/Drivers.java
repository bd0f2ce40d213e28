import java.sql.Connection;
import java.sql.DriverManager;
import java.sql.SQLException;
import java.util.Properties;

/**
 * Writes and reads securefile columns with Java's drivers.
 *
 *	java Drivers stack ...
 *
 * The server is the one that PGHOST, PGPORT, PGUSER and PGDATABASE name; the database has
 * the extension, and no table "docs". Each stack makes that table and drops it. Prints
 * "ok - STACK: WHAT" or "not ok - STACK: WHAT: REASON" for each test.
 */
class Drivers {
	interface Test {
		void run() throws Exception;
	}

	private final String stack;
	private static boolean failed;

	Drivers(String stack) {
		this.stack = stack;
	}

	void run(String what, Test test) {
		try {
			test.run();
			System.out.printf("ok - %s: %s%n", stack, what);
		} catch (Exception | AssertionError problem) {
			failed = true;
			System.out.printf("not ok - %s: %s: %s%n", stack, what, problem.toString().replace('\n', ' '));
		}
	}

	static String url() {
		return String.format("jdbc:postgresql://%s:%s/%s", System.getenv("PGHOST"), System.getenv("PGPORT"),
				System.getenv("PGDATABASE"));
	}

	static Connection connect(String... options) throws SQLException {
		Properties properties = new Properties();
		properties.setProperty("user", System.getenv("PGUSER"));
		for (String option : options) {
			String[] parts = option.split("=", 2);
			properties.setProperty(parts[0], parts[1]);
		}
		return DriverManager.getConnection(url(), properties);
	}

	static void execute(Connection db, String sql) throws SQLException {
		try (var statement = db.createStatement()) {
			statement.execute(sql);
		}
	}

	public static void main(String[] stacks) {
		for (String stack : stacks) {
			Drivers tests = new Drivers(stack);
			tests.run("all tests ran", () -> {
				switch (stack) {
					case "pgjdbc" -> new PgJdbc(tests).runAll();
					case "hibernate" -> new Hibernate(tests).runAll();
					default -> throw new IllegalArgumentException("there is no such stack");
				}
			});
		}
		System.exit(failed ? 1 : 0);
	}
}
