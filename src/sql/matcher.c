/*-------------------------------------------------------------------------
 *
 * matcher.c
 *	  Where a pattern is in a text that comes in parts.
 *
 * Matches that lie in one part are looked for there.  For those that begin before it, the end of
 * the text before it, where one may begin, is kept in a window; it gets the part's first bytes, but
 * one fewer than the pattern has.  A part that is shorter than that gets into the window whole.
 * So a byte is copied twice at most, and moved once: the window has room for two patterns, and
 * is moved when it is full.
 *
 * A text that is searched backwards comes from its end, each part is reversed, and the
 * pattern is: all else is the same.
 *
 * Parts of zeros are never bytes, but in the window.  A match inside of them is all zeros, and
 * one that begins there has as many zeros in front as are left of them.
 *
 *-------------------------------------------------------------------------
 */
#include "sql/matcher.h"

#include <sodium.h>

#include "sql/needle.h"
#include "utils/memutils.h"

/* So much more room than for two patterns has the window. */
#define WINDOW_SPARE	(64 * 1024)

/* Memory of the text, wiped as far as it was used. */
typedef struct Room
{
	uint8	   *bytes;			/* or NULL */
	int64		size;
	int64		used;
} Room;

/* All offsets are of the text, as it is searched. */
struct SfSqlMatcher
{
	MemoryContext context;
	MemoryContextCallback at_reset;
	SfNeedle	needle;
	bool		backwards;
	int64		text_length;
	int64		at;				/* the next match begins there at the earliest */
	const uint8 *part;			/* NULL: zeros */
	int64		part_start;
	int64		part_length;	/* 0: all of it was searched */
	int64		window_start;
	int64		window_length;	/* 0: no match can begin before the part */
	Room		window;
	Room		reversed;		/* backwards: the part */
};

static void
wipe_room(Room *room)
{
	if (room->bytes != NULL)
		sodium_memzero(room->bytes, room->used);
}

/* Never throws: called when a memory context goes. */
static void
wipe_text(void *arg)
{
	SfSqlMatcher *matcher = arg;

	wipe_room(&matcher->window);
	wipe_room(&matcher->reversed);
}

/* So many bytes of a room are about to be used, as it is now. */
static void
use_room(SfSqlMatcher *matcher, Room *room, int64 used, int64 size)
{
	if (room->size < used)
	{
		uint8	   *bytes = MemoryContextAllocHuge(matcher->context, Max(used, size));

		SF_ASSERT(room == &matcher->reversed || room->bytes == NULL);
		wipe_room(room);
		if (room->bytes != NULL)
			pfree(room->bytes);
		*room = (Room) {bytes, Max(used, size)};
	}
	room->used = Max(room->used, used);
}

static void
copy_reversed(uint8 *dst, const uint8 *src, int64 len)
{
	int64		at = 0;

	for (; at <= len - 8; at += 8)
	{
		uint64		word;

		memcpy(&word, src + len - at - 8, 8);
		word = __builtin_bswap64(word);
		memcpy(dst + at, &word, 8);
	}
	for (; at < len; at++)
		dst[at] = src[len - at - 1];
}

SfSqlMatcher *
sfi_sql_match_begin(const char *pattern, int64 len, int64 text_length, bool backwards)
{
	MemoryContext context = AllocSetContextCreate(CurrentMemoryContext, "securefile matcher",
												  ALLOCSET_SMALL_SIZES);
	SfSqlMatcher *matcher = MemoryContextAllocZero(context, sizeof(SfSqlMatcher));
	uint8	   *reversed;

	SF_ASSERT(len > 0 && text_length >= 0);
	matcher->context = context;
	matcher->text_length = text_length;
	matcher->backwards = backwards;
	matcher->at_reset.func = wipe_text;
	matcher->at_reset.arg = matcher;
	MemoryContextRegisterResetCallback(context, &matcher->at_reset);
	if (backwards)
	{
		reversed = MemoryContextAlloc(context, len);
		copy_reversed(reversed, (const uint8 *) pattern, len);
		pattern = (const char *) reversed;
	}
	sfi_needle_begin(&matcher->needle, (const uint8 *) pattern, len);
	return matcher;
}

void
sfi_sql_match_end(SfSqlMatcher *matcher)
{
	MemoryContextDelete(matcher->context);
}

void
sfi_sql_match_feed(SfSqlMatcher *matcher, const char *bytes, int64 length)
{
	SF_ASSERT(length > 0 && matcher->part_length == 0);
	SF_ASSERT(length <= matcher->text_length - matcher->part_start);
	matcher->part = (const uint8 *) bytes;
	matcher->part_length = length;
	if (matcher->backwards && bytes != NULL)
	{
		use_room(matcher, &matcher->reversed, length, length);
		copy_reversed(matcher->reversed.bytes, matcher->part, length);
		matcher->part = matcher->reversed.bytes;
	}
}

