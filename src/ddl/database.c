/*-------------------------------------------------------------------------
 *
 * database.c
 *	  CREATE, ALTER and DROP DATABASE: data files lie outside base/, where
 *	  these commands do not look.
 *
 * Copying or moving a database that has data files would leave the values
 * behind: refused.  Dropping one removes its files.
 *
 *-------------------------------------------------------------------------
 */
#include "base/base.h"

#include "catalog/pg_authid.h"
#include "catalog/pg_database.h"
#include "commands/dbcommands.h"
#include "commands/defrem.h"
#include "ddl/command.h"
#include "io/io.h"
#include "miscadmin.h"
#include "storage/lmgr.h"
#include "storage/procarray.h"
#include "utils/syscache.h"

/* The option of that name, or NULL. */
static DefElem *
find_option(List *options, const char *name)
{
	ListCell   *lc;

	foreach(lc, options)
	{
		DefElem    *option = castNode(DefElem, lfirst(lc));

		if (strcmp(option->defname, name) == 0)
			return option;
	}
	return NULL;
}

/*
 * May the current user create databases?  Asked before the lock, so that a user who
 * may not create databases cannot lock one.
 */
static bool
may_create_databases(void)
{
	HeapTuple	tuple;
	bool		may = superuser();

	if (may)
		return true;
	tuple = SearchSysCache1(AUTHOID, ObjectIdGetDatum(GetUserId()));
	if (HeapTupleIsValid(tuple))
	{
		may = ((Form_pg_authid) GETSTRUCT(tuple))->rolcreatedb;
		ReleaseSysCache(tuple);
	}
	return may;
}

/*
 * Has the database data files?  The lock is the one the command itself takes;
 * it keeps new sessions out, and we wait, as the command does, for others to
 * leave, so that nobody creates a segment after the look.  If they do not
 * leave, the command will say so.
 */
static bool
has_files_locked(const char *name, LOCKMODE lockmode)
{
	Oid			db = get_database_oid(name, true);
	int			nbackends;
	int			nprepared;

	if (!OidIsValid(db))
		return false;
	if (sf_io_database_has_files(db, ERROR))
		return true;
	if (db == MyDatabaseId)
		return false;
	LockSharedObject(DatabaseRelationId, db, 0, lockmode);
	(void) CountOtherDBBackends(db, &nbackends, &nprepared);
	return sf_io_database_has_files(db, ERROR);
}

/* ERROR if CREATE DATABASE would copy a database that has data files. */
static void
refuse_template(CreatedbStmt *stmt)
{
	DefElem    *option = find_option(stmt->options, "template");
	const char *source = option != NULL && option->arg != NULL ?
		defGetString(option) : "template1";

	if (may_create_databases() && has_files_locked(source, ShareLock))
		ereport(ERROR,
				(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
				 errmsg("cannot use database \"%s\" as a template", source),
				 errdetail("It has tables with securefile columns, whose data files CREATE DATABASE does not copy."),
				 errhint("Use pg_dump and pg_restore. If the template needs no values, TRUNCATE of these tables removes the data files; change columns that have a dictionary to nocompress first.")));
}

/* ERROR if ALTER DATABASE would move a database that has data files. */
static void
refuse_move(AlterDatabaseStmt *stmt)
{
	if (find_option(stmt->options, "tablespace") == NULL)
		return;
	if (superuser() && has_files_locked(stmt->dbname, AccessExclusiveLock))
		ereport(ERROR,
				(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
				 errmsg("cannot move database \"%s\" to another tablespace", stmt->dbname),
				 errdetail("It has tables with securefile columns, whose data files ALTER DATABASE does not move."),
				 errhint("Create a new database in that tablespace and use pg_dump and pg_restore.")));
}

/*
 * The database of a DROP DATABASE is looked up here, since the command removes its
 * name.
 */
Oid
sfi_ddl_database_before(Node *stmt)
{
	switch (nodeTag(stmt))
	{
		case T_CreatedbStmt:
			refuse_template((CreatedbStmt *) stmt);
			break;
		case T_AlterDatabaseStmt:
			refuse_move((AlterDatabaseStmt *) stmt);
			break;
		case T_DropdbStmt:
			return get_database_oid(((DropdbStmt *) stmt)->dbname, true);
		default:
			break;
	}
	return InvalidOid;
}

/*
 * The database's own files are gone by now: what fails here is a WARNING, and the
 * monitor's launcher removes what is left.
 */
void
sfi_ddl_database_after(Oid dropped_db)
{
	SF_ASSERT(OidIsValid(dropped_db) && dropped_db != MyDatabaseId);
	if (sf_io_database_has_files(dropped_db, WARNING) || sf_io_database_is_own(dropped_db, WARNING))
		sf_space_log_drop_database(dropped_db);
	/* there may be empty directories */
	sf_io_database_unlink(dropped_db);
}
