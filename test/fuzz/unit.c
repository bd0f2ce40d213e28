/*-------------------------------------------------------------------------
 *
 * unit.c
 *	  Every codec there is (src/transform): what it encodes comes out again, and
 *	  damaged stored bytes are refused, or decoded within their bounds.
 *
 * An input is the number of a codec, what to do (even: encode and decode again, odd: decode),
 * a length (4 bytes), and bytes.
 *
 *-------------------------------------------------------------------------
 */
#include <stdlib.h>
#include <string.h>

#include "fuzz.h"
#include "transform/transform.h"

#define HEAD	6
#define CODECS	(SF_CODEC_MAX + 2)	/* and a number that no codec has */
#define LEVELS	(SF_COMPRESSION_HIGH + 1)

/* A level of compression that a codec has, as inputs choose one. */
static SfCompression
level_of(const SfCodecOps *codec, uint8_t choice)
{
	SfCompression level = choice % LEVELS;

	return sf_transform_codec(level) == codec ? level
		: codec->id == SF_CODEC_LZ4 ? SF_COMPRESSION_LOW : SF_COMPRESSION_MEDIUM;
}

/* Encode what may be a unit; it is sound, and the plain bytes come out of it. */
static const char *
there_and_back(SfCompression level, const char *plain, uint32_t len)
{
	char	   *room = malloc(SF_UNIT_SIZE);
	char	   *again = malloc(len);
	SfEncoder	encoder;
	SfUnit		unit = {0};
	const char *stored;

	sf_transform_begin(&encoder, level);
	stored = sf_transform_encode(&encoder, plain, len, room, &unit);
	if ((stored == plain) != sf_transform_is_raw(&unit))
		fuzz_stop("a unit without a codec was copied, or one with a codec was not");
	if (sf_format_unit_problem(&unit, SF_LOC_UNITS, len) != NULL)
		fuzz_stop("a unit that was encoded is unsound");
	if (!sf_transform_is_raw(&unit))
	{
		if (unit.stored_bytes > sf_transform_room(len))
			fuzz_stop("a unit was encoded that gains too little");
		if (sf_transform_decode(&unit, stored, again, len) != SF_DECODED ||
			memcmp(plain, again, len) != 0)
			fuzz_stop("what was encoded does not come out again");
		if (sf_transform_decode(&unit, stored, again, len - 1) == SF_DECODED)
			fuzz_stop("a unit is taken for a shorter one");
	}
	free(room);
	free(again);
	return sf_transform_is_raw(&unit) ? "stored as it is" : "encoded";
}

/* Decode any bytes. */
static const char *
decode_only(uint32_t id, const char *bytes, uint32_t len, uint32_t plain_bytes)
{
	SfUnit		unit = {.stored_bytes = len, .flags = id};
	char	   *plain = malloc(plain_bytes == 0 ? 1 : plain_bytes);
	SfDecoded	result = sf_transform_decode(&unit, bytes, plain, plain_bytes);

	free(plain);
	return result == SF_DECODED ? NULL : "these are no stored bytes";
}

const char *
fuzz_try(const uint8_t *bytes, size_t len)
{
	const SfCodecOps *codec;
	uint32_t	plain_bytes;
	char	   *rest;
	const char *answer;

	if (len < HEAD + 1)
		return "too short for this fuzzer";
	codec = sf_transform_find(bytes[0] % CODECS);
	memcpy(&plain_bytes, bytes + 2, sizeof(plain_bytes));
	rest = malloc(len - HEAD);
	memcpy(rest, bytes + HEAD, len - HEAD);
	if (codec == NULL &&
		sf_transform_decode(&(SfUnit) {.flags = bytes[0] % CODECS}, rest, rest, 0) !=
		SF_DECODE_NO_CODEC)
		fuzz_stop("a codec that there is not has decoded something");
	answer = codec == NULL ? "there is no such codec"
		: bytes[1] % 2 == 0 ? there_and_back(level_of(codec, bytes[1] / 2), rest, len - HEAD)
		: decode_only(codec->id, rest, len - HEAD, plain_bytes % (sf_unit_start(2)));
	free(rest);
	return answer;
}

/* Plain bytes, and what a level of compression makes of them. */
static void
keep_level(SfCompression level, const char *plain, uint32_t len)
{
	uint8_t		bytes[FUZZ_MAX_INPUT] = {0};
	const SfCodecOps *codec = sf_transform_codec(level);
	uint32_t	stored_bytes;

	bytes[0] = codec->id;
	bytes[1] = 2 * level;
	memcpy(bytes + 2, &len, sizeof(len));
	memcpy(bytes + HEAD, plain, len);
	fuzz_keep(bytes, HEAD + len);
	bytes[1] = 1;
	stored_bytes = sf_transform_encode_bytes(codec, level, plain, len, (char *) bytes + HEAD,
											 sizeof(bytes) - HEAD);
	if (stored_bytes != 0)
		fuzz_keep(bytes, HEAD + stored_bytes);
}

/* The same for all levels; and with a codec that there is not. */
static void
keep(const char *plain, uint32_t len)
{
	uint8_t		unknown[HEAD + 1] = {SF_CODEC_MAX + 1};

	for (SfCompression level = SF_COMPRESSION_LOW; level < LEVELS; level++)
		keep_level(level, plain, len);
	fuzz_keep(unknown, sizeof(unknown));
}

void
fuzz_seeds(void)
{
	char		plain[8000] = {0};

	keep(plain, 1);
	keep(plain, sizeof(plain));
	for (size_t i = 0; i < sizeof(plain); i++)
		plain[i] = (char) (i / 3);
	keep(plain, 3000);
	for (size_t i = 0; i < sizeof(plain); i++)
		plain[i] = (char) fuzz_random(256);
	keep(plain, sizeof(plain));
}
