/*-------------------------------------------------------------------------
 *
 * move_values.h
 *	  Moving values of a column to the front of its segment: what the files that move values share.
 *
 *-------------------------------------------------------------------------
 */
#ifndef SF_DDL_MOVE_VALUES_H
#define SF_DDL_MOVE_VALUES_H

#include "ddl/table_rows.h"

/* Where a segment could end. */
typedef struct SfMovePlan
{
	uint64		total_sectors;	/* where it ends now */
	uint64		fixed_end;		/* behind the last sector that cannot move */
	bool		is_fixed;		/* that is what the limit goes by */
	uint64		limit;			/* what reaches beyond it is to be moved, and
								 * fits below it */
	uint64		after_sectors;	/* about where it would end then */
} SfMovePlan;

/* Less than that part of a segment is not worth the work. */
#define SFI_WORTH_PART		10

/* ---- move_limit.c ---- */

/*
 * Look at all rows of a table, which is locked, without a change, and at the map pages of the
 * segment.  spare: so many sectors more are to be free below the limit.
 * DATA_CORRUPTED at a value whose place cannot be known.
 */
extern SfMovePlan sfi_ddl_move_plan(Relation rel, AttrNumber attnum, SfSegment *seg, uint64 spare);

/*
 * Do values that can move reach beyond a limit by now?  Sessions that store something there get a
 * second to end.  Looks at all rows, as sfi_ddl_move_plan().
 */
extern bool sfi_ddl_move_is_left(Relation rel, AttrNumber attnum, SfSegment *seg, uint64 limit);

/* Would a segment become so much shorter that it is worth the work? */
extern bool sfi_ddl_move_is_worth(const SfMovePlan *plan);

/*
 * Does a value, by its locator, share space with others, or may it?  Stored anew it would take
 * more space than before.
 */
extern bool sfi_ddl_move_is_shared(SfSegment *seg, const SfLocator *loc);

/* ---- move_pace.c ---- */

/*
 * Is there room for what a batch of a column that logs adds to WAL, twice, and for all that the
 * server keeps of it?  Else: the ERROR DISK_FULL, or a NOTICE.
 */
extern bool sfi_ddl_move_has_wal_room(const SfSegment *seg, uint64 batch_bytes);
SF_NORETURN extern void sfi_ddl_move_refuse_wal(void);
extern void sfi_ddl_move_note_wal(void);

/* Sleep until that time of sf_base_now_us().  Looks for interrupts. */
extern void sfi_ddl_move_sleep(uint64 until_us);

/*
 * Sleep until so many bytes since then are no more than that in a second; 0: no limit.  Between
 * two transactions.  Looks for interrupts.
 */
extern void sfi_ddl_move_pause(uint64 bytes, uint64 bytes_per_second, uint64 begin_us);

#endif							/* SF_DDL_MOVE_VALUES_H */
