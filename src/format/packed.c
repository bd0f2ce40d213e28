/*-------------------------------------------------------------------------
 *
 * packed.c
 *	  PACKED and TRAINED values: small ones that are compressed in the row.
 *
 * What follows the header are the stored bytes of a compressed unit, so that one pair of
 * functions encodes and decodes both.  A row may be damaged, so nothing of it is taken
 * for granted.
 *
 *-------------------------------------------------------------------------
 */
#include <string.h>

#include "format/format.h"

/* Look at what begins behind the header of either form. */
static const char *
body_problem(const uint8_t *data, size_t len, size_t header, SfUnit *unit, uint32_t *plain_bytes)
{
	memcpy(plain_bytes, data + header, sizeof(*plain_bytes));
	*unit = (SfUnit) {.stored_bytes = (uint32_t) (len - header), .flags = data[1]};
	if (len > SF_UNIT_SIZE || *plain_bytes > SF_UNIT_SIZE ||
		unit->stored_bytes - SF_CODED_OVERHEAD >= *plain_bytes)
		return "compressed value has an impossible length";
	return NULL;
}

const char *
sf_format_packed_decode(const uint8_t *data, size_t len, SfUnit *unit, uint32_t *plain_bytes)
{
	if (len <= SF_PACKED_HEADER + SF_CODED_OVERHEAD || data[0] != SF_FORM_PACKED)
		return "compressed value has the wrong size";
	if (data[1] == SF_CODEC_RAW || data[1] >= SF_CODEC_TRAINED || data[2] != 0 || data[3] != 0)
		return "compressed value has an unknown codec";
	return body_problem(data, len, SF_PACKED_HEADER, unit, plain_bytes);
}

void
sf_format_packed_encode(uint8_t *data, uint32_t codec)
{
	data[0] = SF_FORM_PACKED;
	data[1] = (uint8_t) codec;
	data[2] = data[3] = 0;
}

/* A TRAINED value begins with these bytes. */
typedef struct TrainedHead
{
	uint8_t		form;
	uint8_t		codec;
	int16_t		attnum;
	uint32_t	table_oid;
	uint64_t	incarnation;
} TrainedHead;

_Static_assert(sizeof(TrainedHead) == SF_TRAINED_HEADER, "TrainedHead is an on-disk format");

const char *
sf_format_trained_decode(const uint8_t *data, size_t len, SfUnit *unit, uint32_t *plain_bytes,
						 SfHome *home)
{
	TrainedHead head;

	if (len <= SF_TRAINED_HEADER + SF_CODED_OVERHEAD || data[0] != SF_FORM_TRAINED)
		return "compressed value has the wrong size";
	memcpy(&head, data, sizeof(head));
	if (head.codec != SF_CODEC_TRAINED)
		return "compressed value has an unknown codec";
	if (head.table_oid == 0 || head.attnum <= 0 || head.incarnation == 0)
		return "compressed value names no segment";
	*home = (SfHome) {head.table_oid, head.attnum, head.incarnation};
	return body_problem(data, len, SF_TRAINED_HEADER, unit, plain_bytes);
}

void
sf_format_trained_encode(uint8_t *data, const SfHome *home)
{
	TrainedHead head = {SF_FORM_TRAINED, SF_CODEC_TRAINED, home->attnum, home->table_oid,
	home->incarnation};

	memcpy(data, &head, sizeof(head));
}
