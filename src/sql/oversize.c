/*-------------------------------------------------------------------------
 *
 * oversize.c
 *	  Values that pg_dump cannot write: securefile_oversize() finds them before it does, and
 *	  securefile_unfilled() tells those that a dump has left out.
 *
 * The length of a value stands in its row, so no contents are read.  A row whose locator is
 * damaged is passed over: it has no length, and securefile_check() reports it.
 *
 *-------------------------------------------------------------------------
 */
#include "base/base.h"

#include "access/detoast.h"
#include "access/relation.h"
#include "config/config.h"
#include "ddl/ddl.h"
#include "executor/spi.h"
#include "fmgr.h"
#include "miscadmin.h"
#include "read/read.h"
#include "sql/content.h"
#include "utils/acl.h"
#include "utils/builtins.h"
#include "utils/lsyscache.h"
#include "utils/memutils.h"
#include "utils/rel.h"
#include "utils/rls.h"
#include "utils/snapmgr.h"

PG_FUNCTION_INFO_V1(securefile_column_oversize);
PG_FUNCTION_INFO_V1(securefile_unfilled);
PG_FUNCTION_INFO_V1(securefile_unfilled_digest);

#define OVERSIZE_COLUMNS	3
#define ROWS_AT_ONCE		1000

/* What is counted of the values of a column. */
typedef struct Oversize
{
	int64		limit;			/* in bytes */
	int64		oversize;		/* values that are longer, */
	int64		largest;		/* and the length of the longest of these */
	int64		unfilled;		/* values that were not restored */
} Oversize;

/* ---- one column ---- */

/* The length of a value that has bytes, as its row says. */
static int64
length_in_row(Datum value)
{
	struct varlena *datum = sf_base_detoast_short(value, SF_LOCATOR_MAX_SIZE);
	SfLocator	loc;

	if (datum != NULL && sf_object_decode(datum, &loc) == NULL)
		return (int64) sf_locator_value_bytes(&loc);
	/* a form byte, and what is no longer than the value itself */
	return Max((int64) toast_raw_datum_size(value) - SF_INLINE_OVERHEAD, 0);
}

static bool
is_unfilled(Datum value)
{
	struct varlena *datum = sf_base_detoast_short(value, SF_UNFILLED_HASHED_SIZE);

	return datum != NULL && VARSIZE_ANY_EXHDR(datum) > 0 &&
		*(uint8 *) VARDATA_ANY(datum) == SF_FORM_UNFILLED;
}

static void
count_length(Oversize *counts, Datum value)
{
	int64		length;

	if (is_unfilled(value))
	{
		counts->unfilled++;
		return;
	}
	length = length_in_row(value);
	if (length <= counts->limit)
		return;
	counts->oversize++;
	counts->largest = Max(counts->largest, length);
}

/* Count what a query for the values of a column has fetched. */
static void
count_fetched(Oversize *counts)
{
	MemoryContext context = AllocSetContextCreate(CurrentMemoryContext, "securefile oversize",
												  ALLOCSET_DEFAULT_SIZES);
	MemoryContext old = MemoryContextSwitchTo(context);

	for (uint64 i = 0; i < SPI_processed; i++)
	{
		bool		isnull;
		Datum		value = SPI_getbinval(SPI_tuptable->vals[i], SPI_tuptable->tupdesc, 1, &isnull);

		SF_ASSERT(!isnull);
		count_length(counts, value);
		MemoryContextReset(context);
	}
	MemoryContextSwitchTo(old);
	MemoryContextDelete(context);
}

/*
 * Count the values that the caller sees of a table without its children, as pg_dump takes it.  A
 * cursor gives the rows by and by, with what they have of their values.
 */
static void
count_column(Oversize *counts, Relation rel, AttrNumber attnum)
{
	const char *column = quote_identifier(get_attname(RelationGetRelid(rel), attnum, false));
	const char *schema = get_namespace_name(RelationGetNamespace(rel));
	const char *query = psprintf("SELECT %s FROM ONLY %s WHERE %s IS NOT NULL", column,
								 quote_qualified_identifier(schema, RelationGetRelationName(rel)),
								 column);
	Portal		cursor;

	PushActiveSnapshot(GetTransactionSnapshot());
	SPI_connect();
	cursor = SPI_cursor_open_with_args(NULL, query, 0, NULL, NULL, NULL, true, 0);
	while (SPI_cursor_fetch(cursor, true, ROWS_AT_ONCE), SPI_processed > 0)
	{
		CHECK_FOR_INTERRUPTS();
		count_fetched(counts);
		SPI_freetuptable(SPI_tuptable);
	}
	SPI_cursor_close(cursor);
	SPI_finish();
	PopActiveSnapshot();
}

