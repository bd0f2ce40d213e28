/*-------------------------------------------------------------------------
 *
 * matcher.h
 *	  Where a pattern is in a text that comes in parts.
 *
 *-------------------------------------------------------------------------
 */
#ifndef SF_SQL_MATCHER_H
#define SF_SQL_MATCHER_H

#include "base/base.h"

typedef struct SfSqlMatcher SfSqlMatcher;

/*
 * Look for a pattern of at least one byte in a text of that length.  backwards: the last match
 * first, and the last part as well.  The pattern has to stay.  Lives in CurrentMemoryContext, and
 * ends with it, or by sfi_sql_match_end(); either wipes what is left of the text.  Its memory is
 * twice the pattern and 64 KB, where a match may cross two parts; backwards also the pattern and
 * a part.
 */
extern SfSqlMatcher *sfi_sql_match_begin(const char *pattern, int64 len, int64 text_length,
										 bool backwards);

/*
 * Give it the next part, some bytes or (NULL) zeros, which has to stay until all matches were
 * taken.  Zeros cost nothing, however many they are.
 */
extern void sfi_sql_match_feed(SfSqlMatcher *matcher, const char *bytes, int64 length);

/*
 * Take the next match: its offset in the text.  *count: so many begin one after the
 * other, each one byte further on (backwards: further back); more than one in zeros only.
 * False: it wants the next part.  May be cancelled.
 */
extern bool sfi_sql_match_next(SfSqlMatcher *matcher, int64 *offset, int64 *count);

extern void sfi_sql_match_end(SfSqlMatcher *matcher);

#endif							/* SF_SQL_MATCHER_H */
