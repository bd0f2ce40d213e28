/*-------------------------------------------------------------------------
 *
 * settle.c
 *	  Deferred values (defer.c) do not get out of the row that they are for.
 *
 * Rows that a query returns (RETURNING) have been written: they get the values that were
 * placed.  Parameters of a query that runs while a row is checked get the value that the row was
 * given, where the query may keep them for longer than the row; those of a row that was written,
 * the one that was placed.
 *
 *-------------------------------------------------------------------------
 */
#include "base/base.h"

#include "ddl/command.h"
#include "executor/execdesc.h"
#include "executor/tuptable.h"
#include "object/object.h"
#include "utils/datum.h"
#include "utils/lsyscache.h"
#include "utils/memutils.h"

/* ---- rows that a query returns ---- */

typedef struct SfSettler
{
	DestReceiver pub;
	DestReceiver *inner;
	TupleTableSlot *slot;
} SfSettler;

static void
settle_startup(DestReceiver *self, int operation, TupleDesc desc)
{
	SfSettler  *settler = (SfSettler *) self;

	settler->slot = MakeSingleTupleTableSlot(desc, &TTSOpsVirtual);
	settler->inner->rStartup(settler->inner, operation, desc);
}

static bool
settle_row(TupleTableSlot *row, DestReceiver *self)
{
	SfSettler  *settler = (SfSettler *) self;
	TupleTableSlot *slot = settler->slot;

	SF_ASSERT(slot->tts_tupleDescriptor->natts == row->tts_tupleDescriptor->natts);
	slot_getallattrs(row);
	ExecClearTuple(slot);
	for (int i = 0; i < row->tts_tupleDescriptor->natts; i++)
	{
		bool		is_varlena = TupleDescAttr(row->tts_tupleDescriptor, i)->attlen == -1;

		slot->tts_isnull[i] = row->tts_isnull[i];
		slot->tts_values[i] = is_varlena && !row->tts_isnull[i] ?
			sf_object_placed(row->tts_values[i]) : row->tts_values[i];
	}
	ExecStoreVirtualTuple(slot);
	return settler->inner->receiveSlot(slot, settler->inner);
}

static void
settle_shutdown(DestReceiver *self)
{
	SfSettler  *settler = (SfSettler *) self;

	ExecDropSingleTupleTableSlot(settler->slot);
	settler->inner->rShutdown(settler->inner);
}

/* The inner receiver is destroyed by its maker. */
static void
settle_destroy(DestReceiver *self)
{
	pfree(self);
}

DestReceiver *
sfi_ddl_settle_rows(const QueryDesc *query)
{
	SfSettler  *settler;

	if (!(query->plannedstmt->hasReturning || query->plannedstmt->hasModifyingCTE) ||
		!sfi_ddl_noting() || sfi_ddl_objects() == NULL ||
		!sfi_ddl_may_have_values(query->tupDesc))
		return query->dest;
	settler = palloc0(sizeof(SfSettler));
	settler->pub = (DestReceiver) {settle_row, settle_startup, settle_shutdown, settle_destroy,
										  query->dest->mydest};
	settler->inner = query->dest;
	return &settler->pub;
}

/* ---- parameters of queries that run meanwhile ---- */

void
sfi_ddl_settle_parameters(ParamListInfo params)
{
	MemoryContext caller;

	/* a function that waits fetches its parameters one by one */
	if (params == NULL || params->paramFetch != NULL || !sfi_ddl_any_deferred())
		return;
	caller = MemoryContextSwitchTo(GetMemoryChunkContext(params));
	for (int i = 0; i < params->numParams; i++)
	{
		ParamExternData *param = &params->params[i];
		Datum		given;

		if (param->isnull || !OidIsValid(param->ptype) || get_typlen(param->ptype) != -1)
			continue;
		given = sf_object_given(param->value);
		if (given != param->value)
			param->value = datumCopy(given, false, -1);
	}
	MemoryContextSwitchTo(caller);
}
