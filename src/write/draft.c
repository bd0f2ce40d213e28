/*-------------------------------------------------------------------------
 *
 * draft.c
 *	  A version of an object in the making.  Units are encoded, placed (copied to
 *	  the gather cache), and sealed (checksummed as they are stored, while the first
 *	  of them are on their way to disk, and noted in the map).
 *
 *	plain bytes --encode--> stored bytes --place--> gather cache --> disk
 *									 |
 *									 +--seal--> checksum, place and length in the map
 *
 * Units of a KEYED object are encrypted on their way to the gather cache, so that plain
 * bytes of them lie in no buffer that is written.
 *
 * A unit is placed before it is sealed, because a full extent can then be on its way to
 * disk while its units are hashed: the processor and the disk work at the same time.  The
 * bytes that are hashed are the caller's (or the coded ones), not those in the gather
 * cache, so that it does not matter when the cache is emptied.  So it is with the SHA-256 of
 * a value that is given whole, in a column that keeps it; of one that comes in pieces the
 * stream makes it (stream/hash.c).
 *
 * Nothing that a draft does can be seen by others: its units lie in lent space, its
 * inode pages are noted as this transaction's, and its locator is in no row.  To give one
 * up is to forget it.
 *
 *-------------------------------------------------------------------------
 */
#include "base/base.h"

#include "keys/keys.h"
#include "miscadmin.h"
#include "space/dictionary_pages.h"
#include "space/share_records.h"
#include "write/write_internal.h"

/* as much as makes an extent that is worth a write of its own */
#define UNITS_AT_ONCE	(SF_GATHER_EARLY_SECTORS / SF_UNIT_SECTORS)

struct SfDraft
{
	SfSegment  *seg;			/* this transaction's copy */
	SfStatCounters *stats;		/* of its column */
	SfLocator	version;
	SfLocator  *base;			/* or NULL */
	SfShareId	record;			/* that owns the base's map; page 0: none does */
	uint64		seed;
	SfEncoder	encoder;
	const SfEncoded *encoded;	/* the only unit, if it is encoded already */
	SfSha256   *hash;			/* of all that is put, in order; or NULL */
	SfEdit	   *edit;
	SfObject   *object;
};

/* The data key of a KEYED version; good until the next key is asked for. */
static const SfDataKey *
data_key_of(const SfDraft *draft)
{
	return sf_keys_of(draft->seg, draft->version.key_id);
}

static bool
is_keyed(const SfDraft *draft)
{
	return draft->version.key_id != 0;
}

bool
sf_write_may_share(SfSegment *seg, const SfLocator *base)
{
	bool		is_keyed_base = (base->flags & SF_LOC_KEYED) != 0;

	return is_keyed_base == sf_config_encrypts(sf_space_column(seg)) &&
		!(is_keyed_base && (sf_keys_is_distrusted(seg, base->key_id) ||
							!sf_keys_can_decrypt(seg, base->key_id)));
}

/*
 * Which key a version has: an object keeps its key, so that units can be shared; a new one
 * takes the current one of its column.
 */
static void
choose_key(SfDraft *draft, SfSegment *seg)
{
	if (draft->base != NULL)
	{
		sf_object_require_genuine(seg, draft->base);
		draft->version.key_id = draft->base->key_id;
	}
	else if (sf_config_encrypts(sf_space_column(seg)))
		draft->version.key_id = sf_keys_current(seg)->id;
	if (is_keyed(draft))
		draft->version.flags |= SF_LOC_UNITS | SF_LOC_KEYED;
	draft->version.genuine = is_keyed(draft);
}

/*
 * A version of a shared value keeps the row's one reference, and owns what the shared object
 * has not.  So does one of a private value that was copied by its root: the reference that
 * its row has there is in the record only, and gets an id now.
 */
static void
refer_to_shared(SfDraft *draft, SfSegment *seg)
{
	SfLocator  *version = &draft->version;

	SF_ASSERT(!(version->flags & SF_LOC_SHARED));
	if (draft->base->flags & SF_LOC_SHARED)
		version->share = draft->base->share;
	else if (draft->record.page != 0)
		version->share = (SfShareReference) {draft->record.page, draft->record.cell, 0,
													sf_space_reserve_ids(seg, 1)};
	else
		return;
	version->flags |= SF_LOC_SHARED;
	version->share.flags |= SF_SHARE_BASED;
}

