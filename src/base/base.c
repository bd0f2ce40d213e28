/*-------------------------------------------------------------------------
 *
 * base.c
 *	  Check for tables of other sessions, full transaction ids, boot id, sleep, result rows,
 *	  short values.
 *
 *-------------------------------------------------------------------------
 */
#include "base/base.h"

#include "access/detoast.h"
#include "access/htup_details.h"
#include "access/transam.h"
#include "base/shared.h"
#include "catalog/namespace.h"
#include "catalog/pg_control.h"
#include "common/controldata_utils.h"
#include "funcapi.h"
#include "miscadmin.h"
#include "storage/latch.h"
#include "utils/lsyscache.h"
#include "utils/timestamp.h"

typedef struct BaseShared
{
	uint64		boot_id;
	bool		crashed;		/* the server was not shut down before */
	TimestampTz started;
} BaseShared;

/* How long a write of a killed process may still be on its way, in ms. */
#define OLD_IO_MS	1000

#define MOST_SLEEP_US	100000

static BaseShared *shared = NULL;

void
sf_base_refuse_other_temp(Oid relid)
{
	if (get_rel_persistence(relid) == RELPERSISTENCE_TEMP &&
		isOtherTempNamespace(get_rel_namespace(relid)))
		ereport(ERROR,
				(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
				 errmsg("cannot access temporary tables of other sessions")));
}

uint64
sf_base_full_xid(TransactionId xid)
{
	FullTransactionId next = ReadNextFullTransactionId();
	uint32		epoch = EpochFromFullTransactionId(next);

	SF_ASSERT(TransactionIdIsNormal(xid));
	if (xid > XidFromFullTransactionId(next))
		epoch--;
	return U64FromFullTransactionId(FullTransactionIdFromEpochAndXid(epoch, xid));
}

uint64
sf_base_boot_id(void)
{
	return shared ? shared->boot_id : 0;
}

void
sf_base_wait_out_old_io(void)
{
	static bool waited = false;
	TimestampTz end = TimestampTzPlusMilliseconds(shared->started, OLD_IO_MS);

	if (waited || !shared->crashed)
		return;
	while (GetCurrentTimestamp() < end)
	{
		CHECK_FOR_INTERRUPTS();
		pg_usleep(10000L);
	}
	waited = true;
}

bool
sf_base_sleep(uint64 until_us, uint32 wait_event)
{
	uint64		now_us = sf_base_now_us();

	CHECK_FOR_INTERRUPTS();
	if (now_us >= until_us)
		return false;
	(void) WaitLatch(MyLatch, WL_LATCH_SET | WL_TIMEOUT | WL_EXIT_ON_PM_DEATH,
					 (long) (Min(until_us - now_us, MOST_SLEEP_US) / 1000 + 1), wait_event);
	ResetLatch(MyLatch);
	CHECK_FOR_INTERRUPTS();
	return true;
}

/* The nulls of a row that has none. */
static bool no_nulls[MaxTupleAttributeNumber];

Datum
sf_base_row(FunctionCallInfo fcinfo, Datum *values, bool *nulls)
{
	TupleDesc	desc;

	if (get_call_result_type(fcinfo, NULL, &desc) != TYPEFUNC_COMPOSITE)
		elog(ERROR, "return type must be a row type");
	return HeapTupleGetDatum(heap_form_tuple(BlessTupleDesc(desc), values,
											 nulls != NULL ? nulls : no_nulls));
}

void
sf_base_put_row(FunctionCallInfo fcinfo, Datum *values, bool *nulls)
{
	ReturnSetInfo *result = (ReturnSetInfo *) fcinfo->resultinfo;

	tuplestore_putvalues(result->setResult, result->setDesc, values,
						 nulls != NULL ? nulls : no_nulls);
}

struct varlena *
sf_base_detoast_short(Datum value, Size most_bytes)
{
	return toast_raw_datum_size(value) > VARHDRSZ + most_bytes ? NULL
		: PG_DETOAST_DATUM_PACKED(value);
}

/* Was the server running, or recovering, when it ended? */
static bool
was_crashed(void)
{
	bool		crc_ok;
	ControlFileData *control = get_controlfile(DataDir, &crc_ok);
	bool		crashed = !crc_ok || (control->state != DB_SHUTDOWNED &&
									  control->state != DB_SHUTDOWNED_IN_RECOVERY);

	pfree(control);
	return crashed;
}

/*
 * A random number rather than a counter: no state to keep, and two servers
 * that were copied from each other differ too.
 */
static void
init_start(void)
{
	shared->crashed = was_crashed();
	shared->started = GetCurrentTimestamp();
	while (shared->boot_id == 0)
	{
		if (!pg_strong_random(&shared->boot_id, sizeof(shared->boot_id)))
			elog(FATAL, "could not generate random boot id");
	}
}

const SfSharedArea sf_base_area = {
	.name = "securefile base", .at = (void **) &shared,
	.bytes = sizeof(BaseShared), .init = init_start
};
