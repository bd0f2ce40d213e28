/*-------------------------------------------------------------------------
 *
 * names.c
 *	  securefile_column_names(): what views tell of the table of a column.
 *
 * Views could read pg_class themselves, but an extension may add conditions to queries that
 * do.  Citus hides shards from them, on all nodes that have any, and a view that lacks a
 * column cannot be told from one whose columns lack nothing: data that was left behind would
 * be given up.  So rows of pg_class are read here, as the snapshot of the statement sees them.
 *
 *-------------------------------------------------------------------------
 */
#include "base/base.h"

#include "access/genam.h"
#include "access/htup_details.h"
#include "access/table.h"
#include "catalog/pg_class.h"
#include "catalog/pg_namespace.h"
#include "space/space.h"
#include "utils/fmgroids.h"
#include "utils/snapmgr.h"

PG_FUNCTION_INFO_V1(securefile_column_names);

#define NAMES_COLUMNS	6

/* Copy the row of pg_class that an index has for these keys; false: there is none. */
static bool
find_row(Relation pg_class, Oid index, ScanKeyData *keys, int nkeys, FormData_pg_class * row)
{
	SysScanDesc scan = systable_beginscan(pg_class, index, true, GetActiveSnapshot(), nkeys, keys);
	HeapTuple	tuple = systable_getnext(scan);
	bool		found = HeapTupleIsValid(tuple);

	if (found)
		memcpy(row, GETSTRUCT(tuple), CLASS_TUPLE_SIZE);
	systable_endscan(scan);
	return found;
}

static bool
find_table(Relation pg_class, Oid table_oid, FormData_pg_class * row)
{
	ScanKeyData key;

	ScanKeyInit(&key, Anum_pg_class_oid, BTEqualStrategyNumber, F_OIDEQ,
				ObjectIdGetDatum(table_oid));
	return find_row(pg_class, ClassOidIndexId, &key, 1, row);
}

static bool
find_segment(Relation pg_class, Oid table_oid, AttrNumber attnum, FormData_pg_class * row)
{
	char		name[NAMEDATALEN];
	ScanKeyData keys[2];

	sf_space_segment_name(name, table_oid, attnum);
	ScanKeyInit(&keys[0], Anum_pg_class_relname, BTEqualStrategyNumber, F_NAMEEQ,
				CStringGetDatum(name));
	ScanKeyInit(&keys[1], Anum_pg_class_relnamespace, BTEqualStrategyNumber, F_OIDEQ,
				ObjectIdGetDatum(PG_TOAST_NAMESPACE));
	return find_row(pg_class, ClassNameNspIndexId, keys, 2, row);
}

/*
 * securefile_column_names(table_oid oid, attnum smallint)
 * returns (relnamespace oid, relname name, relkind "char", segment_relid oid,
 *			segment_tablespace oid, distributed boolean)
 *
 * NULL when there is no such table.
 */
Datum
securefile_column_names(PG_FUNCTION_ARGS)
{
	Oid			table_oid = PG_GETARG_OID(0);
	Relation	pg_class = table_open(RelationRelationId, AccessShareLock);
	FormData_pg_class row;
	NameData	name;
	Datum		values[NAMES_COLUMNS];
	bool		nulls[NAMES_COLUMNS] = {false};
	bool		found = find_table(pg_class, table_oid, &row);

	if (found)
	{
		name = row.relname;
		values[0] = ObjectIdGetDatum(row.relnamespace);
		values[1] = NameGetDatum(&name);
		values[2] = CharGetDatum(row.relkind);
		nulls[3] = nulls[4] = !find_segment(pg_class, table_oid, PG_GETARG_INT16(1), &row);
		values[3] = ObjectIdGetDatum(row.oid);
		values[4] = ObjectIdGetDatum(row.reltablespace);
		values[5] = BoolGetDatum(sf_base_is_shell(table_oid));
	}
	table_close(pg_class, AccessShareLock);
	if (!found)
		PG_RETURN_NULL();
	PG_RETURN_DATUM(sf_base_row(fcinfo, values, nulls));
}
