/*-------------------------------------------------------------------------
 *
 * owner.c
 *	  Which object is whose: what a transaction placed, confirmed and freed.
 *
 * The BEFORE trigger places the bytes; the AFTER trigger records the notes.  An object is placed
 * when its locator goes into a tuple; the AFTER trigger confirms it when the
 * row is really there; what is never confirmed is given back.  States go
 * back and forth by nest level, so that a savepoint takes back just what came
 * after it.  They are kept in two forms (plain_states.c, object_states.c); what rows have got
 * and lost goes to the ledger (ledger.c) at once.
 *
 *	 state		meaning at commit
 *	 DEAD		never was: its subtransaction aborted, or it was not finished
 *	 DRAFT		whole, from a handle, and never stored
 *	 PLACED		not confirmed: no row has it
 *	 CONFIRMED	a row has it: its space is allocated
 *	 FREED		a row had it and lost it in this same transaction
 *	 LOST		the same, and the row's own AFTER trigger is still to come:
 *				a trigger that fired before it took the value away
 *
 * A version of an object that was made from another one (its base) shares
 * space with it.  So
 *
 * O1	it is placed and confirmed only by an UPDATE of the row that holds its
 *		base, which by that loses it;
 * O2	it allocates what the base does not have, and the base, losing the row
 *		to it, frees what it does not have.
 *
 * Space of a shared object is nobody's row's: a row that loses it loses a reference.  A
 * version of a shared value (BASED) keeps the row's one reference, and owns what the shared
 * object does not have.  So
 *
 *	 a row's value		has a successor				has none
 *	 private			FREE: value - successor		FREE: value
 *	 shared				nothing						REF_DROP
 *	 BASED				FREE: value - successor		FREE: value - shared object, REF_DROP
 *							- shared object
 *
 * A private value that was copied by its root page is as a shared one here: its map is the
 * record's, though its locator does not say so.
 *
 * O2 is asserted where both maps stand in locators.
 *
 * An UPDATE of a column, in the usual case, as this file sees it:
 *
 *	BEFORE trigger		sf_write_value()		the new object is PLACED
 *	(the row is written by the server)
 *	AFTER trigger		sf_write_confirm(new)	PLACED -> CONFIRMED, ALLOC noted
 *						sf_write_free(old)		FREE noted, of what new does not share
 *	commit				sfi_owner_log()			the notes become entries in WAL
 *
 * If the row is not written after all (a condition, an error that is caught), the second
 * step does not come, and the object stays PLACED: no note, no entry; its space was lent
 * only and is lent to somebody else later.
 *
 *-------------------------------------------------------------------------
 */
#include "base/base.h"

#include "space/share_records.h"
#include "utils/lsyscache.h"
#include "write/write_internal.h"

/* An object in either form. */
typedef struct Made
{
	SfObject   *object;			/* NULL: plain */
	SfSegment  *seg;
	SfObjectState state;
} Made;

/*
 * The object of this transaction that a locator names, in either form; false if it has
 * none.
 */
static bool
find_made(const SfLocator *loc, Made *made)
{
	made->object = sfi_objects_find(loc);
	if (made->object != NULL)
	{
		made->seg = made->object->seg;
		SF_ASSERT(made->seg->incarnation == loc->incarnation);
		made->state = made->object->state;
		return true;
	}
	made->state = sfi_plain_state(loc, &made->seg);
	return made->state != SF_OBJECT_DEAD;
}

/* Was the object made from that datum, or from none (old: what its row has)? */
static bool
fits_row(const SfObject *object, struct varlena *old)
{
	return object->base_generation == 0 || (old != NULL && sfi_objects_is_base(object, old)) ||
		SF_BREAKS(o1);
}

/*
 * O1, asked of the locators, and not in the way of fits_row(): the first generation of an
 * object shares space with nothing, and each later one comes into the row that has an
 * earlier one, the one that it was begun from.
 */
