/*-------------------------------------------------------------------------
 *
 * object.c
 *	  Locators of objects, and flat unit maps.
 *
 * A small object's map stands in its locator, a large one's in a tree of
 * inode pages (SecureFiles paper: inode in the row, else in header blocks).
 * Both are immutable once their row is committed, which is all that
 * consistent read needs.
 *
 * A locator that came in a datum is trusted in two steps. sf_object_decode() says that
 * its parts agree, so that it can be walked without leaving it; that needs no segment.
 * sf_object_require_tag() says that its segment has made it and nothing has changed it
 * since: only then does what it names belong to the value.
 *
 *-------------------------------------------------------------------------
 */
#include "base/base.h"

#include "access/xact.h"
#include "keys/keys.h"
#include "miscadmin.h"
#include "object/object_internal.h"
#include "utils/snapmgr.h"

/*
 * Keys of segments whose locators this process has checked.  An incarnation is never
 * given out twice, and has one key for all its life: an entry cannot become wrong, so
 * that it needs neither a lock nor an invalidation.
 */
typedef struct KnownKey
{
	uint64		incarnation;	/* 0: none */
	SfSecret	secret;
} KnownKey;

#define KNOWN_KEYS		16

static KnownKey known_keys[KNOWN_KEYS];

const char *
sf_object_decode(struct varlena *datum, SfLocator *loc)
{
	const char *problem = sf_format_locator_decode((uint8 *) VARDATA_ANY(datum),
												   VARSIZE_ANY_EXHDR(datum), loc);

	SF_ASSERT(problem != NULL || loc->nunits == sf_units_of(loc->unit_space_bytes));
	return problem;
}

bool
sfi_object_is_as_decoded(const SfValue *value)
{
	const SfLocator *made = &value->loc;
	SfLocator	loc;

	return value->form == SF_FORM_STORED && sf_object_decode(value->datum, &loc) == NULL &&
		loc.flags == made->flags && loc.key_id == made->key_id &&
		loc.table_oid == made->table_oid && loc.attnum == made->attnum &&
		loc.incarnation == made->incarnation && loc.object_id == made->object_id &&
		loc.generation == made->generation && loc.unit_space_bytes == made->unit_space_bytes &&
		loc.nunits == made->nunits && loc.encoded == made->encoded &&
		loc.tagged_bytes == made->tagged_bytes && loc.map == made->map &&
		loc.tag == made->tag && loc.hash == made->hash &&
		memcmp(&loc.pieces, &made->pieces, sizeof(loc.pieces)) == 0 &&
		memcmp(&loc.share, &made->share, sizeof(loc.share)) == 0 &&
		(loc.flags & SF_LOC_INODE ? loc.depth == made->depth &&
		 loc.root_page == made->root_page && loc.root_stamp == made->root_stamp
		 : loc.nruns == made->nruns);
}

/*
 * A damaged locator may have any version, and its row can be deleted.  So only what the
 * segment has made counts, as the tag tells: later versions keep it, and the fields by which
 * the segment is found, where they are.
 */
void
sf_object_refuse_later(const SfLocator *loc)
{
	SfSegment  *seg;
	bool		genuine;

	/* the decoded form is empty if the bytes are too few */
	if (loc->encoded == NULL || !sf_format_locator_is_later(loc->encoded) ||
		!sf_base_preloaded || HistoricSnapshotActive())
		return;
	seg = sf_space_open(loc->table_oid, loc->attnum, AccessShareLock, true);
	if (seg == NULL)
		return;
	genuine = sf_format_locator_tag_ok(loc, &seg->secret);
	sf_space_release(seg);
	if (genuine)
		sf_base_report_later("securefile locator", loc->encoded[1], SF_LOCATOR_VERSION);
}

void
sf_object_require_locator(struct varlena *datum, SfLocator *loc)
{
	const char *problem = sf_object_decode(datum, loc);

	if (problem == NULL)
	{
		SF_ASSERT(loc->encoded == (uint8 *) VARDATA_ANY(datum));
		return;
	}
	sf_object_refuse_later(loc);
	sf_base_report_damage("invalid securefile locator", psprintf("The %s.", problem));
}

SfLocator
sf_object_locator(struct varlena *datum)
{
	SfLocator	loc;

	sf_object_require_locator(datum, &loc);
	return loc;
}

struct varlena *
sf_object_copy(const struct varlena *datum, MemoryContext context)
{
	Size		size = VARSIZE_ANY(datum);

	return memcpy(MemoryContextAlloc(context, size), datum, size);
}

bool
sf_object_same(const struct varlena *a, const struct varlena *b)
{
	return VARSIZE_ANY_EXHDR(a) == VARSIZE_ANY_EXHDR(b) &&
		memcmp(VARDATA_ANY(a), VARDATA_ANY(b), VARSIZE_ANY_EXHDR(a)) == 0;
}

/* ERROR unless the locator was made with that key. */
static void
require_tag(const SfLocator *loc, const SfSecret *secret)
{
	if (!sf_format_locator_tag_ok(loc, secret))
		sf_base_report_damage("invalid securefile locator",
							  "The locator was not made by its segment, or was changed since.");
}

void
sf_object_require_tag(SfSegment *seg, const SfLocator *loc)
{
	SF_ASSERT(seg->incarnation == loc->incarnation);
	require_tag(loc, &seg->secret);
}

SfSegment *
sf_object_open(const SfLocator *loc)
{
	SfSegment  *seg = sf_space_open_incarnation(loc->table_oid, loc->attnum, loc->incarnation);

	sf_object_require_tag(seg, loc);
	return seg;
}

