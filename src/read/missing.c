/*-------------------------------------------------------------------------
 *
 * missing.c
 *	  Which units of a stored value are not on this server, since their data is not in WAL.
 *
 * Whether a unit is there, only its checksum tells.  So values that could have such units are
 * read whole, past the page cache, but not decoded.
 *
 *-------------------------------------------------------------------------
 */
#include "base/base.h"

#include "read/read_internal.h"

/* An SfReadFinding: what else is wrong with a value is the business of a check. */
static void
pass_over(const char *what, int64 segment_offset, int64 len, const char *detail, void *arg)
{
}

void
sf_read_missing(struct varlena *datum, SfReadMissing missing, void *arg)
{
	SfReadListener listener = {.found = pass_over, .missing = missing, .arg = arg};
	SfReadTarget target = {0};
	SfReadJob	job;
	SfSegment  *seg;
	SfLocator	loc;

	if (sf_read_form(datum) != SF_FORM_STORED)
		return;
	loc = sf_object_locator(datum);
	target.len = loc.length_bytes;
	seg = sf_space_open_incarnation(loc.table_oid, loc.attnum, loc.incarnation);
	sf_object_require_tag(seg, &loc);
	if (sfi_read_may_be_missing(seg, loc.object_id))
	{
		sfi_read_prepare_job(&job, seg, &loc, &target, &listener);
		sfi_read_past_cache(&job);
		sfi_read_units(&job, &listener, SfReadTargetFirst(&target));
	}
	sf_space_release(seg);
}
