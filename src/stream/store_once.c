/*-------------------------------------------------------------------------
 *
 * store_once.c
 *	  A new value that comes in pieces, in a column that deduplicates: hashed as it
 *	  comes, and compared, without being written, as long as it equals an existing object.
 *
 *	 state		until
 *	 FIRST		the first unit is whole: it is in memory still, and its hash leads to
 *				objects that begin with it.  One does: COMPARE; none: WRITE
 *	 COMPARE	a unit differs, a piece goes on behind the object's end, or is not the next
 *				one: the bytes so far are copied from the object, then WRITE
 *	 WRITE		the end.  A piece that is not the next one ends the hash, too; all of the
 *				value is read for it later
 *
 * The prefix is a whole unit, since formats share their first kilobytes.
 *
 * Units are compared when they are whole, and the last one at the end.  A role that may store,
 * and not read, can find out whether what it stores is there.  Pieces that were compared as
 * they come would let it guess a content byte by byte.
 *
 *		 pieces		|  1  |  2  |    3     | 4 |
 *		 units		[  compared  ][  compared  ][tail
 *
 * The end in COMPARE, where the object ends: the value is a reference, and not a byte of it
 * was written.  Else it is a draft like any other, and its hash is noted for the store.
 *
 *-------------------------------------------------------------------------
 */
#include "base/base.h"

#include <sodium.h>

#include "miscadmin.h"
#include "space/share_records.h"
#include "stream/deduplicate.h"

struct SfOnce
{
	SfHasher   *hasher;			/* NULL: the hash has ended */

	/* COMPARE */
	SfReader   *there;			/* of the object */
	int64		compared;		/* so many bytes of it */
	char	   *tail;			/* SF_UNIT_SIZE: bytes of the stream from the
								 * last border of units on */
	SfShareId	id;				/* its record */
	SfShareCopy copy;			/* which has no fixed end */
};

void
sfi_once_begin(SfStream *stream)
{
	SfOnce	   *once = palloc0(sizeof(SfOnce));

	SF_ASSERT(stream->kind == STREAM_STAGE && stream->value == NULL && stream->length == 0);
	once->hasher = sfi_hasher_new();
	stream->once = once;
}

/* A search in the column, whose segment is opened. */
static void
begin_search(SfStream *stream, SfSearch *search)
{
	SfSegment  *seg;

	/*
	 * what was found, and counted up, is in the storage that the stream began
	 * in
	 */
	sfi_stage_require_usable(stream);
	seg = sf_space_open(stream->seg.table_oid, stream->seg.attnum, RowExclusiveLock, false);
	SF_ASSERT(SfStorageEquals(seg->storage, stream->seg.storage));
	SF_ASSERT(stream->once != NULL && stream->value == NULL);
	sfi_search_begin(search, seg);
}

/* ---- from one state to the next ---- */

/*
 * Where the last unit begins that has come in part: what is before it was compared, and the rest
 * is in the tail.
 */
static int64
tail_start(const SfStream *stream)
{
	return stream->length - stream->length % SF_UNIT_SIZE;
}

/* Go on with an object whose first unit is that of the stream.  What has come of it is staged. */
static void
enter_compare(SfStream *stream, SfReader *there)
{
	SfOnce	   *once = stream->once;
	MemoryContext old;

	SF_ASSERT(stream->length < SF_UNIT_SIZE);
	once->there = there;
	once->compared = SF_UNIT_SIZE;
	old = MemoryContextSwitchTo(stream->context);
	once->tail = sf_base_secret_new(SF_UNIT_SIZE);
	MemoryContextSwitchTo(old);
	if (stream->length > 0)
		memcpy(once->tail, stream->unit, stream->length);
	/* what was staged is not written, and its SHA-256 is the object's */
	stream->unit_loaded = stream->unit_changed = false;
	sfi_hash_restart(stream);
}

/* The object is needed no more. */
static void
end_compare(SfOnce *once)
{
	sf_read_end(once->there);
	sf_base_secret_free(once->tail);
	once->there = NULL;
	once->tail = NULL;
}

/*
 * Write what was only compared so far, or not even that.  What was compared is read from the
 * object, once more.
 */
