/*-------------------------------------------------------------------------
 *
 * read_packed.c
 *	  PACKED, TRAINED and SEALED values: small ones that are compressed or encrypted in
 *	  the row.
 *
 * Such a value has at most the bytes of a unit, so it is decoded as a whole, whatever
 * part of it is wanted.  Functions that need more than one part of it take its INLINE
 * form (sf_read_unpacked()).
 *
 *-------------------------------------------------------------------------
 */
#include "base/base.h"

#include <sodium.h>

#include "keys/keys.h"
#include "read/read_internal.h"
#include "space/dictionary_pages.h"

/* The bytes behind the varlena header. */
static const uint8 *
packed_bytes(struct varlena *datum)
{
	return (const uint8 *) VARDATA_ANY(datum);
}

SF_NORETURN static void
report_damaged(const char *problem)
{
	ereport(ERROR,
			(errcode(ERRCODE_DATA_CORRUPTED),
			 errmsg("invalid securefile value"),
			 errdetail_internal("%s", problem)));
}

/* Look at the fixed part of a value. */
static SfPacked
look_at(struct varlena *datum)
{
	uint8		form = sf_read_form(datum);
	SfPacked	packed;
	const char *problem = sf_format_packed_decode(packed_bytes(datum), VARSIZE_ANY_EXHDR(datum),
												  &packed);

	if (problem != NULL)
		report_damaged(psprintf("The %s.", problem));
	SF_ASSERT(!sf_transform_is_raw(&packed.unit) || form == SF_FORM_SEALED);
	SF_ASSERT(packed.plain_bytes > 0 && packed.plain_bytes <= SF_UNIT_SIZE);
	return packed;
}

uint16
sf_read_key_id(struct varlena *datum)
{
	SfUnfilled	unfilled;

	if (sf_read_unfilled(PointerGetDatum(datum), &unfilled))
		return 0;
	switch (sf_read_form(datum))
	{
		case SF_FORM_STORED:
			return sf_object_locator(datum).key_id;
		case SF_FORM_SEALED:
			return look_at(datum).key_id;
		default:
			return 0;
	}
}

SfUnit
sf_read_packed_unit(struct varlena *datum)
{
	return look_at(datum).unit;
}

SfHome
sf_read_home(struct varlena *datum)
{
	SF_ASSERT(sf_read_is_homed(datum));
	return look_at(datum).home;
}

int64
sfi_read_packed_length(struct varlena *datum)
{
	return look_at(datum).plain_bytes;
}

/* What a decoder says that has not decoded a value, with that dictionary, becomes an ERROR. */
static void
require_decoded(const SfPacked *packed, uint32 dictionary, SfDecoded result)
{
	if (result == SF_DECODE_NOT_GENUINE)
		report_damaged("An encrypted value in a row cannot be authenticated.");
	if (result == SF_DECODE_NO_DICTIONARY)
		sfi_read_report_no_dictionary(dictionary);
	if (result == SF_DECODE_DAMAGED)
		report_damaged("A compressed value in a row cannot be decoded.");
	if (result != SF_DECODED)
		sfi_read_refuse_decoding(result, packed->unit.flags);
}

/* Decrypt a SEALED value: into dst if that is all, else into memory that is palloc'd. */
static char *
open_value(struct varlena *datum, const SfPacked *packed, char *dst)
{
	char	   *encoded = sf_transform_is_raw(&packed->unit) ? dst
		: palloc(packed->unit.stored_bytes);

	SF_FAULT(decrypt);
	require_decoded(packed, 0,
					sf_transform_open_value(sf_keys_of_home(&packed->home, packed->key_id),
											packed_bytes(datum),
											(SfRoom) {encoded, packed->unit.stored_bytes}));
	return encoded;
}

/* Decode all of a value into dst. */
static void
decode(struct varlena *datum, char *dst)
{
	const SfPacked packed = look_at(datum);
	const char *stored = (const char *) packed_bytes(datum) + packed.header;
	char	   *opened = NULL;
	uint32		number;

	if (packed.key_id != 0)
		stored = opened = open_value(datum, &packed, dst);
	if (opened == dst)
		return;
	SF_FAULT(decode);
	number = sf_transform_dictionary_of(&packed.unit, stored);
	require_decoded(&packed, number,
					sf_transform_decode(&packed.unit, sf_space_dictionary(&packed.home, number),
										stored, dst, packed.plain_bytes));
	if (opened == NULL)
		return;
	sodium_memzero(opened, packed.unit.stored_bytes);
	pfree(opened);
}

struct varlena *
sf_read_unpacked(struct varlena *datum)
{
	struct varlena *value;
	char	   *data;

	if (sf_read_form(datum) != SF_FORM_PACKED && !sf_read_is_homed(datum))
		return datum;
	value = sf_read_new_inline(sfi_read_packed_length(datum), &data);
	decode(datum, data);
	SF_ASSERT(sf_read_form(value) == SF_FORM_INLINE);
	return value;
}

void
sfi_read_packed(struct varlena *datum, int64 offset, int64 len, char *dst)
{
	int64		length = sfi_read_packed_length(datum);
	char	   *plain = len == length ? dst : palloc(length);

	SF_ASSERT(offset >= 0 && len > 0 && offset + len <= length);
	decode(datum, plain);
	if (plain == dst)
		return;
	memcpy(dst, plain + offset, len);
	pfree(plain);
}
