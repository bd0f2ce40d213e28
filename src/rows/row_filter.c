/*-------------------------------------------------------------------------
 *
 * row_filter.c
 *	  Walks over the rows that have space of a segment from some sector on, or a certain
 *	  object.
 *
 * The segment does not know which row a sector or an object belongs to: the rows do.  A
 * program that empties the end of a segment, or that heals an object, looks for its rows in
 * this way.
 *
 *-------------------------------------------------------------------------
 */
#include "base/base.h"

#include "object/object.h"
#include "read/read.h"
#include "rows/rows.h"
#include "space/share_records.h"

static bool
is_of_segment(const SfLocator *loc, const SfSegment *seg)
{
	return loc->table_oid == seg->table_oid && loc->attnum == seg->attnum &&
		loc->incarnation == seg->incarnation;
}

bool
sf_rows_space_of(SfSegment *seg, Datum value, SfLocator *loc, SfOwned *owned)
{
	struct varlena *stored = sf_base_detoast_short(value, SF_LOCATOR_MAX_SIZE);

	if (stored == NULL || sf_read_form(stored) != SF_FORM_STORED)
		return false;
	*loc = sf_object_locator(stored);
	if (!is_of_segment(loc, seg))
		return false;
	sf_object_require_tag(seg, loc);
	/* compared with no other version: all that it has, shared or not */
	*owned = sf_object_difference(seg, loc, NULL, NULL);
	return true;
}

uint64
sf_rows_end_of(const SfOwned *owned)
{
	uint64		end = 0;

	for (int64 i = 0; i < owned->nruns; i++)
		end = Max(end, owned->runs[i].start + owned->runs[i].nsectors);
	return end;
}

/* A filter: has the value a sector that is not below that one? */
static bool
reaches_sector(const SfRows *rows)
{
	SfLocator	loc;
	SfOwned		owned;

	return sf_rows_space_of(rows->seg, rows->value, &loc, &owned) &&
		sf_rows_end_of(&owned) > rows->number;
}

/* A filter: is the value that object? */
static bool
is_object(const SfRows *rows)
{
	struct varlena *stored = sf_base_detoast_short(rows->value, SF_LOCATOR_MAX_SIZE);
	SfLocator	loc;

	return stored != NULL && sf_object_decode(stored, &loc) == NULL &&
		is_of_segment(&loc, rows->seg) && loc.object_id == rows->number;
}

static void
set_filter(SfRows *rows, bool (*matches) (const SfRows *rows), SfSegment *seg, uint64 number)
{
	SF_ASSERT(rows->matches == NULL && rows->attnum == seg->attnum);
	rows->matches = matches;
	rows->seg = seg;
	rows->number = number;
}

void
sf_rows_only_from_sector(SfRows *rows, SfSegment *seg, uint64 sector)
{
	set_filter(rows, reaches_sector, seg, sector);
}

void
sf_rows_only_object(SfRows *rows, SfSegment *seg, uint64 object_id)
{
	set_filter(rows, is_object, seg, object_id);
}
