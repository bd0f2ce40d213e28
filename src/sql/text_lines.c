/*-------------------------------------------------------------------------
 *
 * text_lines.c
 *	  securefile_lines(): a value that is text, as rows of its lines.
 *
 * One row a call: in a SELECT list nothing is collected, and what is behind the last line
 * that is asked for is not read.  A line is checked, and converted to the encoding of the
 * database, as its bytes come, so that a byte that is wrong is reported before the line is
 * complete, and a line of any length can be cancelled.
 *
 * No encoding that the server knows has the byte of a line feed, or of a carriage return,
 * within a character, so lines are cut before they are converted.  Parts of the value end
 * anywhere: the bytes of a character that the next part goes on with are kept until it is whole.
 *
 *-------------------------------------------------------------------------
 */
#include "base/base.h"

#include "catalog/namespace.h"
#include "fmgr.h"
#include "funcapi.h"
#include "lib/stringinfo.h"
#include "mb/pg_wchar.h"
#include "sql/walker.h"
#include "utils/memutils.h"

PG_FUNCTION_INFO_V1(securefile_lines);

/* So many bytes are converted at once: as many times as much is asked for as they may grow. */
#define CONVERT_BYTES	(8 * 1024)

typedef struct LineScan
{
	SfSqlWalk	walk;
	SfSqlPart	part;			/* the last one, .. */
	int64		used;			/* .. of which so much was taken */
	int64		lines;			/* were returned */
	int			encoding;		/* of the bytes */
	Oid			conversion;		/* to that of the database, if it is another
								 * one */
	char		begun[MAX_MULTIBYTE_CHAR_LEN];	/* a character that is not
												 * whole yet, .. */
	int			nbegun;			/* .. of which so many bytes are there */
	int64		begun_at;
} LineScan;

/* What SQL_ASCII is in is taken as it is: either side may have bytes of any encoding. */
static void
set_encoding(LineScan *scan, const char *name)
{
	int			encoding = pg_char_to_encoding(name);
	int			ours = GetDatabaseEncoding();

	if (encoding < 0)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("unknown encoding \"%s\"", name),
				 errhint("The encodings are those of convert_from(), such as UTF8, LATIN1 and SJIS.")));
	scan->encoding = encoding == PG_SQL_ASCII ? ours : encoding;
	if (scan->encoding == ours || ours == PG_SQL_ASCII)
		return;
	scan->conversion = FindDefaultConversionProc(encoding, ours);
	if (!OidIsValid(scan->conversion))
		ereport(ERROR,
				(errcode(ERRCODE_UNDEFINED_FUNCTION),
				 errmsg("no conversion from encoding \"%s\" to \"%s\" is there",
						pg_encoding_to_char(encoding), pg_encoding_to_char(ours))));
}

static LineScan *
begin_lines(FunctionCallInfo fcinfo)
{
	LineScan   *scan = palloc0(sizeof(LineScan));

	set_encoding(scan, NameStr(*PG_GETARG_NAME(1)));
	sfi_sql_walk_begin(&scan->walk, PG_GETARG_DATUM(0));
	scan->walk.bytes_are = SF_SQL_RETURNED;
	return scan;
}

/* ---- bytes that are wrong ---- */

/* How many bytes a character has that begins with these, as far as they tell. */
static int
character_bytes(const LineScan *scan, const char *bytes, int64 len)
{
	char		first[MAX_MULTIBYTE_CHAR_LEN + 1] = {0};

	memcpy(first, bytes, Min(len, MAX_MULTIBYTE_CHAR_LEN));
	return Min(pg_encoding_mblen(scan->encoding, first), MAX_MULTIBYTE_CHAR_LEN);
}

static char *
in_hex(const char *bytes, int n)
{
	StringInfoData hex;

	initStringInfo(&hex);
	for (int i = 0; i < n; i++)
		appendStringInfo(&hex, "%s0x%02x", i > 0 ? " " : "", (unsigned char) bytes[i]);
	return hex.data;
}

