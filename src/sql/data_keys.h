/*-------------------------------------------------------------------------
 *
 * data_keys.h
 *	  What the functions about the data keys of a column share.
 *
 *-------------------------------------------------------------------------
 */
#ifndef SF_SQL_DATA_KEYS_H
#define SF_SQL_DATA_KEYS_H

#include "base/base.h"

#include "check/check.h"
#include "keys/keys.h"
#include "utils/snapshot.h"

/* ---- key_list.c ---- */

/* Values by the number of their key; 0: without one. */
typedef struct SfKeyCounts
{
	int64		values[SF_DATA_KEYS_MAX + 1];
} SfKeyCounts;

/*
 * Add the values of a column in all rows that a snapshot sees; those without a byte are not
 * counted.  The table is locked.  DATA_CORRUPTED for one that names an impossible key.
 */
extern void sfi_sql_count_keys(const SfCheckColumn *column, Snapshot snapshot,
							   SfKeyCounts *counts);

/* ---- rotate_keys.c ---- */

/*
 * The columns whose keys a function is to change, as of sf_check_columns(), and their tables
 * locked until the transaction ends.  ERROR where nothing can be written: without preload,
 * on a standby, in a parallel worker; and in a transaction that has dropped storage: a
 * ROLLBACK would bring back keys that are not those which the caller believes to have
 * changed.
 */
extern List *sfi_sql_columns_to_change(FunctionCallInfo fcinfo, LOCKMODE lockmode,
									   const char *function);

#endif							/* SF_SQL_DATA_KEYS_H */
