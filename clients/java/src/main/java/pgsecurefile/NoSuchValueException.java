package pgsecurefile;

import java.sql.SQLException;

/** There is no such row, or it has NULL in the column.  Its SQLSTATE is 02000. */
public class NoSuchValueException extends SQLException {
	private static final long serialVersionUID = 1;

	/**
	 * An exception with a message.
	 *
	 * @param message what was looked for
	 */
	public NoSuchValueException(String message) {
		super(message, "02000");
	}
}
