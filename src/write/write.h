/*-------------------------------------------------------------------------
 *
 * write.h
 *	  Putting values into segments: the gather cache, the owners of objects,
 *	  the order of things at commit.
 *
 * All of this is for one process and its transaction: nothing here lies in shared
 * memory.  Segments are open with RowExclusiveLock when they are handed in.  Nothing may
 * be called in a critical section or in replay.  What writes throws when the disk is
 * full or fails, when memory is short, and after this transaction's pre-commit.
 *
 *-------------------------------------------------------------------------
 */
#ifndef SF_WRITE_H
#define SF_WRITE_H

#include "base/base.h"
#include "config/config.h"
#include "format/removed.h"
#include "object/object.h"
#include "space/share_records.h"
#include "space/space.h"

/* A value of one unit, encoded before it is known where it goes (pack.c). */
typedef struct SfEncoded
{
	const char *bytes;			/* what is to be stored; NULL: nothing is
								 * known */
	SfUnit		unit;			/* its length and codec */
} SfEncoded;

/* What a value hashes to, of a column that deduplicates. */
typedef struct SfFingerprint
{
	uint8		full[SF_CONTENT_HASH_BYTES];
	uint64		prefix;			/* of its first unit; 0: it has no other */
} SfFingerprint;

/*
 * Would a column compress a value of len bytes for its row?  Neither one that is too
 * small to gain, nor one of more than a unit.
 */
extern bool sf_write_packs(const SfColumn *column, Size len);

/*
 * The bytes that a value has in its row before the stored bytes of its unit, when it is
 * compressed by that encoder.
 */
struct SfEncoder;
extern uint32 sf_write_packed_header(const struct SfEncoder *encoder);

/*
 * Compress a value, which sf_write_packs(), for its row: the PACKED, TRAINED or SEALED datum
 * (palloc'd), or NULL when that saves less than an eighth, or takes more than SF_IN_ROW_MAX
 * bytes.  Then *encoded is what sf_write_value() would make of it, and good until the next value is
 * written or compressed.
 */
extern struct varlena *sf_write_pack(const SfColumn *column, const char *data, Size len,
									 SfEncoded *encoded);

/*
 * Encrypt a value of 1 to SF_IN_ROW_MAX bytes for its row, in a column that encrypts: the
 * SEALED datum (palloc'd).  Errors of sf_keys_current().
 */
extern struct varlena *sf_write_seal(const SfColumn *column, const char *data, Size len);

/*
 * Write a whole value of len > 0 bytes as a new object of the column and return the
 * STORED value (palloc'd).  The object is *placed*: this transaction must confirm it
 * with sf_write_confirm(), or its space is given back at transaction end.  data may be
 * freed when this returns.  encoded: of sf_write_pack() for the same column and data, or
 * NULL.  fingerprint: it is to be shared, as by sf_write_share(); or NULL.
 */
extern SfValue sf_write_value(SfSegment *seg, const char *data, Size len,
							  const SfEncoded *encoded, const SfFingerprint *fingerprint);

/* ---- shared objects (shares.c) ---- */

/*
 * Make a share record of a finished draft of the column, of generation 1 and with that
 * content hash, and return the value of a row that refers to it,
 * placed.  A draft whose locator is too long is placed as it is.
 */
extern SfValue sf_write_share(SfSegment *seg, const SfValue *draft, const SfFingerprint *hash);

/*
 * A record of this transaction for a content with that hash in the segment's storage, which
 * is to be compared like any other; false: there is none.
 */
extern bool sf_write_own_share(SfSegment *seg, const SfFingerprint *hash, SfShareId *id);

/*
 * Make a record of a value with a root page (sf_object_has_root()), whose tag was checked, so
 * that this transaction can refer to what a row has: it is guarded.  copy, id: that record.
 * False: the value is of this transaction, is being changed or deleted, or its locator is too
 * long.
 */
