/*-------------------------------------------------------------------------
 *
 * handle_functions.c
 *	  Handles: values in pieces from SQL, as lo_open() and its like do it for
 *	  large objects.
 *
 *-------------------------------------------------------------------------
 */
#include "base/base.h"

#include <unistd.h>

#include "common/int.h"
#include "ddl/ddl.h"
#include "fmgr.h"
#include "miscadmin.h"
#include "nodes/parsenodes.h"
#include "sql/content.h"
#include "sql/sql.h"
#include "stream/stream.h"
#include "utils/builtins.h"
#include "utils/lsyscache.h"
#include "utils/memutils.h"

PG_FUNCTION_INFO_V1(securefile_create);
PG_FUNCTION_INFO_V1(securefile_open);
PG_FUNCTION_INFO_V1(securefile_read);
PG_FUNCTION_INFO_V1(securefile_write);
PG_FUNCTION_INFO_V1(securefile_seek);
PG_FUNCTION_INFO_V1(securefile_tell);
PG_FUNCTION_INFO_V1(securefile_truncate_handle);
PG_FUNCTION_INFO_V1(securefile_erase_handle);
PG_FUNCTION_INFO_V1(securefile_insert_handle);
PG_FUNCTION_INFO_V1(securefile_delete_handle);
PG_FUNCTION_INFO_V1(securefile_copy);
PG_FUNCTION_INFO_V1(securefile_copy_value);
PG_FUNCTION_INFO_V1(securefile_finish);
PG_FUNCTION_INFO_V1(securefile_close);

SfHandle *
sfi_sql_handle_to_use(int number)
{
	SfHandle   *handle;

	sf_stream_cancel_report();
	handle = sf_stream_handle_get(number);
	SF_ASSERT(handle->stream != NULL && handle->position >= 0);
	return handle;
}

Datum
securefile_create(PG_FUNCTION_ARGS)
{
	SfSegment  *seg;
	SfHandle   *handle;
	MemoryContext old;

	sf_base_require_writes("securefile_create()");
	sf_base_require_preload();
	seg = sf_ddl_column_to_write(PG_GETARG_OID(0), NameStr(*PG_GETARG_NAME(1)));
	handle = sf_stream_handle_new();
	old = MemoryContextSwitchTo(handle->context);
	handle->stream = sf_stream_create(seg);
	MemoryContextSwitchTo(old);
	PG_RETURN_INT32(handle->number);
}

void
sfi_sql_require_count(int64 count)
{
	if (count < 0)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("number of bytes cannot be negative")));
}

/* ---- open ---- */

/* 'r': false; 'rw': true. */
static bool
parse_mode(const char *mode)
{
	if (strcmp(mode, "rw") == 0)
		return true;
	if (strcmp(mode, "r") != 0)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("invalid mode \"%s\" for securefile_open()", mode),
				 errhint("Valid modes are \"r\" and \"rw\".")));
	return false;
}

/*
 * A new version takes space in the column that the value lies in.  Of one that
 * was dropped nobody has privileges; that its values are gone is said later.
 */
static void
require_update(struct varlena *value)
{
	SfLocator	loc;

	if (sf_read_form(value) != SF_FORM_STORED)
		return;
	loc = sf_object_locator(value);
	/* a column that was dropped has no type */
	if (OidIsValid(get_atttype(loc.table_oid, loc.attnum)))
		sf_ddl_require_privilege(loc.table_oid, loc.attnum, ACL_UPDATE);
}

Datum
securefile_open(PG_FUNCTION_ARGS)
{
	struct varlena *value = PG_DETOAST_DATUM_PACKED(sf_object_given(PG_GETARG_DATUM(0)));
	bool		write = parse_mode(text_to_cstring(PG_GETARG_TEXT_PP(1)));
	SfHandle   *handle;
	MemoryContext old;

	if (write)
	{
		sf_base_require_writes("securefile_open() for writing");
		sf_base_require_preload();
		require_update(value);
	}
	handle = sf_stream_handle_new();
	old = MemoryContextSwitchTo(handle->context);
	handle->stream = write ? sf_stream_edit(value) : sf_stream_open(value);
	MemoryContextSwitchTo(old);
	PG_RETURN_INT32(handle->number);
}

