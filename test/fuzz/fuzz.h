/*-------------------------------------------------------------------------
 *
 * fuzz.h
 *	  The parts that the fuzzers share: inputs change at random, and an input that led
 *	  through code not seen before is kept and changed further.
 *
 *	  PROGRAM SECONDS SEED [FILE ...]
 *
 * The files are inputs that found something once.  The code under test is compiled with
 * -fsanitize-coverage=trace-pc, and the whole program with the address and undefined
 * behaviour sanitizers, which stop it.  It leaves the input that stopped it in ./failed.
 *
 *-------------------------------------------------------------------------
 */
#ifndef SF_TEST_FUZZ_H
#define SF_TEST_FUZZ_H

#include <stdint.h>
#include <stddef.h>

#define FUZZ_MAX_INPUT	9000

/* ---- defined by each fuzzer ---- */

/* Give the first inputs to fuzz_keep(). */
extern void fuzz_seeds(void);

/*
 * Try one input, in memory that ends behind its last byte.  Returns the decoder's answer:
 * its reason for refusing the input, or NULL if it took it.
 */
extern const char *fuzz_try(const uint8_t *bytes, size_t len);

/* ---- defined in fuzz.c ---- */

/* Keep a copy of an input, to be changed further. */
extern void fuzz_keep(const void *bytes, size_t len);

/* A random number from 0 to limit - 1. */
extern uint64_t fuzz_random(uint64_t limit);

/* Stop the program: decoded data contradict themselves. */
extern void fuzz_stop(const char *what) __attribute__((noreturn));

#endif							/* SF_TEST_FUZZ_H */
