/*-------------------------------------------------------------------------
 *
 * command.c
 *	  The utility command that is being run: at which nesting level, and which
 *	  columns it alters if it is an ALTER TABLE.
 *
 * hooks.c keeps this up to date.  Most files of the room ask, so this file
 * calls none of them.
 *
 *-------------------------------------------------------------------------
 */
#include "base/base.h"

#include "access/parallel.h"
#include "access/xact.h"
#include "access/xlog.h"
#include "ddl/command.h"
#include "miscadmin.h"

SfCommand	sfi_ddl_command = {0};

bool
sfi_ddl_noting(void)
{
	return !IsBinaryUpgrade && !IsBootstrapProcessingMode() &&
		!IsParallelWorker() && OidIsValid(MyDatabaseId) &&
		IsTransactionState() && !RecoveryInProgress();
}

/*
 * VACUUM, CLUSTER and REINDEX announce what they rewrite, but change no
 * column; and they work in several transactions, so that looking at all those
 * tables once more would have to lock them again.
 */
bool
sfi_ddl_only_rewrites(void)
{
	const NodeTag tag = sfi_ddl_command.tag;

	return tag == T_VacuumStmt || tag == T_ClusterStmt || tag == T_ReindexStmt;
}

/* ---- ALTER TABLE ---- */

AttrNumber
sfi_ddl_altered_column(Oid table_oid, const char *name)
{
	ListCell   *lc;

	foreach(lc, sfi_ddl_command.alter == NULL ? NIL : sfi_ddl_command.alter->retyped)
	{
		const SfAltered *altered = lfirst(lc);

		if (altered->table_oid == table_oid && strcmp(altered->name, name) == 0)
			return altered->attnum;
	}
	return InvalidAttrNumber;
}
