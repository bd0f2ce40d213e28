/*-------------------------------------------------------------------------
 *
 * owner.c
 *	  Which object is whose: what a transaction placed, confirmed and freed.
 *
 * Before puts the bytes in place, after records the facts.  An object is placed
 * when its locator goes into a tuple; the AFTER trigger confirms it when the
 * row is really there; what is never confirmed is given back.  State changes go
 * to an undo list with nest levels, so that a savepoint takes back just what
 * came after it.
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
 *-------------------------------------------------------------------------
 */
#include "base/base.h"

#include "access/xact.h"
#include "utils/hsearch.h"
#include "utils/lsyscache.h"
#include "utils/memutils.h"
#include "write/write_internal.h"

typedef enum ObjectState
{
	OBJECT_DEAD,
	OBJECT_DRAFT,
	OBJECT_PLACED,
	OBJECT_CONFIRMED,
	OBJECT_FREED,
	OBJECT_LOST,
} ObjectState;

typedef struct ObjectKey
{
	uint64		incarnation;
	uint64		object_id;
	uint64		generation;
} ObjectKey;

/* An object this transaction made. */
typedef struct Object
{
	ObjectKey	key;
	ObjectState state;
	SfSegment  *seg;
	uint64		hash;			/* of the locator, once it is whole */
	int			nruns;
	int			npages;
	SfRun		run;			/* the run, if there is one only */
	SfRun	   *runs;			/* else all of them; without those of the base */
	uint32	   *pages;			/* likewise */
	int			nscrap;
	uint32	   *scrap;			/* pages that were made and written anew since */
	struct varlena *base;		/* or NULL */
} Object;

/* A state change to be taken back when a subtransaction aborts. */
typedef struct Undo
{
	Object	   *object;
	ObjectState old_state;
	int			level;
} Undo;

/* What a row gave up. */
typedef struct Freed
{
	SfSegment  *seg;
	SfOwned		owned;
	int			level;
} Freed;

static HTAB *objects;
static Undo *undo;
static int64 nundo;
static int64 undo_size;
static Freed *freed;
static int64 nfreed;
static int64 freed_size;

/* ---- objects of this transaction ---- */

static int
cmp_pages(const void *a, const void *b)
{
	uint32		x = *(const uint32 *) a;
	uint32		y = *(const uint32 *) b;

	return x < y ? -1 : x > y;
}

/*
 * A move to another tablespace copies the number of the next object along with
 * the incarnation.  When it is rolled back to a savepoint, the ids of what was
 * stored in the copy come again, and not from us only.
 */
static bool
is_void(const Object *object)
{
	return object->state == OBJECT_DEAD && sf_space_is_gone(object->seg->node);
}

/*
 * The object of this transaction that a locator names.  Another transaction may
 * have made a version of the same object under the same generation: it is not
 * that if the locators differ.
 */
static Object *
find_object(const SfLocator *loc)
{
	ObjectKey	key = {loc->incarnation, loc->object_id, loc->generation};
	Object	   *object = objects == NULL ? NULL : hash_search(objects, &key, HASH_FIND, NULL);

	if (object == NULL || is_void(object) || object->hash != sf_format_locator_hash(loc))
		return NULL;
	return object;
}

static void
set_state(Object *object, ObjectState state)
{
	undo = sf_write_make_room(undo, nundo, &undo_size, sizeof(Undo));
	undo[nundo++] = (Undo) {object, object->state, GetCurrentTransactionNestLevel()};
	object->state = state;
}

static void
make_hash(void)
{
	HASHCTL		ctl = {.keysize = sizeof(ObjectKey),.entrysize = sizeof(Object),
	.hcxt = sf_write_context()};

	objects = hash_create("securefile objects", 1024, &ctl,
						  HASH_ELEM | HASH_BLOBS | HASH_CONTEXT);
}

