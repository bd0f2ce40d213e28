/*-------------------------------------------------------------------------
 *
 * transform.c
 *	  The table of codecs, and the bytes that all of them begin with.
 *
 *	stored bytes of a coded unit	[ plain length | check | body .................. ]
 *
 * The check is over the plain bytes, so that a codec that decodes a body to other
 * bytes than it was made of, be it by an error of the library or of the processor's
 * memory, is found out.  The checksum in the unit map cannot tell that: it is over
 * the stored bytes.
 *
 *-------------------------------------------------------------------------
 */
#include <string.h>

#include "transform/transform.h"

/* A table must not be empty, so it ends with a row that stands for nothing. */
static const SfCodecOps *const codecs[] = {
#ifdef SF_LZ4
	&sf_transform_lz4,
#endif
#ifdef SF_ZSTD
	&sf_transform_zstd,
	&sf_transform_trained,
#endif
	NULL
};

const SfCodecOps *
sf_transform_find(uint32_t id)
{
	for (int i = 0; codecs[i] != NULL; i++)
		if (codecs[i]->id == id)
			return codecs[i];
	return NULL;
}

const SfCodecOps *
sf_transform_codec(SfCompression level)
{
	static const uint8_t codec_of_level[] = {
		[SF_COMPRESSION_NONE] = SF_CODEC_RAW,
		[SF_COMPRESSION_LOW] = SF_CODEC_LZ4,
		[SF_COMPRESSION_MEDIUM] = SF_CODEC_ZSTD,
		[SF_COMPRESSION_HIGH] = SF_CODEC_ZSTD,
	};

	return sf_transform_find(codec_of_level[level]);
}

/* ---- stored bytes ---- */

/* The two numbers that stored bytes begin with. */
typedef struct CodedHead
{
	uint32_t	plain_bytes;
	uint32_t	check;			/* low half of the XXH3-64 of the plain bytes */
} CodedHead;

_Static_assert(sizeof(CodedHead) == SF_CODED_OVERHEAD, "CodedHead is an on-disk format");

static CodedHead
head_of(const char *plain, uint32_t plain_bytes)
{
	return (CodedHead) {plain_bytes, (uint32_t) sf_format_checksum(plain, plain_bytes, 0)};
}

/*
 * A digest is not the same as a checksum where there are a few bytes only; to go through
 * those twice costs nothing.
 */
void
sf_transform_put_head_of(const char *plain, uint32_t plain_bytes, const SfDigest *digest,
						 void *head)
{
	const CodedHead made = plain_bytes > SF_DIGEST_SHORT
		? (CodedHead) {plain_bytes, (uint32_t) digest->low} : head_of(plain, plain_bytes);

	memcpy(head, &made, sizeof(made));
}

bool
sf_transform_head_ok(const char *plain, uint32_t plain_bytes, const void *head)
{
	const CodedHead made = head_of(plain, plain_bytes);

	return memcmp(head, &made, sizeof(made)) == 0;
}

/*
 * Less than an eighth is not worth the time of every read.  The place is counted in
 * sectors, so at least one has to be saved.
 */
uint32_t
sf_transform_room(uint32_t plain_bytes)
{
	uint32_t	by_gain = plain_bytes - plain_bytes / 8;
	uint32_t	by_place = sf_sectors_to_bytes(sf_bytes_to_sectors(plain_bytes) - 1);

	return by_gain < by_place ? by_gain : by_place;
}

uint32_t
sf_transform_encode_bytes(const SfEncoder *encoder, SfCompression level, const char *plain,
						  uint32_t plain_bytes, char *dst, uint32_t room)
{
	CodedHead	head;
	uint32_t	body_bytes;

	if (room <= SF_CODED_OVERHEAD)
		return 0;
	body_bytes = encoder->codec->encode(level, encoder->dictionary, plain, plain_bytes,
										dst + SF_CODED_OVERHEAD, room - SF_CODED_OVERHEAD);
	if (body_bytes == 0)
		return 0;
	head = head_of(plain, plain_bytes);
	memcpy(dst, &head, sizeof(head));
	return SF_CODED_OVERHEAD + body_bytes;
}

SfDecoded
sf_transform_decode(const SfUnit *unit, SfDictionary *dictionary, const char *stored, char *dst,
					uint32_t plain_bytes)
{
	const SfCodecOps *codec = sf_transform_find(unit->flags);
	CodedHead	head;
	SfDecoded	result;

	if (codec == NULL)
		return SF_DECODE_NO_CODEC;
	if (unit->stored_bytes <= SF_CODED_OVERHEAD)
		return SF_DECODE_DAMAGED;
	memcpy(&head, stored, sizeof(head));
	if (head.plain_bytes != plain_bytes)
		return SF_DECODE_DAMAGED;
	result = codec->decode(dictionary, stored + SF_CODED_OVERHEAD,
						   unit->stored_bytes - SF_CODED_OVERHEAD, dst, plain_bytes);
	if (result != SF_DECODED)
		return result;
	return sf_transform_head_ok(dst, plain_bytes, stored) ? SF_DECODED : SF_DECODE_DAMAGED;
}
