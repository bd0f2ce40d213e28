/*-------------------------------------------------------------------------
 *
 * form.c
 *	  The form of a datum: its first byte, which says how the rest is to be read.
 *
 *-------------------------------------------------------------------------
 */
#include "base/base.h"

#include "read/read_internal.h"
#include "utils/memutils.h"

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
		ereport(ERROR,
				(errcode(ERRCODE_DATA_CORRUPTED),
				 errmsg("invalid securefile value"),
				 errdetail("The value has the unknown form %d.", form)));
	return form;
}

SfValue
sf_read_look(struct varlena *datum)
{
	SfValue		value = {datum, sf_read_form(datum)};

	if (value.form == SF_FORM_STORED)
		value.loc = sf_object_locator(datum);
	return value;
}

/* The first byte, whatever it is; 0 if there is none. */
static uint8
peek(struct varlena *datum)
{
	return VARSIZE_ANY_EXHDR(datum) >= 1 ? *(uint8 *) VARDATA_ANY(datum) : 0;
}

/* For callers that have a short way for such values, and leave errors to the long one. */
bool
sf_read_is_in_row(struct varlena *datum)
{
	uint8		form = peek(datum);

	return form == SF_FORM_INLINE || form == SF_FORM_PACKED;
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
