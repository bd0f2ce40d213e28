/*-------------------------------------------------------------------------
 *
 * corpora.h
 *	  Data of five kinds, which compress from a fifth of their length to nothing.
 *
 *-------------------------------------------------------------------------
 */
#ifndef BENCH_CORPORA_H
#define BENCH_CORPORA_H

#include <stddef.h>
#include <stdint.h>

#include "columns.h"

#define UNIT_SIZE		(128 * 1024)

typedef enum Kind
{
	PROSE,
	JSON,
	HEADERS,
	PROGRAMS,
	RANDOM,
	KINDS,
} Kind;

typedef struct Corpus
{
	const char *name;
	char	   *bytes;
	size_t		size;
} Corpus;

extern Corpus corpora[KINDS];

/*
 * Get the data of all kinds: from the files that bench/corpus has put into a directory,
 * and made here.  Exits if a file is not there, or too short.
 */
extern void load_corpora(const char *directory);

/*
 * For a Load whose source is a Corpus: its objects are parts of it, at equal distances.
 * They may overlap, since each of them is compressed by itself.
 */
extern const char *part_of_corpus(const Load *load, int i);

/*
 * A long value, as a stream: all of the prose, again and again.  Each unit begins with
 * its number, so that no two of them are the same.
 */
typedef struct LongValue
{
	int64_t		at;				/* bytes that were given out */
	int64_t		size;
} LongValue;

/* A source for pgsf_put_callback(): the next bytes of a LongValue. */
extern int64_t give_long_value(void *value, void *buf, size_t len);

#endif							/* BENCH_CORPORA_H */
