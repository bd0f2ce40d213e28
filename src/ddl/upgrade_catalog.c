/*-------------------------------------------------------------------------
 *
 * upgrade_catalog.c
 *	  pg_upgrade: what it leaves to do in the catalogs of the new cluster.
 *
 * pg_upgrade makes tables from a dump, which has neither segments nor internal
 * triggers, and puts the old rows, with their locators, into them.  A table in
 * that state must not be written to: values would be copied without their
 * bytes, and nobody would free what rows lose.  So it gets triggers that refuse,
 * while pg_upgrade makes it, and securefile_upgrade_finish() replaces them.
 *
 *-------------------------------------------------------------------------
 */
#include "base/base.h"

#include "access/genam.h"
#include "access/htup_details.h"
#include "access/relation.h"
#include "access/table.h"
#include "access/transam.h"
#include "access/xact.h"
#include "catalog/namespace.h"
#include "catalog/pg_attribute.h"
#include "catalog/pg_class.h"
#include "ddl/command.h"
#include "ddl/table_rows.h"
#include "fmgr.h"
#include "funcapi.h"
#include "miscadmin.h"
#include "space/upgrade.h"
#include "storage/lmgr.h"
#include "utils/builtins.h"
#include "utils/lsyscache.h"
#include "utils/rel.h"

PG_FUNCTION_INFO_V1(securefile_upgrade_finish);

/* ---- while pg_upgrade runs ---- */

static void
guard_column(Relation rel, AttrNumber attnum)
{
	bool		permanent = rel->rd_rel->relpersistence == RELPERSISTENCE_PERMANENT;

	SF_ASSERT(CheckRelationLockedByMe(rel, ShareRowExclusiveLock, true));
	/* an unlogged table has its store trigger back, and is complete */
	for (SfTriggerKind kind = 0; kind < SF_TRIGGER_KINDS; kind++)
	{
		if (permanent || kind == SF_TRIGGER_STORE)
			sfi_ddl_trigger_create(RelationGetRelid(rel), attnum, kind, InvalidOid, permanent);
	}
}

void
sfi_ddl_upgrade_guard(Node *stmt)
{
	Relation	rel;
	ListCell   *lc;

	SF_ASSERT(IsBinaryUpgrade);
	if (!IsA(stmt, CreateStmt) || sfi_ddl_objects() == NULL)
		return;
	CommandCounterIncrement();
	rel = relation_openrv(((CreateStmt *) stmt)->relation, ShareRowExclusiveLock);
	foreach(lc, rel->rd_rel->relkind == RELKIND_RELATION ? sfi_ddl_columns_of(rel) : NIL)
		guard_column(rel, lfirst_int(lc));
	relation_close(rel, NoLock);
}

/* ---- afterwards ---- */

/* A column that has no segment yet. */
typedef struct Unfinished
{
	Oid			table_oid;
	AttrNumber	attnum;
} Unfinished;

/* Is this a securefile column of a permanent table that has no segment? */
static bool
is_unfinished(Form_pg_attribute att)
{
	int32		typmod = att->atttypmod;

	return att->attnum > 0 && !att->attisdropped && att->atttypid >= FirstNormalObjectId &&
		sfi_ddl_is_securefile(att->atttypid, &typmod) &&
		get_rel_relkind(att->attrelid) == RELKIND_RELATION &&
		get_rel_persistence(att->attrelid) == RELPERSISTENCE_PERMANENT &&
		!OidIsValid(sf_space_segment_relid(att->attrelid, att->attnum));
}

/* All columns of the database that have no segment (palloc'd Unfinished). */
static List *
unfinished_columns(void)
{
	Relation	rel = table_open(AttributeRelationId, AccessShareLock);
	SysScanDesc scan = systable_beginscan(rel, InvalidOid, false, NULL, 0, NULL);
	List	   *columns = NIL;
	HeapTuple	tuple;

	while (HeapTupleIsValid(tuple = systable_getnext(scan)))
	{
		Form_pg_attribute att = (Form_pg_attribute) GETSTRUCT(tuple);

		CHECK_FOR_INTERRUPTS();
		if (is_unfinished(att))
		{
			Unfinished *column = palloc(sizeof(Unfinished));

			column->table_oid = att->attrelid;
			column->attnum = att->attnum;
			columns = lappend(columns, column);
		}
	}
	systable_endscan(scan);
	table_close(rel, AccessShareLock);
	return columns;
}

/*
 * Storage that never had data has no files that could be moved; the column gets a
 * new segment when its table is brought in line.
 */
static bool
has_stored(const Unfinished *column)
{
	Relation	rel = relation_open(column->table_oid, NoLock);
	bool		found = sfi_ddl_rows_exist(rel, column->attnum, SF_ROWS_STORED);

	relation_close(rel, NoLock);
	return found;
}

