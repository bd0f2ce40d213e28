/*-------------------------------------------------------------------------
 *
 * removed.h
 *	  Records of values that rows have lost, in pages of the segment relation.
 *
 * A column with a retention keeps the space of removed values for a time (history pages,
 * segment_pages.h).  These records say which values they were.  They own nothing: without
 * them, space is kept as long and freed as well, and nobody can list what lies there.
 *
 *-------------------------------------------------------------------------
 */
#ifndef SF_FORMAT_REMOVED_H
#define SF_FORMAT_REMOVED_H

#include "format/segment_pages.h"

/* ---------------------------------------------------------------------
 * Removed page contents: chunks of records, a list of pages in the order of time
 *
 *	 0	4	next page, or SF_NO_PAGE
 *	 4	2	bytes of chunks
 *	 6	2	reserved, 0
 *	 8	8	time of the newest chunk
 *	 16	n	chunks, each a multiple of 8 bytes, of one transaction:
 *		 0	8	full id of the transaction, or subtransaction, that has removed the values
 *		 8	8	when, in microseconds since 2000-01-01 UTC, before it committed
 *		 16	2	bytes of the chunk
 *		 18	1	outcome (SfRemovedOutcome)
 *		 19	5	reserved, 0
 *		 24		records:
 *			 0	1	how (SfRemovedKind); 0: there are no more records, zeros follow.  Bit 7: its
 *					space is not kept any more
 *			 1	1	form (SfRemovedForm)
 *			 2	2	bytes of the key of the row, 0: none
 *			 4	2	bytes of the value
 *			 6	n	WHOLE: key of the row, JSON; and the STORED value, as the row had it, with its
 *					header.  LIKE: the same, as it differs from the record before, which is as
 *					long: a bit for each four bytes (the last ones may be fewer), and those
 *					that are others
 * ---------------------------------------------------------------------
 */
typedef enum SfRemovedKind
{
	SF_REMOVED_DELETED = 1,		/* its row was deleted */
	SF_REMOVED_REPLACED,		/* its row was updated */
	SF_REMOVED_MOVED,			/* its row has moved to another partition */
} SfRemovedKind;

#define SF_REMOVED_ENDED		0x80	/* a bit of the kind on a page */

typedef enum SfRemovedOutcome
{
	SF_REMOVED_UNKNOWN = 0,
	SF_REMOVED_COMMITTED,
	SF_REMOVED_ABORTED,
	SF_REMOVED_WIPED,			/* its time is over: zeros are in the place of
								 * its records */
} SfRemovedOutcome;

typedef enum SfRemovedForm
{
	SF_REMOVED_WHOLE = 0,
	SF_REMOVED_LIKE,			/* as the record before, but for some bytes */
} SfRemovedForm;

typedef struct SfRemovedChunk
{
	uint64_t	fxid;
	int64_t		time_us;
	uint16_t	nbytes;
	uint8_t		outcome;
	uint8_t		reserved[5];
} SfRemovedChunk;

/* What a record begins with. */
typedef struct SfRemovedHead
{
	uint8_t		kind;
	uint8_t		form;
	uint16_t	key_bytes;
	uint16_t	value_bytes;
} SfRemovedHead;

typedef struct SfRemovedPage
{
	uint32_t	next;
	uint16_t	nbytes;
	uint16_t	reserved;
	int64_t		newest_us;
	uint8_t		chunks[];
} SfRemovedPage;

#define SF_REMOVED_ROOM			(SF_PAGE_CONTENT - sizeof(SfRemovedPage))

/*
 * Longest key of a row that is kept, in bytes.  A row with a longer one is listed without: the list
 * is to be short, and such a row can be looked for by time and length.
 */
#define SF_REMOVED_KEY_MAX		256

/* Longest value of a record: a locator, with the header of a datum. */
#define SF_REMOVED_VALUE_MAX	(SF_LOCATOR_MAX_SIZE + 16)

/* Most bytes of a record, and of a record as it is written: with its head, and bits that say no
 * more than that all are others. */
#define SF_REMOVED_BYTES_MAX	(SF_REMOVED_KEY_MAX + SF_REMOVED_VALUE_MAX)
#define SF_REMOVED_WRITTEN_MAX \
	(sizeof(SfRemovedHead) + SF_REMOVED_BYTES_MAX + SF_REMOVED_BYTES_MAX / 32 + 1)

/*
 * The outcome of the chunk that begins at an offset of the chunks of a page.  Only the resolver
 * changes it, once, and to WIPED in the end.
 */
typedef struct SfRemovedState
{
	uint16_t	offset;
	uint16_t	outcome;
} SfRemovedState;

/*
 * A record in memory: its key, and behind that its value.  Neither is aligned, nor ends with a zero
 * byte.  The head is in the form of the page; the bytes are whole.
 */
typedef struct SfRemovedRecord
{
	SfRemovedHead head;
	uint8_t		bytes[SF_REMOVED_BYTES_MAX];
} SfRemovedRecord;

/*
 * Write a record behind another one of its chunk (NULL: it is the first), to a place that has
 * SF_REMOVED_WRITTEN_MAX bytes.  Returns how many it took.
 */
extern uint32_t sf_format_removed_put(uint8_t *dst, const SfRemovedRecord *record,
									  const SfRemovedRecord *before);

/* A reader of the chunks of a page, or of what is to be added to one. */
typedef struct SfRemovedReader
{
	const uint8_t *chunks;
	uint32_t	nbytes;
	uint32_t	at;				/* what comes next */
	uint32_t	chunk_at;		/* where the chunk begins */
	uint32_t	chunk_end;		/* and ends */
	uint32_t	record_at;		/* where the record begins */
	bool		ended;			/* is its space not kept any more? */
	SfRemovedChunk chunk;
	SfRemovedRecord record;
} SfRemovedReader;

extern void sf_format_removed_begin(SfRemovedReader *reader, const uint8_t *chunks,
									uint32_t nbytes);

/* Go to the next record, or chunk; false: there is none, or none that can be (at < nbytes). */
extern bool sf_format_removed_next(SfRemovedReader *reader);
extern bool sf_format_removed_next_chunk(SfRemovedReader *reader);

/* What is wrong with chunks that are to be added to a page; NULL: nothing. */
extern const char *sf_format_removed_problem(const uint8_t *chunks, size_t len);

#endif							/* SF_FORMAT_REMOVED_H */
