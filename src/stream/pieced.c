/*-------------------------------------------------------------------------
 *
 * pieced.c
 *	  A stage whose value is pieces of its unit space, in some order.
 *
 *		 value		[ A | x | C ]			positions that callers know
 *					  |   \	  \
 *		 pieces		0, 4	9, 1   6, 3		start in the unit space, length
 *					  |		  \	 /
 *		 unit space	[ AAAA..CCCx ]			what the stage has, unit by unit
 *
 * A position becomes a place of the unit space, and the stage does the rest.  What is inserted goes
 * behind the end of the unit space, and what is deleted leaves the list; the bytes behind either do
 * not move.  When the value is finished the list is put in order (arrange.c).
 *
 * A stage becomes pieced by the first insertion or deletion for which that is worth it
 * (fragment.c), or since the value that it was opened on is.  Then its own hash of what is written
 * ends: it goes by places, and they have another order than the bytes.
 *
 * The list is an array.  Most streams change it at one place, one after the other, so the last
 * place is remembered, and a search begins there.
 *
 * Idea: DBMS_LOB.FRAGMENT_INSERT, FRAGMENT_DELETE; a piece table, as editors have it.
 *
 *-------------------------------------------------------------------------
 */
#include "base/base.h"

#include "miscadmin.h"
#include "stream/pieced.h"

/* So much is read at once for a hash. */
#define HASH_BYTES		((int64) 1024 * 1024)

/* ---- the list ---- */

/* Make a gap of n entries at place i of the list. */
static void
make_gap(SfPieced *pieced, int64 i, int64 n)
{
	SF_ASSERT(i >= 0 && i <= pieced->n);
	while (pieced->n + n > pieced->size)
		pieced->ranges = sf_base_array_grow(pieced->ranges, pieced->size, &pieced->size,
											sizeof(SfRange), pieced->context);
	memmove(&pieced->ranges[i + n], &pieced->ranges[i], (pieced->n - i) * sizeof(SfRange));
	pieced->n += n;
}

static void
remove_entries(SfPieced *pieced, int64 i, int64 n)
{
	SF_ASSERT(i >= 0 && i + n <= pieced->n);
	memmove(&pieced->ranges[i], &pieced->ranges[i + n], (pieced->n - i - n) * sizeof(SfRange));
	pieced->n -= n;
}

/* The entry that has the byte there, and where it begins; the number of entries behind the last. */
static int64
find(const SfPieced *pieced, int64 position, int64 *begin)
{
	int64		at = 0;
	int64		i = 0;

	/* the last place that was looked for is near, mostly */
	if (pieced->last_entry < pieced->n && pieced->last_begin <= position)
	{
		at = pieced->last_begin;
		i = pieced->last_entry;
	}
	for (; i < pieced->n && at + (int64) pieced->ranges[i].length <= position; i++)
		at += pieced->ranges[i].length;
	*begin = at;
	return i;
}

/* The list has changed from that entry on, which begins there. */
static void
note_place(SfPieced *pieced, int64 i, int64 begin)
{
	pieced->last_entry = i;
	pieced->last_begin = begin;
}

/* Have an entry begin at a position; returns its number. */
static int64
split(SfPieced *pieced, int64 position)
{
	int64		begin;
	int64		i = find(pieced, position, &begin);
	int64		skip = position - begin;

	SF_ASSERT(position >= 0 && position <= pieced->length);
	note_place(pieced, i, begin);
	if (skip == 0)
		return i;
	make_gap(pieced, i, 1);
	pieced->ranges[i].length = skip;
	pieced->ranges[i + 1].start += skip;
	pieced->ranges[i + 1].length -= skip;
	return i + 1;
}

/*
 * Put a range in at a position; what goes on where the one before it ends is one with that: many
 * short insertions, one behind the other, are one piece.
 */
static void
put_in(SfPieced *pieced, int64 position, SfRange range)
{
	int64		i = split(pieced, position);
	SfRange    *before = i > 0 ? &pieced->ranges[i - 1] : NULL;

	SF_ASSERT(range.length > 0);
	pieced->length += range.length;
	if (before != NULL && before->start + before->length == range.start)
	{
		before->length += range.length;
		note_place(pieced, 0, 0);
		return;
	}
	make_gap(pieced, i, 1);
	pieced->ranges[i] = range;
}

/* Take a range of the value out. */
static void
take_out(SfPieced *pieced, int64 position, int64 len)
{
	int64		i = split(pieced, position);
	int64		end = split(pieced, position + len);

	SF_ASSERT(len > 0 && position + len <= pieced->length && end > i);
	remove_entries(pieced, i, end - i);
	pieced->length -= len;
	note_place(pieced, 0, 0);
}