/* ---- reading and moving ---- */

Datum
securefile_read(PG_FUNCTION_ARGS)
{
	SfHandle   *handle = sfi_sql_handle_to_use(PG_GETARG_INT32(0));
	int64		len = PG_GETARG_INT32(1);
	int64		left = Max(sf_stream_length(handle->stream) - handle->position, 0);
	SfValue		place;
	bytea	   *bytes;

	if (len < 0)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("requested length cannot be negative")));
	if (len > (int64) (MaxAllocSize - VARHDRSZ))
		ereport(ERROR,
				(errcode(ERRCODE_PROGRAM_LIMIT_EXCEEDED),
				 errmsg("requested length %lld is too large", (long long) len),
				 errdetail("At most %lld bytes can be read at once.",
						   (long long) (MaxAllocSize - VARHDRSZ))));
	len = Min(len, left);
	sf_sql_send_large();
	bytes = sfi_sql_new_bytea(len);
	sf_stream_read(handle->stream, handle->position, len, VARDATA(bytes));
	place = sf_stream_place(handle->stream);
	sfi_sql_count(&place, handle->position, len, SF_SQL_RETURNED);
	handle->position += len;
	PG_RETURN_BYTEA_P(bytes);
}

/* What a position is relative to; ERROR when the sum is none. */
static int64
seek_position(const SfHandle *handle, int64 offset, int whence)
{
	int64		base = 0;
	int64		position;

	if (whence == SEEK_CUR)
		base = handle->position;
	else if (whence == SEEK_END)
		base = sf_stream_length(handle->stream);
	else if (whence != SEEK_SET)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("invalid whence %d for securefile_seek()", whence),
				 errhint("Use 0 (from the start), 1 (from the present position) or 2 (from the end).")));
	if (pg_add_s64_overflow(base, offset, &position) || position < 0)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("securefile_seek() to an invalid position"),
				 errdetail("Offset %lld from position %lld is outside 0 to %lld.",
						   (long long) offset, (long long) base, (long long) PG_INT64_MAX)));
	return position;
}

Datum
securefile_seek(PG_FUNCTION_ARGS)
{
	SfHandle   *handle = sfi_sql_handle_to_use(PG_GETARG_INT32(0));

	handle->position = seek_position(handle, PG_GETARG_INT64(1), PG_GETARG_INT32(2));
	PG_RETURN_INT64(handle->position);
}

Datum
securefile_tell(PG_FUNCTION_ARGS)
{
	PG_RETURN_INT64(sfi_sql_handle_to_use(PG_GETARG_INT32(0))->position);
}

/* ---- writing ---- */

SfHandle *
sfi_sql_handle_to_write(int number)
{
	SfHandle   *handle = sfi_sql_handle_to_use(number);

	if (!sf_stream_is_writable(handle->stream))
		ereport(ERROR,
				(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
				 errmsg("securefile handle %d was not opened for writing", number),
				 errhint("Open the value with mode \"rw\".")));
	sf_base_require_writes("writing to a securefile handle");
	return handle;
}

Datum
securefile_write(PG_FUNCTION_ARGS)
{
	SfHandle   *handle = sfi_sql_handle_to_write(PG_GETARG_INT32(0));
	bytea	   *bytes = PG_GETARG_BYTEA_PP(1);
	int			len = VARSIZE_ANY_EXHDR(bytes);

	if (len == 0)
		PG_RETURN_INT32(0);
	sf_stream_require_room(handle->stream, handle->position, len);
	sf_stream_handle_note_write(handle);
	sf_stream_write(handle->stream, handle->position, VARDATA_ANY(bytes), len);
	handle->position += len;
	PG_RETURN_INT32(len);
}

