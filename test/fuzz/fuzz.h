/*-------------------------------------------------------------------------
 *
 * fuzz.h
 *	  What the fuzzers share: inputs that change at random, and those among them
 *	  kept and changed further that led through code not seen before.
 *
 *	  PROGRAM SECONDS SEED [FILE ...]
 *
 * The files are inputs that found something once.  Code under test is compiled with
 * -fsanitize-coverage=trace-pc, and all with the address and undefined behaviour
 * sanitizers, which stop the program; the input that it stopped at is in ./failed.
 *
 *-------------------------------------------------------------------------
 */
#ifndef SF_TEST_FUZZ_H
#define SF_TEST_FUZZ_H

#include <stdint.h>
#include <stddef.h>

#define FUZZ_MAX_INPUT	9000

/* ---- what each fuzzer has ---- */

/* Inputs to begin with, given to fuzz_keep(). */
extern void fuzz_seeds(void);

/*
 * Try one input, in memory that ends where it ends.  Returns the decoder's answer:
 * its reason for refusing it, or NULL when it took it.
 */
extern const char *fuzz_try(const uint8_t *bytes, size_t len);

/* ---- what all have ---- */

extern void fuzz_keep(const void *bytes, size_t len);
extern uint64_t fuzz_random(uint64_t limit);

/* What was decoded contradicts itself. */
extern void fuzz_stop(const char *what) __attribute__((noreturn));

#endif							/* SF_TEST_FUZZ_H */
