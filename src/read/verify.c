/*-------------------------------------------------------------------------
 *
 * verify.c
 *	  All of a stored value is read and checked: its units by their checksums, and
 *	  all of them together by the hash that its locator keeps.
 *
 * Units are checked where they arrive, and go nowhere.  They arrive in the order of their
 * numbers, so the hash goes along; what is between them are holes.  A value with a unit that
 * is not sound, or cannot be decrypted here, has no hash to compare.
 *
 * A long value is read directly, whatever the cache mode: that is what the disk has, it is
 * faster, and it leaves the page cache to the readers of values.  For short ones, what the
 * system reads ahead is worth more.
 *
 * The same walk finds the units that are not on this server, since their data is not in WAL.
 *
 *-------------------------------------------------------------------------
 */
#include "base/base.h"

#include "miscadmin.h"
#include "read/read_internal.h"

/* From so many bytes on a value is read past the page cache: its requests overlap. */
#define DIRECT_BYTES	(4 * 1024 * 1024)

/* So much of a PIECED value is read at once, for its hash. */
#define PART_BYTES		((int64) 1024 * 1024)

/* The check of one value; the caller's listener, which hears of it, too. */
typedef struct Verify
{
	SfReadFinding found;
	void	   *arg;
	const SfLocator *loc;
	bool		hashes;			/* all was sound so far, and there is a hash */
	SfSha256	hash;			/* of all that has come */
} Verify;

/* An SfReadFinding: the hash of a value that is not sound says nothing. */
static void
tell(const char *what, int64 segment_offset, int64 len, const char *detail, void *arg)
{
	Verify	   *verify = arg;

	verify->hashes = false;
	verify->found(what, segment_offset, len, detail, verify->arg);
}

/*
 * Hash zeros up to there.  A value that keeps a hash has not many more of them than other
 * bytes (stream/hash.c), so this ends.
 */
static void
hash_hole(Verify *verify, uint64 end)
{
	static const char zeros[SF_BLOCK_SIZE];

	SF_ASSERT(verify->hash.length_bytes <= end);
	while (verify->hash.length_bytes < end)
	{
		CHECK_FOR_INTERRUPTS();
		sf_transform_hash_update(&verify->hash, zeros,
								 Min(sizeof(zeros), end - verify->hash.length_bytes));
	}
}

/* An SfReadPlain: a unit, and the holes before it. */
static void
take(uint64 unit_no, const char *plain, void *arg)
{
	Verify	   *verify = arg;

	SF_ASSERT(unit_no < verify->loc->nunits);
	verify->hashes &= plain != NULL;
	if (!verify->hashes || (verify->loc->flags & SF_LOC_PIECED))
		return;
	hash_hole(verify, sf_unit_start(unit_no));
	sf_transform_hash_update(&verify->hash, plain,
							 sf_unit_plain_bytes(verify->loc->unit_space_bytes, unit_no));
}

/* Units of a PIECED value come in another order than its bytes, which are read once more. */
static void
hash_pieces(Verify *verify, struct varlena *datum)
{
	char	   *part = sf_base_secret_new(PART_BYTES);
	int64		length = sf_locator_value_bytes(verify->loc);

	SF_ASSERT(verify->hash.length_bytes == 0);
	for (int64 at = 0; at < length; at += PART_BYTES)
	{
		int64		len = Min(PART_BYTES, length - at);

		CHECK_FOR_INTERRUPTS();
		sf_read_range(datum, at, len, part);
		sf_transform_hash_update(&verify->hash, part, len);
	}
	sf_base_secret_free(part);
}

/* When all units have come. */
static void
compare_hash(Verify *verify, struct varlena *datum, const SfContentHash *kept)
{
	SfContentHash hash;

	/*
	 * The midstate is compared, too: a version that goes on from a wrong one
	 * would have a wrong hash.
	 */
	if (verify->loc->flags & SF_LOC_PIECED)
		hash_pieces(verify, datum);
	else
		hash_hole(verify, verify->loc->unit_space_bytes);
	SF_ASSERT(verify->hash.length_bytes == sf_locator_value_bytes(verify->loc));
	sf_transform_hash_finish(&verify->hash, &hash);
	if (memcmp(&hash, kept, sizeof(hash)) != 0)
		verify->found("content hash differs", 0, 0,
					  "All units are sound, but they are not those that the hash was made of.",
					  verify->arg);
}

void
sf_read_verify(struct varlena *datum, SfReadFinding found, void *arg)
{
	Verify		verify = {.found = found, .arg = arg};
	SfReadListener listener = {.found = tell, .plain = take, .arg = &verify};
	SfReadTarget target = {0};
	SfContentHash kept;
	SfReadJob	job;
	SfSegment  *seg;
	SfLocator	loc;

	/* others have no units: an EDITED value never stands in a row */
	if (sf_read_form(datum) != SF_FORM_STORED)
		return;
	loc = sf_object_locator(datum);
	verify.loc = &loc;
	target.len = loc.unit_space_bytes;
	seg = sf_object_open(&loc);
	sfi_read_prepare_job(&job, seg, &loc, &target, &listener);
	if (loc.unit_space_bytes >= DIRECT_BYTES)
		sfi_read_past_cache(&job);
	/* without its key a value is checked by what is stored of it, and no more */
	if (job.decrypts)
	{
		sf_object_require_genuine(seg, &loc);
		verify.hashes = sf_object_kept_hash(seg, &loc, &kept);
	}
	sf_transform_hash_begin(&verify.hash);
	sfi_read_units(&job, &listener, SfReadTargetFirst(&target));
	if (loc.flags & SF_LOC_PIECED)
		sf_object_require_sound_list(seg, &loc);
	if (verify.hashes)
		compare_hash(&verify, datum, &kept);
	sf_space_release(seg);
}

/*
 * Whether a unit is there, only its checksum tells.  So values that could have units that are not
 * are read whole, past the page cache, but not decoded.  What else is wrong with a value is the
 * business of a check.
 */
void
sf_read_missing(struct varlena *datum, SfReadMissing missing, void *arg)
{
	SfReadListener listener = {.missing = missing, .arg = arg};
	SfReadTarget target = {0};
	SfReadJob	job;
	SfSegment  *seg;
	SfLocator	loc;

	if (sf_read_form(datum) != SF_FORM_STORED)
		return;
	loc = sf_object_locator(datum);
	target.len = loc.unit_space_bytes;
	seg = sf_object_open(&loc);
	if (sfi_read_may_be_missing(seg, loc.object_id))
	{
		sfi_read_prepare_job(&job, seg, &loc, &target, &listener);
		sfi_read_past_cache(&job);
		sfi_read_units(&job, &listener, SfReadTargetFirst(&target));
	}
	sf_space_release(seg);
}
