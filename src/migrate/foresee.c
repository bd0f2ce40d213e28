/*-------------------------------------------------------------------------
 *
 * foresee.c
 *	  securefile_migrate_report(): what a migration would do, before anything is done.
 *
 * The procedure makes the same report before it begins, and stops where something in it
 * refuses; before the swap it looks at the dependents once more.
 *
 *-------------------------------------------------------------------------
 */
#include "base/base.h"

#include "access/detoast.h"
#include "access/table.h"
#include "catalog/pg_class.h"
#include "commands/defrem.h"
#include "executor/spi.h"
#include "fmgr.h"
#include "funcapi.h"
#include "migrate/migrate_internal.h"
#include "miscadmin.h"
#include "rows/rows.h"
#include "utils/builtins.h"
#include "utils/lsyscache.h"
#include "utils/memutils.h"
#include "utils/snapmgr.h"

PG_FUNCTION_INFO_V1(securefile_migrate_report);

/* What a bytea can hold. */
#define BYTEA_MOST_BYTES	((int64) MaxAllocSize - VARHDRSZ)

#define NUMBERS_SHOWN		10

#define NAME_IS_NEEDED	"Its name is needed for a while: drop it, or rename it."

/* ---- the rows ---- */

/* Values of one kind: how many, and the first ones by their numbers. */
typedef struct Counted
{
	int64		n;
	StringInfoData numbers;
} Counted;

typedef struct RowsLook
{
	SfMigration *m;
	Relation	rel;
	AttrNumber	from;
	Oid			caller;
	int64		values;
	int64		bytes;
	Counted		too_long;
	Counted		missing;
	Counted		unreadable;
	Counted		foreign;		/* cannot be removed */
} RowsLook;

static void
count(Counted *counted, const char *number)
{
	if (counted->n < NUMBERS_SHOWN)
		appendStringInfo(&counted->numbers, "%s%s", counted->n > 0 ? ", " : "", number);
	else if (counted->n == NUMBERS_SHOWN)
		appendStringInfoString(&counted->numbers, ", ...");
	counted->n++;
}

static char *
place_of(TupleTableSlot *slot)
{
	return psprintf("(%u,%u)", ItemPointerGetBlockNumber(&slot->tts_tid),
					ItemPointerGetOffsetNumber(&slot->tts_tid));
}

/* The length of a large object that the owner and the caller can read; 0 and counted if not. */
static int64
look_at_object(RowsLook *look, Oid object)
{
	char	   *number = psprintf("%u", object);
	Oid			owner = sfi_contents_owner(object);
	SfContents *contents;
	int64		length;

	if (!OidIsValid(owner))
	{
		count(&look->missing, number);
		return 0;
	}
	if (look->m->options.unlink && !sfi_contents_removable(owner, look->m->owner))
		count(&look->foreign, number);
	if (!sfi_contents_readable(object, look->m->owner) ||
		!sfi_contents_readable(object, look->caller))
	{
		count(&look->unreadable, number);
		return 0;
	}
	contents = sfi_contents_open(SF_CONTENT_OBJECT, ObjectIdGetDatum(object));
	length = sfi_contents_length(contents);
	sfi_contents_close(contents);
	return length;
}

static int64
length_of(RowsLook *look, TupleTableSlot *slot, Datum value)
{
	SfContents *contents;
	int64		length;

	if (look->m->from == SF_CONTENT_OBJECT)
		return look_at_object(look, DatumGetObjectId(value));
	if (look->m->from == SF_CONTENT_BYTEA)
		return (int64) toast_raw_datum_size(value) - VARHDRSZ;
	contents = sfi_contents_open(look->m->from, value);
	length = sfi_contents_length(contents);
	sfi_contents_close(contents);
	if (look->m->to == SF_CONTENT_BYTEA && length > BYTEA_MOST_BYTES)
		count(&look->too_long, place_of(slot));
	return length;
}

/* A step of the owner. */
static void
look_at_rows(void *arg)
{
	RowsLook   *look = arg;
	Snapshot	snapshot = RegisterSnapshot(GetLatestSnapshot());
	MemoryContext context = CurrentMemoryContext;
	SfRows		rows;

	PushActiveSnapshot(snapshot);
	rows = sf_rows_begin(look->rel, look->from, snapshot);
	while (sf_rows_next(&rows))
	{
		int64		length = length_of(look, rows.slot, rows.value);

		look->values++;
		look->bytes += length;
	}
	sf_rows_end(&rows);
	PopActiveSnapshot();
	UnregisterSnapshot(snapshot);
	MemoryContextSwitchTo(context);
}

static void
begin_counted(Counted *counted)
{
	counted->n = 0;
	initStringInfo(&counted->numbers);
}

static List *
add_counted(List *findings, const Counted *counted, const char *kind, const char *what,
			const char *action, const char *advice)
{
	if (counted->n == 0)
		return findings;
	return lappend(findings,
				   sfi_migrate_finding(kind, psprintf(INT64_FORMAT " %s: %s", counted->n, what,
													  counted->numbers.data), action, advice));
}

