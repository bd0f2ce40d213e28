/*-------------------------------------------------------------------------
 *
 * edit.c
 *	  A unit map under construction: a new object's, or that of a new version
 *	  of an object, copied on write from leaf to root.
 *
 * Nodes are loaded when they are looked at, changed in memory, and written as
 * new pages: when there are too many of them, level by level from the leaves,
 * and in the end.  So memory is bounded, however large the object.
 *
 * E1	the pointer to a node that is changed in memory is stale; writing the
 *		node sets it, which changes the parent;
 * E2	of a node in memory the first nset entries are set, none of them behind the
 *		end of the object; the others are holes, and nobody has to set them;
 * E3	a node that is not the last of its level is written full, so one that
 *		was the last is loaded and changed when the object grows behind it;
 * E4	a node of holes is not written: the pointer to it leads nowhere, unless
 *		it is the root.
 *
 * The tree, and what an edit of one unit of it does:
 *
 *	level 2					root
 *							/	\
 *	level 1			 inner		 inner'
 *					/	\		/	  \
 *	level 0		 leaf	leaf  leaf'	  leaf
 *
 * The edit loads the path (marked) and changes leaf'.  Writing leaf' makes a new page, so
 * inner' gets a new pointer and has to be written, too, and then the root.  All other
 * pages are those of the base, which keeps its own path: readers of the base see no
 * change.  That is why a page, once written, is never written again, and why levels are
 * written from the leaves on: a parent is written when all its pointers are final.
 *
 * Room for nodes: MAX_NODES is the limit at which all of one level is written and
 * forgotten.  It is looked at between calls from outside only, so one call may go beyond
 * it: each of the 48 leaves of a full set can have ancestors of its own, one a level.
 *
 *-------------------------------------------------------------------------
 */
#include "base/base.h"

#include "keys/keys.h"
#include "miscadmin.h"
#include "object/object_internal.h"
#include "portability/instr_time.h"
#include "stats/stats.h"

#define MAX_NODES		48		/* 384 KB */
#define PAGES_AT_ONCE	16

typedef struct EditNode
{
	uint64		index;			/* among the nodes of its level */
	uint16		level;
	bool		changed;
	uint32		nset;			/* the entries behind are holes that are not
								 * set */
	SfInode    *inode;
} EditNode;

struct SfEdit
{
	SfSegment  *seg;
	SfLocator	loc;			/* the version being made; nunits: as it is
								 * now */
	MemoryContext context;
	uint16		depth;
	SfChild		root;			/* stale while the root node is changed */
	SfPagesMade made;
	void	   *arg;
	int			nnodes;
	EditNode	nodes[MAX_NODES * SF_INODE_MAX_DEPTH];	/* writing leaves loads
														 * their ancestors */
};

static EditNode *get_node(SfEdit *edit, uint16 level, uint64 index);

/* Set holes, so that at least the first n entries of a node are set. */
static void
set_holes(EditNode *node, uint64 n)
{
	SF_ASSERT(n <= sfi_inode_capacity(node->level));
	for (; node->nset < n; node->nset++)
		if (node->level == 0)
			node->inode->u.units[node->nset] = (SfUnit) {.start = SF_HOLE};
		else
			node->inode->u.children[node->nset] = SF_HOLE_CHILD;
}

/* Entry i of a leaf. */
static SfUnit
unit_of(const EditNode *leaf, uint64 i)
{
	return i < leaf->nset ? leaf->inode->u.units[i] : (SfUnit) {.start = SF_HOLE};
}

static void
set_unit(EditNode *leaf, uint64 i, const SfUnit *unit)
{
	set_holes(leaf, i);
	leaf->nset = Max(leaf->nset, i + 1);
	leaf->inode->u.units[i] = *unit;
}

/* Entry i of an inner node. */
static SfChild
child_of(const EditNode *node, uint64 i)
{
	return i < node->nset ? node->inode->u.children[i] : SF_HOLE_CHILD;
}

