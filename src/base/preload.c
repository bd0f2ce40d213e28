/*-------------------------------------------------------------------------
 *
 * preload.c
 *	  What functions ask before they begin: was the library loaded through
 *	  shared_preload_libraries, does it fit the SQL objects, is the user a superuser, may the
 *	  transaction write or commit, are there all arguments?
 *
 * The flag and the checks stand below all other files of the room, so that
 * base.c and fault.c can both ask.
 *
 *-------------------------------------------------------------------------
 */
#include "base/base.h"

#include "miscadmin.h"
#include "nodes/parsenodes.h"

bool		sf_base_preloaded = false;

static void (*fit) (void) = NULL;

void
sf_base_set_require_fit(void (*require_fit) (void))
{
	fit = require_fit;
}

void
sf_base_require_preload(void)
{
	if (sf_base_preloaded)
	{
		if (fit != NULL)
			fit();
		return;
	}
	ereport(ERROR,
			(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
			 errmsg("securefile must be loaded via shared_preload_libraries"),
			 errhint("Add the line \"shared_preload_libraries = 'securefile'\" to postgresql.conf (or append securefile to the list there) and restart the server.")));
}

void
sf_base_require_superuser(const char *what)
{
	if (!superuser())
		ereport(ERROR,
				(errcode(ERRCODE_INSUFFICIENT_PRIVILEGE),
				 errmsg("must be superuser to %s", what)));
}

void
sf_base_require_writes(const char *function)
{
	PreventCommandIfReadOnly(function);
	PreventCommandDuringRecovery(function);
	PreventCommandIfParallelMode(function);
}

void
sf_base_require_commits(FunctionCallInfo fcinfo, const char *procedure, const char *hint)
{
	CallContext *call = (CallContext *) fcinfo->context;

	if (call == NULL || !IsA(call, CallContext) || call->atomic)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_TRANSACTION_TERMINATION),
				 errmsg("%s commits, and cannot run in a transaction block", procedure),
				 errhint("%s", hint)));
}

void
sf_base_refuse_nulls(FunctionCallInfo fcinfo, int first, int last, const char *names)
{
	SF_ASSERT(first <= last && last < PG_NARGS());
	for (int i = first; i <= last; i++)
		if (PG_ARGISNULL(i))
			ereport(ERROR,
					(errcode(ERRCODE_NULL_VALUE_NOT_ALLOWED),
					 errmsg("%s must not be null", names)));
}