/* The generation is the first from that of the locator on that is free. */
static Object *
enter_object(SfLocator *loc, bool derived)
{
	for (;; loc->generation++)
	{
		ObjectKey	key = {loc->incarnation, loc->object_id, loc->generation};
		bool		found;
		Object	   *object = hash_search(objects, &key, HASH_ENTER, &found);

		if (!found || is_void(object))
			return object;
		if (!derived)
			elog(ERROR, "securefile object id " UINT64_FORMAT " was given out twice", loc->object_id);
	}
}

Object *
sf_owner_begin(SfSegment *seg, SfLocator *loc, struct varlena *base)
{
	Object	   *object;

	if (base != NULL)
		base = sf_object_copy(base, sf_write_context());
	if (objects == NULL)
		make_hash();
	object = enter_object(loc, base != NULL);
	object->state = OBJECT_DEAD;
	object->seg = seg;
	object->hash = 0;
	object->nruns = object->npages = object->nscrap = 0;
	object->runs = NULL;
	object->pages = object->scrap = NULL;
	object->base = base;
	return object;
}

void
sf_owner_pages(const uint32 *pages, int npages, void *arg)
{
	Object	   *object = arg;
	Size		size = (object->npages + npages) * sizeof(uint32);

	sf_write_note_entries();
	object->pages = object->pages == NULL
		? MemoryContextAlloc(sf_write_context(), size)
		: repalloc_huge(object->pages, size);
	memcpy(object->pages + object->npages, pages, npages * sizeof(uint32));
	object->npages += npages;
}

/* Of the pages that were made, those that are not owned any more are scrap. */
static void
sort_out_pages(Object *object, const SfOwned *owned)
{
	int			kept = 0;

	if (owned->npages == object->npages)
		return;
	object->scrap = MemoryContextAllocHuge(sf_write_context(), object->npages * sizeof(uint32));
	qsort(owned->pages, owned->npages, sizeof(uint32), cmp_pages);
	for (int i = 0; i < object->npages; i++)
	{
		if (bsearch(&object->pages[i], owned->pages, owned->npages, sizeof(uint32), cmp_pages) != NULL)
			object->pages[kept++] = object->pages[i];
		else
			object->scrap[object->nscrap++] = object->pages[i];
	}
	Assert(kept == owned->npages);
	object->npages = kept;
}

void
sf_owner_finish(Object *object, const SfLocator *loc, const SfOwned *owned)
{
	object->hash = sf_format_locator_hash(loc);
	sort_out_pages(object, owned);
	if (owned->nruns > 0)
		object->run = owned->runs[0];
	if (owned->nruns > 1)
		object->runs = memcpy(MemoryContextAllocHuge(sf_write_context(),
													 owned->nruns * sizeof(SfRun)),
							  owned->runs, owned->nruns * sizeof(SfRun));
	object->nruns = owned->nruns;
	set_state(object, OBJECT_DRAFT);
}

void
sf_owner_place(Object *object)
{
	set_state(object, OBJECT_PLACED);
}

/* Was the object made from that value, or from none (old: what its row has)? */
static bool
fits_row(const Object *object, const struct varlena *old)
{
	return object->base == NULL || (old != NULL && sf_object_same(object->base, old));
}

bool
sf_write_adopt(SfSegment *seg, struct varlena *datum, struct varlena *old)
{
	SfLocator	loc = sf_object_locator(datum);
	Object	   *object = find_object(&loc);

	if (object == NULL || object->state != OBJECT_DRAFT || loc.table_oid != seg->table_oid ||
		loc.attnum != seg->attnum || !SfNodeEquals(object->seg->node, seg->node) ||
		!fits_row(object, old))
		return false;
	sf_object_require_genuine(object->seg, &loc);
	sf_owner_place(object);
	return true;
}

/* ---- facts from the AFTER trigger ---- */

