/*-------------------------------------------------------------------------
 *
 * support.c
 *	  What the planner is told of functions that read values: how much they cost.
 *
 * To the planner a document is as wide as its row, where its locator lies: a digest of a
 * terabyte costs no more than one of nothing.  Here it learns the mean length of the values, as of
 * the last ANALYZE (stats/sampled.c).  So conditions on other columns come first, an index is worth
 * its while, and a table with parallel_workers is scanned in parallel.
 *
 * Reading one value costs
 *
 *		seq_page_cost			for each 8 KB that it takes in the segment
 *		cpu_operator_cost		for each 32 bytes of it
 *
 * The planner multiplies by the number of rows.  Above jit_above_cost (100000) it compiles the
 * expressions of a plan.  That costs as much as some hundreds of megabytes of digests, and makes
 * them no faster: their time goes into the function, not into its call.  For that reason
 * STARTUP_PART of what the first value costs is said to be start-up cost, which counts once, and
 * only the rest for each row.  A plan for one row costs what it should.  In long scans 8 KB count
 * as 0.6 pages, which is about what they take beside pages of the heap: units of 128 KB are read
 * ahead, and need no buffers.
 *
 * None of this changes what is leakproof: conditions of row security stay first.
 *
 *-------------------------------------------------------------------------
 */
#include "base/base.h"

#include "access/detoast.h"
#include "access/htup_details.h"
#include "catalog/pg_statistic.h"
#include "catalog/pg_type.h"
#include "config/config.h"
#include "fmgr.h"
#include "nodes/nodeFuncs.h"
#include "nodes/supportnodes.h"
#include "optimizer/cost.h"
#include "optimizer/optimizer.h"
#include "stats/stats.h"
#include "utils/selfuncs.h"

PG_FUNCTION_INFO_V1(securefile_support_whole);
PG_FUNCTION_INFO_V1(securefile_support_kept);
PG_FUNCTION_INFO_V1(securefile_support_equal);
PG_FUNCTION_INFO_V1(securefile_support_part);

/* of a value of which nothing is known */
#define DEFAULT_BYTES		(32 * 1024)

#define BYTES_AN_OPERATION	32

#define STARTUP_PART		0.625

/* How many comparisons find values of one length, which they have to read. */
#define EQUAL_LENGTHS		0.125

/* Mean lengths of what an expression yields, in bytes. */
typedef struct Lengths
{
	double		plain;
	double		stored;			/* that are read from a segment */
} Lengths;

/* ---- how long values are ---- */

/*
 * Of a column, as ANALYZE has seen it.  The width is that of the row: of a value that lies there it
 * is the length, too.
 */
static Lengths
lengths_of_statistics(HeapTuple tuple)
{
	double		width = ((Form_pg_statistic) GETSTRUCT(tuple))->stawidth;
	Lengths		lengths = {width, 0};
	SfSampled	sampled;

	if (sf_stats_sampled(tuple, &sampled))
	{
		lengths.plain = sampled.part * sampled.plain_bytes + (1 - sampled.part) * width;
		lengths.stored = sampled.part * sampled.stored_bytes;
	}
	return lengths;
}

static Lengths
lengths_of_column(PlannerInfo *root, Node *column)
{
	Lengths		lengths = {DEFAULT_BYTES, DEFAULT_BYTES};
	VariableStatData data;

	examine_variable(root, column, 0, &data);
	if (HeapTupleIsValid(data.statsTuple))
		lengths = lengths_of_statistics(data.statsTuple);
	ReleaseVariableStats(data);
	return lengths;
}

/* Of an expression: those of the longest column in it. */
static Lengths
lengths_of(PlannerInfo *root, Node *expression)
{
	Lengths		longest = {0};
	List	   *columns;
	ListCell   *cell;

	if (root == NULL)
		return (Lengths) {DEFAULT_BYTES, DEFAULT_BYTES};
	columns = pull_var_clause(expression, PVC_RECURSE_AGGREGATES | PVC_RECURSE_WINDOWFUNCS |
							  PVC_RECURSE_PLACEHOLDERS);
	if (columns == NIL)
		return (Lengths) {DEFAULT_BYTES, DEFAULT_BYTES};
	foreach(cell, columns)
	{
		Lengths		lengths = lengths_of_column(root, lfirst(cell));

		if (lengths.plain > longest.plain)
			longest = lengths;
	}
	list_free(columns);
	return longest;
}

/* Of an argument, which may be a constant. */
static Lengths
lengths_of_argument(PlannerInfo *root, Node *argument)
{
	if (IsA(argument, Const) && ((Const *) argument)->constlen == -1 &&
		!((Const *) argument)->constisnull)
		return (Lengths) {toast_raw_datum_size(((Const *) argument)->constvalue), 0};
	return lengths_of(root, argument);
}

/* ---- what that costs ---- */

