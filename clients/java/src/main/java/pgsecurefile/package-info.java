/**
 * Values of PostgreSQL's type {@code securefile} as files, over pgJDBC and in constant memory.
 *
 * <p>{@link pgsecurefile.SecureFile} names one value of a table.  It stores and fetches whole
 * values, and opens the value as a channel, a stream or a Blob.
 */
package pgsecurefile;
