/*-------------------------------------------------------------------------
 *
 * unseen.c
 *	  Rows that came past the row triggers are given values of their own.
 *
 * C code can write rows by functions of the heap, which fire no trigger: a tool that fills a
 * new table with the rows of an old one, or an extension that moves rows.  Such a row has a
 * locator that belongs to another row, and its bytes would go with that row: at a DELETE, a
 * TRUNCATE or a DROP of a table that nobody thinks of any more.
 *
 * The server counts all rows that a transaction writes
 * (sf_server_visit_written()), and the triggers count those that they see (seen.c).  Before a
 * commit, where the two numbers differ, the rows that the transaction has written are looked
 * at, and what does not belong to them is copied, in the same transaction.  So no other one
 * ever sees such a row.  A value that cannot be copied, since its row is gone for good, is an
 * error of the function that reads it, and nothing is committed.
 *
 * The same is done for all rows of a table that was given another file (swapped.c), or pages that
 * the server counts no rows of (uncounted.c).
 *
 * A value in its own column may be another row's all the same: a row was copied within its
 * table.  It is the row's own
 *
 *	 if this transaction has stored it for a row, or
 *	 if a row had it that this transaction has deleted, or replaced, past the triggers as well:
 *		these would have freed it,
 *
 * and no other row that came has it.  Where triggers have freed values, too, a row that was there
 * before may have lost its value to the deletion of a copy.  Such a value is read, while this
 * transaction lasts, and stored again.  If both rows have lost it, nothing is committed.
 *
 *-------------------------------------------------------------------------
 */
#include "base/base.h"

#include "base/server.h"

#include "access/htup_details.h"
#include "access/relation.h"
#include "access/sysattr.h"
#include "access/tableam.h"
#include "access/xact.h"
#include "access/xlog.h"
#include "catalog/pg_class.h"
#include "ddl/command.h"
#include "ddl/ddl.h"
#include "ddl/table_rows.h"
#include "miscadmin.h"
#include "read/read.h"
#include "storage/lmgr.h"
#include "utils/hsearch.h"
#include "utils/inval.h"
#include "utils/memutils.h"
#include "utils/rel.h"
#include "utils/snapmgr.h"
#include "write/write.h"

/* What tells the value of a row from that of any other row of the column. */
typedef struct ValueKey
{
	uint64		object_id;
	uint64		reference_id;	/* of a shared object; 0: it is not shared */
	uint64		generation;
} ValueKey;

/* A value that a row had which went. */
typedef struct LeftValue
{
	ValueKey	key;
	bool		given_back;		/* by one of the rows */
} LeftValue;

/* The rows of a column that are looked at. */
typedef struct Arrivals
{
	Relation	rel;
	SfColumn	column;
	bool		all;			/* rows of the table may have any values; else
								 * those that this transaction wrote */
	bool		may_inherit;	/* rows went past the triggers, and only so */
	bool		may_have_lost;	/* triggers have freed values */
	uint64		incarnation;	/* of the segment; 0: there is none */
	HTAB	   *claimed;		/* values that rows were found to have */
	HTAB	   *left;			/* LeftValue */
	MemoryContext context;		/* of the tables */
} Arrivals;

/* ---- whose a value is ---- */

static ValueKey
key_of(const SfLocator *loc)
{
	ValueKey	key;

	memset(&key, 0, sizeof(key));
	key.object_id = loc->object_id;
	key.reference_id = loc->flags & SF_LOC_SHARED ? loc->share.reference_id : 0;
	key.generation = loc->generation;
	return key;
}

/* Has this transaction put the row there? */
static bool
is_written_by_us(TupleTableSlot *slot)
{
	bool		isnull;
	Datum		xmin = slot_getsysattr(slot, MinTransactionIdAttributeNumber, &isnull);

	return TransactionIdIsCurrentTransactionId(DatumGetTransactionId(xmin));
}

/* Has this transaction deleted the row, or replaced it? */
static bool
is_gone_by_us(TupleTableSlot *slot)
{
	bool		should_free;
	HeapTuple	tuple = ExecFetchSlotHeapTuple(slot, false, &should_free);
	bool		gone = sfi_ddl_is_gone_by_us(tuple);

	if (should_free)
		heap_freetuple(tuple);
	return gone;
}

/* The key of a value that lies in the segment; false: it does not. */
static bool
key_of_own(const Arrivals *arrivals, Datum value, ValueKey *key)
{
	struct varlena *stored = sfi_ddl_located(value);
	SfLocator	loc;

	if (stored == NULL ||
		!sfi_ddl_is_own(stored, arrivals->column.table_oid, arrivals->column.attnum))
		return false;
	loc = sf_object_locator(stored);
	*key = key_of(&loc);
	SF_ASSERT(key->object_id > 0);
	return true;
}