static double
cost_of(Lengths lengths)
{
	return lengths.stored / BLCKSZ * seq_page_cost +
		lengths.plain / BYTES_AN_OPERATION * cpu_operator_cost;
}

/* Add the cost of reading a value to that of a call, which the catalog has. */
static void
set_cost(SupportRequestCost *request, double operations, double reading)
{
	/* settings of costs may be anything, and no sum must become infinite */
	reading = Min(reading, disable_cost);
	SF_ASSERT(reading >= 0);
	request->startup = reading * STARTUP_PART;
	request->per_tuple = operations * cpu_operator_cost + reading * (1 - STARTUP_PART);
}

/* The arguments of a call, as an operator or by name; NIL: they are not known. */
static List *
arguments_of(Node *call)
{
	if (call == NULL)
		return NIL;
	switch (nodeTag(call))
	{
		case T_FuncExpr:
			return ((FuncExpr *) call)->args;
		case T_OpExpr:
		case T_DistinctExpr:
		case T_NullIfExpr:
			return ((OpExpr *) call)->args;
		default:
			return NIL;
	}
}

/* Argument n of a call, from 0 on; NULL: there is none, or it is not known. */
static Node *
argument_of(const SupportRequestCost *request, int n)
{
	List	   *arguments = arguments_of(request->node);

	return n < list_length(arguments) ? list_nth(arguments, n) : NULL;
}

/* The request, if it is one for costs; NULL: it is something else. */
static SupportRequestCost *
cost_request(FunctionCallInfo fcinfo)
{
	Node	   *request = (Node *) PG_GETARG_POINTER(0);

	return IsA(request, SupportRequestCost) ? (SupportRequestCost *) request : NULL;
}

/* ---- functions, by what they read ---- */

/* opening a value, which functions had as their COST before there was a support function */
#define OPENING			100

static Lengths
lengths_of_document(const SupportRequestCost *request, int n)
{
	Node	   *document = argument_of(request, n);

	return document == NULL ? (Lengths) {DEFAULT_BYTES, DEFAULT_BYTES}
		: lengths_of_argument(request->root, document);
}

/* All of the first argument. */
Datum
securefile_support_whole(PG_FUNCTION_ARGS)
{
	SupportRequestCost *request = cost_request(fcinfo);

	if (request != NULL)
		set_cost(request, OPENING, cost_of(lengths_of_document(request, 0)));
	PG_RETURN_POINTER(request);
}

/* The same, unless the column of the first argument keeps what is wanted. */
Datum
securefile_support_kept(PG_FUNCTION_ARGS)
{
	SupportRequestCost *request = cost_request(fcinfo);
	Node	   *document = request == NULL ? NULL : argument_of(request, 0);
	int32		options = document == NULL ? -1 : exprTypmod(document);

	if (options >= 0 && (options & SF_OPT_HASH))
		set_cost(request, 1, 0);
	else if (request != NULL)
		set_cost(request, OPENING, cost_of(lengths_of_document(request, 0)));
	PG_RETURN_POINTER(request);
}

/* Two arguments, if they are of one length: then no more of each than the shorter one has. */
Datum
securefile_support_equal(PG_FUNCTION_ARGS)
{
	SupportRequestCost *request = cost_request(fcinfo);

	if (request != NULL)
	{
		double		a = cost_of(lengths_of_document(request, 0));
		double		b = cost_of(lengths_of_document(request, 1));

		set_cost(request, OPENING, 2 * Min(a, b) * EQUAL_LENGTHS);
	}
	PG_RETURN_POINTER(request);
}

/* An integer that is known before the query runs. */
static bool
is_known(Node *argument, double *number)
{
	Const	   *constant = (Const *) argument;

	if (argument == NULL || !IsA(argument, Const) || constant->constisnull)
		return false;
	if (constant->consttype == INT4OID)
		*number = DatumGetInt32(constant->constvalue);
	else if (constant->consttype == INT8OID)
		*number = DatumGetInt64(constant->constvalue);
	else
		return false;
	return true;
}

/* Of the first argument the bytes from the second on, as many as the third says. */
Datum
securefile_support_part(PG_FUNCTION_ARGS)
{
	SupportRequestCost *request = cost_request(fcinfo);

	if (request != NULL)
	{
		Lengths		lengths = lengths_of_document(request, 0);
		double		wanted = lengths.plain;
		double		start;
		double		count;
		double		part;

		if (is_known(argument_of(request, 1), &start))
			wanted = Max(wanted - Max(start - 1, 0), 0);
		if (is_known(argument_of(request, 2), &count))
			wanted = Min(wanted, Max(count, 0));
		part = lengths.plain > 0 ? wanted / lengths.plain : 0;
		lengths.plain *= part;
		lengths.stored *= part;
		set_cost(request, 1, cost_of(lengths));
	}
	PG_RETURN_POINTER(request);
}
