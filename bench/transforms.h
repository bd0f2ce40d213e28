/*-------------------------------------------------------------------------
 *
 * compress.h
 *	  The parts of the benchmark of compression.
 *
 * compress.c		whole values: 1 MB of each kind, small ones of JSON
 * long.c			values of 1 GB: streams, and a few bytes out of the middle
 * memory.c			what compression adds to the memory of a session
 * files.c			zstd without a database
 * goals.c			what was asked for
 *
 *-------------------------------------------------------------------------
 */
#ifndef BENCH_COMPRESS_H
#define BENCH_COMPRESS_H

#include <stdbool.h>

#include "columns.h"
#include "corpora.h"

/* The option words of a securefile column. */
typedef enum Level
{
	NOCOMPRESS,
	COMPRESS_LOW,
	COMPRESS_MEDIUM,
	COMPRESS_HIGH,
	LEVELS,
} Level;

extern const char *const level_words[LEVELS];

/* ---- long.c ---- */

/* Measure values of that many bytes, with the levels from NOCOMPRESS to highest. */
extern void bench_long(int64_t size, Level highest, int repeat);

/* ---- memory.c ---- */

/* Measure sessions that write and read values of each level, the longest of that size. */
extern void bench_memory(const char *conninfo, int64_t size);

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

#endif							/* BENCH_COMPRESS_H */
