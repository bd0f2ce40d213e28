/*-------------------------------------------------------------------------
 *
 * object.h
 *	  Unit maps: from a locator to units, and from units to a locator.
 *
 *-------------------------------------------------------------------------
 */
#ifndef SF_OBJECT_H
#define SF_OBJECT_H

#include "base/base.h"
#include "format/segment_pages.h"
#include "space/share_records.h"
#include "space/space.h"
#include "utils/expandeddatum.h"

/*
 * A value that was looked at: its datum, detoasted (maybe packed), the form of that, and the
 * locator of a STORED one, which points into the datum.  sf_read_look() makes one of a datum;
 * what makes a datum makes it as well, so that a value is decoded once.
 */
typedef struct SfValue
{
	struct varlena *datum;
	uint8		form;			/* SF_FORM_.. */
	SfLocator	loc;
} SfValue;

/*
 * Decode the locator of a STORED datum (detoasted, maybe packed); returns a static text
 * that says what is wrong with it, or NULL.  *loc points into the datum.  Never throws.
 */
extern const char *sf_object_decode(struct varlena *datum, SfLocator *loc);

/*
 * ERROR FEATURE_NOT_SUPPORTED of a locator that could not be decoded, since its segment has
 * made it in a later version of the format.
 */
extern void sf_object_refuse_later(const SfLocator *loc);

/* The decoded locator; ERROR as above, or DATA_CORRUPTED when something is wrong. */
extern void sf_object_require_locator(struct varlena *datum, SfLocator *loc);
extern SfLocator sf_object_locator(struct varlena *datum);

/*
 * The length in bytes of the value that a locator leads to.
 * ERROR DATA_CORRUPTED when the locator is damaged: its tag is checked, unless its
 * segment is not there any more, or cannot be opened here (the library is not preloaded,
 * logical decoding).  Then the length is what the locator says; reading the value fails.
 * Opens the segment for the first value of it that this process asks about, and gives
 * the lock back; later calls open nothing.
 */
extern uint64 sf_object_length(const SfLocator *loc);

/* A copy of a detoasted datum in that context. */
extern struct varlena *sf_object_copy(const struct varlena *datum, MemoryContext context);

/* Are two detoasted datums the same bytes, whatever their headers?  Never throws. */
extern bool sf_object_same(const struct varlena *a, const struct varlena *b);

/*
 * Was the locator made by its segment, and not changed since?  ERROR
 * DATA_CORRUPTED if not.  To be asked before anything is read or freed through
 * a locator that came in a datum.
 */
extern void sf_object_require_tag(SfSegment *seg, const SfLocator *loc);

/*
 * The segment of such a locator, opened as for a read (sf_space_open_incarnation()), when its tag
 * was asked for.
 */
extern SfSegment *sf_object_open(const SfLocator *loc);

/*
 * The same of a KEYED locator with its data key, to be asked before anything is decrypted:
 * from then on the pages of its map are asked, too.  Does nothing for other locators.  Errors
 * of sf_keys_of(); DATA_CORRUPTED.
 */
extern void sf_object_require_genuine(SfSegment *seg, SfLocator *loc);

/*
 * The hash that a locator keeps, whose tag was found right; false if it keeps none.  Of a
 * KEYED one it is decrypted, with the errors of the function before.
 */
extern bool sf_object_kept_hash(SfSegment *seg, SfLocator *loc, SfContentHash *hash);

/*
 * The same for a locator that was decoded only, and whose tag is checked as
 * sf_object_length() does.  False, too, where it cannot be known here, and reading the value
 * says why.
 */
extern bool sf_object_hash(SfLocator *loc, SfContentHash *hash);

/*
 * Units [first, first + n), which the object has, into units.  Reads inode pages through
 * shared buffers; the segment is locked, AccessShareLock or more.  ERROR UNDEFINED_OBJECT
 * when an inode page is no longer this object's, DATA_CORRUPTED when it is damaged.
 */