Datum
securefile_truncate_handle(PG_FUNCTION_ARGS)
{
	SfHandle   *handle = sfi_sql_handle_to_write(PG_GETARG_INT32(0));

	if (PG_GETARG_INT64(1) < 0)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("length of a securefile value cannot be negative")));
	if (PG_GETARG_INT64(1) == sf_stream_length(handle->stream))
		PG_RETURN_INT32(0);
	sf_stream_require_room(handle->stream, 0, PG_GETARG_INT64(1));
	sf_stream_handle_note_write(handle);
	sf_stream_truncate(handle->stream, PG_GETARG_INT64(1));
	PG_RETURN_INT32(0);
}

/* ---- ranges (Oracle: DBMS_LOB.ERASE, COPY) ---- */

/* So many bytes, as far as there are any behind the position. */
static int64
bytes_left(const SfHandle *handle, int64 count)
{
	return Min(count, Max(sf_stream_length(handle->stream) - handle->position, 0));
}

Datum
securefile_erase_handle(PG_FUNCTION_ARGS)
{
	SfHandle   *handle = sfi_sql_handle_to_write(PG_GETARG_INT32(0));
	int64		len = PG_GETARG_INT64(1);

	sfi_sql_require_count(len);
	len = bytes_left(handle, len);
	if (len == 0)
		PG_RETURN_INT64(0);
	sf_stream_handle_note_write(handle);
	sf_stream_zero(handle->stream, handle->position, len);
	PG_RETURN_INT64(len);
}

/* ---- fragments (Oracle: DBMS_LOB.FRAGMENT_INSERT, FRAGMENT_DELETE) ---- */

/* Behind the end it is a write, with a gap between. */
Datum
securefile_insert_handle(PG_FUNCTION_ARGS)
{
	SfHandle   *handle = sfi_sql_handle_to_write(PG_GETARG_INT32(0));
	bytea	   *bytes = PG_GETARG_BYTEA_PP(1);
	int			len = VARSIZE_ANY_EXHDR(bytes);

	if (len == 0)
		PG_RETURN_INT32(0);
	sf_stream_require_room(handle->stream,
						   Max(handle->position, sf_stream_length(handle->stream)), len);
	sf_stream_handle_note_write(handle);
	sf_stream_insert(handle->stream, handle->position, VARDATA_ANY(bytes), len);
	handle->position += len;
	PG_RETURN_INT32(len);
}

Datum
securefile_delete_handle(PG_FUNCTION_ARGS)
{
	SfHandle   *handle = sfi_sql_handle_to_write(PG_GETARG_INT32(0));
	int64		len = PG_GETARG_INT64(1);

	sfi_sql_require_count(len);
	len = bytes_left(handle, len);
	if (len == 0)
		PG_RETURN_INT64(0);
	sf_stream_handle_note_write(handle);
	sf_stream_delete(handle->stream, handle->position, len);
	PG_RETURN_INT64(len);
}

/*
 * The positions move when all is copied: an ERROR leaves them where they were.
 */
Datum
securefile_copy(PG_FUNCTION_ARGS)
{
	SfHandle   *target;
	SfHandle   *source;
	int64		len = PG_ARGISNULL(2) ? PG_INT64_MAX : PG_GETARG_INT64(2);

	if (PG_ARGISNULL(0) || PG_ARGISNULL(1))
		PG_RETURN_NULL();
	target = sfi_sql_handle_to_write(PG_GETARG_INT32(0));
	source = sfi_sql_handle_to_use(PG_GETARG_INT32(1));
	sfi_sql_require_count(len);
	if (target == source)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("securefile handle %d cannot be copied to itself", target->number),
				 errhint("Open the value a second time, with mode \"r\".")));
	len = bytes_left(source, len);
	if (len == 0)
		PG_RETURN_INT64(0);
	sf_stream_require_room(target->stream, target->position, len);
	sf_stream_handle_note_write(target);
	sf_stream_copy(target->stream, target->position, source->stream, source->position, len);
	target->position += len;
	source->position += len;
	PG_RETURN_INT64(len);
}

