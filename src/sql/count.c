/*-------------------------------------------------------------------------
 *
 * count.c
 *	  How many bytes of values a query has read, and how many it was given.
 *
 * What a function reads inside the server costs no way to the client, and what it need not read
 * costs nothing.  Exadata shows the same of its storage servers (bytes eligible for predicate
 * offload, bytes returned by smart scan).  Functions that ask about values count here, and
 * nothing else does: checks, copies, comparisons of deduplication and ANALYZE read values, too,
 * but answer no query.
 *
 * A value is counted for the column that its locator names.  Of a value that a row has all of,
 * nobody but the row knows the column: that is counted for none, in the session alone.
 *
 *-------------------------------------------------------------------------
 */
#include "base/base.h"

#include "read/read.h"
#include "sql/content.h"
#include "stats/stats.h"

/* The counters of the column that a value lies in.  It is not EDITED. */
static SfStatCounters *
counters_of(const SfValue *value)
{
	SfHome		home = {0};

	SF_ASSERT(value->form != SF_FORM_EDITED);
	if (value->form == SF_FORM_STORED)
		return sf_stats_local(value->loc.table_oid, value->loc.attnum);
	if (value->form == SF_FORM_TRAINED || value->form == SF_FORM_SEALED)
		home = sf_read_home(value->datum);
	return sf_stats_local(home.table_oid, home.attnum);
}

static void
add(const SfValue *value, uint64 bytes, SfSqlCounted what)
{
	SfStatCounters *counters = counters_of(value);

	switch (what)
	{
		case SF_SQL_SCANNED:
			sf_stats_add(&counters->scanned_bytes, bytes);
			break;
		case SF_SQL_RETURNED:
			sf_stats_add(&counters->returned_bytes, bytes);
			break;
		case SF_SQL_SKIPPED:
			sf_stats_add(&counters->skipped_bytes, bytes);
			break;
	}
}

/* A range of an EDITED value: each piece that it touches is counted by itself. */
static void
count_edited(struct varlena *datum, uint64 from, uint64 to, SfSqlCounted what)
{
	SfPiece    *pieces;
	int			npieces = sf_object_pieces(datum, &pieces);
	uint64		at = 0;

	for (int i = 0; i < npieces && at < to; at += pieces[i++].length)
	{
		SfValue		value = {.form = SF_FORM_INLINE};
		uint64		end = Min(at + pieces[i].length, to);

		if (end <= from)
			continue;
		if (pieces[i].kind == SF_PIECE_VALUE)
			sf_read_look(pieces[i].value, &value);
		add(&value, end - Max(at, from), what);
	}
	pfree(pieces);
}

void
sfi_sql_count(const SfValue *value, int64 object_offset, int64 len, SfSqlCounted what)
{
	SF_ASSERT(object_offset >= 0 && len >= 0);
	if (len == 0)
		return;
	if (value->form == SF_FORM_EDITED)
		count_edited(value->datum, object_offset, object_offset + len, what);
	else
		add(value, len, what);
}

void
sfi_sql_count_content(const SfSqlContent *content, SfSqlCounted what)
{
	if (!sfi_sql_is_bytea(content))
		sfi_sql_count(&content->value, 0, content->length, what);
}

bytea *
sfi_sql_hand_out(SfSqlContent *content, int64 object_offset, int64 len)
{
	bytea	   *slice = sfi_sql_slice(content, object_offset, len);

	sfi_sql_count(&content->value, object_offset, len, SF_SQL_RETURNED);
	return slice;
}