/* ERROR: nothing that is here belongs to the column. */
static void
report_missing(const Unfinished *column, List *left)
{
	StringInfoData without;
	ListCell   *lc;

	initStringInfo(&without);
	foreach(lc, left)
	{
		SfOrphanedStorage *storage = lfirst(lc);

		if (!storage->has_pages)
			appendStringInfo(&without, " \"%s\"", sf_io_files_pattern(storage->storage));
	}
	ereport(ERROR,
			(errcode(ERRCODE_UNDEFINED_FILE),
			 errmsg("data files of column \"%s\" of table \"%s\" are not in this data directory",
					get_attname(column->table_oid, column->attnum, false),
					get_rel_name(column->table_oid)),
			 without.len == 0 ? 0 :
			 errdetail("There is no file \"pages\" beside%s.", without.data),
			 without.len == 0 ?
			 errhint("Move, link or copy directory \"pg_securefile\" from the old data directory, and those in tablespaces.") :
			 errhint("While pg_upgrade ran, the old server was without securefile in shared_preload_libraries, or without directory \"pg_securefile\". "
					 "For each of these directories make a hard link or a copy named \"pages\" of the old segment relation, "
					 "base/<database>/<number> in the old data directory, and of its further files (\"pages.1\" of <number>.1).")));
}

/*
 * The storage that pg_upgrade has brought for a column; NULL if the column has no
 * stored value and needs none.
 */
static SfOrphanedStorage *
find_orphaned(const Unfinished *column, List *left)
{
	SfOrphanedStorage *found = NULL;
	ListCell   *lc;

	foreach(lc, left)
	{
		SfOrphanedStorage *storage = lfirst(lc);

		if (!storage->has_pages || storage->header.table_oid != column->table_oid ||
			storage->header.attnum != column->attnum)
			continue;
		if (found != NULL)
			ereport(ERROR,
					(errcode(ERRCODE_DUPLICATE_FILE),
					 errmsg("both \"%s\" and \"%s\" belong to column \"%s\" of table \"%s\"",
							sf_io_files_pattern(found->storage),
							sf_io_files_pattern(storage->storage),
							get_attname(column->table_oid, column->attnum, false),
							get_rel_name(column->table_oid))));
		found = storage;
	}
	if (found == NULL && has_stored(column))
		report_missing(column, left);
	return found;
}

/* Make the segment of a column from storage that pg_upgrade has brought. */
static void
adopt(const Unfinished *column, SfOrphanedStorage *storage)
{
	const SfSegmentBirth birth = {
		.table_oid = column->table_oid,
		.attnum = column->attnum,
		.adopt = &storage->storage
	};

	SF_ASSERT(storage->has_pages && storage->header.table_oid == column->table_oid &&
			  storage->header.attnum == column->attnum);
	(void) sfi_ddl_segment_create(&birth);
}

static Datum
name_datum(const char *name)
{
	return DirectFunctionCall1(namein, CStringGetDatum(name));
}

static void
report_finished(FunctionCallInfo fcinfo, const Unfinished *column, int64 file_bytes)
{
	Oid			table_oid = column->table_oid;
	Datum		values[] = {
		name_datum(get_namespace_name(get_rel_namespace(table_oid))),
		name_datum(get_rel_name(table_oid)),
		name_datum(get_attname(table_oid, column->attnum, false)),
		ObjectIdGetDatum(table_oid),
		Int64GetDatum(file_bytes)
	};

	sf_base_put_row(fcinfo, values, NULL);
}

/* Give a column its segment, if there is one for it; the result gets a row. */
static void
finish_column(FunctionCallInfo fcinfo, const Unfinished *column, List *left)
{
	SfOrphanedStorage *storage;

	/* before anything is looked at: a DROP of the table comes first or waits */
	relation_close(relation_open(column->table_oid, ShareRowExclusiveLock), NoLock);
	storage = find_orphaned(column, left);

	sfi_ddl_triggers_drop(column->table_oid, column->attnum);
	if (storage != NULL)
		adopt(column, storage);
	SF_ASSERT(storage == NULL ||
			  OidIsValid(sf_space_segment_relid(column->table_oid, column->attnum)));
	report_finished(fcinfo, column,
					storage == NULL ? 0 : (int64) sf_io_files_size(storage->storage));
}

static void
require_finish_call(void)
{
	sf_base_require_superuser("finish an upgrade");
	sf_base_require_preload();
	sf_base_require_writes("securefile_upgrade_finish()");
	PreventInTransactionBlock(true, "securefile_upgrade_finish()");
}

/*
 * First all segments that are there, then new ones and the triggers: bringing a
 * table in line wants all of its columns.
 */
Datum
securefile_upgrade_finish(PG_FUNCTION_ARGS)
{
	List	   *columns;
	List	   *left;
	ListCell   *lc;

	require_finish_call();
	InitMaterializedSRF(fcinfo, 0);
	left = sf_space_upgrade_orphaned();
	columns = unfinished_columns();
	foreach(lc, columns)
		finish_column(fcinfo, lfirst(lc), left);
	sf_space_upgrade_finished();
	foreach(lc, columns)
		sfi_ddl_resync_table(((Unfinished *) lfirst(lc))->table_oid);
	PG_RETURN_NULL();
}
