/*-------------------------------------------------------------------------
 *
 * inode.c
 *	  Nodes of unit maps: the inode pages of a large object.
 *
 * Level 0 pages hold units, higher ones pointers to pages.  A page says whose
 * it is (object id) and which one (stamp), and the pointer to it repeats the
 * stamp: a locator that outlived its row finds out, even when the page was used
 * again for another object, or for the same one.  So a pointer to no page is
 * to be believed, and what it stands for reads as zeros.
 *
 * What a reader may meet at the page that a pointer names, and what follows:
 *
 *	the page is an inode page, of that object, with that stamp: it is the one meant
 *	another stamp, above the pointer's, or a free or pending page: the value is gone,
 *		and its space was used again (UNDEFINED_OBJECT), unless a row still has it
 *	a stamp that is not above it, or a page that is never used for inodes: no order of
 *		events leads there, so the page is damaged (DATA_CORRUPTED)
 *
 * Stamps rise with every page that a segment makes, which is what tells the second case
 * from the third.  Stamps of KEYED objects do not rise, but come from what the page says:
 * of these all inode pages but the one that is meant count as used again.
 *
 *-------------------------------------------------------------------------
 */
#include "base/base.h"

#include "keys/keys.h"
#include "object/object_internal.h"

uint64
sfi_inode_units_below(uint16 level)
{
	uint64		n = 1;

	SF_ASSERT(level <= SF_INODE_MAX_DEPTH);
	for (uint16 l = 0; l < level; l++)
		n *= sfi_inode_capacity(l);
	return n;
}

/*
 * The tree has no count of its own: a node's entries follow from its place and the number
 * of units.
 */
uint64
sfi_inode_entries(uint64 nunits, uint16 level, uint64 first_unit)
{
	uint64		below = sfi_inode_units_below(level);

	SF_ASSERT(level < SF_INODE_MAX_DEPTH);
	if (nunits <= first_unit)
		return 0;
	return Min((nunits - first_unit + below - 1) / below, sfi_inode_capacity(level));
}

uint16
sfi_inode_depth(uint64 nunits)
{
	uint16		depth = 1;

	while (sfi_inode_units_below(depth) < nunits)
		depth++;
	SF_ASSERT(depth <= SF_INODE_MAX_DEPTH);
	return depth;
}

SfInode *
sfi_inode_alloc(void)
{
	return palloc(SF_PAGE_CONTENT);
}

/*
 * A flat map as if it were a leaf, so that a walk of trees needs no second way.
 */
static void
read_flat(const SfLocator *loc, SfInode *inode)
{
	SF_ASSERT(loc->nunits <= SF_FLAT_MAX_UNITS && SF_FLAT_MAX_UNITS <= SF_INODE_MAX_UNITS);
	memset(inode, 0, SF_INODE_HEADER);
	inode->object_id = loc->object_id;
	inode->nentries = loc->nunits;
	sfi_object_flat_units(loc, 0, loc->nunits, inode->u.units);
}

SF_NORETURN static void
report_damaged_page(uint32 page, const char *detail)
{
	sf_base_report_damage(psprintf("inode page %u of a securefile segment is damaged", page), detail);
}

/*
 * A page that is not the one meant may have been used again, by something that
 * came later, after the value was gone.  If not so, it is damaged.
 */
static void
require_reused(SfSegment *seg, const SfLocator *loc, SfPageType type, const SfInode *inode,
			   SfChild pointer)
{
	bool		is_keyed = pointer.stamp >= SF_KEYED_STAMP;

	if (type == SF_PAGE_INODE && !is_keyed && inode->stamp <= pointer.stamp)
		report_damaged_page(pointer.page,
							psprintf("Expected stamp " UINT64_FORMAT
									 ", found " UINT64_FORMAT " of object " UINT64_FORMAT ".",
									 pointer.stamp, inode->stamp, inode->object_id));
	if (type != SF_PAGE_INODE && type != SF_PAGE_FREE && type != SF_PAGE_PENDING)
		report_damaged_page(pointer.page, psprintf("Expected page type %d, found %d.",
												   SF_PAGE_INODE, type));
	if (sf_object_fate(seg, loc, pointer.page, 1, true) == SF_FATE_LIVES)
		report_damaged_page(pointer.page, "It belongs to another value now, or to none.");
}

