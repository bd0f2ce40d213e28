/*-------------------------------------------------------------------------
 *
 * deduplicate.c
 *	  Storing a content once: is it there already, and is it really the same?
 *
 *		 hash of all bytes --> own records of this transaction, then the advice
 *			 --> record: same length, hash, and as the column would store it now (key,
 *				 compression, with or without its SHA-256)?
 *			 --> counted up (guard), so that its object stays
 *			 --> compared, byte by byte
 *			 --> a reference; else the value is written, and gets a record
 *
 * A hash is a hint, and so is the advice.  Only bytes that were compared make two values one.
 * What cannot be read, is damaged, or was left behind by a restore, is no duplicate, and no
 * error of the statement that stores.
 *
 * Values that are read for this are read once for the hash, and once more for the comparison
 * or the copy.  Those that come in pieces are hashed and compared as they come (store_once.c).
 *
 *-------------------------------------------------------------------------
 */
#include "base/base.h"

#include "keys/keys.h"
#include "miscadmin.h"
#include "space/share_records.h"
#include "stats/stats.h"
#include "stream/deduplicate.h"
#include "transform/transform.h"

/* ---- hashes ---- */

/* What a digest of so many bytes becomes in the column. */
static void
hash_of(SfSegment *seg, uint16 key_id, SfDigest digest, int64 length, uint8 *hash)
{
	const SfDataKey *key = key_id != 0 ? sf_keys_of(seg, key_id) : NULL;

	sf_transform_fingerprint(key, &digest, length, hash);
	if (SF_FAULT_SKIPS(short_hash))
	{
		memset(hash + 1, 0, SF_CONTENT_HASH_BYTES - 1);
		hash[0] &= 0x0f;
	}
}

void
sfi_search_begin(SfSearch *search, SfSegment *seg)
{
	const SfColumn *column = sf_space_column(seg);

	SF_ASSERT(sf_config_deduplicates(column));
	memset(search, 0, sizeof(*search));
	search->seg = seg;
	search->key_id = sf_config_encrypts(column) ? sf_keys_current(seg)->id : 0;
	search->compression = column->options.compression;
	search->hashed = column->options.hash;
}

void
sfi_search_set_prefix(SfSearch *search, SfDigest digest)
{
	uint8		hash[SF_CONTENT_HASH_BYTES];

	SF_ASSERT(search->seg != NULL);
	hash_of(search->seg, search->key_id, digest, SF_UNIT_SIZE, hash);
	memcpy(&search->hash.prefix, hash, sizeof(search->hash.prefix));
}

void
sfi_search_set_full(SfSearch *search, SfDigest digest, int64 length)
{
	SF_ASSERT(search->seg != NULL && length > 0);
	search->length = length;
	hash_of(search->seg, search->key_id, digest, length, search->hash.full);
}

/*
 * Parts are read one after the other into the same memory.  A content that is shorter than a part
 * needs no more than its length.
 */
char *
sfi_part_new(int64 length)
{
	SF_ASSERT(length >= 0);
	return sf_base_secret_new(Min(length, SF_PART_BYTES));
}

/*
 * Bytes of a content; buffer is one for it (sfi_part_new()), and is used if they are not in
 * memory.
 */
static const char *
part_of(const SfContent *content, int64 offset, int64 len, char *buffer)
{
	SF_ASSERT(offset >= 0 && len > 0 && offset + len <= content->length);
	if (content->data != NULL)
		return content->data + offset;
	sf_read_range(content->value, offset, len, buffer);
	return buffer;
}

/* Hash a content. */
static void
hash_content(SfSearch *search, const SfContent *content)
{
	SfHasher   *hasher = sfi_hasher_new();
	char	   *buffer = content->data == NULL ? sfi_part_new(content->length) : NULL;

	for (int64 at = 0; at < content->length; at += SF_PART_BYTES)
	{
		int64		len = Min(SF_PART_BYTES, content->length - at);

		CHECK_FOR_INTERRUPTS();
		sfi_hasher_add(hasher, part_of(content, at, len, buffer), len);
	}
	if (content->length > SF_UNIT_SIZE)
		sfi_search_set_prefix(search, sfi_hasher_prefix(hasher));
	sfi_search_set_full(search, sfi_hasher_digest(hasher), content->length);
	sf_base_secret_free(buffer);
	sfi_hasher_free(hasher);
}

/* ---- candidates ---- */

/*
 * Is the object of a record stored as the column would store it now?  If not, a rewrite is to
 * make another one.  A reference takes the SHA-256 that the object keeps, or that it keeps none.
 */
