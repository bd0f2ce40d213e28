/*-------------------------------------------------------------------------
 *
 * difference.c
 *	  What one version of an object owns and another does not.
 *
 * Versions share what was not written between them, and only at the same
 * place: unit by unit, and where a whole subtree is the same, its root page.
 * So two trees are walked side by side, and equal pointers are not followed:
 * the cost is that of the difference.
 *
 * The trees may differ in depth, since an object grows and is cut.  The lower one is then
 * below the first entries of the higher one: all trees number their units from the left.
 *
 *	this version, depth 3				the other, depth 2
 *
 *				root					(OTHER_ABOVE: not reached yet)
 *			 /		  \
 *		inner		  inner				root		(OTHER_NODE from here on)
 *		/	\		  /	  \				/	\
 *	 leaf	leaf	leaf  leaf		  leaf	leaf
 *
 *	below any entry but the first:		(OTHER_NONE: all is owned)
 *
 * The walk goes down the first tree and takes the matching place of the other one along.
 * Where both have the same page (number and stamp), all below is shared.  Where pages
 * differ, units are compared one by one, since one changed unit makes a new leaf: a unit
 * is shared if it starts at the same sector.  The start is enough: sectors that a version
 * owns are not given to anything else while one version of the object has a row.
 *
 *-------------------------------------------------------------------------
 */
#include "base/base.h"

#include "miscadmin.h"
#include "object/object_internal.h"

/* The other version, seen from a node of the first. */
typedef struct Other
{
	enum
	{
		OTHER_NONE,				/* it has nothing there */
		OTHER_NODE,				/* this node */
		OTHER_ABOVE,			/* its root is lower: in the first entry */
	}			kind;
	SfChild		pointer;
} Other;

typedef struct Difference
{
	SfSegment  *seg;
	const SfLocator *loc;
	const SfLocator *other;		/* or NULL */
	SfOwned    *owned;
	uint32		runs_size;
	uint32		pages_size;
	SfMapDamage damaged;		/* NULL: throw */
	void	   *arg;
} Difference;

/* A node to be read. */
typedef struct NodeStep
{
	Difference *diff;
	SfChild		pointer;
	uint16		level;
	uint64		first_unit;
	SfInode    *node;
} NodeStep;

static const Other nothing = {OTHER_NONE};

/* Note that the version owns a page. */
static void
add_page(Difference *diff, uint32 page)
{
	SfOwned    *owned = diff->owned;

	SF_ASSERT(owned->npages <= diff->pages_size);
	if (owned->npages == diff->pages_size)
	{
		diff->pages_size = Max(32, diff->pages_size * 2);
		owned->pages = owned->pages == NULL
			? palloc(diff->pages_size * sizeof(uint32))
			: repalloc_huge(owned->pages, diff->pages_size * sizeof(uint32));
	}
	owned->pages[owned->npages++] = page;
}

/* Note that the version owns a unit's sectors. */
static void
add_unit(Difference *diff, const SfUnit *unit)
{
	SfOwned    *owned = diff->owned;
	uint32		nruns = owned->nruns;

	if (nruns == diff->runs_size)
	{
		diff->runs_size *= 2;
		owned->runs = repalloc_huge(owned->runs, diff->runs_size * sizeof(SfRun));
	}
	SF_ASSERT(nruns < diff->runs_size);
	sf_format_append_run(owned->runs, &nruns, unit);
	owned->nruns = nruns;
}

/*
 * The other version at child i of a node, which is at that level, when it is *other at
 * the node itself. node: what the other version has there, without entries if it has
 * nothing.
 */
static Other
other_child(Difference *diff, const Other *other, const SfInode *node, uint16 level, uint32 i)
{
	SF_ASSERT(other->kind != OTHER_ABOVE || level < sfi_object_depth(diff->loc) - 1);
	if (other->kind == OTHER_NODE)
		return i < node->nentries && node->u.children[i].page != SF_NO_PAGE
			? (Other) {OTHER_NODE, node->u.children[i]} : nothing;
	if (other->kind == OTHER_NONE || i > 0)
		return nothing;
	return level == sfi_object_depth(diff->other) - 1
		? (Other) {OTHER_NODE, sfi_object_root(diff->other)} : *other;
}

/*
 * Do the two versions share the page, and with it all that is below?  A flat map has no
 * page, so nothing can be said of it as a whole.
 */
static bool
same_node(Difference *diff, SfChild pointer, const Other *other)
{
	return other->kind == OTHER_NODE && (diff->loc->flags & diff->other->flags & SF_LOC_INODE) &&
		other->pointer.page == pointer.page && other->pointer.stamp == pointer.stamp;
}

/*
 * An SfBaseStep.  The units of a leaf have the length that the value gives them: by that
 * length their space will be freed, and it must not reach into that of another.
 */