/* ---- becoming pieced ---- */

static SfPieced *
new_pieced(SfStream *stream)
{
	SfPieced   *pieced = MemoryContextAllocZero(stream->context, sizeof(SfPieced));

	SF_ASSERT(stream->kind == STREAM_STAGE && stream->pieced == NULL);
	pieced->context = stream->context;
	pieced->hashes = stream->hashes;
	/* the stage does not know the order of the bytes */
	stream->hashes = false;
	return pieced;
}

void
sfi_pieced_load(SfStream *stream, SfSegment *seg, const SfLocator *loc)
{
	SfPieced   *pieced = new_pieced(stream);
	MemoryContext old = MemoryContextSwitchTo(stream->context);

	SF_ASSERT((loc->flags & SF_LOC_PIECED) && (uint64) stream->length == loc->unit_space_bytes);
	pieced->length = sf_locator_value_bytes(loc);
	pieced->n = pieced->size = sf_object_ranges(seg, loc, 0, pieced->length, &pieced->ranges);
	MemoryContextSwitchTo(old);
	stream->pieced = pieced;
}

void
sfi_pieced_set(SfStream *stream, const SfRange *ranges, int64 n)
{
	SfPieced   *pieced = stream->pieced == NULL ? new_pieced(stream) : stream->pieced;

	pieced->length = pieced->n = 0;
	note_place(pieced, 0, 0);
	make_gap(pieced, 0, n);
	memcpy(pieced->ranges, ranges, n * sizeof(SfRange));
	for (int64 i = 0; i < n; i++)
		pieced->length += ranges[i].length;
	stream->pieced = pieced;
}

/* All of the stage is one piece. */
static void
begin_pieces(SfStream *stream)
{
	const SfRange all = {0, stream->length};

	if (stream->pieced != NULL)
		return;
	sfi_once_give_up(stream);
	sfi_pieced_set(stream, &all, stream->length > 0);
}

int64
sfi_pieced_places(SfStream *stream, int64 object_offset, int64 len, SfRange **ranges)
{
	SfPieced   *pieced = stream->pieced;
	int64		begin;
	int64		first = find(pieced, object_offset, &begin);
	int64		n = 0;
	int64		size = 0;

	SF_ASSERT(len > 0 && object_offset + len <= pieced->length);
	note_place(pieced, first, begin);
	*ranges = NULL;
	for (int64 i = first; len > 0; i++)
	{
		const SfRange *range = &pieced->ranges[i];
		int64		skip = object_offset - begin;
		int64		part = Min(len, (int64) range->length - skip);

		*ranges = sf_base_array_grow(*ranges, n, &size, sizeof(SfRange), CurrentMemoryContext);
		(*ranges)[n++] = (SfRange) {range->start + skip, part};
		begin += range->length;
		object_offset += part;
		len -= part;
	}
	return n;
}

/* ---- reading and writing ---- */

/* Calls work() for the places of the unit space that a range of the value is. */
typedef void (*Work) (SfStream *stream, SfRange place, char *data);

static void
for_places(SfStream *stream, int64 position, int64 len, Work work, char *data)
{
	SfPieced   *pieced = stream->pieced;
	int64		begin;
	int64		i = find(pieced, position, &begin);

	SF_ASSERT(position >= 0 && position + len <= pieced->length);
	note_place(pieced, Min(i, pieced->n), begin);
	for (; len > 0; i++)
	{
		const SfRange *range = &pieced->ranges[i];
		int64		skip = position - begin;
		int64		n = Min(len, (int64) range->length - skip);

		CHECK_FOR_INTERRUPTS();
		SF_ASSERT(i < pieced->n && n > 0);
		work(stream, (SfRange) {range->start + skip, n}, data);
		begin += range->length;
		position += n;
		len -= n;
		if (data != NULL)
			data += n;
	}
}

static void
read_place(SfStream *stream, SfRange place, char *data)
{
	sfi_stage_read(stream, place.start, place.length, data);
}

static void
write_place(SfStream *stream, SfRange place, char *data)
{
	sfi_stage_write(stream, place.start, data, place.length);
}

static void
zero_place(SfStream *stream, SfRange place, char *data)
{
	sfi_stage_zero(stream, place.start, place.length);
}

void
sfi_pieced_read(SfStream *stream, int64 object_offset, int64 len, char *dst)
{
	for_places(stream, object_offset, len, read_place, dst);
}

/*
 * Where bytes that come behind all pieces go: behind the unit space, which then has them.  What
 * goes on where the last entry ends, or is short, begins there; else it begins with a unit.
 */