/*
 * What a new version has of its base, or a new object for itself.  A version keeps the
 * object's id, so that checksums of shared units, whose seed it is, stay right; and its
 * generation tells it from the base.
 */
static void
name_version(SfDraft *draft, SfSegment *seg)
{
	SfLocator  *version = &draft->version;

	version->table_oid = seg->table_oid;
	version->attnum = seg->attnum;
	version->incarnation = seg->incarnation;
	if (draft->base != NULL)
	{
		version->object_id = draft->base->object_id;
		SF_ASSERT(draft->base->table_oid == seg->table_oid && draft->base->attnum == seg->attnum);
		version->generation = draft->base->generation + 1;
		refer_to_shared(draft, seg);
	}
	else
	{
		version->object_id = sf_space_reserve_ids(seg, 1);
		version->generation = 1;
	}
}

static SfCompression
level_of(const SfDraft *draft)
{
	return sf_space_column(draft->seg)->options.compression;
}

SfDraft *
sf_write_draft(SfSegment *seg, struct varlena *base)
{
	SfDraft    *draft = palloc0(sizeof(SfDraft));

	sfi_write_require_open();
	if (base != NULL)
	{
		base = sf_object_copy(base, CurrentMemoryContext);
		draft->base = palloc(sizeof(SfLocator));
		*draft->base = sf_object_locator(base);
		sf_object_require_tag(seg, draft->base);
		SF_ASSERT(draft->base->incarnation == seg->incarnation);
		if (sf_object_has_root(draft->base))
			(void) sf_space_root_take(seg, sf_object_root(draft->base), false, &draft->record);
	}
	choose_key(draft, seg);
	name_version(draft, seg);

	/*
	 * The id was taken from the segment's cache entry.  From here on only the
	 * transaction's copy is used, which stays at its address while statements
	 * come and go.
	 */
	draft->seg = seg = sfi_write_segment(seg);
	draft->stats = sf_stats_local(seg->table_oid, seg->attnum);
	draft->seed = sf_format_seed(seg->incarnation, draft->version.object_id);

	/*
	 * what the base has is read by its own units' flags, whatever the option
	 * was then
	 */
	sf_transform_begin(&draft->encoder, level_of(draft), NULL);
	SF_ASSERT(draft->seg->incarnation == draft->version.incarnation);
	draft->object = sfi_objects_begin(seg, &draft->version, draft->base);
	draft->edit = sf_object_edit(seg, &draft->version, draft->base, sfi_objects_pages,
								 draft->object);
	return draft;
}

void
sf_write_draft_resize(SfDraft *draft, uint64 nunits)
{
	sf_object_edit_resize(draft->edit, nunits);
}

SfEdit *
sf_write_draft_map(SfDraft *draft, SfSegment **seg, const SfLocator **version)
{
	*seg = draft->seg;
	*version = &draft->version;
	return draft->edit;
}

/* Count how a unit is stored. */
static void
count_unit(const SfDraft *draft, const SfEncoder *encoder, uint32 plain_bytes, const SfUnit *unit)
{
	SfStatCounters *stats = draft->stats;

	if (sf_transform_is_raw(unit))
		stats->units_incompressible += encoder->codec != NULL;
	if (sf_transform_is_raw(unit) && !is_keyed(draft))
		stats->bytes_nontransformed += plain_bytes;
	else
	{
		stats->bytes_transformed += plain_bytes;
		stats->bytes_transformed_stored += unit->stored_bytes;
	}
}

/*
 * Encode a unit; returns what is stored of it, which is the plain bytes themselves where
 * the column does not compress, or nothing is gained.
 */
static const char *
encode_unit(const SfDraft *draft, SfEncoder *encoder, const char *plain, uint32 len, SfUnit *unit)
{
	if (draft->encoded == NULL)
		return sfi_pack_unit(draft->stats, encoder, plain, len, unit);
	*unit = draft->encoded->unit;
	return draft->encoded->bytes;
}

/*
 * Encrypt a unit into its place.  Its checksum is of what is stored, so that it can be
 * checked without a key; it is taken before anything else is reserved, as the gather cache
 * may be written then.
 */
