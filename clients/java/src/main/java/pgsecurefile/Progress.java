package pgsecurefile;

/** Is told how far a transfer has come. */
@FunctionalInterface
public interface Progress {
	/**
	 * Called after each piece; an exception that it throws ends the transfer, and nothing is stored.
	 *
	 * @param done bytes that were transferred
	 * @param total bytes of the whole value, or -1 if that is not known
	 */
	void moved(long done, long total);
}
