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
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "fuzz.h"
#include "transform/transform.h"

#define HEAD	6
#define CODECS	(SF_CODEC_MAX + 2)	/* and a number that no codec has */
#define LEVELS	(SF_COMPRESSION_HIGH + 1)

/* A dictionary, learnt from lines that are alike. */
static SfDictionary *
dictionary(void)
{
	static SfDictionary *learnt;
	static char samples[200][80];
	static char bytes[SF_DICTIONARY_MAX_BYTES];
	size_t		sizes[200];
	uint32_t	len;

	if (learnt != NULL)
		return learnt;
	for (int i = 0; i < 200; i++)
		sizes[i] = (size_t) snprintf(samples[i], sizeof(samples[i]),
									 "{\"number\": %d, \"alike\": \"%-30d\", \"end\": true}", i, i * i);
	for (size_t i = 1, at = sizes[0]; i < 200; at += sizes[i++])
		memmove((char *) samples + at, samples[i], sizes[i]);
	len = sf_transform_train((char *) samples, sizes, 200, bytes, sizeof(bytes));
	if (len == 0)
		fuzz_stop("nothing was learnt");
	sf_transform_number_dictionary(bytes, 7);
	learnt = sf_transform_dictionary_new(bytes, len);
	if (learnt == NULL)
		fuzz_stop("what was learnt is no dictionary");
	return learnt;
}

/* The dictionary of a codec, or NULL. */
static SfDictionary *
dictionary_of(uint32_t codec)
{
	return codec == SF_CODEC_TRAINED ? dictionary() : NULL;
}

/* A level of compression that a codec has, as inputs choose one. */
static SfCompression
level_of(const SfCodecOps *codec, uint8_t choice)
{
	SfCompression level = choice % LEVELS;

	return sf_transform_codec(level) == codec ? level
		: codec->id == SF_CODEC_LZ4 ? SF_COMPRESSION_LOW
		: choice % 2 == 0 ? SF_COMPRESSION_MEDIUM : SF_COMPRESSION_HIGH;
}

/* Encode what may be a unit; it is sound, and the plain bytes come out of it. */
static const char *
there_and_back(uint32_t codec, SfCompression level, const char *plain, uint32_t len)
{
	char	   *room = malloc(SF_UNIT_SIZE);
	char	   *again = malloc(len);
	SfEncoder	encoder;
	SfUnit		unit = {0};
	const char *stored;

	sf_transform_begin(&encoder, level, dictionary_of(codec));
	stored = sf_transform_encode(&encoder, plain, len, room, &unit);
	if ((stored == plain) != sf_transform_is_raw(&unit))
		fuzz_stop("a unit without a codec was copied, or one with a codec was not");
	if (sf_format_unit_problem(&unit, SF_LOC_UNITS, len) != NULL)
		fuzz_stop("a unit that was encoded is unsound");
	if (!sf_transform_is_raw(&unit))
	{
		if (unit.stored_bytes > sf_transform_room(len))
			fuzz_stop("a unit was encoded that gains too little");
		if (unit.flags != codec)
			fuzz_stop("a unit was encoded by another codec");
		if (sf_transform_dictionary_of(&unit, stored) != (codec == SF_CODEC_TRAINED ? 7 : 0))
			fuzz_stop("a unit names another dictionary");
		if (sf_transform_decode(&unit, dictionary_of(codec), stored, again, len) != SF_DECODED ||
			memcmp(plain, again, len) != 0)
			fuzz_stop("what was encoded does not come out again");
		if (sf_transform_decode(&unit, dictionary_of(codec), stored, again, len - 1) == SF_DECODED)
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
	SfDecoded	result = sf_transform_decode(&unit, dictionary_of(id), bytes, plain, plain_bytes);

	(void) sf_transform_dictionary_of(&unit, bytes);
	if (id == SF_CODEC_TRAINED &&
		sf_transform_decode(&unit, NULL, bytes, plain, plain_bytes) == SF_DECODED)
		fuzz_stop("a unit was decoded without its dictionary");
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
		sf_transform_decode(&(SfUnit) {.flags = bytes[0] % CODECS}, NULL, rest, rest, 0) !=
		SF_DECODE_NO_CODEC)
		fuzz_stop("a codec that there is not has decoded something");
	answer = codec == NULL ? "there is no such codec"
		: bytes[1] % 2 == 0
		? there_and_back(codec->id, level_of(codec, bytes[1] / 2), rest, len - HEAD)
		: decode_only(codec->id, rest, len - HEAD, plain_bytes % (sf_unit_start(2)));
	free(rest);
	return answer;
}

/* Plain bytes, and what a level of compression makes of them, with a dictionary or without. */
static void
keep_level(SfCompression level, SfDictionary *with, const char *plain, uint32_t len)
{
	uint8_t		bytes[FUZZ_MAX_INPUT] = {0};
	SfEncoder	encoder;
	uint32_t	stored_bytes;

	sf_transform_begin(&encoder, level, with);
	bytes[0] = encoder.codec->id;
	bytes[1] = 2 * level;
	memcpy(bytes + 2, &len, sizeof(len));
	memcpy(bytes + HEAD, plain, len);
	fuzz_keep(bytes, HEAD + len);
	bytes[1] = 1;
	stored_bytes = sf_transform_encode_bytes(&encoder, level, plain, len, (char *) bytes + HEAD,
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
		keep_level(level, NULL, plain, len);
	keep_level(SF_COMPRESSION_MEDIUM, dictionary(), plain, len);
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