/*
 * ERROR for the character at an offset of the value: it is none of its encoding, or there is none
 * like it in that of the database.  These are len bytes from there on.
 */
static void
report_character(const LineScan *scan, int64 offset, const char *bytes, int64 len)
{
	int			n = Min(character_bytes(scan, bytes, len), len);
	const char *encoding = pg_encoding_to_char(scan->encoding);
	const char *place;

	SF_ASSERT(offset >= 0 && len > 0 && n > 0);
	place = psprintf("It begins at position %lld of the securefile value, in line %lld.",
					 (long long) offset + 1, (long long) scan->lines + 1);

	if (bytes[0] != '\0' && pg_encoding_verifymbchar(scan->encoding, bytes, len) > 0)
		ereport(ERROR,
				(errcode(ERRCODE_UNTRANSLATABLE_CHARACTER),
				 errmsg("character with byte sequence %s in encoding \"%s\" has no equivalent in encoding \"%s\"",
						in_hex(bytes, n), encoding, GetDatabaseEncodingName()),
				 errdetail("%s", place)));
	ereport(ERROR,
			(errcode(ERRCODE_CHARACTER_NOT_IN_REPERTOIRE),
			 errmsg("invalid byte sequence for encoding \"%s\": %s", encoding, in_hex(bytes, n)),
			 errdetail("%s", place)));
}

/* Where in the value the next byte lies. */
static int64
place_of(const LineScan *scan)
{
	return scan->walk.start - scan->part.length + scan->used;
}

/* A character cannot end with a line, or with the value, or with zeros. */
static void
require_whole_character(const LineScan *scan)
{
	if (scan->nbegun > 0)
		report_character(scan, scan->begun_at, scan->begun, scan->nbegun);
}

/* ---- the bytes of a line ---- */

/* Make room for some more bytes. */
static void
make_room(const LineScan *scan, StringInfo line, int64 bytes)
{
	if (bytes >= (int64) MaxAllocSize - line->len)
		ereport(ERROR,
				(errcode(ERRCODE_PROGRAM_LIMIT_EXCEEDED),
				 errmsg("line %lld of a securefile value is too long", (long long) scan->lines + 1),
				 errdetail("A value of type text can have at most 1 GB."),
				 errhint("Read the value in parts, with substring() or securefile_chunks().")));
	enlargeStringInfo(line, bytes);
}

/* Add bytes that are in the encoding of the database; how many of them are right? */
static int64
add_as_they_are(const LineScan *scan, StringInfo line, const char *bytes, int64 len)
{
	len = pg_encoding_verifymbstr(scan->encoding, bytes, len);
	make_room(scan, line, len);
	appendBinaryStringInfo(line, bytes, len);
	return len;
}

/* The same of others. */
static int64
add_converted(const LineScan *scan, StringInfo line, const char *bytes, int64 len)
{
	int64		done = 0;
	int			n;

	do
	{
		int			room = Min(len - done, CONVERT_BYTES) * MAX_CONVERSION_GROWTH + 1;
		char	   *dst;

		make_room(scan, line, room);
		dst = line->data + line->len;
		n = pg_do_encoding_conversion_buf(scan->conversion, scan->encoding, GetDatabaseEncoding(),
										  (unsigned char *) bytes + done, len - done,
										  (unsigned char *) dst, room, true);
		line->len += strlen(dst);
		done += n;
	} while (n > 0 && done < len);
	return done;
}

static int64
add_characters(const LineScan *scan, StringInfo line, const char *bytes, int64 len)
{
	return OidIsValid(scan->conversion) ? add_converted(scan, line, bytes, len)
		: add_as_they_are(scan, line, bytes, len);
}