/* Has the version of a row that follows, which is put in another slot, the value as well? */
static bool
is_passed_on(const Arrivals *arrivals, HeapTuple tuple, const ValueKey *key,
			 TupleTableSlot *newer)
{
	ItemPointerData next = tuple->t_data->t_ctid;
	ValueKey	its;
	bool		isnull = true;
	Datum		value = (Datum) 0;

	if (ItemPointerIndicatesMovedPartitions(&next) || ItemPointerEquals(&next, &tuple->t_self) ||
		!table_tuple_fetch_row_version(arrivals->rel, &next, SnapshotAny, newer))
		return false;
	value = slot_getattr(newer, arrivals->column.attnum, &isnull);
	return !isnull && key_of_own(arrivals, value, &its) && memcmp(&its, key, sizeof(its)) == 0;
}

/*
 * Has a row that this transaction has deleted, or replaced, given its value back?  newer: a slot
 * for another row.
 */
static bool
has_given_back(const Arrivals *arrivals, TupleTableSlot *slot, const ValueKey *key,
			   TupleTableSlot *newer)
{
	bool		should_free;
	HeapTuple	tuple = ExecFetchSlotHeapTuple(slot, false, &should_free);
	bool		given_back = !sfi_ddl_is_own_command(HeapTupleHeaderGetCmax(tuple->t_data)) &&
		!is_passed_on(arrivals, tuple, key, newer);

	if (should_free)
		heap_freetuple(tuple);
	return given_back;
}

/*
 * A row and its copy went, both by commands: the place of their value was given back twice.  The
 * second time it may be somebody else's.
 */
static void
refuse_to_give_twice(const Arrivals *arrivals)
{
	ereport(ERROR,
			(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
			 errmsg("a row of table \"%s\" and a copy of it were both removed or changed",
					RelationGetRelationName(arrivals->rel)),
			 errdetail("A program has copied the row without the triggers of the table, so that both had one value in column \"%s\" in this transaction. Its space would be given back twice.",
					   sfi_ddl_column_name(arrivals->rel, arrivals->column.attnum)),
			 errhint("Copy rows in one transaction, and remove or change them in a later one.")));
}

/* Note the value of a row that went, if it lies in the segment. */
static void
note_left(Arrivals *arrivals, TupleTableSlot *slot, Datum value, TupleTableSlot *newer)
{
	ValueKey	key;
	LeftValue  *left;
	bool		found;

	if (!key_of_own(arrivals, value, &key))
		return;
	left = hash_search(arrivals->left, &key, HASH_ENTER, &found);
	if (!found)
		left->given_back = false;
	if (!arrivals->may_have_lost || !has_given_back(arrivals, slot, &key, newer))
		return;
	if (left->given_back)
		refuse_to_give_twice(arrivals);
	left->given_back = true;
}

/*
 * Look for all versions that this transaction has deleted or replaced.  A row inherits nothing
 * from a copy that was made meanwhile.
 */
static void
find_left(Arrivals *arrivals)
{
	TupleTableSlot *newer = table_slot_create(arrivals->rel, NULL);
	SfRows		rows = sf_rows_begin(arrivals->rel, arrivals->column.attnum, SnapshotAny);

	while (sf_rows_next(&rows))
	{
		if (is_gone_by_us(rows.slot) && (arrivals->may_have_lost || !is_written_by_us(rows.slot)))
			note_left(arrivals, rows.slot, rows.value, newer);
	}
	sf_rows_end(&rows);
	ExecDropSingleTupleTableSlot(newer);
}

/*
 * Is a value in the segment of its column the row's own?  To be asked once for each row.
 * is_new: this transaction has written the row.
 */
static bool
is_rows_own(Arrivals *arrivals, struct varlena *stored, bool is_new)
{
	SfLocator	loc = sf_object_locator(stored);
	ValueKey	key = key_of(&loc);
	bool		was_left;
	bool		found;

	SF_ASSERT(loc.table_oid == arrivals->column.table_oid);
	/* it is of before a TRUNCATE: the read of it says so */
	if (loc.incarnation != arrivals->incarnation)
		return false;
	if (arrivals->all)
		return true;
	was_left = hash_search(arrivals->left, &key, HASH_FIND, NULL) != NULL;
	if (!is_new)
		return !arrivals->may_have_lost || !was_left;
	(void) hash_search(arrivals->claimed, &key, HASH_ENTER, &found);
	if (found || sf_write_is_unconfirmed(stored))
		return false;
	return sf_write_is_confirmed(stored) || (arrivals->may_inherit && was_left);
}

