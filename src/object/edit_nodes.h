/*-------------------------------------------------------------------------
 *
 * edit_nodes.h
 *	  A unit map under construction, and its nodes in memory: what edit.c and
 *	  edit_nodes.c share.
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
 *-------------------------------------------------------------------------
 */
#ifndef SF_EDIT_NODES_H
#define SF_EDIT_NODES_H

#include "object/object_internal.h"

#define SF_EDIT_NODES	48		/* 384 KB */

typedef struct SfEditNode
{
	uint64		index;			/* among the nodes of its level */
	uint16		level;
	bool		changed;
	uint32		nset;			/* the entries behind are holes that are not
								 * set */
	SfInode    *inode;
} SfEditNode;

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
	SfEditNode	nodes[SF_EDIT_NODES * SF_INODE_MAX_DEPTH];	/* writing leaves loads
															 * their ancestors */
};

/*
 * The node, loaded with its ancestors if it is not there.  Valid until the next call that
 * loads or forgets one.  Reads pages: DATA_CORRUPTED.  find: NULL if it is not in memory.
 */
extern SfEditNode *sfi_edit_node(SfEdit *edit, uint16 level, uint64 index);
extern SfEditNode *sfi_edit_find(SfEdit *edit, uint16 level, uint64 index);

/* Takes the last node's place: pointers to nodes do not survive it. */
extern void sfi_edit_forget(SfEdit *edit, SfEditNode *node);

/* Set holes, so that at least the first n entries of a node are set. */
extern void sfi_edit_set_holes(SfEditNode *node, uint64 n);

/* Entry i of an inner node. */
extern SfChild sfi_edit_child(const SfEditNode *node, uint64 i);
extern void sfi_edit_set_child(SfEditNode *node, uint64 i, SfChild child);

/* How many entries of a node are before the end of the object. */
extern uint64 sfi_edit_entries(const SfEdit *edit, uint16 level, uint64 index);

/*
 * Before a node is asked for from outside: make room for it and its path.  May write pages, as
 * sfi_edit_write() does for all that is changed.
 */
extern void sfi_edit_make_room(SfEdit *edit);
extern void sfi_edit_write(SfEdit *edit);

/* The data key of a KEYED object, else NULL; good until the next key is asked for. */
extern const SfDataKey *sfi_edit_data_key(const SfEdit *edit);

/* For assertions: are all nodes below that many levels written (E1)?  Are the nodes in order? */
extern bool sfi_edit_is_written(const SfEdit *edit, uint16 levels);
extern bool sfi_edit_is_valid(SfEdit *edit);

#endif							/* SF_EDIT_NODES_H */
