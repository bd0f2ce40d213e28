/*-------------------------------------------------------------------------
 *
 * deferred.c
 *	  Deferred values: those of rows that may turn out not to be written.
 *
 * A trigger before the row cannot know what becomes of it: a CHECK constraint, a policy or
 * a conflict may reject the row.  So the trigger gives the row a datum that stands for the
 * value, and the value is placed when the server makes the tuple that it writes, which is
 * after all of these have been asked.
 *
 *	 datum in the row		the expanded object			the value
 *	 indirect pointer ----> given ------------------->	as the trigger got it, in memory
 *							placed (NULL at first) -->	as it is in the tuple that is written
 *
 * An expanded object by itself would not do: it is flattened, and so placed, by any code
 * that forms a tuple in memory.  The toaster, which prepares a tuple for the heap, replaces
 * every indirect pointer by what it points to, and flattens that.
 *
 * So does all other code that detoasts the datum.  That is correct: it places the value
 * early, and only once.  What reads securefile values asks for the given one instead
 * (sf_object_given()), so that a constraint that looks at the value places nothing.
 *
 * The datum is good as long as the memory context that it was made in: that of the row; or that
 * of the query, where something keeps rows until the query ends.  The given value goes with the row
 * in any case, which is announced (sf_object_forget_given()).  So where the datum is kept,
 * the given one is not shown any more once the value is placed.
 *
 *-------------------------------------------------------------------------
 */
#include "base/base.h"

#include "access/detoast.h"
#include "object/object_internal.h"
#include "utils/datum.h"
#include "utils/expandeddatum.h"

typedef struct SfDeferred
{
	ExpandedObjectHeader header;
	MemoryContext context;		/* of this */
	MemoryContext row;
	Datum		given;			/* 0: forgotten */
	struct varlena *placed;		/* flat and not short; NULL: not yet */
	SfPlace		place;
	void	   *arg;
} SfDeferred;

/* Place the value, unless that was done. */
static Size
deferred_size(ExpandedObjectHeader *header)
{
	SfDeferred *deferred = (SfDeferred *) header;
	MemoryContext caller;
	struct varlena *flat;

	if (deferred->placed == NULL)
	{
		if (deferred->given == (Datum) 0)
			elog(ERROR, "securefile value has outlived its row, which was not written");
		caller = MemoryContextSwitchTo(deferred->row);
		flat = PG_DETOAST_DATUM(deferred->place(deferred->given, deferred->arg));
		MemoryContextSwitchTo(deferred->context);
		deferred->placed = deferred->context == deferred->row ? flat
			: (struct varlena *) DatumGetPointer(datumCopy(PointerGetDatum(flat), false, -1));
		MemoryContextSwitchTo(caller);
	}
	SF_ASSERT(!VARATT_IS_EXTENDED(deferred->placed));
	return VARSIZE(deferred->placed);
}

static void
deferred_flatten(ExpandedObjectHeader *header, void *result, Size size)
{
	SfDeferred *deferred = (SfDeferred *) header;

	SF_ASSERT(deferred->placed != NULL && VARSIZE(deferred->placed) == size);
	memcpy(result, deferred->placed, size);
}

static const ExpandedObjectMethods deferred_methods = {deferred_size, deferred_flatten};

/* The object that a datum leads to, if that is a deferred value; else NULL. */
static SfDeferred *
deferred_of(Datum datum)
{
	struct varatt_indirect redirect;
	ExpandedObjectHeader *header;

	if (!VARATT_IS_EXTERNAL_INDIRECT(DatumGetPointer(datum)))
		return NULL;
	VARATT_EXTERNAL_GET_POINTER(redirect, (struct varlena *) DatumGetPointer(datum));
	if (!VARATT_IS_EXTERNAL_EXPANDED(redirect.pointer))
		return NULL;
	header = DatumGetEOHP(PointerGetDatum(redirect.pointer));
	return header->eoh_methods == &deferred_methods ? (SfDeferred *) header : NULL;
}

Datum
sf_object_defer(Datum given, SfPlace place, void *arg, MemoryContext context)
{
	SfDeferred *deferred = MemoryContextAllocZero(context, sizeof(SfDeferred));
	struct varlena *datum = palloc(INDIRECT_POINTER_SIZE);
	struct varatt_indirect redirect;

	SF_ASSERT(given != (Datum) 0 && sf_object_given(given) == given);
	EOH_init_header(&deferred->header, &deferred_methods, context);
	deferred->context = context;
	deferred->row = CurrentMemoryContext;
	deferred->given = given;
	deferred->place = place;
	deferred->arg = arg;
	redirect.pointer = (struct varlena *) DatumGetPointer(EOHPGetRODatum(&deferred->header));
	SET_VARTAG_EXTERNAL(datum, VARTAG_INDIRECT);
	memcpy(VARDATA_EXTERNAL(datum), &redirect, sizeof(redirect));
	return PointerGetDatum(datum);
}

Datum
sf_object_given(Datum datum)
{
	SfDeferred *deferred = deferred_of(datum);

	if (deferred == NULL)
		return datum;
	/* what is made of it may outlive the row */
	if (deferred->placed != NULL && deferred->context != deferred->row)
		return PointerGetDatum(deferred->placed);
	return deferred->given != (Datum) 0 ? deferred->given : datum;
}

Datum
sf_object_placed(Datum datum)
{
	SfDeferred *deferred = deferred_of(datum);

	if (deferred == NULL)
		return datum;
	(void) deferred_size(&deferred->header);
	return PointerGetDatum(deferred->placed);
}

void
sf_object_forget_given(Datum datum)
{
	SfDeferred *deferred = deferred_of(datum);

	SF_ASSERT(deferred != NULL);
	deferred->given = (Datum) 0;
}