static List *
add_rows(SfMigration *m, List *findings)
{
	RowsLook	look = {.m = m, .caller = GetUserId()};
	bool		takes_missing = m->options.missing_null && !m->not_null;

	begin_counted(&look.too_long);
	begin_counted(&look.missing);
	begin_counted(&look.unreadable);
	begin_counted(&look.foreign);
	look.rel = table_open(m->table_oid, AccessShareLock);
	look.from = get_attnum(m->table_oid, m->column);
	sf_rows_as_owner(look.rel, look_at_rows, &look);
	table_close(look.rel, AccessShareLock);
	findings = lappend(findings,
					   sfi_migrate_finding("space",
										   psprintf(INT64_FORMAT " values, " INT64_FORMAT " bytes",
													look.values, look.bytes), SF_ACTION_NOTE,
										   "The new column needs as much, until the old one is gone; so does WAL, but for filesystem_like_logging."));
	findings = add_counted(findings, &look.too_long, "value", "values longer than 1 GB, in rows",
						   SF_ACTION_REFUSES,
						   "A bytea cannot hold them. Migrate to oid, or shorten them.");
	findings = add_counted(findings, &look.missing, "large object", "numbers of no large object",
						   takes_missing ? SF_ACTION_LOST : SF_ACTION_REFUSES,
						   takes_missing ? "They become NULL."
						   : m->not_null ? "The column does not allow NULL in their place."
						   : "With missing => 'null' they become NULL.");
	findings = add_counted(findings, &look.unreadable, "large object",
						   "large objects that cannot be read", SF_ACTION_REFUSES,
						   "GRANT SELECT ON LARGE OBJECT to the owner of the table, and to the caller.");
	return add_counted(findings, &look.foreign, "large object", "large objects of others",
					   SF_ACTION_REFUSES,
					   "Only the owner of a large object removes it. Make the owner of the table their owner, or migrate without unlink.");
}

/* ---- the table ---- */

/* Publications that would send the new column while it grows. */
static List *
add_publications(SfMigration *m, List *findings)
{
	sfi_migrate_run(m, "SELECT DISTINCT p.pubname FROM pg_publication p"
					" LEFT JOIN pg_publication_rel r ON r.prpubid = p.oid AND r.prrelid = %u"
					" WHERE p.puballtables OR (r.oid IS NOT NULL AND r.prattrs IS NULL)"
					" OR EXISTS (SELECT FROM pg_publication_namespace n WHERE n.pnpubid = p.oid"
					" AND n.pnnspid = (SELECT relnamespace FROM pg_class WHERE oid = %u)) ORDER BY 1",
					m->table_oid, m->table_oid);
	for (uint64 i = 0; i < SPI_processed; i++)
	{
		char	   *name = SPI_getvalue(SPI_tuptable->vals[i], SPI_tuptable->tupdesc, 1);

		const char *action = m->options.published ? SF_ACTION_NOTE : SF_ACTION_REFUSES;

		char	   *advice =
			psprintf("Its subscribers need a column \"%s\" before this begins, for changes are sent with it. Add one there%s.", m->beside,
					 m->options.published ? "" : ", and call with published => true");

		findings = lappend(findings,
						   sfi_migrate_finding("publication", psprintf("publication %s", name),
											   action, advice));
	}
	return findings;
}

/* Properties of a column that are put back, or that are not. */
static List *
add_properties(SfMigration *m, List *findings)
{
	sfi_migrate_run(m, "SELECT CASE WHEN attacl IS NOT NULL THEN 'privileges' END,"
					" CASE WHEN col_description(attrelid, attnum) IS NOT NULL THEN 'comment' END,"
					" CASE WHEN attnotnull THEN 'NOT NULL' END,"
					" CASE WHEN attstattarget >= 0 THEN 'statistics target' END,"
					" CASE WHEN attstorage <> typstorage THEN 'storage' END,"
					" CASE WHEN attcompression <> '' THEN 'compression' END,"
					" CASE WHEN EXISTS (SELECT FROM pg_seclabel WHERE classoid = 'pg_class'::regclass AND objoid = attrelid AND objsubid = attnum) THEN 'security label' END,"
					" 'position' FROM pg_attribute a JOIN pg_type t ON t.oid = atttypid"
					" WHERE attrelid = %u AND attnum = %d", m->table_oid,
					get_attnum(m->table_oid, m->column));
	for (int i = 1; i <= 8 && SPI_processed > 0; i++)
	{
		char	   *property = SPI_getvalue(SPI_tuptable->vals[0], SPI_tuptable->tupdesc, i);

		if (property != NULL)
			findings = lappend(findings,
							   sfi_migrate_finding("property", property,
												   i <= 4 ? SF_ACTION_KEPT : SF_ACTION_LOST,
												   i == 8 ? "It becomes the last column." : ""));
	}
	return findings;
}

