/*-------------------------------------------------------------------------
 *
 * feed.c
 *	  All bytes of a value, in order, for a caller that wants to see each of them once.
 *
 * An EDITED value is walked through by its pieces: what is in memory is given as it
 * lies there, and each range of a STORED value gets a reader of its own.  To ask a
 * reader for parts of the EDITED value would take it apart again for each of them.
 *
 *-------------------------------------------------------------------------
 */
#include "base/base.h"

#include <sodium.h>

#include "fmgr.h"
#include "miscadmin.h"
#include "read/read.h"
#include "sql/content.h"

/* Two units: what was read is still in the processor's cache when it is taken. */
#define PART_BYTES		(2 * SF_UNIT_SIZE)

typedef struct Feed
{
	SfSqlTake	take;
	void	   *arg;
} Feed;

/* Pass on one part; the only place where a feed can be cancelled. */
static void
give_bytes(const Feed *feed, const char *bytes, Size len)
{
	SF_ASSERT(len > 0 && len <= PART_BYTES);
	CHECK_FOR_INTERRUPTS();
	feed->take(feed->arg, bytes, len);
}

static void
feed_bytes(const Feed *feed, const char *bytes, uint64 length)
{
	for (uint64 at = 0; at < length; at += PART_BYTES)
		give_bytes(feed, bytes + at, Min(PART_BYTES, length - at));
}

static void
feed_zeros(const Feed *feed, uint64 length)
{
	char	   *zeros = palloc0(Min(PART_BYTES, length));

	for (uint64 at = 0; at < length; at += PART_BYTES)
		give_bytes(feed, zeros, Min(PART_BYTES, length - at));
	pfree(zeros);
}

/*
 * A range of a STORED value; parts end with units, so that none is read twice.  What may
 * have been decrypted is wiped, as by sfi_sql_free_slice().
 */
static void
feed_stored(const Feed *feed, struct varlena *value, uint64 start, uint64 length)
{
	char	   *part = palloc(Min(PART_BYTES, length));
	SfReader   *reader = sf_read_begin(value);
	uint64		end = start + length;
	uint64		len;

	SF_ASSERT(end >= start && end <= (uint64) sf_read_reader_length(reader));
	sf_read_stop_at(reader, end);
	for (uint64 at = start; at < end; at += len)
	{
		len = Min(PART_BYTES - at % SF_UNIT_SIZE, end - at);
		sf_read_at(reader, at, len, part);
		give_bytes(feed, part, len);
	}
	sf_read_end(reader);
	sodium_memzero(part, Min(PART_BYTES, length));
	pfree(part);
}

/* Pass on all pieces of a value, each by its kind. */
static void
feed_pieces(const Feed *feed, const SfPiece *pieces, int npieces)
{
	for (int i = 0; i < npieces; i++)
	{
		const SfPiece *piece = &pieces[i];

		switch (piece->kind)
		{
			case SF_PIECE_BYTES:
				feed_bytes(feed, piece->bytes, piece->length);
				break;
			case SF_PIECE_ZEROS:
				feed_zeros(feed, piece->length);
				break;
			case SF_PIECE_VALUE:
				feed_stored(feed, piece->value, piece->start, piece->length);
				break;
		}
	}
}

/* Pass on an INLINE value in parts, from where it lies (perhaps in TOAST). */
static void
feed_inline(const Feed *feed, SfSqlContent *content)
{
	for (int64 at = 0; at < content->length; at += PART_BYTES)
	{
		int64		len = Min(PART_BYTES, content->length - at);
		bytea	   *part = sfi_sql_slice(content, at, len);

		give_bytes(feed, VARDATA(part), len);
		pfree(part);
	}
}

void
sfi_sql_feed(Datum value, SfSqlTake take, void *arg)
{
	Feed		feed = {take, arg};
	SfRope	   *rope = sf_object_rope_of(value);
	SfSqlContent content;
	SfPiece    *pieces;
	int			npieces;

	if (rope != NULL)
		npieces = sf_object_rope_pieces(rope, &pieces);
	else
	{
		content = sfi_sql_open(value);
		if (sfi_sql_is_inline(&content))
		{
			sfi_sql_unpack(&content);
			feed_inline(&feed, &content);
			return;
		}
		npieces = sf_read_pieces(content.value.datum, &pieces);
	}
	feed_pieces(&feed, pieces, npieces);
	pfree(pieces);
}
