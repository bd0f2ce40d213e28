/*-------------------------------------------------------------------------
 *
 * stream.h
 *	  Values in pieces: reading and writing at offsets, in constant memory.
 *
 * Audience: ddl/ (storing what is not a plain value), sql/ (handles).
 *
 *-------------------------------------------------------------------------
 */
#ifndef SF_STREAM_H
#define SF_STREAM_H

#include "datatype/timestamp.h"
#include "read/read.h"
#include "write/write.h"

/*
 * A value that is read, or one that is written.  What is written is seen by
 * reads of the same stream at once, and by nobody else before it is finished
 * and stored.
 */
typedef struct SfStream SfStream;

/*
 * To read a value of any form.  Lives in CurrentMemoryContext, as all do, and ends with
 * it; the value is copied.  ERROR DATA_CORRUPTED when the value is no securefile datum.
 */
extern SfStream *sf_stream_open(struct varlena *value);

/*
 * To write a new value of a column: seg is its segment.  NULL (the column has
 * none, being temporary or unlogged): in memory, at most 1 GB.  seg is open for
 * writing; the stream keeps a copy of it and notices when the storage is replaced.
 */
extern SfStream *sf_stream_create(SfSegment *seg);

/*
 * To change a value.  A STORED one is not copied: the result shares with it
 * what is not written; nothing is made before the first write.  An INLINE one
 * is changed in memory.  ERROR when the storage of a STORED one was replaced since.
 */
extern SfStream *sf_stream_edit(struct varlena *value);

/* Was it made to write?  And its length in bytes, with all that was written.  Never throw. */
extern bool sf_stream_is_writable(const SfStream *stream);
extern int64 sf_stream_length(const SfStream *stream);

/* The value that it was opened on, while it is that still; else NULL.  Never throws. */
extern struct varlena *sf_stream_unchanged(const SfStream *stream);

/*
 * As sf_read_next_data(), of a stream to write, with all that was written: the next bytes that
 * are in no gap, from *object_offset on, at most *len, which is above 0.
 */
extern bool sf_stream_next_data(SfStream *stream, int64 *object_offset, int64 *len);

/*
 * Bytes [object_offset, object_offset + len) into dst; must lie inside.  Errors are those
 * of sf_read_range(); a stream that is read may be used on after one.
 */
extern void sf_stream_read(SfStream *stream, int64 object_offset, int64 len, char *dst);

/*
 * A value that stands for what the stream reads, where it is asked which columns have its bytes;
 * of no use for more.  Good until the stream is used again.  Never throws.
 */
extern SfValue sf_stream_place(const SfStream *stream);

/*
 * ERROR PROGRAM_LIMIT_EXCEEDED when bytes [object_offset, object_offset + len)
 * would make the value too long.  To be asked before they are written.
 */
extern void sf_stream_require_room(const SfStream *stream, int64 object_offset, int64 len);

/*
 * Write at any offset; what is between the end and it becomes a gap, which
 * reads as zeros and takes no space.  The caller has asked sf_stream_require_room().
 * data may be freed when this returns.  After an ERROR the stream may hold a part of the
 * bytes: only a rollback takes them back.
 */
extern void sf_stream_write(SfStream *stream, int64 object_offset, const char *data, int64 len);

/* Cut, or lengthen by a gap, to so many bytes.  Room and errors as for a write. */
extern void sf_stream_truncate(SfStream *stream, int64 length);

/*
 * Put bytes in between, or take a range out, which must lie inside.  What follows moves; where that
 * is much it stays in its place, and the value becomes pieces.  Room and errors as for a write.
 */
extern void sf_stream_insert(SfStream *stream, int64 object_offset, const char *data, int64 len);
extern void sf_stream_delete(SfStream *stream, int64 object_offset, int64 len);

/*
 * Make zeros of a range, and lengthen the value if the range ends behind its end.  Whole units
 * become holes.  Room and errors as for a write.
 */
extern void sf_stream_zero(SfStream *target, int64 object_offset, int64 len);

/*
 * Copy bytes [start, start + len) of another stream, or of a value of any form, which must lie
 * inside, to a place in a stream.  The source is as its own writes have left it; its gaps stay
 * gaps.  Memory is constant.  Room as for a write; errors also those of reading.
 */