static void
encrypt_unit(SfDraft *draft, uint64 unit_no, const char *stored, char *dst, SfUnit *unit)
{
	const SfUnitId id = {draft->version.incarnation, draft->version.object_id, unit_no};
	Size		len = sf_transform_sealed_bytes(unit);

	SF_FAULT(encrypt);
	if (!sf_transform_seal_unit(data_key_of(draft), &id, unit, stored, dst))
	{
		memset(dst, 0, len);
		sfi_pack_report_no_cipher();
	}
	SF_ASSERT(unit->stored_bytes == len);
	unit->checksum = sf_format_checksum(dst, len, draft->seed);
}

/*
 * Give a unit its place, and copy there what is stored of it, padded to a sector with
 * zeros: the padding is written to disk, and must not be what was in memory.
 */
static void
place_unit(SfDraft *draft, uint64 unit_no, const char *stored, uint64 ahead_bytes, SfUnit *unit)
{
	bool		encrypts = is_keyed(draft);
	uint32		len = encrypts ? sf_transform_sealed_bytes(unit) : unit->stored_bytes;
	uint32		nsectors = sf_bytes_to_sectors(len);
	const SfPlacing placing = {
		draft->seg, draft->stats, nsectors, Max(nsectors, sf_bytes_to_sectors(ahead_bytes)),
		.transformed = encrypts || !sf_transform_is_raw(unit)
	};
	char	   *dst;

	SF_ASSERT(unit->stored_bytes > 0 && len <= SF_UNIT_STORED_MAX);
	dst = sfi_gather_place(&placing, &unit->start);
	if (encrypts)
		encrypt_unit(draft, unit_no, stored, dst, unit);
	else
		memcpy(dst, stored, len);
	memset(dst + unit->stored_bytes, 0, sf_sectors_to_bytes(nsectors) - unit->stored_bytes);
}

/* Note in the map where a unit lies, and what its stored bytes hash to. */
static void
seal_unit(SfDraft *draft, uint64 unit_no, const SfUnit *unit)
{
	SF_ASSERT(sf_format_is_possible_run(unit->start, sf_unit_sectors(unit)));
	sf_object_edit_set(draft->edit, unit_no, unit);
}

/*
 * Encode and place a unit.  What the codec made is hashed
 * at once, since its memory is used again for the next unit.
 */
static void
put_unit(SfDraft *draft, SfEncoder *encoder, uint64 unit_no, const char *plain, uint32 len,
		 uint64 ahead_bytes, SfUnit *unit)
{
	const char *stored = encode_unit(draft, encoder, plain, len, unit);

	place_unit(draft, unit_no, stored, sf_transform_expect(encoder, ahead_bytes), unit);
	count_unit(draft, encoder, len, unit);
	if (!sf_transform_is_raw(unit) && !is_keyed(draft))
		unit->checksum = sf_format_checksum(stored, unit->stored_bytes, draft->seed);
}

/*
 * Put a few units, as many as fill an extent that is worth a write.  All of them are
 * placed before those that are stored as they are get hashed.
 */
static void
put_some(SfDraft *draft, SfEncoder *encoder, uint64 first_unit, const char *data, Size len,
		 uint64 ahead_bytes)
{
	SfUnit		units[UNITS_AT_ONCE];
	uint32		n = sf_units_of(len);

	SF_ASSERT(n > 0 && n <= UNITS_AT_ONCE);
	for (uint32 i = 0; i < n; i++)
		put_unit(draft, encoder, first_unit + i, data + sf_unit_start(i),
				 sf_unit_plain_bytes(len, i), ahead_bytes - sf_unit_start(i), &units[i]);

	/*
	 * All units of this call are placed, so the extent is as long as it gets
	 * for now.
	 */
	sfi_gather_start_early();
	for (uint32 i = 0; i < n; i++)
	{
		if (sf_transform_is_raw(&units[i]) && !is_keyed(draft))
			units[i].checksum = sf_format_checksum(data + sf_unit_start(i), units[i].stored_bytes,
												   draft->seed);
		seal_unit(draft, first_unit + i, &units[i]);
	}
	if (draft->hash != NULL)
		sf_transform_hash_update(draft->hash, data, len);
}

