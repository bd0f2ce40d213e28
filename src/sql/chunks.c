/*-------------------------------------------------------------------------
 *
 * chunks.c
 *	  securefile_chunks(): a value as a stream of rows; securefile_data_chunks() and
 *	  securefile_data_starts(): the same without its holes.
 *
 * One row a call: in a SELECT list nothing is collected, so that a value of any
 * length goes to the client in the memory of one piece, and the reader fetches
 * the next ones while a piece is sent.
 *
 * A piece of a STORED value is returned as an expanded object that has no bytes yet:
 * they are read when a function wants them, straight to where it wants them.  Pieces
 * that no function looks at are not read.  A piece that is looked at twice would be
 * read twice; after the first time, pieces are returned as they are.
 *
 * The pieces between holes, and where they begin, come from two functions, which stand in one
 * SELECT list: a row that has both in one value would have to copy the bytes.  Both go through
 * the map in the same steps, so that their rows belong together.
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
PG_FUNCTION_INFO_V1(securefile_data_chunks);
PG_FUNCTION_INFO_V1(securefile_data_starts);

#define MAX_CHUNK_SIZE	((int32) (MaxAllocSize - VARHDRSZ))

/* so many bytes of the map are looked at together, if pieces are shorter */
#define MAP_BYTES		((int64) 32 * SF_UNIT_SIZE)

/* What the rows are. */
typedef enum Rows
{
	ROWS_CHUNKS,				/* pieces of all bytes */
	ROWS_DATA_CHUNKS,			/* of those that are in no hole */
	ROWS_DATA_STARTS			/* the positions of such pieces */
} Rows;

typedef struct ChunkScan
{
	SfSqlContent content;
	SfReader   *reader;			/* NULL: INLINE, or no bytes are wanted */
	Rows		rows;
	int64		next;			/* object_offset of the next piece, if it is
								 * no hole */
	int64		data_end;		/* up to there it is none */
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
require_arguments(int64 start, bool has_count, int64 count, int32 chunk_size)
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

/* Holes are left out of what lies in a segment; all else counts as data. */
static bool
leaves_holes_out(const ChunkScan *scan)
{
	return scan->rows != ROWS_CHUNKS && scan->content.value.form == SF_FORM_STORED;
}

/* Make the scan; the memory is that of all its calls. */
static ChunkScan *
begin_scan(FunctionCallInfo fcinfo, Rows rows)
{
	ChunkScan  *scan = palloc0(sizeof(ChunkScan));
	int64		start = PG_GETARG_INT64(1);
	int64		count = PG_ARGISNULL(2) ? PG_INT64_MAX : PG_GETARG_INT64(2);

	scan->rows = rows;
	scan->chunk_size = PG_GETARG_INT32(3);
	require_arguments(start, !PG_ARGISNULL(2), count, scan->chunk_size);
	if (rows != ROWS_DATA_STARTS)
		sf_sql_send_large();
	sfi_sql_open(PG_GETARG_DATUM(0), &scan->content);
	sfi_sql_unpack(&scan->content);
	scan->next = Min(start - 1, scan->content.length);
	scan->end = scan->next + Min(count, scan->content.length - scan->next);
	SF_ASSERT(scan->next >= 0 && scan->next <= scan->end && scan->end <= scan->content.length);
	scan->data_end = leaves_holes_out(scan) ? scan->next : scan->end;
	if (!sfi_sql_is_inline(&scan->content) && rows != ROWS_DATA_STARTS)
	{
		scan->reader = sf_read_begin(scan->content.value.datum);
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
	bool		was_taken = piece->taken;

	SF_ASSERT(size == piece_size(header));
	if (was_taken)
		piece->scan->eager = true;
	piece->taken = true;
	SET_VARSIZE(result, size);
	sf_read_at(piece->scan->reader, piece->object_offset, piece->len, VARDATA(result));
	if (!was_taken)
		sfi_sql_count(&piece->scan->content.value, piece->object_offset, piece->len,
					  SF_SQL_RETURNED);
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

	/* piece_read() reads by it, when the row is looked at */
	SF_ASSERT(scan->reader != NULL);
	EOH_init_header(&piece->header, &methods, CurrentMemoryContext);
	piece->scan = scan;
	piece->object_offset = scan->next;
	piece->len = len;
	piece->taken = false;
	return EOHPGetRODatum(&piece->header);
}

/*
 * Go on to the next data; false: there is none.  The map is looked at until it is known where
 * the next piece ends, so that only a hole or the end makes it shorter.
 */
static bool
find_data(ChunkScan *scan)
{
	int64		left = scan->end - scan->next;
	int64		len = Min(left, Max(scan->chunk_size, MAP_BYTES));

	SF_ASSERT(left >= 0 && scan->data_end <= scan->end);
	if (left == 0 || scan->next + Min(left, scan->chunk_size) <= scan->data_end)
		return left > 0;
	if (!sf_read_next_data(&scan->content.value, &scan->next, &len) || scan->next >= scan->end)
	{
		scan->next = scan->data_end = scan->end;
		return false;
	}
	scan->data_end = Min(scan->next + len, scan->end);
	return true;
}

/* The next row, in the memory of this call. */
static Datum
next_row(ChunkScan *scan)
{
	int64		len = Min(scan->data_end - scan->next, scan->chunk_size);
	Datum		piece;

	SF_ASSERT(len > 0);
	if (scan->rows == ROWS_DATA_STARTS)
		piece = Int64GetDatum(scan->next + 1);
	else if (scan->reader == NULL)
		piece = PointerGetDatum(sfi_sql_hand_out(&scan->content, scan->next, len));
	else
		piece = new_piece(scan, len);
	if (scan->eager && scan->rows != ROWS_DATA_STARTS)
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

static Datum
scan_rows(FunctionCallInfo fcinfo, Rows rows)
{
	FuncCallContext *funcctx;
	ChunkScan  *scan;

	if (SRF_IS_FIRSTCALL())
	{
		MemoryContext old;

		funcctx = SRF_FIRSTCALL_INIT();
		old = MemoryContextSwitchTo(funcctx->multi_call_memory_ctx);
		if (!wants_nothing(fcinfo))
			funcctx->user_fctx = begin_scan(fcinfo, rows);
		MemoryContextSwitchTo(old);
	}
	funcctx = SRF_PERCALL_SETUP();
	scan = funcctx->user_fctx;
	if (scan == NULL || !find_data(scan))
		SRF_RETURN_DONE(funcctx);
	SRF_RETURN_NEXT(funcctx, next_row(scan));
}

Datum
securefile_chunks(PG_FUNCTION_ARGS)
{
	return scan_rows(fcinfo, ROWS_CHUNKS);
}

Datum
securefile_data_chunks(PG_FUNCTION_ARGS)
{
	return scan_rows(fcinfo, ROWS_DATA_CHUNKS);
}

Datum
securefile_data_starts(PG_FUNCTION_ARGS)
{
	return scan_rows(fcinfo, ROWS_DATA_STARTS);
}
