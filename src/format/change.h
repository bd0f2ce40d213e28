/*-------------------------------------------------------------------------
 *
 * change.h
 *	  Changes of pages of the segment relation, as WAL records carry them.
 *
 *-------------------------------------------------------------------------
 */
#ifndef SF_FORMAT_CHANGE_H
#define SF_FORMAT_CHANGE_H

#include "format/segment_pages.h"

/* ---------------------------------------------------------------------
 * Changes of a page: the data of a block in WAL records, version 1
 *
 * Operations one after the other, each
 *	 0	2	code (SfOpCode)
 *	 2	2	length of the payload
 *	 4	n	payload
 * ---------------------------------------------------------------------
 */
typedef enum SfOpCode
{
	SF_OP_INIT = 1,				/* new page: type (4 bytes), contents */
	SF_OP_HEADER,				/* SfHeader */
	SF_OP_MAP_SET,				/* SfMapRange */
	SF_OP_MAP_CLEAR,			/* SfMapRange */
	SF_OP_PEND_ADD,				/* SfPendEntry, one or more */
	SF_OP_PEND_REMOVE,			/* uint16 indexes, ascending */
	SF_OP_PEND_COMMITTED,		/* uint16 indexes */
	SF_OP_PEND_NEXT,			/* uint32 page */
	SF_OP_SHARE_PUT,			/* SfSharePut, SfShareRecord */
	SF_OP_SHARE_SET,			/* SfShareSet */
	SF_OP_SHARE_CLEAR,			/* SfShareClear */
	SF_OP_PEND_PUT,				/* SfPendPut */
	SF_OP_ADVICE_ADD,			/* SfAdvice */
	SF_OP_ADVICE_REMOVE,		/* SfAdvice */
	SF_OP_ADVICE_SPLIT,			/* uint32_t: a page */
	SF_OP_MARK,					/* uint64, an owner's mark (share.h) */
	SF_OP_PEND_KEPT,			/* SfPendKept, SfPendEntry, one or more */
	SF_OP_REMOVED_ADD,			/* SfRemovedChunk with its records, one or
								 * more */
	SF_OP_REMOVED_STATES,		/* SfRemovedState, one or more */
	SF_OP_REMOVED_NEXT,			/* uint32_t: a page */
	SF_OP_REMOVED_ENDED,		/* uint16 offsets of records, ascending */
} SfOpCode;

/* Entries that come to a history page: when, and what they keep. */
typedef struct SfPendKept
{
	int64_t		time_us;
	uint64_t	sectors;
	uint64_t	shared_sectors;
} SfPendKept;

typedef struct SfOpHeader
{
	uint16_t	code;
	uint16_t	len;
} SfOpHeader;

/* One operation, read; payload points into the list. */
typedef struct SfOp
{
	SfOpCode	code;
	size_t		len;
	const uint8_t *payload;
} SfOp;

/* Take the first operation off a list that has been checked. */
extern SfOp sf_format_op_next(const uint8_t **ops);

/*
 * May these operations be applied to a page of that type (0: none of ours) and
 * contents?  NULL, or what is wrong.  Whatever they are: afterwards applying them
 * touches nothing but the contents.
 */
extern const char *sf_format_ops_problem(SfPageType type, const void *content,
										 const uint8_t *ops, size_t len);

/*
 * Apply one operation to the contents of a page, any but SF_OP_INIT, which makes
 * the page around them new, too.  No allocation, no error.
 */
extern void sf_format_op_apply(void *content, SfOp op);

/* The same for SF_OP_ADVICE_* of the right length (advice_page.c), on a page that is sound. */
extern const char *sf_format_advice_op_problem(const void *content, SfOp op);
extern void sf_format_advice_apply(void *content, SfOp op);

#endif							/* SF_FORMAT_CHANGE_H */
