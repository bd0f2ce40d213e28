/*-------------------------------------------------------------------------
 *
 * plain_states.c
 *	  States of plain objects: those that were written whole, share nothing and
 *	  have no inode pages.
 *
 * Nearly all objects are plain, and a statement that stores a million of them
 * confirms the first one only when it has stored the last: so they cost a
 * byte each.  All else that there is to know of one stands in its locator.
 *
 * Sixty-four objects of successive ids are one entry, and one fact for savepoints
 * (base/undo.h).
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
	SfUndoLevel level;			/* a savepoint brings back this and what
								 * follows */
	uint8		states[GROUP_SIZE]; /* SfObjectState */
} Group;

static HTAB *groups;
static SfUndo groups_undo = {sizeof(Group) - offsetof(Group, level)};

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

void
sfi_plain_set(const SfLocator *loc, SfObjectState state)
{
	Group	   *group = find_group(loc);

	SF_ASSERT(group != NULL && state != SF_OBJECT_DEAD && state != SF_OBJECT_DRAFT);
	sf_undo_keep(&groups_undo, &group->level);
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
 * back (object_states.c, object_is_void()): they come again.
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

void
sfi_plain_reset(void)
{
	groups = NULL;
}
