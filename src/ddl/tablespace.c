/*-------------------------------------------------------------------------
 *
 * tablespace.c
 *	  Segments in tablespaces: securefile_set_tablespace(table, column,
 *	  tablespace), and what ALTER TABLE SET TABLESPACE brings about.
 *
 * A new segment lies where its table does.  It moves along when the table is
 * moved, or by itself, so that a table may lie on fast disks and its files on
 * large ones.
 *
 *-------------------------------------------------------------------------
 */
#include "base/base.h"

#include "access/relation.h"
#include "access/table.h"
#include "access/xact.h"
#include "catalog/catalog.h"
#include "catalog/pg_class.h"
#include "catalog/pg_inherits.h"
#include "catalog/storage.h"
#include "commands/tablecmds.h"
#include "commands/tablespace.h"
#include "ddl/ddl.h"
#include "ddl/objects.h"
#include "fmgr.h"
#include "miscadmin.h"
#include "space/upgrade.h"
#include "storage/lmgr.h"
#include "utils/acl.h"
#include "utils/lsyscache.h"
#include "utils/rel.h"
#include "write/write.h"

PG_FUNCTION_INFO_V1(securefile_set_tablespace);

/*
 * ERROR if this transaction has stored or freed values in the segment.  At its end it
 * logs the sectors of these values in the storage that it wrote to, and the move
 * would have removed that storage by then.
 */
static void
refuse_own_values(Relation segrel)
{
	SfHeader	header;

	if (!sf_write_has_notes(SfRelStorage(segrel)))
		return;
	header = sf_space_read_header(sf_space_open_rel(segrel));
	ereport(ERROR,
			(errcode(ERRCODE_OBJECT_IN_USE),
			 errmsg("cannot move column \"%s\" of table \"%s\" to another tablespace because this transaction has stored values in it, or removed some",
					get_attname(header.table_oid, header.attnum, false),
					get_rel_name(header.table_oid)),
			 errhint("Commit first.")));
}

/* The steps are those of ATExecSetTableSpace() for a table. */
void
sfi_ddl_segment_move(Oid segrelid, Oid tablespace)
{
	Relation	segrel = relation_open(segrelid, AccessExclusiveLock);
	SfStorage	storage = SfRelStorage(segrel);

	SF_ASSERT(OidIsValid(tablespace));
	SF_ASSERT(segrel->rd_rel->relkind == RELKIND_TOASTVALUE);

	if (!CheckRelationTableSpaceMove(segrel, tablespace))
	{
		relation_close(segrel, NoLock);
		return;
	}
	sf_base_require_preload();
	refuse_own_values(segrel);

	/* numbers of files are unique in a tablespace only */
	SfStorageSpc(storage) = tablespace;
	SfStorageRel(storage) = sf_compat_new_number(tablespace, RELPERSISTENCE_PERMANENT);
	smgrclose(RelationCreateStorage(storage, RELPERSISTENCE_PERMANENT, true));
	sf_space_move_storage(segrel, storage);
	RelationDropStorage(segrel);

	SetRelationTableSpace(segrel, tablespace, SfStorageRel(storage));
	sf_compat_assume_new_storage(segrel);
	relation_close(segrel, NoLock);
	CommandCounterIncrement();
}

/* The tablespace of that name; ERROR when the caller may not put tables there. */
static Oid
usable_tablespace(const char *name)
{
	Oid			tablespace = get_tablespace_oid(name, false);
	AclResult	result;

	/* everyone may use the database's default tablespace, as for tables */
	if (tablespace == MyDatabaseTableSpace)
		return tablespace;
	result = sf_compat_tablespace_aclcheck(tablespace, GetUserId(), ACL_CREATE);
	if (result != ACLCHECK_OK)
		aclcheck_error(result, OBJECT_TABLESPACE, name);
	return tablespace;
}

/*
 * Move the segment of the column in one table of an inheritance tree.  False if the
 * table has none.
 */
static bool
move_column(Oid table_oid, const char *column, Oid tablespace)
{
	Relation	rel;
	Oid			segrelid;

	if (get_rel_relkind(table_oid) != RELKIND_RELATION)
		return false;
	rel = table_open(table_oid, NoLock);
	SF_ASSERT(CheckRelationLockedByMe(rel, AccessExclusiveLock, false));
	CheckTableNotInUse(rel, "securefile_set_tablespace");
	segrelid = sf_space_segment_relid(table_oid, get_attnum(table_oid, column));
	if (OidIsValid(segrelid))
		sfi_ddl_segment_move(segrelid, tablespace);
	table_close(rel, NoLock);
	return OidIsValid(segrelid);
}

/* ERROR: the named table has no segment; says whether pg_upgrade is the reason. */
static void
refuse_without_segment(Oid table_oid, const char *column)
{
	sf_space_refuse_unfinished(table_oid, get_attnum(table_oid, column), false);
	ereport(ERROR,
			(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
			 errmsg("column \"%s\" of table \"%s\" has no segment",
					column, get_rel_name(table_oid)),
			 errdetail("Values of temporary and unlogged tables lie in the table itself.")));
}

/* securefile_set_tablespace("table" regclass, "column" name, tablespace name) */
Datum
securefile_set_tablespace(PG_FUNCTION_ARGS)
{
	Oid			table_oid;
	char	   *column;
	Oid			tablespace;
	List	   *tables;
	ListCell   *lc;
	bool		found = false;

	sf_base_refuse_nulls(fcinfo, 0, 2, "table, column and tablespace");
	table_oid = PG_GETARG_OID(0);
	column = NameStr(*PG_GETARG_NAME(1));

	sf_base_require_writes("securefile_set_tablespace()");
	sf_base_require_preload();
	sfi_ddl_require_column(table_oid, column);
	tablespace = usable_tablespace(NameStr(*PG_GETARG_NAME(2)));

	LockRelationOid(table_oid, AccessExclusiveLock);
	/* it may have been dropped, or changed, while we waited */
	sfi_ddl_require_column(table_oid, column);

	tables = find_all_inheritors(table_oid, AccessExclusiveLock, NULL);
	foreach(lc, tables)
		sf_ddl_require_owner(lfirst_oid(lc));
	foreach(lc, tables)
		found |= move_column(lfirst_oid(lc), column, tablespace);
	if (!found && get_rel_relkind(table_oid) == RELKIND_RELATION)
		refuse_without_segment(table_oid, column);
	PG_RETURN_VOID();
}
