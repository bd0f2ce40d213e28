/*-------------------------------------------------------------------------
 *
 * stream_internal.h
 *	  What the files of stream/ share.
 *
 * handle.c			streams by number
 * cancel.c			cancel requests that come between two uses of a handle
 * stream.c			which kind of stream; opening, finishing
 * bytes.c			reading and writing a stream of any kind; a value that is changed in memory
 * stage.c			a value that is changed in its segment, unit by unit
 * pieced.c			a stage whose value is pieces of it (pieced.h)
 * fragment.c		bytes put in between, or taken out, in a stream of any kind
 * arrange.c		which of its bytes stay where they are, and which are copied
 * copy_range.c		bytes from one stream, or a value, into another stream
 * hash.c			the SHA-256 of such a value, where the column keeps it
 * hasher.c			the digest of what comes in parts
 * deduplicate.c	storing a content once
 * store_once.c		a new value in pieces, compared with what is there
 * reflink.c		copies of whole values that move no byte
 * store.c			storing what is not INLINE: copies, and edits in place
 *
 * stream.c and store.c call each other, by nature: a value is stored by way of a stream,
 * and a stream that is opened on an EDITED value has to store the pieces of that value.
 *
 *-------------------------------------------------------------------------
 */
#ifndef SF_STREAM_INTERNAL_H
#define SF_STREAM_INTERNAL_H

#include "stream/stream.h"
#include "transform/transform.h"

typedef enum StreamKind
{
	STREAM_READ,				/* value is read */
	STREAM_MEMORY,				/* bytes are changed */
	STREAM_STAGE,				/* units of seg are written */
} StreamKind;

/* A new value of a column that deduplicates (store_once.c). */
typedef struct SfOnce SfOnce;

/* A stage whose value is pieces of it (pieced.h). */
typedef struct SfPieced SfPieced;

struct SfStream
{
	StreamKind	kind;
	MemoryContext context;
	int64		length;			/* of a stage: of its unit space */
	SfPieced   *pieced;			/* NULL: the value is the unit space */
	struct varlena *value;		/* what it was opened on, or NULL */
	SfReader   *reader;			/* to read it */
	SfHome		home;			/* whose a TRAINED or SEALED one is, which the
								 * reader has unpacked */

	/* memory */
	char	   *bytes;
	int64		bytes_size;

	/*
	 * stage.  At most one unit is in memory: what is behind its end are
	 * zeros. The draft is made when the first unit is written.
	 */
	SfSegment	seg;			/* as it was opened */
	SfDraft    *draft;
	char	   *unit;			/* NULL: not needed yet */
	uint64		unit_no;
	bool		unit_loaded;
	bool		unit_changed;
	bool		changed;
	int64		data_end;		/* behind it are holes only */
	int64		final_length;	/* that it will have; 0: nobody knows */
	SfOnce	   *once;			/* or NULL */

	/* hash.c */
	bool		hashes;			/* the column keeps hashes */
	bool		hash_late;		/* what was hashed was changed: the rest is
								 * left to the end */
	SfSha256	hash;			/* of the first bytes, as many as it has seen */
	int64		hash_written;	/* bytes that were written, */
	int64		hash_read;		/* and read for the hash only */
};

/* ---- bytes.c ---- */

/* Room for so many bytes of a value in memory; errors as of sf_stream_require_room(). */
extern void sfi_bytes_reserve(SfStream *stream, int64 length);

/* Make zeros of a range, as far as it lies before the end; of whole units holes. */
extern void sfi_zero_within(SfStream *stream, int64 object_offset, int64 len);

/* ---- copy_range.c ---- */

/*
 * Put a piece of a value at a place.  Zeros behind the end do not lengthen the stream.  Errors of
 * reading and writing; may be cancelled.
 */
extern void sfi_copy_piece(SfStream *target, int64 at, const SfPiece *piece);

/* ---- cancel.c ---- */

/*
 * Note requests from now on while a handle is open, and no longer.  Called whenever the
 * number of open handles changes.  Never throws.
 */
extern void sfi_cancel_watch(bool any_open);

/* What was noted has been reported, or is not wanted any more.  Never throws. */
extern void sfi_cancel_forget(void);

/* ---- stage.c ---- */

/*
 * Arguments and errors are those of the functions of stream.h.  All throw when the
 * column's storage was replaced since the stream was opened.  They may be cancelled.
 */
extern void sfi_stage_read(SfStream *stream, int64 object_offset, int64 len, char *dst);
extern void sfi_stage_write(SfStream *stream, int64 object_offset, const char *data, int64 len);

/* As sf_read_next_data(), of what is in the stage.  *len is above 0. */
extern bool sfi_stage_next_data(SfStream *stream, int64 *object_offset, int64 *len);

/*
 * Make zeros of a range, as far as it is not behind the last data; never longer than the
 * value is.  Whole units become holes.
 */
