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

/* ERROR: the value is damaged. */
SF_NORETURN static void
report_damaged(const char *problem)
{
	ereport(ERROR,
			(errcode(ERRCODE_DATA_CORRUPTED),
			 errmsg("invalid securefile value"),
			 errdetail_internal("%s", problem)));
}

/* A value, looked at. */
typedef struct Packed
{
	SfUnit		unit;
	uint32		plain_bytes;
	const char *stored;			/* of a SEALED one not yet known */
	SfHome		home;			/* of its dictionary or key; incarnation 0: it
								 * has none */
	uint16		key_id;			/* of a SEALED one, else 0 */
} Packed;

/* The fixed part of a SEALED value. */
static const char *
sealed_problem(const uint8 *bytes, Size len, Packed *packed)
{
	SfSealed	sealed = {{0}};
	const char *problem = sf_format_sealed_decode(bytes, len, &sealed);

	*packed = (Packed) {sealed.unit, sealed.plain_bytes, NULL, sealed.home, sealed.key_id};
	return problem;
}

/* Look at the fixed part of a value. */
static Packed
look_at(struct varlena *datum)
{
	const uint8 *bytes = packed_bytes(datum);
	Size		len = VARSIZE_ANY_EXHDR(datum);
	uint8		form = sf_read_form(datum);
	Packed		packed = {.home = {0}};
	const char *problem;

	if (form == SF_FORM_SEALED)
		problem = sealed_problem(bytes, len, &packed);
	else if (form == SF_FORM_TRAINED)
		problem = sf_format_trained_decode(bytes, len, &packed.unit, &packed.plain_bytes,
										   &packed.home);
	else
		problem = sf_format_packed_decode(bytes, len, &packed.unit, &packed.plain_bytes);
	if (problem != NULL)
		report_damaged(psprintf("The %s.", problem));
	if (form != SF_FORM_SEALED)
		packed.stored = (const char *) bytes +
			(form == SF_FORM_TRAINED ? SF_TRAINED_HEADER : SF_PACKED_HEADER);
	SF_ASSERT(!sf_transform_is_raw(&packed.unit) || form == SF_FORM_SEALED);
	SF_ASSERT(packed.plain_bytes > 0 && packed.plain_bytes <= SF_UNIT_SIZE);
	return packed;
}

uint16
sf_read_key_id(struct varlena *datum)
{
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

/* The dictionary of a value, or NULL. */
static SfDictionary *
dictionary_of(const Packed *packed)
{
	uint32		number = sf_transform_dictionary_of(&packed->unit, packed->stored);

	return number == 0 ? NULL : sf_space_dictionary(&packed->home, number);
}

/* What a decoder says that has not decoded a value becomes an ERROR. */
static void
require_decoded(const Packed *packed, SfDecoded result)
{
	if (result == SF_DECODE_NOT_GENUINE)
		report_damaged("An encrypted value in a row cannot be authenticated.");
	if (result == SF_DECODE_NO_DICTIONARY)
		sfi_read_report_no_dictionary(sf_transform_dictionary_of(&packed->unit, packed->stored));
	if (result == SF_DECODE_DAMAGED)
		report_damaged("A compressed value in a row cannot be decoded.");
	if (result != SF_DECODED)
		sfi_read_refuse_decoding(result, packed->unit.flags);
}

/* Decrypt a SEALED value: into dst if that is all, else into memory that is palloc'd. */
static char *
open_value(struct varlena *datum, const Packed *packed, char *dst)
{
	const SfSealed sealed = {packed->home, packed->key_id, packed->plain_bytes, packed->unit};
	char	   *encoded = sf_transform_is_raw(&packed->unit) ? dst
		: palloc(packed->unit.stored_bytes);

	SF_FAULT(decrypt);
	require_decoded(packed,
					sf_transform_open_value(sf_keys_of_home(&packed->home, packed->key_id),
											&sealed, packed_bytes(datum), encoded));
	return encoded;
}

/* Decode all of a value into dst. */
static void
decode(struct varlena *datum, char *dst)
{
	Packed		packed = look_at(datum);
	char	   *opened = NULL;

	if (packed.key_id != 0)
		packed.stored = opened = open_value(datum, &packed, dst);
	if (opened == dst)
		return;
	SF_FAULT(decode);
	require_decoded(&packed,
					sf_transform_decode(&packed.unit, dictionary_of(&packed), packed.stored, dst,
										packed.plain_bytes));
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
