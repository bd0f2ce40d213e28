/*-------------------------------------------------------------------------
 *
 * pieces.c
 *	  Lists of pieces: which ranges of its unit space a PIECED value is, in order.
 *
 *		 unit space	[ AAAA | BBBBBBBB | CCCC | xx ]
 *		 list			A, x, C					(B was removed, x inserted)
 *		 value		[ AAAA | xx | CCCC ]
 *
 * So bytes are inserted or removed in the middle, and no other ones move: units keep their places,
 * and what versions share is told by places.
 *
 * A list stands in inode pages, one leaf or a root above leaves, which are copied on write as those
 * of unit maps are.  Unlike these, a leaf has as many pieces as it happens to have: were all leaves
 * full, a piece that comes in between would change all leaves behind it.  A leaf of the base whose
 * pieces follow one another in the new list, too, is kept:
 *
 *	 base		| a b c d e f | g h i j | k l m n |
 *	 version	| a b c d e f | g x i j | k l m n |
 *				   the same	   new page	 the same
 *
 * What holds of a list:
 *
 *	P1	pieces do not overlap, lie in the unit space, and are the length of the value together;
 *	P2	a leaf has the bytes that the root says;
 *	P3	a list without a leaf that the base has not is the base's own.
 *
 * Idea: DBMS_LOB.FRAGMENT_INSERT and the like; a piece table, as editors have it.
 *
 *-------------------------------------------------------------------------
 */
#include "base/base.h"

#include "keys/keys.h"
#include "miscadmin.h"
#include "object/edit_nodes.h"

#define PAGES_AT_ONCE	16

/* How many pieces a leaf takes: tests have it made a few. */
static int64
leaf_room(void)
{
	return SF_FAULT_SKIPS(short_lists) ? 5 : (int64) SF_LIST_MAX_PIECES;
}

/* ---- reading ---- */

static SfChild
list_root(const SfLocator *loc)
{
	SF_ASSERT(loc->flags & SF_LOC_PIECED);
	return (SfChild) {loc->pieces.stamp, loc->pieces.page, 0};
}

SF_NORETURN static void
report_damaged_list(uint32 page, const char *detail)
{
	sf_base_report_damage(psprintf("page %u of the list of pieces of a securefile value is damaged",
								   page), detail);
}

/*
 * P1 and P2 of a leaf.  That pieces do not overlap is not asked here: nothing goes wrong by it but
 * what the value reads as, and to know it the whole list has to be read
 * (sf_object_require_sound_list()).
 */
static void
require_sound_leaf(const SfLocator *loc, uint32 page, const SfInode *leaf, uint64 bytes)
{
	uint64		sum = 0;

	for (int i = 0; i < leaf->nentries; i++)
	{
		const SfRange *piece = &leaf->u.pieces[i];

		if (piece->length == 0 || piece->length > loc->unit_space_bytes ||
			piece->start > loc->unit_space_bytes - piece->length)
			report_damaged_list(page, psprintf("Piece %d lies outside of the unit space.", i));
		sum += piece->length;
	}
	if (sum != bytes)
		report_damaged_list(page,
							psprintf("Expected " UINT64_FORMAT " bytes, found " UINT64_FORMAT ".",
									 bytes, sum));
}

/* Read a leaf that has so many bytes of the value. */
static void
read_leaf(SfSegment *seg, const SfLocator *loc, SfChild pointer, uint64 bytes, SfInode *leaf)
{
	sfi_inode_fetch(seg, loc, pointer, leaf);
	if (leaf->level != SF_LIST_LEVEL)
		report_damaged_list(pointer.page, psprintf("Expected level %d, found %d.", SF_LIST_LEVEL,
												   leaf->level));
	SF_ASSERT(leaf->nentries > 0 && leaf->nentries <= SF_LIST_MAX_PIECES);
	require_sound_leaf(loc, pointer.page, leaf, bytes);
}

