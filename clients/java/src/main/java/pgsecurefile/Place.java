package pgsecurefile;

import java.sql.PreparedStatement;
import java.sql.ResultSet;
import java.sql.SQLException;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.StringJoiner;
import java.util.regex.Pattern;

/** Where a value lies: table, column, and the row's key or condition. */
final class Place {
	private static final String NAME = "(?:\"(?:[^\"]|\"\")+\"|[\\p{L}_][\\p{L}\\p{N}_$]*)";
	private static final Pattern AS_IN_SQL = Pattern.compile(NAME + "(?:\\." + NAME + ")?");

	private static final String SEVERAL_ROWS = "21000";

	final Link link;
	final String table;
	final String columnName;
	final String column;
	private final Map<String, Object> key;
	private final String condition;
	private final Object[] parameters;

	/** Other columns that are set with the value. */
	final Map<String, Object> values = new LinkedHashMap<>();

	/** key is a map, the value of a primary key of one column, or null if there is a condition. */
	Place(Link link, String table, String column, Object key, String condition, Object[] parameters) throws SQLException {
		this.link = link;
		this.table = quoteTable(table);
		columnName = column;
		this.column = Link.quote(column);
		this.key = condition != null ? null : keyOf(key);
		this.condition = condition != null ? "(" + condition + ")" : joined(this.key, " = ?", " AND ");
		this.parameters = condition != null ? parameters.clone() : this.key.values().toArray();
	}

	/** A name with a double quote in it is written as in SQL; else a dot is between schema and table. */
	private static String quoteTable(String table) {
		int dot = table.indexOf('.');
		if (table.indexOf('"') >= 0) {
			if (!AS_IN_SQL.matcher(table).matches())
				throw new IllegalArgumentException("not the name of a table, as SQL has it: " + table);
			return table;
		}
		if (dot < 0)
			return Link.quote(table);
		return Link.quote(table.substring(0, dot)) + "." + Link.quote(table.substring(dot + 1));
	}

	private Map<String, Object> keyOf(Object key) throws SQLException {
		Map<String, Object> columns = new LinkedHashMap<>();
		if (key instanceof Map) {
			((Map<?, ?>) key).forEach((name, value) -> columns.put((String) name, value));
			if (columns.isEmpty())
				throw new IllegalArgumentException("the key has no column");
			return columns;
		}
		List<String> primary = link.primaryKey(table);
		if (primary.size() != 1)
			throw new SQLException(table + " has no primary key of one column: give the key as a map, column to value", "42704");
		columns.put(primary.get(0), key);
		return columns;
	}

	private static String joined(Map<String, Object> columns, String after, String between) {
		StringJoiner all = new StringJoiner(between);
		for (String name : columns.keySet())
			all.add(Link.quote(name) + after);
		return all.toString();
	}

	NoSuchValueException missing() {
		return new NoSuchValueException("there is no value for " + this);
	}

	boolean hasKey() {
		return key != null;
	}

	@Override
	public String toString() {
		if (key == null)
			return table + " where " + condition;
		StringJoiner all = new StringJoiner(", ", table + ": ", "");
		key.forEach((name, value) -> all.add(name + " = " + value));
		return all.toString();
	}

	// ---- statements ----

	/** Takes the row that was found. */
	interface Row<T> {
		T take(ResultSet row) throws SQLException;
	}

	/**
	 * What take() makes of the row; null if there is none.  Several rows are an error.  Bytes come in
	 * binary, if there will be bytes.
	 */
	<T> T select(String columns, String tail, boolean bytes, Row<T> take) throws SQLException {
		String sql = "SELECT " + columns + " FROM " + table + " WHERE " + condition + " LIMIT 2" + tail;
		try (PreparedStatement statement = link.prepare(sql, parameters)) {
			if (bytes)
				link.preferBinary(statement);
			try (ResultSet row = statement.executeQuery()) {
				if (!row.next())
					return null;
				T taken = take.take(row);
				if (row.next())
					throw new SQLException("several rows fit " + this, SEVERAL_ROWS);
				return taken;
			}
		}
	}

	boolean exists() throws SQLException {
		return select("1", "", false, row -> true) != null;
	}

	private static Object[] both(Object[] first, Object[] second) {
		Object[] all = Arrays.copyOf(first, first.length + second.length);
		System.arraycopy(second, 0, all, first.length, second.length);
		return all;
	}

	/** Store a value, an expression with one parameter, in the row that is there, or in a new one. */
	void put(String expression, Object parameter) throws SQLException {
		if (!update(expression, parameter))
			insert(expression, parameter);
	}

	/** Whether there is a row.  The subquery is an error, and no row is changed, if there are several. */
	private boolean update(String expression, Object parameter) throws SQLException {
		String others = values.isEmpty() ? "" : ", " + joined(values, " = ?", ", ");
		String sql = "UPDATE " + table + " SET " + column + " = " + expression + others + " WHERE " + condition
				+ " AND (SELECT 1 FROM " + table + " WHERE " + condition + ") = 1";
		List<Object> all = new ArrayList<>(values.values());
		all.add(0, parameter);
		try (PreparedStatement update = link.prepare(sql, both(all.toArray(), both(parameters, parameters)))) {
			return update.executeUpdate() > 0;
		} catch (SQLException problem) {
			if (SEVERAL_ROWS.equals(problem.getSQLState()))
				throw new SQLException("several rows fit " + this, SEVERAL_ROWS, problem);
			throw problem;
		}
	}

	void insert(String expression, Object parameter) throws SQLException {
		if (key == null)
			throw missing();
		Map<String, Object> others = new LinkedHashMap<>(values);
		others.putAll(key);
		String sql = "INSERT INTO " + table + " (" + column + ", " + joined(others, "", ", ") + ") VALUES (" + expression
				+ ", ?".repeat(others.size()) + ")";
		link.execute(sql, both(new Object[] {parameter}, others.values().toArray()));
	}
}