extern bool sf_write_share_root(SfSegment *seg, const SfLocator *loc, SfShareCopy *copy,
								SfShareId *id);

/*
 * Count a record up by 1, once for this transaction, so that its object stays until its end;
 * false: it is gone, or nobody may refer to it (sf_space_share_refer()).
 */
extern bool sf_write_guard(SfSegment *seg, SfShareId id, uint64 object_id);

/*
 * The STORED value (palloc'd) of a row that refers to a record that is guarded: placed.  object:
 * as for sf_object_reference().
 */
extern SfValue sf_write_reference(SfSegment *seg, SfShareId id, const SfShareRecord *record,
								  const SfLocator *object);

/* ---- versions in the making (draft.c) ---- */

/*
 * May a new version share units with that value of the segment, whose tag was found right?
 * Not if it was stored without encryption in a column that encrypts by now, or the other way
 * round, or if its key is distrusted or cannot be used here: then all of it is to be copied.
 */
extern bool sf_write_may_share(SfSegment *seg, const SfLocator *base);

/*
 * A new object of the column, or, with base (a STORED value of the segment, that
 * sf_write_may_share()), a new version of it, which shares with the base all units that are
 * not put again.  Begins with the base's units, or none.  Lives in CurrentMemoryContext, in
 * bounded memory; to give a draft up is to forget it.  A caller that keeps it over
 * statements sees to it that the segment still has the storage that the draft was begun in.
 * ERROR DATA_CORRUPTED when the base's locator is damaged.
 */
typedef struct SfDraft SfDraft;
extern SfDraft *sf_write_draft(SfSegment *seg, struct varlena *base);

/* Cut, or grow by holes, to so many units.  Writes inode pages when memory is full. */
extern void sf_write_draft_resize(SfDraft *draft, uint64 nunits);

/*
 * Write units in place of those that are there, from first_unit on, within the size of
 * the draft.  Every unit is full, except the object's last one.  ahead_bytes: how much
 * the object gets in a row, these included (at least len); a hint to where to put it.
 * data may be freed when this returns.
 */
extern void sf_write_draft_put(SfDraft *draft, uint64 first_unit, const char *data, Size len,
							   uint64 ahead_bytes);

/* Make a hole of a unit, which lies within the size of the draft. */
extern void sf_write_draft_punch(SfDraft *draft, uint64 unit_no);

/*
 * The map as it is now, for reading; valid until the draft is changed.  seg is this
 * transaction's copy, version belongs to the draft.  Never throws.
 */
extern SfEdit *sf_write_draft_map(SfDraft *draft, SfSegment **seg, const SfLocator **version);

/*
 * The STORED value (palloc'd), of unit_space_bytes > 0, which end in the last unit.  It can
 * be read in this transaction, adopted by a row once, or copied.  hash: of its bytes, to be
 * kept with it, or NULL.  ranges: the pieces that it is, if it is to be PIECED, or NULL.  The
 * draft may only be forgotten after that.
 */
extern SfValue sf_write_draft_finish(SfDraft *draft, uint64 unit_space_bytes,
									 const SfContentHash *hash, const SfRange *ranges,
									 int64 nranges);

/*
 * Place a finished draft in a row of the column, as it is.  old: what the row had, STORED, or
 * NULL.  False: the value has to be copied, since it is no draft (any more), not of this column,
 * or not made from old.  ERROR DATA_CORRUPTED when its tag is wrong.
 */
extern bool sf_write_adopt(SfSegment *seg, const SfValue *value, const SfValue *old);

/*
 * Is a STORED value a finished draft of the column that no row has: a new object, or a version
 * of another value?
 */
extern bool sf_write_is_draft(SfSegment *seg, const SfValue *value);
extern bool sf_write_is_version(SfSegment *seg, const SfValue *value);

/* ---- notes ---- */

