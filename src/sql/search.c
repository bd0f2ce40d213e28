/*-------------------------------------------------------------------------
 *
 * search.c
 *	  position(), securefile_position(), securefile_positions(): where a pattern of bytes
 *	  is in a value of any length (Oracle: DBMS_LOB.INSTR).
 *
 * A value is walked through in parts (walker.c), which are searched one by one (matcher.c), and
 * nothing behind the match is asked for.  A negative start walks backwards, as for the
 * trailers of archives.
 *
 *-------------------------------------------------------------------------
 */
#include "base/base.h"

#include "fmgr.h"
#include "funcapi.h"
#include "sql/matcher.h"
#include "sql/walker.h"

PG_FUNCTION_INFO_V1(securefile_position_in);
PG_FUNCTION_INFO_V1(securefile_position);
PG_FUNCTION_INFO_V1(securefile_positions);

typedef struct Search
{
	bool		backwards;
	int64		position;		/* of the next match, from 1 .. */
	int64		count;			/* .. of so many, each one byte further on */
	SfSqlWalk	walk;
	SfSqlMatcher *matcher;		/* NULL: there are no others */
	int64		offset;			/* of the searched bytes in the value */
} Search;

/* Nothing is at every position, also behind the last byte. */
static void
begin_empty(Search *search, int64 first)
{
	if (first < 0 || first > search->walk.length)
		return;
	search->position = first + 1;
	/* position 2^63, behind the longest value, is none */
	search->count = search->backwards ? first + 1
		: Min(search->walk.length, PG_INT64_MAX - 1) - first + 1;
}

/*
 * Begin to look for a pattern from a position on; a negative one counts from the end, where -1 is
 * the last byte, and looks for matches that begin there or before.
 */
static void
begin_search(Search *search, Datum value, bytea *pattern, int64 start)
{
	int64		len = VARSIZE_ANY_EXHDR(pattern);
	int64		length;
	int64		first;
	int64		end;

	if (start == 0)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("start must not be 0"),
				 errdetail("The first byte of a value has position 1, the last one -1.")));
	*search = (Search) {.backwards = start < 0};
	sfi_sql_walk_begin(&search->walk, value);
	sfi_sql_walk_by_unit(&search->walk);
	length = search->walk.length;
	first = search->backwards ? length + start : start - 1;
	if (len == 0)
	{
		begin_empty(search, first);
		return;
	}
	search->offset = search->backwards ? 0 : first;
	end = search->backwards ? Min(first, length - len) + len : length;
	if (first < 0 || end - search->offset < len)
		return;
	sfi_sql_walk_range(&search->walk, search->offset, end);
	search->matcher = sfi_sql_match_begin(VARDATA_ANY(pattern), len, end - search->offset,
										  search->backwards);
}

static void
end_search(Search *search)
{
	if (search->matcher != NULL)
		sfi_sql_match_end(search->matcher);
	sfi_sql_walk_end(&search->walk);
}

/* Go on to the next matches; false: there are none. */
static bool
find_more(Search *search)
{
	SfSqlPart	part;
	int64		offset;

	if (search->matcher == NULL)
		return false;
	while (!sfi_sql_match_next(search->matcher, &offset, &search->count))
	{
		if (!(search->backwards ? sfi_sql_walk_previous : sfi_sql_walk_next) (&search->walk, &part))
			return false;
		sfi_sql_match_feed(search->matcher, part.bytes, part.length);
	}
	search->position = search->offset + offset + 1;
	SF_ASSERT(search->count > 0 && search->position > 0);
	return true;
}

/* Pass over some of the matches that are known. */
static void
pass(Search *search, int64 n)
{
	SF_ASSERT(n <= search->count);
	search->position += search->backwards ? -n : n;
	search->count -= n;
}

/* The position of the nth match, or 0. */
static int64
nth_position(Search *search, int64 nth)
{
	SF_ASSERT(nth > 0);
	while (search->count < nth)
	{
		nth -= search->count;
		if (!find_more(search))
			return 0;
	}
	pass(search, nth - 1);
	return search->position;
}

static int64
position_of(Datum value, bytea *pattern, int64 start, int64 nth)
{
	Search		search;
	int64		result;

	if (nth < 1)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("nth must be at least 1, not %lld", (long long) nth)));
	begin_search(&search, value, pattern, start);
	result = nth_position(&search, nth);
	end_search(&search);
	return result;
}

/* position(pattern bytea IN document securefile) returns bigint */
Datum
securefile_position_in(PG_FUNCTION_ARGS)
{
	PG_RETURN_INT64(position_of(PG_GETARG_DATUM(0), PG_GETARG_BYTEA_PP(1), 1, 1));
}

/* securefile_position(document, pattern bytea, start bigint, nth bigint) returns bigint */
Datum
securefile_position(PG_FUNCTION_ARGS)
{
	PG_RETURN_INT64(position_of(PG_GETARG_DATUM(0), PG_GETARG_BYTEA_PP(1),
								PG_GETARG_INT64(2), PG_GETARG_INT64(3)));
}

/* In the memory of all calls. */
static Search *
begin_positions(FunctionCallInfo fcinfo, MemoryContext context)
{
	MemoryContext old = MemoryContextSwitchTo(context);
	Search	   *search = palloc(sizeof(Search));

	begin_search(search, PG_GETARG_DATUM(0), PG_GETARG_BYTEA_PP(1), PG_GETARG_INT64(2));
	MemoryContextSwitchTo(old);
	return search;
}

/* securefile_positions(document, pattern bytea, start bigint) returns setof bigint */
Datum
securefile_positions(PG_FUNCTION_ARGS)
{
	FuncCallContext *funcctx;
	Search	   *search;
	int64		position;

	if (SRF_IS_FIRSTCALL())
	{
		funcctx = SRF_FIRSTCALL_INIT();
		funcctx->user_fctx = begin_positions(fcinfo, funcctx->multi_call_memory_ctx);
	}
	funcctx = SRF_PERCALL_SETUP();
	search = funcctx->user_fctx;
	if (search->count == 0 && !find_more(search))
	{
		end_search(search);
		SRF_RETURN_DONE(funcctx);
	}
	position = search->position;
	pass(search, 1);
	SRF_RETURN_NEXT(funcctx, Int64GetDatum(position));
}
