/*-------------------------------------------------------------------------
 *
 * contents.c
 *	  The bytes of a value: a bytea, a securefile, a large object.
 *
 * Large objects are read and written through the functions that SQL has for them, in pieces
 * of 1 MB.  These ask for the rights of the current user, and they close what an error leaves
 * open.
 *
 *-------------------------------------------------------------------------
 */
#include "base/base.h"

#include "access/genam.h"
#include "access/htup_details.h"
#include "access/table.h"
#include "catalog/pg_largeobject.h"
#include "catalog/pg_largeobject_metadata.h"
#include "ddl/ddl.h"
#include "fmgr.h"
#include "libpq/be-fsstubs.h"
#include "libpq/libpq-fs.h"
#include "migrate/migrate_internal.h"
#include "miscadmin.h"
#include "object/object.h"
#include "read/read.h"
#include "storage/large_object.h"
#include "stream/stream.h"
#include "transform/transform.h"
#include "utils/acl.h"
#include "utils/fmgroids.h"
#include "utils/fmgrprotos.h"
#include "utils/lsyscache.h"
#include "utils/snapmgr.h"

#define PIECE_BYTES		(1024 * 1024)

struct SfContents
{
	SfContentKind kind;
	int64		length;
	SfStream   *stream;			/* of a securefile */
	struct varlena *bytes;		/* of a bytea */
	int32		handle;			/* of a large object, at the position: */
	int64		position;
};

/* ---- reading ---- */

/* The length of an open large object, which is at its begin then. */
static int64
object_length(int32 handle)
{
	Datum		length = DirectFunctionCall3(be_lo_lseek64, Int32GetDatum(handle), Int64GetDatum(0),
											 Int32GetDatum(SEEK_END));

	DirectFunctionCall3(be_lo_lseek64, Int32GetDatum(handle), Int64GetDatum(0),
						Int32GetDatum(SEEK_SET));
	return DatumGetInt64(length);
}

SfContents *
sfi_contents_open(SfContentKind kind, Datum value)
{
	SfContents *contents = palloc0(sizeof(*contents));

	SF_ASSERT(kind != SF_CONTENT_OTHER);
	contents->kind = kind;
	switch (kind)
	{
		case SF_CONTENT_SECUREFILE:
			contents->stream = sf_stream_open(PG_DETOAST_DATUM_PACKED(sf_object_given(value)));
			contents->length = sf_stream_length(contents->stream);
			break;
		case SF_CONTENT_OBJECT:
			contents->handle = DatumGetInt32(DirectFunctionCall2(be_lo_open, value,
																 Int32GetDatum(INV_READ)));
			contents->length = object_length(contents->handle);
			break;
		default:
			contents->bytes = PG_DETOAST_DATUM_PACKED(value);
			contents->length = VARSIZE_ANY_EXHDR(contents->bytes);
			break;
	}
	return contents;
}

int64
sfi_contents_length(const SfContents *contents)
{
	return contents->length;
}

void
sfi_contents_close(SfContents *contents)
{
	if (contents->kind == SF_CONTENT_OBJECT)
		DirectFunctionCall1(be_lo_close, Int32GetDatum(contents->handle));
	pfree(contents);
}

/* A large object that became shorter meanwhile is an error of the caller's check, not of this. */
static void
read_object(SfContents *contents, int64 len, char *dst)
{
	bytea	   *piece = DatumGetByteaPP(DirectFunctionCall2(be_loread,
															Int32GetDatum(contents->handle),
															Int32GetDatum((int32) len)));

	if (VARSIZE_ANY_EXHDR(piece) != (Size) len)
		ereport(ERROR,
				(errcode(ERRCODE_T_R_SERIALIZATION_FAILURE),
				 errmsg("a large object became shorter while it was read")));
	memcpy(dst, VARDATA_ANY(piece), len);
	pfree(piece);
}

/* The next bytes of a value. */
static void
read_next(SfContents *contents, int64 len, char *dst)
{
	SF_ASSERT(len > 0 && contents->position + len <= contents->length);
	CHECK_FOR_INTERRUPTS();
	if (contents->kind == SF_CONTENT_SECUREFILE)
		sf_stream_read(contents->stream, contents->position, len, dst);
	else if (contents->kind == SF_CONTENT_OBJECT)
		read_object(contents, len, dst);
	else
		memcpy(dst, VARDATA_ANY(contents->bytes) + contents->position, len);
	contents->position += len;
}

/* Pass all bytes on, in pieces. */
static void
each_piece(SfContents *contents, void (*take) (void *arg, const char *bytes, int64 len), void *arg)
{
	char	   *piece = palloc(PIECE_BYTES);

	while (contents->position < contents->length)
	{
		int64		len = Min(PIECE_BYTES, contents->length - contents->position);

		read_next(contents, len, piece);
		take(arg, piece, len);
	}
	pfree(piece);
}

/* ---- digest ---- */

static void
hash_piece(void *arg, const char *bytes, int64 len)
{
	sf_transform_hash_update(arg, bytes, len);
}

