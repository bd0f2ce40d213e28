/*-------------------------------------------------------------------------
 *
 * object_states.c
 *	  Objects of this transaction that are not plain: from handles, versions of
 *	  another one, or with inode pages.
 *
 *	begin: DEAD, no tag  ->  finish: DRAFT  ->  place: PLACED  ->  confirm, free (owner.c)
 *											->  place: plain, and gone from here
 *
 * A savepoint that is rolled back makes the object again what it was (base/undo.h).
 * Of the object's own data nothing has to be undone: runs and pages are set once, when
 * it is finished.  A dead object keeps its list of pages: they were made, in WAL, as this
 * transaction's, and somebody must give them back when the transaction commits.
 *
 *-------------------------------------------------------------------------
 */
#include "base/base.h"

#include "access/xact.h"
#include "space/share_records.h"
#include "utils/hsearch.h"
#include "write/write_internal.h"

#define KEY_SIZE	(offsetof(SfObjectKey, generation) + sizeof(uint32))

/* Objects from which on those that have become old are looked for. */
#define FORGET_FIRST	4096

static HTAB *objects;
static int64 forget_at;			/* number of objects to look for old ones at */
static SfUndo made_undo = {sizeof(SfObject) - offsetof(SfObject, level)};

/* ---- objects of this transaction ---- */

/* Pages by number (for qsort() and bsearch()). */
static int
cmp_pages(const void *a, const void *b)
{
	uint32		x = *(const uint32 *) a;
	uint32		y = *(const uint32 *) b;

	return x < y ? -1 : x > y;
}

/*
 * Is an object of storage that is gone, dead, so that another one may take its key?
 *
 * A move to another tablespace copies the number of the next object along with the
 * incarnation.  When it is rolled back to a savepoint, the ids of objects that were
 * stored in the copy are given out again, and perhaps to another backend: such an object
 * here must not be found by the locator of the new one.
 */
static bool
object_is_void(const SfObject *object)
{
	return object->state == SF_OBJECT_DEAD && sf_space_is_removed(object->seg->storage);
}

/*
 * What an object is found by.  Of a shared one each row has its own, also when it was
 * changed: ids of references are from the object ids.
 */
static SfObjectKey
key_of(const SfLocator *loc)
{
	return (SfObjectKey) {loc->incarnation, loc->flags & SF_LOC_SHARED ?
								 loc->share.reference_id : loc->object_id, loc->generation};
}

/*
 * The object of this transaction that a locator names.  Another transaction may
 * have made a version of the same object under the same generation: it is not
 * that if the locators differ.
 */
SfObject *
sfi_objects_find(const SfLocator *loc)
{
	SfObjectKey key = key_of(loc);
	SfObject   *object = objects == NULL ? NULL : hash_search(objects, &key, HASH_FIND, NULL);

	if (object == NULL || object_is_void(object) || object->tag != sf_format_locator_tag(loc))
		return NULL;
	return object;
}

void
sfi_objects_set_state(SfObject *object, SfObjectState state)
{
	SF_ASSERT(state != SF_OBJECT_DEAD && object->tag != 0);
	sf_undo_keep(&made_undo, &object->level);
	object->state = state;
}

/* ---- making one ---- */

/* Free what is known of an object with more than one run. */
static void
free_lists(SfObject *object)
{
	SfObjectLists *lists = object->lists;

	if (lists == NULL)
		return;
	object->lists = NULL;
	if (lists->runs != NULL)
		pfree(lists->runs);
	if (lists->pages != NULL)
		pfree(lists->pages);
	if (lists->orphan_pages != NULL)
		pfree(lists->orphan_pages);
	pfree(lists);
}

/*
 * Once a row has it, an object is like one that an earlier transaction has made:
 * what it has is in the ledger, and its locator says all that is asked of it.
 * Nobody can have one any more that was whole and is dead again.
 */
static bool
is_settled(const SfObject *object)
{
	return object->level == 1 &&
		(object->state == SF_OBJECT_CONFIRMED ||
		 (object->state == SF_OBJECT_DEAD && object->tag != 0));
}

/* Note the pages that nobody owns when this commits. */
static void
note_lost_pages(const SfObject *object)
{
	const SfObjectLists *lists = object->lists;
	SfNoteKind	kind;

	if (lists == NULL)
		return;
	/* nobody else has ever seen them */
	kind = sfi_write_retains(object->seg) ? SF_NOTE_FREE_PAGE_NOW : SF_NOTE_FREE_PAGE;
	if (object->state < SF_OBJECT_CONFIRMED)
		sfi_ledger_add_pages(kind, object->seg, lists->pages, lists->npages);
	sfi_ledger_add_pages(kind, object->seg, lists->orphan_pages, lists->norphan_pages);
}

/*
 * A row has the object, whatever savepoints are still taken back: so its map may be shared
 * with copies once this commits.
 */
static void
mark_owned(const SfObject *object)
{
	if (object->state == SF_OBJECT_CONFIRMED && object->lists != NULL &&
		object->lists->root.page != 0 && sf_space_is_usable(object->seg))
		sf_space_root_own(object->seg, object->lists->root);
}

