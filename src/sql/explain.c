/*-------------------------------------------------------------------------
 *
 * explain.c
 *	  EXPLAIN (ANALYZE, SECUREFILE): what a statement does with values, beside the blocks
 *	  that EXPLAIN (BUFFERS) shows.
 *
 * PostgreSQL 18 lets an extension add an option to EXPLAIN.  The counters of the session are read
 * when the option is met, and again when the plan has run; the difference is the statement's, with
 * that of its parallel workers.  Where there are several plans, by a rule, each shows its own.
 *
 *-------------------------------------------------------------------------
 */
#include "base/base.h"

#include "sql/sql.h"

#if SF_EXPLAIN_OPTIONS

#include "commands/defrem.h"
#include "commands/explain.h"
#include "commands/explain_format.h"
#include "commands/explain_state.h"
#include "stats/stats.h"

#define OPTION	"securefile"

/* What is shown. */
typedef struct Shown
{
	const char *group;			/* of the text format: before some of them */
	const char *name;
	const char *label;			/* of other formats */
	size_t		counter;		/* place in SfStatCounters */
} Shown;

static const Shown shown[] = {
	{"units", "read", "Units Read", offsetof(SfStatCounters, units_read)},
	{NULL, "cached", "Units Cached", offsetof(SfStatCounters, units_cached)},
	{NULL, "decompressed", "Units Decompressed", offsetof(SfStatCounters, units_decompressed)},
	{"bytes", "scanned", "Bytes Scanned", offsetof(SfStatCounters, scanned_bytes)},
	{NULL, "returned", "Bytes Returned", offsetof(SfStatCounters, returned_bytes)},
	{NULL, "skipped", "Bytes Skipped", offsetof(SfStatCounters, skipped_bytes)},
};

/* Their sums over all columns. */
typedef struct Counted
{
	uint64		counts[lengthof(shown)];
} Counted;

static int	extension_id;
static explain_validate_options_hook_type prev_validate_hook;
static explain_per_plan_hook_type prev_per_plan_hook;

static Counted
count_session(void)
{
	Counted		sum = {0};
	SfStatColumn *columns;
	int			n = sf_stats_session_list(&columns);

	for (int i = 0; i < n; i++)
		for (int c = 0; c < lengthof(shown); c++)
			sum.counts[c] += *(uint64 *) ((char *) &columns[i].counters + shown[c].counter);
	pfree(columns);
	return sum;
}

static void
take_option(ExplainState *es, DefElem *option, ParseState *pstate)
{
	Counted    *before = NULL;

	if (defGetBoolean(option))
	{
		before = palloc(sizeof(Counted));
		*before = count_session();
	}
	SetExplainExtensionState(es, extension_id, before);
}

/* As the server does for its own options that show what has run. */
static void
validate(ExplainState *es, List *options, ParseState *pstate)
{
	if (prev_validate_hook != NULL)
		prev_validate_hook(es, options, pstate);
	if (GetExplainExtensionState(es, extension_id) != NULL && !es->analyze)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("EXPLAIN option %s requires ANALYZE", "SECUREFILE")));
}

static void
show_text(ExplainState *es, const Counted *since)
{
	ExplainIndentText(es);
	appendStringInfoString(es->str, "Securefile:");
	for (int c = 0; c < lengthof(shown); c++)
	{
		if (shown[c].group != NULL)
			appendStringInfo(es->str, "%s %s", c > 0 ? "," : "", shown[c].group);
		appendStringInfo(es->str, " %s=" UINT64_FORMAT, shown[c].name, since->counts[c]);
	}
	appendStringInfoChar(es->str, '\n');
}

static void
show(ExplainState *es, const Counted *since)
{
	if (es->format == EXPLAIN_FORMAT_TEXT)
	{
		show_text(es, since);
		return;
	}
	ExplainOpenGroup("Securefile", "Securefile", true, es);
	for (int c = 0; c < lengthof(shown); c++)
		ExplainPropertyUInteger(shown[c].label, NULL, since->counts[c], es);
	ExplainCloseGroup("Securefile", "Securefile", true, es);
}

static void
plan_has_run(PlannedStmt *plan, IntoClause *into, ExplainState *es, const char *query,
			 ParamListInfo params, QueryEnvironment *environment)
{
	Counted    *before = GetExplainExtensionState(es, extension_id);
	Counted		now;

	if (prev_per_plan_hook != NULL)
		prev_per_plan_hook(plan, into, es, query, params, environment);
	if (before == NULL)
		return;
	now = count_session();
	for (int c = 0; c < lengthof(shown); c++)
		before->counts[c] = now.counts[c] - before->counts[c];
	show(es, before);
	*before = now;
}

void
sf_sql_explain_install(void)
{
	extension_id = GetExplainExtensionId(OPTION);
	RegisterExtensionExplainOption(OPTION, take_option);
	prev_validate_hook = explain_validate_options_hook;
	explain_validate_options_hook = validate;
	prev_per_plan_hook = explain_per_plan_hook;
	explain_per_plan_hook = plan_has_run;
}

#else

void
sf_sql_explain_install(void)
{
}

#endif
