/*-------------------------------------------------------------------------
 *
 * removed_page.c
 *	  Records of removed values on their page: written, walked through, and verified.
 *
 * Records of a statement are much like each other: the same key but for its number, locators of
 * one segment.  So a record is written as what differs from the one before.
 *
 *	 {"id": 4711} locator			whole: 98 bytes
 *	 {"id": 4712} locator			like it: head 6, bits 4, about 20 bytes that are others
 *
 * Only the record before is needed to read one.  A chunk begins with a whole one, so a reader can
 * begin at any chunk; and what is damaged ends the reading of its page, and of no other.
 *
 *-------------------------------------------------------------------------
 */
#include <string.h>

#include "format/removed.h"

_Static_assert(sizeof(SfRemovedPage) == 16, "SfRemovedPage is an on-disk format");
_Static_assert(sizeof(SfRemovedChunk) == 24, "SfRemovedChunk is an on-disk format");
_Static_assert(sizeof(SfRemovedHead) == 6, "SfRemovedHead is an on-disk format");
_Static_assert(sizeof(SfRemovedChunk) + SF_REMOVED_WRITTEN_MAX <= SF_REMOVED_ROOM,
			   "a page has room for any record");
_Static_assert(SF_REMOVED_BYTES_MAX <= UINT16_MAX, "a record says how long it is");

#define GRANULE		4			/* bytes that are compared at once */

static uint32_t
bytes_of(const SfRemovedHead *head)
{
	return (uint32_t) head->key_bytes + head->value_bytes;
}

/* Bytes of the bits that say which granules are others: a bit a granule, the first one lowest. */
static uint32_t
mask_bytes(uint32_t nbytes)
{
	return (nbytes + 8 * GRANULE - 1) / (8 * GRANULE);
}

/* Bytes of the granule that begins there. */
static uint32_t
granule_bytes(uint32_t nbytes, uint32_t at)
{
	return nbytes - at < GRANULE ? nbytes - at : GRANULE;
}

/*
 * Are two granules the same?  A record has some 25 of them, and a DELETE makes a record a row.  So
 * whole granules are told apart: where the compiler knows the length, it needs no call.
 */
static bool
is_same(const uint8_t *a, const uint8_t *b, uint32_t len)
{
	return len == GRANULE ? memcmp(a, b, GRANULE) == 0 : memcmp(a, b, len) == 0;
}

/* Copy a granule, likewise. */
static void
copy(uint8_t *dst, const uint8_t *src, uint32_t len)
{
	if (len == GRANULE)
		memcpy(dst, src, GRANULE);
	else
		memcpy(dst, src, len);
}

/* ---- writing ---- */

/*
 * Write the granules that are others than those of the record before, behind their bits.  Where
 * all are others that is a few bytes more than the record itself.  Returns how many bytes it is.
 */
static uint32_t
put_like(uint8_t *dst, const uint8_t *bytes, const uint8_t *before, uint32_t nbytes)
{
	uint32_t	n = mask_bytes(nbytes);
	uint8_t    *mask = dst;

	memset(mask, 0, n);
	for (uint32_t at = 0; at < nbytes; at += GRANULE)
	{
		uint32_t	len = granule_bytes(nbytes, at);

		if (is_same(bytes + at, before + at, len))
			continue;
		mask[at / (8 * GRANULE)] |= 1 << at / GRANULE % 8;
		copy(dst + n, bytes + at, len);
		n += len;
	}
	return n;
}

uint32_t
sf_format_removed_put(uint8_t *dst, const SfRemovedRecord *record, const SfRemovedRecord *before)
{
	SfRemovedHead head = record->head;
	uint32_t	nbytes = bytes_of(&head);

	head.form = before != NULL && before->head.key_bytes == head.key_bytes &&
		before->head.value_bytes == head.value_bytes ? SF_REMOVED_LIKE : SF_REMOVED_WHOLE;
	memcpy(dst, &head, sizeof(head));
	if (head.form == SF_REMOVED_LIKE)
		return sizeof(head) + put_like(dst + sizeof(head), record->bytes, before->bytes, nbytes);
	memcpy(dst + sizeof(head), record->bytes, nbytes);
	return sizeof(head) + nbytes;
}

/* ---- reading ---- */

/*
 * A reader goes through chunks, and through the records of each.  It keeps the record that it is
 * at, since the next one may be told by it.
 */
void
sf_format_removed_begin(SfRemovedReader *reader, const uint8_t *chunks, uint32_t nbytes)
{
	reader->chunks = chunks;
	reader->nbytes = nbytes;
	reader->at = reader->chunk_at = reader->chunk_end = 0;
	memset(&reader->record.head, 0, sizeof(reader->record.head));
}

