/*-------------------------------------------------------------------------
 *
 * removed_values.c
 *	  What was removed from a column that keeps it for a time: securefile_removed() lists it, and
 *	  securefile_purge() ends it.
 *
 * A value that is listed is the one that its row had.  Nothing protects it from its end: a later
 * read may find that it is gone.  To undelete it is to store it again, which copies its bytes.
 *
 * Rows that are gone have no row security.  So a role that is subject to policies of the table gets
 * no list.  The owner of a table with FORCE ROW LEVEL SECURITY is such a role.
 *
 *-------------------------------------------------------------------------
 */
#include "base/base.h"

#include "access/relation.h"
#include "access/xlog.h"
#include "check/check.h"
#include "funcapi.h"
#include "keys/keys.h"
#include "miscadmin.h"
#include "object/object.h"
#include "space/history.h"
#include "sql/maintain.h"
#include "utils/builtins.h"
#include "utils/jsonb.h"
#include "utils/lsyscache.h"
#include "utils/rls.h"
#include "utils/timestamp.h"
#include "utils/xid8.h"

PG_FUNCTION_INFO_V1(securefile_removed);
PG_FUNCTION_INFO_V1(securefile_purge);

#define REMOVED_COLUMNS	6

/* ---- securefile_removed(table regclass, column name, since timestamptz) ---- */

/* One column that is being listed. */
typedef struct Listing
{
	FunctionCallInfo fcinfo;
	SfSegment  *seg;
	TimestampTz since;			/* only what was removed at or after that */
	bool		shredded[SF_DATA_KEYS_MAX + 1]; /* by key id: nobody can read
												 * its values any more */
	MemoryContext row;			/* reset for each row */
} Listing;

static const char *
kind_word(uint8 kind)
{
	switch ((SfRemovedKind) kind)
	{
		case SF_REMOVED_DELETED:
			return "deleted";
		case SF_REMOVED_REPLACED:
			return "replaced";
		case SF_REMOVED_MOVED:
			return "moved";
	}
	pg_unreachable();
}

/* The key of a row, which the account trigger has made, as jsonb. */
static Datum
key_datum(const uint8 *key, int len)
{
	char	   *text = pnstrdup((const char *) key, len);

	return DirectFunctionCall1(jsonb_in, CStringGetDatum(text));
}

/* The value of a record, if it is one of the segment; else NULL. */
static struct varlena *
value_of(const SfSegment *seg, const SfRemovedRecord *record, SfLocator *loc)
{
	struct varlena *datum = sf_space_removed_value(record, loc);

	if (datum == NULL || loc->incarnation != seg->incarnation ||
		!sf_format_locator_tag_ok(loc, &seg->secret))
		return NULL;
	SF_ASSERT(loc->encoded != NULL);
	return datum;
}

static bool
is_shredded(const Listing *listing, uint16 key_id)
{
	return key_id <= SF_DATA_KEYS_MAX && listing->shredded[key_id];
}

/* An SfRemovedVisit. */
static bool
put_removed(const SfRemovedChunk *chunk, const SfRemovedRecord *record, void *arg)
{
	Listing    *listing = arg;
	MemoryContext old = MemoryContextSwitchTo(listing->row);
	Datum		values[REMOVED_COLUMNS];
	bool		nulls[REMOVED_COLUMNS] = {false};
	SfLocator	loc;
	const SfRemovedHead *head = &record->head;
	struct varlena *datum = value_of(listing->seg, record, &loc);

	if (datum != NULL && chunk->time_us >= listing->since &&
		!is_shredded(listing, loc.key_id))
	{
		values[0] = TimestampTzGetDatum(chunk->time_us);
		values[1] = FullTransactionIdGetDatum(FullTransactionIdFromU64(chunk->fxid));
		nulls[2] = head->key_bytes == 0;
		values[2] = nulls[2] ? (Datum) 0 : key_datum(record->bytes, head->key_bytes);
		values[3] = CStringGetTextDatum(kind_word(head->kind));
		values[4] = Int64GetDatum((int64) sf_locator_value_bytes(&loc));
		values[5] = PointerGetDatum(datum);
		sf_base_put_row(listing->fcinfo, values, nulls);
	}
	MemoryContextSwitchTo(old);
	MemoryContextReset(listing->row);
	return true;
}

/* ERROR where policies of a table count for the caller. */
static void
refuse_row_security(Oid table_oid)
{
	if (check_enable_rls(table_oid, InvalidOid, true) == RLS_ENABLED)
		ereport(ERROR,
				(errcode(ERRCODE_INSUFFICIENT_PRIVILEGE),
				 errmsg("removed values of table \"%s\" cannot be listed under row-level security",
						get_rel_name(table_oid)),
				 errdetail("Rows that are gone have no policies that could be asked."),
				 errhint("A role with BYPASSRLS that owns the table, or a superuser, can list them.")));
}

/*
 * What is shredded is gone with the commit of securefile_shred().  Its space is kept until its time
 * is over, beside that of values that can be read.
 */
