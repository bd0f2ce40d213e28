/*-------------------------------------------------------------------------
 *
 * taken.c
 *	  A WARNING when a command takes the values of a column away: DROP COLUMN, and
 *	  ALTER COLUMN TYPE to another type.
 *
 * Programs that compare a model with the catalogs do either when they do not know the
 * type, and a drop is not to be undone after COMMIT.  So the object access hook tells of
 * the columns while they can still be looked at, and when the command is done, one
 * WARNING says how many values there were.
 *
 * Their number is an estimate: a DROP must not read a large table.  A few pages, all of
 * a small table, tell whether there are values; of a large table the statistics tell how
 * many.  That some pages have none does not mean that there are none: the WARNING then
 * says that their number is unknown.  Damage here is no reason to keep a column.
 *
 * DROP TABLE and the like drop no column.  DROP EXTENSION securefile, and whatever else takes the
 * type away, is for users who mean it: then sfi_ddl_objects() finds nothing in the end.
 *
 *-------------------------------------------------------------------------
 */
#include "base/base.h"

#include <math.h>

#include "access/htup_details.h"
#include "access/relation.h"
#include "access/tableam.h"
#include "catalog/pg_class.h"
#include "catalog/pg_statistic.h"
#include "ddl/command.h"
#include "pgstat.h"
#include "rows/rows.h"
#include "storage/bufmgr.h"
#include "storage/lmgr.h"
#include "utils/builtins.h"
#include "utils/lsyscache.h"
#include "utils/rel.h"
#include "utils/snapmgr.h"
#include "utils/syscache.h"

/* pages of one table, and of all tables of a command, that are looked at */
#define MOST_PAGES			32
#define MOST_PAGES_IN_ALL	1024

/* columns that the details of one WARNING name */
#define MOST_NAMED			10

/* How many values there are: so many, or about so many, or nobody knows. */
typedef struct Count
{
	double		values;
	bool		exact;
	bool		known;
} Count;

/* A column of one table; in the WARNING, of all tables that the command names by that name. */
typedef struct Taken
{
	Oid			table_oid;
	AttrNumber	attnum;
	bool		dropped;
	const char *table;
	const char *column;
	Oid			type;			/* its new type; InvalidOid: dropped */
	Count		count;
	BlockNumber pages;			/* that may be looked at; that were */
} Taken;

struct SfTakenColumns
{
	MemoryContext context;
	const char *table;			/* the one that ALTER TABLE names, or NULL */
	List	   *seen;			/* Taken, before the command is done */
	BlockNumber pages_left;
};

SfTakenColumns *
sfi_ddl_taken_begin(const Node *stmt)
{
	SfTakenColumns *taken;
	const AlterTableStmt *alter = (const AlterTableStmt *) stmt;

	if (!IsA(stmt, AlterTableStmt) && !IsA(stmt, DropStmt) && !IsA(stmt, DropOwnedStmt))
		return NULL;
	taken = palloc0(sizeof(SfTakenColumns));
	taken->context = CurrentMemoryContext;
	taken->pages_left = MOST_PAGES_IN_ALL;
	/* of a composite type, the columns are those of its typed tables */
	if (IsA(stmt, AlterTableStmt) && alter->objtype == OBJECT_TABLE)
		taken->table = pstrdup(alter->relation->relname);
	return taken;
}

/* ---- how many values there are ---- */

/* Values on some pages, which lie as far apart as they can. */
static double
count_on_pages(Relation rel, AttrNumber attnum, BlockNumber pages, BlockNumber npages)
{
	Snapshot	snapshot = RegisterSnapshot(GetLatestSnapshot());
	double		values = 0;

	SF_ASSERT(pages <= npages);
	for (BlockNumber i = 0; i < pages; i++)
	{
		BlockNumber page = (uint64) i * npages / pages;
		SfRows		rows = sf_rows_begin_range(rel, attnum, snapshot, page, 0, page + 1);

		while (sf_rows_next(&rows))
			values++;
		sf_rows_end(&rows);
	}
	UnregisterSnapshot(snapshot);
	return values;
}

