/*-------------------------------------------------------------------------
 *
 * context.c
 *	  The row that a loop over a table is at, named in errors.
 *
 * A damaged value is reported by the rooms below, which know a segment and an
 * object, not the row.  Whoever looks for the damage needs the row.
 *
 *-------------------------------------------------------------------------
 */
#include "base/base.h"

#include "ddl/rows.h"
#include "utils/rel.h"

/* An ErrorContextCallback: looks at nothing but memory, since the error may be anything. */
static void
describe_row(void *arg)
{
	const SfRowContext *context = arg;
	const char *table = RelationGetRelationName(context->rel);
	BlockNumber block = ItemPointerGetBlockNumberNoCheck(&context->tid);
	OffsetNumber offset = ItemPointerGetOffsetNumberNoCheck(&context->tid);

	if (!ItemPointerIsValid(&context->tid))
		return;
	if (context->attnum == 0)
		errcontext("row (%u,%u) of table \"%s\"", block, offset, table);
	else
		errcontext("column \"%s\" of row (%u,%u) of table \"%s\"",
				   NameStr(TupleDescAttr(RelationGetDescr(context->rel), context->attnum - 1)->attname),
				   block, offset, table);
}

void
sfi_ddl_row_context_begin(SfRowContext *context, Relation rel, AttrNumber attnum)
{
	SF_ASSERT(attnum >= 0 && attnum <= RelationGetNumberOfAttributes(rel));
	context->rel = rel;
	context->attnum = attnum;
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
