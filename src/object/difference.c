/*-------------------------------------------------------------------------
 *
 * difference.c
 *	  What one version of an object owns and one or two others do not.
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
 * There may be two others: what a changed shared value loses is what neither its successor
 * nor the shared object has.  Each of them is taken along by itself.
 *
 *-------------------------------------------------------------------------
 */
#include "base/base.h"

#include "miscadmin.h"
#include "object/object_internal.h"
#include "space/share_records.h"

#define MAX_OTHERS	2

/* Another version, seen from a node of the first. */
typedef struct Other
{
	const SfLocator *loc;		/* or NULL */
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
	const SfLocator *others[MAX_OTHERS];	/* or NULL */
	SfOwned    *owned;
	int64		runs_size;
	int64		pages_size;
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

/* Note that the version owns a page. */
static void
add_page(Difference *diff, uint32 page)
{
	SfOwned    *owned = diff->owned;

	owned->pages = sf_base_array_grow(owned->pages, owned->npages, &diff->pages_size,
									  sizeof(uint32), CurrentMemoryContext);
	SF_ASSERT(page != SF_NO_PAGE);
	owned->pages[owned->npages++] = page;
}

/* Note that the version owns a unit's sectors. */
static void
add_unit(Difference *diff, const SfUnit *unit)
{
	SfOwned    *owned = diff->owned;
	uint32		nruns = owned->nruns;

	owned->runs = sf_base_array_grow(owned->runs, nruns, &diff->runs_size, sizeof(SfRun),
									 CurrentMemoryContext);
	sf_format_append_run(owned->runs, &nruns, unit);
	SF_ASSERT(nruns <= diff->runs_size);
	owned->nruns = nruns;
}

/*
 * Another version at child i of a node, which is at that level, when it is *other at
 * the node itself. node: what the other version has there, without entries if it has
 * nothing.
 */
static Other
other_child(const Other *other, const SfInode *node, uint16 level, uint32 i)
{
	Other		child = {other->loc, OTHER_NONE};

	SF_ASSERT(other->kind == OTHER_NONE || other->loc != NULL);
	if (other->kind == OTHER_NODE && i < node->nentries &&
		node->u.children[i].page != SF_NO_PAGE)
	{
		child.kind = OTHER_NODE;
		child.pointer = node->u.children[i];
	}
	if (other->kind != OTHER_ABOVE || i > 0)
		return child;
	if (level > sfi_object_depth(other->loc) - 1)
		return *other;
	child.kind = OTHER_NODE;
	child.pointer = sfi_object_root(other->loc);
	return child;
}

/*
 * Do the two versions share the page, and with it all that is below?  A flat map has no
 * page, so nothing can be said of it as a whole.
 */
static bool
same_node(Difference *diff, SfChild pointer, const Other *other)
{
	return other->kind == OTHER_NODE && (diff->loc->flags & other->loc->flags & SF_LOC_INODE) &&
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
		sfi_inode_require_sound_unit(loc->flags, loc->unit_space_bytes, step->first_unit + i,
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
	error = sf_base_guarded_read(read_node, &step);
	if (error == NULL)
		return;
	node->nentries = 0;
	diff->damaged(error, diff->arg);
	FreeErrorData(error);
}

/* Does another version have that unit in entry i of its leaf? */
static bool
has_unit(const SfInode *leaf, uint32 i, const SfUnit *unit)
{
	return i < leaf->nentries && leaf->u.units[i].start == unit->start;
}

/*
 * The node of another version, without entries if it has nothing there.  Its damage is
 * always an ERROR: without its map, space that it shares would be taken for space that may
 * be freed.
 */
static SfInode *
read_other(Difference *diff, const Other *other, uint16 level, uint64 first_unit)
{
	SfInode    *node = sfi_inode_alloc();

	SF_ASSERT(other->kind == OTHER_NONE || other->loc != NULL);
	node->nentries = 0;
	if (other->kind == OTHER_NODE)
		sfi_inode_read(diff->seg, other->loc, other->pointer, level, first_unit, node);
	return node;
}

/*
 * Note what the version owns at a node, which begins with unit first_unit, and below: the
 * page, and every unit or child that no other version has at the same place.
 */
static void
walk_node(Difference *diff, SfChild pointer, uint16 level, uint64 first_unit, const Other *others)
{
	SfInode    *node;
	SfInode    *other_nodes[MAX_OTHERS];
	uint64		inside = sfi_inode_entries(diff->loc->nunits, level, first_unit);

	SF_ASSERT(level < sfi_object_depth(diff->loc));
	if (same_node(diff, pointer, &others[0]) || same_node(diff, pointer, &others[1]))
		return;
	CHECK_FOR_INTERRUPTS();
	if (diff->loc->flags & SF_LOC_INODE)
		add_page(diff, pointer.page);
	node = sfi_inode_alloc();
	read_node_or_tell(diff, pointer, level, first_unit, node);
	for (int k = 0; k < MAX_OTHERS; k++)
		other_nodes[k] = read_other(diff, &others[k], level, first_unit);
	for (uint32 i = 0; i < Min(node->nentries, inside); i++)
	{
		if (level == 0)
		{
			const SfUnit *unit = &node->u.units[i];

			if (!has_unit(other_nodes[0], i, unit) && !has_unit(other_nodes[1], i, unit))
				add_unit(diff, unit);
		}
		else if (node->u.children[i].page != SF_NO_PAGE)
		{
			const Other below[MAX_OTHERS] = {
				other_child(&others[0], other_nodes[0], level - 1, i),
				other_child(&others[1], other_nodes[1], level - 1, i),
			};

			walk_node(diff, node->u.children[i], level - 1,
					  first_unit + i * sfi_inode_units_below(level), below);
		}
	}
	pfree(node);
	for (int k = 0; k < MAX_OTHERS; k++)
		pfree(other_nodes[k]);
}

/*
 * Another version at the root of the first.  If its tree is lower, its root is met on
 * the way down; if it is higher, the matching node is looked for below its first
 * entries.
 */
static Other
other_at_root(Difference *diff, const SfLocator *loc, uint16 level)
{
	Other		other = {loc, OTHER_NONE};
	uint16		other_level;
	SfInode    *node;

	if (loc == NULL)
		return other;
	SF_ASSERT(sfi_object_depth(loc) > 0);
	other_level = sfi_object_depth(loc) - 1;
	other.pointer = sfi_object_root(loc);
	other.kind = other_level < level ? OTHER_ABOVE : OTHER_NODE;
	/* deeper: what corresponds is below its first entries */
	node = sfi_inode_alloc();
	for (; other_level > level && other.kind == OTHER_NODE; other_level--)
	{
		sfi_inode_read(diff->seg, loc, other.pointer, other_level, 0, node);
		other.pointer = node->u.children[0];
		if (other.pointer.page == SF_NO_PAGE)
			other.kind = OTHER_NONE;
	}
	pfree(node);
	return other;
}

/* The pages of a list of pieces that are to be read. */
typedef struct ListStep
{
	Difference *diff;
	SfChild    *pages;
	int			n;
} ListStep;

/* An SfBaseStep. */
static void
read_list(void *arg)
{
	ListStep   *step = arg;

	step->n = sfi_list_pages(step->diff->seg, step->diff->loc, &step->pages);
}

/* The same, or the caller is told, and there are none. */
static void
read_list_or_tell(ListStep *step)
{
	ErrorData  *error;

	if (step->diff->damaged == NULL)
	{
		read_list(step);
		return;
	}
	error = sf_base_guarded_read(read_list, step);
	if (error == NULL)
		return;
	step->n = 0;
	step->diff->damaged(error, step->diff->arg);
	FreeErrorData(error);
}

static bool
has_page(const SfChild *pages, int n, SfChild page)
{
	for (int i = 0; i < n; i++)
		if (pages[i].page == page.page && pages[i].stamp == page.stamp)
			return true;
	return false;
}

/* Note the pages of the list of pieces that no other version has. */
static void
walk_list(Difference *diff)
{
	ListStep	step = {diff};
	SfChild    *pages[MAX_OTHERS];
	int			npages[MAX_OTHERS];

	if (!(diff->loc->flags & SF_LOC_PIECED))
		return;
	for (int k = 0; k < MAX_OTHERS; k++)
		npages[k] = diff->others[k] == NULL ? 0 :
			sfi_list_pages(diff->seg, diff->others[k], &pages[k]);
	read_list_or_tell(&step);
	for (int i = 0; i < step.n; i++)
		if (!has_page(pages[0], npages[0], step.pages[i]) &&
			!has_page(pages[1], npages[1], step.pages[i]))
			add_page(diff, step.pages[i].page);
}

/* Walk the tree of diff->loc from its root. */
static SfOwned
walk(Difference *diff)
{
	SfOwned		owned = {0};
	uint16		level = sfi_object_depth(diff->loc) - 1;
	const Other at_root[MAX_OTHERS] = {
		other_at_root(diff, diff->others[0], level),
		other_at_root(diff, diff->others[1], level),
	};

	diff->owned = &owned;
	diff->runs_size = 8;
	owned.runs = palloc(diff->runs_size * sizeof(SfRun));
	walk_node(diff, sfi_object_root(diff->loc), level, 0, at_root);
	walk_list(diff);
	return owned;
}

/* NULL, or a version of the same object in the same storage. */
static bool
is_version_of(const SfLocator *other, const SfLocator *loc)
{
	return other == NULL || (other->object_id == loc->object_id &&
							 other->incarnation == loc->incarnation);
}

SfOwned
sf_object_difference(SfSegment *seg, const SfLocator *loc, const SfLocator *other,
					 const SfLocator *shared)
{
	Difference	diff = {.seg = seg, .loc = loc, .others = {other, shared}};

	SF_ASSERT(is_version_of(other, loc) && is_version_of(shared, loc));
	SF_ASSERT(seg->incarnation == loc->incarnation);
	return walk(&diff);
}

SfOwned
sf_object_owned(SfSegment *seg, const SfLocator *loc, const SfLocator *shared,
				SfMapDamage damaged, void *arg)
{
	Difference	diff = {.seg = seg, .loc = loc, .others = {shared}, .damaged = damaged, .arg = arg};

	SF_ASSERT(damaged != NULL && seg->incarnation == loc->incarnation);
	SF_ASSERT(is_version_of(shared, loc));
	return walk(&diff);
}
