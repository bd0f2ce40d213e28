/*-------------------------------------------------------------------------
 *
 * reflink.c
 *	  Copies of whole values inside a segment, without a byte of them being moved.
 *
 * What can be copied so: references to share records, and private values with a root page
 * (root.c of space/), which get a record by this.  Others are copied by their bytes: a
 * private value with a flat map, a version of a shared value, and what the column would
 * encrypt with another key now, or keep a hash of, or not.
 *
 * The locator of the row that is copied from was made by the segment, and for an encrypted
 * value by a holder of its key.  The record must say the same, byte by byte, before its map gets
 * into another row.
 *
 *-------------------------------------------------------------------------
 */
#include "base/base.h"

#include "keys/keys.h"
#include "space/share_records.h"
#include "stream/deduplicate.h"

#define UNITS_LOOKED_AT		SF_INODE_MAX_UNITS

/*
 * Is a STORED value one of this very segment, with the key that new ones get, and with a kept
 * hash where they get one?  And not in pieces: a share record has no list of them.
 */
static bool
is_at_home(SfSegment *seg, const SfLocator *loc)
{
	const SfColumn *column = sf_space_column(seg);

	return loc->incarnation == seg->incarnation && !(loc->flags & SF_LOC_PIECED) &&
		((loc->flags & SF_LOC_HASHED) != 0) == column->options.hash &&
		loc->key_id == (sf_config_encrypts(column) ? sf_keys_current(seg)->id : 0);
}

/* Has a record the map of a locator? */
static bool
has_map_of(const SfShareRecord *record, const SfLocator *loc)
{
	uint8		encoded[SF_SHARE_LOCATOR_MAX];
	size_t		len = sf_format_share_locator(encoded, loc);

	return len > 0 && len == record->locator_bytes && record->object_id == loc->object_id &&
		memcmp(record->locator, encoded, len) == 0;
}

/* A reference to the record of that id, if it is a sound one of the value; else datum NULL. */
static SfValue
refer(SfSegment *seg, SfShareId id, const SfLocator *loc)
{
	SfShareCopy copy;

	if (!sf_space_share_read(seg, id, &copy) || !has_map_of(&copy.record, loc) ||
		!sf_write_guard(seg, id, loc->object_id))
		return (SfValue) {NULL};
	return sf_write_reference(seg, id, &copy.record, loc);
}

/* The same for a private value with a root page, which may have no record yet. */
static SfValue
refer_to_root(SfSegment *seg, const SfLocator *loc)
{
	SfShareCopy copy;
	SfShareId	id;

	if (sf_space_root_record(seg, sf_object_root(loc), &id))
		return refer(seg, id, loc);
	if (!sf_write_share_root(seg, loc, &copy, &id))
		return (SfValue) {NULL};
	return sf_write_reference(seg, id, &copy.record, loc);
}

/*
 * Throw if the root of a map is damaged, or its first leaf, or its last unit: there is no
 * reason to give it to one more row.  What else lies below the root is not looked at.
 */
static void
require_root(SfSegment *seg, const SfLocator *loc)
{
	uint32		n = Min(loc->nunits, UNITS_LOOKED_AT);
	SfUnit	   *units = palloc(n * sizeof(SfUnit));

	SF_ASSERT(n > 0 && (loc->flags & SF_LOC_INODE));
	sf_object_units(seg, loc, 0, n, units);
	sf_object_units(seg, loc, loc->nunits - 1, 1, units);
	pfree(units);
}

SfValue
sfi_store_reflink(SfSegment *seg, const SfValue *value)
{
	SfLocator	loc = value->loc;

	if (value->form != SF_FORM_STORED || !is_at_home(seg, &loc))
		return (SfValue) {NULL};
	sf_object_require_tag(seg, &loc);
	sf_object_require_genuine(seg, &loc);
	if (loc.flags & SF_LOC_INODE)
		require_root(seg, &loc);
	if (sf_object_is_reference(&loc))
		return refer(seg, sf_share_id_of(&loc), &loc);
	return sf_object_has_root(&loc) ? refer_to_root(seg, &loc) : (SfValue) {NULL};
}
