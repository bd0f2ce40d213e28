/*-------------------------------------------------------------------------
 *
 * common.h
 *	  What the benchmarks share: one connection, time, data, medians.
 *
 *-------------------------------------------------------------------------
 */
#ifndef BENCH_COMMON_H
#define BENCH_COMMON_H

#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include <libpq-fe.h>

#define MAX_REPEAT		25

extern PGconn *conn;

/* Connect, and have the extension; exits on failure, as all of these do. */
extern void open_connection(const char *conninfo);
extern void check_repeat(int repeat);
extern void die(const char *what);

extern double now(void);
extern void run(const char *sql);

/* Bytes that neither TOAST nor a disk can make smaller. */
extern void fill(char *buf, size_t size, uint64_t seed);

/* Wait for the monitor to give back the space of deleted values. */
extern void wait_for_space(const char *table, const char *column);

/* Of at most MAX_REPEAT values; sorted holds as many. */
extern void sort_times(double *sorted, const double *times, int n);
extern double median(const double *values, int n);

#endif							/* BENCH_COMMON_H */