static void
set_child(EditNode *node, uint64 i, SfChild child)
{
	set_holes(node, i);
	node->nset = Max(node->nset, i + 1);
	node->inode->u.children[i] = child;
}

/* Is entry i of a node, which is set, a hole? */
static bool
is_hole(const SfInode *inode, uint16 level, uint64 i)
{
	return level == 0 ? inode->u.units[i].start == SF_HOLE
		: inode->u.children[i].page == SF_NO_PAGE;
}

/* The first unit of a node. */
static uint64
first_unit_of(uint16 level, uint64 index)
{
	return index * sfi_inode_units_below(level + 1);
}

/* How many entries of a node are before the end of the object. */
static uint64
entries_inside(const SfEdit *edit, uint16 level, uint64 index)
{
	return sfi_inode_entries(edit->loc.nunits, level, first_unit_of(level, index));
}

/* ---- nodes in memory ---- */

/*
 * The node if it is in memory, or NULL. The search is linear, from the end: the node
 * that was loaded last is nearly always the one asked for, and there are few.
 */
static EditNode *
find_node(SfEdit *edit, uint16 level, uint64 index)
{
	for (int i = edit->nnodes - 1; i >= 0; i--)
		if (edit->nodes[i].index == index && edit->nodes[i].level == level)
			return &edit->nodes[i];
	return NULL;
}

/* Note a node as loaded, with so many entries.  There is room: see the head of this file. */
static EditNode *
add_node(SfEdit *edit, uint16 level, uint64 index, SfInode *inode, uint32 nset)
{
	EditNode   *node = &edit->nodes[edit->nnodes];

	SF_ASSERT(edit->nnodes < lengthof(edit->nodes) && level < edit->depth);
	SF_ASSERT(find_node(edit, level, index) == NULL);
	node->index = index;
	node->level = level;
	node->changed = false;
	node->nset = nset;
	node->inode = inode;
	edit->nnodes++;
	return node;
}

/* Takes the last node's place: pointers to nodes do not survive it. */
static void
forget_node(SfEdit *edit, EditNode *node)
{
	SF_ASSERT(edit->nnodes > 0 && node >= edit->nodes && node < edit->nodes + edit->nnodes);
	pfree(node->inode);
	*node = edit->nodes[--edit->nnodes];
}

/*
 * The pointer to a node: in its parent, which is loaded by that, or in the edit if it is
 * the root.
 */
static SfChild
pointer_to(SfEdit *edit, uint16 level, uint64 index)
{
	uint64		capacity = sfi_inode_capacity(level + 1);

	SF_ASSERT(level < edit->depth);
	if (level == edit->depth - 1)
		return edit->root;
	return child_of(get_node(edit, level + 1, index / capacity), index % capacity);
}

/*
 * Set the pointer to a node that was written, or that has become a hole.  The parent is
 * changed by that (E1), so it will be written with its own level.
 */
static void
set_pointer(SfEdit *edit, uint16 level, uint64 index, SfChild pointer)
{
	uint64		capacity = sfi_inode_capacity(level + 1);
	EditNode   *parent;

	SF_ASSERT(level < edit->depth);
	if (level == edit->depth - 1)
	{
		edit->root = pointer;
		return;
	}
	parent = get_node(edit, level + 1, index / capacity);
	set_child(parent, index % capacity, pointer);
	parent->changed |= !SF_BREAKS(e1);
}

/*
 * The node, loaded with its ancestors if it is not there.  Valid until the next call that
 * loads or forgets one.
 *
 * Entries behind the end of the object are left out here (E2), whatever the page has: the
 * object may have been cut since, and a later growth must find holes there, not the units
 * of before.
 */
static EditNode *
get_node(SfEdit *edit, uint16 level, uint64 index)
{
	EditNode   *node = find_node(edit, level, index);
	SfChild		pointer;
	SfInode    *inode;
	uint32		nset = 0;

	if (node != NULL)
		return node;
	pointer = pointer_to(edit, level, index);
	inode = MemoryContextAlloc(edit->context, SF_PAGE_CONTENT);
	memset(inode, 0, SF_INODE_HEADER);
	if (pointer.page != SF_NO_PAGE)
	{
		sfi_inode_read(edit->seg, &edit->loc, pointer, level, first_unit_of(level, index), inode);
		nset = Min(inode->nentries, entries_inside(edit, level, index));
	}
	return add_node(edit, level, index, inode, nset);
}

