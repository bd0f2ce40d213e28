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
 *-------------------------------------------------------------------------
 */
#include "base/base.h"

#include "object/object_internal.h"

const char *
sf_object_decode(struct varlena *datum, SfLocator *loc)
{
	const char *problem = sf_format_locator_decode((uint8 *) VARDATA_ANY(datum),
												   VARSIZE_ANY_EXHDR(datum), loc);

	/*
	 * what is behind these flags is not built yet: nothing may be read or
	 * freed
	 */
	if (problem == NULL && (loc->flags & (SF_LOC_SHARED | SF_LOC_KEYED)))
		problem = "locator is one of a later version of securefile";
	return problem;
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

void
sf_object_require_tag(SfSegment *seg, const SfLocator *loc)
{
	if (!sf_format_locator_tag_ok(loc, &seg->secret))
		ereport(ERROR,
				(errcode(ERRCODE_DATA_CORRUPTED),
				 errmsg("invalid securefile locator"),
				 errdetail("The locator was not made by its segment, or was changed since."),
				 errhint("Run securefile_check() on the column.")));
}

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

void
sfi_object_flat_units(const SfLocator *loc, uint64 first, uint32 n, SfUnit *units)
{
	SfFlatMap	map;

	sf_format_flat_begin(&map, loc, first);
	for (uint32 i = 0; i < n; i++)
		if (!sf_format_flat_next(&map, &units[i]))
			elog(ERROR, "securefile value has no unit " UINT64_FORMAT, first + i);
}
