/*-------------------------------------------------------------------------
 *
 * inode.c
 *	  Trees of inode pages: the unit map of a large object.
 *
 * Level 0 pages hold units, higher ones pointers to pages.  Every page but the
 * last of its level is full, so the place of a unit is arithmetic.  A page
 * says whose it is (object id) and which one (stamp), and the pointer to it
 * repeats the stamp: a locator that outlived its row finds out, even when the
 * page was used again for another object, or for the same one.
 *
 *-------------------------------------------------------------------------
 */
#include "base/base.h"

#include "miscadmin.h"
#include "object/object_internal.h"
#include "portability/instr_time.h"
#include "stats/stats.h"

#define PAGES_AT_ONCE	16

/* One level under construction. */
typedef struct LevelBuild
{
	uint64		object_id;
	uint16		level;
	uint64		done;			/* pages of this level written so far */
	const SfUnit *units;		/* level 0: what goes in */
	const SfChild *children;	/* above */
	uint64		n;				/* number of units or children */
	uint64		units_per_child;	/* units below one child of this level */
	SfPagesMade made;
	void	   *arg;
} LevelBuild;

static uint64
page_capacity(uint16 level)
{
	return level == 0 ? SF_INODE_MAX_UNITS : SF_INODE_MAX_CHILDREN;
}

/* Contents of page i of a batch (an SfPageFill). */
static uint32
fill_page(int i, const uint32 *pages, uint64 first_stamp, char *content, void *arg)
{
	LevelBuild *build = arg;
	SfInode    *inode = (SfInode *) content;
	uint64		capacity = page_capacity(build->level);
	uint64		from = (build->done + i) * capacity;
	uint32		n = Min(build->n - from, capacity);
	Size		size = build->level == 0 ? sizeof(SfUnit) : sizeof(SfChild);

	memset(inode, 0, SF_INODE_HEADER);
	inode->object_id = build->object_id;
	inode->stamp = first_stamp + i;
	inode->first_unit = from * build->units_per_child;
	inode->level = build->level;
	inode->nentries = n;
	if (build->level == 0)
		memcpy(inode->u.units, build->units + from, n * size);
	else
		memcpy(inode->u.children, build->children + from, n * size);
	return SF_INODE_HEADER + n * size;
}

/* Write one level; returns pointers to its pages. */
static SfChild *
build_level(SfSegment *seg, LevelBuild *build, uint64 *npages)
{
	uint64		capacity = page_capacity(build->level);
	SfChild    *out;

	*npages = (build->n + capacity - 1) / capacity;
	out = palloc_extended(*npages * sizeof(SfChild), MCXT_ALLOC_HUGE | MCXT_ALLOC_ZERO);
	while (build->done < *npages)
	{
		int			n = Min(*npages - build->done, PAGES_AT_ONCE);
		uint32		pages[PAGES_AT_ONCE];
		uint64		stamp;

		CHECK_FOR_INTERRUPTS();
		sf_space_new_inode_pages(seg, n, fill_page, build, pages, &stamp);
		build->made(pages, n, build->arg);
		for (int i = 0; i < n; i++)
			out[build->done + i] = (SfChild) {stamp + i, pages[i], 0};
		build->done += n;
	}
	return out;
}

static void
build_tree(SfSegment *seg, SfLocator *loc, const SfUnit *units, uint64 nunits,
		   SfPagesMade made, void *arg)
{
	LevelBuild	build = {.object_id = loc->object_id,.units = units,.n = nunits,
	.units_per_child = 1,.made = made,.arg = arg};
	uint64		npages;
	SfChild    *children;

	for (;;)
	{
		children = build_level(seg, &build, &npages);
		if (npages == 1)
			break;
		build.units_per_child *= page_capacity(build.level);
		build.level++;
		build.done = 0;
		build.n = npages;
		build.children = children;
	}
	loc->depth = build.level + 1;
	loc->root_page = children[0].page;
	loc->root_stamp = children[0].stamp;
}

void
sf_inode_build(SfSegment *seg, SfLocator *loc, const SfUnit *units, uint64 nunits,
			   SfPagesMade made, void *arg)
{
	instr_time	start;
	instr_time	end;

	INSTR_TIME_SET_CURRENT(start);
	build_tree(seg, loc, units, nunits, made, arg);
	INSTR_TIME_SET_CURRENT(end);
	INSTR_TIME_SUBTRACT(end, start);
	sf_stats_local(seg->table_oid, seg->attnum)->inode_write_time_us +=
		INSTR_TIME_GET_MICROSEC(end);
}

