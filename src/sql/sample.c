/*-------------------------------------------------------------------------
 *
 * sample.c
 *	  Rows of a table, all or some at random.
 *
 *-------------------------------------------------------------------------
 */
#include "base/base.h"

#include "access/table.h"
#include "catalog/pg_class.h"
#include "catalog/pg_inherits.h"
#include "ddl/ddl.h"
#include "executor/spi.h"
#include "miscadmin.h"
#include "sql/sample.h"
#include "storage/lmgr.h"
#include "utils/builtins.h"
#include "utils/lsyscache.h"
#include "utils/memutils.h"
#include "utils/rel.h"
#include "utils/snapmgr.h"
#include "utils/syscache.h"

#define MOST_ROWS	1000000

/* Argument 2, sample_rows. */
static int
rows_wanted(FunctionCallInfo fcinfo, int least, int usual)
{
	int			rows;

	sf_base_refuse_nulls(fcinfo, 0, 2, "table, column and sample_rows");
	rows = PG_GETARG_INT32(2);
	if (rows < least || rows > MOST_ROWS)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("sample_rows must be between %d and %d, not %d", least, MOST_ROWS, rows),
				 errhint("The default is %d.", usual)));
	return rows;
}

void
sfi_sample_begin(SfSample *sample, FunctionCallInfo fcinfo, int least, int usual)
{
	sample->rows = least > 0 ? rows_wanted(fcinfo, least, usual) : 0;
	sample->column = NameStr(*PG_GETARG_NAME(1));
	sample->context = CurrentMemoryContext;
	sample->value_context = AllocSetContextCreate(CurrentMemoryContext, "securefile sample",
												  ALLOCSET_DEFAULT_SIZES);
}

/* The number of the column, if the caller may take its values, or (owns) owns the table. */
static AttrNumber
find_column(Oid table_oid, const char *column, bool owns)
{
	char	   *table = get_rel_name(table_oid);
	char		relkind = get_rel_relkind(table_oid);
	AttrNumber	attnum;

	if (table == NULL)
		ereport(ERROR,
				(errcode(ERRCODE_UNDEFINED_TABLE),
				 errmsg("relation with OID %u does not exist", table_oid)));
	if (relkind != RELKIND_RELATION && relkind != RELKIND_PARTITIONED_TABLE)
		ereport(ERROR,
				(errcode(ERRCODE_WRONG_OBJECT_TYPE),
				 errmsg("\"%s\" is not a table", table),
				 errhint("Name the table that holds the values.")));
	sf_base_refuse_shell(table_oid);
	attnum = sf_ddl_find_column(table_oid, column);
	if (owns)
		sf_ddl_require_owner(table_oid);
	else
		sf_ddl_require_privilege(table_oid, attnum, ACL_SELECT);
	return attnum;
}

/* Asked again under the lock: before it, somebody may have changed the column, or the owner. */
AttrNumber
sfi_sample_open(SfSample *sample, Oid table_oid, bool owns)
{
	AttrNumber	attnum;

	(void) find_column(table_oid, sample->column, owns);
	sf_base_refuse_other_temp(table_oid);
	LockRelationOid(table_oid, owns ? ShareUpdateExclusiveLock : AccessShareLock);
	attnum = find_column(table_oid, sample->column, owns);
	sample->rel = table_open(table_oid, NoLock);
	return attnum;
}

/*
 * The tables whose rows a query takes: the one of the sample, and (not only) its children,
 * which are locked.
 */
static List *
tables_of(const SfSample *sample)
{
	Oid			table_oid = RelationGetRelid(sample->rel);
	List	   *tables = sample->only ? list_make1_oid(table_oid) :
		find_all_inheritors(table_oid, AccessShareLock, NULL);
	ListCell   *cell;

	SF_ASSERT(CheckRelationLockedByMe(sample->rel, AccessShareLock, true));
	foreach(cell, tables)
	{
		if (get_rel_relkind(lfirst_oid(cell)) == RELKIND_FOREIGN_TABLE)
			ereport(ERROR,
					(errcode(ERRCODE_WRONG_OBJECT_TYPE),
					 errmsg("\"%s\" is a foreign table", get_rel_name(lfirst_oid(cell))),
					 errdetail("Its values are stored elsewhere."),
					 errhint("Call the function for each of the other partitions or children.")));
		sf_base_refuse_shell(lfirst_oid(cell));
	}
	return tables;
}

/* Rows of the tables of a sample by the catalog; negative: not known. */
static double
known_rows(const List *tables)
{
	double		nrows = 0;
	bool		known = true;
	ListCell   *cell;

	foreach(cell, tables)
	{
		HeapTuple	tuple = SearchSysCache1(RELOID, ObjectIdGetDatum(lfirst_oid(cell)));
		Form_pg_class form;

		if (!HeapTupleIsValid(tuple))
			elog(ERROR, "could not find relation %u", lfirst_oid(cell));
		form = (Form_pg_class) GETSTRUCT(tuple);
		if (form->relkind == RELKIND_RELATION)
		{
			known = known && form->reltuples >= 0;
			nrows += form->reltuples;
		}
		ReleaseSysCache(tuple);
	}
	return known ? nrows : -1;
}

/* The part of the rows to look at, in per cent: so many that enough are hit by chance. */
static double
percentage(const SfSample *sample, double nrows)
{
	double		wanted = 2.0 * sample->rows + 20;

	return nrows > wanted ? 100 * wanted / nrows : 100;
}

