/*-------------------------------------------------------------------------
 *
 * form.c
 *	  The form of a datum: its first byte, which says how the rest is to be read.
 *
 * An UNFILLED value has no bytes to read.  sf_read_form() refuses it, and all ways to the bytes of
 * a value go by that function, so that nobody takes such a row for a good one.
 *
 *-------------------------------------------------------------------------
 */
#include "base/base.h"

#include "read/read_internal.h"
#include "utils/memutils.h"

/* The first byte, whatever it is; 0 if there is none. */
static uint8
peek(struct varlena *datum)
{
	return VARSIZE_ANY_EXHDR(datum) >= 1 ? *(uint8 *) VARDATA_ANY(datum) : 0;
}

/* ---- UNFILLED values ---- */

bool
sf_read_unfilled(Datum value, SfUnfilled *unfilled)
{
	struct varlena *datum = sf_base_detoast_short(value, SF_UNFILLED_HASHED_SIZE);
	const char *problem;

	if (datum == NULL || peek(datum) != SF_FORM_UNFILLED)
		return false;
	problem = sf_format_unfilled_decode((const uint8 *) VARDATA_ANY(datum),
										VARSIZE_ANY_EXHDR(datum), unfilled);
	if (problem != NULL)
		ereport(ERROR,
				(errcode(ERRCODE_DATA_CORRUPTED),
				 errmsg("invalid securefile value"),
				 errdetail_internal("The %s.", problem)));
	SF_ASSERT(unfilled->length_bytes > 0);
	return true;
}

struct varlena *
sf_read_new_unfilled(const SfUnfilled *unfilled)
{
	struct varlena *value = palloc(VARHDRSZ + SF_UNFILLED_HASHED_SIZE);

	SF_ASSERT(unfilled->length_bytes > 0 && unfilled->length_bytes <= PG_INT64_MAX);
	SET_VARSIZE(value, VARHDRSZ + sf_format_unfilled_encode((uint8 *) VARDATA(value), unfilled));
	return value;
}

/* ERROR that the bytes of a value are not there; returns when it is not UNFILLED. */
static void
refuse_unfilled(struct varlena *datum)
{
	SfUnfilled	unfilled;

	if (sf_read_unfilled(PointerGetDatum(datum), &unfilled))
		ereport(ERROR,
				(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
				 errmsg("securefile value of " UINT64_FORMAT " bytes was not restored",
						unfilled.length_bytes),
				 errdetail("The row comes from a dump that has a marker in the place of the value (securefile.dump_oversize)."),
				 errhint("Run \"securefile restore\", or store the value again. pg_dump passes the marker on with PGOPTIONS=\"-c securefile.dump_oversize=marker\".")));
}

/* ---- all forms ---- */

/* A value may come from a damaged row: an ERROR here, before anything relies on it. */
uint8
sf_read_form(struct varlena *datum)
{
	uint8		form;

	if (VARSIZE_ANY_EXHDR(datum) < 1)
		ereport(ERROR,
				(errcode(ERRCODE_DATA_CORRUPTED),
				 errmsg("invalid securefile value"),
				 errdetail("The value has no form byte.")));
	form = *(uint8 *) VARDATA_ANY(datum);
	if (form != SF_FORM_INLINE && form != SF_FORM_STORED && form != SF_FORM_EDITED &&
		form != SF_FORM_PACKED && form != SF_FORM_TRAINED && form != SF_FORM_SEALED)
	{
		refuse_unfilled(datum);
		ereport(ERROR,
				(errcode(ERRCODE_DATA_CORRUPTED),
				 errmsg("invalid securefile value"),
				 errdetail("The value has the unknown form %d.", form)));
	}
	return form;
}

void
sf_read_look(struct varlena *datum, SfValue *value)
{
	value->datum = datum;
	value->form = sf_read_form(datum);
	if (value->form == SF_FORM_STORED)
		sf_object_require_locator(datum, &value->loc);
}

/* For callers that have a short way for such values, and leave errors to the long one. */
bool
sf_read_is_in_row(struct varlena *datum)
{
	uint8		form = peek(datum);

	return form == SF_FORM_INLINE || form == SF_FORM_PACKED || form == SF_FORM_UNFILLED;
}

bool
sf_read_is_homed(struct varlena *datum)
{
	uint8		form = peek(datum);

	return form == SF_FORM_TRAINED || form == SF_FORM_SEALED;
}

/*
 * The limit is checked before memory is asked for, so that the error names the value's
 * limit and not palloc's.
 */
struct varlena *
sf_read_new_inline(Size len, char **data)
{
	struct varlena *value;

	if (len > SF_INLINE_MAX)
		ereport(ERROR,
				(errcode(ERRCODE_PROGRAM_LIMIT_EXCEEDED),
				 errmsg("value of %zu bytes is too large for type securefile", len),
				 errdetail("A value that is passed as a whole can have at most %zu bytes.",
						   (Size) SF_INLINE_MAX)));
	/* before palloc: then malloc keeps this memory when it is freed */
	if (len >= SF_IO_LARGE)
		sf_io_use_memory();
	value = palloc(SF_INLINE_OVERHEAD + len);
	SET_VARSIZE(value, SF_INLINE_OVERHEAD + len);
	VARDATA(value)[0] = SF_FORM_INLINE;
	*data = VARDATA(value) + 1;
	return value;
}
