/*-------------------------------------------------------------------------
 *
 * kinds.c
 *	  The kinds of pending entries: one row for each.
 *
 *-------------------------------------------------------------------------
 */
#include "format/segment_pages.h"

static const SfPendKindInfo kinds[] = {
	[SF_PEND_ALLOC] = {"ALLOC", .is_alloc = true},
	[SF_PEND_FREE] = {"FREE", .is_kept = true},
	[SF_PEND_ALLOC_PAGE] = {"ALLOC_PAGE", .is_alloc = true, .is_page = true},
	[SF_PEND_FREE_PAGE] = {"FREE_PAGE", .is_page = true, .is_kept = true},
	[SF_PEND_SHARE_NEW] = {"SHARE_NEW", .is_alloc = true, .is_share = true},
	[SF_PEND_REF_ADD] = {"REF_ADD", .is_alloc = true, .is_share = true},
	[SF_PEND_REF_DROP] = {"REF_DROP", .is_share = true, .is_kept = true},
	[SF_PEND_REAP] = {"REAP", .is_share = true},
	[SF_PEND_FREE_NOW] = {"FREE_NOW"},
	[SF_PEND_FREE_PAGE_NOW] = {"FREE_PAGE_NOW", .is_page = true},
	[SF_PEND_REF_DROP_NOW] = {"REF_DROP_NOW", .is_share = true},
};

const SfPendKindInfo *
sf_format_pend_kind(uint8_t kind)
{
	static const SfPendKindInfo unknown = {0};

	return kind < sizeof(kinds) / sizeof(kinds[0]) ? &kinds[kind] : &unknown;
}
