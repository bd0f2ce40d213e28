/*-------------------------------------------------------------------------
 *
 * optionvalue.h
 *	  The values of options that are more than a text or a flag.
 *
 *-------------------------------------------------------------------------
 */
#ifndef SECUREFILE_OPTIONVALUE_H
#define SECUREFILE_OPTIONVALUE_H

#include <argp.h>

#include "options.h"

/* options without a letter */
enum
{
	KEY_SET = 256,
	KEY_SET_NULL,
	KEY_COMPLETIONS,
	KEY_HUMAN,
	KEY_TOTAL,
	KEY_UNFINISHED,
	KEY_RESUME,
	KEY_PART_SIZE,
	KEY_REPLACE,
	KEY_PREFIX,
	KEY_AGAINST,
	KEY_HASH,
	KEY_JSON,
	KEY_APPEND,
	KEY_INCLUDE,
	KEY_EXCLUDE,
	KEY_EXCLUDE_FROM,
	KEY_LINKS,
	KEY_TO_TABLE,
	KEY_TO_TREE,
	KEY_DELETE,
	KEY_FORCE,
	KEY_MAX_DELETE,
	KEY_FROM,
	KEY_ROOT,
	KEY_VERIFY,
	KEY_MAX_SIZE,
	KEY_TIMEOUT,
	KEY_RETRIES,
	KEY_ALL,
	KEY_LIST,
	KEY_PRUNE,
	KEY_CHECK,
	KEY_KEEP,
	KEY_SET_COLUMNS,
	KEY_AT,
	KEY_META,
	KEY_QUICK,
	KEY_SETUID,
	KEY_BATCH,
	KEY_WITH,
	KEY_DELTA,
	KEY_DELTA_FROM,
	KEY_GRANULE,
	KEY_NO_VERIFY,
	KEY_ESTIMATE,
	KEY_RATE,
	KEY_MOVE,
	KEY_ALLOW_DECODING,
	KEY_SINCE,
	KEY_XID,
	KEY_TO,
	KEY_OLDER_THAN
};

/* Take an option; false: it is none that has such a value.  A wrong value is an error of usage. */
extern bool optionvalue_take(Options *options, int key, char *arg, struct argp_state *state);

#endif							/* SECUREFILE_OPTIONVALUE_H */
