/*-------------------------------------------------------------------------
 *
 * dictionary_pages.h
 *	  Dictionaries of a segment, for the codec "trained" (dictionary_pages.c).
 *
 * Audience: write/ and read/, which use them; sql/, which makes one; ddl/, which takes the
 * newest one along to new storage; check/.
 *
 *-------------------------------------------------------------------------
 */
#ifndef SF_DICTIONARY_PAGES_H
#define SF_DICTIONARY_PAGES_H

#include "space/space.h"
#include "transform/transform.h"

/*
 * The segment is open and locked: AccessShareLock, to add RowExclusiveLock.  All of these
 * throw DATA_CORRUPTED when a page is damaged.
 */

/*
 * A dictionary of a segment, in the form that the codec needs; NULL when the segment
 * has none of that number.  The segment is opened if the process has not met the dictionary
 * yet.  The result is good until the next call of this function or the next one.
 * OUT_OF_MEMORY; UNDEFINED_OBJECT when that segment is gone.
 */
extern SfDictionary *sf_space_dictionary(const SfHome *home, uint32 number);

/*
 * The newest dictionary of a column, and the segment that has it, for a value that is to be
 * written; NULL: there is none.  Costs nothing while the catalog does not change.
 * Otherwise opens the segment, and locks it until the transaction ends.  A writer takes
 * RowExclusiveLock.
 */
extern SfDictionary *sf_space_trained(Oid table_oid, AttrNumber attnum, LOCKMODE lockmode,
									  SfHome *home);

/*
 * Read all of the dictionary whose first page that is.  Its number, and the first page of
 * the dictionary before (or SF_NO_PAGE), are set as soon as its first page has been read.
 * visit is told each page before it is read.
 */
typedef void (*SfDictionaryVisit) (uint32 page, void *arg);
extern void sf_space_dictionary_at(SfSegment *seg, uint32 page, SfDictionaryVisit visit,
								   void *arg, uint32 *number, uint32 *before);

/* A dictionary as it is stored. */
typedef struct SfDictionaryBytes
{
	char	   *bytes;
	uint32		len;
} SfDictionaryBytes;

/*
 * Add a dictionary of what sf_transform_train() has made, and return its number, which is
 * written into the bytes.  Of NULL nothing is done.  It is there for all from now on, and
 * whether this transaction commits or not.  PROGRAM_LIMIT_EXCEEDED when there are
 * SF_DICTIONARY_MAX already.
 */
extern uint32 sf_space_add_dictionary(SfSegment *seg, const SfDictionaryBytes *made);

/*
 * The newest dictionary of storage that is going to be replaced, to be added to the new storage
 * of its column.  NULL when there is none, or the column does not use dictionaries.  One that
 * cannot be read is left behind, with a WARNING: it must not be in the way of a TRUNCATE.
 */
extern SfDictionaryBytes *sf_space_fetch_dictionary(SfSegment *seg);

#endif							/* SF_DICTIONARY_PAGES_H */
