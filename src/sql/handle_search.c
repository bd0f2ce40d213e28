/*-------------------------------------------------------------------------
 *
 * handle_search.c
 *	  securefile_search(): where a pattern is next, from the position of a handle on.
 *
 * A handle that was not written is the value that it was opened on, and that is walked through
 * (walker.c).  Of one that was written the parts are taken from its stream, which has what is
 * not stored yet.
 *
 *-------------------------------------------------------------------------
 */
#include "base/base.h"

#include "fmgr.h"
#include "miscadmin.h"
#include "sql/matcher.h"
#include "sql/walker.h"

PG_FUNCTION_INFO_V1(securefile_search);

/* Is the pattern in what the matcher has got so far?  *offset: where, in the text. */
static bool
is_found(SfSqlMatcher *matcher, int64 *offset)
{
	int64		count;

	return sfi_sql_match_next(matcher, offset, &count);
}

static bool
search_value(SfSqlMatcher *matcher, struct varlena *value, int64 start, int64 *offset)
{
	SfSqlWalk	walk;
	SfSqlPart	part;
	bool		found;

	sfi_sql_walk_begin(&walk, PointerGetDatum(value));
	sfi_sql_walk_by_unit(&walk);
	sfi_sql_walk_range(&walk, start, walk.length);
	while (!(found = is_found(matcher, offset)) && sfi_sql_walk_next(&walk, &part))
		sfi_sql_match_feed(matcher, part.bytes, part.length);
	sfi_sql_walk_end(&walk);
	return found;
}

/* The next part of a stream: a gap, or some bytes, which go to the buffer. */
static SfSqlPart
next_part(SfStream *stream, int64 at, char *buffer)
{
	int64		from = at;
	int64		len = SF_UNIT_SIZE - at % SF_UNIT_SIZE;

	CHECK_FOR_INTERRUPTS();
	if (!sf_stream_next_data(stream, &from, &len))
		from = sf_stream_length(stream);
	if (from > at)
		return (SfSqlPart) {NULL, from - at};
	sf_stream_read(stream, from, len, buffer);
	return (SfSqlPart) {buffer, len};
}

static bool
search_stream(SfSqlMatcher *matcher, SfStream *stream, int64 start, int64 *offset)
{
	char	   *buffer = sf_base_secret_new(SF_UNIT_SIZE);
	int64		at = start;
	bool		found;

	while (!(found = is_found(matcher, offset)) && at < sf_stream_length(stream))
	{
		SfSqlPart	part = next_part(stream, at, buffer);

		sfi_sql_match_feed(matcher, part.bytes, part.length);
		at += part.length;
	}
	sf_base_secret_free(buffer);
	return found;
}

/* The place of a pattern of at least one byte, and no more than are left; -1: there is none. */
static int64
search(SfHandle *handle, const char *pattern, int64 len)
{
	int64		start = handle->position;
	SfSqlMatcher *matcher = sfi_sql_match_begin(pattern, len,
												sf_stream_length(handle->stream) - start, false);
	struct varlena *value = sf_stream_unchanged(handle->stream);
	int64		offset;
	bool		found;

	found = value != NULL ? search_value(matcher, value, start, &offset)
		: search_stream(matcher, handle->stream, start, &offset);
	sfi_sql_match_end(matcher);
	return found ? start + offset : -1;
}

Datum
securefile_search(PG_FUNCTION_ARGS)
{
	SfHandle   *handle = sfi_sql_handle_to_use(PG_GETARG_INT32(0));
	bytea	   *pattern = PG_GETARG_BYTEA_PP(1);
	int64		len = VARSIZE_ANY_EXHDR(pattern);
	int64		left = sf_stream_length(handle->stream) - handle->position;

	if (len > left)
		PG_RETURN_INT64(-1);
	/* nothing is everywhere, also at the end */
	if (len == 0)
		PG_RETURN_INT64(handle->position);
	PG_RETURN_INT64(search(handle, VARDATA_ANY(pattern), len));
}
