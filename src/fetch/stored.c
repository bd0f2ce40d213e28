/*-------------------------------------------------------------------------
 *
 * stored.c
 *	  What the data files of a column have at a place, as it is stored: for a server that
 *	  fetches data which its own files lack.
 *
 *-------------------------------------------------------------------------
 */
#include "base/base.h"

#include "fetch/fetch_internal.h"
#include "fmgr.h"

PG_FUNCTION_INFO_V1(securefile_stored_bytes);

/* Whole blocks around the longest unit. */
#define MOST_BYTES		(TYPEALIGN(SF_BLOCK_SIZE, SF_UNIT_STORED_MAX) + SF_BLOCK_SIZE)

/* A unit lies on one map page, and so in one file. */
static void
require_unit_place(int64 offset, int32 length)
{
	if (offset < 0 || offset % SF_SECTOR_SIZE != 0 || length < 1 || length > SF_UNIT_STORED_MAX ||
		offset / SF_FILE_SIZE != (offset + length - 1) / SF_FILE_SIZE)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("offset and length are not those of a unit")));
}

/* The segment of a column; ERROR when it is not the same as the asking server's. */
static SfSegment *
open_same(Oid table_oid, AttrNumber attnum, uint64 incarnation)
{
	SfSegment  *seg = sf_space_open(table_oid, attnum, AccessShareLock, true);

	if (seg == NULL || seg->incarnation != incarnation)
		ereport(ERROR,
				(errcode(ERRCODE_UNDEFINED_OBJECT),
				 errmsg("column %d of table %u has other storage on this server, or none",
						attnum, table_oid),
				 errdetail("Data can be fetched only from a server of the same origin, whose column was not truncated or rewritten since.")));
	return seg;
}

/* Direct: the page cache may be behind the disk. */
static void
read_place(SfSegment *seg, uint64 offset, uint32 length, char *dst)
{
	static char *buffer = NULL;
	uint64		first = TYPEALIGN_DOWN(SF_BLOCK_SIZE, offset);
	uint64		end = TYPEALIGN(SF_BLOCK_SIZE, offset + length);

	if (buffer == NULL)
		buffer = sf_io_buffer_alloc(MOST_BYTES);
	SF_ASSERT(end - first <= MOST_BYTES);
	sfi_fetch_transfer(sf_io_open(seg->storage, false), false, first, buffer, end - first);
	memcpy(dst, buffer + (offset - first), length);
}

/*
 * securefile_stored_bytes(table_oid oid, attnum smallint, incarnation bigint, "offset" bigint,
 *						   length integer) returns bytea
 *
 * Null where the files end before that.
 */
Datum
securefile_stored_bytes(PG_FUNCTION_ARGS)
{
	int64		offset = PG_GETARG_INT64(3);
	int32		length = PG_GETARG_INT32(4);
	SfSegment  *seg;
	bytea	   *result;

	sf_base_require_preload();
	require_unit_place(offset, length);
	seg = open_same(PG_GETARG_OID(0), PG_GETARG_INT16(1), (uint64) PG_GETARG_INT64(2));
	if (sf_io_files_size(seg->storage) < TYPEALIGN(SF_BLOCK_SIZE, offset + length))
		PG_RETURN_NULL();
	result = palloc(VARHDRSZ + length);
	SET_VARSIZE(result, VARHDRSZ + length);
	read_place(seg, offset, length, VARDATA(result));
	sf_space_release(seg);
	PG_RETURN_BYTEA_P(result);
}
