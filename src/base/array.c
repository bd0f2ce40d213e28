/*-------------------------------------------------------------------------
 *
 * array.c
 *	  Arrays that grow.
 *
 *-------------------------------------------------------------------------
 */
#include "base/base.h"

#define FIRST_SIZE	64

/* Doubling keeps the cost of all moves together in proportion to the last size. */
void *
sf_base_array_grow(void *array, int64 n, int64 *size, Size item_bytes, MemoryContext context)
{
	int64		new_size;

	SF_ASSERT(n >= 0 && n <= *size && item_bytes > 0);
	SF_ASSERT((array == NULL) == (*size == 0));
	if (n < *size)
		return array;
	new_size = Max(FIRST_SIZE, *size * 2);
	array = array == NULL ? MemoryContextAllocHuge(context, new_size * item_bytes)
		: repalloc_huge(array, new_size * item_bytes);
	*size = new_size;
	return array;
}