/*
 * A query for values, in random order from so many per cent of the rows.  More rows are
 * looked at than wanted, so that rows at the end of the table are taken as often as others.
 */
static char *
part_query(const SfSample *sample, const char *table, double percent)
{
	const char *column = quote_identifier(sample->column);

	SF_ASSERT(percent > 0 && percent <= 100);
	return psprintf("SELECT %s FROM %s%s TABLESAMPLE pg_catalog.bernoulli (%g)"
					" WHERE %s IS NOT NULL ORDER BY pg_catalog.random() LIMIT %d",
					column, sample->only ? "ONLY " : "", table, percent, column, sample->rows);
}

/*
 * The query of a sample.  All names have their schemas, the sampling method too, since the
 * search_path is the caller's.  All rows are looked at where a part of them has too few
 * values, because the catalog's number of rows is old or many values are null.
 */
static char *
sample_query(const SfSample *sample)
{
	const char *schema = get_namespace_name(RelationGetNamespace(sample->rel));
	const char *table = quote_qualified_identifier(schema, RelationGetRelationName(sample->rel));
	const char *column = quote_identifier(sample->column);
	double		nrows = known_rows(tables_of(sample));
	double		percent = percentage(sample, nrows);

	if (sample->rows == 0)
		return psprintf("SELECT %s FROM %s WHERE %s IS NOT NULL", column, table, column);
	if (percent == 100)
		return part_query(sample, table, 100);
	return psprintf("WITH part AS MATERIALIZED (%s),"
					" counted AS (SELECT pg_catalog.count(*) OPERATOR(pg_catalog.=) %d AS enough FROM part)"
					" SELECT * FROM part WHERE (SELECT enough FROM counted)"
					" UNION ALL"
					" SELECT * FROM (%s) AS whole WHERE NOT (SELECT enough FROM counted)",
					part_query(sample, table, percent), sample->rows,
					part_query(sample, table, 100));
}

/* Does an error say that the data cannot be read, and not that the call cannot go on? */
static bool
is_about_data(const ErrorData *error)
{
	int			category = ERRCODE_TO_CATEGORY(error->sqlerrcode);

	return category == ERRCODE_TO_CATEGORY(ERRCODE_DATA_CORRUPTED) ||
		category == ERRCODE_TO_CATEGORY(ERRCODE_UNDEFINED_FILE);
}

/* Read the value at hand; false when its data cannot be read, which is counted. */
static bool
read_value(SfSample *sample, SfBaseStep read, void *arg)
{
	ErrorData  *error = sf_base_guarded(read, arg);

	if (error == NULL)
		return true;
	if (!is_about_data(error))
		ReThrowError(error);
	if (sample->damaged++ == 0)
		sample->problem = MemoryContextStrdup(sample->context, error->message);
	return false;
}

/* The row that the cursor has fetched. */
static void
take_row(SfSample *sample, SfBaseStep read, SfBaseStep count, void *arg)
{
	MemoryContext old = MemoryContextSwitchTo(sample->value_context);
	bool		isnull;

	CHECK_FOR_INTERRUPTS();
	sample->value = SPI_getbinval(SPI_tuptable->vals[0], SPI_tuptable->tupdesc, 1, &isnull);
	SF_ASSERT(!isnull);
	if (read_value(sample, read, arg))
		count(arg);
	sample->taken++;
	MemoryContextSwitchTo(old);
	MemoryContextReset(sample->value_context);
}

/* WARNING that damaged values are not in the result, unless there are none. */
static void
warn_of_damaged(const SfSample *sample)
{
	SF_ASSERT(sample->damaged <= sample->taken);
	SF_ASSERT((sample->damaged > 0) == (sample->problem != NULL));
	if (sample->damaged > 0)
		ereport(WARNING,
				(errcode(ERRCODE_DATA_CORRUPTED),
				 errmsg_plural("%lld damaged value of column \"%s\" of table \"%s\" was passed over",
							   "%lld damaged values of column \"%s\" of table \"%s\" were passed over",
							   (long) sample->damaged, (long long) sample->damaged, sample->column,
							   RelationGetRelationName(sample->rel)),
				 errdetail("The first one: %s.", sample->problem),
				 errhint("securefile_check() lists the damaged values of a column.")));
}

/*
 * The snapshot is taken after the lock: a transaction that had the lock before may have
 * written all rows anew.  A cursor gives the values one by one, so that they are never all in
 * memory.
 */
void
sfi_sample_take(SfSample *sample, SfBaseStep read, SfBaseStep count, void *arg)
{
	const char *query = sample_query(sample);
	Portal		cursor;

	SF_ASSERT(sample->taken == 0);
	PushActiveSnapshot(GetTransactionSnapshot());
	SPI_connect();
	cursor = SPI_cursor_open_with_args(NULL, query, 0, NULL, NULL, NULL, true, 0);
	while (SPI_cursor_fetch(cursor, true, 1), SPI_processed > 0)
	{
		take_row(sample, read, count, arg);
		SPI_freetuptable(SPI_tuptable);
	}
	SPI_cursor_close(cursor);
	SPI_finish();
	PopActiveSnapshot();
	SF_ASSERT(sample->rows == 0 || sample->taken <= sample->rows);
	warn_of_damaged(sample);
}
