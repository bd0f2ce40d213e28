/*-------------------------------------------------------------------------
 *
 * minus.c
 *	  What one version of an object owns and another does not.
 *
 * Versions share what was not written between them, and only at the same
 * place: unit by unit, and where a whole subtree is the same, its root page.
 * So two trees are walked side by side, and equal pointers are not followed:
 * the cost is that of the difference.
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

typedef struct Minus
{
	SfSegment  *seg;
	const SfLocator *loc;
	const SfLocator *other;		/* or NULL */
	SfOwned    *owned;
	uint32		runs_size;
	uint32		pages_size;
	SfMapDamage damaged;		/* NULL: throw */
	void	   *arg;
} Minus;

/* A node to be read. */
typedef struct NodeStep
{
	Minus	   *minus;
	SfChild		pointer;
	uint16		level;
	SfInode    *node;
} NodeStep;

static const Other nothing = {OTHER_NONE};

static void
add_page(Minus *minus, uint32 page)
{
	SfOwned    *owned = minus->owned;

	if (owned->npages == minus->pages_size)
	{
		minus->pages_size = Max(32, minus->pages_size * 2);
		owned->pages = owned->pages == NULL
			? palloc(minus->pages_size * sizeof(uint32))
			: repalloc_huge(owned->pages, minus->pages_size * sizeof(uint32));
	}
	owned->pages[owned->npages++] = page;
}

static void
add_unit(Minus *minus, const SfUnit *unit)
{
	SfOwned    *owned = minus->owned;
	uint32		nruns = owned->nruns;
	const char *problem = sf_format_unit_problem(unit, minus->loc->flags, SF_PLAIN_UNKNOWN);

	if (problem != NULL)
		ereport(ERROR,
				(errcode(ERRCODE_DATA_CORRUPTED),
				 errmsg("unit map of a securefile value is damaged"),
				 errdetail_internal("The %s.", problem),
				 errhint("Run securefile_check() on the column.")));
	if (nruns == minus->runs_size)
	{
		minus->runs_size *= 2;
		owned->runs = repalloc_huge(owned->runs, minus->runs_size * sizeof(SfRun));
	}
	sf_format_append_run(owned->runs, &nruns, unit);
	owned->nruns = nruns;
}

/* The other version at a node of that level, when it is that at its parent. */
static Other
other_child(Minus *minus, const Other *other, const SfInode *node, uint16 level, uint32 i)
{
	if (other->kind == OTHER_NODE)
		return i < node->nentries && node->u.children[i].page != SF_NO_PAGE
			? (Other) {OTHER_NODE, node->u.children[i]} : nothing;
	if (other->kind == OTHER_NONE || i > 0)
		return nothing;
	return level == sfi_object_depth(minus->other) - 1
		? (Other) {OTHER_NODE, sfi_object_root(minus->other)} : *other;
}

/* Is it the same page?  A flat map has none. */
static bool
same_node(Minus *minus, SfChild pointer, const Other *other)
{
	return other->kind == OTHER_NODE && (minus->loc->flags & minus->other->flags & SF_LOC_INODE) &&
		other->pointer.page == pointer.page && other->pointer.stamp == pointer.stamp;
}

/* An SfBaseStep. */
static void
read_node(void *arg)
{
	NodeStep   *step = arg;

	sfi_inode_read(step->minus->seg, step->minus->loc, step->pointer, step->level, step->node);
}

/* Read a node; without entries when it cannot be and damaged is told. */
static void
read_node_or_tell(Minus *minus, SfChild pointer, uint16 level, SfInode *node)
{
	NodeStep	step = {minus, pointer, level, node};
	ErrorData  *error;

	if (minus->damaged == NULL)
	{
		read_node(&step);
		return;
	}
	error = sf_base_guarded(read_node, &step);
	if (error == NULL)
		return;
	node->nentries = 0;
	minus->damaged(error, minus->arg);
	FreeErrorData(error);
}

static void
minus_node(Minus *minus, SfChild pointer, uint16 level, const Other *other)
{
	SfInode    *node;
	SfInode    *other_node;

	SF_ASSERT(level < sfi_object_depth(minus->loc));
	if (same_node(minus, pointer, other))
		return;
	CHECK_FOR_INTERRUPTS();
	if (minus->loc->flags & SF_LOC_INODE)
		add_page(minus, pointer.page);
	node = sfi_inode_alloc();
	other_node = sfi_inode_alloc();
	other_node->nentries = 0;
	read_node_or_tell(minus, pointer, level, node);
	if (other->kind == OTHER_NODE)
		sfi_inode_read(minus->seg, minus->other, other->pointer, level, other_node);
	for (uint32 i = 0; i < node->nentries; i++)
	{
		if (level == 0)
		{
			if (i >= other_node->nentries || other_node->u.units[i].start != node->u.units[i].start)
				add_unit(minus, &node->u.units[i]);
		}
		else if (node->u.children[i].page != SF_NO_PAGE)
		{
			Other		child = other_child(minus, other, other_node, level - 1, i);

			minus_node(minus, node->u.children[i], level - 1, &child);
		}
	}
	pfree(node);
	pfree(other_node);
}

/* The other version at the root of the first. */
static Other
other_at_root(Minus *minus, uint16 level)
{
	SfChild		pointer;
	uint16		other_level;
	SfInode    *node;

	if (minus->other == NULL)
		return nothing;
	other_level = sfi_object_depth(minus->other) - 1;
	pointer = sfi_object_root(minus->other);
	if (other_level < level)
		return (Other) {OTHER_ABOVE};
	/* deeper: what corresponds is below its first entries */
	node = sfi_inode_alloc();
	for (; other_level > level; other_level--)
	{
		sfi_inode_read(minus->seg, minus->other, pointer, other_level, node);
		pointer = node->u.children[0];
		if (pointer.page == SF_NO_PAGE)
			return nothing;
	}
	pfree(node);
	return (Other) {OTHER_NODE, pointer};
}

/* Walk the tree of minus->loc. */
static SfOwned
walk(Minus *minus)
{
	SfOwned		owned = {0};
	uint16		level = sfi_object_depth(minus->loc) - 1;
	Other		at_root = other_at_root(minus, level);

	minus->owned = &owned;
	minus->runs_size = 8;
	owned.runs = palloc(minus->runs_size * sizeof(SfRun));
	minus_node(minus, sfi_object_root(minus->loc), level, &at_root);
	return owned;
}

SfOwned
sf_object_minus(SfSegment *seg, const SfLocator *loc, const SfLocator *other)
{
	Minus		minus = {.seg = seg, .loc = loc, .other = other};

	SF_ASSERT(other == NULL || (other->object_id == loc->object_id &&
								other->incarnation == loc->incarnation));
	return walk(&minus);
}

SfOwned
sf_object_owned(SfSegment *seg, const SfLocator *loc, SfMapDamage damaged, void *arg)
{
	Minus		minus = {.seg = seg, .loc = loc, .damaged = damaged, .arg = arg};

	return walk(&minus);
}