void
sf_object_require_genuine(SfSegment *seg, SfLocator *loc)
{
	if (!(loc->flags & SF_LOC_KEYED) || loc->genuine)
		return;
	if (!sf_transform_locator_is_genuine(sf_keys_of(seg, loc->key_id), loc))
		sf_base_report_damage("securefile value cannot be authenticated",
							  psprintf("Its locator was not made with data key %u of its column, or was changed since.",
									   loc->key_id));
	loc->genuine = true;
}

/*
 * Does a column that has values wait for the end of an upgrade?  The mark alone does not tell:
 * a new database has none until its first segment.
 */
static bool
is_unfinished(Oid table_oid, AttrNumber attnum)
{
	SF_ASSERT(IsTransactionState());
	return !OidIsValid(sf_space_segment_relid(table_oid, attnum)) &&
		!sf_io_database_is_own(MyDatabaseId, ERROR);
}

/*
 * The key of a segment, which is opened for it when this process has not met it yet; NULL
 * before the upgrade of its column is finished.  The lock is not kept: nothing of the
 * segment is looked at after this.
 */
static const SfSecret *
key_of(const SfLocator *loc)
{
	KnownKey   *known = &known_keys[loc->incarnation % KNOWN_KEYS];

	/*
	 * a forged incarnation of 0 must not meet an empty entry, whose key is no
	 * secret
	 */
	if (loc->incarnation == 0 || known->incarnation != loc->incarnation)
	{
		SfSegment  *seg;

		if (is_unfinished(loc->table_oid, loc->attnum))
			return NULL;
		seg = sf_space_open_incarnation(loc->table_oid, loc->attnum, loc->incarnation);
		*known = (KnownKey) {seg->incarnation, seg->secret};
		sf_space_release(seg);
	}
	SF_ASSERT(known->incarnation == loc->incarnation);
	return &known->secret;
}

uint64
sf_object_length(const SfLocator *loc)
{
	/* these two have no key to go by, and a read takes other ways as well */
	if (sf_base_preloaded && !HistoricSnapshotActive())
	{
		const SfSecret *key = key_of(loc);

		if (key != NULL)
			require_tag(loc, key);
	}
	return sf_locator_value_bytes(loc);
}

/* ---- hashes of values ---- */

/*
 * Decrypt the hash that a genuine locator keeps.  False if this build cannot, or memory is
 * short: what wants to know the hash then reads the value, and is told.
 */
static bool
open_hash(SfSegment *seg, const SfLocator *loc, SfContentHash *hash)
{
	SfDecoded	result = sf_transform_open_hash(sf_keys_of(seg, loc->key_id), loc, loc->hash, hash);

	SF_ASSERT(loc->genuine);
	if (result == SF_DECODE_NOT_GENUINE)
		sf_base_report_damage("securefile value cannot be authenticated",
							  psprintf("Its hash was not encrypted with data key %u of its column, or is that of another value.",
									   loc->key_id));
	return result == SF_DECODED;
}

bool
sf_object_kept_hash(SfSegment *seg, SfLocator *loc, SfContentHash *hash)
{
	SF_ASSERT(seg->incarnation == loc->incarnation);
	if (!(loc->flags & SF_LOC_HASHED))
		return false;
	SF_ASSERT(loc->hash != NULL);
	if (loc->flags & SF_LOC_KEYED)
	{
		sf_object_require_genuine(seg, loc);
		return open_hash(seg, loc, hash);
	}
	memcpy(hash, loc->hash, sizeof(*hash));
	return true;
}

/* The same with the segment, which is opened as for a read. */
static bool
hash_of_segment(SfLocator *loc, SfContentHash *hash)
{
	SfSegment  *seg = sf_object_open(loc);
	bool		found = sf_object_kept_hash(seg, loc, hash);

	sf_space_release(seg);
	return found;
}

bool
sf_object_hash(SfLocator *loc, SfContentHash *hash)
{
	const SfSecret *key;

	if (!(loc->flags & SF_LOC_HASHED) || !sf_base_preloaded || HistoricSnapshotActive())
		return false;
	if (loc->flags & SF_LOC_KEYED)
		return hash_of_segment(loc, hash);
	key = key_of(loc);
	if (key == NULL)
		return false;
	require_tag(loc, key);
	memcpy(hash, loc->hash, sizeof(*hash));
	return true;
}

/* ---- maps ---- */

uint16
sfi_object_depth(const SfLocator *loc)
{
	return loc->flags & SF_LOC_INODE ? loc->depth : 1;
}

SfChild
sfi_object_root(const SfLocator *loc)
{
	return loc->flags & SF_LOC_INODE ? (SfChild) {loc->root_stamp, loc->root_page, 0}
		: SF_HOLE_CHILD;
}

uint64
sf_object_flat_sectors(const SfLocator *loc)
{
	SfFlatMap	map;
	SfUnit		unit;
	uint64		nsectors = 0;

	SF_ASSERT(!(loc->flags & SF_LOC_INODE));
	sf_format_flat_begin(&map, loc, 0);
	while (sf_format_flat_next(&map, &unit))
		nsectors += sf_unit_sectors(&unit);
	return nsectors;
}

void
sfi_object_flat_units(const SfLocator *loc, uint64 first, uint32 n, SfUnit *units)
{
	SfFlatMap	map;

	SF_ASSERT(!(loc->flags & SF_LOC_INODE) && first + n <= loc->nunits);
	sf_format_flat_begin(&map, loc, first);
	for (uint32 i = 0; i < n; i++)
		if (!sf_format_flat_next(&map, &units[i]))
			elog(ERROR, "securefile value has no unit " UINT64_FORMAT, first + i);
}