/* ---- writing ---- */

/* Only a root is written when it has holes only: a locator leads to a page. */
static bool
is_empty(SfEdit *edit, const EditNode *node)
{
	if (node->level == edit->depth - 1)
		return false;
	for (uint32 i = 0; i < node->nset; i++)
		if (!is_hole(node->inode, node->level, i))
			return false;
	return true;
}

/* E1: levels are written from the leaves on, so that no pointer is stale. */
static bool
is_written(const SfEdit *edit, uint16 levels)
{
	for (int i = 0; i < edit->nnodes; i++)
		if (edit->nodes[i].level < levels && edit->nodes[i].changed)
			return false;
	return true;
}

#ifdef SF_ASSERTIONS
/* A node that becomes a page.  Goes through its entries, as the copy of it does. */
static void
check_node(SfEdit *edit, const EditNode *node)
{
	SF_ASSERT(node->changed);
	SF_INVARIANT(E2, node->nset <= entries_inside(edit, node->level, node->index));
	SF_INVARIANT(E4, !is_empty(edit, node));
}

static bool
is_changed(SfEdit *edit, uint16 level, uint64 index)
{
	const EditNode *node = find_node(edit, level, index);

	return node != NULL && node->changed;
}

/* E1: the parent of a node that was written knows that it is to be written, too. */
static void
check_parent(SfEdit *edit, const EditNode *node)
{
	SF_INVARIANT(E1, node->level == edit->depth - 1 ||
				 is_changed(edit, node->level + 1,
							node->index / sfi_inode_capacity(node->level + 1)));
}

/* E3: what was the last node of its level, and is written anew with more entries. */
static void
check_last_nodes(SfEdit *edit, uint16 depth, uint64 nunits)
{
	for (uint16 level = 0; nunits > 0 && level < depth; level++)
	{
		uint64		index = (nunits - 1) / sfi_inode_units_below(level + 1);
		uint64		below = sfi_inode_units_below(level);
		uint64		entries = (nunits + below - 1) / below - index * sfi_inode_capacity(level);

		SF_INVARIANT(E3, entries == sfi_inode_capacity(level) || is_changed(edit, level, index));
	}
}
#else
#define check_node(edit, node)		((void) 0)
#define check_parent(edit, node)	((void) 0)
#define check_last_nodes(edit, depth, nunits)	((void) 0)
#endif

/* The depth fits the size, and no node is loaded twice or lies outside.  Goes through all nodes. */
static bool
edit_is_valid(SfEdit *edit)
{
	if (edit->depth != sfi_inode_depth(edit->loc.nunits) || edit->nnodes > lengthof(edit->nodes))
		return false;
	for (int i = 0; i < edit->nnodes; i++)
	{
		const EditNode *node = &edit->nodes[i];

		if (node->level >= edit->depth || find_node(edit, node->level, node->index) != node)
			return false;
		/* the root of an empty object is inside, too */
		if (node->index > 0 && entries_inside(edit, node->level, node->index) == 0)
			return false;
	}
	return true;
}

/* Some changed nodes of a level, about to become pages. */
typedef struct Batch
{
	SfEdit	   *edit;
	EditNode   *nodes[PAGES_AT_ONCE];
	int			n;
	const SfDataKey *key;		/* of a KEYED object, else NULL */
} Batch;

/* The data key of a KEYED object, else NULL; good until the next key is asked for. */
static const SfDataKey *
data_key_of(const SfEdit *edit)
{
	return edit->loc.flags & SF_LOC_KEYED ? sf_keys_of(edit->seg, edit->loc.key_id) : NULL;
}

/*
 * Contents of page i of a batch (an SfPageFill).  It copies, and neither loads a node nor
 * allocates: the numbers of the pages are given out already, and an ERROR would waste
 * them.
 */