/* Read the root above leaves.  What it says of them is checked before any of them is read. */
static void
read_root(SfSegment *seg, const SfLocator *loc, SfInode *root)
{
	SfChild		pointer = list_root(loc);
	uint64		sum = 0;

	SF_ASSERT(loc->pieces.depth == 2);
	sfi_inode_fetch(seg, loc, pointer, root);
	if (root->level != SF_LIST_LEVEL + 1)
		report_damaged_list(pointer.page,
							psprintf("Expected level %d, found %d.", SF_LIST_LEVEL + 1,
									 root->level));
	for (int i = 0; i < root->nentries; i++)
	{
		const SfListChild *child = &root->u.leaves[i];

		if (!sf_is_dynamic_page(child->page) || child->stamp == 0 || child->reserved != 0 ||
			child->bytes == 0 || child->bytes > loc->pieces.value_bytes - sum)
			report_damaged_list(pointer.page, psprintf("Expected a sound entry %d.", i));
		sum += child->bytes;
	}
	if (sum != loc->pieces.value_bytes)
		report_damaged_list(pointer.page, "Its leaves are not the length of the value together.");
}

/* The leaves of a list, as a root has them; *n: how many.  palloc'd. */
static SfListChild *
leaves_of(SfSegment *seg, const SfLocator *loc, int *n)
{
	SfInode    *root;
	SfListChild *leaves;

	if (loc->pieces.depth == 1)
	{
		leaves = palloc(sizeof(SfListChild));
		*leaves = (SfListChild) {loc->pieces.stamp, loc->pieces.value_bytes, loc->pieces.page, 0};
		*n = 1;
		return leaves;
	}
	root = sfi_inode_alloc();
	read_root(seg, loc, root);
	*n = root->nentries;
	leaves = palloc(*n * sizeof(SfListChild));
	memcpy(leaves, root->u.leaves, *n * sizeof(SfListChild));
	pfree(root);
	return leaves;
}

static SfChild
leaf_pointer(const SfListChild *leaf)
{
	return (SfChild) {leaf->stamp, leaf->page, 0};
}

/* A list in the making. */
typedef struct Ranges
{
	SfRange    *ranges;
	int64		n;
	int64		size;
} Ranges;

/* Append what a leaf, which begins at that place of the value, has of [from, to). */
static void
append_leaf(Ranges *list, const SfInode *leaf, uint64 at, uint64 from, uint64 to)
{
	for (int i = 0; i < leaf->nentries && at < to; at += leaf->u.pieces[i++].length)
	{
		const SfRange *piece = &leaf->u.pieces[i];
		uint64		first = Max(at, from);
		uint64		end = Min(at + piece->length, to);

		if (first >= end)
			continue;
		list->ranges = sf_base_array_grow(list->ranges, list->n, &list->size, sizeof(SfRange),
										  CurrentMemoryContext);
		list->ranges[list->n++] = (SfRange) {piece->start + (first - at), end - first};
	}
}

/*
 * Only the leaves that have bytes of it are read: two pages for a short range of a value in very
 * many pieces.
 */
int64
sf_object_ranges(SfSegment *seg, const SfLocator *loc, uint64 from, uint64 to, SfRange **ranges)
{
	Ranges		list = {0};
	SfListChild *leaves;
	SfInode    *leaf;
	uint64		at = 0;
	int			n;

	SF_ASSERT(from < to && to <= sf_locator_value_bytes(loc));
	if (!(loc->flags & SF_LOC_PIECED))
	{
		*ranges = palloc(sizeof(SfRange));
		**ranges = (SfRange) {from, to - from};
		return 1;
	}
	leaves = leaves_of(seg, loc, &n);
	leaf = sfi_inode_alloc();
	for (int i = 0; i < n && at < to; at += leaves[i++].bytes)
	{
		if (at + leaves[i].bytes <= from)
			continue;
		CHECK_FOR_INTERRUPTS();
		read_leaf(seg, loc, leaf_pointer(&leaves[i]), leaves[i].bytes, leaf);
		append_leaf(&list, leaf, at, from, to);
	}
	pfree(leaf);
	pfree(leaves);
	SF_ASSERT(list.n > 0);
	*ranges = list.ranges;
	return list.n;
}