/*
 * Forget objects of which nothing will be asked any more: a transaction may make
 * millions of versions.  Not below nest level 1, where a savepoint could bring an older
 * state back.
 */
static void
forget_settled(void)
{
	HASH_SEQ_STATUS status;
	SfObject   *object;

	SF_ASSERT(GetCurrentTransactionNestLevel() == 1);
	hash_seq_init(&status, objects);
	while ((object = hash_seq_search(&status)) != NULL)
	{
		if (!is_settled(object))
			continue;
		note_lost_pages(object);
		mark_owned(object);
		free_lists(object);
		hash_search(objects, &object->key, HASH_REMOVE, NULL);
	}
	forget_at = Max(FORGET_FIRST, hash_get_num_entries(objects) * 2);
}

/*
 * Before an object is entered: make the table, of whose keys only a part is compared, since they
 * have padding; or forget old objects, for good, and never between the two halves of an account,
 * which is_base() needs.
 */
static void
prepare_table(void)
{
	if (objects == NULL)
	{
		objects = sf_base_table("securefile objects", KEY_SIZE, sizeof(SfObject),
								sfi_write_context());
		forget_at = FORGET_FIRST;
	}
	else if (hash_get_num_entries(objects) >= forget_at && GetCurrentTransactionNestLevel() == 1)
		forget_settled();
}

/*
 * The entry of a new object or version.  Its generation is the first from that of the
 * locator on that is free: several versions may be made of one base, and only one of
 * them will be in the row.
 */
static SfObject *
enter_object(SfLocator *loc, bool derived)
{
	for (;; loc->generation++)
	{
		SfObjectKey key = key_of(loc);
		bool		found;
		SfObject   *object = hash_search(objects, &key, HASH_ENTER, &found);

		if (!found || object_is_void(object))
			return object;
		if (!derived)
			elog(ERROR, "securefile object id " UINT64_FORMAT " was given out twice",
				 loc->object_id);
	}
}

/* An entry of which nothing is known yet. */
static void
begin_object(SfObject *object, SfSegment *seg, const SfLocator *base)
{
	object->state = SF_OBJECT_DEAD;
	object->level = 1;
	object->seg = seg;
	object->tag = 0;
	object->lists = NULL;
	object->run_sectors = 0;
	object->base_id = base == NULL ? 0 : key_of(base).object_id;
	object->base_generation = base == NULL ? 0 : base->generation;
	object->base_tag = base == NULL ? 0 : sf_format_locator_tag(base);
}

SfObject *
sfi_objects_begin(SfSegment *seg, SfLocator *loc, const SfLocator *base)
{
	SfObject   *object;

	prepare_table();
	object = enter_object(loc, base != NULL);
	begin_object(object, seg, base);
	SF_ASSERT(base == NULL || (base->object_id == loc->object_id &&
							   base->generation < loc->generation));
	return object;
}

/*
 * The lists of an object, made when they are first needed: most objects have one run.
 */
static SfObjectLists *
lists_of(SfObject *object)
{
	if (object->lists == NULL)
		object->lists = MemoryContextAllocZero(sfi_write_context(), sizeof(SfObjectLists));
	return object->lists;
}

void
sfi_objects_pages(const uint32 *pages, int npages, void *arg)
{
	SfObjectLists *lists = lists_of(arg);

	SF_ASSERT(npages > 0 && ((SfObject *) arg)->state == SF_OBJECT_DEAD);
	sfi_write_note_entries();
	for (int i = 0; i < npages; i++)
	{
		lists->pages = sfi_write_make_room(lists->pages, lists->npages, &lists->pages_size,
										   sizeof(uint32));
		lists->pages[lists->npages++] = pages[i];
	}
}

/*
 * Of the pages that were made, those that are not owned any more are orphans: a node
 * that was written, loaded again and changed is a new page.
 */
static void
sort_out_pages(SfObjectLists *lists, const SfOwned *owned)
{
	int			kept = 0;

	if (lists == NULL || owned->npages == lists->npages)
		return;
	/* Room for all of them, if none is owned. */
	lists->orphan_pages = MemoryContextAllocHuge(sfi_write_context(),
												 lists->npages * sizeof(uint32));
	qsort(owned->pages, owned->npages, sizeof(uint32), cmp_pages);
	for (int i = 0; i < lists->npages; i++)
	{
		if (bsearch(&lists->pages[i], owned->pages, owned->npages, sizeof(uint32),
					cmp_pages) != NULL)
			lists->pages[kept++] = lists->pages[i];
		else
			lists->orphan_pages[lists->norphan_pages++] = lists->pages[i];
	}
	SF_ASSERT(kept == owned->npages);
	lists->npages = kept;
}