static uint32
fill_page(int i, const uint32 *pages, uint64 first_stamp, char *content, void *arg)
{
	Batch	   *batch = arg;
	EditNode   *node = batch->nodes[i];
	SfInode    *inode = node->inode;
	Size		len;

	check_node(batch->edit, node);
	inode->object_id = batch->edit->loc.object_id;
	inode->first_unit = first_unit_of(node->level, node->index);
	inode->level = node->level;
	inode->nentries = entries_inside(batch->edit, node->level, node->index);
	set_holes(node, inode->nentries);
	len = sfi_inode_size(inode);
	inode->stamp = batch->key == NULL ? first_stamp + i
		: sf_transform_stamp(batch->key, inode, len);
	memcpy(content, inode, len);
	return len;
}

/*
 * Make pages of some nodes, in one WAL record, and let their parents know.  The owner of
 * the object is told before anything else can fail: if the transaction goes wrong later,
 * the pages are found in its list and given back.
 */
static void
write_batch(Batch *batch)
{
	SfEdit	   *edit = batch->edit;
	uint32		pages[PAGES_AT_ONCE];
	uint64		first_stamp;

	SF_ASSERT(batch->n <= PAGES_AT_ONCE);
	if (batch->n == 0)
		return;
	CHECK_FOR_INTERRUPTS();
	batch->key = data_key_of(edit);
	sf_space_new_inode_pages(edit->seg, batch->n, fill_page, batch, pages, &first_stamp);
	edit->made(pages, batch->n, edit->arg);
	SF_ASSERT(first_stamp > 0);
	for (int i = 0; i < batch->n; i++)
	{
		/*
		 * May load the parent, which moves no node: only forget_node() does
		 * that.
		 */
		SF_ASSERT(pages[i] != 0 && pages[i] != SF_NO_PAGE && !SF_IS_MAP_PAGE(pages[i]));
		set_pointer(edit, batch->nodes[i]->level, batch->nodes[i]->index,
					(SfChild) {batch->nodes[i]->inode->stamp, pages[i], 0});
		check_parent(edit, batch->nodes[i]);
		batch->nodes[i]->changed = false;
	}
	batch->n = 0;
}

/*
 * Write the changed nodes of a level.  Their parents may be loaded by that,
 * which moves no node.
 */
static void
write_level(SfEdit *edit, uint16 level)
{
	Batch		batch = {.edit = edit};
	int			n = edit->nnodes;

	SF_INVARIANT(E1, is_written(edit, level));
	for (int i = 0; i < n; i++)
	{
		EditNode   *node = &edit->nodes[i];

		if (node->level != level || !node->changed)
			continue;
		if (is_empty(edit, node) && !SF_BREAKS(e4))
		{
			set_pointer(edit, level, node->index, SF_HOLE_CHILD);
			node->changed = false;
			continue;
		}
		batch.nodes[batch.n++] = node;
		if (batch.n == PAGES_AT_ONCE)
			write_batch(&batch);
	}
	write_batch(&batch);
}

/*
 * Forget the nodes of a level that was written.  From the end, since the last one fills a
 * gap.
 */
static void
forget_level(SfEdit *edit, uint16 level)
{
	SF_INVARIANT(E1, is_written(edit, level + 1));
	for (int i = edit->nnodes - 1; i >= 0; i--)
		if (edit->nodes[i].level == level)
			forget_node(edit, &edit->nodes[i]);
}

/*
 * Before a node is asked for from outside: make room for it and its path.  Leaves go
 * first; they are most of the nodes, and writing them may load inner nodes, which then
 * are the next to go if there still are too many.
 */
static void
make_room(SfEdit *edit)
{
	for (uint16 level = 0; edit->nnodes >= MAX_NODES; level++)
	{
		SF_ASSERT(level < edit->depth);
		write_level(edit, level);
		forget_level(edit, level);
	}
}

/* ---- what an editor sees ---- */