static void
read_node(void *arg)
{
	NodeStep   *step = arg;
	const SfLocator *loc = step->diff->loc;

	sfi_inode_read(step->diff->seg, loc, step->pointer, step->level, step->first_unit, step->node);
	for (uint32 i = 0; step->level == 0 && i < step->node->nentries; i++)
		sfi_inode_check_unit(loc->flags, loc->length_bytes, step->first_unit + i,
							 &step->node->u.units[i]);
}

/*
 * Read a node.  If it cannot be read and the caller wants to be told, it has no entries:
 * what lies below is missing from the list, and the caller knows.
 */
static void
read_node_or_tell(Difference *diff, SfChild pointer, uint16 level, uint64 first_unit,
				  SfInode *node)
{
	NodeStep	step = {diff, pointer, level, first_unit, node};
	ErrorData  *error;

	if (diff->damaged == NULL)
	{
		read_node(&step);
		return;
	}
	error = sf_base_guarded(read_node, &step);
	if (error == NULL)
		return;
	node->nentries = 0;
	diff->damaged(error, diff->arg);
	FreeErrorData(error);
}

/*
 * Note what the version owns at a node, which begins with unit first_unit, and below: the
 * page, and every unit or child that the other version does not have at the same place.
 */
static void
walk_node(Difference *diff, SfChild pointer, uint16 level, uint64 first_unit, const Other *other)
{
	SfInode    *node;
	SfInode    *other_node;
	uint64		inside = sfi_inode_entries(diff->loc->nunits, level, first_unit);

	SF_ASSERT(level < sfi_object_depth(diff->loc));
	SF_ASSERT(other->kind == OTHER_NONE || diff->other != NULL);
	if (same_node(diff, pointer, other))
		return;
	CHECK_FOR_INTERRUPTS();
	if (diff->loc->flags & SF_LOC_INODE)
		add_page(diff, pointer.page);
	node = sfi_inode_alloc();
	other_node = sfi_inode_alloc();
	other_node->nentries = 0;
	read_node_or_tell(diff, pointer, level, first_unit, node);

	/*
	 * Damage of the other version is always an ERROR: without its map, space
	 * that it shares would be taken for space that may be freed.
	 */
	if (other->kind == OTHER_NODE)
		sfi_inode_read(diff->seg, diff->other, other->pointer, level, first_unit, other_node);
	for (uint32 i = 0; i < Min(node->nentries, inside); i++)
	{
		if (level == 0)
		{
			if (i >= other_node->nentries || other_node->u.units[i].start != node->u.units[i].start)
				add_unit(diff, &node->u.units[i]);
		}
		else if (node->u.children[i].page != SF_NO_PAGE)
		{
			Other		child = other_child(diff, other, other_node, level - 1, i);

			walk_node(diff, node->u.children[i], level - 1,
					  first_unit + i * sfi_inode_units_below(level), &child);
		}
	}
	pfree(node);
	pfree(other_node);
}

/*
 * The other version at the root of the first.  If its tree is lower, its root is met on
 * the way down; if it is higher, the matching node is looked for below its first
 * entries.
 */
static Other
other_at_root(Difference *diff, uint16 level)
{
	SfChild		pointer;
	uint16		other_level;
	SfInode    *node;

	if (diff->other == NULL)
		return nothing;
	other_level = sfi_object_depth(diff->other) - 1;
	pointer = sfi_object_root(diff->other);
	if (other_level < level)
		return (Other) {OTHER_ABOVE};
	/* deeper: what corresponds is below its first entries */
	node = sfi_inode_alloc();
	for (; other_level > level; other_level--)
	{
		sfi_inode_read(diff->seg, diff->other, pointer, other_level, 0, node);
		pointer = node->u.children[0];
		if (pointer.page == SF_NO_PAGE)
			return nothing;
	}
	pfree(node);
	return (Other) {OTHER_NODE, pointer};
}

/* Walk the tree of diff->loc from its root. */
static SfOwned
walk(Difference *diff)
{
	SfOwned		owned = {0};
	uint16		level = sfi_object_depth(diff->loc) - 1;
	Other		at_root = other_at_root(diff, level);

	diff->owned = &owned;
	diff->runs_size = 8;
	owned.runs = palloc(diff->runs_size * sizeof(SfRun));
	walk_node(diff, sfi_object_root(diff->loc), level, 0, &at_root);
	return owned;
}

SfOwned
sf_object_difference(SfSegment *seg, const SfLocator *loc, const SfLocator *other)
{
	Difference	diff = {.seg = seg, .loc = loc, .other = other};

	SF_ASSERT(other == NULL || (other->object_id == loc->object_id &&
								other->incarnation == loc->incarnation));
	SF_ASSERT(seg->incarnation == loc->incarnation);
	return walk(&diff);
}

SfOwned
sf_object_owned(SfSegment *seg, const SfLocator *loc, SfMapDamage damaged, void *arg)
{
	Difference	diff = {.seg = seg, .loc = loc, .damaged = damaged, .arg = arg};

	SF_ASSERT(damaged != NULL && seg->incarnation == loc->incarnation);
	return walk(&diff);
}
