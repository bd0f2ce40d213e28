/*-------------------------------------------------------------------------
 *
 * packed.c
 *	  PACKED, TRAINED and SEALED values: small ones that are compressed or encrypted
 *	  in the row.
 *
 * What follows the header are the stored bytes of a compressed unit, so that one pair of
 * functions encodes and decodes both.  A row may be damaged, so nothing of it is taken
 * for granted.
 *
 *-------------------------------------------------------------------------
 */
#include <string.h>

#include "format/packed.h"

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

/* Can there be such a segment? */
static bool
is_possible_home(SfHome home)
{
	return home.table_oid != 0 && home.attnum > 0 && home.incarnation != 0;
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
	if (!is_possible_home((SfHome) {head.table_oid, head.attnum, head.incarnation}))
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

/* A SEALED value begins with these bytes. */
typedef struct SealedHead
{
	uint8_t		form;
	uint8_t		codec;
	uint16_t	key_id;
	uint32_t	table_oid;
	int16_t		attnum;
	uint16_t	reserved;
	uint32_t	plain_bytes;
	uint64_t	incarnation;
} SealedHead;

_Static_assert(sizeof(SealedHead) == SF_SEALED_HEADER, "SealedHead is an on-disk format");

/* An empty value is INLINE, and one of more than a unit is never in its row. */
const char *
sf_format_sealed_decode(const uint8_t *data, size_t len, SfSealed *sealed)
{
	SealedHead	head;
	uint32_t	stored_bytes;

	if (len <= SF_SEALED_OVERHEAD || len > SF_UNIT_SIZE || data[0] != SF_FORM_SEALED)
		return "encrypted value has the wrong size";
	memcpy(&head, data, sizeof(head));
	if (head.codec > SF_CODEC_MAX || head.reserved != 0)
		return "encrypted value has an unknown codec";
	if (head.key_id == 0)
		return "encrypted value names no key";
	if (!is_possible_home((SfHome) {head.table_oid, head.attnum, head.incarnation}))
		return "encrypted value names no segment";
	stored_bytes = (uint32_t) (len - SF_SEALED_OVERHEAD);
	if (head.plain_bytes > SF_UNIT_SIZE ||
		(head.codec == SF_CODEC_RAW ? stored_bytes != head.plain_bytes
		 : stored_bytes <= SF_CODED_OVERHEAD ||
		 stored_bytes - SF_CODED_OVERHEAD >= head.plain_bytes))
		return "encrypted value has an impossible length";
	sealed->home = (SfHome) {head.table_oid, head.attnum, head.incarnation};
	sealed->key_id = head.key_id;
	sealed->plain_bytes = head.plain_bytes;
	sealed->unit = (SfUnit) {.stored_bytes = stored_bytes, .flags = head.codec};
	return NULL;
}

void
sf_format_sealed_encode(uint8_t *data, const SfSealed *sealed)
{
	SealedHead	head = {
		SF_FORM_SEALED, (uint8_t) sealed->unit.flags, sealed->key_id, sealed->home.table_oid,
		sealed->home.attnum, 0, sealed->plain_bytes, sealed->home.incarnation
	};

	memcpy(data, &head, sizeof(head));
}