/* ---- the window ---- */

static int64
window_end(const SfSqlMatcher *matcher)
{
	return matcher->window_start + matcher->window_length;
}

/* Give up what no match can begin in. */
static void
move_window(SfSqlMatcher *matcher)
{
	int64		passed = matcher->at - matcher->window_start;

	SF_ASSERT(passed > 0 && passed < matcher->window_length);
	matcher->window_start = matcher->at;
	matcher->window_length -= passed;
	memmove(matcher->window.bytes, matcher->window.bytes + passed, matcher->window_length);
}

/* Put bytes of the part, or zeros, into the window, behind what it has. */
static void
append_to_window(SfSqlMatcher *matcher, int64 from, int64 len)
{
	int64		size = 2 * matcher->needle.len + Min(WINDOW_SPARE, matcher->text_length);
	uint8	   *dst;

	SF_ASSERT(from >= 0 && from + len <= matcher->part_length && len < matcher->needle.len);
	if (matcher->window_length + len > size)
		move_window(matcher);
	use_room(matcher, &matcher->window, matcher->window_length + len, size);
	dst = matcher->window.bytes + matcher->window_length;
	if (matcher->part == NULL)
		memset(dst, 0, len);
	else
		memcpy(dst, matcher->part + from, len);
	matcher->window_length += len;
}

/* ---- the search ---- */

/* Look for a match in bytes that begin at an offset, from where one is possible on. */
static bool
find_in_bytes(SfSqlMatcher *matcher, const uint8 *bytes, int64 offset, int64 length, int64 *match)
{
	int64		start = matcher->at - offset;
	int64		found_at;
	bool		found;

	SF_ASSERT(start >= 0);
	found = sfi_needle_find(&matcher->needle, bytes, length - matcher->needle.len + 1, &start,
							&found_at);
	matcher->at = offset + start;
	if (found)
		*match = offset + found_at;
	return found;
}

/*
 * The same in a part of zeros, *count matches at once: a match there is all zeros.  Where it
 * needs what follows the part, it has no more zeros in front than the pattern.
 */
static bool
find_in_zeros(SfSqlMatcher *matcher, int64 *match, int64 *count)
{
	int64		len = matcher->needle.len;
	int64		zeros = matcher->needle.lead_zeros;
	int64		rest = matcher->part_start + matcher->part_length - Min(zeros, len - 1);

	if (rest <= matcher->at)
		return false;
	*match = matcher->at;
	*count = zeros == len ? rest - matcher->at : 0;
	matcher->at = rest;
	sfi_needle_skip(&matcher->needle);
	return *count > 0;
}

static bool
find_in_part(SfSqlMatcher *matcher, int64 *match, int64 *count)
{
	*count = 1;
	return matcher->part == NULL ? find_in_zeros(matcher, match, count)
		: find_in_bytes(matcher, matcher->part, matcher->part_start, matcher->part_length, match);
}

/* All of the part was searched. */
static void
pass_part(SfSqlMatcher *matcher)
{
	matcher->part_start += matcher->part_length;
	matcher->part_length = 0;
}

/* The same; what a match may begin in is kept, unless the text ends before such a match. */
static void
keep_rest(SfSqlMatcher *matcher)
{
	int64		from = matcher->at - matcher->part_start;

	if (matcher->text_length - matcher->at < matcher->needle.len)
		matcher->at = matcher->text_length;
	else if (from < matcher->part_length)
	{
		matcher->window_start = matcher->at;
		append_to_window(matcher, from, matcher->part_length - from);
	}
	pass_part(matcher);
}

/* Look for a match that begins before the part; with as much of the part as that takes. */
static bool
find_in_window(SfSqlMatcher *matcher, int64 *match)
{
	int64		before = matcher->needle.len - 1;

	if (window_end(matcher) == matcher->part_start)
		append_to_window(matcher, 0, Min(matcher->part_length, before));
	if (find_in_bytes(matcher, matcher->window.bytes, matcher->window_start,
					  matcher->window_length, match))
		return true;
	if (matcher->part_length < before)
		pass_part(matcher);
	else
		SF_ASSERT(matcher->at >= matcher->part_start);
	if (matcher->at >= matcher->part_start)
		matcher->window_length = 0;
	return false;
}

bool
sfi_sql_match_next(SfSqlMatcher *matcher, int64 *offset, int64 *count)
{
	bool		found = false;

	while (!found && matcher->part_length > 0)
	{
		*count = 1;
		if (matcher->window_length > 0)
			found = find_in_window(matcher, offset);
		else if (!(found = find_in_part(matcher, offset, count)))
			keep_rest(matcher);
	}
	if (found && matcher->backwards)
		*offset = matcher->text_length - *offset - matcher->needle.len;
	return found;
}
