/*-------------------------------------------------------------------------
 *
 * assert.h
 *	  Assertions of securefile.
 *
 * Debian's server is built without assertions.  These run in every build with
 * fault points (FAULTS=1, which "make check" builds), and in every server that
 * runs its own.  A failure aborts the process, so the server restarts, and the
 * line in its log begins with "TRAP: ", as for the server's own.
 *
 * An assertion is about what this code has done.  What may be on disk, or comes
 * from a user, gets an ERROR.
 *
 *	 SF_ASSERT(condition)				something that the code relies on
 *	 SF_INVARIANT(name, condition)		one of the numbered invariants (S1, G2, ..)
 *
 *-------------------------------------------------------------------------
 */
#ifndef SF_ASSERT_H
#define SF_ASSERT_H

#include "c.h"

#if defined(SF_FAULTS) || defined(USE_ASSERT_CHECKING)
#define SF_ASSERTIONS	1
#define SF_INVARIANT_(name, condition) \
	do { \
		if (unlikely(!(condition))) \
			sf_base_assertion_failed(name, #condition, __FILE__, __LINE__); \
	} while (0)
#else
/* not evaluated, but compiled: what only assertions call is not unused */
#define SF_INVARIANT_(name, condition)	((void) (true || (condition)))
#endif

#define SF_ASSERT(condition)			SF_INVARIANT_("", condition)
#define SF_INVARIANT(name, condition)	SF_INVARIANT_(#name ": ", condition)

/* Write the line and abort.  May be called anywhere. */
SF_NORETURN extern void sf_base_assertion_failed(const char *name, const char *condition,
												 const char *file, int line);

#endif							/* SF_ASSERT_H */