static void
leave_compare(SfStream *stream)
{
	SfOnce	   *once = stream->once;
	int64		length = stream->length;
	int64		border = tail_start(stream);
	char	   *buffer = sfi_part_new(border);

	SF_ASSERT(once->there != NULL && stream->draft == NULL && !stream->unit_loaded);
	SF_ASSERT(length <= (int64) once->copy.record.length_bytes);
	stream->length = stream->data_end = 0;
	for (int64 at = 0; at < border; at += SF_PART_BYTES)
	{
		int64		len = Min(SF_PART_BYTES, border - at);

		CHECK_FOR_INTERRUPTS();
		sf_read_at(once->there, at, len, buffer);
		sfi_stage_write(stream, at, buffer, len);
	}
	sf_base_secret_free(buffer);
	if (border < length)
		sfi_stage_write(stream, border, once->tail, length - border);
	end_compare(once);
}

void
sfi_once_give_up(SfStream *stream)
{
	SfOnce	   *once = stream->once;

	if (once == NULL)
		return;
	if (once->there != NULL)
		leave_compare(stream);
	sfi_hasher_free(once->hasher);
	pfree(once);
	stream->once = NULL;
}

/*
 * The first unit gets whole with these bytes: look for an object that begins with it.  What
 * came before is in the staged unit.
 */
static void
end_first(SfStream *stream, const char *data)
{
	SfOnce	   *once = stream->once;
	SfContent	content = {.data = data, .length = SF_UNIT_SIZE};
	MemoryContext context;
	SfSearch	search;
	SfReader   *there;
	char	   *first = NULL;

	SF_ASSERT(stream->length < SF_UNIT_SIZE && stream->draft == NULL && once->there == NULL);
	SF_ASSERT(stream->length == 0 || (stream->unit_loaded && stream->unit_no == 0));
	if (stream->length > 0)
	{
		first = sfi_part_new(SF_UNIT_SIZE);
		memcpy(first, stream->unit, stream->length);
		memcpy(first + stream->length, data, SF_UNIT_SIZE - stream->length);
		content.data = first;
	}
	begin_search(stream, &search);
	sfi_search_set_prefix(&search, sfi_hasher_prefix(once->hasher));
	context = MemoryContextSwitchTo(stream->context);
	there = sfi_search_prefix(&search, &content, &once->id, &once->copy);
	MemoryContextSwitchTo(context);
	sf_base_secret_free(first);
	if (there != NULL)
		enter_compare(stream, there);
}

/* ---- pieces ---- */

/* Has the object these bytes at that place?  What was compared is not compared again. */
static bool
is_there(SfStream *stream, int64 object_offset, const char *data, int64 len)
{
	SfOnce	   *once = stream->once;
	int64		known = Min(Max(once->compared - object_offset, 0), len);
	const SfContent rest = {.data = data + known, .length = len - known};

	SF_ASSERT(object_offset % SF_UNIT_SIZE == 0);
	if (rest.length == 0)
		return true;
	if (!sfi_content_is_at(&rest, once->there, object_offset + known))
	{
		sfi_count_mismatch(&stream->seg);
		return false;
	}
	once->compared = object_offset + len;
	return true;
}

/*
 * Does the object go on with a piece?  Asked of whole units only; the rest is kept in the tail.
 * Where it does not, the tail has what came before the piece, as before.
 */
static bool
goes_on(SfStream *stream, const char *data, int64 len)
{
	SfOnce	   *once = stream->once;
	int64		at = stream->length;
	int64		begun = at % SF_UNIT_SIZE;
	int64		whole;

	if (at + len > (int64) once->copy.record.length_bytes)
		return false;
	if (begun > 0)
	{
		int64		n = Min(SF_UNIT_SIZE - begun, len);

		memcpy(once->tail + begun, data, n);
		if (begun + n == SF_UNIT_SIZE && !is_there(stream, at - begun, once->tail, SF_UNIT_SIZE))
			return false;
		data += n;
		len -= n;
		at += n;
	}
	whole = len - len % SF_UNIT_SIZE;
	if (whole > 0 && !is_there(stream, at, data, whole))
		return false;
	memcpy(once->tail, data + whole, len - whole);
	return true;
}

/*
 * A piece comes.  True: that is all there is to do about it, since it goes like what it is
 * compared with; false: it is to be written.
 */
