/*-------------------------------------------------------------------------
 *
 * published.c
 *	  Values that cannot be published.
 *
 * Logical replication passes values whole.  A slot that meets one of more than
 * 1 GB, or one that was not restored, could not get past it, so that the publisher would fill up
 * with WAL.
 *
 *-------------------------------------------------------------------------
 */
#include "base/base.h"

#include "base/server.h"
#include "catalog/catalog.h"
#include "catalog/partition.h"
#include "catalog/pg_publication.h"
#include "catalog/pg_publication_rel.h"
#include "ddl/table_rows.h"
#include "read/read.h"
#include "utils/lsyscache.h"
#include "utils/memutils.h"
#include "utils/syscache.h"

/* Does a publication that names the table send the column? */
static bool
sends_column(Oid publication, Oid table_oid, AttrNumber attnum)
{
	HeapTuple	tuple = SearchSysCache2(PUBLICATIONRELMAP, ObjectIdGetDatum(table_oid),
										ObjectIdGetDatum(publication));
	bool		all_columns;
	bool		sends;
	Datum		columns;

	/* a column has one name in all of a tree of partitions */
	SF_ASSERT(attnum > 0);
	if (!HeapTupleIsValid(tuple))
		return false;
	columns = SysCacheGetAttr(PUBLICATIONRELMAP, tuple, Anum_pg_publication_rel_prattrs,
							  &all_columns);
	sends = all_columns || bms_is_member(attnum, pub_collist_to_bitmapset(NULL, columns, NULL));
	ReleaseSysCache(tuple);
	return sends;
}

/* Is the column of one table, or of a parent, in a publication? */
static bool
is_published_as(Oid table_oid, const char *column)
{
	ListCell   *lc;

	if (GetSchemaPublications(get_rel_namespace(table_oid)) != NIL)
		return true;
	foreach(lc, GetRelationPublications(table_oid))
	{
		if (sends_column(lfirst_oid(lc), table_oid, get_attnum(table_oid, column)))
			return true;
	}
	return false;
}

/* Is the column in a publication, by its table, by a parent, or with all tables? */
static bool
is_published(Relation rel, const char *column)
{
	Oid			table_oid = RelationGetRelid(rel);
	ListCell   *lc;

	if (GetAllTablesPublications() != NIL || is_published_as(table_oid, column))
		return true;
	if (!rel->rd_rel->relispartition)
		return false;
	foreach(lc, get_partition_ancestors(table_oid))
	{
		if (is_published_as(lfirst_oid(lc), column))
			return true;
	}
	return false;
}

void
sfi_ddl_refuse_unpublishable(Relation rel, AttrNumber attnum, const SfValue *value)
{
	char	   *column;

	/* a locator of another place must not get into the row */
	SF_ASSERT(value->form != SF_FORM_STORED ||
			  (value->loc.table_oid == RelationGetRelid(rel) && value->loc.attnum == attnum));
	/* one of another form is short */
	if (value->form != SF_FORM_STORED ||
		sf_locator_value_bytes(&value->loc) <= MaxAllocSize - VARHDRSZ ||
		!RelationIsLogicallyLogged(rel))
		return;
	column = get_attname(RelationGetRelid(rel), attnum, false);
	if (!is_published(rel, column))
		return;
	ereport(ERROR,
			(errcode(ERRCODE_PROGRAM_LIMIT_EXCEEDED),
			 errmsg("securefile value of " UINT64_FORMAT " bytes cannot be published",
					sf_locator_value_bytes(&value->loc)),
			 errdetail("Column \"%s\" of table \"%s\" is in a publication, and logical replication passes values of at most 1 GB.",
					   column, RelationGetRelationName(rel)),
			 errhint("Leave the column out of the publication, or keep longer values in another table.")));
}

/* A slot of this database was found (an SfServerSlotVisit). */
static bool
note_slot(const SfServerSlot *slot, void *arg)
{
	*(bool *) arg = true;
	return false;
}

void
sfi_ddl_refuse_decoded(Relation rel, AttrNumber attnum)
{
	char	   *column = get_attname(RelationGetRelid(rel), attnum, false);
	bool		has_slot = false;

	SF_ASSERT(attnum > 0);
	if (!RelationIsLogicallyLogged(rel))
		return;
	sf_server_visit_slots(note_slot, &has_slot);
	if (!has_slot && !is_published(rel, column))
		return;
	ereport(ERROR,
			(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
			 errmsg("values of column \"%s\" of table \"%s\" are not moved while they are replicated logically",
					column, RelationGetRelationName(rel)),
			 has_slot ?
			 errdetail("The database has a logical replication slot, which would get the whole content of each row that moves.") :
			 errdetail("The column is in a publication, whose subscribers would get the whole content of each row that moves."),
			 errhint("Use mode \"release\", which changes no row, or pass allow_decoding => true.")));
}

void
sfi_ddl_refuse_published_unfilled(Relation rel, AttrNumber attnum, Datum value)
{
	SfUnfilled	unfilled;
	char	   *column;

	SF_ASSERT(attnum > 0);
	if (!RelationIsLogicallyLogged(rel) || !sf_read_unfilled(value, &unfilled))
		return;
	column = get_attname(RelationGetRelid(rel), attnum, false);
	if (!is_published(rel, column))
		return;
	ereport(ERROR,
			(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
			 errmsg("the marker of a value that a dump has left out cannot be published"),
			 errdetail("Column \"%s\" of table \"%s\" is in a publication.",
					   column, RelationGetRelationName(rel)),
			 errhint("Restore the dump and its values (\"securefile restore\") before the table is added to a publication.")));
}