static bool
replaces_base(const SfLocator *loc, const SfObject *object, struct varlena *old)
{
	SfLocator	base;

	if (loc->generation == 1 || sf_object_is_reference(loc))
		return true;
	return object != NULL && old != NULL && sf_object_decode(old, &base) == NULL &&
		base.incarnation == loc->incarnation && base.object_id == loc->object_id &&
		base.generation < loc->generation && sf_format_locator_tag(&base) == object->base_tag;
}

/* A draft of this transaction, in the segment's storage; or NULL. */
static SfObject *
find_draft(SfSegment *seg, const SfLocator *loc)
{
	SfObject   *object = sfi_objects_find(loc);

	return object != NULL && object->state == SF_OBJECT_DRAFT &&
		loc->table_oid == seg->table_oid && loc->attnum == seg->attnum &&
		SfStorageEquals(object->seg->storage, seg->storage) ? object : NULL;
}

bool
sf_write_adopt(SfSegment *seg, const SfValue *value, const SfValue *old)
{
	SfObject   *object = find_draft(seg, &value->loc);
	struct varlena *old_datum = old != NULL ? old->datum : NULL;

	if (object == NULL || !fits_row(object, old_datum))
		return false;
	SF_INVARIANT(O1, replaces_base(&value->loc, object, old_datum));

	/*
	 * The tag was compared with that of the object already; this compares it
	 * with the key, which nobody outside the server can have.
	 */
	sf_object_require_tag(object->seg, &value->loc);
	sfi_objects_place(object, &value->loc);
	return true;
}

bool
sf_write_is_draft(SfSegment *seg, const SfValue *value)
{
	SfObject   *object = find_draft(seg, &value->loc);

	return object != NULL && object->base_generation == 0 && value->loc.generation == 1;
}

bool
sf_write_is_version(SfSegment *seg, const SfValue *value)
{
	SfObject   *object = find_draft(seg, &value->loc);

	return object != NULL && object->base_generation != 0;
}

/* ---- notes from the AFTER trigger ---- */

/* Note the runs of an object that is not plain. */
static void
note_runs(const SfObject *object)
{
	if (object->lists != NULL && object->lists->nruns > 0)
		sfi_ledger_add_runs(SF_NOTE_ALLOC, object->seg, object->lists->runs, object->lists->nruns);
	else if (object->run_sectors > 0)
		sfi_ledger_add_runs(SF_NOTE_ALLOC, object->seg,
							&(SfRun) {object->run_start, object->run_sectors}, 1);
}

/*
 * Note that a row has got a reference.  With the first one of this transaction's own object
 * that is allocated, by itself: its references come and go without it.
 */
static void
note_referred(SfSegment *seg, const SfLocator *loc)
{
	SfObject   *shared = sfi_objects_shared(loc);

	sfi_shares_add_row(seg, loc);
	if (shared == NULL || shared->state >= SF_OBJECT_CONFIRMED)
		return;
	note_runs(shared);
	sfi_objects_set_state(shared, SF_OBJECT_CONFIRMED);
}

/*
 * Note the runs of an object that a row has got.  Runs of a plain object are read from
 * its locator, which is a flat map: nothing else is kept of it.
 */
static void
note_allocated(const Made *made, const SfLocator *loc)
{
	SfObject   *object = made->object;
	SfOwned		owned;

	if (sf_object_is_reference(loc))
		note_referred(made->seg, loc);
	else if (object != NULL)
		note_runs(object);
	else
	{
		owned = sf_object_difference(made->seg, loc, NULL, NULL);
		sfi_ledger_add_runs(SF_NOTE_ALLOC, made->seg, owned.runs, owned.nruns);
		pfree(owned.runs);
	}
}

/* A row has the object, or had it, from now on: its space is allocated, once. */
static void
own(Made *made, const SfLocator *loc, SfObjectState state)
{
	SF_ASSERT(made->state != SF_OBJECT_DEAD && state >= SF_OBJECT_CONFIRMED);
	SF_ASSERT(made->seg->attnum == loc->attnum && made->seg->incarnation == loc->incarnation);
	if (made->state < SF_OBJECT_CONFIRMED)
		note_allocated(made, loc);
	if (made->object != NULL)
		sfi_objects_set_state(made->object, state);
	else
		sfi_plain_set(loc, state);
	made->state = state;
}