static bool
is_current(const SfSearch *search, const SfShareRecord *record)
{
	return record->key_id == search->key_id && record->compression == search->compression &&
		sf_format_share_is_hashed(record) == search->hashed;
}

/* Could the object of a record stand for a content that is searched by its hash? */
static bool
fits(const SfSearch *search, const SfShareRecord *record, SfAdviceKind kind)
{
	if (!is_current(search, record) ||
		record->hash_method != (search->key_id != 0 ? SF_SHARE_HASH_KEYED : SF_SHARE_HASH_XXH3))
		return false;
	if (kind == SF_ADVICE_PREFIX)
		return record->prefix_hash == search->hash.prefix;
	return record->length_bytes == (uint64) search->length &&
		memcmp(record->hash, search->hash.full, sizeof(record->hash)) == 0;
}

/* ---- comparison ---- */

/* A range of a content, and of an object, which are compared. */
typedef struct Comparison
{
	SfReader   *there;
	const SfContent *content;
	int64		offset;			/* where the content is in the object */
	bool		same;
} Comparison;

/*
 * An SfBaseStep.  The first part is read alone; those after it are in order, and in a column
 * past the page cache they are read ahead.
 */
static void
compare(void *arg)
{
	Comparison *comparison = arg;
	const SfContent *content = comparison->content;
	char	   *theirs = sfi_part_new(content->length);
	char	   *buffer = content->data == NULL ? sfi_part_new(content->length) : NULL;
	bool		same = true;

	for (int64 at = 0; same && at < content->length; at += SF_PART_BYTES)
	{
		int64		len = Min(SF_PART_BYTES, content->length - at);

		CHECK_FOR_INTERRUPTS();
		sf_read_at(comparison->there, comparison->offset + at, len, theirs);
		same = memcmp(theirs, part_of(content, at, len, buffer), len) == 0;
	}
	sf_base_secret_free(theirs);
	sf_base_secret_free(buffer);
	comparison->same = same;
}

/* What cannot be read is not the same. */
bool
sfi_content_is_at(const SfContent *content, SfReader *there, int64 offset)
{
	Comparison	comparison = {there, content, offset, false};
	ErrorData  *error = sf_base_guarded_read(compare, &comparison);

	if (error == NULL)
		return comparison.same;
	sf_io_reap_all();
	FreeErrorData(error);
	return false;
}

/*
 * The object of a record, which was read, if it begins with the content, or is it: a reader
 * behind that.  Else NULL.  The object stays while it is looked at, since its record is counted
 * up first.
 */
static SfReader *
try_record(const SfSearch *search, const SfContent *content, SfAdviceKind kind, SfShareId id,
		   const SfShareRecord *record)
{
	SfValue		object;
	SfReader   *there;

	SF_ASSERT(content->length > 0);
	if (!fits(search, record, kind) || record->length_bytes < (uint64) content->length ||
		!sf_write_guard(search->seg, id, record->object_id))
		return NULL;
	SF_FAULT(share_guarded);
	object = sf_object_reference(search->seg, record, id, SF_NUMBER_MAX, NULL);
	there = sf_read_begin(object.datum);
	pfree(object.datum);
	if (sfi_content_is_at(content, there, 0))
		return there;
	sfi_count_mismatch(search->seg);
	sf_read_end(there);
	return NULL;
}

/*
 * The object of a record that the advice leads to, as of try_record(), which is searched by all
 * bytes or by its first unit (kind).  Takes stale entries out.
 */
static SfReader *
try_advice(const SfSearch *search, const SfContent *content, SfAdviceKind kind,
		   const SfAdvice *advice, SfShareId *id, SfShareCopy *copy)
{
	if (!sf_space_share_follow(search->seg, advice, id, copy))
	{
		sf_space_advice_remove(search->seg, advice);
		return NULL;
	}
	return try_record(search, content, kind, *id, &copy->record);
}

/*
 * The first object of those that the advice has under a key.  full: of those with that hash of all
 * bytes, unless it is NULL.  *known: there are entries of the key, of whatever content.
 */
static SfReader *
search_advice(const SfSearch *search, const SfContent *content, uint64 key, SfAdviceKind kind,
			  const uint64 *full, bool *known, SfShareId *id, SfShareCopy *copy)
{
	SfAdvice	advice[SF_ADVICE_SAME_MAX];
	int			n = sf_space_advice_find(search->seg, key, kind, advice);
	SfReader   *there = NULL;

	SF_ASSERT(n >= 0 && n <= SF_ADVICE_SAME_MAX);
	*known = n > 0;
	for (int i = 0; i < n && there == NULL; i++)
		if (full == NULL || advice[i].full == *full)
			there = try_advice(search, content, full == NULL ? SF_ADVICE_PREFIX : SF_ADVICE_FULL,
							   &advice[i], id, copy);
	return there;
}