static bool
is_compared(SfStream *stream, int64 object_offset, const char *data, int64 len)
{
	SfOnce	   *once = stream->once;

	if (object_offset != stream->length)
	{
		sfi_once_give_up(stream);
		return false;
	}
	sfi_hasher_add(once->hasher, data, len);
	if (stream->length < SF_UNIT_SIZE && stream->length + len >= SF_UNIT_SIZE)
		end_first(stream, data);
	if (once->there == NULL)
		return false;
	if (!goes_on(stream, data, len))
	{
		leave_compare(stream);
		return false;
	}
	stream->length = stream->data_end = stream->length + len;
	stream->changed = true;
	return true;
}

void
sfi_once_write(SfStream *stream, int64 object_offset, const char *data, int64 len)
{
	SF_ASSERT(stream->kind == STREAM_STAGE && object_offset >= 0 && len >= 0);
	if (len == 0 || (stream->once != NULL && is_compared(stream, object_offset, data, len)))
		return;
	sfi_stage_write(stream, object_offset, data, len);
}

void
sfi_once_read(SfStream *stream, int64 object_offset, int64 len, char *dst)
{
	int64		border = tail_start(stream);
	int64		before = Min(Max(border - object_offset, 0), len);

	SF_ASSERT(object_offset >= 0 && object_offset + len <= stream->length);
	if (stream->once == NULL || stream->once->there == NULL)
	{
		sfi_stage_read(stream, object_offset, len, dst);
		return;
	}
	sf_read_at(stream->once->there, object_offset, before, dst);
	if (before < len)
		memcpy(dst + before, stream->once->tail + (object_offset + before - border),
			   len - before);
}

/* What is compared only has no holes. */
bool
sfi_once_next_data(SfStream *stream, int64 *object_offset, int64 *len)
{
	if (stream->once == NULL || stream->once->there == NULL)
		return sfi_stage_next_data(stream, object_offset, len);
	*len = Min(*len, stream->length - *object_offset);
	return *len > 0;
}

/* A hole is a change like any other: the comparison, and the hash, know bytes only. */
void
sfi_once_zero(SfStream *stream, int64 object_offset, int64 len)
{
	if (len > 0)
		sfi_once_give_up(stream);
	sfi_stage_zero(stream, object_offset, len);
}

void
sfi_once_resize(SfStream *stream, int64 length)
{
	if (length != stream->length)
		sfi_once_give_up(stream);
	sfi_stage_resize(stream, length);
}

/* ---- the end ---- */

/*
 * Is the stream what it is compared with, now that it ends?  Its last unit, if it is a short one,
 * was not compared so far.
 */
static bool
is_all_there(SfStream *stream)
{
	int64		border = tail_start(stream);

	return stream->length == (int64) stream->once->copy.record.length_bytes &&
		(border == stream->length ||
		 is_there(stream, border, stream->once->tail, stream->length - border));
}

/*
 * What has all of the bytes, as a reference; NULL: it has to be written.  A value of one unit
 * at most is in memory still, if it came in order.
 */
static SfValue
find_whole(SfStream *stream)
{
	SfOnce	   *once = stream->once;
	SfSearch	search;

	begin_search(stream, &search);
	if (once->there != NULL && is_all_there(stream))
	{
		end_compare(once);
		return sf_write_reference(search.seg, once->id, &once->copy.record, NULL);
	}
	if (once->there != NULL)
		leave_compare(stream);
	if (stream->draft != NULL || stream->length > SF_UNIT_SIZE)
		return (SfValue) {NULL};
	SF_ASSERT(stream->unit_loaded && stream->unit_no == 0);
	sfi_search_set_full(&search, sfi_hasher_digest(once->hasher), stream->length);
	return sfi_search_whole(&search, &(SfContent) {.data = stream->unit, .length = stream->length});
}

SfValue
sfi_once_finish(SfStream *stream)
{
	SfValue		result = stream->once != NULL ? find_whole(stream) : (SfValue) {NULL};

	SF_ASSERT(stream->kind == STREAM_STAGE && stream->length > 0);
	if (result.datum != NULL)
	{
		/* also where it was not encrypted: that costs little, beside the rest */
		if (stream->unit != NULL)
			sodium_memzero(stream->unit, SF_UNIT_SIZE);
		return result;
	}
	result = sfi_stage_finish(stream);
	if (stream->once != NULL)
		sfi_hasher_note(stream->once->hasher, &result.loc);
	return result;
}
