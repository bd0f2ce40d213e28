/*-------------------------------------------------------------------------
 *
 * aggregate.c
 *	  securefile_agg(): the values of many rows, one behind the other.
 *
 * What it returns is what || in a loop would.  The state of a group is a rope (object/rope.c),
 * to which each row adds in place, and a buffer of bytes that are still to be put on it: rows of
 * some bytes each would else be a piece each, and a piece costs more than some bytes do.
 *
 * A rope without values, where all rows were bytes, is made plain bytes in the end.
 *
 *-------------------------------------------------------------------------
 */
#include "base/base.h"

#include "fmgr.h"
#include "lib/stringinfo.h"
#include "sql/compose.h"
#include "utils/memutils.h"

PG_FUNCTION_INFO_V1(securefile_agg_add);
PG_FUNCTION_INFO_V1(securefile_agg_add_bytea);
PG_FUNCTION_INFO_V1(securefile_agg_result);

/* So many bytes are worth a piece of their own. */
#define PIECE_BYTES		(64 * 1024)

typedef struct Joined
{
	MemoryContext context;		/* of the group */
	SfRope	   *rope;			/* NULL: nothing yet */
	StringInfoData buffer;		/* what follows it */
} Joined;

/* The state of a group, made with its first row. */
static Joined *
state_of(FunctionCallInfo fcinfo)
{
	MemoryContext context;
	MemoryContext old;
	Joined	   *joined;

	if (!AggCheckCallContext(fcinfo, &context))
		elog(ERROR, "function of an aggregate was called without its aggregate");
	if (!PG_ARGISNULL(0))
		return (Joined *) PG_GETARG_POINTER(0);
	old = MemoryContextSwitchTo(context);
	joined = palloc0(sizeof(Joined));
	joined->context = context;
	initStringInfo(&joined->buffer);
	MemoryContextSwitchTo(old);
	return joined;
}

/*
 * Put pieces on the rope.  Older results, of a window, share nodes of it: their store is left
 * when most of that is theirs.
 */
static void
join_pieces(Joined *joined, const SfPiece *pieces, int npieces)
{
	if (joined->rope == NULL)
		joined->rope = sf_object_rope_begin(NULL, joined->context);
	sf_object_rope_append_pieces(joined->rope, pieces, npieces);
	sf_object_rope_datum(joined->rope);
}

/* Put the bytes of the buffer on the rope. */
static void
flush(Joined *joined)
{
	SfPiece		piece = {SF_PIECE_BYTES, joined->buffer.len, 0, joined->buffer.data};

	if (joined->buffer.len > 0)
		join_pieces(joined, &piece, 1);
	resetStringInfo(&joined->buffer);
}

static void
join_piece(Joined *joined, const SfPiece *piece)
{
	bool		is_short = piece->kind == SF_PIECE_BYTES && piece->length < PIECE_BYTES;

	if (!is_short || joined->buffer.len + piece->length > PIECE_BYTES)
		flush(joined);
	if (is_short)
		appendBinaryStringInfo(&joined->buffer, piece->bytes, piece->length);
	else
		join_pieces(joined, piece, 1);
}

static void
join_source(Joined *joined, const SfSource *source)
{
	if (source->rope != NULL)
	{
		flush(joined);
		if (joined->rope == NULL)
			joined->rope = sf_object_rope_begin(NULL, joined->context);
		sf_object_rope_append_range(joined->rope, source->rope, 0, source->length);
		sf_object_rope_datum(joined->rope);
	}
	for (int i = 0; i < source->npieces; i++)
		if (source->pieces[i].length > 0)
			join_piece(joined, &source->pieces[i]);
}

/* A row that is NULL adds nothing; where all are, so is the result. */
static Datum
same_state(FunctionCallInfo fcinfo)
{
	if (PG_ARGISNULL(0))
		PG_RETURN_NULL();
	return PG_GETARG_DATUM(0);
}

Datum
securefile_agg_add(PG_FUNCTION_ARGS)
{
	SfSource	source;
	Joined	   *joined;

	if (PG_ARGISNULL(1))
		return same_state(fcinfo);
	joined = state_of(fcinfo);
	source = sfi_compose_source(PG_GETARG_DATUM(1));
	join_source(joined, &source);
	PG_RETURN_POINTER(joined);
}

Datum
securefile_agg_add_bytea(PG_FUNCTION_ARGS)
{
	SfSource	source;
	Joined	   *joined;
	bytea	   *bytes;

	if (PG_ARGISNULL(1))
		return same_state(fcinfo);
	joined = state_of(fcinfo);
	bytes = PG_GETARG_BYTEA_PP(1);
	source = sfi_compose_source_bytes(VARDATA_ANY(bytes), VARSIZE_ANY_EXHDR(bytes));
	join_source(joined, &source);
	PG_RETURN_POINTER(joined);
}

/*
 * The result, in the memory of the row.  A window asks for one after each row, so the group goes
 * on: a buffer that is put on the rope now is the same bytes.
 */
Datum
securefile_agg_result(PG_FUNCTION_ARGS)
{
	Joined	   *joined;
	SfSource	source = {NULL};
	SfComposed	result;

	if (PG_ARGISNULL(0))
		PG_RETURN_NULL();
	joined = state_of(fcinfo);
	if (joined->rope == NULL)
		source = sfi_compose_source_bytes(joined->buffer.data, joined->buffer.len);
	else
	{
		flush(joined);
		source.rope = joined->rope;
	}
	result = sfi_compose_begin(joined->rope, CurrentMemoryContext);
	sfi_compose_add_all(&result, &source);
	return sfi_compose_end(&result);
}
