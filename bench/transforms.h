/*-------------------------------------------------------------------------
 *
 * transforms.h
 *	  The parts of the benchmarks of compression, encryption and deduplication.
 *
 * compress.c		whole values: 1 MB of each kind, small ones of JSON
 * encrypt.c		whole values of 1 KB to 10 MB
 * deduplicate.c	contents that are new, and that come again; copies
 * arguments.c		what all of these are called with
 * rotation.c		new keys for old values
 * long.c			long values: streams, and a few bytes out of the middle
 * memory.c			what either adds to the memory of a session
 * files.c			zstd without a database
 * goals.c			what was asked for
 *
 *-------------------------------------------------------------------------
 */
#ifndef BENCH_TRANSFORMS_H
#define BENCH_TRANSFORMS_H

#include <stdbool.h>

#include "columns.h"
#include "corpora.h"

/* ---- arguments.c ---- */

typedef struct Arguments
{
	const char *directory;		/* with the data that bench/corpus has put there */
	const char *conninfo;
	int			repeat;
	bool		quick;
} Arguments;

/* Read the arguments, load the data, and connect; exits on failure. */
extern Arguments begin_transforms(const char *program, int argc, char **argv);

/* ---- long.c ---- */

#define COLUMNS_MAX		5

/* Long values, one in each of some columns, at most COLUMNS_MAX. */
typedef struct LongCase
{
	const Column *columns;		/* the first one is the yardstick */
	int			ncolumns;
	int64_t		size;
	int			repeat;
	double		read_goal;		/* MB/s of streams that are read; 0: none */
	bool		writes;			/* streams are written, too */
	bool		pieces;			/* a few bytes are read */
} LongCase;

extern void bench_long(const LongCase *what);

/* ---- memory.c ---- */

/*
 * Measure sessions that write and read values of each column, the longest of that size.
 * goals: how many MB more than that of the first column.
 */
extern void bench_memory(const char *conninfo, const Column *columns, const double *goals,
						 int n, int64_t size);

/* ---- rotation.c ---- */

/* Measure how long it takes to store values anew, and to wrap the keys of that many columns. */
extern void bench_rotation(const Column *column, int ncolumns, int objects, int repeat);

/* ---- files.c ---- */

/*
 * Compress each object in units of 128 KB with zstd's level 1, write it to a file of its
 * own in the directory, and flush the file; seconds.  The next round writes over the same
 * files, so that they have their space already.
 */
extern double write_files(const char *directory, const Load *load);

/* What was left after compression in the last round, as a part of the bytes. */
extern double stored_in_files(void);

/* ---- goals.c ---- */

typedef enum Direction
{
	AT_LEAST,
	AT_MOST,
} Direction;

/* Keep what was measured, and what was asked for, for the end. */
extern void note_goal(double measured, Direction direction, double wanted,
					  const char *format, ...) __attribute__((format(printf, 4, 5)));

/* Print them; false if a goal was missed. */
extern bool print_goals(void);

#endif							/* BENCH_TRANSFORMS_H */
