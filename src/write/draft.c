/*-------------------------------------------------------------------------
 *
 * draft.c
 *	  A version of an object in the making: units are placed, copied to the
 *	  gather cache, checksummed while the first of them are on their way to
 *	  disk, and noted in the map.
 *
 *-------------------------------------------------------------------------
 */
#include "base/base.h"

#include "miscadmin.h"
#include "stats/stats.h"
#include "write/write_internal.h"

/* as much as makes a piece that is worth a write of its own */
#define UNITS_AT_ONCE	(SF_GATHER_EARLY_SECTORS / SF_UNIT_SECTORS)

struct SfDraft
{
	SfSegment  *seg;			/* this transaction's copy */
	SfLocator	version;
	SfLocator  *base;			/* or NULL */
	uint64		seed;
	SfEdit	   *edit;
	SfObject   *object;
};

/* What a new version has of its base, or a new object for itself. */
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
		version->generation = draft->base->generation + 1;
	}
	else
	{
		version->object_id = sf_space_reserve_ids(seg, 1);
		version->generation = 1;
	}
}

SfDraft *
sf_write_draft(SfSegment *seg, struct varlena *base)
{
	SfDraft    *draft = palloc0(sizeof(SfDraft));

	sf_write_require_open();
	if (base != NULL)
	{
		base = sf_object_copy(base, CurrentMemoryContext);
		draft->base = palloc(sizeof(SfLocator));
		*draft->base = sf_object_locator(base);
		sf_object_require_genuine(seg, draft->base);
		Assert(draft->base->incarnation == seg->incarnation);
	}
	name_version(draft, seg);
	draft->seg = seg = sf_write_segment(seg);
	draft->seed = sf_format_seed(seg->incarnation, draft->version.object_id);
	draft->object = sf_objects_begin(seg, &draft->version, draft->base);
	draft->edit = sf_object_edit(seg, &draft->version, draft->base, sf_objects_pages, draft->object);
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

/* A few units; the disk writes while the processor hashes. */
static void
put_some(SfDraft *draft, uint64 first_unit, const char *data, Size len, uint64 ahead_bytes)
{
	SfUnit		units[UNITS_AT_ONCE];
	uint32		n = SF_UNITS_OF(len);

	for (uint32 i = 0; i < n; i++)
	{
		Size		done = (Size) i * SF_UNIT_SIZE;

		put_unit(draft->seg, data + done, Min(len - done, SF_UNIT_SIZE), ahead_bytes - done,
				 &units[i]);
	}
	sf_gather_start_early();
	for (uint32 i = 0; i < n; i++)
	{
		units[i].checksum = sf_format_checksum(data + (Size) i * SF_UNIT_SIZE,
											   units[i].stored_bytes, draft->seed);
		sf_object_edit_set(draft->edit, first_unit + i, &units[i]);
	}
}

void
sf_write_draft_put(SfDraft *draft, uint64 first_unit, const char *data, Size len,
				   uint64 ahead_bytes)
{
	const Size	at_once = (Size) UNITS_AT_ONCE * SF_UNIT_SIZE;

	sf_write_require_open();
	for (Size done = 0; done < len; done += at_once)
	{
		CHECK_FOR_INTERRUPTS();
		put_some(draft, first_unit + done / SF_UNIT_SIZE, data + done, Min(len - done, at_once),
				 ahead_bytes - done);
	}
	sf_stats_local(draft->seg->table_oid, draft->seg->attnum)->bytes_nontransformed += len;
}

void
sf_write_draft_punch(SfDraft *draft, uint64 unit_no)
{
	SfUnit		hole = {.start = SF_HOLE};

	sf_object_edit_set(draft->edit, unit_no, &hole);
}

static struct varlena *
finish(SfDraft *draft, uint64 length_bytes, SfLocator *loc)
{
	struct varlena *datum;
	SfOwned		owned;

	sf_write_require_open();
	datum = sf_object_edit_finish(draft->edit, length_bytes);
	*loc = sf_object_locator(datum);
	owned = sf_object_minus(draft->seg, loc, draft->base);
	sf_objects_finish(draft->object, loc, &owned);
	pfree(owned.runs);
	return datum;
}

struct varlena *
sf_write_draft_finish(SfDraft *draft, uint64 length_bytes)
{
	SfLocator	loc;

	return finish(draft, length_bytes, &loc);
}

struct varlena *
sf_write_value(SfSegment *seg, const char *data, Size len)
{
	SfDraft    *draft = sf_write_draft(seg, NULL);
	struct varlena *datum;
	SfLocator	loc;

	Assert(len > 0);
	sf_write_draft_resize(draft, SF_UNITS_OF(len));
	sf_write_draft_put(draft, 0, data, len, len);
	datum = finish(draft, len, &loc);
	sf_objects_place(draft->object, &loc);
	pfree(draft);
	return datum;
}