/* For qsort(): by their starts. */
static int
compare_starts(const void *a, const void *b)
{
	uint64		x = ((const SfRange *) a)->start;
	uint64		y = ((const SfRange *) b)->start;

	return x < y ? -1 : x > y;
}

void
sf_object_require_sound_list(SfSegment *seg, const SfLocator *loc)
{
	SfRange    *ranges;
	int64		n = sf_object_ranges(seg, loc, 0, sf_locator_value_bytes(loc), &ranges);

	SF_ASSERT(loc->flags & SF_LOC_PIECED);
	qsort(ranges, n, sizeof(SfRange), compare_starts);
	for (int64 i = 1; i < n; i++)
		if (ranges[i - 1].start + ranges[i - 1].length > ranges[i].start)
			report_damaged_list(loc->pieces.page,
								psprintf("Two pieces have the byte at " UINT64_FORMAT " of the unit space.",
										 ranges[i].start));
	pfree(ranges);
}

/* ---- ownership ---- */

int
sfi_list_pages(SfSegment *seg, const SfLocator *loc, SfChild **pages)
{
	SfListChild *leaves;
	int			nleaves;
	int			n = 0;

	*pages = NULL;
	if (!(loc->flags & SF_LOC_PIECED))
		return 0;
	leaves = leaves_of(seg, loc, &nleaves);
	*pages = palloc((nleaves + 1) * sizeof(SfChild));
	if (loc->pieces.depth > 1)
		(*pages)[n++] = list_root(loc);
	for (int i = 0; i < nleaves; i++)
		(*pages)[n++] = leaf_pointer(&leaves[i]);
	pfree(leaves);
	return n;
}

/* ---- writing ---- */

/* A leaf of the list that is made: one of the base (stamp > 0), or to be written. */
typedef struct Leaf
{
	SfListChild pointer;
	int64		first;			/* its pieces in the list */
	int64		n;
} Leaf;

/* A list in the making. */
typedef struct Making
{
	SfEdit	   *edit;
	const SfRange *ranges;
	int64		nranges;
	Leaf	   *leaves;
	int64		nleaves;
	int64		leaves_size;
	uint16		level;			/* that is written, */
	int64	   *batch;			/* these leaves of it */
	const SfDataKey *key;		/* of a KEYED object, else NULL */
	uint64		root_stamp;
} Making;

static uint64
bytes_of(const SfRange *ranges, int64 n)
{
	uint64		sum = 0;

	for (int64 i = 0; i < n; i++)
		sum += ranges[i].length;
	return sum;
}

static void
add_leaf(Making *making, Leaf leaf)
{
	SF_ASSERT(leaf.n > 0 && leaf.n <= SF_LIST_MAX_PIECES);
	making->leaves = sf_base_array_grow(making->leaves, making->nleaves, &making->leaves_size,
										sizeof(Leaf), CurrentMemoryContext);
	making->leaves[making->nleaves++] = leaf;
}

/* Add leaves for pieces that no leaf of the base has, as few as can be, and as even. */
static void
add_new_leaves(Making *making, int64 first, int64 n)
{
	int64		nleaves = (n + leaf_room() - 1) / leaf_room();

	for (int64 i = 0; i < nleaves; i++)
	{
		int64		begin = first + n * i / nleaves;
		int64		end = first + n * (i + 1) / nleaves;

		add_leaf(making, (Leaf) {{0, bytes_of(&making->ranges[begin], end - begin)}, begin,
										end - begin});
	}
}