/* Does a chunk end where there are bytes still, and say nothing that cannot be? */
static bool
is_possible_chunk(const SfRemovedReader *reader)
{
	static const uint8_t zeros[sizeof(((SfRemovedChunk *) 0)->reserved)];
	const SfRemovedChunk *chunk = &reader->chunk;

	return (uint32_t) chunk->fxid >= SF_FIRST_XID && chunk->outcome <= SF_REMOVED_WIPED &&
		chunk->nbytes > sizeof(*chunk) && chunk->nbytes % 8 == 0 &&
		chunk->nbytes <= reader->nbytes - reader->chunk_end &&
		memcmp(chunk->reserved, zeros, sizeof(zeros)) == 0;
}

/* The bytes behind a chunk are looked at here, and nothing that lies in it. */
bool
sf_format_removed_next_chunk(SfRemovedReader *reader)
{
	uint32_t	at = reader->chunk_end;

	reader->at = at;
	if (reader->nbytes - at < sizeof(SfRemovedChunk))
		return false;
	memcpy(&reader->chunk, reader->chunks + at, sizeof(SfRemovedChunk));
	if (!is_possible_chunk(reader))
		return false;
	reader->chunk_at = at;
	reader->chunk_end = at + reader->chunk.nbytes;
	reader->at = at + sizeof(SfRemovedChunk);
	memset(&reader->record.head, 0, sizeof(reader->record.head));
	return true;
}

/*
 * Has a record lengths that can be?  The bytes come from a page that may be damaged, or from a
 * record of WAL.  LIKE needs a record before that is as long.
 */
static bool
is_possible_record(const SfRemovedHead *head, const SfRemovedHead *before)
{
	if (head->kind < SF_REMOVED_DELETED || head->kind > SF_REMOVED_MOVED ||
		head->form > SF_REMOVED_LIKE || head->key_bytes > SF_REMOVED_KEY_MAX ||
		head->value_bytes == 0 || head->value_bytes > SF_REMOVED_VALUE_MAX)
		return false;
	return head->form == SF_REMOVED_WHOLE ||
		(head->key_bytes == before->key_bytes && head->value_bytes == before->value_bytes);
}

/*
 * The other way round: bytes has the record before, and becomes this one.  src has left bytes,
 * which may be anything.  Returns how many of them were taken; 0: they are too few.
 */
static uint32_t
take_like(uint8_t *bytes, uint32_t nbytes, const uint8_t *src, uint32_t left)
{
	uint32_t	n = mask_bytes(nbytes);

	if (left < n)
		return 0;
	for (uint32_t at = 0; at < nbytes; at += GRANULE)
	{
		uint32_t	len = granule_bytes(nbytes, at);

		if (!(src[at / (8 * GRANULE)] >> at / GRANULE % 8 & 1))
			continue;
		if (left - n < len)
			return 0;
		copy(bytes + at, src + n, len);
		n += len;
	}
	return n;
}

/* Take the record at reader->at, of the current chunk; false: it cannot be. */
static bool
take_record(SfRemovedReader *reader, SfRemovedHead *head)
{
	const uint8_t *src = reader->chunks + reader->at + sizeof(*head);
	uint32_t	left = reader->chunk_end - reader->at - sizeof(*head);
	uint32_t	nbytes = bytes_of(head);
	uint32_t	n = nbytes;

	reader->record_at = reader->at;
	reader->ended = (head->kind & SF_REMOVED_ENDED) != 0;
	head->kind &= ~SF_REMOVED_ENDED;
	if (!is_possible_record(head, &reader->record.head))
		return false;
	if (head->form == SF_REMOVED_LIKE)
		n = take_like(reader->record.bytes, nbytes, src, left);
	else if (left >= nbytes)
		memcpy(reader->record.bytes, src, nbytes);
	else
		n = 0;
	if (n == 0)
		return false;
	reader->record.head = *head;
	reader->at += sizeof(*head) + n;
	return true;
}

bool
sf_format_removed_next(SfRemovedReader *reader)
{
	for (;;)
	{
		SfRemovedHead head = {0};

		if (reader->at < reader->chunk_end && reader->chunk_end - reader->at >= sizeof(head))
			memcpy(&head, reader->chunks + reader->at, sizeof(head));
		if (head.kind != 0)
			return take_record(reader, &head);
		/* too few bytes for a record, or zeros */
		if (!sf_format_removed_next_chunk(reader))
			return false;
	}
}

const char *
sf_format_removed_problem(const uint8_t *chunks, size_t len)
{
	SfRemovedReader reader;

	if (len == 0 || len > SF_REMOVED_ROOM)
		return "records of removed values have an impossible length";
	sf_format_removed_begin(&reader, chunks, (uint32_t) len);
	while (sf_format_removed_next(&reader))
		;
	return reader.at == len ? NULL : "record of a removed value cannot be";
}