/* The part of the rows that ANALYZE found to be NULL; less than 0: nothing is known. */
static double
null_fraction(Relation rel, AttrNumber attnum)
{
	HeapTuple	tuple = SearchSysCache3(STATRELATTINH, ObjectIdGetDatum(RelationGetRelid(rel)),
										Int16GetDatum(attnum), BoolGetDatum(false));
	double		fraction;

	if (!HeapTupleIsValid(tuple))
		return -1;
	fraction = ((Form_pg_statistic) GETSTRUCT(tuple))->stanullfrac;
	ReleaseSysCache(tuple);
	return rel->rd_rel->reltuples >= 0 ? fraction : -1;
}

static int64
table_counter(PGFunction counter, Oid table_oid)
{
	return DatumGetInt64(DirectFunctionCall1(counter, ObjectIdGetDatum(table_oid)));
}

/*
 * Has no row come or changed since ANALYZE?  Counters that were reset do not tell, and
 * this session may have changes that are not in them yet.
 */
static bool
is_as_analyzed(Oid table_oid)
{
	return pgstat_track_counts &&
		table_counter(pg_stat_get_analyze_count, table_oid) +
		table_counter(pg_stat_get_autoanalyze_count, table_oid) > 0 &&
		table_counter(pg_stat_get_mod_since_analyze, table_oid) == 0 &&
		table_counter(pg_stat_get_xact_tuples_inserted, table_oid) == 0 &&
		table_counter(pg_stat_get_xact_tuples_updated, table_oid) == 0;
}

/* Has the segment of the column bytes that a row may name?  That is exact. */
static bool
has_live_bytes(Oid table_oid, AttrNumber attnum)
{
	SfSegment  *seg = sf_space_open(table_oid, attnum, AccessShareLock, true);

	return seg != NULL && sf_space_usage(seg).live_bytes > 0;
}

/* A step of sf_base_guarded_read(); the command has locked the table. */
static void
count_values(void *arg)
{
	Taken	   *column = arg;
	Relation	rel = relation_open(column->table_oid, NoLock);
	Count	   *count = &column->count;
	BlockNumber npages = RelationGetNumberOfBlocks(rel);
	double		nulls = null_fraction(rel, column->attnum);
	double		by_statistics = nulls < 0 ? 0 : rint(rel->rd_rel->reltuples * (1 - nulls));

	SF_ASSERT(CheckRelationLockedByMe(rel, AccessShareLock, true));
	/* other access methods than heap need not have such scans */
	column->pages = rel->rd_tableam->scan_set_tidrange == NULL ? 0 : Min(npages, column->pages);
	count->values = count_on_pages(rel, column->attnum, column->pages, npages);
	count->exact = column->pages == npages;
	count->known = true;
	if (!count->exact && by_statistics > 0)
		count->values = by_statistics;
	else if (!count->exact && count->values > 0)
		count->values = rint(count->values * npages / column->pages);
	else if (!count->exact)
		count->known = nulls == 1 && is_as_analyzed(column->table_oid) &&
			!has_live_bytes(column->table_oid, column->attnum);
	relation_close(rel, NoLock);
}

/* Is it a table whose rows are read here, with the column that a hook tells of? */
static bool
may_have_values(Oid table_oid, AttrNumber attnum)
{
	int32		typmod = -1;

	return get_rel_relkind(table_oid) == RELKIND_RELATION &&
		get_rel_persistence(table_oid) != RELPERSISTENCE_TEMP &&
		sfi_ddl_is_securefile(get_atttype(table_oid, attnum), &typmod);
}

void
sfi_ddl_taken_note(Oid table_oid, AttrNumber attnum, bool dropped)
{
	SfTakenColumns *taken = sfi_ddl_command.taken;
	Taken		column = {.table_oid = table_oid, .attnum = attnum, .dropped = dropped};
	ErrorData  *error;
	MemoryContext old;
	Taken	   *seen;

	if (taken == NULL || sfi_ddl_objects() == NULL || !may_have_values(table_oid, attnum))
		return;
	SF_ASSERT(attnum > 0);
	column.pages = Min(MOST_PAGES, taken->pages_left);
	error = sf_base_guarded_read(count_values, &column);
	if (error != NULL)
	{
		FreeErrorData(error);
		column.count = (Count) {0};
	}
	SF_ASSERT(column.pages <= taken->pages_left);
	taken->pages_left -= column.pages;
	if (column.count.known && column.count.values == 0)
		return;

	old = MemoryContextSwitchTo(taken->context);
	column.table = taken->table != NULL ? taken->table : get_rel_name(table_oid);
	column.column = get_attname(table_oid, attnum, false);
	seen = palloc(sizeof(Taken));
	*seen = column;
	taken->seen = lappend(taken->seen, seen);
	MemoryContextSwitchTo(old);
}

