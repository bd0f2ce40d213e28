/*-------------------------------------------------------------------------
 *
 * deduplicate.c
 *	  Storing a content once: is it there already, and is it really the same?
 *
 *		 hash of all bytes --> own records of this transaction, then the advice
 *			 --> record: same length, hash, key and compression as the column has now?
 *			 --> counted up (guard), so that its object stays
 *			 --> compared, byte by byte
 *			 --> a reference; else the value is written, and gets a record
 *
 * A hash is a hint, and so is the advice.  Only bytes that were compared make two values one.
 * What cannot be read, is damaged, or was left behind by a restore, is no duplicate, and no
 * error of who stores.
 *
 * Values that are read for this are read once for the hash, and once more for the comparison
 * or the copy.
 *
 *-------------------------------------------------------------------------
 */
#include "base/base.h"

#define XXH_STATIC_LINKING_ONLY /* the state's size and alignment */
#include <xxhash.h>

#include "keys/keys.h"
#include "miscadmin.h"
#include "stats/stats.h"
#include "stream/stream_internal.h"
#include "transform/transform.h"

/* Bytes that are read at once. */
#define PART_BYTES		(1024 * 1024)

/* What is to be stored: bytes in memory, or a value that can be read. */
typedef struct Content
{
	const char *data;			/* NULL: value */
	struct varlena *value;
	int64		length;
}			Content;

/* A content, and what a record must say to have the same for this column. */
typedef struct Search
{
	SfSegment  *seg;
	Content		content;
	uint8		hash[SF_CONTENT_HASH_BYTES];
	uint16		key_id;
	uint8		compression;
}			Search;

/* Bytes of a content; buffer has PART_BYTES, and is used if they are not in memory. */
static const char *
part_of(const Content * content, int64 offset, int64 len, char *buffer)
{
	if (content->data != NULL)
		return content->data + offset;
	sf_read_range(content->value, offset, len, buffer);
	return buffer;
}

/* XXH3-128 of a content. */
static SfDigest
digest_of(const Content * content)
{
	XXH3_state_t *state;
	XXH128_hash_t hash;
	char	   *buffer;

	if (content->data != NULL)
		return sf_format_digest(content->data, content->length);
	state = palloc_extended(sizeof(XXH3_state_t) + 64, 0);
	state = (XXH3_state_t *) TYPEALIGN(64, state);
	buffer = palloc(PART_BYTES);
	(void) XXH3_128bits_reset(state);
	for (int64 at = 0; at < content->length; at += PART_BYTES)
	{
		int64		len = Min(PART_BYTES, content->length - at);

		CHECK_FOR_INTERRUPTS();
		(void) XXH3_128bits_update(state, part_of(content, at, len, buffer), len);
	}
	hash = XXH3_128bits_digest(state);
	pfree(buffer);
	return (SfDigest) {hash.low64, hash.high64};
}

/* Hash a content as the column does now. */
static void
begin_search(Search * search, SfSegment *seg, Content content)
{
	const SfColumn *column = sf_space_column(seg);
	const SfDataKey *key = sf_config_encrypts(column) ? sf_keys_current(seg) : NULL;
	SfDigest	digest;

	SF_ASSERT(content.length > 0 && sf_config_deduplicates(column));
	search->seg = seg;
	search->content = content;
	search->key_id = key != NULL ? key->id : 0;
	search->compression = column->options.compression;
	digest = digest_of(&content);
	if (key != NULL)
		key = sf_keys_of(seg, search->key_id);	/* others were asked for
												 * meanwhile */
	sf_transform_content_hash(key, &digest, content.length, search->hash);
	if (SF_FAULT_SKIPS(short_hash))
	{
		memset(search->hash + 1, 0, sizeof(search->hash) - 1);
		search->hash[0] &= 0x0f;
	}
}

/* ---- candidates ---- */

/* A candidate, and how it compares with what is searched. */
typedef struct Candidate
{
	const		Search *search;
	const		SfShareCopy *copy;
	SfShareId	id;
	bool		same;
}			Candidate;

/* Could the object of a record stand for the content? */
static bool
fits(const Search * search, const SfShareRecord *record)
{
	return record->length_bytes == (uint64) search->content.length &&
		record->key_id == search->key_id && record->compression == search->compression &&
		record->hash_method == (search->key_id != 0 ? SF_SHARE_HASH_KEYED : SF_SHARE_HASH_XXH3) &&
		memcmp(record->hash, search->hash, sizeof(search->hash)) == 0;
}

