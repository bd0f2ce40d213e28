/*-------------------------------------------------------------------------
 *
 * common.h
 *	  The parts that the benchmarks share: one connection, time, data, medians.
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

/* Connect, and create the extension if it is not there; all of these exit on failure. */
extern void open_connection(const char *conninfo);

/* Exit unless the number of repetitions is from 1 to MAX_REPEAT. */
extern void check_repeat(int repeat);

/* Print what failed and the error of the connection, and exit. */
extern void die(const char *what);

/* Seconds of a clock that only runs forward. */
extern double now(void);

/* Execute a statement whose result does not matter. */
extern void run(const char *sql);

/* Execute a query that gives one number. */
extern double get_number(const char *sql);

/* Execute a statement; bytes of WAL that the server has written meanwhile. */
extern double run_and_count_wal(const char *sql);

/* Bytes that neither TOAST nor a disk can make smaller. */
extern void fill(char *buf, size_t size, uint64_t seed);

/* Wait for the monitor to give back the space of deleted values. */
extern void wait_for_space(const char *table, const char *column);

/* Sort n times into sorted; the median of n values.  n is at most MAX_REPEAT. */
extern void sort_times(double *sorted, const double *times, int n);
extern double median(const double *values, int n);

/* The median of the ratios of times that were taken one after the other. */
extern double median_ratio(const double *times, const double *others, int n);

/*
 * Print a line with the median speed of n times, the least and the most; and, unless others
 * is NULL, how many times as fast they are as those.
 */
extern void print_speed(const char *what, const char *name, double mb, const double *times,
						const double *others, int n);

#endif							/* BENCH_COMMON_H */
