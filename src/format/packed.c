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

/* Look at what begins behind the header of a value that is not encrypted. */
static const char *
body_problem(const uint8_t *data, size_t len, SfPacked *packed)
{
	memcpy(&packed->plain_bytes, data + packed->header, sizeof(packed->plain_bytes));
	packed->unit = (SfUnit) {.stored_bytes = (uint32_t) (len - packed->header), .flags = data[1]};
	if (len > SF_UNIT_SIZE || packed->plain_bytes > SF_UNIT_SIZE ||
		packed->unit.stored_bytes - SF_CODED_OVERHEAD >= packed->plain_bytes)
		return "compressed value has an impossible length";
	return NULL;
}

static const char *
packed_problem(const uint8_t *data, size_t len, SfPacked *packed)
{
	if (len <= SF_PACKED_HEADER + SF_CODED_OVERHEAD || data[0] != SF_FORM_PACKED)
		return "compressed value has the wrong size";
	if (data[1] == SF_CODEC_RAW || data[1] >= SF_CODEC_TRAINED || data[2] != 0 || data[3] != 0)
		return "compressed value has an unknown codec";
	packed->header = SF_PACKED_HEADER;
	return body_problem(data, len, packed);
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
is_possible_home(const SfHome *home)
{
	return home->table_oid != 0 && home->attnum > 0 && home->incarnation != 0;
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

static const char *
trained_problem(const uint8_t *data, size_t len, SfPacked *packed)
{
	TrainedHead head;

	if (len <= SF_TRAINED_HEADER + SF_CODED_OVERHEAD)
		return "compressed value has the wrong size";
	memcpy(&head, data, sizeof(head));
	packed->header = sizeof(head);
	packed->home = (SfHome) {head.table_oid, head.attnum, head.incarnation};
	if (head.codec != SF_CODEC_TRAINED)
		return "compressed value has an unknown codec";
	if (!is_possible_home(&packed->home))
		return "compressed value names no segment";
	return body_problem(data, len, packed);
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
static const char *
sealed_problem(const uint8_t *data, size_t len, SfPacked *packed)
{
	SealedHead	head;
	uint32_t	stored_bytes = (uint32_t) (len - SF_SEALED_OVERHEAD);

	if (len <= SF_SEALED_OVERHEAD || len > SF_UNIT_SIZE)
		return "encrypted value has the wrong size";
	memcpy(&head, data, sizeof(head));
	packed->header = sizeof(head);
	packed->home = (SfHome) {head.table_oid, head.attnum, head.incarnation};
	packed->key_id = head.key_id;
	packed->plain_bytes = head.plain_bytes;
	packed->unit = (SfUnit) {.stored_bytes = stored_bytes, .flags = head.codec};
	if (head.codec > SF_CODEC_MAX || head.reserved != 0)
		return "encrypted value has an unknown codec";
	if (head.key_id == 0)
		return "encrypted value names no key";
	if (!is_possible_home(&packed->home))
		return "encrypted value names no segment";
	if (head.plain_bytes > SF_UNIT_SIZE ||
		(head.codec == SF_CODEC_RAW ? stored_bytes != head.plain_bytes
		 : stored_bytes <= SF_CODED_OVERHEAD ||
		 stored_bytes - SF_CODED_OVERHEAD >= head.plain_bytes))
		return "encrypted value has an impossible length";
	return NULL;
}

void
sf_format_sealed_encode(uint8_t *data, const SfPacked *packed)
{
	SealedHead	head = {
		SF_FORM_SEALED, (uint8_t) packed->unit.flags, packed->key_id, packed->home.table_oid,
		packed->home.attnum, 0, packed->plain_bytes, packed->home.incarnation
	};

	memcpy(data, &head, sizeof(head));
}

const char *
sf_format_packed_decode(const uint8_t *data, size_t len, SfPacked *packed)
{
	memset(packed, 0, sizeof(*packed));
	switch (len > 0 ? data[0] : 0)
	{
		case SF_FORM_TRAINED:
			return trained_problem(data, len, packed);
		case SF_FORM_SEALED:
			return sealed_problem(data, len, packed);
		default:
			return packed_problem(data, len, packed);
	}
}