/* ---- the WARNING ---- */

/* Are the values gone from the column, now that the command is done?  Sets its new type. */
static bool
is_taken(Taken *seen)
{
	int32		typmod = -1;

	if (seen->dropped)
		return SearchSysCacheExists1(RELOID, ObjectIdGetDatum(seen->table_oid));
	seen->type = get_atttype(seen->table_oid, seen->attnum);
	return OidIsValid(seen->type) && !sfi_ddl_is_securefile(seen->type, &typmod);
}

static Taken *
find_column(List *columns, const Taken *wanted)
{
	ListCell   *lc;

	foreach(lc, columns)
	{
		Taken	   *column = lfirst(lc);

		if (strcmp(column->table, wanted->table) == 0 &&
			strcmp(column->column, wanted->column) == 0 && column->type == wanted->type)
			return column;
	}
	return NULL;
}

/* The columns that were taken away, those of partitions and children together. */
static List *
taken_columns(List *seen)
{
	List	   *columns = NIL;
	ListCell   *lc;

	foreach(lc, seen)
	{
		Taken	   *one = lfirst(lc);
		Taken	   *column;

		if (!is_taken(one))
			continue;
		column = find_column(columns, one);
		if (column == NULL)
		{
			columns = lappend(columns, one);
			continue;
		}
		column->count.values += one->count.values;
		column->count.exact &= one->count.exact;
		column->count.known &= one->count.known;
	}
	return columns;
}

/* "3 values", "about 1200 values". */
static const char *
describe_count(Count count)
{
	if (!count.known)
		return "an unknown number of values";
	return psprintf("%s%.0f value%s", count.exact ? "" : "about ", count.values,
					count.values == 1 ? "" : "s");
}

static void
describe_column(StringInfo said, const Taken *column)
{
	const char *values = describe_count(column->count);

	if (OidIsValid(column->type))
		appendStringInfo(said, "column \"%s\" of table \"%s\", with %s, is now of type %s",
						 column->column, column->table, values, format_type_be(column->type));
	else
		appendStringInfo(said, "column \"%s\" of table \"%s\" was dropped with %s",
						 column->column, column->table, values);
}

/* One a line, as sentences. */
static const char *
describe_columns(List *columns)
{
	StringInfoData said;
	ListCell   *lc;

	/* there is a last line, whose end goes */
	SF_ASSERT(columns != NIL);
	initStringInfo(&said);
	foreach(lc, columns)
	{
		int			start = said.len;

		if (foreach_current_index(lc) == MOST_NAMED)
		{
			appendStringInfo(&said, "And %d more.\n", list_length(columns) - MOST_NAMED);
			break;
		}
		describe_column(&said, lfirst(lc));
		said.data[start] = 'C';
		appendStringInfoString(&said, ".\n");
	}
	said.data[said.len - 1] = '\0';
	return said.data;
}

/* Was any column dropped? */
static bool
any_dropped(List *columns)
{
	ListCell   *lc;

	foreach(lc, columns)
	{
		if (!OidIsValid(((Taken *) lfirst(lc))->type))
			return true;
	}
	return false;
}

void
sfi_ddl_taken_report(void)
{
	SfTakenColumns *taken = sfi_ddl_command.taken;
	List	   *columns = NIL;
	StringInfoData said;

	if (taken == NULL || taken->seen == NIL || sfi_ddl_objects() == NULL)
		return;
	columns = taken_columns(taken->seen);
	taken->seen = NIL;
	if (columns == NIL)
		return;
	initStringInfo(&said);
	if (list_length(columns) == 1)
		describe_column(&said, linitial(columns));
	else
		appendStringInfo(&said,
						 "%d columns of type securefile were dropped, or are now of other types, with their values",
						 list_length(columns));
	ereport(WARNING,
			(errcode(ERRCODE_WARNING),
			 errmsg_internal("%s", said.data),
			 list_length(columns) == 1 ? 0 :
			 errdetail_internal("%s", describe_columns(columns)),
			 any_dropped(columns) ?
			 errhint("Until the transaction ends, ROLLBACK brings them back. After that only a backup has them.") :
			 errhint("Until the transaction ends, ROLLBACK undoes this.")));
	pfree(said.data);
}