SfEdit *
sf_object_edit(SfSegment *seg, const SfLocator *version, const SfLocator *base,
			   SfPagesMade made, void *arg)
{
	SfEdit	   *edit = palloc(sizeof(SfEdit));

	SF_ASSERT(base == NULL || (base->object_id == version->object_id &&
							   base->generation < version->generation));
	edit->seg = seg;
	edit->loc = *version;
	SF_ASSERT(base == NULL || base->key_id == version->key_id);

	/*
	 * One that has a transformed unit once says so of all versions to come.
	 * The pages of a KEYED base are authenticated as they are read.
	 */
	edit->loc.flags = SF_LOC_INODE | (version->flags & SF_LOC_SHARED) |
		(base == NULL ? 0 : base->flags & SF_LOC_UNITS);
	if (version->key_id != 0)
		edit->loc.flags |= SF_LOC_UNITS | SF_LOC_KEYED;
	edit->loc.genuine = version->key_id != 0;
	edit->context = CurrentMemoryContext;
	edit->loc.nunits = base == NULL ? 0 : base->nunits;
	edit->depth = sfi_inode_depth(edit->loc.nunits);
	edit->root = base == NULL ? SF_HOLE_CHILD : sfi_object_root(base);
	edit->made = made;
	edit->arg = arg;
	edit->nnodes = 0;

	/*
	 * A flat map has no page that could be loaded again.  So its leaf counts
	 * as changed from the beginning, and stays in memory until it is encoded
	 * or written.
	 */
	if (base != NULL && !(base->flags & SF_LOC_INODE))
	{
		EditNode   *leaf = get_node(edit, 0, 0);

		leaf->nset = base->nunits;
		leaf->changed = true;
		sfi_object_flat_units(base, 0, base->nunits, leaf->inode->u.units);
	}
	return edit;
}

/*
 * Cut a node at the end of the object (E2).  It is changed even if nothing fell away: the
 * page that it was read from has entries behind the end.
 */
static void
cut_node(SfEdit *edit, uint16 level, uint64 index)
{
	EditNode   *node = get_node(edit, level, index);
	uint64		inside = entries_inside(edit, level, index);

	SF_ASSERT(inside > 0);
	if (!SF_BREAKS(e2))
		node->nset = Min(node->nset, inside);
	node->changed = true;
}

/*
 * The root becomes the node that its first entry leads to: the tree has the least depth
 * that holds all units, in every version, so that the depth tells where a unit is.
 */
static void
lower_root(SfEdit *edit)
{
	uint16		level = edit->depth - 1;
	EditNode   *root = get_node(edit, level, 0);

	SF_ASSERT(level > 0);
	edit->root = child_of(root, 0);
	forget_node(edit, root);
	edit->depth--;
}

/*
 * Cut the object.  Nodes behind the end are forgotten without being written; then the
 * tree gets its new depth; then the last node of each level is cut.
 */
static void
shrink(SfEdit *edit, uint64 nunits)
{
	SF_ASSERT(nunits < edit->loc.nunits);
	edit->loc.nunits = nunits;

	/*
	 * From the end: forget_node() puts the last node into the gap, and that
	 * one was looked at already.
	 */
	for (int i = edit->nnodes - 1; i >= 0; i--)
		if (entries_inside(edit, edit->nodes[i].level, edit->nodes[i].index) == 0)
			forget_node(edit, &edit->nodes[i]);
	while (edit->depth > sfi_inode_depth(nunits))
		lower_root(edit);
	if (nunits == 0)
		edit->root = SF_HOLE_CHILD;
	else
		for (uint16 level = 0; level < edit->depth; level++)
			cut_node(edit, level, (nunits - 1) / sfi_inode_units_below(level + 1));
}

/*
 * A new root above the old one, whose first entry leads to it.  The pointer may be stale,
 * as the old root may be changed in memory: E1 holds, since the new root is the parent
 * that will be set.
 */
static void
raise_root(SfEdit *edit)
{
	SfChild		old = edit->root;
	EditNode   *root;

	edit->root = SF_HOLE_CHILD;
	edit->depth++;
	SF_ASSERT(edit->depth <= SF_INODE_MAX_DEPTH);
	root = get_node(edit, edit->depth - 1, 0);
	set_child(root, 0, old);
	root->changed = true;
}

