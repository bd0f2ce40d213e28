/*-------------------------------------------------------------------------
 *
 * edit.c
 *	  A unit map under construction: a new object's, or that of a new version
 *	  of an object, copied on write from leaf to root.
 *
 * The nodes that it changes are in memory (edit_nodes.c); edit_nodes.h says what holds of them
 * (E1 to E4).
 *
 *-------------------------------------------------------------------------
 */
#include "base/base.h"

#include "keys/keys.h"
#include "miscadmin.h"
#include "object/edit_nodes.h"

/* Entry i of a leaf. */
static SfUnit
unit_of(const SfEditNode *leaf, uint64 i)
{
	return i < leaf->nset ? leaf->inode->u.units[i] : (SfUnit) {.start = SF_HOLE};
}

static void
set_unit(SfEditNode *leaf, uint64 i, const SfUnit *unit)
{
	sfi_edit_set_holes(leaf, i);
	leaf->nset = Max(leaf->nset, i + 1);
	leaf->inode->u.units[i] = *unit;
}

/* E3: what was the last node of its level is full, or is written anew with more entries. */
static bool
last_nodes_are_changed(SfEdit *edit, uint16 depth, uint64 nunits)
{
	for (uint16 level = 0; nunits > 0 && level < depth; level++)
	{
		uint64		index = (nunits - 1) / sfi_inode_units_below(level + 1);
		uint64		below = sfi_inode_units_below(level);
		uint64		entries = (nunits + below - 1) / below - index * sfi_inode_capacity(level);
		const SfEditNode *node = sfi_edit_find(edit, level, index);

		if (entries < sfi_inode_capacity(level) && (node == NULL || !node->changed))
			return false;
	}
	return true;
}

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
		SfEditNode *leaf = sfi_edit_node(edit, 0, 0);

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
	SfEditNode *node = sfi_edit_node(edit, level, index);
	uint64		inside = sfi_edit_entries(edit, level, index);

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
	SfEditNode *root = sfi_edit_node(edit, level, 0);

	SF_ASSERT(level > 0);
	edit->root = sfi_edit_child(root, 0);
	sfi_edit_forget(edit, root);
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
	 * From the end: sfi_edit_forget() puts the last node into the gap, and
	 * that one was looked at already.
	 */
	for (int i = edit->nnodes - 1; i >= 0; i--)
		if (sfi_edit_entries(edit, edit->nodes[i].level, edit->nodes[i].index) == 0)
			sfi_edit_forget(edit, &edit->nodes[i]);
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
	SfEditNode *root;

	edit->root = SF_HOLE_CHILD;
	edit->depth++;
	SF_ASSERT(edit->depth <= SF_INODE_MAX_DEPTH);
	root = sfi_edit_node(edit, edit->depth - 1, 0);
	sfi_edit_set_child(root, 0, old);
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

		if (sfi_edit_entries(edit, level, index) < sfi_inode_capacity(level))
			sfi_edit_node(edit, level, index)->changed = true;
	}
	edit->loc.nunits = nunits;
	SF_INVARIANT(E3, last_nodes_are_changed(edit, depth, last + 1));
	while (edit->depth < sfi_inode_depth(nunits))
		raise_root(edit);
}

void
sf_object_edit_resize(SfEdit *edit, uint64 nunits)
{
	SF_ASSERT(sfi_edit_is_valid(edit));
	sfi_edit_make_room(edit);
	if (nunits < edit->loc.nunits)
		shrink(edit, nunits);
	else if (nunits > edit->loc.nunits)
		grow(edit, nunits);
	SF_ASSERT(edit->loc.nunits == nunits && sfi_edit_is_valid(edit));
}

void
sf_object_edit_set(SfEdit *edit, uint64 unit_no, const SfUnit *unit)
{
	SfEditNode *leaf;

	SF_ASSERT(unit_no < edit->loc.nunits && edit->depth == sfi_inode_depth(edit->loc.nunits));

	/*
	 * The locator says what units may be; a unit that no locator would allow
	 * must not get into a page.
	 */
	if (unit->flags != SF_CODEC_RAW)
		edit->loc.flags |= SF_LOC_UNITS;
	SF_ASSERT(sf_format_unit_problem(unit, edit->loc.flags, SF_PLAIN_UNKNOWN) == NULL);
	sfi_edit_make_room(edit);
	leaf = sfi_edit_node(edit, 0, unit_no / SF_INODE_MAX_UNITS);
	set_unit(leaf, unit_no % SF_INODE_MAX_UNITS, unit);
	leaf->changed = true;
}

void
sf_object_edit_units(SfEdit *edit, uint64 unit_space_bytes, uint64 first, uint32 n, SfUnit *units)
{
	SF_ASSERT(first + n <= edit->loc.nunits && sf_units_of(unit_space_bytes) == edit->loc.nunits);
	for (uint32 i = 0; i < n; i++)
	{
		sfi_edit_make_room(edit);
		units[i] = unit_of(sfi_edit_node(edit, 0, (first + i) / SF_INODE_MAX_UNITS),
						   (first + i) % SF_INODE_MAX_UNITS);
		sfi_inode_require_sound_unit(edit->loc.flags, unit_space_bytes, first + i, &units[i]);
	}
}

