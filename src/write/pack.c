/*-------------------------------------------------------------------------
 *
 * pack.c
 *	  Units are encoded; small values are compressed for their rows.
 *
 * A value of at most a unit is encoded before it is known where it goes, since that
 * decides: if it then fits its row, it stays there, and costs neither space in the
 * segment nor a second read.  If not, what was encoded is stored, so that nothing is
 * done twice.
 *
 *	 value			compressed			goes to
 *	 up to 4000		saves an eighth		the row, PACKED
 *	 up to 4000		does not			the row, INLINE
 *	 up to 128 KB	up to 4000			the row, PACKED
 *	 up to 128 KB	more				the segment, encoded or as it is
 *
 * In a column that has a dictionary, such values are encoded with the newest one, and
 * those in the row are TRAINED instead of PACKED.  In a column that encrypts all of those
 * in the row are SEALED, compressed or not.
 *
 *-------------------------------------------------------------------------
 */
#include "base/base.h"

#include "keys/keys.h"
#include "space/dictionary_pages.h"
#include "utils/memutils.h"
#include "write/write_internal.h"

/* below that the bytes that every frame begins with take what is gained */
#define PACK_MIN	64

/* Memory for an encoded unit, made on first use for the life of the process. */
static char *
coded_room(void)
{
	static char *room;

	if (room == NULL)
		room = MemoryContextAlloc(TopMemoryContext, SF_UNIT_SIZE);
	return room;
}

/* For tests: what a library would give that is in error.  Its checksum will be right. */
static void
spoil(char *stored, uint32 stored_bytes)
{
	if (SF_FAULT_SKIPS(encode_right))
		stored[stored_bytes / 2] ^= 1;
}

const char *
sfi_pack_unit(SfStatCounters *stats, SfEncoder *encoder, const char *plain, uint32 len,
			  SfUnit *unit)
{
	uint64		start_us;
	const char *stored;

	SF_ASSERT(len > 0 && len <= SF_UNIT_SIZE);
	if (encoder->codec == NULL)
		return sf_transform_encode(encoder, plain, len, NULL, unit);
	SF_FAULT(encode);
	start_us = sf_base_now_us();
	stored = sf_transform_encode(encoder, plain, len, coded_room(), unit);
	stats->compress_time_us += sf_base_now_us() - start_us;
	if (stored != plain)
		spoil(coded_room(), unit->stored_bytes);
	return stored;
}

bool
sf_write_packs(const SfColumn *column, Size len)
{
	return column->permanent && column->options.in_row && len >= PACK_MIN &&
		len <= SF_UNIT_SIZE && sf_transform_codec(column->options.compression) != NULL;
}

uint32
sf_write_packed_header(const SfEncoder *encoder)
{
	return encoder->dictionary != NULL ? SF_TRAINED_HEADER : SF_PACKED_HEADER;
}

/* The SEALED value of stored bytes, which are raw or encoded as the unit says. */
static struct varlena *
make_sealed(const SfColumn *column, const char *stored, const SfUnit *unit, uint32 plain_bytes)
{
	SfSegment  *seg = sf_space_open(column->table_oid, column->attnum, RowExclusiveLock, false);
	const SfDataKey *key = sf_keys_current(seg);
	const SfPacked sealed = {
		.unit = *unit, .plain_bytes = plain_bytes, .key_id = key->id,
		.home = {column->table_oid, column->attnum, seg->incarnation}
	};
	Size		size = VARHDRSZ + SF_SEALED_OVERHEAD + unit->stored_bytes;
	struct varlena *value = palloc(size);

	SF_FAULT(encrypt);
	SET_VARSIZE(value, size);
	sf_format_sealed_encode((uint8 *) VARDATA(value), &sealed);
	if (!sf_transform_seal_value(key, (SfBytes) {stored, unit->stored_bytes},
								 (uint8 *) VARDATA(value)))
		sfi_pack_report_no_cipher();
	return value;
}

struct varlena *
sf_write_seal(const SfColumn *column, const char *data, Size len)
{
	const SfUnit raw = {.stored_bytes = len, .flags = SF_CODEC_RAW};

	SF_ASSERT(sf_config_encrypts(column) && len > 0 && len <= SF_IN_ROW_MAX);
	return make_sealed(column, data, &raw, len);
}

void
sfi_pack_report_no_cipher(void)
{
	ereport(ERROR,
			(errcode(ERRCODE_SYSTEM_ERROR),
			 errmsg("could not encrypt a securefile value"),
			 errdetail("The system gives no random bytes, or there is no memory.")));
}

/* The PACKED, TRAINED or SEALED value of stored bytes. */
static struct varlena *
make_packed(const SfColumn *column, const SfEncoder *encoder, const SfHome *home,
			const char *stored, const SfUnit *unit, uint32 plain_bytes)
{
	Size		header = sf_write_packed_header(encoder);
	Size		size = VARHDRSZ + header + unit->stored_bytes;
	struct varlena *value;

	SF_ASSERT(!sf_transform_is_raw(unit) && unit->stored_bytes > SF_CODED_OVERHEAD);
	SF_ASSERT(size <= VARHDRSZ + SF_IN_ROW_MAX);
	if (sf_config_encrypts(column))
		return make_sealed(column, stored, unit, plain_bytes);
	value = palloc(size);
	SET_VARSIZE(value, size);
	if (encoder->dictionary != NULL)
		sf_format_trained_encode((uint8 *) VARDATA(value), home);
	else
		sf_format_packed_encode((uint8 *) VARDATA(value), unit->flags);
	memcpy(VARDATA(value) + header, stored, unit->stored_bytes);
	return value;
}

/*
 * Compress a value that is in its row in any case: no sector is to be saved, so a value
 * of a few bytes gains, too.
 */
static struct varlena *
pack_small(const SfColumn *column, const SfEncoder *encoder, const SfHome *home,
		   const char *data, Size len)
{
	char	   *room = coded_room();
	SfUnit		unit = {.flags = encoder->codec->id};

	SF_FAULT(encode);
	unit.stored_bytes =
		sf_transform_encode_bytes(encoder, encoder->level, data, len, room,
								  sf_transform_room_in_row(len, sf_write_packed_header(encoder)));
	if (unit.stored_bytes == 0)
		return NULL;
	spoil(room, unit.stored_bytes);
	return make_packed(column, encoder, home, room, &unit, len);
}

struct varlena *
sf_write_pack(const SfColumn *column, const char *data, Size len, SfEncoded *encoded)
{
	SfStatCounters *stats = sf_stats_local(column->table_oid, column->attnum);
	SfDictionary *dictionary = NULL;
	SfEncoder	encoder;
	SfHome		home;

	SF_ASSERT(sf_write_packs(column, len));
	encoded->bytes = NULL;
	if (sf_transform_is_trainable(column->options.compression))
		dictionary = sf_space_trained(column->table_oid, column->attnum, RowExclusiveLock, &home);
	sf_transform_begin(&encoder, column->options.compression, dictionary);
	if (len <= SF_IN_ROW_MAX)
		return pack_small(column, &encoder, &home, data, len);
	encoded->bytes = sfi_pack_unit(stats, &encoder, data, len, &encoded->unit);
	if (encoded->bytes == data ||
		sf_write_packed_header(&encoder) + encoded->unit.stored_bytes > SF_IN_ROW_MAX)
		return NULL;
	return make_packed(column, &encoder, &home, encoded->bytes, &encoded->unit, len);
}