/*
 * Append holes.  What was the last node of its level may get entries, or a successor that
 * makes it one of those that are full (E3): it is loaded and written anew, because its
 * page has too few entries for a reader that goes by the new number of units.
 */
static void
grow(SfEdit *edit, uint64 nunits)
{
	uint64		last = edit->loc.nunits - 1;
	uint16		depth = edit->depth;

	SF_ASSERT(nunits > edit->loc.nunits);
	/* E3 */
	for (uint16 level = 0; edit->loc.nunits > 0 && level < depth && !SF_BREAKS(e3); level++)
	{
		uint64		index = last / sfi_inode_units_below(level + 1);

		if (entries_inside(edit, level, index) < sfi_inode_capacity(level))
			get_node(edit, level, index)->changed = true;
	}
	edit->loc.nunits = nunits;
	check_last_nodes(edit, depth, last + 1);
	while (edit->depth < sfi_inode_depth(nunits))
		raise_root(edit);
}

void
sf_object_edit_resize(SfEdit *edit, uint64 nunits)
{
	SF_ASSERT(edit_is_valid(edit));
	make_room(edit);
	if (nunits < edit->loc.nunits)
		shrink(edit, nunits);
	else if (nunits > edit->loc.nunits)
		grow(edit, nunits);
	SF_ASSERT(edit->loc.nunits == nunits && edit_is_valid(edit));
}

void
sf_object_edit_set(SfEdit *edit, uint64 unit_no, const SfUnit *unit)
{
	EditNode   *leaf;

	SF_ASSERT(unit_no < edit->loc.nunits && edit->depth == sfi_inode_depth(edit->loc.nunits));

	/*
	 * The locator says what units may be; a unit that no locator would allow
	 * must not get into a page.
	 */
	if (unit->flags != SF_CODEC_RAW)
		edit->loc.flags |= SF_LOC_UNITS;
	SF_ASSERT(sf_format_unit_problem(unit, edit->loc.flags, SF_PLAIN_UNKNOWN) == NULL);
	make_room(edit);
	leaf = get_node(edit, 0, unit_no / SF_INODE_MAX_UNITS);
	set_unit(leaf, unit_no % SF_INODE_MAX_UNITS, unit);
	leaf->changed = true;
}

void
sf_object_edit_units(SfEdit *edit, uint64 length_bytes, uint64 first, uint32 n, SfUnit *units)
{
	SF_ASSERT(first + n <= edit->loc.nunits && sf_units_of(length_bytes) == edit->loc.nunits);
	for (uint32 i = 0; i < n; i++)
	{
		make_room(edit);
		units[i] = unit_of(get_node(edit, 0, (first + i) / SF_INODE_MAX_UNITS),
						   (first + i) % SF_INODE_MAX_UNITS);
		sfi_inode_require_sound_unit(edit->loc.flags, length_bytes, first + i, &units[i]);
	}
}

/*
 * Write all that is changed, level by level; the root last.  A tree without a page, whose
 * units are all holes, gets a root: a locator with an inode map leads to a page.
 */
static void
write_tree(SfEdit *edit)
{
	instr_time	start;
	instr_time	end;

	INSTR_TIME_SET_CURRENT(start);

	/*
	 * Levels are written one by one, and not as nodes come: the nodes of a
	 * level go into pages together, up to PAGES_AT_ONCE of them in one WAL
	 * record.
	 */
	get_node(edit, edit->depth - 1, 0)->changed |= edit->root.page == SF_NO_PAGE;
	for (uint16 level = 0; level < edit->depth; level++)
		write_level(edit, level);
	INSTR_TIME_SET_CURRENT(end);
	INSTR_TIME_SUBTRACT(end, start);
	sf_stats_local(edit->seg->table_oid, edit->seg->attnum)->inode_write_time_us +=
		INSTR_TIME_GET_MICROSEC(end);
}

