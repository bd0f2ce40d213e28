/*-------------------------------------------------------------------------
 *
 * content.c
 *	  Looking at parts of any value.
 *
 *-------------------------------------------------------------------------
 */
#include "sql/content.h"

#include <sodium.h>

#include "access/detoast.h"
#include "access/toast_compression.h"
#include "fmgr.h"
#include "format/format.h"
#include "object/object.h"
#include "read/read.h"
#include "utils/memutils.h"

/* The form, read from the first bytes, which an UNFILLED value has all in, without the rest. */
static uint8
peek_form(Datum value)
{
	struct varlena *head = PG_DETOAST_DATUM_SLICE(value, 0, SF_UNFILLED_HASHED_SIZE);
	uint8		form = sf_read_form(head);

	pfree(head);
	return form;
}

/* Take a datum as INLINE, as it is given. */
static void
take_inline(SfValue *look, Datum value)
{
	look->datum = (struct varlena *) DatumGetPointer(value);
	look->form = SF_FORM_INLINE;
}

void
sfi_sql_open(Datum value, SfSqlContent *content)
{
	value = sf_object_given(value);
	if (peek_form(value) == SF_FORM_INLINE)
	{
		take_inline(&content->value, value);
		content->inline_start = 1;	/* behind the form */
		content->length = (int64) toast_raw_datum_size(value) - SF_INLINE_OVERHEAD;
	}
	else
	{
		sf_read_look(PG_DETOAST_DATUM_PACKED(value), &content->value);
		content->inline_start = 0;
		content->length = sf_read_value_length(&content->value);
	}
	SF_ASSERT(content->length >= 0);
}

void
sfi_sql_open_bytea(Datum value, SfSqlContent *content)
{
	take_inline(&content->value, value);
	content->inline_start = 0;
	content->length = (int64) toast_raw_datum_size(value) - VARHDRSZ;
	SF_ASSERT(content->length >= 0);
}

void
sfi_sql_unpack(SfSqlContent *content)
{
	if (sfi_sql_is_inline(content) &&
		toast_get_compression_id(content->value.datum) != TOAST_INVALID_COMPRESSION_ID)
		content->value.datum = PG_DETOAST_DATUM_PACKED(PointerGetDatum(content->value.datum));
}

bool
sfi_sql_is_same(const SfSqlContent *a, const SfSqlContent *b)
{
	return !sfi_sql_is_inline(a) && !sfi_sql_is_inline(b) &&
		sf_object_same(a->value.datum, b->value.datum);
}

void
sfi_sql_require_position(const char *name, int64 position, int sqlstate)
{
	if (position < 1)
		ereport(ERROR,
				(errcode(sqlstate),
				 errmsg("%s must be at least 1, not %lld", name, (long long) position),
				 errdetail("The first byte of a value has position 1.")));
}

bytea *
sfi_sql_new_bytea(int64 len)
{
	bytea	   *result;

	SF_ASSERT(len >= 0);
	if (len > (int64) (MaxAllocSize - VARHDRSZ))
		ereport(ERROR,
				(errcode(ERRCODE_PROGRAM_LIMIT_EXCEEDED),
				 errmsg("%lld bytes are too many for a value of type bytea", (long long) len),
				 errhint("Read the value in parts, with substring() or securefile_chunks().")));
	result = palloc(VARHDRSZ + len);
	SET_VARSIZE(result, VARHDRSZ + len);
	return result;
}

/* A part of an INLINE value as a bytea. */
static bytea *
inline_slice(const SfSqlContent *content, int64 object_offset, int64 len)
{
	/* the server counts the bytes of a datum in 31 bits */
	SF_ASSERT(object_offset + len <= PG_INT32_MAX - content->inline_start);
	return (bytea *) PG_DETOAST_DATUM_SLICE(PointerGetDatum(content->value.datum),
											content->inline_start + (int32) object_offset,
											(int32) len);
}

bytea *
sfi_sql_slice(SfSqlContent *content, int64 object_offset, int64 len)
{
	bytea	   *result;

	SF_ASSERT(object_offset >= 0 && len >= 0 && object_offset + len <= content->length);

	if (sfi_sql_is_inline(content))
		return inline_slice(content, object_offset, len);
	result = sfi_sql_new_bytea(len);
	sf_read_value_range(&content->value, object_offset, len, VARDATA(result));
	return result;
}

void
sfi_sql_free_slice(const SfSqlContent *content, bytea *slice)
{
	if (!sfi_sql_is_inline(content))
		sodium_memzero(VARDATA(slice), VARSIZE(slice) - VARHDRSZ);
	pfree(slice);
}
