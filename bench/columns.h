/*-------------------------------------------------------------------------
 *
 * columns.h
 *	  Columns that are compared: a table for each of them, whole values written and
 *	  read by prepared statements with binary parameters and results.
 *
 * A write begins with an empty table that has its space already: one untimed round
 * before was deleted, vacuumed and resolved, and nothing was cut off.  A read comes
 * after one untimed round of reads.  Between the columns the server makes a checkpoint,
 * so that no column pays for the dirty pages of another.
 *
 *-------------------------------------------------------------------------
 */
#ifndef BENCH_COLUMNS_H
#define BENCH_COLUMNS_H

#include <stdbool.h>

typedef struct Column
{
	const char *name;
	const char *type;
	const char *value;			/* expression to insert; $2 is the parameter */
	const char *storage;		/* further statements with the table's name, or NULL */
} Column;

/* Values to write or read, one after the other. */
typedef struct Load
{
	int			size_bytes;		/* of each */
	int			objects;
	int			per_commit;

	/* The bytes of object i, at least until the next call. */
	const char *(*bytes) (const struct Load *load, int i);
	void	   *source;			/* of the bytes */
} Load;

/* Make the tables of all columns anew, with their prepared statements; drop them. */
extern void make_columns(const Column *columns, int n);
extern void drop_columns(int n);

/* The name of a column's table, in memory that the next call uses again. */
extern const char *table_of(int column);

/* Delete what is in a column's table, and wait until its space can be used again. */
extern void empty_column(const Column *columns, int column);

/* Write all objects, after a checkpoint; seconds. */
extern double write_column(int column, const Load *load);

/* Read all objects; seconds.  check compares the bytes, and exits if they differ. */
extern double read_column(const Column *columns, int column, const Load *load, bool check);

#endif							/* BENCH_COLUMNS_H */