void
sfi_objects_finish(SfObject *object, const SfLocator *loc, const SfOwned *owned)
{
	SF_ASSERT(object->state == SF_OBJECT_DEAD && object->tag == 0);
	SF_ASSERT(object->key.object_id == key_of(loc).object_id &&
			  object->key.generation == loc->generation);
	object->tag = sf_format_locator_tag(loc);
	sort_out_pages(object->lists, owned);
	if (sf_object_has_root(loc))
		lists_of(object)->root = sf_object_root(loc);
	if (owned->nruns == 1)
	{
		object->run_start = owned->runs[0].start;
		object->run_sectors = owned->runs[0].nsectors;
	}
	else if (owned->nruns > 1)
	{
		SfObjectLists *lists = lists_of(object);
		Size		size = owned->nruns * sizeof(SfRun);

		lists->runs = memcpy(MemoryContextAllocHuge(sfi_write_context(), size), owned->runs, size);
		lists->nruns = owned->nruns;
	}
	sfi_objects_set_state(object, SF_OBJECT_DRAFT);
}

/*
 * May a draft become plain, so that there is nothing else to be undone?  If it
 * was made at this very level, that takes both back: its copy is the last one.
 */
static bool
can_be_plain(const SfObject *object, const SfLocator *loc)
{
	if (!sfi_plain_is(loc) || object->base_generation != 0 ||
		(object->lists != NULL && object->lists->npages + object->lists->norphan_pages > 0))
		return false;
	return GetCurrentTransactionNestLevel() == 1 || sf_undo_last_is_new(&made_undo, &object->level);
}

void
sfi_objects_place(SfObject *object, const SfLocator *loc)
{
	bool		has_copy = object->level > 1;

	SF_ASSERT(object->state == SF_OBJECT_DRAFT && object->tag == sf_format_locator_tag(loc));
	if (!can_be_plain(object, loc) || !sfi_plain_add(object->seg, loc, SF_OBJECT_PLACED))
	{
		sfi_objects_set_state(object, SF_OBJECT_PLACED);
		return;
	}

	/*
	 * The copy of the draft would bring back an object that is not here any
	 * more.  The state of a plain object has a copy of its own.
	 */
	if (has_copy)
		sf_undo_forget_last(&made_undo);
	free_lists(object);
	hash_search(objects, &object->key, HASH_REMOVE, NULL);
}

void
sfi_objects_unroot(SfObject *object)
{
	SF_ASSERT(object->state == SF_OBJECT_PLACED);
	if (object->lists != NULL)
		object->lists->root = (SfRoot) {0};
}

void
sfi_objects_refer(SfSegment *seg, const SfLocator *loc)
{
	SfObjectKey key = key_of(loc);
	SfObject   *object;
	bool		found;

	SF_ASSERT(loc->flags & SF_LOC_SHARED);
	prepare_table();
	object = hash_search(objects, &key, HASH_ENTER, &found);
	if (found && !object_is_void(object))
		elog(ERROR, "securefile reference id " UINT64_FORMAT " was given out twice",
			 loc->share.reference_id);
	begin_object(object, seg, NULL);
	object->tag = sf_format_locator_tag(loc);
	sfi_objects_set_state(object, SF_OBJECT_PLACED);
}

/* One that is not here is settled: a row had it, or it is another transaction's. */
SfObject *
sfi_objects_shared(const SfLocator *loc)
{
	SfObjectKey key = {loc->incarnation, loc->object_id, loc->generation};
	SfObject   *object = objects == NULL ? NULL : hash_search(objects, &key, HASH_FIND, NULL);

	SF_ASSERT(loc->flags & SF_LOC_SHARED);
	return object == NULL || object->state == SF_OBJECT_DEAD ? NULL : object;
}

bool
sfi_objects_is_base(const SfObject *object, struct varlena *datum)
{
	SfLocator	loc;

	return object->base_generation != 0 && sf_object_decode(datum, &loc) == NULL &&
		loc.incarnation == object->key.incarnation && key_of(&loc).object_id == object->base_id &&
		loc.generation == object->base_generation &&
		sf_format_locator_tag(&loc) == object->base_tag;
}

/* ---- pre-commit and end ---- */

bool
sfi_objects_has(SfStorage storage)
{
	HASH_SEQ_STATUS status;
	SfObject   *object;
	bool		found = false;

	if (objects == NULL)
		return false;
	hash_seq_init(&status, objects);
	while ((object = hash_seq_search(&status)) != NULL)

		/*
		 * A dead object counts if it has pages: somebody must still give them
		 * back.
		 */
		found |= SfStorageEquals(object->seg->storage, storage) &&
			(object->state != SF_OBJECT_DEAD ||
			 (object->lists != NULL && object->lists->npages + object->lists->norphan_pages > 0));
	return found;
}

/*
 * A version that was born and died here is visible to nobody else, but core still
 * looks at it until the horizon has passed: logical decoding emits it, and
 * CREATE INDEX evaluates its expressions on it.  So its space is allocated, and
 * was noted as freed, like any other; and only the others lose their pages.
 */
void
sfi_objects_collect(void)
{
	HASH_SEQ_STATUS status;
	SfObject   *object;

	if (objects == NULL)
		return;
	hash_seq_init(&status, objects);
	while ((object = hash_seq_search(&status)) != NULL)
	{
		note_lost_pages(object);
		mark_owned(object);
	}
}

void
sfi_objects_reset(void)
{
	objects = NULL;
}
