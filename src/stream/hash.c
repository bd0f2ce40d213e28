/*-------------------------------------------------------------------------
 *
 * hash.c
 *	  The SHA-256 of a value that comes in pieces, for columns that keep it.
 *
 * SHA-256 goes through bytes in their order, and cannot go back.  So there is one place in
 * the value up to which it is hashed:
 *
 *		 value		| hashed ........... | not yet ...............|
 *										 ^ a write here is hashed as it comes
 *				^ a write here: the hash begins anew, later
 *												   ^ a write here leaves a gap
 *
 * A stream that is written from its beginning to its end hashes each piece as it comes, while
 * its units are on their way to the disk, and reads nothing again.  So does one that appends
 * to a value whose hash is kept: that was kept with the state of the algorithm behind its
 * last whole block, so at most 63 bytes are read.  A gap is read when the next write jumps
 * over it: most gaps are holes, which cost no I/O.
 *
 * What is left when the value is finished is read then: all of it, if a byte was changed that
 * was hashed already.  How much may be read is limited, since a change of one byte in a value
 * of terabytes must not read terabytes, and a hole may be as long as that: REREAD_FREE bytes,
 * and as many as were written.  Beyond that the version keeps no hash.  securefile_digest()
 * then reads the value each time, and a rewrite of the column gives it a hash again.
 *
 * A stage in pieces has its bytes in another order than the value.  Nothing of it is hashed as it
 * comes, and all of it is read in the end, if that is no more than REREAD_FREE bytes.
 *
 *-------------------------------------------------------------------------
 */
#include "base/base.h"

#include "stream/stream_internal.h"

#define REREAD_FREE		((int64) 64 * 1024 * 1024)

void
sfi_hash_begin(SfStream *stream, SfSegment *seg, SfLocator *base)
{
	SfContentHash kept;

	SF_ASSERT(stream->kind == STREAM_STAGE && (base != NULL) == (stream->value != NULL));
	stream->hashes = sf_space_column(seg)->options.hash;
	if (!stream->hashes)
		return;
	if (base != NULL && sf_object_kept_hash(seg, base, &kept))
		sf_transform_hash_resume(&stream->hash, &kept, sf_locator_value_bytes(base));
	else
		sf_transform_hash_begin(&stream->hash);
	SF_ASSERT(sfi_hash_place(stream) <= stream->length);
}

void
sfi_hash_restart(SfStream *stream)
{
	SF_ASSERT(stream->kind == STREAM_STAGE && stream->value == NULL);
	sf_transform_hash_begin(&stream->hash);
	stream->hash_written = stream->hash_read = 0;
	stream->hash_late = false;
}

int64
sfi_hash_place(const SfStream *stream)
{
	return (int64) stream->hash.length_bytes;
}

void
sfi_hash_cut(SfStream *stream, int64 object_offset)
{
	SF_ASSERT(object_offset >= 0);
	if (!stream->hashes || object_offset >= sfi_hash_place(stream))
		return;
	sf_transform_hash_begin(&stream->hash);
	stream->hash_late = true;
}

/* May so many bytes be read that are not written now? */
static bool
may_read(const SfStream *stream, int64 len)
{
	return len - REREAD_FREE <= stream->hash_written - stream->hash_read;
}

bool
sfi_hash_wants_gap(const SfStream *stream, int64 object_offset)
{
	int64		gap = object_offset - sfi_hash_place(stream);

	SF_ASSERT(!stream->hashes || gap >= 0);
	return stream->hashes && !stream->hash_late && gap > 0 && may_read(stream, gap);
}

bool
sfi_hash_wants_rest(const SfStream *stream)
{
	SF_ASSERT(!stream->hashes || sfi_hash_place(stream) <= stream->length);
	return stream->hashes && may_read(stream, stream->length - sfi_hash_place(stream));
}

bool
sfi_hash_wants_all(int64 length)
{
	SF_ASSERT(length > 0);
	return length <= REREAD_FREE;
}

void
sfi_hash_add(SfStream *stream, int64 object_offset, const char *data, int64 len)
{
	if (!stream->hashes)
		return;
	stream->hash_written += len;
	if (object_offset == sfi_hash_place(stream))
		sf_transform_hash_update(&stream->hash, data, len);
}

void
sfi_hash_add_read(SfStream *stream, const char *data, int64 len)
{
	SF_ASSERT(stream->hashes && sfi_hash_place(stream) + len <= stream->length);
	stream->hash_read += len;
	sf_transform_hash_update(&stream->hash, data, len);
}