static void
note_shredded(Listing *listing)
{
	SfKeyShown *keys;
	int			n = sf_keys_show(listing->seg, &keys);

	SF_ASSERT(n <= SF_DATA_KEYS_MAX);
	memset(listing->shredded, 0, sizeof(listing->shredded));
	for (int i = 0; i < n; i++)
		listing->shredded[keys[i].key_id] = keys[i].is_shredded;
}

/* List one column, if it keeps anything. */
static void
list_column(Listing *listing, const SfCheckColumn *column)
{
	SfSegment  *seg;
	int64		retention_us;

	if (!column->permanent)
		return;
	seg = sf_check_open_segment(column, AccessShareLock);
	SF_ASSERT(seg->table_oid == column->table_oid && seg->attnum == column->attnum);
	retention_us = sf_space_column(seg)->options.retention_us;
	listing->seg = seg;
	if (retention_us > 0)
	{
		note_shredded(listing);
		sf_space_visit_removed(seg, retention_us, put_removed, listing);
	}
	sf_space_release(seg);
}

/*
 * securefile_removed(table regclass, column name, since timestamptz)
 * returns setof (removed_at timestamptz, xid xid8, row_key jsonb, kind text, length bigint,
 *				  document securefile)
 */
Datum
securefile_removed(PG_FUNCTION_ARGS)
{
	Listing		listing = {.fcinfo = fcinfo};
	List	   *columns;
	List	   *tables;
	ListCell   *cell;

	sf_base_require_preload();
	sf_check_require_arguments(fcinfo, false);
	InitMaterializedSRF(fcinfo, 0);
	listing.since = PG_ARGISNULL(2) ? DT_NOBEGIN : PG_GETARG_TIMESTAMPTZ(2);
	listing.row = AllocSetContextCreate(CurrentMemoryContext, "securefile removed value",
										ALLOCSET_DEFAULT_SIZES);
	columns = sf_check_columns(fcinfo, AccessShareLock, false, &tables);
	SF_ASSERT(list_member_oid(tables, PG_GETARG_OID(0)));
	/* partitions that have partitions have policies, too */
	foreach(cell, tables)
		refuse_row_security(lfirst_oid(cell));
	foreach(cell, columns)
		list_column(&listing, lfirst(cell));
	MemoryContextDelete(listing.row);
	return (Datum) 0;
}

/* ---- securefile_purge(table regclass, column name, older_than interval) ---- */

/* Until when; PG_INT64_MAX: all. */
static int64
purge_until(Interval *older_than)
{
	int64		now_us = sf_base_steady_time();
	int64		until_us;

	until_us = DatumGetTimestampTz(DirectFunctionCall2(timestamptz_mi_interval,
													   TimestampTzGetDatum(now_us),
													   IntervalPGetDatum(older_than)));
	if (until_us > now_us)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("older_than must not be negative")));
	return until_us == now_us ? PG_INT64_MAX : until_us;
}

/* Purge one column; what was done is added to *work, and what has to wait to *pending_bytes. */
static void
purge_column(const SfCheckColumn *column, int64 until_us, SfMaintain *work, uint64 *pending_bytes)
{
	Relation	segrel = sf_space_open_resolved(sf_check_segment_relid(column), work);
	SfSegment  *seg;

	if (segrel == NULL)
		return;
	seg = sf_space_open_rel(segrel);
	work->sectors_freed = 0;
	sf_space_purge(seg, until_us, work);
	if (until_us == PG_INT64_MAX)
		*pending_bytes += sf_space_usage(seg).pending_bytes;
	relation_close(segrel, ShareUpdateExclusiveLock);
}

/* securefile_purge(table regclass, column name, older_than interval) returns bigint */
Datum
securefile_purge(PG_FUNCTION_ARGS)
{
	uint64		freed_sectors = 0;
	uint64		pending_bytes = 0;
	int64		until_us;
	List	   *columns;
	ListCell   *cell;

	SF_ASSERT(PG_NARGS() == 3);
	sf_base_require_preload();
	sf_base_refuse_nulls(fcinfo, 2, 2, "older_than");
	sf_check_require_arguments(fcinfo, false);
	PreventCommandDuringRecovery("securefile_purge()");
	sf_base_require_writes("securefile_purge()");
	sf_check_refuse_dropped("securefile_purge()", "what was kept");
	until_us = purge_until(PG_GETARG_INTERVAL_P(2));
	columns = sf_check_columns(fcinfo, AccessShareLock, false, NULL);
	foreach(cell, columns)
	{
		SfMaintain	work = {0};

		if (((SfCheckColumn *) lfirst(cell))->permanent)
			purge_column(lfirst(cell), until_us, &work, &pending_bytes);
		freed_sectors += work.sectors_freed;
	}
	/* what was purged does not come back with a crash */
	XLogFlush(XactLastRecEnd);
	if (pending_bytes > 0)
		ereport(NOTICE,
				(errmsg("%llu bytes of values are not free yet", (unsigned long long) pending_bytes),
				 errdetail("Transactions that go on, snapshots, prepared transactions or replication slots need them. They become free when these end.")));
	PG_RETURN_INT64(sf_sectors_to_bytes(freed_sectors));
}