/* Compare the bytes (an SfBaseStep). */
static void
compare(void *arg)
{
	Candidate  *candidate = arg;
	const		Content *content = &candidate->search->content;
	struct varlena *there = sf_object_reference(candidate->search->seg,
												&candidate->copy->record, candidate->id, 1);
	char	   *theirs = palloc(PART_BYTES);
	char	   *buffer = content->data == NULL ? palloc(PART_BYTES) : NULL;
	bool		same = true;

	for (int64 at = 0; same && at < content->length; at += PART_BYTES)
	{
		int64		len = Min(PART_BYTES, content->length - at);

		CHECK_FOR_INTERRUPTS();
		sf_read_range(there, at, len, theirs);
		same = memcmp(theirs, part_of(content, at, len, buffer), len) == 0;
	}
	pfree(theirs);
	pfree(there);
	candidate->same = same;
}

/* Does an object have the very same bytes?  One that cannot be read has not. */
static bool
is_same(const Search * search, const SfShareCopy * copy, SfShareId id)
{
	Candidate	candidate = {search, copy, id, false};
	ErrorData  *error = sf_base_guarded(compare, &candidate);

	if (error == NULL)
		return candidate.same;
	FreeErrorData(error);
	return false;
}

/*
 * A reference to a record, if it has the content; else NULL.  Its object stays where it is
 * while it is compared, since the record is counted up first.
 */
static struct varlena *
try_record(const Search * search, SfShareId id)
{
	SfShareCopy copy;

	if (!sf_space_share_read(search->seg, id, &copy) || !fits(search, &copy.record) ||
		!sf_write_guard(search->seg, id, copy.record.object_id) ||
		!is_same(search, &copy, id))
		return NULL;
	return sf_write_reference(search->seg, id, &copy.record);
}

static struct varlena *
find(const Search * search)
{
	struct varlena *found = NULL;
	SfShareId	id;

	if (sf_write_own_share(search->seg, search->hash, &id))
		found = try_record(search, id);
	return found;
}

/* ---- storing ---- */

struct varlena *
sf_stream_put(SfSegment *seg, const char *data, Size len, const SfEncoded *encoded)
{
	Search		search;
	struct varlena *found;

	if (!sf_config_deduplicates(sf_space_column(seg)))
		return sf_write_value(seg, data, len, encoded, NULL);
	begin_search(&search, seg, (Content) {.data = data, .length = len});
	found = find(&search);
	return found != NULL ? found : sf_write_value(seg, data, len, encoded, search.hash);
}

/*
 * A reference to the object that a STORED value of this very segment refers to, without a
 * look at its bytes; NULL: it is none, or would be stored in another way now.
 */
static struct varlena *
refer_to_same(SfSegment *seg, struct varlena *value)
{
	SfLocator	loc = sf_object_locator(value);
	const SfColumn *column = sf_space_column(seg);
	SfShareCopy copy;
	SfShareId	id;

	if (!(loc.flags & SF_LOC_SHARED) || loc.incarnation != seg->incarnation ||
		(loc.share.flags & SF_SHARE_BASED))
		return NULL;
	sf_object_require_tag(seg, &loc);
	id = sf_share_id_of(&loc);
	if (!sf_space_share_read(seg, id, &copy) || copy.record.object_id != loc.object_id ||
		copy.record.compression != column->options.compression ||
		copy.record.key_id != (sf_config_encrypts(column) ? sf_keys_current(seg)->id : 0) ||
		!sf_write_guard(seg, id, loc.object_id))
		return NULL;
	return sf_write_reference(seg, id, &copy.record);
}

struct varlena *
sfi_store_found(SfSegment *seg, struct varlena *value, uint8 *hash)
{
	Search		search;
	struct varlena *found = NULL;

	if (sf_read_form(value) == SF_FORM_STORED)
		found = refer_to_same(seg, value);
	if (found != NULL)
		return found;
	begin_search(&search, seg, (Content) {.value = value, .length = sf_read_length(value)});
	memcpy(hash, search.hash, sizeof(search.hash));
	return find(&search);
}