/* Indexes that the new type cannot have are lost; their definitions are told. */
static void
try_indexes(SfMigration *m, List *findings)
{
	ListCell   *lc;

	foreach(lc, findings)
	{
		SfFinding  *finding = lfirst(lc);
		char	   *problem;

		if (finding->what != SF_DEPENDS_INDEX || strcmp(finding->action, SF_ACTION_REBUILT) != 0)
			continue;
		problem = sfi_fit_problem(m, finding);
		if (problem == NULL)
			continue;
		finding->action = SF_ACTION_LOST;
		finding->detail = psprintf("The new type cannot have it (%s): %s", problem,
								   finding->detail);
	}
}

/* The values of a generated column are computed, and would be no more. */
static List *
add_generated(SfMigration *m, List *findings)
{
	AttrNumber	attnum = get_attnum(m->table_oid, m->column);

	if (get_attgenerated(m->table_oid, attnum) == '\0')
		return findings;
	return lappend(findings,
				   sfi_migrate_finding("generated column", psprintf("column %s", m->column),
									   SF_ACTION_REFUSES,
									   "It is generated. Make it a column of its own by ALTER TABLE .. ALTER COLUMN .. DROP EXPRESSION first, and let a trigger compute it."));
}

/* The names that the two columns will have meanwhile must be free. */
static List *
add_names(SfMigration *m, List *findings)
{
	const char *names[] = {m->beside, makeObjectName(m->column, NULL, "migrated")};

	for (int i = m->phase == SF_MIGRATE_NONE ? 0 : 1; i < lengthof(names); i++)
	{
		if (get_attnum(m->table_oid, names[i]) != InvalidAttrNumber)
			findings = lappend(findings,
							   sfi_migrate_finding("column", psprintf("column %s", names[i]),
												   SF_ACTION_REFUSES, NAME_IS_NEEDED));
	}
	return findings;
}

/* So must those of constraints and indexes that are made again. */
static List *
add_twins(SfMigration *m, List *dependents)
{
	List	   *findings = list_copy(dependents);
	ListCell   *lc;

	if (m->phase != SF_MIGRATE_NONE)
		return findings;
	foreach(lc, dependents)
	{
		SfFinding  *finding = lfirst(lc);

		if (sfi_rename_is_taken(m, finding))
			findings = lappend(findings,
							   sfi_migrate_finding(finding->kind,
												   psprintf("name %s", sfi_rename_twin(finding->name)),
												   SF_ACTION_REFUSES, NAME_IS_NEEDED));
	}
	return findings;
}

List *
sfi_migrate_report(SfMigration *m, bool with_rows)
{
	List	   *findings = add_names(m, sfi_migrate_dependents(m));

	try_indexes(m, findings);
	findings = add_generated(m, add_twins(m, findings));
	findings = add_publications(m, findings);
	findings = add_properties(m, findings);
	return with_rows ? add_rows(m, findings) : findings;
}

void
sfi_migrate_refuse(SfMigration *m, List *findings)
{
	StringInfoData detail;
	int			n = 0;
	ListCell   *lc;

	initStringInfo(&detail);
	foreach(lc, findings)
	{
		SfFinding  *finding = lfirst(lc);

		if (strcmp(finding->action, SF_ACTION_REFUSES) == 0)
			appendStringInfo(&detail, "%s%s: %s", n++ > 0 ? "\n" : "", finding->object,
							 finding->detail);
	}
	if (n > 0)
		ereport(ERROR,
				(errcode(ERRCODE_DEPENDENT_OBJECTS_STILL_EXIST),
				 errmsg("cannot migrate column \"%s\" of table %s", m->column, m->table),
				 errdetail_internal("%s", detail.data),
				 errhint("securefile_migrate_report() lists all that a migration meets.")));
}

/*
 * securefile_migrate_report(table regclass, column name, to_type text, missing text,
 *		unlink boolean, published boolean) returns setof record
 */
Datum
securefile_migrate_report(PG_FUNCTION_ARGS)
{
	SfMigration *m;
	ListCell   *lc;

	sf_base_refuse_nulls(fcinfo, 0, 1, "table and column");
	InitMaterializedSRF(fcinfo, 0);
	m = sfi_migrate_find(PG_GETARG_OID(0), NameStr(*PG_GETARG_NAME(1)),
						 PG_ARGISNULL(2) ? NULL : text_to_cstring(PG_GETARG_TEXT_PP(2)),
						 fcinfo->flinfo->fn_oid);
	m->options.missing_null = !PG_ARGISNULL(3) &&
		sfi_migrate_missing(text_to_cstring(PG_GETARG_TEXT_PP(3)));
	m->options.unlink = !PG_ARGISNULL(4) && PG_GETARG_BOOL(4);
	m->options.published = !PG_ARGISNULL(5) && PG_GETARG_BOOL(5);
	sfi_migrate_require_pair(m);
	SPI_connect();
	foreach(lc, sfi_migrate_report(m, true))
	{
		SfFinding  *finding = lfirst(lc);
		Datum		values[4];

		values[0] = CStringGetTextDatum(finding->kind);
		values[1] = CStringGetTextDatum(finding->object);
		values[2] = CStringGetTextDatum(finding->action);
		values[3] = CStringGetTextDatum(finding->detail);

		sf_base_put_row(fcinfo, values, NULL);
	}
	SPI_finish();
	PG_RETURN_NULL();
}
