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

#include "check/check_internal.h"
#include "utils/builtins.h"
#include "utils/tuplestore.h"

#define FINDING_COLUMNS	5
#define REPAIR_COLUMNS	(FINDING_COLUMNS + 1)

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
sfi_check_report_bytes(SfCheck *check, const char *action, const char *finding,
					   ItemPointer tid, int64 segment_offset, int64 len_bytes,
					   const char *detail)
{
	Datum		values[REPAIR_COLUMNS] = {0};
	bool		nulls[REPAIR_COLUMNS] = {0};

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
	if (check->rsinfo->setDesc->natts == REPAIR_COLUMNS)
		values[FINDING_COLUMNS] = CStringGetTextDatum(action);
	check->nfindings++;
	tuplestore_putvalues(check->rsinfo->setResult, check->rsinfo->setDesc,
						 values, nulls);
}

void
sfi_check_report(SfCheck *check, const char *action, const char *finding, ItemPointer tid,
				 uint64 sector, uint64 nsectors, const char *detail, ...)
{
	char		buf[1024];
	va_list		args;

	va_start(args, detail);
	vsnprintf(buf, sizeof(buf), detail, args);
	va_end(args);
	if (nsectors == 0)
		sfi_check_report_bytes(check, action, finding, tid, -1, -1, buf);
	else
		sfi_check_report_bytes(check, action, finding, tid, sf_sectors_to_bytes(sector),
							   sf_sectors_to_bytes(nsectors), buf);
}

void
sfi_check_report_error(SfCheck *check, const char *action, const ErrorData *edata)
{
	ItemPointer tid = ItemPointerIsValid(&check->tid) ? &check->tid : NULL;

	if (action == NULL)
		return;
	if (edata->detail != NULL)
		sfi_check_report(check, action, "unreadable", tid, 0, 0, "%s: %s",
						 edata->message, edata->detail);
	else
		sfi_check_report(check, action, "unreadable", tid, 0, 0, "%s", edata->message);
}

/* A step of the check as one that base knows. */
typedef struct GuardedStep
{
	SfCheck    *check;
	SfCheckStep step;
	void	   *arg;
} GuardedStep;

static void
run_step(void *arg)
{
	GuardedStep *guarded = arg;

	guarded->step(guarded->check, guarded->arg);
}

bool
sfi_check_guarded(SfCheck *check, const char *action, SfCheckStep step, void *arg)
{
	GuardedStep guarded = {check, step, arg};
	ErrorData  *edata = sf_base_guarded(run_step, &guarded);

	if (edata == NULL)
		return true;
	sfi_check_report_error(check, action, edata);
	FreeErrorData(edata);
	return false;
}
