/*-------------------------------------------------------------------------
 *
 * packed.c
 *	  PACKED and TRAINED values: small ones that are compressed in the row.
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

/* A compressed value, looked at. */
typedef struct Packed
{
	SfUnit		unit;
	uint32		plain_bytes;
	const char *stored;
	SfHome		home;			/* of its dictionary; incarnation 0: it has
								 * none */
} Packed;

/* Look at the fixed part of a PACKED or a TRAINED value. */
static Packed
look_at(struct varlena *datum)
{
	const uint8 *bytes = packed_bytes(datum);
	Size		len = VARSIZE_ANY_EXHDR(datum);
	bool		trained = sf_read_form(datum) == SF_FORM_TRAINED;
	Packed		packed = {.home = {0}};
	const char *problem = trained
	? sf_format_trained_decode(bytes, len, &packed.unit, &packed.plain_bytes, &packed.home)
	: sf_format_packed_decode(bytes, len, &packed.unit, &packed.plain_bytes);

	if (problem != NULL)
		report_damaged(psprintf("The %s.", problem));
	packed.stored = (const char *) bytes + (trained ? SF_TRAINED_HEADER : SF_PACKED_HEADER);
	SF_ASSERT(!sf_transform_is_raw(&packed.unit));
	SF_ASSERT(packed.plain_bytes > 0 && packed.plain_bytes <= SF_UNIT_SIZE);
	return packed;
}

SfUnit
sf_read_packed_unit(struct varlena *datum)
{
	return look_at(datum).unit;
}

SfHome
sf_read_home(struct varlena *datum)
{
	SF_ASSERT(sf_read_form(datum) == SF_FORM_TRAINED);
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
	return packed->home.incarnation == 0 ? NULL
		: sf_space_dictionary_of(&packed->home,
								 sf_transform_dictionary_of(&packed->unit, packed->stored));
}

/* Decode all of a value into dst. */
static void
decode(struct varlena *datum, char *dst)
{
	Packed		packed = look_at(datum);
	SfDecoded	result;

	SF_FAULT(decode);
	result = sf_transform_decode(&packed.unit, dictionary_of(&packed), packed.stored, dst,
								 packed.plain_bytes);
	if (result == SF_DECODE_DAMAGED || result == SF_DECODE_NO_DICTIONARY)
		report_damaged("A compressed value in a row cannot be decoded.");
	if (result != SF_DECODED)
		sfi_read_refuse_decoding(result, packed.unit.flags);
}

struct varlena *
sf_read_unpacked(struct varlena *datum)
{
	struct varlena *value;
	char	   *data;

	uint8		form = sf_read_form(datum);

	if (form != SF_FORM_PACKED && form != SF_FORM_TRAINED)
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