SfReader *
sfi_search_prefix(const SfSearch *search, const SfContent *content, SfShareId *id,
				  SfShareCopy *copy)
{
	bool		known;

	SF_ASSERT(content->length == SF_UNIT_SIZE);
	return search_advice(search, content, search->hash.prefix, SF_ADVICE_PREFIX, NULL, &known, id,
						 copy);
}

/*
 * What has the content, as of try_record().  Own records come first: they are found in memory,
 * without a look at the advice.  That has the entry under the hash of the first unit; under the
 * hash of all bytes only if many contents have the same first unit.
 */
static SfReader *
find_object(const SfSearch *search, const SfContent *content, SfShareId *id, SfShareCopy *copy)
{
	SfReader   *there = NULL;
	uint64		full;
	bool		known = true;

	if (sf_write_own_share(search->seg, &search->hash, id) &&
		sf_space_share_read(search->seg, *id, copy))
		there = try_record(search, content, SF_ADVICE_FULL, *id, &copy->record);
	if (there != NULL)
		return there;
	memcpy(&full, search->hash.full, sizeof(full));
	if (search->hash.prefix != 0)
		there = search_advice(search, content, search->hash.prefix, SF_ADVICE_PREFIX, &full,
							  &known, id, copy);
	if (there != NULL || !known)
		return there;
	return search_advice(search, content, full, SF_ADVICE_FULL, &full, &known, id, copy);
}

SfValue
sfi_search_whole(const SfSearch *search, const SfContent *content)
{
	SfShareCopy copy;
	SfShareId	id;
	SfReader   *there = find_object(search, content, &id, &copy);

	SF_ASSERT(search->length == content->length);
	if (there == NULL)
		return (SfValue) {NULL};
	sf_read_end(there);
	return sf_write_reference(search->seg, id, &copy.record, NULL);
}

/* ---- counters ---- */

void
sfi_count_mismatch(const SfSegment *seg)
{
	sf_stats_local(seg->table_oid, seg->attnum)->dedup_mismatches++;
}

void
sfi_count_hit(const SfSegment *seg, const SfLocator *reference)
{
	SfStatCounters *stats = sf_stats_local(seg->table_oid, seg->attnum);

	stats->dedup_hits++;
	stats->dedup_bytes += sf_locator_value_bytes(reference);
}

/* ---- storing ---- */

SfValue
sf_stream_put(SfSegment *seg, const char *data, Size len, const SfEncoded *encoded)
{
	const SfContent content = {.data = data, .length = len};
	SfSearch	search;
	SfValue		found;

	if (!sf_config_deduplicates(sf_space_column(seg)))
		return sf_write_value(seg, data, len, encoded, NULL);
	sfi_search_begin(&search, seg);
	hash_content(&search, &content);
	found = sfi_search_whole(&search, &content);
	if (found.datum == NULL)
		return sf_write_value(seg, data, len, encoded, &search.hash);
	sfi_count_hit(seg, &found.loc);
	return found;
}

bool
sfi_store_is_as_asked(SfSegment *seg, const SfValue *value)
{
	const SfLocator *loc = &value->loc;
	SfSearch	search;
	SfShareCopy copy;

	if (value->form != SF_FORM_STORED ||
		!sf_object_is_reference(loc) || loc->incarnation != seg->incarnation ||
		!sf_space_share_read(seg, sf_share_id_of(loc), &copy))
		return false;
	sfi_search_begin(&search, seg);
	return is_current(&search, &copy.record);
}

/* Hash a value, unless its digests are noted. */
static void
hash_value(SfSearch *search, const SfValue *value, const SfContent *content)
{
	SfDigest	digest;
	SfDigest	prefix;

	if (!sfi_hasher_recall(value, &digest, &prefix))
	{
		hash_content(search, content);
		return;
	}
	if (content->length > SF_UNIT_SIZE)
		sfi_search_set_prefix(search, prefix);
	sfi_search_set_full(search, digest, content->length);
}

SfValue
sfi_store_found(SfSegment *seg, const SfValue *value, SfFingerprint *hash)
{
	const SfContent content = {.value = value->datum, .length = sf_read_length(value->datum)};
	SfSearch	search;

	sfi_search_begin(&search, seg);
	hash_value(&search, value, &content);
	*hash = search.hash;
	return sfi_search_whole(&search, &content);
}
