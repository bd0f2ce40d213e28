/*-------------------------------------------------------------------------
 *
 * array.c
 *	  Arrays that grow.
 *
 *-------------------------------------------------------------------------
 */
#include "base/base.h"

#include "utils/memutils.h"

#define FIRST_SIZE	64

/* Doubling keeps the cost of all moves together in proportion to the last size. */
void *
sf_base_array_grow(void *array, int64 n, int64 *size, Size item_bytes, MemoryContext context)
{
	SF_ASSERT(n >= 0 && n <= *size && item_bytes > 0);
	SF_ASSERT((array == NULL) == (*size == 0));
	if (n < *size)
		return array;
	*size = Max(FIRST_SIZE, *size * 2);
	return array == NULL ? MemoryContextAllocHuge(context, *size * item_bytes)
		: repalloc_huge(array, *size * item_bytes);
}
