/*-------------------------------------------------------------------------
 *
 * owned.c
 *	  What rooms above have handed down: what the object of a share record owns.
 *
 * The maps of objects are known to a room above, which hands a function down.
 *
 *-------------------------------------------------------------------------
 */
#include "base/base.h"

#include "access/xact.h"
#include "space/share_records.h"
#include "space/space_internal.h"

SfSpaceAbove sfi_above;

SfOwned
sfi_owned_of_share(SfSegment *seg, const SfShareRecord *record)
{
	SF_ASSERT(sfi_above.owned_of_share != NULL);
	return sfi_above.owned_of_share(seg, record);
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