static int64
place_behind(SfStream *stream, int64 position, int64 len)
{
	const SfPieced *pieced = stream->pieced;
	int64		begin;
	int64		i = find(pieced, position, &begin) - (begin == position);
	int64		end = stream->length;

	SF_ASSERT(len > 0);
	if (len < SF_UNIT_SIZE ||
		(i >= 0 && i < pieced->n && begin == position &&
		 (int64) (pieced->ranges[i].start + pieced->ranges[i].length) == end))
		return end;
	return sf_object_add_lengths(end, SF_UNIT_SIZE - 1) / SF_UNIT_SIZE * SF_UNIT_SIZE;
}

/* data NULL: a gap. */
void
sfi_pieced_insert(SfStream *stream, int64 object_offset, const char *data, int64 len)
{
	int64		at;

	if (len == 0)
		return;
	begin_pieces(stream);
	SF_ASSERT(object_offset >= 0 && object_offset <= stream->pieced->length);
	at = place_behind(stream, object_offset, len);
	(void) sf_object_add_lengths(at, len);
	if (data == NULL)
		sfi_stage_resize(stream, at + len);
	else
		sfi_stage_write(stream, at, data, len);
	stream->changed = true;
	put_in(stream->pieced, object_offset, (SfRange) {at, len});
}

void
sfi_pieced_delete(SfStream *stream, int64 object_offset, int64 len)
{
	if (len == 0)
		return;
	begin_pieces(stream);
	stream->changed = true;
	take_out(stream->pieced, object_offset, len);
}

/* Shorter: the list ends earlier, and the unit space is cut when it is arranged. */
void
sfi_pieced_resize(SfStream *stream, int64 length)
{
	int64		now = stream->pieced->length;

	if (length > now)
		sfi_pieced_insert(stream, now, NULL, length - now);
	else
		sfi_pieced_delete(stream, length, now - length);
}

/* What is there is overwritten in its place; the rest is put behind it. */
void
sfi_pieced_write(SfStream *stream, int64 object_offset, const char *data, int64 len)
{
	int64		there;

	if (object_offset > stream->pieced->length)
		sfi_pieced_resize(stream, object_offset);
	there = Min(len, stream->pieced->length - object_offset);
	for_places(stream, object_offset, there, write_place, unconstify(char *, data));
	sfi_pieced_insert(stream, object_offset + there, data + there, len - there);
}

void
sfi_pieced_zero(SfStream *stream, int64 object_offset, int64 len)
{
	len = Min(len, stream->pieced->length - object_offset);
	if (len > 0)
		for_places(stream, object_offset, len, zero_place, NULL);
}

/* The hash that the value is to keep, of bytes that are read; false: it keeps none. */
static bool
hash_all(SfStream *stream, SfContentHash *hash)
{
	const SfPieced *pieced = stream->pieced;
	SfSha256	state;
	char	   *part;

	if (!pieced->hashes || !sfi_hash_wants_all(pieced->length))
		return false;
	part = sf_base_secret_new(HASH_BYTES);
	sf_transform_hash_begin(&state);
	for (int64 at = 0; at < pieced->length; at += HASH_BYTES)
	{
		int64		len = Min(HASH_BYTES, pieced->length - at);

		CHECK_FOR_INTERRUPTS();
		sfi_pieced_read(stream, at, len, part);
		sf_transform_hash_update(&state, part, len);
	}
	sf_transform_hash_finish(&state, hash);
	sf_base_secret_free(part);
	return true;
}

SfValue
sfi_pieced_finish(SfStream *stream)
{
	const SfPieced *pieced = stream->pieced;
	SfContentHash hash;
	bool		hashed = hash_all(stream, &hash);

	SF_ASSERT(pieced->n > 0 && stream->once == NULL);
	return sfi_stage_finish_pieces(stream, hashed ? &hash : NULL, pieced->ranges, pieced->n);
}

/* A gap may begin or end inside a piece, and there may be gaps only up to the end. */
bool
sfi_pieced_next_data(SfStream *stream, int64 *object_offset, int64 *len)
{
	SfPieced   *pieced = stream->pieced;
	int64		begin;

	for (int64 i = find(pieced, *object_offset, &begin); i < pieced->n; i++)
	{
		const SfRange *range = &pieced->ranges[i];
		int64		skip = Max(0, *object_offset - begin);
		int64		start = range->start + skip;
		int64		found = Min(*len, (int64) range->length - skip);
		bool		any = sfi_stage_next_data(stream, &start, &found);
		int64		at = start - (int64) range->start;

		CHECK_FOR_INTERRUPTS();
		if (any && at < (int64) range->length)
		{
			*object_offset = begin + at;
			*len = Min(found, (int64) range->length - at);
			return true;
		}
		begin += range->length;
	}
	*object_offset = pieced->length;
	*len = 0;
	return false;
}