/* ---- ranges of values ---- */

/* Bytes of an INLINE value, which may lie in TOAST, and is as long as 1 GB: in parts. */
static void
copy_inline(SfHandle *target, SfSqlContent *content, int64 start, int64 len)
{
	SF_ASSERT(start >= 0 && len > 0 && start + len <= content->length);
	sfi_sql_unpack(content);
	for (int64 done = 0; done < len; done += SF_UNIT_SIZE)
	{
		int64		n = Min(SF_UNIT_SIZE, len - done);
		bytea	   *part = sfi_sql_slice(content, start + done, n);

		CHECK_FOR_INTERRUPTS();
		sf_stream_write(target->stream, target->position + done, VARDATA_ANY(part), n);
		pfree(part);
	}
}

/* Copy a range of a value to the position of a handle; returns how many bytes there were. */
static int64
copy_document(SfHandle *target, Datum document, int64 start, int64 count)
{
	SfRope	   *rope = sf_object_rope_of(document);
	SfSqlContent content = {.length = 0};
	int64		length;
	int64		len;

	if (rope == NULL)
		sfi_sql_open(document, &content);
	length = rope == NULL ? content.length : (int64) sf_object_rope_length(rope);
	len = Min(count, Max(length - start, 0));
	if (len == 0)
		return 0;
	sf_stream_require_room(target->stream, target->position, len);
	sf_stream_handle_note_write(target);
	if (rope != NULL)
		sf_stream_copy_value(target->stream, target->position,
							 sf_object_rope_part(rope, start, start + len), 0, len);
	else if (sfi_sql_is_inline(&content))
		copy_inline(target, &content, start, len);
	else
		sf_stream_copy_value(target->stream, target->position, content.value.datum, start, len);
	return len;
}

Datum
securefile_copy_value(PG_FUNCTION_ARGS)
{
	SfHandle   *target;
	int64		count = PG_ARGISNULL(3) ? PG_INT64_MAX : PG_GETARG_INT64(3);
	int64		len;

	if (PG_ARGISNULL(0) || PG_ARGISNULL(1) || PG_ARGISNULL(2))
		PG_RETURN_NULL();
	target = sfi_sql_handle_to_write(PG_GETARG_INT32(0));
	if (PG_GETARG_INT64(2) < 1 || count < 0)
		ereport(ERROR,
				(errcode(ERRCODE_SUBSTRING_ERROR),
				 count < 0 ? errmsg("number of bytes cannot be negative")
				 : errmsg("position of the first byte must be at least 1")));
	len = copy_document(target, PG_GETARG_DATUM(1), PG_GETARG_INT64(2) - 1, count);
	target->position += len;
	PG_RETURN_INT64(len);
}

/* ---- ends ---- */

Datum
securefile_finish(PG_FUNCTION_ARGS)
{
	struct varlena *value = sf_stream_handle_finished(PG_GETARG_INT32(0));
	SfHandle   *handle;

	if (value != NULL)
		PG_RETURN_POINTER(value);
	handle = sfi_sql_handle_to_use(PG_GETARG_INT32(0));
	/* what is written now goes with this subtransaction */
	if (sf_stream_is_writable(handle->stream))
		sf_stream_handle_note_write(handle);
	PG_RETURN_POINTER(sf_stream_handle_finish(handle));
}

Datum
securefile_close(PG_FUNCTION_ARGS)
{
	sf_stream_handle_close(sf_stream_handle_get(PG_GETARG_INT32(0)));
	PG_RETURN_INT32(0);
}