/*
 * A page that is the one meant fits its place in the tree, and its entries can be such.
 * What a leaf is short of would be taken for the end of the value, or for zeros.
 */
static void
require_fitting(const SfLocator *loc, uint32 page, uint16 level, uint64 first_unit,
				const SfInode *inode)
{
	uint64		want = sfi_inode_entries(loc->nunits, level, first_unit);

	if (inode->level != level || inode->first_unit != first_unit || inode->nentries < want)
		report_damaged_page(page,
							psprintf("Expected level %u with " UINT64_FORMAT
									 " entries from unit " UINT64_FORMAT
									 " on, found level %u with %u from unit " UINT64_FORMAT ".",
									 level, want, first_unit,
									 inode->level, inode->nentries, inode->first_unit));
	SF_ASSERT(inode->nentries <= sfi_inode_capacity(level));
	for (int i = 0; i < inode->nentries; i++)
	{
		const char *problem = level == 0
			? sf_format_unit_problem(&inode->u.units[i], loc->flags, SF_PLAIN_UNKNOWN)
			: sf_format_child_problem(&inode->u.children[i]);

		if (problem != NULL)
			report_damaged_page(page, psprintf("Expected a sound entry %d: the %s.", i, problem));
	}
}

/*
 * Bytes behind the last entry mean nothing; they are zeros when a page is made, and no part
 * of its stamp.
 */
Size
sfi_inode_size(const SfInode *inode)
{
	return SF_INODE_HEADER + inode->nentries * sf_inode_entry_bytes(inode->level);
}

/* A page of a KEYED object is what the stamp says, which the pointer to it repeats. */
static void
require_genuine(SfSegment *seg, const SfLocator *loc, uint32 page, const SfInode *inode)
{
	if (sf_transform_stamp(sf_keys_of(seg, loc->key_id), inode, sfi_inode_size(inode)) !=
		inode->stamp)
		report_damaged_page(page, "Its contents cannot be authenticated.");
}

void
sfi_inode_fetch(SfSegment *seg, const SfLocator *loc, SfChild pointer, SfInode *inode)
{
	SfPageType	type;

	SF_ASSERT(pointer.page != SF_NO_PAGE && (loc->flags & SF_LOC_INODE));
	type = sf_space_read_page(seg, pointer.page, (char *) inode);
	if (type != SF_PAGE_INODE || inode->object_id != loc->object_id ||
		inode->stamp != pointer.stamp)
	{
		/*
		 * Not the page that was meant: say why.  First the case of logical
		 * decoding, where the value belongs to a transaction that was rolled
		 * back while it was being sent.
		 */
		sf_base_refuse_aborted();
		require_reused(seg, loc, type, inode, pointer);
		sf_base_report_outlived(psprintf("Page %u of its segment belongs to another value now.",
										 pointer.page));
	}
	if (loc->genuine)
		require_genuine(seg, loc, pointer.page, inode);
}

/*
 * It is the page that was meant, so what it says cannot be the work of a later owner: if it does
 * not fit the tree it is damaged.
 */
void
sfi_inode_read(SfSegment *seg, const SfLocator *loc, SfChild pointer, uint16 level,
			   uint64 first_unit, SfInode *inode)
{
	if (!(loc->flags & SF_LOC_INODE))
	{
		read_flat(loc, inode);
		return;
	}
	sfi_inode_fetch(seg, loc, pointer, inode);
	require_fitting(loc, pointer.page, level, first_unit, inode);
}

/* Range of units to be read, relative to the object. */
typedef struct UnitRange
{
	uint64		first;
	uint32		n;
	SfUnit	   *units;
} UnitRange;

void
sfi_inode_require_sound_unit(uint16 loc_flags, uint64 unit_space_bytes, uint64 unit_no,
							 const SfUnit *unit)
{
	const char *problem = sf_format_unit_problem(unit, loc_flags,
												 sf_unit_plain_bytes(unit_space_bytes, unit_no));

	if (problem != NULL)
		sf_base_report_damage("unit map of a securefile value is damaged",
							  psprintf("Unit " UINT64_FORMAT ": the %s.", unit_no, problem));
}

