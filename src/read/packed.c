/*-------------------------------------------------------------------------
 *
 * packed.c
 *	  PACKED values: small ones that are compressed in the row.
 *
 * Such a value has at most the bytes of a unit, so it is decoded as a whole, whatever
 * part of it is wanted.  Functions that need more than one part of it take its INLINE
 * form (sf_read_unpacked()).
 *
 *-------------------------------------------------------------------------
 */
#include "base/base.h"

#include "read/read_internal.h"

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

/* Look at the fixed part of a PACKED value. */
static SfUnit
look_at(struct varlena *datum, uint32 *plain_bytes)
{
	SfUnit		unit;
	const char *problem = sf_format_packed_decode(packed_bytes(datum), VARSIZE_ANY_EXHDR(datum),
												  &unit, plain_bytes);

	if (problem != NULL)
		report_damaged(psprintf("The %s.", problem));
	SF_ASSERT(!sf_transform_is_raw(&unit) && *plain_bytes > 0 && *plain_bytes <= SF_UNIT_SIZE);
	return unit;
}

SfUnit
sf_read_packed_unit(struct varlena *datum)
{
	uint32		plain_bytes;

	return look_at(datum, &plain_bytes);
}

int64
sfi_read_packed_length(struct varlena *datum)
{
	uint32		plain_bytes;

	(void) look_at(datum, &plain_bytes);
	return plain_bytes;
}

/* Decode all of a value into dst. */
static void
decode(struct varlena *datum, char *dst)
{
	uint32		plain_bytes;
	SfUnit		unit = look_at(datum, &plain_bytes);
	SfDecoded	result;

	SF_FAULT(decode);
	result = sf_transform_decode(&unit, (const char *) packed_bytes(datum) + SF_PACKED_HEADER,
								 dst, plain_bytes);
	if (result == SF_DECODE_DAMAGED)
		report_damaged("A compressed value in a row cannot be decoded.");
	if (result != SF_DECODED)
		sfi_read_refuse_decoding(result, unit.flags);
}

struct varlena *
sf_read_unpacked(struct varlena *datum)
{
	struct varlena *value;
	char	   *data;

	if (sf_read_form(datum) != SF_FORM_PACKED)
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
