/*-------------------------------------------------------------------------
 *
 * owned.c
 *	  What the object of a share record owns.
 *
 * The maps of objects are known to a room above, which hands a function down.
 *
 *-------------------------------------------------------------------------
 */
#include "base/base.h"

#include "access/xact.h"
#include "space/share_records.h"
#include "space/space_internal.h"

static SfShareOwned owned_of;

void
sf_space_set_share_owned(SfShareOwned fn)
{
	owned_of = fn;
}

uint64
sf_space_owned_sectors(const SfOwned *owned)
{
	uint64		sum = 0;

	SF_ASSERT(owned->nruns >= 0);
	for (int i = 0; i < owned->nruns; i++)
		sum += owned->runs[i].nsectors;
	return sum;
}

void
sf_space_free_owned(const SfOwned *owned)
{
	SF_ASSERT(owned->runs != NULL && owned->npages >= 0);
	pfree(owned->runs);
	if (owned->pages != NULL)
		pfree(owned->pages);
}

SfOwned
sfi_owned_of_share(SfSegment *seg, const SfShareRecord *record)
{
	SF_ASSERT(owned_of != NULL);
	return owned_of(seg, record);
}

/* A record whose map is read (an SfBaseStep). */
typedef struct Finding
{
	SfSegment  *seg;
	const SfShareRecord *record;
	SfOwned		owned;
} Finding;

static void
find(void *arg)
{
	Finding    *finding = arg;

	finding->owned = sfi_owned_of_share(finding->seg, finding->record);
}

bool
sfi_owned_try(SfSegment *seg, const SfShareRecord *record, SfOwned *owned)
{
	Finding		finding = {.seg = seg, .record = record};
	ErrorData  *error;

	SF_ASSERT(!seg->retained);
	if (IsInParallelMode())
		return false;
	error = sf_base_guarded(find, &finding);
	if (error != NULL)
	{
		FreeErrorData(error);
		return false;
	}
	*owned = finding.owned;
	return true;
}