/* Where pieces of the list are, by their starts, which differ. */
typedef struct Place
{
	uint64		start;
	int64		i;
} Place;

static HTAB *
places_of(const Making *making)
{
	HASHCTL		ctl = {.keysize = sizeof(uint64), .entrysize = sizeof(Place),
		.hcxt = CurrentMemoryContext};
	HTAB	   *places = hash_create("securefile pieces", making->nranges, &ctl,
									 HASH_ELEM | HASH_BLOBS | HASH_CONTEXT);

	for (int64 i = 0; i < making->nranges; i++)
	{
		Place	   *place = hash_search(places, &making->ranges[i].start, HASH_ENTER, NULL);

		place->i = i;
	}
	return places;
}

/*
 * For each piece of the new list with which a leaf of the base begins, all of whose pieces follow
 * there: that leaf; else n is 0.
 */
static Leaf *
kept_leaves(Making *making, const SfLocator *base)
{
	Leaf	   *kept = palloc_extended(making->nranges * sizeof(Leaf),
									   MCXT_ALLOC_HUGE | MCXT_ALLOC_ZERO);
	HTAB	   *places = places_of(making);
	SfInode    *leaf = sfi_inode_alloc();
	int			n;
	SfListChild *leaves = leaves_of(making->edit->seg, base, &n);

	for (int i = 0; i < n; i++)
	{
		const Place *place;

		CHECK_FOR_INTERRUPTS();
		read_leaf(making->edit->seg, base, leaf_pointer(&leaves[i]), leaves[i].bytes, leaf);
		place = hash_search(places, &leaf->u.pieces[0].start, HASH_FIND, NULL);
		if (place != NULL && place->i + leaf->nentries <= making->nranges &&
			memcmp(&making->ranges[place->i], leaf->u.pieces,
				   leaf->nentries * sizeof(SfRange)) == 0)
			kept[place->i] = (Leaf) {leaves[i], place->i, leaf->nentries};
	}
	pfree(leaves);
	pfree(leaf);
	hash_destroy(places);
	return kept;
}

/*
 * Which leaves the list has.  A few pieces that no leaf of the base has take their neighbours
 * along, so that leaves do not become many and short.
 */
static void
plan_leaves(Making *making, const SfLocator *base)
{
	Leaf	   *kept = base != NULL && (base->flags & SF_LOC_PIECED) ?
		kept_leaves(making, base) : NULL;
	int64		first = 0;		/* of those that no leaf has */
	int64		i = 0;

	while (i < making->nranges)
	{
		int64		n = kept == NULL ? 0 : kept[i].n;

		if (n == 0)
		{
			i++;
			continue;
		}
		if (i == first || i - first >= leaf_room() / 4)
		{
			add_new_leaves(making, first, i - first);
			add_leaf(making, kept[i]);
			first = i + n;
		}
		i += n;
	}
	add_new_leaves(making, first, making->nranges - first);
	if (making->nleaves > (int64) SF_LIST_MAX_LEAVES)
	{
		making->nleaves = 0;
		add_new_leaves(making, 0, making->nranges);
	}
	SF_ASSERT(making->nleaves > 0 && making->nleaves <= (int64) SF_LIST_MAX_LEAVES);
	if (kept != NULL)
		pfree(kept);
}

/*
 * Contents of the i-th page of a batch (an SfPageFill).  It neither reads nor allocates: the
 * numbers of the pages are given out already, and an ERROR would waste them.  The pointer to a
 * leaf becomes known here, and the root, which has them, is written last.
 */
