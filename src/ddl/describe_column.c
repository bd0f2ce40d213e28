/*-------------------------------------------------------------------------
 *
 * describe_column.c
 *	  What the catalog says of a column: the only place that asks it.
 *
 * A command that has the table open describes the column from that.  Code that has
 * nothing but a value (a read, a flush) goes by the value's segment, which keeps
 * what sf_ddl_describe() said of its column until the catalog changes.
 *
 *-------------------------------------------------------------------------
 */
#include "base/base.h"

#include "access/htup_details.h"
#include "access/table.h"
#include "access/transam.h"
#include "access/xact.h"
#include "catalog/indexing.h"
#include "catalog/pg_attribute.h"
#include "catalog/pg_class.h"
#include "ddl/ddl.h"
#include "ddl/objects.h"
#include "storage/lmgr.h"
#include "utils/lsyscache.h"
#include "utils/rel.h"
#include "utils/syscache.h"

SfColumn
sfi_ddl_column(Relation rel, AttrNumber attnum)
{
	Form_pg_attribute att;
	SfColumn	column;
	int32		typmod;

	SF_ASSERT(CheckRelationLockedByMe(rel, AccessShareLock, true));
	if (attnum <= 0 || attnum > RelationGetNumberOfAttributes(rel))
		elog(ERROR, "table \"%s\" has no column %d",
			 RelationGetRelationName(rel), attnum);
	att = TupleDescAttr(RelationGetDescr(rel), attnum - 1);
	typmod = att->atttypmod;
	if (att->attisdropped || !sfi_ddl_is_securefile(att->atttypid, &typmod))
		ereport(ERROR,
				(errcode(ERRCODE_DATATYPE_MISMATCH),
				 errmsg("column \"%s\" of table \"%s\" is not of type securefile",
						NameStr(att->attname), RelationGetRelationName(rel))));

	column.table_oid = RelationGetRelid(rel);
	column.attnum = attnum;
	column.permanent = rel->rd_rel->relpersistence == RELPERSISTENCE_PERMANENT;
	column.options = sf_config_options(typmod);
	return column;
}

/* Types of the server's own are told by their number, since most columns have one. */
bool
sfi_ddl_is_column(Relation rel, AttrNumber attnum)
{
	Form_pg_attribute att;
	int32		typmod;

	if (attnum <= 0 || attnum > RelationGetNumberOfAttributes(rel))
		return false;
	att = TupleDescAttr(RelationGetDescr(rel), attnum - 1);
	typmod = att->atttypmod;
	return !att->attisdropped && att->atttypid >= FirstNormalObjectId &&
		sfi_ddl_is_securefile(att->atttypid, &typmod);
}

List *
sfi_ddl_columns_of(Relation rel)
{
	List	   *columns = NIL;

	for (AttrNumber attnum = 1; attnum <= RelationGetNumberOfAttributes(rel); attnum++)
	{
		if (sfi_ddl_is_column(rel, attnum))
			columns = lappend_int(columns, attnum);
	}
	return columns;
}

const char *
sfi_ddl_column_name(Relation rel, AttrNumber attnum)
{
	SF_ASSERT(attnum > 0 && attnum <= RelationGetNumberOfAttributes(rel));
	return NameStr(TupleDescAttr(RelationGetDescr(rel), attnum - 1)->attname);
}

void
sfi_ddl_set_typmod(Oid relid, AttrNumber attnum, int32 typmod)
{
	Relation	pg_attribute = table_open(AttributeRelationId, RowExclusiveLock);
	HeapTuple	tuple = SearchSysCacheCopy2(ATTNUM, ObjectIdGetDatum(relid), Int16GetDatum(attnum));

	if (!HeapTupleIsValid(tuple))
		elog(ERROR, "could not find column %d of relation %u", attnum, relid);
	((Form_pg_attribute) GETSTRUCT(tuple))->atttypmod = typmod;
	CatalogTupleUpdate(pg_attribute, &tuple->t_self, tuple);
	heap_freetuple(tuple);
	table_close(pg_attribute, RowExclusiveLock);
	CommandCounterIncrement();
}

/*
 * A column that was dropped in this very transaction has no options any more,
 * but may still have data to be written.
 */
SfColumn
sf_ddl_describe(Oid table_oid, AttrNumber attnum)
{
	SfColumn	column = {table_oid, attnum, true};
	HeapTuple	tuple;
	int32		typmod;

	SF_ASSERT(OidIsValid(table_oid) && attnum > 0 && IsTransactionState());
	tuple = SearchSysCache2(ATTNUM, ObjectIdGetDatum(table_oid), Int16GetDatum(attnum));
	if (!HeapTupleIsValid(tuple))
	{
		column.options = sf_config_options(-1);
		column.options.cache = SF_CACHE_NOCACHE;
		return column;
	}
	typmod = ((Form_pg_attribute) GETSTRUCT(tuple))->atttypmod;
	if (!((Form_pg_attribute) GETSTRUCT(tuple))->attisdropped)
		(void) getBaseTypeAndTypmod(((Form_pg_attribute) GETSTRUCT(tuple))->atttypid, &typmod);
	ReleaseSysCache(tuple);
	column.options = sf_config_options(typmod);
	return column;
}
