/*-------------------------------------------------------------------------
 *
 * object.c
 *	  Unit maps of objects.
 *
 * object.c		locators, flat maps, what an object owns
 * inode.c		trees of inode pages
 *
 * A small object's map stands in its locator, a large one's in a tree of
 * inode pages (SecureFiles paper: inode in the row, else in header blocks).
 * Both are immutable once their row is committed, which is all that
 * consistent read needs.
 *
 *-------------------------------------------------------------------------
 */
#include "base/base.h"

#include "object/object_internal.h"

const char *
sf_object_decode(struct varlena *datum, SfLocator *loc)
{
	return sf_format_locator_decode((uint8 *) VARDATA_ANY(datum),
									VARSIZE_ANY_EXHDR(datum), loc);
}

SfLocator
sf_object_locator(struct varlena *datum)
{
	SfLocator	loc;
	const char *problem = sf_object_decode(datum, &loc);

	if (problem != NULL)
		ereport(ERROR,
				(errcode(ERRCODE_DATA_CORRUPTED),
				 errmsg("invalid securefile locator"),
				 errdetail("The %s.", problem),
				 errhint("Run securefile_check() on the column.")));
	return loc;
}

void
sf_object_require_genuine(SfSegment *seg, const SfLocator *loc)
{
	if (!sf_format_locator_genuine(loc, &seg->secret))
		ereport(ERROR,
				(errcode(ERRCODE_DATA_CORRUPTED),
				 errmsg("invalid securefile locator"),
				 errdetail("The locator was not made by its segment, or was changed since."),
				 errhint("Run securefile_check() on the column.")));
}

/* Bytes of unit i of an object. */
uint32
sf_object_unit_bytes(const SfLocator *loc, uint64 i)
{
	return Min(loc->length_bytes - i * SF_UNIT_SIZE, SF_UNIT_SIZE);
}

/* Units of a flat map: one after the other in the runs. */
static void
flat_units(const SfLocator *loc, uint64 first, uint32 n, SfUnit *units)
{
	uint64		skip = first * SF_UNIT_SECTORS;
	uint32		r = 0;
	SfRun		run = sf_format_locator_run(loc, 0);

	for (uint32 i = 0; i < n; i++)
	{
		while (skip >= run.nsectors)
		{
			skip -= run.nsectors;
			run = sf_format_locator_run(loc, ++r);
		}
		units[i].start = run.start + skip;
		units[i].stored_bytes = sf_object_unit_bytes(loc, first + i);
		units[i].checksum = sf_format_locator_checksum(loc, first + i);
		units[i].flags = 0;
		skip += SF_BYTES_TO_SECTORS(units[i].stored_bytes);
	}
}

void
sf_object_units(SfSegment *seg, const SfLocator *loc, uint64 first, uint32 n, SfUnit *units)
{
	Assert(first + n <= loc->nunits);
	if (n == 0)
		return;
	if (loc->flags & SF_LOC_INODE)
		sf_inode_units(seg, loc, first, n, units);
	else
		flat_units(loc, first, n, units);
}

/*
 * Append a unit's sectors to a list of runs, merging with the last one where
 * they touch and stay on one map page.  runs has room for one more.
 */
static void
append_run(SfRun *runs, uint32 *nruns, const SfUnit *unit)
{
	uint32		nsectors = SF_BYTES_TO_SECTORS(unit->stored_bytes);

	if (unit->start == SF_HOLE)
		return;
	if (*nruns > 0)
	{
		SfRun	   *last = &runs[*nruns - 1];

		if (last->start + last->nsectors == unit->start &&
			last->start / SF_MAP_SECTORS == unit->start / SF_MAP_SECTORS)
		{
			last->nsectors += nsectors;
			return;
		}
	}
	runs[(*nruns)++] = (SfRun) {unit->start, nsectors};
}

struct varlena *
sf_object_build(SfSegment *seg, SfLocator *loc, const SfUnit *units, uint64 nunits,
				SfPagesMade made, void *arg)
{
	SfRun		runs[SF_FLAT_MAX_RUNS];
	uint64		checksums[SF_FLAT_MAX_UNITS];
	uint32		nruns = 0;
	struct varlena *datum = palloc(VARHDRSZ + SF_LOCATOR_MAX_SIZE);
	Size		len;

	loc->nunits = nunits;
	loc->flags = 0;
	if (nunits > SF_FLAT_MAX_UNITS)
	{
		loc->flags = SF_LOC_INODE;
		sf_inode_build(seg, loc, units, nunits, made, arg);
	}
	else
	{
		for (uint64 i = 0; i < nunits; i++)
		{
			append_run(runs, &nruns, &units[i]);
			checksums[i] = units[i].checksum;
		}
		loc->nruns = nruns;
	}
	len = sf_format_locator_encode((uint8 *) VARDATA(datum), loc, runs, checksums,
								   &seg->secret);
	SET_VARSIZE(datum, VARHDRSZ + len);
	return datum;
}

#define UNITS_AT_ONCE	1024

SfOwned
sf_object_owned(SfSegment *seg, const SfLocator *loc)
{
	SfOwned		owned = {0};
	SfUnit	   *units = palloc(UNITS_AT_ONCE * sizeof(SfUnit));
	uint32		size = UNITS_AT_ONCE;
	uint32		nruns = 0;

	owned.runs = palloc(size * sizeof(SfRun));
	for (uint64 first = 0; first < loc->nunits; first += UNITS_AT_ONCE)
	{
		uint32		n = Min(loc->nunits - first, UNITS_AT_ONCE);

		sf_object_units(seg, loc, first, n, units);
		if (nruns + n > size)
		{
			size = Max(size * 2, nruns + n);
			owned.runs = repalloc_huge(owned.runs, size * sizeof(SfRun));
		}
		for (uint32 i = 0; i < n; i++)
			append_run(owned.runs, &nruns, &units[i]);
	}
	owned.nruns = nruns;
	if (loc->flags & SF_LOC_INODE)
		sf_inode_pages(seg, loc, &owned);
	pfree(units);
	return owned;
}