/* The units of the range that lie in [from, to) are holes. */
static void
put_holes(UnitRange *range, uint64 from, uint64 to)
{
	SF_ASSERT(from <= to);
	SF_ASSERT(from < range->first + range->n && to > range->first);
	from = Max(from, range->first);
	to = Min(to, range->first + range->n);
	for (uint64 i = from; i < to; i++)
		range->units[i - range->first] = (SfUnit) {.start = SF_HOLE};
}

/*
 * Units of the range below one node, which is at that level and begins with unit
 * node_first.  Only the entries that the range touches are followed.
 */
static void
read_level(SfSegment *seg, const SfLocator *loc, SfChild pointer, uint16 level,
		   uint64 node_first, UnitRange *range)
{
	SfInode    *inode = sfi_inode_alloc();
	uint64		below = sfi_inode_units_below(level);
	uint64		from = range->first > node_first ? (range->first - node_first) / below : 0;
	uint64		to = (range->first + range->n - 1 - node_first) / below + 1;

	SF_ASSERT(level < loc->depth && node_first < range->first + range->n);
	SF_ASSERT(range->first < node_first + below * sfi_inode_capacity(level));
	sfi_inode_read(seg, loc, pointer, level, node_first, inode);
	for (uint64 i = from; i < Min(to, inode->nentries); i++)
	{
		uint64		first = node_first + i * below;

		if (level == 0)
		{
			sfi_inode_require_sound_unit(loc->flags, loc->unit_space_bytes, first,
										 &inode->u.units[i]);
			range->units[first - range->first] = inode->u.units[i];
		}
		else if (inode->u.children[i].page == SF_NO_PAGE)
			put_holes(range, first, first + below);
		else
			read_level(seg, loc, inode->u.children[i], level - 1, first, range);
	}
	pfree(inode);
}

void
sf_object_units(SfSegment *seg, const SfLocator *loc, uint64 first, uint32 n, SfUnit *units)
{
	UnitRange	range = {first, n, units};

	SF_ASSERT(first + n <= loc->nunits);
	if (n == 0)
		return;
	if (!(loc->flags & SF_LOC_INODE))
	{
		sfi_object_flat_units(loc, first, n, units);
		return;
	}
	read_level(seg, loc, sfi_object_root(loc), loc->depth - 1, 0, &range);
}

/*
 * The first unit from first on, below a node at that level which begins with unit
 * node_first, that is stored; not_found if there is none.
 */
static uint64
next_stored(SfSegment *seg, const SfLocator *loc, SfChild pointer, uint16 level,
			uint64 node_first, uint64 first, uint64 not_found)
{
	SfInode    *inode = sfi_inode_alloc();
	uint64		below = sfi_inode_units_below(level);
	uint64		found = not_found;

	SF_ASSERT(level < loc->depth && first < not_found);
	sfi_inode_read(seg, loc, pointer, level, node_first, inode);

	/*
	 * A child without a stored unit from first on returns not_found, and the
	 * search goes on with its neighbour.  Pages of holes only do not exist
	 * (E4 of edit.c), so that happens once a level: the cost is that of one
	 * path, however long the hole.
	 */
	for (uint64 i = first > node_first ? (first - node_first) / below : 0;
		 i < inode->nentries && found == not_found; i++)
	{
		if (level == 0 && inode->u.units[i].start != SF_HOLE)
			found = node_first + i;
		else if (level > 0 && inode->u.children[i].page != SF_NO_PAGE)
			found = next_stored(seg, loc, inode->u.children[i], level - 1,
								node_first + i * below, first, not_found);
	}
	pfree(inode);
	return found;
}

uint64
sf_object_next_stored(SfSegment *seg, const SfLocator *loc, uint64 first)
{
	if (!(loc->flags & SF_LOC_INODE) || first >= loc->nunits)
		return Min(first, loc->nunits);
	return next_stored(seg, loc, sfi_object_root(loc), loc->depth - 1, 0, first, loc->nunits);
}
