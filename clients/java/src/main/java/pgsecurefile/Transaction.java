package pgsecurefile;

import java.sql.Connection;
import java.sql.SQLException;

/** The caller's transaction, or with autocommit one that a channel begins and ends. */
final class Transaction {
	private final Connection connection;
	private boolean own;

	Transaction(Connection connection) throws SQLException {
		this.connection = connection;
		own = connection.getAutoCommit();
		if (own)
			connection.setAutoCommit(false);
	}

	void commit() throws SQLException {
		if (own) {
			connection.commit();
			own = false;
			connection.setAutoCommit(true);
		}
	}

	/** Whether there was a transaction to roll back; what fails is added to the problem, if any. */
	boolean rollBack(Throwable problem) {
		if (!own)
			return false;
		own = false;
		try {
			connection.rollback();
			connection.setAutoCommit(true);
		} catch (SQLException another) {
			if (problem != null)
				problem.addSuppressed(another);
		}
		return true;
	}
}
