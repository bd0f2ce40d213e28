/*-------------------------------------------------------------------------
 *
 * report.c
 *	  The table of findings; findings as rows of the result; errors turned into
 *	  findings.
 *
 * A check returns rows and does not throw, so that one damaged value cannot hide
 * the next one.  An ERROR of the rooms below is caught in a subtransaction, whose
 * rollback releases the locks and buffers that they held.
 *
 *-------------------------------------------------------------------------
 */
#include "base/base.h"

#include "check/check_internal.h"
#include "utils/builtins.h"
#include "utils/tuplestore.h"

#define FINDING_COLUMNS	5
#define REPAIR_COLUMNS	(FINDING_COLUMNS + 1)

/* Text of a finding, and the action of a repair unless the caller has another one. */
typedef struct FindingKind
{
	const char *text;
	SfRepair	repair;
} FindingKind;

static const FindingKind kinds[] = {
#define SF_FINDING(kind, text, repair) {text, SF_REPAIR_##repair},
#include "check/findings.h"
#undef SF_FINDING
};

/* Texts of column "action" of securefile_repair(). */
static const char *const actions[] = {
	[SF_REPAIR_NONE] = "none",
	[SF_REPAIR_MARK] = "mark used",
	[SF_REPAIR_FREE] = "set free",
	[SF_REPAIR_KEEP] = "keep",
	[SF_REPAIR_LISTS] = "rebuild lists of pages",
	[SF_REPAIR_RELINK] = "rebuild lists of pages",
	[SF_REPAIR_PAGE] = "rebuild page",
	[SF_REPAIR_CORRECT] = "correct",
	[SF_REPAIR_RECORD] = "rebuild record",
};

StaticAssertDecl(lengthof(kinds) == SF_FINDING_COUNT, "a row for every finding");
StaticAssertDecl(lengthof(actions) == SF_REPAIR_UNREPORTED, "a text for every action");

/* The detail, with the name of its partition in front. */
static text *
detail_text(SfCheck *check, const char *detail)
{
	if (!check->column->is_partition)
		return cstring_to_text(detail);
	return cstring_to_text(psprintf("partition %s: %s", quote_identifier(check->column->table),
									detail));
}

/* Columns that a finding has no value for are null. */
void
sfi_check_report_bytes(SfCheck *check, SfRepair action, SfFinding finding, ItemPointer tid,
					   int64 segment_offset, int64 len_bytes, const char *detail)
{
	Datum		values[REPAIR_COLUMNS] = {0};
	bool		nulls[REPAIR_COLUMNS] = {0};
	int			ncolumns;

	if (check->rsinfo == NULL)
	{
		check->nfindings++;
		return;
	}
	ncolumns = check->rsinfo->setDesc->natts;
	SF_ASSERT(ncolumns == FINDING_COLUMNS || ncolumns == REPAIR_COLUMNS);
	SF_ASSERT((segment_offset < 0) == (len_bytes < 0));
	SF_ASSERT(finding < SF_FINDING_COUNT);
	if (action == SF_REPAIR_USUAL)
		action = kinds[finding].repair;
	SF_ASSERT(action < SF_REPAIR_UNREPORTED);

	values[0] = CStringGetTextDatum(kinds[finding].text);
	values[1] = PointerGetDatum(tid);
	nulls[1] = tid == NULL || !ItemPointerIsValid(tid);
	values[2] = Int64GetDatum(segment_offset);
	nulls[2] = segment_offset < 0;
	values[3] = Int64GetDatum(len_bytes);
	nulls[3] = len_bytes < 0;
	nulls[4] = detail == NULL;
	if (detail != NULL)
		values[4] = PointerGetDatum(detail_text(check, detail));
	if (ncolumns == REPAIR_COLUMNS)
		values[FINDING_COLUMNS] = CStringGetTextDatum(actions[action]);
	check->nfindings++;
	check->newest = finding;
	check->lists_damaged |= action == SF_REPAIR_LISTS;
	tuplestore_putvalues(check->rsinfo->setResult, check->rsinfo->setDesc,
						 values, nulls);
}

SfFinding
sfi_check_finding_named(const char *text)
{
	for (int i = 0; i < SF_FINDING_COUNT; i++)
		if (strcmp(kinds[i].text, text) == 0)
			return i;
	elog(ERROR, "unrecognized finding \"%s\"", text);
}

void
sfi_check_report_as(SfCheck *check, SfRepair action, SfFinding finding, ItemPointer tid,
					uint64 sector, uint64 nsectors, const char *detail, ...)
{
	bool		is_placed = nsectors > 0;
	char		buf[1024];
	va_list		args;

	va_start(args, detail);
	vsnprintf(buf, sizeof(buf), detail, args);
	va_end(args);
	sfi_check_report_bytes(check, action, finding, tid,
						   is_placed ? sf_sectors_to_bytes(sector) : -1,
						   is_placed ? sf_sectors_to_bytes(nsectors) : -1, buf);
}

void
sfi_check_report_error(SfCheck *check, SfRepair action, const ErrorData *edata)
{
	check->later |= sf_base_is_later(edata);
	if (action == SF_REPAIR_UNREPORTED)
		return;
	sfi_check_report_as(check, action, SF_FINDING_UNREADABLE, &check->tid, 0, 0, "%s%s%s",
						edata->message, edata->detail == NULL ? "" : ": ",
						edata->detail == NULL ? "" : edata->detail);
}

bool
sfi_check_guarded(SfCheck *check, SfRepair action, SfBaseStep step, void *arg)
{
	ErrorData  *edata = sf_base_guarded(step, arg);

	if (edata == NULL)
		return true;
	sfi_check_report_error(check, action, edata);
	FreeErrorData(edata);
	return false;
}