extern void sf_stream_copy(SfStream *target, int64 at, SfStream *source, int64 start, int64 len);
extern void sf_stream_copy_value(SfStream *target, int64 at, struct varlena *value,
								 int64 start, int64 len);

/*
 * The value: INLINE if it is short or was made in memory; what the stream was
 * opened on if nothing was written; else a draft (see sf_write_adopt()).  The
 * stream is of no use after that.  palloc'd.
 */
extern SfValue sf_stream_finish(SfStream *stream);

/*
 * Store a whole value of len > 0 bytes in a column: sf_write_value(), or a reference to
 * where the same bytes are already, if the column deduplicates.  encoded: as there.
 */
extern SfValue sf_stream_put(SfSegment *seg, const char *data, Size len,
							 const SfEncoded *encoded);

/*
 * Write a value that is not INLINE to a column and place it.  old: the STORED
 * value that the row has now, or NULL; space is shared with it where the value
 * was made from it.  A copy inside the segment is a reference where that is possible
 * (reflink.c), unless anew: what is stored then is as the column asks for it now.  Copies in
 * pieces; gaps stay gaps.  seg is open for
 * writing.  Returns the value for the row: palloc'd, or value itself.
 */
extern SfValue sf_stream_store(SfSegment *seg, const SfValue *value, const SfValue *old,
							   bool anew);

/*
 * Has a value that is not INLINE a gap that is so long that columns that deduplicate do not
 * look for it?  Reads its map.
 */
extern bool sf_stream_is_too_sparse(struct varlena *value);

/* ---- handles (handle.c): streams by number, with a position ---- */

typedef struct SfHandle
{
	int			number;
	int			level;			/* of the subtransaction whose abort closes it */
	MemoryContext context;
	SfStream   *stream;			/* NULL: it is finished */
	int64		position;
	Snapshot	snapshot;		/* keeps the value; registered */
	struct varlena *value;		/* if it is finished, */
	CommandId	command;		/* and by which command, */
	TimestampTz statement;		/* of which statement of the client */
} SfHandle;

/*
 * Open a handle.  The caller makes the stream in handle->context, which the
 * handle owns; an ERROR meanwhile leaves a handle without a stream, which the
 * end of the (sub)transaction removes.  The handle lies in TopMemoryContext.  ERROR
 * PROGRAM_LIMIT_EXCEEDED when the numbers of a transaction are used up.
 */
extern SfHandle *sf_stream_handle_new(void);

/*
 * ERROR QUERY_CANCELED if a cancel request has come while a handle was open, and
 * hit no statement.  Call before a handle is used, but not before it is closed.
 */
extern void sf_stream_cancel_report(void);

/* The open handle of that number; ERROR UNDEFINED_OBJECT when there is none. */
extern SfHandle *sf_stream_handle_get(int number);

/* Before a write: an abort of the present subtransaction closes the handle.  Never throws. */
extern void sf_stream_handle_note_write(SfHandle *handle);

/* Close it, open or finished, and give its memory and its snapshot back. */
extern void sf_stream_handle_close(SfHandle *handle);

/*
 * Finish its stream and return the value, palloc'd.  The handle stays, without a stream,
 * and so does its snapshot till the end of the transaction.  Errors as for
 * sf_stream_finish(); the handle is still open then.
 */
extern struct varlena *sf_stream_handle_finish(SfHandle *handle);

/*
 * The value of a handle that this very command has finished, or NULL: an UPDATE
 * evaluates its expressions again when the row was changed by another one.  palloc'd.
 */
extern struct varlena *sf_stream_handle_finished(int number);

/*
 * Transaction ends; called by the one callback in securefile.c.  close_all: before a
 * commit or a prepare, while resource owners are still there.  forget_all: in an abort,
 * when snapshots are gone.  level: nest level of the subtransaction that ends, from 2 on.
 */
extern void sf_stream_handle_close_all(void);
extern void sf_stream_handle_forget_all(void);
extern void sf_stream_handle_at_subcommit(int level);
extern void sf_stream_handle_at_subabort(int level);

#endif							/* SF_STREAM_H */
