/*-------------------------------------------------------------------------
 *
 * context.c
 *	  The row that a loop over a table is at, or the column that its value is of,
 *	  named in the context of errors.
 *
 * A damaged value is reported by the rooms below, which know a segment and an
 * object, but no row.  A person who has to mend or delete the value needs the row.
 *
 *-------------------------------------------------------------------------
 */
#include "base/base.h"

#include "ddl/objects.h"

/* An ErrorContextCallback.  It runs in any error, so it looks at memory only. */
static void
describe_row(void *arg)
{
	const SfRowContext *context = arg;

	if (context->any_row)
	{
		if (context->table != NULL && context->column != NULL)
			errcontext("a value of column \"%s\" of table \"%s\"", context->column, context->table);
		return;
	}
	if (!ItemPointerIsValid(&context->tid))
		return;
	SF_ASSERT(context->table != NULL && context->column != NULL);
	errcontext("column \"%s\" of row (%u,%u) of table \"%s\"", context->column,
			   ItemPointerGetBlockNumber(&context->tid), ItemPointerGetOffsetNumber(&context->tid),
			   context->table);
}

void
sfi_ddl_row_context_begin(SfRowContext *context, Relation rel, AttrNumber attnum)
{
	/*
	 * a loop that is inside another one ends before it: contexts lie on one
	 * stack
	 */
	SF_ASSERT(error_context_stack != &context->callback);
	SF_ASSERT(attnum == 0 || rel != NULL);
	context->table = rel != NULL ? RelationGetRelationName(rel) : NULL;
	context->column = attnum != 0 ? sfi_ddl_column_name(rel, attnum) : NULL;
	context->any_row = false;
	ItemPointerSetInvalid(&context->tid);
	context->callback.callback = describe_row;
	context->callback.arg = context;
	context->callback.previous = error_context_stack;
	error_context_stack = &context->callback;
}

void
sfi_ddl_row_context_end(SfRowContext *context)
{
	SF_ASSERT(error_context_stack == &context->callback);
	error_context_stack = context->callback.previous;
}