/*
 * A row appeared (AFTER trigger): the locator is in a tuple of (table, attnum).  ERROR
 * TRIGGERED_DATA_CHANGE_VIOLATION unless this transaction placed it there and had not
 * confirmed it.  datum: a packed, detoasted STORED value; old: the one that the row had
 * before, or NULL.  May log entries early, to keep to securefile.transaction_memory.
 */
extern void sf_write_confirm(Oid table_oid, AttrNumber attnum, struct varlena *datum,
							 struct varlena *old);

/*
 * Has this transaction made a STORED value, without a row that was confirmed to have it?
 * ERROR DATA_CORRUPTED when its locator is damaged.
 */
extern bool sf_write_is_unconfirmed(struct varlena *datum);

/* Has a row that this transaction has confirmed a STORED value?  Errors likewise. */
extern bool sf_write_is_confirmed(struct varlena *datum);

/*
 * A row went away (AFTER trigger): free the object's space if this (sub)transaction
 * commits, once no snapshot needs it.  A locator of another table or column is ignored.
 * WARNING, and nothing freed, when the value is damaged.  next: the STORED value that
 * the row has now, or NULL; what the two share stays.  removal, or NULL: how the row has lost a
 * value of another transaction, to be listed as long as its space is kept.  Opens the segment if
 * the value is an older transaction's, and may log entries early.
 */
typedef struct SfRemoval
{
	SfRemovedKind kind;
	const char *key;			/* of the row, JSON; NULL: none */
	int			key_bytes;		/* at most SF_REMOVED_KEY_MAX */
} SfRemoval;

extern void sf_write_free(Oid table_oid, AttrNumber attnum, struct varlena *datum,
						  struct varlena *next, const SfRemoval *removal);

/* Has this transaction removed values that will be listed?  Never throws. */
extern bool sf_write_has_removed(SfStorage storage);

/*
 * Has this transaction stored or freed anything that its end must note in that storage,
 * or pages of it to give back?  Goes through all notes.  Never throws.
 */
extern bool sf_write_has_notes(SfStorage storage);

/*
 * Overlay: copy those of sectors [start, start + nsectors) of a segment that
 * are still in gather buffers (unflushed, or in flight) to their places in
 * dst (NULL: only count them); returns how many sectors that were.  What a read of one's own
 * transaction gets from disk is incomplete without it.  Never throws.
 */
extern uint32 sf_write_overlay(SfStorage storage, uint64 start_sector, uint32 nsectors, char *dst);

/*
 * Write out what is gathered and wait, so that parallel workers can read it.  ERROR when
 * a write of this transaction fails, or has failed before.
 */
extern void sf_write_flush(void);

/* ---- a limit for what is stored (arena.c) ---- */

/*
 * From now on, until limit_end or the end of the transaction, whatever this transaction stores in
 * the segment ends at or before that sector, a multiple of a block's.  For one segment at a time.
 * The segment does not grow for it: what finds no place is an ERROR CONFIGURATION_LIMIT_EXCEEDED.
 * Neither throws.
 */
extern void sf_write_limit(SfSegment *seg, uint64 below_sector);
extern void sf_write_limit_end(SfSegment *seg);

/* Is there one now, for any segment? */
extern bool sf_write_has_limit(void);

/* ---- ends of transactions; called by the one callback in securefile.c ---- */

/*
 * Before the commit or prepare record: all data durable, all entries in WAL.  Nothing can
 * be written after that in this transaction.  Throws, which ends the transaction.
 */
extern void sf_write_pre_commit(void);

/*
 * Top-level end, both ways, and prepare.  Returns whether pre-commit left
 * entries that the monitor will have to resolve.  Never throws.
 */
extern bool sf_write_at_end(bool commit);

/* A subtransaction of that nest level (2 and up) ends.  Neither throws. */
extern void sf_write_at_subcommit(int level);
extern void sf_write_at_subabort(int level);

#endif							/* SF_WRITE_H */
