/*-------------------------------------------------------------------------
 *
 * fit.c
 *	  Can an index of the old column be one of the new type?
 *
 * Operator classes and functions decide that, so the index is made, for an empty temporary
 * table that has the new type, and rolled back.
 *
 *-------------------------------------------------------------------------
 */
#include "base/base.h"

#include "access/xact.h"
#include "migrate/migrate_internal.h"
#include "nodes/makefuncs.h"
#include "nodes/parsenodes.h"
#include "utils/builtins.h"
#include "utils/memutils.h"
#include "utils/resowner.h"

#define TRIED		"securefile_migrate_try"

static void
try_index(SfMigration *m, const SfFinding *finding)
{
	IndexStmt  *stmt = (IndexStmt *) sfi_rename_index_statement(finding->detail, m->column,
																m->column, TRIED "_idx");

	sfi_migrate_run(m, "CREATE TEMPORARY TABLE " TRIED " (LIKE %s)", m->table);
	sfi_migrate_run(m, "ALTER TABLE pg_temp." TRIED " DROP COLUMN %s, ADD COLUMN %s %s",
					quote_identifier(m->column), quote_identifier(m->column), m->to_sql);
	stmt->relation = makeRangeVar("pg_temp", TRIED, -1);
	sfi_migrate_run_tree(m->owner, (Node *) stmt, finding->detail);
}

/* Does an error speak of the type?  Others, such as no right to make tables, tell nothing. */
static bool
is_about_type(const ErrorData *error)
{
	switch (error->sqlerrcode)
	{
		case ERRCODE_UNDEFINED_OBJECT:
		case ERRCODE_UNDEFINED_FUNCTION:
		case ERRCODE_AMBIGUOUS_FUNCTION:
		case ERRCODE_INVALID_OBJECT_DEFINITION:
		case ERRCODE_FEATURE_NOT_SUPPORTED:
		case ERRCODE_DATATYPE_MISMATCH:
			return true;
		default:
			return false;
	}
}

static bool
says_nothing(const ErrorData *error)
{
	return error->sqlerrcode == ERRCODE_INSUFFICIENT_PRIVILEGE ||
		error->sqlerrcode == ERRCODE_READ_ONLY_SQL_TRANSACTION;
}

char *
sfi_fit_problem(SfMigration *m, const SfFinding *finding)
{
	MemoryContext context = CurrentMemoryContext;
	ResourceOwner owner = CurrentResourceOwner;
	char	   *volatile problem = NULL;

	SF_ASSERT(finding->what == SF_DEPENDS_INDEX);
	BeginInternalSubTransaction(NULL);
	MemoryContextSwitchTo(context);
	PG_TRY();
	{
		try_index(m, finding);
	}
	PG_CATCH();
	{
		ErrorData  *error;

		MemoryContextSwitchTo(context);
		error = CopyErrorData();
		if (!is_about_type(error) && !says_nothing(error))
			PG_RE_THROW();
		FlushErrorState();
		if (is_about_type(error))
			problem = error->message;
	}
	PG_END_TRY();
	RollbackAndReleaseCurrentSubTransaction();
	MemoryContextSwitchTo(context);
	CurrentResourceOwner = owner;
	return problem;
}
