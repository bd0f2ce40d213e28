/*-------------------------------------------------------------------------
 *
 * value.c
 *	  A value in: cut into units, placed, copied to the gather cache,
 *	  checksummed while its first part is on its way to disk, and mapped.
 *
 *-------------------------------------------------------------------------
 */
#include "base/base.h"

#include "miscadmin.h"
#include "stats/stats.h"
#include "write/write_internal.h"

/* as much as makes a piece that is worth a write of its own */
#define UNITS_AT_ONCE	(SF_GATHER_EARLY_SECTORS / SF_UNIT_SECTORS)

/* Place one unit and copy it in, padded to a sector. */
static void
put_unit(SfSegment *seg, const char *data, uint32 len, uint64 ahead_bytes, SfUnit *unit)
{
	uint32		nsectors = SF_BYTES_TO_SECTORS(len);
	char	   *dst;

	unit->start = sf_arena_place(seg, nsectors, SF_BYTES_TO_SECTORS(ahead_bytes));
	dst = sf_gather_reserve(seg, unit->start, nsectors);
	sf_arena_advance(seg, nsectors);
	memcpy(dst, data, len);
	memset(dst + len, 0, nsectors * SF_SECTOR_SIZE - len);
	unit->stored_bytes = len;
	unit->flags = 0;
}

/* All units of a value; the disk writes while the processor hashes. */
static void
put_units(SfSegment *seg, const char *data, Size len, uint64 seed, SfUnit *units, uint64 nunits)
{
	for (uint64 first = 0; first < nunits; first += UNITS_AT_ONCE)
	{
		uint64		end = Min(first + UNITS_AT_ONCE, nunits);

		CHECK_FOR_INTERRUPTS();
		for (uint64 i = first; i < end; i++)
		{
			Size		done = i * SF_UNIT_SIZE;

			put_unit(seg, data + done, Min(len - done, SF_UNIT_SIZE), len - done, &units[i]);
		}
		sf_gather_start_early();
		for (uint64 i = first; i < end; i++)
			units[i].checksum = sf_format_checksum(data + i * SF_UNIT_SIZE,
												   units[i].stored_bytes, seed);
	}
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
	put_units(seg, data, len, seed, units, nunits);
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
