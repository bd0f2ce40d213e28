/*-------------------------------------------------------------------------
 *
 * read.h
 *	  Getting bytes of stored values back, every one of them checked.
 *
 *-------------------------------------------------------------------------
 */
#ifndef SF_READ_H
#define SF_READ_H

#include "base/base.h"
#include "format/packed.h"
#include "format/unfilled.h"
#include "object/object.h"

/*
 * How reads learn of data that their own transaction has not written out yet:
 * sf_write_overlay(), handed down by the module entry since rooms do not call
 * upward.  Called once, when the module is loaded.  A function copies what it has of a run of
 * sectors to dst (NULL: nowhere), returns how many sectors that is, and never throws.
 */
typedef uint32 (*SfReadOverlay) (SfStorage storage, uint64 start_sector, uint32 nsectors,
								 char *dst);
extern void sf_read_set_overlay(SfReadOverlay overlay);

/*
 * Forms.  A detoasted, packed securefile datum has VARSIZE_ANY_EXHDR() >= 1
 * bytes, the first of which is the form; anything else is DATA_CORRUPTED.  ERROR
 * OBJECT_NOT_IN_PREREQUISITE_STATE when it is UNFILLED: a caller that has something to do with
 * such a value asks sf_read_unfilled() before, and no other one can take it for a value.
 */
extern uint8 sf_read_form(struct varlena *datum);

/*
 * Look at a value of any form, once; the locator of one that is not STORED stays as it was.
 * ERROR likewise, and as for sf_object_locator().  To copy so many bytes costs more than to look.
 */
extern void sf_read_look(struct varlena *datum, SfValue *value);

/*
 * Is all of it in the datum itself, INLINE, PACKED or UNFILLED?  Not of a TRAINED or SEALED value:
 * without its segment its bytes mean nothing.  Does not throw: what has another form, or none,
 * is not.
 */
extern bool sf_read_is_in_row(struct varlena *datum);

/*
 * Is it TRAINED or SEALED, in the row, and to be read only with what a segment has?  Does not
 * throw, either.
 */
extern bool sf_read_is_homed(struct varlena *datum);

/*
 * The INLINE value (palloc'd) of a PACKED, TRAINED or SEALED one; a value of any other form
 * itself.  ERROR DATA_CORRUPTED when it is damaged, FEATURE_NOT_SUPPORTED without its codec
 * or cipher; of the last two UNDEFINED_OBJECT when their segment is gone, and of a SEALED
 * one OBJECT_NOT_IN_PREREQUISITE_STATE when its master key is not loaded.
 */
extern struct varlena *sf_read_unpacked(struct varlena *datum);

/* How a PACKED, TRAINED or SEALED value is stored.  ERROR DATA_CORRUPTED when it is damaged. */
extern SfUnit sf_read_packed_unit(struct varlena *datum);

/*
 * The data key that a value of any form is encrypted with; 0: it is not, or is UNFILLED.  ERROR
 * likewise, and as for sf_object_locator().
 */
extern uint16 sf_read_key_id(struct varlena *datum);

/* The segment of a TRAINED or SEALED value.  ERROR likewise. */
extern SfHome sf_read_home(struct varlena *datum);

/*
 * What is known of an UNFILLED value, not detoasted; false: it has another form, or none.  What is
 * longer than such a value is not fetched.  ERROR DATA_CORRUPTED when it is damaged.
 */
extern bool sf_read_unfilled(Datum value, SfUnfilled *unfilled);

/* The UNFILLED value (palloc'd) that a row has until its bytes are restored. */
extern struct varlena *sf_read_new_unfilled(const SfUnfilled *unfilled);

/* What a varlena holds before the bytes of an INLINE value, and how many at most. */
#define SF_INLINE_OVERHEAD	(VARHDRSZ + 1)
#define SF_INLINE_MAX		((int64) (MaxAllocSize - SF_INLINE_OVERHEAD))

/*
 * An INLINE datum with room for len bytes; *data is where they go.  palloc'd.  ERROR
 * PROGRAM_LIMIT_EXCEEDED above SF_INLINE_MAX.
 */
extern struct varlena *sf_read_new_inline(Size len, char **data);

/*
 * Length of a value in bytes; touches no data.  The former says it of an UNFILLED value, too.
 * ERROR DATA_CORRUPTED as for sf_read_form(), and as for sf_object_length().
 */
extern int64 sf_read_length(struct varlena *datum);
extern int64 sf_read_value_length(const SfValue *value);

/*
 * What a value consists of (see SfPiece); returns how many pieces, palloc'd,
 * which point into it, so the value has to stay.  ERROR DATA_CORRUPTED when it is no
 * securefile datum.
 */
extern int	sf_read_pieces(struct varlena *value, SfPiece **pieces);

