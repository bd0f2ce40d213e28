/*-------------------------------------------------------------------------
 *
 * rewrite.c
 *	  securefile_rewrite(table, column [, logging]): store every value of a
 *	  column again.
 *
 * After a change of options new values follow them and old ones do not;
 * rewriting brings all of them in line, and moves INLINE values that belong
 * there into the segment.  Writers wait, readers do not.
 *
 * With a logging mode the segment itself is swapped: the values are copied
 * into a new segment of that mode, the old one is dropped, and the column's
 * type modifier changed to match.  Nobody may read the table meanwhile.
 *
 *-------------------------------------------------------------------------
 */
#include "base/base.h"

#include "access/relation.h"
#include "access/table.h"
#include "access/xact.h"
#include "catalog/namespace.h"
#include "catalog/pg_class.h"
#include "catalog/pg_inherits.h"
#include "commands/tablecmds.h"
#include "ddl/command.h"
#include "ddl/ddl.h"
#include "ddl/table_rows.h"
#include "executor/executor.h"
#include "fmgr.h"
#include "space/dictionary_pages.h"
#include "storage/lmgr.h"
#include "utils/builtins.h"
#include "utils/lsyscache.h"
#include "utils/rel.h"

PG_FUNCTION_INFO_V1(securefile_rewrite);

/* What is asked of the logging mode. */
typedef enum LoggingWish
{
	KEEP_LOGGING,
	WANT_LOGGED,
	WANT_FS_LIKE,
} LoggingWish;

/* The third argument of securefile_rewrite(). */
static LoggingWish
parse_logging(const char *word)
{
	if (pg_strcasecmp(word, "logging") == 0)
		return WANT_LOGGED;
	if (pg_strcasecmp(word, "filesystem_like_logging") == 0)
		return WANT_FS_LIKE;
	ereport(ERROR,
			(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
			 errmsg("unrecognized logging mode \"%s\"", word),
			 errhint("Valid modes are \"logging\" and \"filesystem_like_logging\". Use ALTER TABLE to change other options of the column, such as compression.")));
}

/*
 * ERROR if the column cannot be rewritten, or its logging mode cannot be changed in the
 * table that the caller names.
 */
static void
require_rewritable(Oid relid, const char *column, LoggingWish wish)
{
	sfi_ddl_require_column(relid, column);
	if (wish != KEEP_LOGGING)
		sfi_ddl_require_own_options(relid, column, 0, "logging mode", "securefile_rewrite()");
}

/*
 * Change the logging mode in the column's type modifier, as ALTER COLUMN TYPE
 * would; the other options stay.
 */
static void
set_logging_option(Oid relid, AttrNumber attnum, bool logged_data)
{
	Oid			typid;
	int32		typmod;
	Oid			collation;
	int32		bits;

	get_atttypetypmodcoll(relid, attnum, &typid, &typmod, &collation);
	bits = typmod < 0 ? 0 : typmod;
	if (logged_data)
		bits &= ~SF_OPT_FS_LIKE_LOGGING;
	else
		bits |= SF_OPT_FS_LIKE_LOGGING;
	SF_ASSERT(sf_config_options(bits).fs_like_logging == !logged_data);
	sfi_ddl_set_typmod(relid, attnum, bits == 0 ? -1 : bits);
}

/*
 * Copy the values into a new segment.  While both exist the old one is called
 * .._old, where sf_space_open_incarnation() finds it.
 */