/* Does the value of a row have to be stored for it? */
static bool
wants_home(Arrivals *arrivals, Datum value, bool is_new)
{
	const SfColumn *column = &arrivals->column;
	struct varlena *stored = sfi_ddl_stored(value);

	if (stored == NULL)
		return !sfi_ddl_may_stay_inline(column, value);
	if (!sfi_ddl_is_own(stored, column->table_oid, column->attnum))
		return true;
	return !sf_read_is_homed(stored) && !is_rows_own(arrivals, stored, is_new);
}

/* ---- the rows of a table ---- */

/* Look at the rows of one column; returns how many got a value. */
static int64
bring_column_home(Arrivals *arrivals, SfRowWriter *writer)
{
	Relation	rel = arrivals->rel;
	SfRows		rows = sf_rows_begin(rel, arrivals->column.attnum, writer->snapshot);
	SfRowContext context;
	int64		nrows = 0;

	SF_ASSERT(CheckRelationLockedByMe(rel, RowExclusiveLock, true));
	sfi_ddl_row_context_begin(&context, rel, arrivals->column.attnum);
	while (sf_rows_next(&rows))
	{
		bool		is_new = is_written_by_us(rows.slot);

		context.tid = rows.slot->tts_tid;
		if ((is_new || arrivals->all || arrivals->may_have_lost) &&
			wants_home(arrivals, rows.value, is_new) &&
			sfi_ddl_writer_store(writer, rows.slot, &arrivals->column, rows.value, &context))
			nrows++;
	}
	sfi_ddl_row_context_end(&context);
	sf_rows_end(&rows);
	return nrows;
}

/* Prepare for a column.  written: rows of the table, as the server counts them. */
static Arrivals
begin_arrivals(Relation rel, AttrNumber attnum, const SfServerWritten *written)
{
	Arrivals	arrivals = {.rel = rel, .column = sfi_ddl_column(rel, attnum)};
	SfSegment  *seg = sf_space_open(RelationGetRelid(rel), attnum, AccessShareLock, true);

	SF_ASSERT(written == NULL || written->table_oid == RelationGetRelid(rel));
	arrivals.all = written == NULL;
	arrivals.may_have_lost = written != NULL &&
		sfi_ddl_seen(RelationGetRelid(rel), attnum).went > 0;
	arrivals.may_inherit = written != NULL && written->went > 0 && !arrivals.may_have_lost;
	arrivals.incarnation = seg != NULL ? seg->incarnation : 0;
	arrivals.context = AllocSetContextCreate(CurrentMemoryContext, "securefile arrivals",
											 ALLOCSET_DEFAULT_SIZES);
	arrivals.claimed = sf_base_table("securefile values that rows have", sizeof(ValueKey),
									 sizeof(ValueKey), arrivals.context);
	arrivals.left = sf_base_table("securefile values that rows had", sizeof(ValueKey),
								  sizeof(LeftValue), arrivals.context);
	if (arrivals.may_inherit || arrivals.may_have_lost)
		find_left(&arrivals);
	return arrivals;
}

/* Arguments and result of bring_step(). */
typedef struct Homecoming
{
	Relation	rel;
	const SfServerWritten *written; /* NULL: all rows */
	int64		nvalues;
} Homecoming;

/* A step of sf_rows_as_owner(): index expressions are the owner's code. */
static void
bring_step(void *arg)
{
	Homecoming *coming = arg;
	List	   *columns = sfi_ddl_columns_of(coming->rel);
	ListCell   *lc;

	foreach(lc, columns)
	{
		Arrivals	arrivals = begin_arrivals(coming->rel, lfirst_int(lc), coming->written);
		SfRowWriter writer = sfi_ddl_writer_begin(coming->rel);
		CommandId	first = GetCurrentCommandId(false);

		writer.keeps_old = true;
		coming->nvalues += bring_column_home(&arrivals, &writer);
		sfi_ddl_note_own_commands(first, GetCurrentCommandId(false));
		sfi_ddl_writer_end(&writer);
		MemoryContextDelete(arrivals.context);
	}
}

/* An ErrorContextCallback: what is being done, which nobody has asked for. */
static void
explain(void *arg)
{
	Relation	rel = arg;

	errcontext("giving rows of table \"%s\", which were written without its triggers, values of their own",
			   RelationGetRelationName(rel));
}

/* What was written to one table. */
static void
keep_written(const SfServerWritten *written, void *arg)
{
	SfServerWritten *kept = arg;

	if (written->table_oid == kept->table_oid)
		*kept = *written;
}

void
sfi_ddl_see_column(Relation rel, AttrNumber attnum)
{
	SfServerWritten written = {RelationGetRelid(rel)};

	sf_server_visit_written(keep_written, &written);
	SF_ASSERT(written.table_oid == RelationGetRelid(rel));
	sfi_ddl_see(written.table_oid, attnum,
				written.came - sfi_ddl_seen(written.table_oid, attnum).came, 0);
}

