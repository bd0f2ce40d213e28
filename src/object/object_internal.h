/*-------------------------------------------------------------------------
 *
 * object_internal.h
 *	  What the files of object/ share.
 *
 * object.c		locators, flat maps
 * fate.c		what has become of a value that is not found at its place
 * inode.c		nodes of unit maps: reading them, ranges of units
 * edit.c		a unit map under construction
 * edit_nodes.c	its nodes in memory, and their pages (edit_nodes.h)
 * pieces.c		lists of pieces, of values that are not their unit space
 * difference.c		what one version of an object owns and another does not
 * edited.c		EDITED values, which exist in memory only
 * rope.c		those of many pieces, as trees
 * deferred.c	values of rows that may not be written
 * reference.c	share records, and locators that refer to them
 *
 * A unit map is a tree of nodes, numbered by level and index.  Every node but
 * the last of its level is full, so the place of a unit is arithmetic, and the
 * depth of a tree follows from the number of units.  A flat map, which stands
 * in the locator, is a tree of one leaf without a page.
 *
 *-------------------------------------------------------------------------
 */
#ifndef SF_OBJECT_INTERNAL_H
#define SF_OBJECT_INTERNAL_H

#include "object/object.h"

/* Is a value that was made what its datum says?  For assertions. */
extern bool sfi_object_is_as_decoded(const SfValue *value);

/* Entries that a node of a level holds. */
static inline uint64
sfi_inode_capacity(uint16 level)
{
	return sf_inode_room(level);
}

/* Units below one entry of a node of a level. */
extern uint64 sfi_inode_units_below(uint16 level);

/* Entries before the end of an object that a node has, which begins with unit first_unit. */
extern uint64 sfi_inode_entries(uint64 nunits, uint16 level, uint64 first_unit);

/* Levels of a tree for that many units; at least 1. */
extern uint16 sfi_inode_depth(uint64 nunits);

/* The pointer to nothing: all units below it are holes. */
#define SF_HOLE_CHILD	((SfChild) {0, SF_NO_PAGE, 0})

/* Bytes of a node that are used. */
extern Size sfi_inode_size(const SfInode *inode);

/* An uninitialised node (palloc'd), with room for any level. */
extern SfInode *sfi_inode_alloc(void);

/* Levels of an object's map, and the pointer to its root.  Never throw. */
extern uint16 sfi_object_depth(const SfLocator *loc);
extern SfChild sfi_object_root(const SfLocator *loc);

/*
 * Read the node that a pointer of an object's map leads to, and check that it is the one
 * meant, which is of that level and begins with unit first_unit.  It has an entry for all
 * that loc->nunits asks for, and may have more; its pointers lead to pages that there can
 * be, and its units are such as some length allows.  For a flat map, which has the root
 * only, the pointer is not looked at.  The segment is locked.  ERROR UNDEFINED_OBJECT when
 * the page is another value's by now, DATA_CORRUPTED when it is damaged.
 */
extern void sfi_inode_read(SfSegment *seg, const SfLocator *loc, SfChild pointer, uint16 level,
						   uint64 first_unit, SfInode *inode);

/*
 * The same for any page of an object with INODE, of a list of pieces, too: it is the one meant,
 * and nothing is known of its place.
 */
extern void sfi_inode_fetch(SfSegment *seg, const SfLocator *loc, SfChild pointer, SfInode *inode);

/*
 * ERROR DATA_CORRUPTED unless a unit that comes from an inode page is such as the length of
 * the object allows.
 */
extern void sfi_inode_require_sound_unit(uint16 loc_flags, uint64 unit_space_bytes, uint64 unit_no,
										 const SfUnit *unit);

/* Units [first, first + n), which it has, of a flat map. */
extern void sfi_object_flat_units(const SfLocator *loc, uint64 first, uint32 n, SfUnit *units);

/*
 * The tag of a KEYED locator of that length, which vouches for all of the map, and the hash
 * behind it.  Errors of sf_keys_of().
 */
extern void sfi_object_put_tag(SfSegment *seg, uint16 key_id, uint8 *data, Size len);

/* ---- pieces.c ---- */

/* The pages of the list of a PIECED value, the root first; palloc'd.  0: it is not PIECED. */
extern int	sfi_list_pages(SfSegment *seg, const SfLocator *loc, SfChild **pages);

/* Write a list; pages that the base has, too, are kept. */
extern SfPieceRoot sfi_list_write(SfEdit *edit, const SfNewList *list);

/* ---- edited.c ---- */

/* Does a piece go on where the one before it ends? */
extern bool sfi_object_goes_on(const SfPiece *last, const SfPiece *piece);

/* ERROR PROGRAM_LIMIT_EXCEEDED when that many bytes and pieces do not fit into a datum. */
extern void sfi_object_require_edited_size(Size data, uint64 npieces);

/*
 * A set of at most n values, in CurrentMemoryContext, compared by their bytes.
 * find: the place for the value, NULL at first; what is put there is the value's copy,
 * or itself.
 */
typedef struct SfValues SfValues;
extern SfValues *sfi_values_begin(uint64 n);
extern struct varlena **sfi_values_find(SfValues *values, const struct varlena *value);
extern void sfi_values_end(SfValues *values);

#endif							/* SF_OBJECT_INTERNAL_H */