void
sf_write_confirm(Oid table_oid, AttrNumber attnum, struct varlena *datum, struct varlena *old)
{
	SfLocator	loc;
	const char *problem = sf_object_decode(datum, &loc);
	Made		made;

	sfi_write_require_open();
	if (problem != NULL || !find_made(&loc, &made) ||
		(made.state != SF_OBJECT_PLACED && made.state != SF_OBJECT_LOST) ||
		loc.table_oid != table_oid || loc.attnum != attnum ||
		(made.object != NULL && !fits_row(made.object, old)))
		ereport(ERROR,
				(errcode(ERRCODE_TRIGGERED_DATA_CHANGE_VIOLATION),
				 errmsg("column \"%s\" of table \"%s\" was given a stored securefile value that was not stored for it",
						get_attname(table_oid, attnum, false), get_rel_name(table_oid)),
				 errdetail("A trigger that fires after the extension's own put it there."),
				 errhint("Assign the value as bytea (value::bytea), or in a trigger that fires earlier.")));
	SF_INVARIANT(O1, replaces_base(&loc, made.object, old));
	sf_object_require_tag(made.seg, &loc);
	own(&made, &loc, made.state == SF_OBJECT_LOST ? SF_OBJECT_FREED : SF_OBJECT_CONFIRMED);
	sfi_ledger_bound();
}

bool
sf_write_is_unconfirmed(struct varlena *datum)
{
	SfLocator	loc = sf_object_locator(datum);
	Made		made;

	return find_made(&loc, &made) && made.state != SF_OBJECT_CONFIRMED;
}

bool
sf_write_is_confirmed(struct varlena *datum)
{
	SfLocator	loc = sf_object_locator(datum);
	Made		made;

	SF_ASSERT(loc.object_id > 0);
	return find_made(&loc, &made) && made.state == SF_OBJECT_CONFIRMED;
}

/* A value that a row gave up, and what it got for it, if that shares space. */
typedef struct GivenUp
{
	SfSegment  *seg;
	const SfLocator *loc;
	const SfLocator *successor; /* or NULL */
	SfShareId	record;			/* owns a private value; page 0: none does */
	struct varlena *datum;		/* the value */
	const SfRemoval *removal;	/* how the row has lost it, or NULL */
	bool		is_listed;		/* for as long as it is kept */
	bool		is_new;			/* of this transaction: no other row, and no
								 * older version, has its reference */
	SfOwned		unshared;
} GivenUp;

/* Sectors that one value has and the other one, if there is one, has not. */
static uint64
count_minus(SfSegment *seg, const SfLocator *loc, const SfLocator *other)
{
	SfOwned		owned = sf_object_difference(seg, loc, other, NULL);
	uint64		sum = sf_space_owned_sectors(&owned);

	sf_space_free_owned(&owned);
	return sum;
}

/*
 * O2: what the value does not share, and what its successor has, is as much as the
 * value has, and what its successor does not share.  Maps in inode pages are left
 * out: they would have to be read whole; and so are BASED values.
 */
static void
check_unshared(const GivenUp *given)
{
	const SfLocator *next = given->successor;
	uint64		freed = 0;

	if (next == NULL || ((given->loc->flags | next->flags) & (SF_LOC_INODE | SF_LOC_SHARED)))
		return;
	for (int i = 0; i < given->unshared.nruns; i++)
		freed += given->unshared.runs[i].nsectors;
	SF_INVARIANT(O2, freed + count_minus(given->seg, next, NULL) ==
				 count_minus(given->seg, given->loc, NULL) +
				 count_minus(given->seg, next, given->loc));
}

/* Find what the value does not share with others (an SfBaseStep). */
static void
find_unshared(void *arg)
{
	GivenUp    *given = arg;
	bool		is_based = (given->loc->flags & SF_LOC_SHARED) != 0;
	SfShareVersion shared;

	if (sf_object_has_root(given->loc) &&
		sf_space_root_take(given->seg, sf_object_root(given->loc), true, &given->record))
		return;
	if (is_based)
		sf_object_shared_base(given->seg, given->loc, &shared);
	given->unshared = sf_object_difference(given->seg, given->loc,
										   SF_BREAKS(o2) ? NULL : given->successor,
										   is_based ? &shared.loc : NULL);
	check_unshared(given);
}