/*
 * May there be stored units in entry i of a node?  A pointer to nothing does not say so of a node
 * that is in memory (E1).
 */
static bool
may_be_stored(SfEdit *edit, const SfEditNode *node, uint64 i)
{
	if (node->level == 0)
		return unit_of(node, i).start != SF_HOLE;
	return sfi_edit_child(node, i).page != SF_NO_PAGE ||
		sfi_edit_find(edit, node->level - 1,
					  node->index * sfi_inode_capacity(node->level) + i) != NULL;
}

/*
 * Move on to the next unit that may be stored, along one path: false when a node on it ends
 * before, and the unit is the first one behind that node.
 */
static bool
advance(SfEdit *edit, uint64 *unit_no)
{
	for (int level = edit->depth - 1; level >= 0; level--)
	{
		uint64		below = sfi_inode_units_below(level);
		uint64		index = *unit_no / sfi_inode_units_below(level + 1);
		uint64		first = index * sfi_inode_capacity(level);
		uint64		entries = sfi_edit_entries(edit, level, index);
		uint64		i = *unit_no / below - first;
		const SfEditNode *node = sfi_edit_node(edit, level, index);

		while (i < entries && !may_be_stored(edit, node, i))
			i++;
		*unit_no = Max(*unit_no, (first + i) * below);
		if (i == entries)
			return false;
	}
	return true;
}

/*
 * Each turn loads the nodes of one path.  A node without stored units is none of a page (E4), so
 * that there are few turns, however long the hole.
 */
uint64
sf_object_edit_next_stored(SfEdit *edit, uint64 first)
{
	while (first < edit->loc.nunits)
	{
		CHECK_FOR_INTERRUPTS();
		sfi_edit_make_room(edit);
		if (advance(edit, &first))
			return first;
	}
	return edit->loc.nunits;
}

/*
 * Encode the locator as a flat map, if it fits.  Units that were set have their length (T1 of
 * stream/stage.c).  Units of the base come from a page that did not know the length.
 */
static Size
encode_flat(SfEdit *edit, const SfLocator *loc, uint8 *data)
{
	SfEditNode *leaf;
	const SfUnit *units;

	/*
	 * More than a leaf of units is more than a locator holds, so only a tree
	 * that is one leaf is tried.
	 */
	if (edit->depth > 1)
		return 0;
	leaf = sfi_edit_node(edit, 0, 0);
	sfi_edit_set_holes(leaf, loc->nunits);
	units = leaf->inode->u.units;
	for (uint64 i = 0; i < loc->nunits; i++)
		sfi_inode_require_sound_unit(loc->flags, loc->unit_space_bytes, i, &units[i]);
	return sf_format_locator_encode_flat(data, loc, units, &edit->seg->secret);
}

/* Write the map as a tree of inode pages, and encode the locator that leads to it. */
static Size
encode_tree(SfEdit *edit, SfLocator *loc, uint8 *data)
{
	sfi_edit_make_room(edit);
	sfi_edit_write(edit);
	SF_INVARIANT(E1, sfi_edit_is_written(edit, edit->depth) && edit->root.page != SF_NO_PAGE);
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
	else if (!sf_transform_seal_hash(sfi_edit_data_key(edit), loc, hash, kept))
		ereport(ERROR,
				(errcode(ERRCODE_SYSTEM_ERROR),
				 errmsg("could not encrypt the hash of a securefile value"),
				 errdetail("The system gives no random bytes, or there is no memory.")));
}

SfValue
sf_object_edit_finish(SfEdit *edit, uint64 unit_space_bytes, const SfContentHash *hash,
					  const SfNewList *list)
{
	SfValue		value = {palloc(VARHDRSZ + SF_LOCATOR_MAX_SIZE), SF_FORM_STORED, edit->loc};
	uint8		kept_hash[SF_SEALED_HASH_SIZE];
	uint8	   *data = (uint8 *) VARDATA(value.datum);
	Size		len = 0;

	SF_ASSERT(sf_units_of(unit_space_bytes) == edit->loc.nunits && unit_space_bytes > 0);
	SF_ASSERT(sfi_edit_is_valid(edit));
	value.loc.unit_space_bytes = unit_space_bytes;
	value.loc.pieces = (SfPieceRoot) {.value_bytes = unit_space_bytes};
	if (list != NULL)
	{
		value.loc.flags |= SF_LOC_PIECED;
		value.loc.pieces = sfi_list_write(edit, list);
	}
	if (hash != NULL)
		set_hash(edit, &value.loc, hash, kept_hash);

	/*
	 * A value that has become small again returns to a flat map: its pages
	 * are not needed any more, and the difference to its base gives them
	 * back.
	 */
	if (list == NULL)
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
