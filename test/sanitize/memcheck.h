/*-------------------------------------------------------------------------
 *
 * memcheck.h
 *	  valgrind's requests that PostgreSQL makes (utils/memdebug.h), answered by the
 *	  address sanitizer.
 *
 * The server allocates in contexts, out of blocks, and keeps pages in one large
 * array: the sanitizer sees the blocks and the array only.  But built with
 * USE_VALGRIND it says of each piece of them, and of each buffer that is not
 * pinned, whether it may be touched now.  valgrind is slow; the sanitizer can
 * take the same hints.  What is defined and what is not it does not know.
 *
 * Of a piece that goes the server says so before it asks for MEMPOOL_FREE, which
 * does not know the length.
 *
 *-------------------------------------------------------------------------
 */
#ifndef SF_TEST_MEMCHECK_H
#define SF_TEST_MEMCHECK_H

#include <sanitizer/asan_interface.h>

#define MAY_TOUCH(addr, size)		__asan_unpoison_memory_region((addr), (size))
#define MUST_NOT_TOUCH(addr, size)	__asan_poison_memory_region((addr), (size))
#define NOTHING						do {} while (0)

#define VALGRIND_CHECK_MEM_IS_DEFINED(addr, size)			NOTHING
#define VALGRIND_GET_VBITS(addr, bits, size)				0
#define VALGRIND_CREATE_MEMPOOL(context, redzones, zeroed)	NOTHING
#define VALGRIND_DESTROY_MEMPOOL(context)					NOTHING
#define VALGRIND_MAKE_MEM_DEFINED(addr, size)				MAY_TOUCH(addr, size)
#define VALGRIND_MAKE_MEM_UNDEFINED(addr, size)				MAY_TOUCH(addr, size)
#define VALGRIND_MAKE_MEM_NOACCESS(addr, size)				MUST_NOT_TOUCH(addr, size)
#define VALGRIND_MEMPOOL_ALLOC(context, addr, size)			MAY_TOUCH(addr, size)
#define VALGRIND_MEMPOOL_FREE(context, addr)				NOTHING
#define VALGRIND_MEMPOOL_CHANGE(context, from, to, size)	MAY_TOUCH(to, size)

#endif							/* SF_TEST_MEMCHECK_H */
