/*-------------------------------------------------------------------------
 *
 * packed.c
 *	  PACKED values: small ones that are compressed in the row.
 *
 * What follows the header are the stored bytes of a compressed unit, so that one pair of
 * functions encodes and decodes both.  A row may be damaged, so nothing of it is taken
 * for granted.
 *
 *-------------------------------------------------------------------------
 */
#include <string.h>

#include "format/format.h"

const char *
sf_format_packed_decode(const uint8_t *data, size_t len, SfUnit *unit, uint32_t *plain_bytes)
{
	if (len <= SF_PACKED_HEADER + SF_CODED_OVERHEAD || data[0] != SF_FORM_PACKED)
		return "compressed value has the wrong size";
	if (data[1] == SF_CODEC_RAW || data[1] > SF_CODEC_MAX || data[2] != 0 || data[3] != 0)
		return "compressed value has an unknown codec";
	memcpy(plain_bytes, data + SF_PACKED_HEADER, sizeof(*plain_bytes));
	*unit = (SfUnit) {.stored_bytes = (uint32_t) (len - SF_PACKED_HEADER), .flags = data[1]};
	if (len > SF_UNIT_SIZE || *plain_bytes > SF_UNIT_SIZE ||
		unit->stored_bytes - SF_CODED_OVERHEAD >= *plain_bytes)
		return "compressed value has an impossible length";
	return NULL;
}

void
sf_format_packed_encode(uint8_t *data, uint32_t codec)
{
	data[0] = SF_FORM_PACKED;
	data[1] = (uint8_t) codec;
	data[2] = data[3] = 0;
}
