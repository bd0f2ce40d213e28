/*-------------------------------------------------------------------------
 *
 * plain.c
 *	  States of plain objects: those that were written whole, share nothing and
 *	  have no inode pages.
 *
 * Nearly all objects are plain, and a statement that stores a million of them
 * confirms the first one only when it has stored the last: so they cost a
 * byte each.  All else that there is to know of one stands in its locator.
 *
 * Sixty-four objects of successive ids are one entry.  It is copied before it
 * is first changed at a nest level above 1, and the copy put back when that
 * level aborts.
 *
 *	ids 64 .. 127		P P C C C - - P ..		(a byte each: SfObjectState)
 *
 * An aborted level costs one memcpy() for each group that it touched, whatever number of
 * objects that was; a level that touches a group for the first time, one copy.  So a loop
 * with a savepoint a row pays some 90 bytes for each row.
 *
 *-------------------------------------------------------------------------
 */
#include "base/base.h"

#include "access/xact.h"
#include "utils/hsearch.h"
#include "write/write_internal.h"

#define GROUP_SIZE	64

typedef struct GroupKey
{
	uint64		incarnation;
	uint64		number;			/* object id / GROUP_SIZE */
} GroupKey;

typedef struct Group
{
	GroupKey	key;
	SfSegment  *seg;			/* this transaction's copy */
	int			level;			/* changed since it was begun; 1: no copy is
								 * kept */
	uint8		states[GROUP_SIZE]; /* SfObjectState */
} Group;

/* A group as it was before its first change at a level. */
typedef struct Undo
{
	Group	   *group;
	int			level;
	int			old_level;
	uint8		states[GROUP_SIZE];
} Undo;

static HTAB *groups;
static Undo *undo;
static int64 nundo;
static int64 undo_size;

bool
sfi_plain_is(const SfLocator *loc)
{
	return loc->generation == 1 && !(loc->flags & (SF_LOC_INODE | SF_LOC_SHARED));
}

/* The group that the object of a locator would be in, or NULL. */
static Group *
find_group(const SfLocator *loc)
{
	GroupKey	key = {loc->incarnation, loc->object_id / GROUP_SIZE};

	return groups == NULL || !sfi_plain_is(loc) ? NULL : hash_search(groups, &key, HASH_FIND, NULL);
}

SfObjectState
sfi_plain_state(const SfLocator *loc, SfSegment **seg)
{
	Group	   *group = find_group(loc);
	uint8		state = group == NULL ? SF_OBJECT_DEAD : group->states[loc->object_id % GROUP_SIZE];

	/*
	 * The id and the incarnation are what a locator says of itself.  One that
	 * was changed, in a way that it names an object of this transaction, must
	 * not come to own its space.
	 */
	if (state == SF_OBJECT_DEAD || !sf_format_locator_tag_ok(loc, &group->seg->secret))
		return SF_OBJECT_DEAD;
	*seg = group->seg;
	return state;
}

/*
 * Keep a copy of the group as it is, unless this level has one: a rollback of the level
 * puts it back.  At level 1 there is none, as an abort forgets all.
 */
static void
keep_copy(Group *group)
{
	int			level = GetCurrentTransactionNestLevel();

	if (group->level == level)
		return;
	SF_ASSERT(group->level < level);
	undo = sfi_write_make_room(undo, nundo, &undo_size, sizeof(Undo));
	undo[nundo] = (Undo) {group, level, group->level};
	memcpy(undo[nundo++].states, group->states, sizeof(group->states));
	group->level = level;
}

void
sfi_plain_set(const SfLocator *loc, SfObjectState state)
{
	Group	   *group = find_group(loc);

	SF_ASSERT(group != NULL && state != SF_OBJECT_DEAD && state != SF_OBJECT_DRAFT);
	keep_copy(group);
	group->states[loc->object_id % GROUP_SIZE] = state;
}

/* Is there no object in the group? */
static bool
group_is_void(const Group *group)
{
	static const uint8 none[GROUP_SIZE];

	return memcmp(group->states, none, sizeof(none)) == 0;
}

/* Make the table; it lives as long as the transaction. */
static void
make_groups(void)
{
	groups = sf_base_table("securefile plain objects", sizeof(GroupKey), sizeof(Group),
						   sfi_write_context());
}

/*
 * The ids of a group are all of one storage, but for those of a move that was rolled
 * back (objects.c, object_is_void()): they come again.
 */
bool
sfi_plain_add(SfSegment *seg, const SfLocator *loc, SfObjectState state)
{
	GroupKey	key = {loc->incarnation, loc->object_id / GROUP_SIZE};
	Group	   *group;
	bool		found;

	SF_ASSERT(sfi_plain_is(loc) && seg->incarnation == loc->incarnation);
	if (groups == NULL)
		make_groups();
	group = hash_search(groups, &key, HASH_ENTER, &found);
	if (!found)
	{
		group->seg = seg;
		group->level = 1;
		memset(group->states, SF_OBJECT_DEAD, sizeof(group->states));
	}
	else if (group->seg != seg && !group_is_void(group))
		return false;

	/*
	 * A void group of storage that is gone is taken over by the segment that
	 * has its ids now.
	 */
	group->seg = seg;
	sfi_plain_set(loc, state);
	return true;
}

bool
sfi_plain_has(SfStorage storage)
{
	HASH_SEQ_STATUS status;
	Group	   *group;
	bool		found = false;

	if (groups == NULL)
		return false;
	hash_seq_init(&status, groups);
	while ((group = hash_seq_search(&status)) != NULL)
		found |= SfStorageEquals(group->seg->storage, storage) && !group_is_void(group);
	return found;
}

bool
sfi_plain_is_empty(void)
{
	return groups == NULL;
}

/* ---- savepoints ---- */

/* Of two copies, of a level and of the one that it becomes, the older one stays. */
void
sfi_plain_at_subcommit(int level)
{
	int64		from = nundo;
	int64		to;

	SF_ASSERT(level > 1 && (nundo == 0 || undo[nundo - 1].level <= level));
	while (from > 0 && undo[from - 1].level >= level)
		from--;
	for (to = from; from < nundo; from++)
	{
		undo[from].group->level = undo[from].level = level - 1;
		if (undo[from].old_level < level - 1)
			undo[to++] = undo[from];
	}
	nundo = to;
}

void
sfi_plain_at_subabort(int level)
{
	for (; nundo > 0 && undo[nundo - 1].level >= level; nundo--)
	{
		Undo	   *last = &undo[nundo - 1];

		SF_ASSERT(last->group->level == last->level && last->old_level < level);
		memcpy(last->group->states, last->states, sizeof(last->states));
		last->group->level = last->old_level;
	}
}

void
sfi_plain_reset(void)
{
	groups = NULL;
	undo = NULL;
	nundo = undo_size = 0;
}