/*
 * May the caller read all values of a column?  Not where policies hold for the caller: pg_dump
 * stops at such a table, and a policy may call a function of the owner, with the caller's rights.
 */
static bool
may_read(Oid table_oid, AttrNumber attnum)
{
	return (pg_class_aclcheck(table_oid, GetUserId(), ACL_SELECT) == ACLCHECK_OK ||
			pg_attribute_aclcheck(table_oid, attnum, GetUserId(), ACL_SELECT) == ACLCHECK_OK) &&
		check_enable_rls(table_oid, InvalidOid, true) != RLS_ENABLED;
}

/*
 * The table, locked as by SELECT, if the caller may read the column, and its rows are here; else
 * NULL.  A role without the right gets no lock.  Asked again under the lock.
 */
static Relation
open_table(Oid table_oid, AttrNumber attnum)
{
	Relation	rel;
	char	   *column;

	if (get_rel_relkind(table_oid) != RELKIND_RELATION || sf_base_is_shell(table_oid) ||
		!may_read(table_oid, attnum))
		return NULL;
	rel = try_relation_open(table_oid, AccessShareLock);
	if (rel == NULL)
		return NULL;
	column = get_attname(table_oid, attnum, true);
	if (column != NULL && may_read(table_oid, attnum) && !RELATION_IS_OTHER_TEMP(rel))
	{
		/* ERROR if it is of another type */
		attnum = sf_ddl_find_column(table_oid, column);
		SF_ASSERT(attnum > 0);
		return rel;
	}
	relation_close(rel, AccessShareLock);
	return NULL;
}

/*
 * securefile_column_oversize(table oid, attnum smallint, limit bigint)
 * returns (values bigint, largest bigint, unfilled bigint)
 *
 * Null where the caller may not read the column, or it is gone.
 */
Datum
securefile_column_oversize(PG_FUNCTION_ARGS)
{
	Oversize	counts = {.limit = sf_dump_oversize_limit_bytes()};
	AttrNumber	attnum;
	Relation	rel;
	Datum		values[OVERSIZE_COLUMNS];
	bool		nulls[OVERSIZE_COLUMNS] = {false};

	sf_base_refuse_nulls(fcinfo, 0, 1, "table and column");
	attnum = PG_GETARG_INT16(1);
	if (!PG_ARGISNULL(2))
		counts.limit = PG_GETARG_INT64(2);
	rel = open_table(PG_GETARG_OID(0), attnum);
	if (rel == NULL)
		PG_RETURN_NULL();
	count_column(&counts, rel, attnum);
	relation_close(rel, NoLock);
	values[0] = Int64GetDatum(counts.oversize);
	values[1] = Int64GetDatum(counts.largest);
	nulls[1] = counts.oversize == 0;
	values[2] = Int64GetDatum(counts.unfilled);
	PG_RETURN_DATUM(sf_base_row(fcinfo, values, nulls));
}

/* ---- one value ---- */

/* securefile_unfilled(document securefile) returns boolean */
Datum
securefile_unfilled(PG_FUNCTION_ARGS)
{
	SfUnfilled	unfilled;

	PG_RETURN_BOOL(sf_read_unfilled(sf_object_given(PG_GETARG_DATUM(0)), &unfilled));
}

/* securefile_unfilled_digest(document securefile) returns bytea */
Datum
securefile_unfilled_digest(PG_FUNCTION_ARGS)
{
	SfUnfilled	unfilled;
	bytea	   *digest;

	if (!sf_read_unfilled(sf_object_given(PG_GETARG_DATUM(0)), &unfilled) || !unfilled.has_hash)
		PG_RETURN_NULL();
	digest = sfi_sql_new_bytea(sizeof(unfilled.digest));
	memcpy(VARDATA(digest), unfilled.digest, sizeof(unfilled.digest));
	PG_RETURN_BYTEA_P(digest);
}