static uint32
fill_list_page(int i, const uint32 *pages, uint64 first_stamp, char *content, void *arg)
{
	Making	   *making = arg;
	SfInode    *inode = (SfInode *) content;
	Leaf	   *leaf = &making->leaves[making->batch[i]];
	Size		len;

	memset(inode, 0, SF_INODE_HEADER);
	inode->object_id = making->edit->loc.object_id;
	inode->level = making->level;
	if (making->level == SF_LIST_LEVEL)
	{
		inode->nentries = leaf->n;
		memcpy(inode->u.pieces, &making->ranges[leaf->first], leaf->n * sizeof(SfRange));
	}
	else
	{
		inode->nentries = making->nleaves;
		for (int64 k = 0; k < making->nleaves; k++)
			inode->u.leaves[k] = making->leaves[k].pointer;
	}
	len = sfi_inode_size(inode);
	inode->stamp = making->key == NULL ? first_stamp + i
		: sf_transform_stamp(making->key, inode, len);
	if (making->level > SF_LIST_LEVEL)
		making->root_stamp = inode->stamp;
	else
	{
		leaf->pointer.stamp = inode->stamp;
		leaf->pointer.page = pages[i];
	}
	return len;
}

/* Make pages of a batch, in one WAL record, and let their owner know at once. */
static void
write_list_pages(Making *making, int64 *batch, int n, uint32 *pages)
{
	SfEdit	   *edit = making->edit;
	uint64		first_stamp;

	SF_ASSERT(n > 0 && n <= PAGES_AT_ONCE);
	CHECK_FOR_INTERRUPTS();
	making->batch = batch;
	making->key = sfi_edit_data_key(edit);
	sf_space_new_inode_pages(edit->seg, n, fill_list_page, making, pages, &first_stamp);
	edit->made(pages, n, edit->arg);
}

/* Write the leaves that the base has not. */
static void
write_leaves(Making *making)
{
	int64		batch[PAGES_AT_ONCE];
	uint32		pages[PAGES_AT_ONCE];
	int			n = 0;

	making->level = SF_LIST_LEVEL;
	for (int64 i = 0; i < making->nleaves; i++)
	{
		if (making->leaves[i].pointer.stamp == 0)
			batch[n++] = i;
		if (n == PAGES_AT_ONCE || (i == making->nleaves - 1 && n > 0))
		{
			write_list_pages(making, batch, n, pages);
			n = 0;
		}
	}
}

/* P3: has the base the same leaves, below a root? */
static bool
has_root_of(const Making *making, const SfLocator *base)
{
	SfInode    *root;
	bool		same;

	if (base == NULL || !(base->flags & SF_LOC_PIECED) || base->pieces.depth != 2 ||
		base->pieces.value_bytes != bytes_of(making->ranges, making->nranges))
		return false;
	root = sfi_inode_alloc();
	read_root(making->edit->seg, base, root);
	same = root->nentries == making->nleaves;
	for (int64 i = 0; i < making->nleaves && same; i++)
		same = memcmp(&root->u.leaves[i], &making->leaves[i].pointer, sizeof(SfListChild)) == 0;
	pfree(root);
	return same;
}

SfPieceRoot
sfi_list_write(SfEdit *edit, const SfNewList *list)
{
	Making		making = {.edit = edit, .ranges = list->ranges, .nranges = list->n};
	SfPieceRoot root = {.value_bytes = bytes_of(list->ranges, list->n), .depth = 1};
	int64		batch[1] = {0};

	SF_ASSERT(list->n > 0 && list->n <= SF_PIECES_MAX);
	plan_leaves(&making, list->base);
	SF_FAULT(list_before);
	write_leaves(&making);
	SF_FAULT(list_leaves);
	root.stamp = making.leaves[0].pointer.stamp;
	root.page = making.leaves[0].pointer.page;
	if (making.nleaves > 1 && has_root_of(&making, list->base))
		root = list->base->pieces;
	else if (making.nleaves > 1)
	{
		making.level = SF_LIST_LEVEL + 1;
		write_list_pages(&making, batch, 1, &root.page);
		root.stamp = making.root_stamp;
		root.depth = 2;
	}
	SF_ASSERT(root.stamp > 0 && sf_is_dynamic_page(root.page));
	pfree(making.leaves);
	return root;
}
