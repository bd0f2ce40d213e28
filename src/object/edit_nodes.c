/*-------------------------------------------------------------------------
 *
 * edit_nodes.c
 *	  The nodes of an edit that are in memory, and the pages that are made of them.
 *
 * Nodes are loaded when they are looked at, changed in memory, and written as
 * new pages: when there are too many of them, level by level from the leaves,
 * and in the end.  So memory is bounded, however large the object.  What holds of them (E1 to E4)
 * stands in edit_nodes.h.
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
 * Room for nodes: SF_EDIT_NODES is the limit at which all of one level is written and
 * forgotten.  It is looked at between calls from outside only, so one call may go beyond
 * it: each of the 48 leaves of a full set can have ancestors of its own, one a level.
 *
 *-------------------------------------------------------------------------
 */
#include "base/base.h"

#include "keys/keys.h"
#include "miscadmin.h"
#include "object/edit_nodes.h"
#include "stats/stats.h"

#define PAGES_AT_ONCE	16

void
sfi_edit_set_holes(SfEditNode *node, uint64 n)
{
	SF_ASSERT(n <= sfi_inode_capacity(node->level));
	for (; node->nset < n; node->nset++)
		if (node->level == 0)
			node->inode->u.units[node->nset] = (SfUnit) {.start = SF_HOLE};
		else
			node->inode->u.children[node->nset] = SF_HOLE_CHILD;
}

SfChild
sfi_edit_child(const SfEditNode *node, uint64 i)
{
	return i < node->nset ? node->inode->u.children[i] : SF_HOLE_CHILD;
}

void
sfi_edit_set_child(SfEditNode *node, uint64 i, SfChild child)
{
	sfi_edit_set_holes(node, i);
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

uint64
sfi_edit_entries(const SfEdit *edit, uint16 level, uint64 index)
{
	return sfi_inode_entries(edit->loc.nunits, level, first_unit_of(level, index));
}

/* ---- nodes in memory ---- */

/*
 * The search is linear, from the end: the node that was loaded last is nearly always the one
 * asked for, and there are few.
 */
SfEditNode *
sfi_edit_find(SfEdit *edit, uint16 level, uint64 index)
{
	for (int i = edit->nnodes - 1; i >= 0; i--)
		if (edit->nodes[i].index == index && edit->nodes[i].level == level)
			return &edit->nodes[i];
	return NULL;
}

/* Note a node as loaded, with so many entries.  There is room: see the head of this file. */
static SfEditNode *
add_node(SfEdit *edit, uint16 level, uint64 index, SfInode *inode, uint32 nset)
{
	SfEditNode *node = &edit->nodes[edit->nnodes];

	SF_ASSERT(edit->nnodes < lengthof(edit->nodes) && level < edit->depth);
	SF_ASSERT(sfi_edit_find(edit, level, index) == NULL);
	node->index = index;
	node->level = level;
	node->changed = false;
	node->nset = nset;
	node->inode = inode;
	edit->nnodes++;
	return node;
}

void
sfi_edit_forget(SfEdit *edit, SfEditNode *node)
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
	return sfi_edit_child(sfi_edit_node(edit, level + 1, index / capacity), index % capacity);
}

/*
 * Set the pointer to a node that was written, or that has become a hole.  The parent is
 * changed by that (E1), so it will be written with its own level.
 */
static void
set_pointer(SfEdit *edit, uint16 level, uint64 index, SfChild pointer)
{
	uint64		capacity = sfi_inode_capacity(level + 1);
	SfEditNode *parent;

	SF_ASSERT(level < edit->depth);
	if (level == edit->depth - 1)
	{
		edit->root = pointer;
		return;
	}
	parent = sfi_edit_node(edit, level + 1, index / capacity);
	sfi_edit_set_child(parent, index % capacity, pointer);
	parent->changed |= !SF_BREAKS(e1);
}

/*
 * Entries behind the end of the object are left out here (E2), whatever the page has: the
 * object may have been cut since, and a later growth must find holes there, not the units
 * of before.
 */
SfEditNode *
sfi_edit_node(SfEdit *edit, uint16 level, uint64 index)
{
	SfEditNode *node = sfi_edit_find(edit, level, index);
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
		nset = Min(inode->nentries, sfi_edit_entries(edit, level, index));
	}
	return add_node(edit, level, index, inode, nset);
}

/* ---- writing ---- */

/* Only a root is written when it has holes only: a locator leads to a page. */
static bool
is_empty(SfEdit *edit, const SfEditNode *node)
{
	if (node->level == edit->depth - 1)
		return false;
	for (uint32 i = 0; i < node->nset; i++)
		if (!is_hole(node->inode, node->level, i))
			return false;
	return true;
}

/* E1: levels are written from the leaves on, so that no pointer is stale. */
bool
sfi_edit_is_written(const SfEdit *edit, uint16 levels)
{
	for (int i = 0; i < edit->nnodes; i++)
		if (edit->nodes[i].level < levels && edit->nodes[i].changed)
			return false;
	return true;
}