/*
 * An object that ends with its first unit is encoded with the newest dictionary of its
 * segment, if there is one.  A larger one has enough of its own to learn from; of an edit
 * that ends there it does not matter whether more units follow.
 */
static SfDictionary *
dictionary_for(const SfDraft *draft, uint64 first_unit, uint64 ahead_bytes)
{
	SfDictionary *dictionary;
	SfHome		home;

	if (draft->encoded != NULL || first_unit > 0 ||
		ahead_bytes > SF_UNIT_SIZE || !sf_transform_is_trainable(level_of(draft)))
		return NULL;
	dictionary = sf_space_trained(draft->seg->table_oid, draft->seg->attnum, RowExclusiveLock,
								  &home);
	return dictionary != NULL && home.incarnation == draft->seg->incarnation ? dictionary : NULL;
}

void
sf_write_draft_put(SfDraft *draft, uint64 first_unit, const char *data, Size len,
				   uint64 ahead_bytes)
{
	const Size	at_once = (Size) UNITS_AT_ONCE * SF_UNIT_SIZE;
	SfEncoder  *encoder = &draft->encoder;
	SfEncoder	trained;
	SfDictionary *dictionary;

	sfi_write_require_open();

	/*
	 * An encoder for this call only: the next one that asks for a dictionary
	 * may free this one, also after an ERROR here that the draft survives.
	 */
	dictionary = dictionary_for(draft, first_unit, ahead_bytes);
	SF_ASSERT(dictionary == NULL || len <= SF_UNIT_SIZE);
	if (dictionary != NULL)
	{
		sf_transform_begin(&trained, level_of(draft), dictionary);
		encoder = &trained;
	}

	/*
	 * The caller's memory is read once more after the copy, for the
	 * checksums; a few units at a time, so that it is still in the
	 * processor's cache.
	 */
	for (Size done = 0; done < len; done += at_once)
	{
		CHECK_FOR_INTERRUPTS();
		put_some(draft, encoder, first_unit + sf_unit_of(done), data + done,
				 Min(len - done, at_once), ahead_bytes - done);
	}
}

void
sf_write_draft_punch(SfDraft *draft, uint64 unit_no)
{
	SfUnit		hole = {.start = SF_HOLE};

	sf_object_edit_set(draft->edit, unit_no, &hole);
}

/*
 * Make the value, and note what the object has now that its base has not: that is
 * what a row will own by it.
 */
SfValue
sf_write_draft_finish(SfDraft *draft, uint64 unit_space_bytes, const SfContentHash *hash,
					  const SfRange *ranges, int64 nranges)
{
	const SfNewList list = {draft->base, ranges, nranges};
	SfValue		value;
	SfOwned		owned;

	sfi_write_require_open();
	value = sf_object_edit_finish(draft->edit, unit_space_bytes, hash,
								  ranges != NULL ? &list : NULL);
	SF_ASSERT(value.loc.generation == draft->version.generation);
	owned = sf_object_difference(draft->seg, &value.loc, draft->base, NULL);
	sfi_objects_finish(draft->object, &value.loc, &owned);
	pfree(owned.runs);
	return value;
}

SfValue
sf_write_value(SfSegment *seg, const char *data, Size len, const SfEncoded *encoded,
			   const SfFingerprint *fingerprint)
{
	SfDraft    *draft = sf_write_draft(seg, NULL);
	SfValue		value;
	SfSha256	hash;
	SfContentHash kept;

	SF_ASSERT(len > 0);
	if (sf_space_column(seg)->options.hash)
	{
		sf_transform_hash_begin(&hash);
		draft->hash = &hash;
	}
	if (encoded != NULL && encoded->bytes != NULL)
		draft->encoded = encoded;
	SF_ASSERT(draft->encoded == NULL || len <= SF_UNIT_SIZE);
	sf_write_draft_resize(draft, sf_units_of(len));
	sf_write_draft_put(draft, 0, data, len, len);
	if (draft->hash != NULL)
		sf_transform_hash_finish(&hash, &kept);
	value = sf_write_draft_finish(draft, len, draft->hash != NULL ? &kept : NULL,
								  NULL, 0);
	if (fingerprint != NULL)
		value = sf_write_share(seg, &value, fingerprint);
	else
		sfi_objects_place(draft->object, &value.loc);
	pfree(draft);
	return value;
}
