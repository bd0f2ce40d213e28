/*-------------------------------------------------------------------------
 *
 * salvage.c
 *	  securefile_salvage(): what is still sound of a damaged value.
 *
 * Unit by unit, each in a subtransaction of its own: what fails becomes a row that
 * says why.  No byte comes back that was not checked, here either.
 *
 *-------------------------------------------------------------------------
 */
#include "base/base.h"

#include "fmgr.h"
#include "format/format.h"
#include "funcapi.h"
#include "space/space.h"
#include "sql/content.h"
#include "utils/builtins.h"

PG_FUNCTION_INFO_V1(securefile_salvage);

enum
{
	COLUMN_START,
	COLUMN_LENGTH,
	COLUMN_DATA,
	COLUMN_PROBLEM,
	COLUMNS,
};

typedef struct Salvage
{
	SfSqlContent content;
	int64		next;			/* object_offset of the next unit */
	int64		len;			/* of it */
	bytea	   *unit;			/* it, if it could be read */
} Salvage;

/*
 * ERROR if the value is not in its segment, or its locator is not genuine: then it has
 * no sound part, and every row would repeat the same problem.
 */
static void
require_value(const SfSqlContent *content)
{
	if (content->value.form == SF_FORM_STORED)
		sf_space_release(sf_object_open(&content->value.loc));
}

/* Open the value, in memory that lasts for all rows. */
static Salvage *
begin_salvage(FuncCallContext *funcctx, FunctionCallInfo fcinfo)
{
	MemoryContext old = MemoryContextSwitchTo(funcctx->multi_call_memory_ctx);
	Salvage    *salvage = palloc0(sizeof(Salvage));
	TupleDesc	desc;

	if (get_call_result_type(fcinfo, NULL, &desc) != TYPEFUNC_COMPOSITE)
		elog(ERROR, "return type must be a row type");
	funcctx->tuple_desc = BlessTupleDesc(desc);
	sfi_sql_open(PG_GETARG_DATUM(0), &salvage->content);
	require_value(&salvage->content);
	MemoryContextSwitchTo(old);
	return salvage;
}

/* An SfBaseStep: read the next unit, or throw. */
static void
read_unit(void *arg)
{
	Salvage    *salvage = arg;

	SF_ASSERT(salvage->next % SF_UNIT_SIZE == 0 && salvage->len <= SF_UNIT_SIZE);
	salvage->unit = sfi_sql_hand_out(&salvage->content, salvage->next, salvage->len);
}

static char *
problem_of(const ErrorData *error)
{
	return error->detail == NULL ? pstrdup(error->message)
		: psprintf("%s: %s", error->message, error->detail);
}

/* The row of the next unit: its bytes, or the problem. */
static Datum
unit_row(Salvage *salvage, TupleDesc desc)
{
	ErrorData  *error = sf_base_guarded(read_unit, salvage);
	Datum		values[COLUMNS] = {0};
	bool		nulls[COLUMNS] = {false};

	values[COLUMN_START] = Int64GetDatum(salvage->next + 1);
	values[COLUMN_LENGTH] = Int64GetDatum(salvage->len);
	nulls[COLUMN_DATA] = error != NULL;
	nulls[COLUMN_PROBLEM] = error == NULL;
	if (error == NULL)
		values[COLUMN_DATA] = PointerGetDatum(salvage->unit);
	else
		values[COLUMN_PROBLEM] = CStringGetTextDatum(problem_of(error));
	return HeapTupleGetDatum(heap_form_tuple(desc, values, nulls));
}

Datum
securefile_salvage(PG_FUNCTION_ARGS)
{
	FuncCallContext *funcctx;
	Salvage    *salvage;
	Datum		row;

	if (SRF_IS_FIRSTCALL())
	{
		funcctx = SRF_FIRSTCALL_INIT();
		funcctx->user_fctx = begin_salvage(funcctx, fcinfo);
	}
	funcctx = SRF_PERCALL_SETUP();
	salvage = funcctx->user_fctx;
	salvage->len = Min(salvage->content.length - salvage->next, SF_UNIT_SIZE);
	if (salvage->len == 0)
		SRF_RETURN_DONE(funcctx);
	row = unit_row(salvage, funcctx->tuple_desc);
	salvage->next += salvage->len;
	SRF_RETURN_NEXT(funcctx, row);
}
