/*-------------------------------------------------------------------------
 *
 * monitor_release.c
 *	  What the monitor gives back to the file system, where securefile.release_threshold asks
 *	  for it.
 *
 * A visit releases for a second or so, as a worker has other segments to look at.  It ends as soon
 * as another session waits for the segment relation.
 *
 *-------------------------------------------------------------------------
 */
#include "base/base.h"

#include "monitor/monitor_internal.h"
#include "space/release.h"
#include "storage/ipc.h"
#include "storage/lmgr.h"
#include "storage/lwlock.h"

/* What is claimed, for the end of it. */
typedef struct Claimed
{
	Relation	rel;
	SfRelease	release;
} Claimed;

/* Give back what is claimed; also after an ERROR, which may have left pages locked. */
static void
end_release(int code, Datum arg)
{
	Claimed    *claimed = (Claimed *) DatumGetPointer(arg);

	LWLockReleaseAll();
	sf_space_release_end(claimed->rel, &claimed->release);
}

bool
sfi_monitor_release(SfSegment *seg, Relation rel)
{
	Claimed		claimed = {.rel = rel};
	const SfReleasePace pace = {.held = ShareUpdateExclusiveLock};
	bool		more;

	SF_ASSERT(CheckRelationLockedByMe(rel, ShareUpdateExclusiveLock, true));
	PG_ENSURE_ERROR_CLEANUP(end_release, PointerGetDatum(&claimed));
	{
		more = sf_space_release_claim_proved(seg, rel, &claimed.release);
		if (claimed.release.n > 0)
			more |= !sf_space_release_all(seg, rel, &claimed.release, &pace);
	}
	PG_END_ENSURE_ERROR_CLEANUP(end_release, PointerGetDatum(&claimed));
	sf_space_release_end(rel, &claimed.release);
	return more;
}
