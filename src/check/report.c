/*-------------------------------------------------------------------------
 *
 * report.c
 *	  Findings: rows of the result, and errors turned into such.
 *
 * A checker returns rows, it does not throw: one damaged value must not hide
 * the next.  What the rooms below report as an error is caught in a
 * subtransaction, which releases whatever they held.
 *
 *-------------------------------------------------------------------------
 */
#include "base/base.h"

#include "access/xact.h"
#include "check/check_internal.h"
#include "utils/builtins.h"
#include "utils/memutils.h"
#include "utils/resowner.h"
#include "utils/tuplestore.h"

#define FINDING_COLUMNS	5

/* The detail, with the partition it is about in front. */
static text *
detail_text(SfCheck *check, const char *detail)
{
	if (check->column->partition == NULL)
		return cstring_to_text(detail);
	return cstring_to_text(psprintf("partition %s: %s",
									quote_identifier(check->column->partition),
									detail));
}

void
sf_check_report_bytes(SfCheck *check, const char *finding, ItemPointer tid,
					  int64 segment_offset, int64 len_bytes, const char *detail)
{
	Datum		values[FINDING_COLUMNS] = {0};
	bool		nulls[FINDING_COLUMNS] = {0};

	values[0] = CStringGetTextDatum(finding);
	values[1] = PointerGetDatum(tid);
	nulls[1] = tid == NULL;
	values[2] = Int64GetDatum(segment_offset);
	nulls[2] = segment_offset < 0;
	values[3] = Int64GetDatum(len_bytes);
	nulls[3] = len_bytes < 0;
	nulls[4] = detail == NULL;
	if (detail != NULL)
		values[4] = PointerGetDatum(detail_text(check, detail));
	tuplestore_putvalues(check->rsinfo->setResult, check->rsinfo->setDesc,
						 values, nulls);
}

void
sf_check_report(SfCheck *check, const char *finding, ItemPointer tid,
				uint64 sector, uint64 nsectors, const char *detail,...)
{
	char		buf[1024];
	va_list		args;

	va_start(args, detail);
	vsnprintf(buf, sizeof(buf), detail, args);
	va_end(args);
	if (nsectors == 0)
		sf_check_report_bytes(check, finding, tid, -1, -1, buf);
	else
		sf_check_report_bytes(check, finding, tid, sector * SF_SECTOR_SIZE,
							  nsectors * SF_SECTOR_SIZE, buf);
}

/*
 * Does an error tell of the disk?  Cancel, shortage of memory and the like
 * say nothing about the value and end the check.
 */
static bool
is_finding(const ErrorData *edata)
{
	switch (ERRCODE_TO_CATEGORY(edata->sqlerrcode))
	{
		case ERRCODE_INSUFFICIENT_RESOURCES:
		case ERRCODE_OPERATOR_INTERVENTION:
		case ERRCODE_TRANSACTION_ROLLBACK:
		case ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE:
		case ERRCODE_PROGRAM_LIMIT_EXCEEDED:
			return false;
		default:
			return true;
	}
}

static void
report_error(SfCheck *check, const ErrorData *edata)
{
	ItemPointer tid = ItemPointerIsValid(&check->tid) ? &check->tid : NULL;

	if (edata->detail != NULL)
		sf_check_report(check, "unreadable", tid, 0, 0, "%s: %s",
						edata->message, edata->detail);
	else
		sf_check_report(check, "unreadable", tid, 0, 0, "%s", edata->message);
}

bool
sf_check_guarded(SfCheck *check, SfCheckStep step, void *arg)
{
	MemoryContext context = CurrentMemoryContext;
	ResourceOwner owner = CurrentResourceOwner;
	ErrorData  *volatile edata = NULL;

	BeginInternalSubTransaction(NULL);
	MemoryContextSwitchTo(context);
	PG_TRY();
	{
		step(check, arg);
		ReleaseCurrentSubTransaction();
	}
	PG_CATCH();
	{
		MemoryContextSwitchTo(context);
		edata = CopyErrorData();
		FlushErrorState();
		RollbackAndReleaseCurrentSubTransaction();
	}
	PG_END_TRY();
	MemoryContextSwitchTo(context);
	CurrentResourceOwner = owner;

	if (edata == NULL)
		return true;
	if (!is_finding(edata))
		ReThrowError(edata);
	report_error(check, edata);
	FreeErrorData(edata);
	return false;
}
