/*-------------------------------------------------------------------------
 *
 * table.c
 *	  Hash tables of one process, by the bytes of their keys.
 *
 *-------------------------------------------------------------------------
 */
#include "base/base.h"

#include "utils/hsearch.h"

/* It grows by itself: the number is only that of the first buckets. */
#define FIRST_ENTRIES	64

HTAB *
sf_base_table(const char *name, Size key_bytes, Size entry_bytes, MemoryContext context)
{
	HASHCTL		ctl = {.keysize = key_bytes, .entrysize = entry_bytes, .hcxt = context};

	SF_ASSERT(key_bytes > 0 && key_bytes <= entry_bytes);
	return hash_create(name, FIRST_ENTRIES, &ctl, HASH_ELEM | HASH_BLOBS | HASH_CONTEXT);
}
