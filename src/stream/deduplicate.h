/*-------------------------------------------------------------------------
 *
 * deduplicate.h
 *	  Searching for contents that are stored already, for the files of stream/.
 *
 *-------------------------------------------------------------------------
 */
#ifndef SF_DEDUPLICATE_H
#define SF_DEDUPLICATE_H

#include "space/share_records.h"
#include "stream/stream_internal.h"

/* Bytes that are read, and compared, at once. */
#define SF_PART_BYTES		(1024 * 1024)

/* ---- hasher.c ---- */

/* XXH3-128 of bytes that come one after the other; palloc'd, and given back by pfree(). */
typedef struct SfHasher SfHasher;
extern SfHasher *sfi_hasher_new(void);
extern void sfi_hasher_free(SfHasher *hasher);
extern void sfi_hasher_add(SfHasher *hasher, const char *data, int64 len);
extern SfDigest sfi_hasher_digest(const SfHasher *hasher);

/* Of the first unit, which has come. */
extern SfDigest sfi_hasher_prefix(const SfHasher *hasher);

/*
 * Note the digests of a finished draft, which has just these bytes; and ask for those of a
 * value of any form: false, nothing is noted of it.
 */
extern void sfi_hasher_note(const SfHasher *hasher, const SfLocator *draft);
extern bool sfi_hasher_recall(const SfValue *value, SfDigest *digest, SfDigest *prefix);

/* ---- deduplicate.c ---- */

/* A buffer for parts of a content of that length; for sf_base_secret_free(). */
extern char *sfi_part_new(int64 length);

/* Bytes in memory, or a value of any form that can be read. */
typedef struct SfContent
{
	const char *data;			/* NULL: value */
	struct varlena *value;
	int64		length;
} SfContent;

/* What a record must say to have a content as the column would store it now. */
typedef struct SfSearch
{
	SfSegment  *seg;
	uint16		key_id;
	uint8		compression;
	bool		hashed;			/* with its SHA-256, or without */
	int64		length;
	SfFingerprint hash;
} SfSearch;

/* Begin a search in a column that deduplicates; then set its hashes.  Errors of keys. */
extern void sfi_search_begin(SfSearch *search, SfSegment *seg);
extern void sfi_search_set_prefix(SfSearch *search, SfDigest digest);
extern void sfi_search_set_full(SfSearch *search, SfDigest digest, int64 length);

/*
 * An object whose record has the prefix hash, and that begins with these bytes: a reader (in
 * the current memory context) behind them; its record is guarded.  NULL: there is none.
 */
extern SfReader *sfi_search_prefix(const SfSearch *search, const SfContent *content,
								   SfShareId *id, SfShareCopy *copy);

/*
 * A reference (palloc'd, placed) to what has this content, whose hash is set; datum NULL: nothing
 * has.
 */
extern SfValue sfi_search_whole(const SfSearch *search, const SfContent *content);

/* Has an object these bytes at that place?  False, too, where it cannot be read. */
extern bool sfi_content_is_at(const SfContent *content, SfReader *there, int64 offset);

/*
 * Count a content that a hash has led to, and whose bytes are others, or cannot be read; and
 * a reference that a row gets instead of bytes.  One that a stream ends with, and no row has
 * yet, does not count.  A copy without bytes does: a user who asks what was not written does
 * not ask how it was known to be there.
 */
extern void sfi_count_mismatch(const SfSegment *seg);
extern void sfi_count_hit(const SfSegment *seg, const SfLocator *reference);

#endif							/* SF_DEDUPLICATE_H */