void
sf_write_confirm(Oid table_oid, AttrNumber attnum, struct varlena *datum, struct varlena *old)
{
	SfLocator	loc;
	const char *problem = sf_object_decode(datum, &loc);
	Object	   *object = problem == NULL ? find_object(&loc) : NULL;

	sf_write_require_open();
	if (object == NULL ||
		(object->state != OBJECT_PLACED && object->state != OBJECT_LOST) ||
		loc.table_oid != table_oid || loc.attnum != attnum || !fits_row(object, old))
		ereport(ERROR,
				(errcode(ERRCODE_TRIGGERED_DATA_CHANGE_VIOLATION),
				 errmsg("column \"%s\" of table \"%s\" was given a stored securefile value that was not stored for it",
						get_attname(table_oid, attnum, false), get_rel_name(table_oid)),
				 errdetail("A trigger that fires after the extension's own put it there."),
				 errhint("Assign the value as bytea (value::bytea), or in a trigger that fires earlier.")));
	sf_object_require_genuine(object->seg, &loc);
	set_state(object, object->state == OBJECT_LOST ? OBJECT_FREED : OBJECT_CONFIRMED);
}

/* A value that a row gave up, and what it got for it, if that shares space. */
typedef struct GivenUp
{
	SfSegment  *seg;
	const SfLocator *loc;
	const SfLocator *successor; /* or NULL */
} GivenUp;

static void
note_freed(SfSegment *seg, SfOwned owned)
{
	freed = sf_write_make_room(freed, nfreed, &freed_size, sizeof(Freed));
	freed[nfreed++] = (Freed) {sf_write_segment(seg), owned, GetCurrentTransactionNestLevel()};
}

/* Note what is not shared as freed (an SfBaseStep). */
static void
free_unshared(void *arg)
{
	GivenUp    *given = arg;
	MemoryContext context = MemoryContextSwitchTo(sf_write_context());
	SfOwned		owned = sf_object_minus(given->seg, given->loc, given->successor);

	if (owned.nruns < 64)
		owned.runs = repalloc(owned.runs, Max(owned.nruns, 1) * sizeof(SfRun));
	MemoryContextSwitchTo(context);
	note_freed(given->seg, owned);
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
			 errhint("Run securefile_check() on the column.")));
}

/* Only a map in inode pages can be damaged when its locator is not. */
static void
free_genuine(GivenUp *given)
{
	ErrorData  *edata;

	if (!(given->loc->flags & SF_LOC_INODE) &&
		(given->successor == NULL || !(given->successor->flags & SF_LOC_INODE)))
	{
		free_unshared(given);
		return;
	}
	edata = sf_base_guarded(free_unshared, given);
	if (edata != NULL)
		warn_not_freed(given->loc->table_oid, given->loc->attnum, edata->message);
}

/* An object of this transaction: what it owns is known, unless it shares. */
static void
free_new(Object *object, GivenUp *given)
{
	if (object->state == OBJECT_FREED || object->state == OBJECT_LOST)
		return;
	given->seg = object->seg;
	if (object->base == NULL && given->successor == NULL)
		note_freed(object->seg, (SfOwned) {object->nruns > 1 ? object->runs : &object->run,
										   object->nruns, object->pages, object->npages});
	else
		free_genuine(given);
	set_state(object, object->state == OBJECT_PLACED ? OBJECT_LOST : OBJECT_FREED);
}

/* Does the value that comes into a row share space with the one that goes? */
static bool
is_successor(const SfLocator *loc, struct varlena *datum)
{
	Object	   *object = find_object(loc);

	return object != NULL && object->base != NULL && sf_object_same(object->base, datum);
}