/* A damaged row can be removed, but what it says about space is not believed. */
static void
warn_not_freed(Oid table_oid, AttrNumber attnum, const char *problem)
{
	ereport(WARNING,
			(errcode(ERRCODE_DATA_CORRUPTED),
			 errmsg("space of a damaged value of column \"%s\" of table \"%s\" is not given back",
					get_attname(table_oid, attnum, false), get_rel_name(table_oid)),
			 errdetail_internal("%s", problem),
			 errhint("Run securefile_check() on the column.  securefile_repair() gives the space back.")));
}

/*
 * Find what is to be freed; returns an error that damage has caused, or NULL. Only a map
 * in inode pages, or a share record, can be damaged when its locator is not, so only those
 * pay for a subtransaction.  An internal error is no damage: what fails can be tried again.
 */
static ErrorData *
try_find_unshared(GivenUp *given)
{
	ErrorData  *error = NULL;

	if ((given->loc->flags & (SF_LOC_INODE | SF_LOC_SHARED)) ||
		(given->successor != NULL && (given->successor->flags & SF_LOC_INODE)))
		error = sf_base_guarded(find_unshared, given);
	else
		find_unshared(given);
	if (error != NULL && error->sqlerrcode == ERRCODE_INTERNAL_ERROR)
		ReThrowError(error);
	return error;
}

/*
 * A private value that was copied by its root is lost like a reference.  A successor that was
 * begun before it was copied, beside another version that was begun, too, believes that it
 * shares with the row alone.
 */
static void
drop_shared_root(const GivenUp *given, SfSegment *seg)
{
	SF_ASSERT(sf_object_has_root(given->loc) && sf_share_is_possible(given->record));
	if (given->successor == NULL)
		sfi_ledger_add_drop(SF_NOTE_REF_DROP, seg, given->record, 1);
	else if (!(given->successor->flags & SF_LOC_SHARED))
		ereport(ERROR,
				(errcode(ERRCODE_T_R_SERIALIZATION_FAILURE),
				 errmsg("could not store a changed securefile value because the value was copied meanwhile"),
				 errhint("Change the value again.")));
}

/*
 * Is the space of a value nothing that a retention has to keep?  It is not to be listed, and is of
 * the first generation, so no older version of it can be.  The reference of a shared value may be
 * that of an older version, which is listed.
 */
static bool
is_never_kept(const GivenUp *given, SfSegment *seg)
{
	return !given->is_listed && given->loc->generation == 1 &&
		!(given->loc->flags & SF_LOC_SHARED) && sfi_write_retains(seg);
}

/*
 * Note as freed what a value owns and does not share with its successor.  Its locator was
 * made by its segment, so what it says about space is true.  Damage frees nothing: the row
 * goes, the space stays until securefile_repair().
 */
static void
free_owned(GivenUp *given, SfSegment *seg)
{
	ErrorData  *edata = try_find_unshared(given);
	bool		now = is_never_kept(given, seg);

	if (edata != NULL)
	{
		warn_not_freed(given->loc->table_oid, given->loc->attnum, edata->message);
		return;
	}
	if (given->record.page != 0)
	{
		drop_shared_root(given, seg);
		return;
	}
	sfi_ledger_add_runs(now ? SF_NOTE_FREE_NOW : SF_NOTE_FREE, seg, given->unshared.runs,
						given->unshared.nruns);
	sfi_ledger_add_pages(now ? SF_NOTE_FREE_PAGE_NOW : SF_NOTE_FREE_PAGE, seg,
						 given->unshared.pages, given->unshared.npages);
	sf_space_free_owned(&given->unshared);
}

/*
 * Is a reference none that a retention has to keep?  It was made in this transaction, and nobody
 * can list it.
 */
static bool
is_dropped_now(const GivenUp *given, SfSegment *seg)
{
	return given->is_new && sf_object_is_reference(given->loc) && sfi_write_retains(seg);
}

