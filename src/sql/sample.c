/*-------------------------------------------------------------------------
 *
 * sample.c
 *	  Rows of a table taken at random.
 *
 *-------------------------------------------------------------------------
 */
#include "base/base.h"

#include "access/table.h"
#include "catalog/pg_class.h"
#include "catalog/pg_inherits.h"
#include "ddl/ddl.h"
#include "executor/spi.h"
#include "sql/sample.h"
#include "storage/lmgr.h"
#include "utils/builtins.h"
#include "utils/lsyscache.h"
#include "utils/memutils.h"
#include "utils/rel.h"
#include "utils/snapmgr.h"
#include "utils/syscache.h"

#define MOST_ROWS	1000000

void
sfi_sample_begin(SfSample *sample, FunctionCallInfo fcinfo, int least, int usual)
{
	if (PG_ARGISNULL(0) || PG_ARGISNULL(1) || PG_ARGISNULL(2))
		ereport(ERROR,
				(errcode(ERRCODE_NULL_VALUE_NOT_ALLOWED),
				 errmsg("table, column and sample_rows must not be null")));
	sample->rows = PG_GETARG_INT32(2);
	if (sample->rows < least || sample->rows > MOST_ROWS)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("sample_rows must be between %d and %d, not %d",
						least, MOST_ROWS, sample->rows),
				 errhint("The default is %d.", usual)));
	sample->column = NameStr(*PG_GETARG_NAME(1));
	sample->context = CurrentMemoryContext;
	sample->value_context = AllocSetContextCreate(CurrentMemoryContext, "securefile sample",
												  ALLOCSET_DEFAULT_SIZES);
}

AttrNumber
sfi_sample_column(Oid table_oid, const char *column)
{
	char	   *table = get_rel_name(table_oid);
	char		relkind = get_rel_relkind(table_oid);

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
	return sf_ddl_find_column(table_oid, column);
}

/* Both are asked again under the lock: before it, somebody may have changed them. */
AttrNumber
sfi_sample_open(SfSample *sample, Oid table_oid)
{
	AttrNumber	attnum = sfi_sample_column(table_oid, sample->column);

	sf_ddl_require_privilege(table_oid, attnum, ACL_SELECT);
	sf_base_refuse_other_temp(table_oid);
	LockRelationOid(table_oid, AccessShareLock);
	attnum = sfi_sample_column(table_oid, sample->column);
	sf_ddl_require_privilege(table_oid, attnum, ACL_SELECT);
	sample->rel = table_open(table_oid, NoLock);
	return attnum;
}

/* Does an error say that the data cannot be read, and not that the call cannot go on? */
static bool
is_about_data(const ErrorData *error)
{
	int			category = ERRCODE_TO_CATEGORY(error->sqlerrcode);

	return category == ERRCODE_TO_CATEGORY(ERRCODE_DATA_CORRUPTED) ||
		category == ERRCODE_TO_CATEGORY(ERRCODE_UNDEFINED_FILE);
}

bool
sfi_sample_read(SfSample *sample, SfBaseStep step)
{
	ErrorData  *error = sf_base_guarded(step, sample->arg);

	if (error == NULL)
		return true;
	if (!is_about_data(error))
		ReThrowError(error);
	if (sample->damaged++ == 0)
		sample->problem = MemoryContextStrdup(sample->context, error->message);
	return false;
}

List *
sfi_sample_tables(Oid table_oid, bool only)
{
	List	   *tables = only ? list_make1_oid(table_oid) :
	find_all_inheritors(table_oid, AccessShareLock, NULL);
	ListCell   *cell;

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
percentage(const SfSample *sample)
{
	double		nrows = known_rows(sfi_sample_tables(RelationGetRelid(sample->rel), sample->only));
	double		wanted = 2.0 * sample->rows + 20;

	return nrows > wanted ? 100 * wanted / nrows : 100;
}

/*
 * The query of a sample.  All names have their schemas, the sampling method too, since the
 * search_path is the caller's.  More rows are looked at than wanted; their order is random,
 * so that rows at the end of the table are taken as often as others.
 */
static char *
sample_query(const SfSample *sample, double percent)
{
	const char *schema = get_namespace_name(RelationGetNamespace(sample->rel));
	const char *table = RelationGetRelationName(sample->rel);
	const char *column = quote_identifier(sample->column);

	SF_ASSERT(percent > 0 && percent <= 100);
	return psprintf("SELECT %s FROM %s%s TABLESAMPLE pg_catalog.bernoulli (%g)"
					" WHERE %s IS NOT NULL ORDER BY pg_catalog.random() LIMIT %d",
					column, sample->only ? "ONLY " : "",
					quote_qualified_identifier(schema, table), percent, column, sample->rows);
}

/* The value in the row that the cursor has fetched. */
static void
take_row(SfSample *sample)
{
	MemoryContext old = MemoryContextSwitchTo(sample->value_context);
	bool		isnull;
	Datum		value = SPI_getbinval(SPI_tuptable->vals[0], SPI_tuptable->tupdesc, 1, &isnull);

	SF_ASSERT(!isnull);
	sample->take(value, sample->arg);
	sample->taken++;
	MemoryContextSwitchTo(old);
	MemoryContextReset(sample->value_context);
}

/*
 * Take values from so many per cent of the rows.  A cursor gives them one by one, so that
 * they are never all in memory.
 */
static void
take_pass(SfSample *sample, double percent)
{
	Portal		cursor = SPI_cursor_open_with_args(NULL, sample_query(sample, percent), 0,
												   NULL, NULL, NULL, true, 0);

	sample->taken = sample->damaged = 0;
	sample->begin(sample->arg);
	while (SPI_cursor_fetch(cursor, true, 1), SPI_processed > 0)
	{
		take_row(sample);
		SPI_freetuptable(SPI_tuptable);
	}
	SPI_freetuptable(SPI_tuptable);
	SPI_cursor_close(cursor);
}

/*
 * The snapshot is taken after the lock: a transaction that had the lock before may have
 * written all rows anew.
 */
void
sfi_sample_take(SfSample *sample)
{
	double		percent = percentage(sample);

	PushActiveSnapshot(GetTransactionSnapshot());
	SPI_connect();
	take_pass(sample, percent);
	if (percent < 100 && sample->taken < sample->rows)
		take_pass(sample, 100);
	SPI_finish();
	PopActiveSnapshot();
	SF_ASSERT(sample->taken <= sample->rows);
}

void
sfi_sample_warn(const SfSample *sample)
{
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