extern void sf_object_units(SfSegment *seg, const SfLocator *loc,
							uint64 first, uint32 n, SfUnit *units);

/*
 * Number of the first unit, from first on, that is not a hole; the number of units when
 * only holes follow.  Locks and errors as above.
 */
extern uint64 sf_object_next_stored(SfSegment *seg, const SfLocator *loc, uint64 first);

/*
 * Which ranges of its unit space bytes [from, to) of a value are, in their order (palloc'd);
 * returns how many.  One, the same, unless it is PIECED.  Locks and errors as above.
 */
extern int64 sf_object_ranges(SfSegment *seg, const SfLocator *loc, uint64 from, uint64 to,
							  SfRange **ranges);

/* P1 of pieces.c, of a PIECED value: ERROR DATA_CORRUPTED if two of its pieces overlap. */
extern void sf_object_require_sound_list(SfSegment *seg, const SfLocator *loc);

/* Sectors that all units of a flat map take.  Never throws. */
extern uint64 sf_object_flat_sectors(const SfLocator *loc);

/* ---- values that are not found (fate.c) ---- */

typedef enum SfFate
{
	SF_FATE_LIVES,				/* a row has it, or somebody may need it: what
								 * is wrong is damage */
	SF_FATE_GONE,				/* it outlived its row, and its space was
								 * given back */
	SF_FATE_UNKNOWN,
} SfFate;

/*
 * What has become of a value whose bytes (a run) or map (a page) are not at their place any
 * more?  Scans its table, if that can be locked at once.  The segment is locked,
 * AccessShareLock or more; no page is.
 */
extern SfFate sf_object_fate(SfSegment *seg, const SfLocator *loc, uint64 start, uint32 count,
							 bool is_page);

/* ---- unit maps under construction (edit.c) ---- */

/*
 * Called when inode pages are made, npages > 0 of them.  The object is not complete yet;
 * if it never is, the callee has to see that the pages are given back.
 */
typedef void (*SfPagesMade) (const uint32 *pages, int npages, void *arg);

/*
 * The map of a new object, or (base) of a new version of an object, which
 * shares what is not changed with its base.  version: table_oid, attnum,
 * object_id, generation and incarnation are set by the caller, and flags and key_id if it
 * is KEYED, as its base is then, and genuine.  Lives in
 * CurrentMemoryContext, in bounded memory (about 0.5 MB).  Each of these functions may
 * read and write inode pages, so each throws as these do; an edit after an ERROR may
 * only be forgotten.
 */
typedef struct SfEdit SfEdit;
extern SfEdit *sf_object_edit(SfSegment *seg, const SfLocator *version, const SfLocator *base,
							  SfPagesMade made, void *arg);

/* Cut, or grow by holes, to so many units. */
extern void sf_object_edit_resize(SfEdit *edit, uint64 nunits);

/*
 * Set one unit, which may be a hole; get units as they are now.  Within the size.  ERROR
 * DATA_CORRUPTED when a unit that is got is none of an object of that length.
 */
extern void sf_object_edit_set(SfEdit *edit, uint64 unit_no, const SfUnit *unit);
extern void sf_object_edit_units(SfEdit *edit, uint64 unit_space_bytes, uint64 first, uint32 n,
								 SfUnit *units);

/* As sf_object_next_stored(), of the map as it is now.  May be cancelled. */
extern uint64 sf_object_edit_next_stored(SfEdit *edit, uint64 first);

/* A list of pieces holds that many. */
#define SF_PIECES_MAX	((int64) SF_LIST_MAX_LEAVES * SF_LIST_MAX_PIECES)

/* The pieces that a version is to be; base: that it was begun from, or NULL. */
typedef struct SfNewList
{
	const SfLocator *base;
	const SfRange *ranges;
	int64		n;
} SfNewList;

/*
 * Build the STORED value (palloc'd): flat when it fits, else its inode pages
 * are written.  The length is above 0 and in the last unit.  hash: of all its bytes, to be
 * kept, or NULL.  list: what makes it PIECED, or NULL.  Frees the edit.
 */