static int64
swap_segment(Relation rel, AttrNumber attnum, bool logged_data)
{
	SfColumn	column = sfi_ddl_column(rel, attnum);
	Oid			old_segrelid = sf_space_segment_relid(column.table_oid, attnum);
	Relation	segrel;
	SfSegmentBirth birth = {
		.table_oid = column.table_oid,
		.attnum = attnum,
		.logged_data = logged_data
	};
	char		old_name[NAMEDATALEN];
	SfDictionaryBytes *dictionary;
	int64		nrows;

	SF_ASSERT(CheckRelationLockedByMe(rel, AccessExclusiveLock, false));
	SF_ASSERT(OidIsValid(old_segrelid));
	CheckCmdReplicaIdentity(rel, CMD_UPDATE);
	segrel = relation_open(old_segrelid, AccessExclusiveLock);
	birth.next_object_id = sf_space_read_header(sf_space_open_rel(segrel)).next_object_id;
	birth.tablespace = segrel->rd_rel->reltablespace;
	dictionary = sf_space_fetch_dictionary(sf_space_open_rel(segrel));
	relation_close(segrel, NoLock);

	snprintf(old_name, NAMEDATALEN, "pg_securefile_%u_%d_old",
			 column.table_oid, attnum);
	RenameRelationInternal(old_segrelid, old_name, true, false);
	CommandCounterIncrement();

	(void) sfi_ddl_segment_create(&birth);
	SF_ASSERT(sf_space_segment_relid(column.table_oid, attnum) != old_segrelid);
	(void) sf_space_add_dictionary(sf_space_open(column.table_oid, attnum, RowExclusiveLock, false),
								   dictionary);
	nrows = sfi_ddl_rows_store(rel, &column, true);
	sfi_ddl_segment_drop(old_segrelid);
	return nrows;
}

static int64
rewrite_rows(Relation rel, AttrNumber attnum)
{
	SfColumn	column = sfi_ddl_column(rel, attnum);

	CheckCmdReplicaIdentity(rel, CMD_UPDATE);
	return sfi_ddl_rows_store(rel, &column, true);
}

/* Rewrite the column in one table of an inheritance tree; returns the number of rows. */
static int64
rewrite_table(Oid relid, const char *column, LoggingWish wish)
{
	bool		want_logged = wish == WANT_LOGGED;
	bool		keep = wish == KEEP_LOGGING;
	Relation	rel;
	AttrNumber	attnum;
	SfColumn	description;
	int64		nrows;

	if (get_rel_relkind(relid) == RELKIND_FOREIGN_TABLE)
		return 0;
	rel = table_open(relid, NoLock);
	SF_ASSERT(CheckRelationLockedByMe(rel, keep ? ShareRowExclusiveLock : AccessExclusiveLock,
									  true));
	CheckTableNotInUse(rel, "rewrite");
	sfi_ddl_refuse_rewritten(rel);
	attnum = get_attnum(relid, column);
	description = sfi_ddl_column(rel, attnum);

	if (!keep && description.options.fs_like_logging == want_logged)
	{
		set_logging_option(relid, attnum, want_logged);
		if (rel->rd_rel->relkind == RELKIND_RELATION && description.permanent)
		{
			nrows = swap_segment(rel, attnum, want_logged);
			table_close(rel, NoLock);
			/* the old segment took its triggers along */
			sfi_ddl_resync_table(relid);
			return nrows;
		}
	}
	/* of a child that is temporary in another session we cannot see the rows */
	nrows = rel->rd_rel->relkind == RELKIND_RELATION && !RELATION_IS_OTHER_TEMP(rel) ?
		rewrite_rows(rel, attnum) : 0;
	table_close(rel, NoLock);
	return nrows;
}

Datum
securefile_rewrite(PG_FUNCTION_ARGS)
{
	Oid			relid;
	char	   *column;
	LoggingWish wish = KEEP_LOGGING;
	LOCKMODE	lockmode;
	List	   *tables;
	ListCell   *lc;
	int64		nrows = 0;

	sf_base_refuse_nulls(fcinfo, 0, 1, "table and column");
	relid = PG_GETARG_OID(0);
	column = NameStr(*PG_GETARG_NAME(1));
	if (!PG_ARGISNULL(2))
		wish = parse_logging(text_to_cstring(PG_GETARG_TEXT_PP(2)));

	sf_base_require_writes("securefile_rewrite()");
	sf_base_require_preload();
	require_rewritable(relid, column, wish);

	lockmode = wish == KEEP_LOGGING ? ShareRowExclusiveLock : AccessExclusiveLock;
	LockRelationOid(relid, lockmode);
	/* it may have been dropped, or changed, while we waited */
	require_rewritable(relid, column, wish);

	tables = find_all_inheritors(relid, lockmode, NULL);
	foreach(lc, tables)
		sf_ddl_require_owner(lfirst_oid(lc));
	foreach(lc, tables)
		nrows += rewrite_table(lfirst_oid(lc), column, wish);
	PG_RETURN_INT64(nrows);
}