int64
sfi_contents_digest(SfContentKind kind, Datum value, uint8 *digest)
{
	int64		length;
	SfContents *contents = sfi_contents_open(kind, value);
	SfSha256	hash;
	SfContentHash result;

	sf_transform_hash_begin(&hash);
	each_piece(contents, hash_piece, &hash);
	sf_transform_hash_finish(&hash, &result);
	StaticAssertStmt(sizeof(result.digest) == 32, "SHA-256 has 32 bytes");
	memcpy(digest, result.digest, sizeof(result.digest));
	length = contents->length;
	sfi_contents_close(contents);
	return length;
}

/* ---- making ---- */

/* A securefile in the making. */
typedef struct Growing
{
	SfStream   *stream;
	int64		length;
} Growing;

static void
grow_securefile(void *arg, const char *bytes, int64 len)
{
	Growing    *growing = arg;

	sf_stream_require_room(growing->stream, growing->length, len);
	sf_stream_write(growing->stream, growing->length, bytes, len);
	growing->length += len;
}

/* A value that is read whole anyway is stored as one; another one goes through a stream. */
static Datum
to_securefile(SfContents *contents, Relation rel, AttrNumber attnum)
{
	const char *column = NameStr(TupleDescAttr(RelationGetDescr(rel), attnum - 1)->attname);
	Growing		growing = {0};
	SfValue		value;
	char	   *data;
	struct varlena *whole;

	if (contents->kind == SF_CONTENT_BYTEA)
	{
		whole = sf_read_new_inline(contents->length, &data);
		memcpy(data, VARDATA_ANY(contents->bytes), contents->length);
		return PointerGetDatum(whole);
	}
	growing.stream = sf_stream_create(sf_ddl_column_to_write(RelationGetRelid(rel), column));
	each_piece(contents, grow_securefile, &growing);
	value = sf_stream_finish(growing.stream);
	return PointerGetDatum(value.datum);
}

static void
write_object(void *arg, const char *bytes, int64 len)
{
	bytea	   *piece = palloc(len + VARHDRSZ);

	SET_VARSIZE(piece, len + VARHDRSZ);
	memcpy(VARDATA(piece), bytes, len);
	DirectFunctionCall2(be_lowrite, Int32GetDatum(*(int32 *) arg), PointerGetDatum(piece));
	pfree(piece);
}

static Datum
to_object(SfContents *contents)
{
	Datum		object = DirectFunctionCall1(be_lo_create, ObjectIdGetDatum(InvalidOid));
	int32		handle = DatumGetInt32(DirectFunctionCall2(be_lo_open, object,
														   Int32GetDatum(INV_WRITE)));

	each_piece(contents, write_object, &handle);
	DirectFunctionCall1(be_lo_close, Int32GetDatum(handle));
	return object;
}

Datum
sfi_contents_convert(SfContentKind from, Datum value, SfContentKind to, Relation rel,
					 AttrNumber attnum, int64 *length)
{
	SfContents *contents = sfi_contents_open(from, value);
	Datum		result;

	SF_ASSERT(from != to);
	*length = contents->length;
	if (to == SF_CONTENT_SECUREFILE)
		result = to_securefile(contents, rel, attnum);
	else if (to == SF_CONTENT_OBJECT)
		result = to_object(contents);
	else
		result = PointerGetDatum(sf_read_bytea(PG_DETOAST_DATUM_PACKED(sf_object_given(value))));
	sfi_contents_close(contents);
	return result;
}

/* ---- large objects ---- */

bool
sfi_contents_exists(Oid object)
{
	return LargeObjectExists(object);
}

Oid
sfi_contents_owner(Oid object)
{
	Relation	rel = table_open(LargeObjectMetadataRelationId, AccessShareLock);
	Oid			owner = InvalidOid;
	ScanKeyData key;
	SysScanDesc scan;
	HeapTuple	tuple;

	ScanKeyInit(&key, Anum_pg_largeobject_metadata_oid, BTEqualStrategyNumber, F_OIDEQ,
				ObjectIdGetDatum(object));
	scan = systable_beginscan(rel, LargeObjectMetadataOidIndexId, true, GetActiveSnapshot(), 1,
							  &key);
	tuple = systable_getnext(scan);
	if (HeapTupleIsValid(tuple))
		owner = ((Form_pg_largeobject_metadata) GETSTRUCT(tuple))->lomowner;
	systable_endscan(scan);
	table_close(rel, AccessShareLock);
	return owner;
}

bool
sfi_contents_readable(Oid object, Oid role)
{
	return lo_compat_privileges ||
		pg_largeobject_aclcheck_snapshot(object, role, ACL_SELECT,
										 GetActiveSnapshot()) == ACLCHECK_OK;
}

bool
sfi_contents_removable(Oid owner, Oid role)
{
	return lo_compat_privileges || has_privs_of_role(role, owner);
}

void
sfi_contents_unlink(Oid object)
{
	DirectFunctionCall1(be_lo_unlink, ObjectIdGetDatum(object));
}
