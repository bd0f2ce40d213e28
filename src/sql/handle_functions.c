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
PG_FUNCTION_INFO_V1(securefile_finish);
PG_FUNCTION_INFO_V1(securefile_close);

/* The open handle of that number, unless the stream is to stop. */
static SfHandle *
handle_to_use(int number)
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
	SfHandle   *handle = handle_to_use(PG_GETARG_INT32(0));
	int64		len = PG_GETARG_INT32(1);
	int64		left = Max(sf_stream_length(handle->stream) - handle->position, 0);
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
	SfHandle   *handle = handle_to_use(PG_GETARG_INT32(0));

	handle->position = seek_position(handle, PG_GETARG_INT64(1), PG_GETARG_INT32(2));
	PG_RETURN_INT64(handle->position);
}

Datum
securefile_tell(PG_FUNCTION_ARGS)
{
	PG_RETURN_INT64(handle_to_use(PG_GETARG_INT32(0))->position);
}

/* ---- writing ---- */

/* A handle that is open for writing. */
static SfHandle *
handle_to_write(int number)
{
	SfHandle   *handle = handle_to_use(number);

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
	SfHandle   *handle = handle_to_write(PG_GETARG_INT32(0));
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
	SfHandle   *handle = handle_to_write(PG_GETARG_INT32(0));

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

/* ---- ends ---- */

Datum
securefile_finish(PG_FUNCTION_ARGS)
{
	struct varlena *value = sf_stream_handle_finished(PG_GETARG_INT32(0));
	SfHandle   *handle;

	if (value != NULL)
		PG_RETURN_POINTER(value);
	handle = handle_to_use(PG_GETARG_INT32(0));
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
