package pgsecurefile;

import java.sql.Connection;
import java.sql.PreparedStatement;
import java.sql.ResultSet;
import java.sql.SQLException;
import java.util.ArrayList;
import java.util.Collections;
import java.util.List;
import java.util.Map;
import java.util.WeakHashMap;
import java.util.concurrent.ConcurrentHashMap;
import org.postgresql.PGConnection;
import org.postgresql.PGStatement;

/** A connection, and what its database says of the extension. */
final class Link {
	private static final String EXTENSION = "SELECT n.nspname FROM pg_catalog.pg_extension e"
			+ " JOIN pg_catalog.pg_namespace n ON n.oid = e.extnamespace WHERE e.extname = 'securefile'";

	private static final String PRIMARY_KEY = "SELECT a.attname FROM pg_catalog.pg_index i"
			+ " JOIN pg_catalog.pg_attribute a"
			+ " ON a.attrelid = i.indrelid AND a.attnum = ANY (i.indkey[0:i.indnkeyatts - 1])"
			+ " WHERE i.indrelid = CAST(? AS pg_catalog.regclass) AND i.indisprimary";

	/** What was asked once for each connection of the driver, which a pool lends again and again. */
	private static final Map<PGConnection, Known> KNOWN = Collections.synchronizedMap(new WeakHashMap<>());

	private static final class Known {
		final String schema;
		final Map<String, List<String>> primaryKeys = new ConcurrentHashMap<>();

		Known(String schema) {
			this.schema = schema;
		}
	}

	final Connection connection;
	final PGConnection driver;
	private final Known known;

	Link(Connection connection) throws SQLException {
		this.connection = connection;
		driver = connection.unwrap(PGConnection.class);
		Known found = KNOWN.get(driver);
		if (found == null) {
			List<String> schemas = names(EXTENSION);
			if (schemas.isEmpty())
				throw new SQLException("the database has no extension \"securefile\": CREATE EXTENSION securefile", "42704");
			found = new Known(quote(schemas.get(0)));
			KNOWN.put(driver, found);
		}
		known = found;
	}

	/** A function of the extension, with its schema. */
	String function(String name) {
		return known.schema + "." + name;
	}

	/** The columns of a table's primary key; for a table without one, none. */
	List<String> primaryKey(String table) throws SQLException {
		List<String> columns = known.primaryKeys.get(table);
		if (columns == null) {
			columns = names(PRIMARY_KEY, table);
			known.primaryKeys.put(table, columns);
		}
		return columns;
	}

	static String quote(String name) {
		return '"' + name.replace("\"", "\"\"") + '"';
	}

	// ---- statements ----

	PreparedStatement prepare(String sql, Object... parameters) throws SQLException {
		PreparedStatement statement = connection.prepareStatement(sql);
		try {
			for (int i = 0; i < parameters.length; i++) {
				if (parameters[i] instanceof byte[])
					statement.setBytes(i + 1, (byte[]) parameters[i]);
				else
					statement.setObject(i + 1, parameters[i]);
			}
			return statement;
		} catch (SQLException problem) {
			statement.close();
			throw problem;
		}
	}

	/** Bytes come in binary from the first execution on, unless the application switched that off. */
	void preferBinary(PreparedStatement statement) throws SQLException {
		if (driver.getPrepareThreshold() > 0)
			statement.unwrap(PGStatement.class).setPrepareThreshold(-1);
	}

	void execute(String sql, Object... parameters) throws SQLException {
		try (PreparedStatement statement = prepare(sql, parameters)) {
			statement.execute();
		}
	}

	private List<String> names(String sql, Object... parameters) throws SQLException {
		List<String> names = new ArrayList<>();
		try (PreparedStatement statement = prepare(sql, parameters);
				ResultSet rows = statement.executeQuery()) {
			while (rows.next())
				names.add(rows.getString(1));
		}
		return names;
	}
}
