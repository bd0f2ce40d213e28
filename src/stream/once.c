/*-------------------------------------------------------------------------
 *
 * once.c
 *	  A new value that comes in pieces, in a column that deduplicates: hashed as it
 *	  comes, and compared, without being written, while it goes like one that is there.
 *
 *	 state		until
 *	 FIRST		the first unit is whole: it is in memory still, and its hash leads to
 *				objects that begin with it.  One does: COMPARE; none: WRITE
 *	 COMPARE	a piece differs, goes on behind the object's end, or is not the next one:
 *				the bytes so far are copied from the object, then WRITE
 *	 WRITE		the end.  A piece that is not the next one ends the hash, too; all of the
 *				value is read for it later
 *
 * The prefix is a whole unit, since formats share their first kilobytes.
 *
 * The end in COMPARE, where the object ends: the value is a reference, and not a byte of it
 * was written.  Else it is a draft like any other, and its hash is noted for who stores it.
 *
 *-------------------------------------------------------------------------
 */
#include "base/base.h"

#include <sodium.h>

#include "miscadmin.h"
#include "stream/deduplicate.h"

struct SfOnce
{
	SfHasher   *hasher;			/* NULL: the hash has ended */
	SfReader   *there;			/* COMPARE: of the object */
	SfShareId	id;				/* and its record */
	SfShareCopy copy;
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

/* Write what was only compared so far. */
static void
leave_compare(SfStream *stream)
{
	SfReader   *there = stream->once->there;
	int64		length = stream->length;
	char	   *buffer = sfi_part_new(length);

	SF_ASSERT(there != NULL && stream->draft == NULL && !stream->unit_loaded);
	SF_ASSERT(length <= (int64) stream->once->copy.record.length_bytes);
	stream->once->there = NULL;
	stream->length = stream->data_end = 0;
	for (int64 at = 0; at < length; at += SF_PART_BYTES)
	{
		int64		len = Min(SF_PART_BYTES, length - at);

		CHECK_FOR_INTERRUPTS();
		sf_read_at(there, at, len, buffer);
		sfi_stage_write(stream, at, buffer, len);
	}
	sfi_part_free(buffer, length);
	sf_read_end(there);
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
	once->there = sfi_search_prefix(&search, &content, &once->id, &once->copy);
	MemoryContextSwitchTo(context);
	sfi_part_free(first, SF_UNIT_SIZE);
	/* what was staged is not written, and its SHA-256 is the object's */
	if (once->there != NULL)
	{
		stream->unit_loaded = stream->unit_changed = false;
		sfi_hash_restart(stream);
	}
}

/* ---- pieces ---- */

/*
 * A piece comes.  True: that is all there is to do about it, since what it is compared with
 * has it; false: it is to be written.
 */
static bool
is_compared(SfStream *stream, int64 object_offset, const char *data, int64 len)
{
	SfOnce	   *once = stream->once;
	const SfContent piece = {.data = data, .length = len};

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
	if (stream->length + len <= (int64) once->copy.record.length_bytes)
	{
		if (sfi_content_is_at(&piece, once->there, stream->length))
		{
			stream->length = stream->data_end = stream->length + len;
			stream->changed = true;
			return true;
		}
		sfi_count_mismatch(&stream->seg);
	}
	leave_compare(stream);
	return false;
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
	SF_ASSERT(object_offset >= 0 && object_offset + len <= stream->length);
	if (stream->once != NULL && stream->once->there != NULL)
		sf_read_at(stream->once->there, object_offset, len, dst);
	else
		sfi_stage_read(stream, object_offset, len, dst);
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
 * What has all of the bytes, as a reference; NULL: it has to be written.  A value of one unit
 * at most is in memory still, if it came in order.
 */
static struct varlena *
find_whole(SfStream *stream)
{
	SfOnce	   *once = stream->once;
	SfSearch	search;

	begin_search(stream, &search);
	if (once->there != NULL && stream->length == (int64) once->copy.record.length_bytes)
		return sf_write_reference(search.seg, once->id, &once->copy.record);
	if (once->there != NULL)
		leave_compare(stream);
	if (stream->draft != NULL || stream->length > SF_UNIT_SIZE)
		return NULL;
	SF_ASSERT(stream->unit_loaded && stream->unit_no == 0);
	sfi_search_set_full(&search, sfi_hasher_digest(once->hasher), stream->length);
	return sfi_search_whole(&search, stream->unit);
}

struct varlena *
sfi_once_finish(SfStream *stream)
{
	struct varlena *result = stream->once != NULL ? find_whole(stream) : NULL;

	SF_ASSERT(stream->kind == STREAM_STAGE && stream->length > 0);
	if (result != NULL)
	{
		/* also where it was not encrypted: that costs little, beside the rest */
		if (stream->unit != NULL)
			sodium_memzero(stream->unit, SF_UNIT_SIZE);
		return result;
	}
	result = sfi_stage_finish(stream);
	if (stream->once != NULL)
		sfi_hasher_note(stream->once->hasher, result);
	return result;
}