extern void sfi_stage_zero(SfStream *stream, int64 object_offset, int64 len);
extern void sfi_stage_resize(SfStream *stream, int64 length);

/* ERROR OBJECT_NOT_IN_PREREQUISITE_STATE when the storage was replaced. */
extern void sfi_stage_require_usable(SfStream *stream);

/* The finished draft, palloc'd, which is not empty. */
extern SfValue sfi_stage_finish(SfStream *stream);

/* The same of one whose value is those pieces of it; hash: of these, to be kept, or NULL. */
extern SfValue sfi_stage_finish_pieces(SfStream *stream, const SfContentHash *hash,
									   const SfRange *ranges, int64 nranges);

/* ---- hash.c ---- */

/*
 * The stage is new, or on the STORED value of that locator, whose tag was found right.
 * Errors of sf_object_kept_hash().  The others never throw.  All of them do nothing, and
 * want nothing, for a column that keeps no hashes.
 */
extern void sfi_hash_begin(SfStream *stream, SfSegment *seg, SfLocator *base);

/* The stage of a new value is empty again. */
extern void sfi_hash_restart(SfStream *stream);

/* Up to where the value is hashed. */
extern int64 sfi_hash_place(const SfStream *stream);

/* Bytes from there on are about to change. */
extern void sfi_hash_cut(SfStream *stream, int64 object_offset);

/*
 * Are bytes to be read, from the place of the hash to where others are about to be written,
 * or, when all are written, to the end?  The latter is false if the value is to keep no hash.
 */
extern bool sfi_hash_wants_gap(const SfStream *stream, int64 object_offset);
extern bool sfi_hash_wants_rest(const SfStream *stream);

/* The same of a stage in pieces that is to keep a hash: are all bytes to be read? */
extern bool sfi_hash_wants_all(int64 length);

/* Bytes were written there; the bytes from the place of the hash on were read. */
extern void sfi_hash_add(SfStream *stream, int64 object_offset, const char *data, int64 len);
extern void sfi_hash_add_read(SfStream *stream, const char *data, int64 len);

/* ---- store.c ---- */

/*
 * Make a stage of the column hold what the pieces of a value say.  The stage is empty, or
 * on the STORED value that some of the pieces are parts of, and unchanged.  May be cancelled.
 */
extern void sfi_store_pieces(SfStream *stream, const SfPiece *pieces, int npieces);

/*
 * Make a stage on the STORED value of a row, which is unchanged, hold them; in pieces, where that
 * writes much less.  False, and nothing done: all of the value is to be copied.
 */
extern bool sfi_store_edited(SfStream *stream, const SfPiece *pieces, int npieces);

/* The STORED value that an EDITED one begins with, or NULL.  Points into it.  Never throws. */
extern struct varlena *sfi_store_base(const SfPiece *pieces, int npieces);

/* ---- reflink.c ---- */

/*
 * A reference (palloc'd, placed) to what a value of any form is, if it is a stored one of the
 * segment that can be copied without its bytes; else its datum is NULL.  DATA_CORRUPTED for a
 * locator that was not made by its segment, or a damaged page; errors of sf_keys_of().
 */
extern SfValue sfi_store_reflink(SfSegment *seg, const SfValue *value);

/* ---- deduplicate.c ---- */

/*
 * Has a value of this very segment, which deduplicates, a record that is as the column would
 * have it now?  Then it is its own duplicate, without a look at its bytes.
 */
extern bool sfi_store_is_as_asked(SfSegment *seg, const SfValue *value);

/*
 * A reference (palloc'd, placed) to what has the same bytes as a value of any form, in a
 * column that deduplicates; datum NULL: nothing has, and *hash is that of the value.
 */
extern SfValue sfi_store_found(SfSegment *seg, const SfValue *value, SfFingerprint *hash);

/* ---- store_once.c ---- */

/* A stage for a new value begins, which is empty, of a column that deduplicates. */
extern void sfi_once_begin(SfStream *stream);

/*
 * What the functions of stage.c call, of a stage of any column, unless the unit that they are
 * asked for is compared only.
 */
extern void sfi_once_read(SfStream *stream, int64 object_offset, int64 len, char *dst);
extern void sfi_once_write(SfStream *stream, int64 object_offset, const char *data, int64 len);
extern bool sfi_once_next_data(SfStream *stream, int64 *object_offset, int64 *len);
extern void sfi_once_zero(SfStream *stream, int64 object_offset, int64 len);
extern void sfi_once_resize(SfStream *stream, int64 length);

/*
 * It is to be changed in another way than by appending, or was looked for already: from now
 * on it is a stage like any other.
 */
extern void sfi_once_give_up(SfStream *stream);

/*
 * A finished draft, or a reference (placed), palloc'd.  The value is not empty.
 */
extern SfValue sfi_once_finish(SfStream *stream);

#endif							/* SF_STREAM_INTERNAL_H */