void
sf_write_free(Oid table_oid, AttrNumber attnum, struct varlena *datum, struct varlena *next)
{
	SfLocator	loc;
	SfLocator	next_loc;
	GivenUp		given = {NULL, &loc, NULL};
	const char *problem = sf_object_decode(datum, &loc);
	Object	   *object;

	if (problem == NULL && (loc.table_oid != table_oid || loc.attnum != attnum))
		return;
	sf_write_require_open();
	if (next != NULL)
	{
		next_loc = sf_object_locator(next);
		if (is_successor(&next_loc, datum))
			given.successor = &next_loc;
	}
	object = problem == NULL ? find_object(&loc) : NULL;
	if (object != NULL)
	{
		free_new(object, &given);
		return;
	}
	given.seg = sf_space_open(table_oid, attnum, RowExclusiveLock, true);
	if (given.seg == NULL || (problem == NULL && given.seg->incarnation != loc.incarnation))
		return;					/* its storage goes as a whole */
	if (problem == NULL && !sf_format_locator_genuine(&loc, &given.seg->secret))
		problem = "locator was not made by its segment, or was changed since";
	if (problem != NULL)
		warn_not_freed(table_oid, attnum, psprintf("The %s.", problem));
	else
		free_genuine(&given);
}

/* ---- savepoints ---- */

void
sf_write_at_subcommit(int level)
{
	for (int64 i = nundo; i > 0 && undo[i - 1].level >= level; i--)
		undo[i - 1].level = level - 1;
	for (int64 i = nfreed; i > 0 && freed[i - 1].level >= level; i--)
		freed[i - 1].level = level - 1;
}

void
sf_write_at_subabort(int level)
{
	while (nundo > 0 && undo[nundo - 1].level >= level)
	{
		nundo--;
		undo[nundo].object->state = undo[nundo].old_state;
	}
	while (nfreed > 0 && freed[nfreed - 1].level >= level)
		nfreed--;
}

/* ---- what pre-commit has to log ---- */

/*
 * What one object of this transaction comes to.  A version that was born and
 * died here is visible to nobody else, but core still looks at it until the
 * horizon has passed: logical decoding emits it, and CREATE INDEX evaluates
 * its expressions on it.  So its space is allocated, and was noted as freed,
 * like any other.
 */
static void
collect_object(const Object *object, SfFacts *alloc, SfFacts *pages)
{
	if (object->state >= OBJECT_CONFIRMED)
		sf_facts_add_runs(alloc, object->seg, object->nruns > 1 ? object->runs : &object->run, object->nruns);
	else
		sf_facts_add_pages(pages, object->seg, object->pages, object->npages);
	sf_facts_add_pages(pages, object->seg, object->scrap, object->nscrap);
}

bool
sf_owner_has_work(void)
{
	return objects != NULL || nfreed > 0;
}

bool
sf_write_has_facts(SfNode node)
{
	HASH_SEQ_STATUS status;
	Object	   *object;
	bool		found = false;

	for (int64 i = 0; i < nfreed && !found; i++)
		found = SfNodeEquals(freed[i].seg->node, node);
	if (objects == NULL || found)
		return found;
	hash_seq_init(&status, objects);
	while ((object = hash_seq_search(&status)) != NULL)
		found |= SfNodeEquals(object->seg->node, node) &&
			(object->state != OBJECT_DEAD || object->npages + object->nscrap > 0);
	return found;
}

void
sf_owner_collect(SfFacts *alloc, SfFacts *free, SfFacts *pages)
{
	if (objects != NULL)
	{
		HASH_SEQ_STATUS status;
		Object	   *object;

		hash_seq_init(&status, objects);
		while ((object = hash_seq_search(&status)) != NULL)
			collect_object(object, alloc, pages);
	}
	for (int64 i = 0; i < nfreed; i++)
	{
		sf_facts_add_runs(free, freed[i].seg, freed[i].owned.runs, freed[i].owned.nruns);
		sf_facts_add_pages(pages, freed[i].seg, freed[i].owned.pages, freed[i].owned.npages);
	}
	sf_facts_sort(alloc, true);
	sf_facts_sort(free, true);
	sf_facts_sort(pages, false);
}

void
sf_owner_reset(void)
{
	objects = NULL;
	undo = NULL;
	freed = NULL;
	nundo = undo_size = nfreed = freed_size = 0;
}