/* Note what a row loses with its value, as the table at the head of this file says. */
static void
free_genuine(GivenUp *given)
{
	SfSegment  *seg = sfi_write_segment(given->seg);

	if (!sf_object_is_reference(given->loc))
		free_owned(given, seg);
	if ((given->loc->flags & SF_LOC_SHARED) && given->successor == NULL)
		sfi_ledger_add_drop(is_dropped_now(given, seg) ? SF_NOTE_REF_DROP_NOW : SF_NOTE_REF_DROP,
							seg, sf_share_id_of(given->loc), 1);
}

/*
 * An object of this transaction loses its row.  It may be given up before its own AFTER
 * trigger has fired: a trigger that fires earlier can delete the row again (LOST).
 */
static void
free_new(Made *made, GivenUp *given)
{
	if (made->state == SF_OBJECT_FREED || made->state == SF_OBJECT_LOST)
		return;
	own(made, given->loc, made->state == SF_OBJECT_PLACED ? SF_OBJECT_LOST : SF_OBJECT_FREED);
	given->seg = made->seg;
	given->is_new = true;
	free_genuine(given);
}

/*
 * A value of an earlier transaction, or that is like one, loses its row; problem: what
 * is wrong with its locator, or NULL. This is where a forged locator would free the
 * space of somebody else's value, so its tag is checked first.
 */
static void
free_old(Oid table_oid, AttrNumber attnum, GivenUp *given, const char *problem)
{
	given->seg = sf_space_open(table_oid, attnum, RowExclusiveLock, true);
	if (given->seg == NULL ||
		(problem == NULL && given->seg->incarnation != given->loc->incarnation))
		return;					/* its storage goes as a whole */
	if (problem == NULL && !sf_format_locator_tag_ok(given->loc, &given->seg->secret))
		problem = "locator was not made by its segment, or was changed since";
	if (problem != NULL)
		warn_not_freed(table_oid, attnum, psprintf("The %s.", problem));
	else
	{
		given->is_listed = given->removal != NULL;
		free_genuine(given);
		if (given->is_listed)
			sfi_removals_add(sfi_write_segment(given->seg), given->datum, given->removal);
	}
}

/* Does the value that comes into a row share space with the one that goes? */
static bool
is_successor(const SfLocator *loc, struct varlena *datum)
{
	SfObject   *object = sfi_objects_find(loc);

	return object != NULL && sfi_objects_is_base(object, datum);
}

void
sf_write_free(Oid table_oid, AttrNumber attnum, struct varlena *datum, struct varlena *next,
			  const SfRemoval *removal)
{
	SfLocator	loc;
	SfLocator	next_loc;
	GivenUp		given = {.loc = &loc, .datum = datum, .removal = removal};
	const char *problem = sf_object_decode(datum, &loc);
	Made		made;

	if (problem != NULL)
		sf_object_refuse_later(&loc);
	if (problem == NULL && (loc.table_oid != table_oid || loc.attnum != attnum))
		return;
	sfi_write_require_open();
	if (next != NULL)
	{
		next_loc = sf_object_locator(next);
		if (is_successor(&next_loc, datum))
			given.successor = &next_loc;
	}
	if (problem == NULL && find_made(&loc, &made))
		free_new(&made, &given);
	else
		free_old(table_oid, attnum, &given, problem);
	sfi_ledger_bound();
	sfi_removals_bound();
}

/* ---- what pre-commit has to log ---- */

bool
sf_write_has_notes(SfStorage storage)
{
	return sfi_ledger_has(storage) || sfi_plain_has(storage) || sfi_objects_has(storage) ||
		sfi_shares_has(storage);
}

void
sfi_owner_log(void)
{
	sfi_objects_collect();
	sfi_shares_settle();
	sfi_ledger_log();
	sfi_removals_log();
}

void
sfi_owner_reset(void)
{
	sfi_objects_reset();
	sfi_shares_reset();
	sfi_plain_reset();
	sfi_ledger_reset();
	sfi_removals_reset();
}