/*
 * Encode the locator as a flat map, if it fits.  Units that were set have their length (T1 of
 * stream/stage.c).  Units of the base come from a page that did not know the length.
 */
static Size
encode_flat(SfEdit *edit, const SfLocator *loc, uint8 *data)
{
	EditNode   *leaf;
	const SfUnit *units;

	/*
	 * More than a leaf of units is more than a locator holds, so only a tree
	 * that is one leaf is tried.
	 */
	if (edit->depth > 1)
		return 0;
	leaf = get_node(edit, 0, 0);
	set_holes(leaf, loc->nunits);
	units = leaf->inode->u.units;
	for (uint64 i = 0; i < loc->nunits; i++)
		sfi_inode_require_sound_unit(loc->flags, loc->length_bytes, i, &units[i]);
	return sf_format_locator_encode_flat(data, loc, units, &edit->seg->secret);
}

/* Write the map as a tree of inode pages, and encode the locator that leads to it. */
static Size
encode_tree(SfEdit *edit, SfLocator *loc, uint8 *data)
{
	make_room(edit);
	write_tree(edit);
	SF_INVARIANT(E1, is_written(edit, edit->depth) && edit->root.page != SF_NO_PAGE);
	loc->depth = edit->depth;
	loc->root_page = edit->root.page;
	loc->root_stamp = edit->root.stamp;
	return sf_format_locator_encode_inode(data, loc, &edit->seg->secret);
}

/* Let the locator keep a hash; encrypted, if it is KEYED.  kept: room for it. */
static void
set_hash(const SfEdit *edit, SfLocator *loc, const SfContentHash *right, uint8 *kept)
{
	SfContentHash spoilt = *right;
	const SfContentHash *hash = SF_FAULT_SKIPS(hash_right) ? &spoilt : right;

	spoilt.digest[0] ^= 1;
	SF_ASSERT(!(loc->flags & SF_LOC_HASHED));
	loc->flags |= SF_LOC_HASHED;
	loc->hash = kept;
	if (!(loc->flags & SF_LOC_KEYED))
		memcpy(kept, hash, sizeof(*hash));
	else if (!sf_transform_seal_hash(data_key_of(edit), loc, hash, kept))
		ereport(ERROR,
				(errcode(ERRCODE_SYSTEM_ERROR),
				 errmsg("could not encrypt the hash of a securefile value"),
				 errdetail("The system gives no random bytes, or there is no memory.")));
}

SfValue
sf_object_edit_finish(SfEdit *edit, uint64 length_bytes, const SfContentHash *hash)
{
	SfValue		value = {palloc(VARHDRSZ + SF_LOCATOR_MAX_SIZE), SF_FORM_STORED, edit->loc};
	uint8		kept_hash[SF_SEALED_HASH_SIZE];
	uint8	   *data = (uint8 *) VARDATA(value.datum);
	Size		len;

	SF_ASSERT(sf_units_of(length_bytes) == edit->loc.nunits && length_bytes > 0);
	SF_ASSERT(edit_is_valid(edit));
	value.loc.length_bytes = length_bytes;
	if (hash != NULL)
		set_hash(edit, &value.loc, hash, kept_hash);

	/*
	 * A value that has become small again returns to a flat map: its pages
	 * are not needed any more, and the difference to its base gives them
	 * back.
	 */
	len = encode_flat(edit, &value.loc, data);
	if (len == 0)
		len = encode_tree(edit, &value.loc, data);
	SF_ASSERT(len > SF_LOCATOR_HEADER && len <= SF_LOCATOR_MAX_SIZE);
	if (value.loc.flags & SF_LOC_KEYED)
		sfi_object_put_tag(edit->seg, value.loc.key_id, data, len);
	SET_VARSIZE(value.datum, VARHDRSZ + len);
	sf_format_locator_encoded(data, len, &value.loc);
	SF_ASSERT(sfi_object_is_as_decoded(&value));
	for (int i = 0; i < edit->nnodes; i++)
		pfree(edit->nodes[i].inode);
	pfree(edit);
	return value;
}
