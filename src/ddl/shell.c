/*-------------------------------------------------------------------------
 *
 * shell.c
 *	  Shells of distributed tables give up their segments.
 *
 * A table becomes a shell (base/remote.c) by a function call of Citus that changes none
 * of its columns.  No hook tells of that, but for an internal trigger, by which Citus follows
 * TRUNCATE: it has the monitor woken.  The monitor asks for each segment whether its table
 * is a shell.  Sync finds the same, drops the segment, and leaves the trigger "store", without
 * which nothing may be written to a table.  On other nodes shells are made as such: there the
 * drain of their CREATE TABLE finds them.
 *
 *-------------------------------------------------------------------------
 */
#include "base/base.h"

#include "access/relation.h"
#include "ddl/command.h"
#include "ddl/ddl.h"
#include "ddl/objects.h"
#include "storage/bufmgr.h"
#include "storage/lmgr.h"
#include "utils/snapmgr.h"

/* This transaction made an internal trigger, or truncated a table, where there may be shells. */
static bool may_have_shell = false;

void
sfi_ddl_note_shell(void)
{
	may_have_shell |= sf_base_has_shells();
}

bool
sf_ddl_shells_at_end(void)
{
	bool		wake = may_have_shell;

	may_have_shell = false;
	return wake;
}

/*
 * Has a table, which is locked, no rows on disk?  Those that were there before it was
 * distributed stay, unseen, until somebody removes them.  False if it is gone.
 */
static bool
is_empty(Oid table_oid)
{
	Relation	rel = try_relation_open(table_oid, NoLock);
	bool		empty = rel != NULL && RelationGetNumberOfBlocks(rel) == 0;

	if (rel != NULL)
		relation_close(rel, NoLock);
	return empty;
}

/* Lock the table and its segments, if all of them are free. */
static bool
lock_all(Oid table_oid)
{
	ListCell   *lc;

	if (!ConditionalLockRelationOid(table_oid, AccessExclusiveLock))
		return false;
	foreach(lc, sfi_ddl_segments_of(table_oid))
	{
		SfTableSegment *segment = lfirst(lc);

		if (!ConditionalLockRelationOid(segment->relid, AccessExclusiveLock))
			return false;
	}
	return true;
}

bool
sf_ddl_tidy_shell(Oid table_oid)
{
	if (sfi_ddl_objects() == NULL || !sf_base_is_shell(table_oid))
		return false;
	/* with rows it stays, and its readers are not to be stopped each time */
	if (!ConditionalLockRelationOid(table_oid, AccessShareLock))
		return true;
	if (!is_empty(table_oid))
		return false;
	if (!lock_all(table_oid))
		return true;
	if (!is_empty(table_oid))
		return false;
	PushActiveSnapshot(GetTransactionSnapshot());
	sfi_ddl_resync_table(table_oid);
	PopActiveSnapshot();
	return false;
}