/*
 * Bytes [object_offset, object_offset + len) of a value into dst.  The range
 * must lie inside the value.  Reads no unit it does not touch.  ERROR
 * DATA_CORRUPTED or UNDEFINED_OBJECT (value outlived its row).  Opens and locks the
 * segment itself, for the time of the call.  May be cancelled.  Not for critical
 * sections; not reentrant, since the requests are static.  A value remembers that its
 * locator was found genuine.
 */
extern void sf_read_range(struct varlena *datum, int64 object_offset, int64 len, char *dst);
extern void sf_read_value_range(SfValue *value, int64 object_offset, int64 len, char *dst);

/*
 * Bytes [start, start + len) of the unit space of a STORED value, which are those of the value
 * unless it is PIECED.  Errors likewise.
 */
extern void sf_read_unit_space(SfValue *value, int64 start, int64 len, char *dst);

/*
 * The same for a version in the making, which has unit_space_bytes now: what is in its
 * map.  The caller has the segment open and locked, at least AccessShareLock.  Errors as
 * for sf_read_range().
 */
extern void sf_read_map(SfSegment *seg, SfEdit *edit, const SfLocator *version,
						int64 unit_space_bytes, int64 object_offset, int64 len, char *dst);

/*
 * The next bytes of a STORED value that are not in a hole: from *object_offset
 * on, at most *len.  Sets both; false when there are none.  *object_offset is at most
 * the value's length.  Opens and locks the segment itself.
 */
extern bool sf_read_next_data(SfValue *value, int64 *object_offset, int64 *len);

/*
 * A reader: a value that is read in pieces, over several calls.  Pieces that
 * follow one another are read ahead: up to 4 MB a reader, four readers a process
 * at a time; the others are read call by call.  What goes through the page cache
 * is left to the system's reading ahead.
 *
 * begin copies the datum, of any form.  The reader lives in the current memory
 * context and ends with it, or by sf_read_end().  It holds no snapshot: a caller
 * that keeps it over statements sees to it that its value stays.  While it reads
 * ahead it keeps the segment locked (AccessShareLock), whatever subtransaction
 * ends.
 */
typedef struct SfReader SfReader;
extern SfReader *sf_read_begin(struct varlena *datum);

/* Its copy of the datum, and the length in bytes.  Good as long as the reader.  Never throw. */
extern struct varlena *sf_read_reader_datum(const SfReader *reader);
extern const SfValue *sf_read_reader_value(const SfReader *reader);
extern int64 sf_read_reader_length(const SfReader *reader);

/* Frees all the reader has, and lets its lock go.  Never throws. */
extern void sf_read_end(SfReader *reader);

/*
 * Bytes [object_offset, object_offset + len) into dst; must lie inside the
 * value.  Checks and errors are those of sf_read_range(); after an error the
 * reader may be used on.
 */
extern void sf_read_at(SfReader *reader, int64 object_offset, int64 len, char *dst);

/* Nothing is wanted from there on: it is not read ahead.  A hint, at least 0.  Never throws. */
extern void sf_read_stop_at(SfReader *reader, int64 object_offset);

/* End of a transaction, of any kind; after I/O in flight was waited for.  Never throws. */
extern void sf_read_at_end(void);

/*
 * Whole value as a bytea (palloc'd).  ERROR PROGRAM_LIMIT_EXCEEDED above 1 GB
 * that names the streaming functions; else errors as for sf_read_range().
 */
extern struct varlena *sf_read_bytea(struct varlena *datum);
extern struct varlena *sf_read_value_bytea(SfValue *value);

/* Whole value as an INLINE securefile datum (palloc'd).  Errors as for sf_read_bytea(). */
extern struct varlena *sf_read_inline(struct varlena *datum);

/*
 * Check one value: calls found(what, segment_offset, len, detail, arg) for each
 * unit that cannot be read or does not match.  Does not throw for damage of units;
 * damage of inode pages is an ERROR.  Offsets and lengths are bytes of the segment; what
 * and detail are good until found() returns.  Values of other forms have no units.
 */
typedef void (*SfReadFinding) (const char *what, int64 segment_offset, int64 len,
							   const char *detail, void *arg);
extern void sf_read_verify(struct varlena *datum, SfReadFinding found, void *arg);

/*
 * The units of a value whose data is not on this server (read/damage.c), in their order:
 * calls missing(unit, seed, arg) for each, where seed is that of its checksum.  The callback
 * reads no value.  Units that are damaged, or cannot be read, for another reason are passed over.
 * Needs no key.  Errors as for sf_read_verify().
 */
typedef void (*SfReadMissing) (const SfUnit *unit, uint64 seed, void *arg);
extern void sf_read_missing(struct varlena *datum, SfReadMissing missing, void *arg);

#endif							/* SF_READ_H */
