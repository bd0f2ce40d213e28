/*-------------------------------------------------------------------------
 *
 * streams.h
 *	  What the benchmarks of streams share, over libpgsecurefile and COPY.
 *
 *-------------------------------------------------------------------------
 */
#ifndef BENCH_STREAMS_H
#define BENCH_STREAMS_H

#include <pgsecurefile.h>

/* Exit with the error of the handle if a result is one. */
extern void check_pgsf(pgsf *handle, int64_t result, const char *what);

/* A sink for pgsf_get_callback() that throws the bytes away. */
extern int	throw_away(void *arg, const void *bytes, size_t len);

/* Execute a COPY TO STDOUT and throw the rows away. */
extern void copy_out(const char *sql);

#endif							/* BENCH_STREAMS_H */
