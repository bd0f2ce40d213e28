/*-------------------------------------------------------------------------
 *
 * keep_values.c
 *	  Values that a session goes on to use when the snapshot that showed them is closed.
 *
 * A bytea that is kept so is copied by the server.  A stored value is not: its locator is
 * copied, and its space is kept as long as somebody may read it (space/keep.c).  That
 * costs neither memory nor a file for the bytes, whatever their number.  Seen here:
 *
 *	 a portal is held		the server runs the rest of its query into a tuplestore: a cursor
 *							WITH HOLD at COMMIT, the loop of a procedure at its first COMMIT
 *							or ROLLBACK.  Kept until the portal is closed.
 *	 CALL and DO			that may end transactions: whatever a query in them has for its
 *							result may be in a variable afterwards.  Kept until they end,
 *							or for securefile.procedure_retention.
 *	 a command that builds	reads rows which only the snapshots of others show, and which
 *	 indexes				may be closed meanwhile.  Kept until it ends.
 *
 *-------------------------------------------------------------------------
 */
#include "base/base.h"

#include "access/xact.h"
#include "ddl/command.h"
#include "space/keep.h"
#include "space/space.h"
#include "tcop/pquery.h"

/* ---- commands ---- */

/* May a command build an index over rows that were there before? */
static bool
builds_index(Node *stmt)
{
	switch (nodeTag(stmt))
	{
		case T_IndexStmt:
		case T_ReindexStmt:
		case T_ClusterStmt:
		case T_AlterTableStmt:
			return sfi_ddl_objects() != NULL;
		case T_VacuumStmt:
			return sfi_ddl_vacuum_option((VacuumStmt *) stmt, "full", false) &&
				sfi_ddl_objects() != NULL;
		default:
			return false;
	}
}

/* Is a command one that may end transactions?  As the server decides. */
static bool
is_call(Node *stmt, ProcessUtilityContext context)
{
	return (IsA(stmt, CallStmt) || IsA(stmt, DoStmt)) &&
		(context == PROCESS_UTILITY_TOPLEVEL || context == PROCESS_UTILITY_QUERY_NONATOMIC) &&
		!IsTransactionBlock();
}

uint32
sfi_ddl_keep_begins(Node *stmt, ProcessUtilityContext context)
{
	uint32		reader = is_call(stmt, context) ? SF_KEEP_PROCEDURE :
		builds_index(stmt) ? SF_KEEP_COMMAND : 0;

	if (reader != 0)
		sf_space_keep_begins(reader);
	return reader;
}

void
sfi_ddl_keep_ends(uint32 reader)
{
	if (reader != 0)
		sf_space_keep_ends(reader);
}

/* ---- queries ---- */

bool
sfi_ddl_may_have_values(TupleDesc desc)
{
	for (int i = 0; i < desc->natts; i++)
	{
		Oid			type = TupleDescAttr(desc, i)->atttypid;

		if (type == RECORDOID || type == RECORDARRAYOID ||
			(type >= FirstNormalObjectId && sfi_ddl_contains_securefile(type)))
			return true;
	}
	return false;
}

/* Is the query the rest of a portal that is being held?  See PersistHoldablePortal(). */
static bool
is_held(const QueryDesc *query)
{
	return query->dest->mydest == DestTuplestore && ActivePortal != NULL &&
		ActivePortal->queryDesc == query && ActivePortal->holdStore != NULL;
}

void
sfi_ddl_keep_results(const QueryDesc *query)
{
	bool		held = is_held(query);

	if (!held && !sf_space_keep_is_call())
		return;
	if (sfi_ddl_objects() == NULL ||
		!sfi_ddl_may_have_values(query->tupDesc))
		return;
	/* the portal's own memory: what is kept ends with the portal */
	SF_ASSERT(!held || ActivePortal->holdContext != NULL);
	sf_space_keep_results(held ? ActivePortal->holdContext : NULL);
}
