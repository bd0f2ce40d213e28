/*-------------------------------------------------------------------------
 *
 * value.c
 *	  A value in: cut into units, placed, copied to the gather cache,
 *	  checksummed there while it is hot, and mapped.
 *
 *-------------------------------------------------------------------------
 */
#include "base/base.h"

#include "miscadmin.h"
#include "stats/stats.h"
#include "write/write_internal.h"

/* Place one unit and copy it in, padded to a sector. */
static void
put_unit(SfSegment *seg, const char *data, uint32 len, uint64 ahead_bytes, uint64 seed,
		 SfUnit *unit)
{
	uint32		nsectors = SF_BYTES_TO_SECTORS(len);
	char	   *dst;

	unit->start = sf_arena_place(seg, nsectors, SF_BYTES_TO_SECTORS(ahead_bytes));
	dst = sf_gather_reserve(seg, unit->start, nsectors);
	sf_arena_advance(seg, nsectors);
	memcpy(dst, data, len);
	memset(dst + len, 0, nsectors * SF_SECTOR_SIZE - len);
	unit->checksum = sf_format_checksum(dst, len, seed);
	unit->stored_bytes = len;
	unit->flags = 0;
}

struct varlena *
sf_write_value(SfSegment *seg, const char *data, Size len)
{
	SfLocator	loc = {0};
	uint64		nunits = SF_UNITS_OF(len);
	SfUnit	   *units;
	struct Object *object;
	struct varlena *datum;
	SfOwned		owned;
	uint64		seed;

	Assert(len > 0);
	sf_write_require_open();
	loc.object_id = sf_space_reserve_ids(seg, 1);
	seg = sf_owner_segment(seg);
	loc.table_oid = seg->table_oid;
	loc.attnum = seg->attnum;
	loc.generation = 1;
	loc.length_bytes = len;
	loc.incarnation = seg->incarnation;
	loc.nunits = nunits;
	seed = sf_format_seed(seg->incarnation, loc.object_id);

	units = palloc(nunits * sizeof(SfUnit));
	for (uint64 i = 0; i < nunits; i++)
	{
		Size		done = i * SF_UNIT_SIZE;

		CHECK_FOR_INTERRUPTS();
		put_unit(seg, data + done, Min(len - done, SF_UNIT_SIZE), len - done, seed, &units[i]);
	}
	object = sf_owner_begin(seg, &loc);
	datum = sf_object_build(seg, &loc, units, nunits, sf_owner_pages, object);
	if (loc.flags & SF_LOC_INODE)
		sf_write_note_entries();
	loc = sf_object_locator(datum);
	owned = sf_object_owned(seg, &loc);
	sf_owner_place(object, &owned);
	sf_stats_local(seg->table_oid, seg->attnum)->bytes_nontransformed += len;
	pfree(units);
	return datum;
}
