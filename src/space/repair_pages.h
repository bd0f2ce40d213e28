/*-------------------------------------------------------------------------
 *
 * repair_pages.h
 *	  Pages of a segment made anew, or changed, by a repair.
 *
 * Audience: check/, which has found out what they have to say.
 *
 *-------------------------------------------------------------------------
 */
#ifndef SF_REPAIR_PAGES_H
#define SF_REPAIR_PAGES_H

#include "format/key.h"
#include "format/share.h"
#include "space/space.h"

/*
 * Steps of a repair.  The segment relation is locked (ShareRowExclusiveLock),
 * and all that follows holds for it: nobody writes, frees, grows or cuts.
 *
 * extend: give the relation that many pages, if it has less.
 * map: mark used (a bit a sector of that map page), and count again; used NULL: a new map page
 * in place of one that cannot be read; all of it that lies in the segment is used.  ERROR
 * OBJECT_IN_USE when a transaction may be writing to sectors that change.
 * page: make a page a share page with that content; or, where content is NULL, put it, which
 * is in no list, into that of free pages.
 * collect: backends give back what they keep lent between transactions; data files
 * that end before the segment does are filled up where nothing is in use.
 * dictionary: have a sound one, by its first page, lead to that one before it, or to
 * SF_NO_PAGE.
 * keys: make both key pages say that, and the header name them; pages 0 are new ones.
 * header: raise what is given out next, and the end; lower_next_page: that one is wrong, and
 * becomes next_page, behind which there are no pages; lower_end: the same of total_sectors,
 * behind which there are no files; forget_lists: no pending, history
 * and free pages any more; forget_removed: no records of removed values; forget_advice: no advice
 * on duplicates.  These pages are nobody's then: the caller sets such pages free, and knows which
 * of them are in a list of free pages already.
 */
typedef struct SfHeaderRepair
{
	uint64		next_object_id;
	uint64		next_stamp;
	uint64		total_sectors;
	uint32		next_page;
	bool		lower_next_page;
	bool		lower_end;
	bool		forget_lists;
	bool		forget_removed;
	bool		change_dictionary;	/* dictionary becomes the newest one .. */
	uint32		dictionary;		/* .. its first page, or 0 */
	uint32		last_dictionary;	/* numbers have been given out up to it */
	bool		change_share_head;
	uint32		share_head;		/* first share page, or 0 */
	bool		forget_advice;
} SfHeaderRepair;

extern void sf_space_repair_extend(SfSegment *seg, uint32 npages);
extern void sf_space_repair_dictionary(SfSegment *seg, uint32 first_page, uint32 before);
extern void sf_space_repair_keys(SfSegment *seg, const uint32 pages[2], const SfKeyPage *keys);
extern void sf_space_repair_map(SfSegment *seg, uint32 map, const uint8 *used);
extern void sf_space_repair_page(SfSegment *seg, uint32 page, const SfSharePage *content);
extern void sf_space_repair_collect(SfSegment *seg);
extern void sf_space_repair_header(SfSegment *seg, SfHeaderRepair repair);

#endif							/* SF_REPAIR_PAGES_H */