/* Go on with the character that is begun, if one is; returns how many bytes it took. */
static int64
add_begun(LineScan *scan, StringInfo line, const char *bytes, int64 len)
{
	int64		taken = 0;

	while (scan->nbegun > 0 && taken < len)
	{
		SF_ASSERT(scan->nbegun < MAX_MULTIBYTE_CHAR_LEN);
		scan->begun[scan->nbegun++] = bytes[taken++];
		if (scan->nbegun < character_bytes(scan, scan->begun, scan->nbegun))
			continue;
		if (add_characters(scan, line, scan->begun, scan->nbegun) < scan->nbegun)
			require_whole_character(scan);
		scan->nbegun = 0;
	}
	return taken;
}

/* Take the next bytes, all of this line and this part. */
static void
add_bytes(LineScan *scan, StringInfo line, int64 len)
{
	const char *bytes = scan->part.bytes + scan->used;
	int64		taken = add_begun(scan, line, bytes, len);

	if (taken < len)
		taken += add_characters(scan, line, bytes + taken, len - taken);
	scan->used += taken;
	bytes += taken;
	len -= taken;
	if (len > 0 && len >= character_bytes(scan, bytes, len))
		report_character(scan, place_of(scan), bytes, len);
	if (len > 0)
	{
		SF_ASSERT(scan->nbegun == 0 && len < MAX_MULTIBYTE_CHAR_LEN);
		scan->begun_at = place_of(scan);
		memcpy(scan->begun, bytes, len);
		scan->nbegun = len;
		scan->used += len;
	}
}

/* ---- rows ---- */

/* Is there a byte that was not taken?  Takes the next part of the value if need be. */
static bool
has_bytes(LineScan *scan)
{
	if (scan->used < scan->part.length)
		return true;
	scan->used = 0;
	scan->part.length = 0;
	if (!sfi_sql_walk_next(&scan->walk, &scan->part))
		return false;
	if (scan->part.bytes == NULL)
	{
		require_whole_character(scan);
		report_character(scan, place_of(scan), "", 1);
	}
	return true;
}

/*
 * Take all up to the end of a line, and that as well.  A carriage return before the line feed
 * belongs to it; one that stands elsewhere is a character like any other.
 */
static void
take_line(LineScan *scan, StringInfo line)
{
	SF_ASSERT(line->len == VARHDRSZ && scan->nbegun == 0);
	while (has_bytes(scan))
	{
		const char *bytes = scan->part.bytes + scan->used;
		int64		left = scan->part.length - scan->used;
		const char *end = memchr(bytes, '\n', left);

		add_bytes(scan, line, end == NULL ? left : end - bytes);
		if (end == NULL)
			continue;
		require_whole_character(scan);
		scan->used++;
		if (line->len > VARHDRSZ && line->data[line->len - 1] == '\r')
			line->len--;
		return;
	}
	require_whole_character(scan);
}

/* The next line, in the memory of this call; NULL: there is none. */
static text *
next_line(LineScan *scan)
{
	StringInfoData line;

	if (!has_bytes(scan))
		return NULL;
	initStringInfo(&line);
	line.len = VARHDRSZ;
	take_line(scan, &line);
	SET_VARSIZE(line.data, line.len);
	scan->lines++;
	return (text *) line.data;
}

Datum
securefile_lines(PG_FUNCTION_ARGS)
{
	FuncCallContext *funcctx;
	text	   *line;

	if (SRF_IS_FIRSTCALL())
	{
		MemoryContext old;

		funcctx = SRF_FIRSTCALL_INIT();
		old = MemoryContextSwitchTo(funcctx->multi_call_memory_ctx);
		funcctx->user_fctx = begin_lines(fcinfo);
		MemoryContextSwitchTo(old);
	}
	funcctx = SRF_PERCALL_SETUP();
	line = next_line(funcctx->user_fctx);
	if (line == NULL)
		SRF_RETURN_DONE(funcctx);
	SRF_RETURN_NEXT(funcctx, PointerGetDatum(line));
}
