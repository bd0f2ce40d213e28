/*-------------------------------------------------------------------------
 *
 * fragment.c
 *	  Bytes are put in between, or taken out, in a stream of any kind.
 *
 * What follows moves.  In a stage it stays in its place of the unit space instead, and the value
 * becomes pieces (pieced.c), where that is worth it: it is not where less than WORTH times as many
 * bytes would move as are written, or less than WORTH units.  A value in memory is moved always.
 *
 * Idea: DBMS_LOB.FRAGMENT_INSERT, FRAGMENT_DELETE.
 *
 *-------------------------------------------------------------------------
 */
#include "base/base.h"

#include "miscadmin.h"
#include "stream/pieced.h"

#define WORTH			8
#define MOVE_BYTES		((int64) 1024 * 1024)

/*
 * Move bytes [from, to) of a stream by a distance, in parts.  Where they move to the end the last
 * part is first, so that nothing is overwritten that has not moved yet.
 */
static void
move_bytes(SfStream *stream, int64 from, int64 to, int64 by)
{
	char	   *part = sf_base_secret_new(MOVE_BYTES);

	SF_ASSERT(from <= to && from + by >= 0);
	for (int64 done = 0; done < to - from;)
	{
		int64		n = Min(MOVE_BYTES, to - from - done);
		int64		at = by < 0 ? from + done : to - done - n;

		CHECK_FOR_INTERRUPTS();
		sf_stream_read(stream, at, n, part);
		sf_stream_write(stream, at + by, part, n);
		done += n;
	}
	sf_base_secret_free(part);
}

/* Are bytes to stay where they are, so many, where so many are written? */
static bool
stays(const SfStream *stream, int64 moved, int64 written)
{
	return stream->kind == STREAM_STAGE &&
		(stream->pieced != NULL || moved / WORTH >= Max(written, SF_UNIT_SIZE));
}

void
sf_stream_insert(SfStream *stream, int64 object_offset, const char *data, int64 len)
{
	int64		length = sf_stream_length(stream);

	SF_ASSERT(sf_stream_is_writable(stream) && object_offset >= 0 && len >= 0);
	if (object_offset < length && stays(stream, length - object_offset, len))
	{
		sfi_pieced_insert(stream, object_offset, data, len);
		return;
	}
	if (object_offset < length && len > 0)
	{
		sf_stream_truncate(stream, length + len);
		move_bytes(stream, object_offset, length, len);
	}
	sf_stream_write(stream, object_offset, data, len);
}

void
sf_stream_delete(SfStream *stream, int64 object_offset, int64 len)
{
	int64		length = sf_stream_length(stream);
	int64		end = object_offset + len;

	SF_ASSERT(sf_stream_is_writable(stream) && object_offset >= 0 && len >= 0 && end <= length);
	if (len == 0)
		return;
	if (stays(stream, length - end, 0))
	{
		sfi_pieced_delete(stream, object_offset, len);
		return;
	}
	move_bytes(stream, end, length, -len);
	sf_stream_truncate(stream, length - len);
}