extern SfValue sf_object_edit_finish(SfEdit *edit, uint64 unit_space_bytes,
									 const SfContentHash *hash, const SfNewList *list);

/* ---- EDITED values (edited.c) ---- */

/*
 * An EDITED value is a list of pieces, which follow one another.  It exists in
 * memory only, and refers to STORED values without reading them.
 */
typedef enum SfPieceKind
{
	SF_PIECE_BYTES = 1,			/* the bytes themselves */
	SF_PIECE_ZEROS,
	SF_PIECE_VALUE,				/* a range of a STORED value */
} SfPieceKind;

typedef struct SfPiece
{
	SfPieceKind kind;
	uint64		length;
	uint64		start;			/* in the value */
	const char *bytes;
	struct varlena *value;
} SfPiece;

/*
 * Build an EDITED datum (palloc'd) of pieces; empty ones fall away, and what
 * continues the piece before it is merged with it.  ERROR
 * PROGRAM_LIMIT_EXCEEDED when its bytes are more than fit into a datum, or the
 * whole is longer than 2^63 - 1.
 */
extern struct varlena *sf_object_edited(const SfPiece *pieces, int npieces);

/*
 * Take it apart; pieces are palloc'd, and point into the datum (bytes).  ERROR
 * DATA_CORRUPTED when this server did not make it.
 */
extern int	sf_object_pieces(struct varlena *edited, SfPiece **pieces);

/* Its length in bytes; likewise. */
extern uint64 sf_object_edited_length(const struct varlena *edited);

/* Bytes [from, to) of a piece, which has them, and at least one. */
extern SfPiece sf_object_cut_piece(SfPiece piece, uint64 from, uint64 to);

/* The sum of two lengths; ERROR PROGRAM_LIMIT_EXCEEDED above 2^63 - 1. */
extern uint64 sf_object_add_lengths(uint64 a, uint64 b);

/* ---- deferred values (deferred.c) ---- */

/*
 * Makes of a value what its row is to have, in CurrentMemoryContext, which is that of
 * sf_object_defer(); arg is from there.  May return what it was given, and may throw.
 */
typedef Datum (*SfPlace) (Datum given, void *arg);

/*
 * A datum that stands for a value of any form, for a row that may not be written: place() is
 * called when it is, and once.  The datum, the value and arg belong to the memory context of
 * the row, which is current.  What the datum points to belongs to another context, which may be
 * the same: copies of the datum are good as long as that.
 */
extern Datum sf_object_defer(Datum given, SfPlace place, void *arg, MemoryContext context);

/*
 * The value that a deferred datum stands for, or any other datum itself: the one that was placed,
 * where that lives longer.  A function that reads an argument of type securefile asks for it
 * before it detoasts the argument.  Never throws.
 */
extern Datum sf_object_given(Datum datum);

/*
 * The value that the row of a deferred datum was written with, which lives as long as what the
 * datum points to; any other datum itself.  Places the value if the row was not written.
 */
extern Datum sf_object_placed(Datum datum);

/* The row of a deferred datum ends, and with it the value that was given.  Never throws. */
extern void sf_object_forget_given(Datum datum);

/* ---- EDITED values of many pieces (rope.c) ---- */

/* The rope that a datum is, or NULL. */
typedef struct SfRope SfRope;
extern SfRope *sf_object_rope_of(Datum value);

/*
 * Make one, in a context below parent: begin, append, and take its datum.  like:
 * one that much of it will come from, which makes that cheap; or NULL.  An
 * ERROR in between needs no cleaning up.
 */
extern SfRope *sf_object_rope_begin(SfRope *like, MemoryContext parent);
extern void sf_object_rope_append_pieces(SfRope *rope, const SfPiece *pieces, int npieces);
extern void sf_object_rope_append_range(SfRope *rope, const SfRope *from, uint64 start, uint64 end);
extern Datum sf_object_rope_datum(SfRope *rope);

