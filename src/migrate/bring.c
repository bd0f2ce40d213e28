/*-------------------------------------------------------------------------
 *
 * bring.c
 *	  What a pass does with a row: bring its value over, compare both sides, give back what is
 *	  of no more use.
 *
 * A row that somebody else has locked, or has changed since the batch began, is passed over;
 * the next pass finds it again.  So nothing is overwritten with what a row had before.
 *
 *-------------------------------------------------------------------------
 */
#include "base/base.h"

#include "ddl/ddl.h"
#include "migrate/migrate_internal.h"
#include "utils/builtins.h"
#include "utils/hsearch.h"

/* Both values of a row. */
typedef struct Pair
{
	NullableDatum from;
	NullableDatum to;
} Pair;

static Pair
values_of(const SfPass *pass, TupleTableSlot *slot)
{
	Pair		pair;

	pair.from.value = slot_getattr(slot, pass->from, &pair.from.isnull);
	pair.to.value = slot_getattr(slot, pass->to, &pair.to.isnull);
	return pair;
}

/* Is the old value there?  One that is the number of a large object need not be. */
static bool
is_there(const SfPass *pass, const Pair *pair)
{
	return pass->m->from != SF_CONTENT_OBJECT ||
		sfi_contents_exists(DatumGetObjectId(pair->from.value));
}

/*
 * Does a row that is locked name a large object that is not there?  ERROR unless the caller takes
 * that.  A row that is not locked may have another object by now, and a program that gave it that
 * one has removed the first one.
 */
static bool
is_missing(const SfPass *pass, const Pair *pair)
{
	if (is_there(pass, pair))
		return false;
	if (!pass->m->options.missing_null)
		ereport(ERROR,
				(errcode(ERRCODE_UNDEFINED_OBJECT),
				 errmsg("large object %u does not exist", DatumGetObjectId(pair->from.value)),
				 errdetail("A row of table %s has its number in column \"%s\".", pass->m->table,
						   pass->m->column),
				 errhint("With missing => 'null' such rows get NULL.")));
	return true;
}

/* Give a row that is locked the bytes of its old value; what it had from an earlier time goes. */
static void
bring_value(SfPass *pass, TupleTableSlot *slot, const Pair *pair)
{
	NullableDatum made = {0, false};
	int64		length;

	if (!pair->to.isnull && pass->m->to == SF_CONTENT_OBJECT &&
		sfi_contents_exists(DatumGetObjectId(pair->to.value)))
		sfi_contents_unlink(DatumGetObjectId(pair->to.value));
	made.value = sfi_contents_convert(pass->m->from, pair->from.value, pass->m->to, pass->rel,
									  pass->to, &length);
	SF_FAULT(migrate_row);
	sf_ddl_carrier_put(pass->carrier, slot, made);
	pass->rows++;
	pass->bytes += length;
}

bool
sfi_bring_row(SfPass *pass, TupleTableSlot *slot)
{
	Pair		pair = values_of(pass, slot);

	if (pair.from.isnull || !pair.to.isnull)
		return true;
	if (!sf_ddl_carrier_lock(pass->carrier, slot))
		return false;
	if (!is_missing(pass, &pair))
		bring_value(pass, slot, &pair);
	return true;
}

static bool
is_equal(SfPass *pass, const Pair *pair)
{
	uint8		from[32];
	uint8		to[32];

	if (pair->to.isnull)
		return pair->from.isnull;
	if (pair->from.isnull)
		return false;
	if (pass->m->to == SF_CONTENT_OBJECT && !sfi_contents_exists(DatumGetObjectId(pair->to.value)))
		return false;
	pass->compared_bytes += sfi_contents_digest(pass->m->from, pair->from.value, from);
	(void) sfi_contents_digest(pass->m->to, pair->to.value, to);
	return memcmp(from, to, sizeof(from)) == 0;
}

bool
sfi_bring_compare(SfPass *pass, TupleTableSlot *slot)
{
	Pair		pair = values_of(pass, slot);

	SF_FAULT(migrate_compare);
	if (pair.from.isnull || (is_there(pass, &pair) && is_equal(pass, &pair)))
		return true;
	if (!sf_ddl_carrier_lock(pass->carrier, slot))
		return false;

	/*
	 * one that was removed since it was brought over keeps its bytes with
	 * missing => 'null'
	 */
	if (!is_missing(pass, &pair))
		bring_value(pass, slot, &pair);
	return true;
}

/* ---- large objects that are of no more use ---- */

/*
 * An object that several rows name is removed with the first of them that has its bytes.  One
 * whose bytes are not those of the row stays: either the row was changed since, or the object was.
 * A row that was updated since comes again, and its object counts once.
 */
bool
sfi_bring_unlink_old(SfPass *pass, TupleTableSlot *slot)
{
	Pair		pair = values_of(pass, slot);
	Oid			object;

	if (pair.from.isnull)
		return true;
	object = DatumGetObjectId(pair.from.value);
	if (!sfi_contents_exists(object))
		return true;
	if (!is_equal(pass, &pair))
	{
		(void) hash_search(pass->m->kept, &object, HASH_ENTER, NULL);
		return true;
	}
	SF_FAULT(migrate_unlink);
	sfi_contents_unlink(object);
	(void) hash_search(pass->m->kept, &object, HASH_REMOVE, NULL);
	pass->m->removed++;
	pass->rows++;
	return true;
}

bool
sfi_bring_unlink_new(SfPass *pass, TupleTableSlot *slot)
{
	Pair		pair = values_of(pass, slot);

	if (pair.to.isnull || !sfi_contents_exists(DatumGetObjectId(pair.to.value)))
		return true;
	/* while a writer has the row, the trigger may remove it, too */
	if (!sf_ddl_carrier_lock(pass->carrier, slot))
		return false;
	sfi_contents_unlink(DatumGetObjectId(pair.to.value));
	pass->rows++;
	return true;
}
