/*-------------------------------------------------------------------------
 *
 * buffer.c
 *	  Memory for direct I/O.
 *
 * Memory of PostgreSQL's allocator is neither aligned nor safe from being
 * given back by an ERROR while the kernel still writes into it, and touching
 * fresh 4 KB pages costs more than the transfer.  So buffers are mapped here,
 * in huge pages when large, and kept for the life of the process.  Buffers of
 * middle size share a huge page.  The addresses are kept; their memory can be
 * given back between transactions (memory.c).
 *
 * There is no function to free a buffer.  Each user has its own, in static variables, and
 * asks for it when the process first needs it.
 *
 *-------------------------------------------------------------------------
 */
#include "base/base.h"

#include <sys/mman.h>

#include "io/io_internal.h"

#define HUGE_PAGE_SIZE		((Size) 2 * 1024 * 1024)

/* from here on a share of a huge page; below, single pages */
#define HUGE_THRESHOLD		((Size) 128 * 1024)

/* what is left of the huge page begun last */
static char *spare = NULL;
static Size spare_bytes = 0;

/* What is mapped; the few buffers there are find room, others are not given back. */
typedef struct Mapping
{
	char	   *start;
	Size		size;
} Mapping;

#define MAX_MAPPINGS		64

static Mapping mappings[MAX_MAPPINGS];
static int	nmappings;

/* There is no list of more: what is not noted stays in memory for the life of the process. */
static char *
note_mapping(char *start, Size size)
{
	SF_ASSERT((uintptr_t) start % SF_IO_ALIGN == 0 && size > 0);
	if (nmappings < MAX_MAPPINGS)
		mappings[nmappings++] = (Mapping) {start, size};
	return start;
}

/*
 * MADV_DONTNEED takes the pages and leaves the addresses: the next touch finds zeros.
 * So a pointer into a buffer stays good.
 */
void
sfi_io_buffers_release(void)
{
	SF_ASSERT(nmappings >= 0 && nmappings <= MAX_MAPPINGS);
	for (int i = 0; i < nmappings; i++)
		(void) madvise(mappings[i].start, mappings[i].size, MADV_DONTNEED);
}

/* Map fresh memory: page-aligned, zero, and none of it taken before it is touched. */
static char *
map_pages(Size size)
{
	void	   *p = MAP_FAILED;

	if (!SF_FAULT_FAILS(io_buffer))
		p = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (p == MAP_FAILED)
		ereport(ERROR,
				(errcode(ERRCODE_OUT_OF_MEMORY),
				 errmsg("out of memory"),
				 errdetail("Failed to map an I/O buffer of %zu bytes.", size)));
	return (char *) p;
}

/*
 * Map one huge page too much and cut the ends off, which is the portable way
 * to get the alignment.  The advice may be refused; that costs speed only.
 */
static char *
map_huge(Size size)
{
	char	   *raw = map_pages(size + HUGE_PAGE_SIZE);
	char	   *start = (char *) TYPEALIGN(HUGE_PAGE_SIZE, (uintptr_t) raw);
	char	   *end = start + size;

	SF_ASSERT(size % HUGE_PAGE_SIZE == 0);
	if (start > raw)
		(void) munmap(raw, start - raw);
	if (raw + size + HUGE_PAGE_SIZE > end)
		(void) munmap(end, raw + size + HUGE_PAGE_SIZE - end);
#ifdef MADV_HUGEPAGE
	(void) madvise(start, size, MADV_HUGEPAGE);
#endif
	return note_mapping(start, size);
}

/*
 * A part of a huge page.  What is left of the last one, if it is too small, is lost: buffers
 * have few sizes, and are made once.
 */
static char *
carve_huge(Size size)
{
	char	   *part;

	if (spare_bytes < size)
	{
		spare = map_huge(HUGE_PAGE_SIZE);
		spare_bytes = HUGE_PAGE_SIZE;
	}
	SF_ASSERT(size <= spare_bytes && size % SF_IO_ALIGN == 0);
	part = spare;
	spare += size;
	spare_bytes -= size;
	SF_ASSERT((uintptr_t) part % SF_IO_ALIGN == 0);
	return part;
}

char *
sf_io_buffer_alloc(Size size)
{
	SF_ASSERT(size > 0);
	sf_io_use_memory();
	size = TYPEALIGN(SF_IO_ALIGN, size);
	if (size >= HUGE_PAGE_SIZE)
		return map_huge(TYPEALIGN(HUGE_PAGE_SIZE, size));
	if (size >= HUGE_THRESHOLD)
		return carve_huge(size);
	return note_mapping(map_pages(size), size);
}