/* A node that becomes a page.  Goes through its entries, as the copy of it does. */
static void
check_node(SfEdit *edit, const SfEditNode *node)
{
	SF_ASSERT(node->changed);
	SF_INVARIANT(E2, node->nset <= sfi_edit_entries(edit, node->level, node->index));
	SF_INVARIANT(E4, !is_empty(edit, node));
}

/* E1: the parent of a node that was written knows that it is to be written, too. */
static bool
parent_is_changed(SfEdit *edit, const SfEditNode *node)
{
	const SfEditNode *parent = sfi_edit_find(edit, node->level + 1,
											 node->index / sfi_inode_capacity(node->level + 1));

	return node->level == edit->depth - 1 || (parent != NULL && parent->changed);
}

/* The depth fits the size, and no node is loaded twice or lies outside.  Goes through all nodes. */
bool
sfi_edit_is_valid(SfEdit *edit)
{
	if (edit->depth != sfi_inode_depth(edit->loc.nunits) || edit->nnodes > lengthof(edit->nodes))
		return false;
	for (int i = 0; i < edit->nnodes; i++)
	{
		const SfEditNode *node = &edit->nodes[i];

		if (node->level >= edit->depth || sfi_edit_find(edit, node->level, node->index) != node)
			return false;
		/* the root of an empty object is inside, too */
		if (node->index > 0 && sfi_edit_entries(edit, node->level, node->index) == 0)
			return false;
	}
	return true;
}

/* Some changed nodes of a level, about to become pages. */
typedef struct Batch
{
	SfEdit	   *edit;
	SfEditNode *nodes[PAGES_AT_ONCE];
	int			n;
	const SfDataKey *key;		/* of a KEYED object, else NULL */
} Batch;

const SfDataKey *
sfi_edit_data_key(const SfEdit *edit)
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
	SfEditNode *node = batch->nodes[i];
	SfInode    *inode = node->inode;
	Size		len;

	check_node(batch->edit, node);
	inode->object_id = batch->edit->loc.object_id;
	inode->first_unit = first_unit_of(node->level, node->index);
	inode->level = node->level;
	inode->nentries = sfi_edit_entries(batch->edit, node->level, node->index);
	sfi_edit_set_holes(node, inode->nentries);
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
	batch->key = sfi_edit_data_key(edit);
	sf_space_new_inode_pages(edit->seg, batch->n, fill_page, batch, pages, &first_stamp);
	edit->made(pages, batch->n, edit->arg);
	SF_ASSERT(first_stamp > 0);
	for (int i = 0; i < batch->n; i++)
	{
		/*
		 * May load the parent, which moves no node: only sfi_edit_forget()
		 * does that.
		 */
		SF_ASSERT(sf_is_dynamic_page(pages[i]));
		set_pointer(edit, batch->nodes[i]->level, batch->nodes[i]->index,
					(SfChild) {batch->nodes[i]->inode->stamp, pages[i], 0});
		SF_INVARIANT(E1, parent_is_changed(edit, batch->nodes[i]));
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

	SF_INVARIANT(E1, sfi_edit_is_written(edit, level));
	for (int i = 0; i < n; i++)
	{
		SfEditNode *node = &edit->nodes[i];

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
	SF_INVARIANT(E1, sfi_edit_is_written(edit, level + 1));
	for (int i = edit->nnodes - 1; i >= 0; i--)
		if (edit->nodes[i].level == level)
			sfi_edit_forget(edit, &edit->nodes[i]);
}

/*
 * Before a node is asked for from outside: make room for it and its path.  Leaves go
 * first; they are most of the nodes, and writing them may load inner nodes, which then
 * are the next to go if there still are too many.
 */
void
sfi_edit_make_room(SfEdit *edit)
{
	for (uint16 level = 0; edit->nnodes >= SF_EDIT_NODES; level++)
	{
		SF_ASSERT(level < edit->depth);
		write_level(edit, level);
		forget_level(edit, level);
	}
}

/*
 * Write all that is changed, level by level; the root last.  A tree without a page, whose
 * units are all holes, gets a root: a locator with an inode map leads to a page.
 */
void
sfi_edit_write(SfEdit *edit)
{
	uint64		start_us = sf_base_now_us();

	/*
	 * Levels are written one by one, and not as nodes come: the nodes of a
	 * level go into pages together, up to PAGES_AT_ONCE of them in one WAL
	 * record.
	 */
	sfi_edit_node(edit, edit->depth - 1, 0)->changed |= edit->root.page == SF_NO_PAGE;
	for (uint16 level = 0; level < edit->depth; level++)
		write_level(edit, level);
	sf_stats_local(edit->seg->table_oid, edit->seg->attnum)->inode_write_time_us +=
		sf_base_now_us() - start_us;
}
