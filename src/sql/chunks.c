/*-------------------------------------------------------------------------
 *
 * chunks.c
 *	  securefile_chunks(): a value as a stream of rows.
 *
 * One row a call: in a SELECT list nothing is collected, so that a value of any
 * length goes to the client in the memory of one piece, and the reader fetches
 * the next ones while a piece is sent.
 *
 * A piece of a STORED value is returned as an expanded object that has no bytes yet:
 * they are read when somebody wants them, straight to where he wants them.  Pieces
 * that nobody looks at are not read.  Who looks at the same piece twice would have
 * it read twice; after the first time, pieces are returned as they are.
 *
 *-------------------------------------------------------------------------
 */
#include "base/base.h"

#include "fmgr.h"
#include "funcapi.h"
#include "read/read.h"
#include "sql/content.h"
#include "sql/sql.h"
#include "utils/expandeddatum.h"
#include "utils/memutils.h"

PG_FUNCTION_INFO_V1(securefile_chunks);

#define MAX_CHUNK_SIZE	((int32) (MaxAllocSize - VARHDRSZ))

typedef struct ChunkScan
{
	SfSqlContent content;
	SfReader   *reader;			/* NULL: INLINE */
	int64		next;			/* object_offset of the next piece */
	int64		end;
	int32		chunk_size;
	bool		eager;			/* pieces are looked at more than once */
} ChunkScan;

typedef struct Piece
{
	ExpandedObjectHeader header;
	ChunkScan  *scan;
	int64		object_offset;
	Size		len;
	bool		taken;
} Piece;

static void
check_arguments(int64 start, bool has_count, int64 count, int32 chunk_size)
{
	if (start < 1)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("start must be at least 1, not %lld", (long long) start),
				 errdetail("The first byte of a value has position 1.")));
	if (has_count && count < 0)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("count must not be negative, but is %lld", (long long) count)));
	if (chunk_size < 1 || chunk_size > MAX_CHUNK_SIZE)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("chunk_size must be between 1 and %d bytes, not %d",
						MAX_CHUNK_SIZE, chunk_size)));
}

/* Make the scan; the memory is that of all its calls. */
static ChunkScan *
begin_scan(FunctionCallInfo fcinfo)
{
	ChunkScan  *scan = palloc0(sizeof(ChunkScan));
	int64		start = PG_GETARG_INT64(1);
	int64		count = PG_ARGISNULL(2) ? PG_INT64_MAX : PG_GETARG_INT64(2);

	scan->chunk_size = PG_GETARG_INT32(3);
	check_arguments(start, !PG_ARGISNULL(2), count, scan->chunk_size);
	sf_sql_send_large();
	scan->content = sfi_sql_open(PG_GETARG_DATUM(0));
	sfi_sql_unpack(&scan->content);
	scan->next = Min(start - 1, scan->content.length);
	scan->end = scan->next + Min(count, scan->content.length - scan->next);
	if (!scan->content.is_inline)
	{
		scan->reader = sf_read_begin(scan->content.value);
		sf_read_stop_at(scan->reader, scan->end);
	}
	return scan;
}

/* ---- pieces that are not read yet ---- */

static Size
piece_size(ExpandedObjectHeader *header)
{
	return VARHDRSZ + ((Piece *) header)->len;
}

static void
piece_read(ExpandedObjectHeader *header, void *result, Size size)
{
	Piece	   *piece = (Piece *) header;

	SF_ASSERT(size == piece_size(header));
	if (piece->taken)
		piece->scan->eager = true;
	piece->taken = true;
	SET_VARSIZE(result, size);
	sf_read_at(piece->scan->reader, piece->object_offset, piece->len, VARDATA(result));
}

/*
 * Read-only, hence it never outlives the memory of this call, nor this memory the
 * scan's.
 */
static Datum
new_piece(ChunkScan *scan, Size len)
{
	static const ExpandedObjectMethods methods = {piece_size, piece_read};
	Piece	   *piece = palloc(sizeof(Piece));

	EOH_init_header(&piece->header, &methods, CurrentMemoryContext);
	piece->scan = scan;
	piece->object_offset = scan->next;
	piece->len = len;
	piece->taken = false;
	return EOHPGetRODatum(&piece->header);
}

/* The next piece, in the memory of this call. */
static Datum
next_piece(ChunkScan *scan)
{
	int64		len = Min(scan->end - scan->next, scan->chunk_size);
	Datum		piece;

	if (scan->reader == NULL)
		piece = PointerGetDatum(sfi_sql_slice(&scan->content, scan->next, len));
	else
		piece = new_piece(scan, len);
	if (scan->eager)
		piece = PointerGetDatum(PG_DETOAST_DATUM(piece));
	scan->next += len;
	return piece;
}

/* Only count may be NULL: to the end. */
static bool
wants_nothing(FunctionCallInfo fcinfo)
{
	return PG_ARGISNULL(0) || PG_ARGISNULL(1) || PG_ARGISNULL(3);
}

Datum
securefile_chunks(PG_FUNCTION_ARGS)
{
	FuncCallContext *funcctx;
	ChunkScan  *scan;

	if (SRF_IS_FIRSTCALL())
	{
		MemoryContext old;

		funcctx = SRF_FIRSTCALL_INIT();
		old = MemoryContextSwitchTo(funcctx->multi_call_memory_ctx);
		if (!wants_nothing(fcinfo))
			funcctx->user_fctx = begin_scan(fcinfo);
		MemoryContextSwitchTo(old);
	}
	funcctx = SRF_PERCALL_SETUP();
	scan = funcctx->user_fctx;
	if (scan == NULL || scan->next >= scan->end)
		SRF_RETURN_DONE(funcctx);
	SRF_RETURN_NEXT(funcctx, next_piece(scan));
}