extern uint64 sf_object_rope_length(const SfRope *rope);
extern int	sf_object_rope_npieces(const SfRope *rope);
extern bool sf_object_rope_has_values(const SfRope *rope);

/* Bytes that a flat copy takes at most, besides its list of pieces. */
extern uint64 sf_object_rope_data(const SfRope *rope);

/* Its pieces (palloc'd), as of sf_object_pieces(); they live as long as the rope. */
extern int	sf_object_rope_pieces(const SfRope *rope, SfPiece **pieces);

/* Bytes [start, end), which it has, as a flat value; touches no more of it. */
extern struct varlena *sf_object_rope_part(const SfRope *rope, uint64 start, uint64 end);

/* ---- ownership ---- */

/*
 * Runs (merged where adjacent, never across a map page) and inode pages that
 * a version of an object owns, without those that another version of the same
 * object (or NULL) has too, or the shared object that it is based on (or NULL).  Both
 * palloc'd.
 */
extern SfOwned sf_object_difference(SfSegment *seg, const SfLocator *loc, const SfLocator *other,
									const SfLocator *shared);

/*
 * All that a version owns, without what the shared object (or NULL) has, as far as its map
 * can be read: damaged() is called for each page that cannot be read, and what lies below is
 * missing.  Damage of the shared object is an ERROR.
 */
typedef void (*SfMapDamage) (const ErrorData *error, void *arg);
extern SfOwned sf_object_owned(SfSegment *seg, const SfLocator *loc, const SfLocator *shared,
							   SfMapDamage damaged, void *arg);

/* ---- shared objects (reference.c) ---- */

/* Has a value a map of its own that could be shared, since its root is a page? */
static inline bool
sf_object_has_root(const SfLocator *loc)
{
	return (loc->flags & (SF_LOC_INODE | SF_LOC_SHARED)) == SF_LOC_INODE;
}

static inline SfRoot
sf_object_root(const SfLocator *loc)
{
	return (SfRoot) {loc->object_id, loc->root_stamp, loc->root_page};
}

/* Has a value all of its space from a shared object? */
static inline bool
sf_object_is_reference(const SfLocator *loc)
{
	return (loc->flags & SF_LOC_SHARED) && !(loc->share.flags & SF_SHARE_BASED);
}

/* Is a value a changed version of a shared object, which owns what that does not have? */
static inline bool
sf_object_is_version(const SfLocator *loc)
{
	return (loc->flags & SF_LOC_SHARED) && (loc->share.flags & SF_SHARE_BASED);
}

/*
 * Begin a share record of the object of a locator: all but its hashes, its maker and what
 * the column's options were.  The locator may be that of a reference.  False: it is too long
 * for one, or PIECED.
 */
extern bool sf_object_share_record(const SfLocator *loc, SfShareCopy *copy);

/*
 * The STORED value (palloc'd) of a row that refers to a record.  object: the locator that the
 * record was made of, or NULL, if that is not known.  Errors of sf_keys_of() if it is KEYED.
 */
extern SfValue sf_object_reference(SfSegment *seg, const SfShareRecord *record, SfShareId id,
								   uint64 reference_id, const SfLocator *object);

/* The locator of a share record's object, as a version to compare others with. */
typedef struct SfShareVersion
{
	SfLocator	loc;			/* points to: */
	uint8		encoded[SF_LOCATOR_MAX_SIZE];
} SfShareVersion;

extern void sf_object_share_version(SfSegment *seg, const SfShareRecord *record,
									SfShareVersion *version);

/*
 * The same by a locator with SHARED and BASED, to find what it owns by itself.  ERROR
 * DATA_CORRUPTED when its record is not there, cannot be read, or has another object.
 */
extern void sf_object_shared_base(SfSegment *seg, const SfLocator *loc, SfShareVersion *version);

/* What the object of a share record owns.  DATA_CORRUPTED when its map is damaged. */
extern SfOwned sf_object_of_share(SfSegment *seg, const SfShareRecord *record);

#endif							/* SF_OBJECT_H */
