/*-------------------------------------------------------------------------
 *
 * value.c
 *	  Values: their forms, their lengths, their bytes.
 *
 *-------------------------------------------------------------------------
 */
#include "base/base.h"

#include "read/read_internal.h"
#include "utils/memutils.h"

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
	if (form != SF_FORM_INLINE && form != SF_FORM_STORED)
		ereport(ERROR,
				(errcode(ERRCODE_DATA_CORRUPTED),
				 errmsg("invalid securefile value"),
				 errdetail("The value has the unknown form %d.", form)));
	return form;
}

bool
sf_read_is_inline(struct varlena *datum)
{
	return VARSIZE_ANY_EXHDR(datum) >= 1 &&
		*(uint8 *) VARDATA_ANY(datum) == SF_FORM_INLINE;
}

int64
sf_read_length(struct varlena *datum)
{
	if (sf_read_form(datum) == SF_FORM_INLINE)
		return VARSIZE_ANY_EXHDR(datum) - 1;
	return sf_object_locator(datum).length_bytes;
}

/*
 * The segment stays locked for the time of the read only, as a TOAST table
 * does: the row, not the lock, keeps the value.
 */
static void
read_units(const SfLocator *loc, SfReadTarget *target)
{
	SfSegment  *seg = sf_space_open_incarnation(loc->table_oid, loc->attnum, loc->incarnation);
	SfReadJob	job;

	sf_object_require_genuine(seg, loc);
	sf_read_prepare_job(&job, seg, loc, target);
	sf_read_units(&job);
	sf_space_release(seg);
}

void
sf_read_range(struct varlena *datum, int64 object_offset, int64 len, char *dst)
{
	SfLocator	loc;
	SfReadTarget target = {.dst = dst,.offset = object_offset,.len = len};

	if (len == 0)
		return;
	if (sf_read_form(datum) == SF_FORM_INLINE)
	{
		Assert(object_offset >= 0 && object_offset + len <= VARSIZE_ANY_EXHDR(datum) - 1);
		memcpy(dst, VARDATA_ANY(datum) + 1 + object_offset, len);
		return;
	}
	loc = sf_object_locator(datum);
	Assert(object_offset >= 0 && object_offset + len <= loc.length_bytes);
	read_units(&loc, &target);
}

/* Whole value behind a header of that many bytes (varlena header included). */
static struct varlena *
read_whole(struct varlena *datum, Size header)
{
	int64		len = sf_read_length(datum);
	struct varlena *result;

	if (len > MaxAllocSize - header)
		ereport(ERROR,
				(errcode(ERRCODE_PROGRAM_LIMIT_EXCEEDED),
				 errmsg("securefile value of " INT64_FORMAT " bytes is too long to be returned whole", len),
				 errdetail("A whole value may be at most 1 GB."),
				 errhint("Read it in pieces with substring().")));
	result = palloc(header + len);
	SET_VARSIZE(result, header + len);
	sf_read_range(datum, 0, len, (char *) result + header);
	return result;
}

struct varlena *
sf_read_bytea(struct varlena *datum)
{
	return read_whole(datum, VARHDRSZ);
}

struct varlena *
sf_read_inline(struct varlena *datum)
{
	struct varlena *result = read_whole(datum, VARHDRSZ + 1);

	*VARDATA(result) = SF_FORM_INLINE;
	return result;
}

void
sf_read_verify(struct varlena *datum, SfReadFinding found, void *arg)
{
	SfLocator	loc;
	SfReadTarget target = {.found = found,.arg = arg};

	if (sf_read_form(datum) == SF_FORM_INLINE)
		return;
	loc = sf_object_locator(datum);
	target.len = loc.length_bytes;
	read_units(&loc, &target);
}