/* Bring the rows of one table home: those of this transaction, or (written NULL) all. */
static void
bring_table_home(Oid table_oid, const SfServerWritten *written, LOCKMODE lockmode)
{
	Relation	rel = try_relation_open(table_oid, lockmode);
	Homecoming	coming = {.rel = rel, .written = written};
	ErrorContextCallback context = {error_context_stack, explain, rel};
	List	   *columns;
	ListCell   *lc;

	if (rel == NULL)
		return;
	error_context_stack = &context;
	columns = sfi_ddl_columns_of(rel);
	if (columns != NIL)
		sf_rows_as_owner(rel, bring_step, &coming);
	error_context_stack = context.previous;
	/* a background worker has nobody to tell but the log */
	if (coming.nvalues > 0)
		ereport(MyBackendType == B_BG_WORKER ? LOG : NOTICE,
				(errmsg_plural("%lld value was stored in table \"%s\" for a row that was written without its triggers",
							   "%lld values were stored in table \"%s\" for rows that were written without its triggers",
							   coming.nvalues, (long long) coming.nvalues,
							   RelationGetRelationName(rel)),
				 errdetail("A program has written these rows itself, with values of other rows or with plain ones. They have values of their own now.")));
	foreach(lc, columns)
		sfi_ddl_see_column(rel, lfirst_int(lc));
	relation_close(rel, NoLock);
}

/* ---- which tables ---- */

/*
 * Have the triggers missed rows, or does it look so?  Where a row has no AFTER trigger, more
 * may have been announced than came.
 */
static bool
is_suspect(Relation rel, const SfServerWritten *written)
{
	bool		permanent = rel->rd_rel->relpersistence == RELPERSISTENCE_PERMANENT;

	if (rel->rd_rel->relkind != RELKIND_RELATION)
		return false;
	for (AttrNumber attnum = 1; attnum <= RelationGetNumberOfAttributes(rel); attnum++)
	{
		int64		seen;

		if (!sfi_ddl_is_column(rel, attnum))
			continue;
		seen = sfi_ddl_seen(written->table_oid, attnum).came;
		if (permanent ? seen != written->came : seen < written->came)
			return true;
	}
	return false;
}

/*
 * Keep a table that looks so.  The transaction has it locked, since it has written rows there;
 * if not, what is kept is looked at again with a lock.
 */
static void
keep_suspect(const SfServerWritten *written, void *arg)
{
	List	  **suspects = arg;
	Relation	rel = written->came == 0 ? NULL : RelationIdGetRelation(written->table_oid);

	if (rel == NULL)
		return;
	if (is_suspect(rel, written))
	{
		SfServerWritten *kept = palloc(sizeof(SfServerWritten));

		*kept = *written;
		*suspects = lappend(*suspects, kept);
	}
	RelationClose(rel);
}

/*
 * Can this transaction have written rows with stored values?  It may do so without an xid where
 * even AccessExclusiveLock, which whole pages need, takes none.
 */
static bool
may_have_written(void)
{
	return (TransactionIdIsValid(GetTopTransactionIdIfAny()) || !XLogStandbyInfoActive()) &&
		!RecoveryInProgress() && sfi_ddl_noting() && OidIsValid(sfi_ddl_am_oid()) &&
		sfi_ddl_objects() != NULL;
}

/* Bring all rows of some tables home. */
static void
bring_tables_home(List *tables)
{
	ListCell   *lc;

	foreach(lc, tables)
		bring_table_home(lfirst_oid(lc), NULL, ShareRowExclusiveLock);
	list_free(tables);
}

/* Where nothing is counted, rows may have come, and gone, that nobody knows of. */
static void
bring_uncounted_home(void)
{
	ListCell   *lc;

	foreach(lc, sfi_ddl_uncounted())
	{
		SfServerWritten written = {.table_oid = lfirst_oid(lc), .came = 1, .went = 1};

		bring_table_home(written.table_oid, &written, RowExclusiveLock);
	}
}

void
sf_ddl_bring_home(void)
{
	List	   *suspects = NIL;
	ListCell   *lc;

	if (!may_have_written())
		return;
	/* others may have changed a table that has been unlocked */
	AcceptInvalidationMessages();
	sf_server_visit_written(keep_suspect, &suspects);
	foreach(lc, suspects)
	{
		const SfServerWritten *written = lfirst(lc);

		bring_table_home(written->table_oid, written, RowExclusiveLock);
	}
	list_free_deep(suspects);
	bring_uncounted_home();
	bring_tables_home(sfi_ddl_filled());
}

void
sf_ddl_bring_home_at_end(void)
{
	if (!may_have_written())
		return;
	sf_ddl_bring_home();
	bring_tables_home(sfi_ddl_swapped());
}