/* Read a page and make sure that it is the one meant. */
static void
read_inode(SfSegment *seg, const SfLocator *loc, SfChild pointer, uint16 level, SfInode *inode)
{
	SfPageType	type = sf_space_read_page(seg, pointer.page, (char *) inode);

	if (type != SF_PAGE_INODE || inode->object_id != loc->object_id ||
		inode->stamp != pointer.stamp)
	{
		sf_base_check_decoded();
		ereport(ERROR,
				(errcode(ERRCODE_UNDEFINED_OBJECT),
				 errmsg("securefile value no longer exists"),
				 errdetail("Page %u of its segment belongs to another value now.",
						   pointer.page),
				 errhint("Read the row again; if that fails, run securefile_check() on the column.")));
	}
	if (inode->level != level || inode->nentries == 0 ||
		inode->nentries > page_capacity(level))
		ereport(ERROR,
				(errcode(ERRCODE_DATA_CORRUPTED),
				 errmsg("inode page %u of a securefile segment is damaged", pointer.page),
				 errdetail("Expected level %u, found level %u with %u entries.",
						   level, inode->level, inode->nentries),
				 errhint("Run securefile_check() on the column.")));
}

static SfInode *
alloc_inode(void)
{
	return palloc(SF_PAGE_CONTENT);
}

/* Units below one entry of a page of a level. */
static uint64
units_below(uint16 level)
{
	uint64		n = 1;

	for (uint16 l = 0; l < level; l++)
		n *= page_capacity(l);
	return n;
}

/* Range of units to be read, relative to the object. */
typedef struct UnitRange
{
	uint64		first;
	uint32		n;
	SfUnit	   *units;
} UnitRange;

/* Check a unit that comes from an inode page. */
static void
check_unit(const SfLocator *loc, uint64 i, const SfUnit *unit)
{
	if (unit->start == SF_HOLE)
		return;
	if (unit->stored_bytes != sf_object_unit_bytes(loc, i) || unit->flags != 0 ||
		unit->start > (uint64) PG_INT64_MAX / SF_SECTOR_SIZE - SF_UNIT_SECTORS)
		ereport(ERROR,
				(errcode(ERRCODE_DATA_CORRUPTED),
				 errmsg("unit map of a securefile value is damaged"),
				 errdetail("Unit " UINT64_FORMAT ".", i),
				 errhint("Run securefile_check() on the column.")));
}

static void
read_level(SfSegment *seg, const SfLocator *loc, SfChild pointer, uint16 level,
		   uint64 page_first, UnitRange *range)
{
	SfInode    *inode = alloc_inode();
	uint64		below = units_below(level);
	uint64		end = range->first + range->n;

	read_inode(seg, loc, pointer, level, inode);
	for (uint32 i = 0; i < inode->nentries; i++)
	{
		uint64		first = page_first + i * below;

		if (first + below <= range->first || first >= end)
			continue;
		if (level > 0)
			read_level(seg, loc, inode->u.children[i], level - 1, first, range);
		else
		{
			check_unit(loc, first, &inode->u.units[i]);
			range->units[first - range->first] = inode->u.units[i];
		}
	}
	pfree(inode);
}

void
sf_inode_units(SfSegment *seg, const SfLocator *loc, uint64 first, uint32 n, SfUnit *units)
{
	UnitRange	range = {first, n, units};
	SfChild		root = {loc->root_stamp, loc->root_page, 0};

	/* what the tree does not say shows as a unit that fails its check */
	memset(units, 0, n * sizeof(SfUnit));
	read_level(seg, loc, root, loc->depth - 1, 0, &range);
}

static void
add_page(SfOwned *owned, int *size, uint32 page)
{
	if (owned->npages == *size)
	{
		*size *= 2;
		owned->pages = repalloc_huge(owned->pages, *size * sizeof(uint32));
	}
	owned->pages[owned->npages++] = page;
}

static void
collect_pages(SfSegment *seg, const SfLocator *loc, SfChild pointer, uint16 level,
			  SfOwned *owned, int *size)
{
	SfInode    *inode;

	add_page(owned, size, pointer.page);
	if (level == 0)
		return;
	inode = alloc_inode();
	read_inode(seg, loc, pointer, level, inode);
	for (uint32 i = 0; i < inode->nentries; i++)
		collect_pages(seg, loc, inode->u.children[i], level - 1, owned, size);
	pfree(inode);
}

void
sf_inode_pages(SfSegment *seg, const SfLocator *loc, SfOwned *owned)
{
	int			size = 32;
	SfChild		root = {loc->root_stamp, loc->root_page, 0};

	owned->pages = palloc(size * sizeof(uint32));
	collect_pages(seg, loc, root, loc->depth - 1, owned, &size);
}
