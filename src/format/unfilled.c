/*-------------------------------------------------------------------------
 *
 * unfilled.c
 *	  UNFILLED values: their bytes in a row, and the markers that stand for them in a dump.
 *
 * A marker may come from any client, and a row may be damaged, so nothing of either is taken
 * for granted.
 *
 *-------------------------------------------------------------------------
 */
#include "format/unfilled.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#define VERSION			1
#define FLAG_HASH		0x01
#define MARKER			"\\securefile-unfilled:"
#define MARKER_VERSION	"1:"
#define DIGEST_BYTES	sizeof(((SfUnfilled *) NULL)->digest)

_Static_assert(SF_UNFILLED_SIZE + DIGEST_BYTES == SF_UNFILLED_HASHED_SIZE,
			   "an UNFILLED value is an on-disk format");

/* ---- in a row ---- */

const char *
sf_format_unfilled_decode(const uint8_t *data, size_t len, SfUnfilled *unfilled)
{
	static const uint8_t zeros[5];

	*unfilled = (SfUnfilled) {0};
	if (len < SF_UNFILLED_SIZE || data[0] != SF_FORM_UNFILLED)
		return "value that was not restored has the wrong size";
	if (data[1] != VERSION || (data[2] & ~FLAG_HASH) != 0 ||
		memcmp(data + 3, zeros, sizeof(zeros)) != 0)
		return "value that was not restored has an unknown version";
	unfilled->has_hash = (data[2] & FLAG_HASH) != 0;
	if (len != (size_t) (unfilled->has_hash ? SF_UNFILLED_HASHED_SIZE : SF_UNFILLED_SIZE))
		return "value that was not restored has the wrong size";
	memcpy(&unfilled->length_bytes, data + 8, sizeof(unfilled->length_bytes));
	if (unfilled->length_bytes == 0 || unfilled->length_bytes > INT64_MAX)
		return "value that was not restored has an impossible length";
	if (unfilled->has_hash)
		memcpy(unfilled->digest, data + SF_UNFILLED_SIZE, DIGEST_BYTES);
	return NULL;
}

size_t
sf_format_unfilled_encode(uint8_t *data, const SfUnfilled *unfilled)
{
	memset(data, 0, SF_UNFILLED_HASHED_SIZE);
	data[0] = SF_FORM_UNFILLED;
	data[1] = VERSION;
	data[2] = unfilled->has_hash ? FLAG_HASH : 0;
	memcpy(data + 8, &unfilled->length_bytes, sizeof(unfilled->length_bytes));
	if (!unfilled->has_hash)
		return SF_UNFILLED_SIZE;
	memcpy(data + SF_UNFILLED_SIZE, unfilled->digest, DIGEST_BYTES);
	return SF_UNFILLED_HASHED_SIZE;
}

/* ---- in a dump ---- */

bool
sf_format_is_marker(const char *text)
{
	return strncmp(text, MARKER, sizeof(MARKER) - 1) == 0;
}

/* Read a length as a marker has it, without sign, spaces and leading zeros; NULL: it has none. */
static const char *
read_length(const char *text, uint64_t *length)
{
	*length = 0;
	if (*text < '1' || *text > '9')
		return NULL;
	for (; *text >= '0' && *text <= '9'; text++)
	{
		unsigned	digit = (unsigned) (*text - '0');

		if (*length > ((uint64_t) INT64_MAX - digit) / 10)
			return NULL;
		*length = *length * 10 + digit;
	}
	return text;
}

/* The value of a lower-case hexadecimal digit; -1: it is none. */
static int
hex_value(char c)
{
	if (c >= '0' && c <= '9')
		return c - '0';
	return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

static bool
read_hash(const char *text, uint8_t *digest)
{
	if (strlen(text) != 2 * DIGEST_BYTES)
		return false;
	for (size_t i = 0; i < DIGEST_BYTES; i++)
	{
		int			high = hex_value(text[2 * i]);
		int			low = hex_value(text[2 * i + 1]);

		if (high < 0 || low < 0)
			return false;
		digest[i] = (uint8_t) (high * 16 + low);
	}
	return true;
}

const char *
sf_format_marker_read(const char *text, SfUnfilled *unfilled)
{
	*unfilled = (SfUnfilled) {0};
	text += sizeof(MARKER) - 1;
	if (strncmp(text, MARKER_VERSION, sizeof(MARKER_VERSION) - 1) != 0)
		return "marker has an unknown version";
	text = read_length(text + sizeof(MARKER_VERSION) - 1, &unfilled->length_bytes);
	if (text == NULL || *text != ':')
		return "marker has an impossible length";
	text++;
	unfilled->has_hash = *text != '\0';
	if (unfilled->has_hash && !read_hash(text, unfilled->digest))
		return "marker has an impossible SHA-256";
	return NULL;
}

void
sf_format_marker_write(char *text, const SfUnfilled *unfilled)
{
	int			len = snprintf(text, SF_MARKER_SIZE, MARKER MARKER_VERSION "%" PRIu64 ":",
							   unfilled->length_bytes);

	for (size_t i = 0; unfilled->has_hash && i < DIGEST_BYTES; i++)
		len += snprintf(text + len, SF_MARKER_SIZE - (size_t) len, "%02x",
						unfilled->digest[i]);
}
