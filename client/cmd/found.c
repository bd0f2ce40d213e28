/*-------------------------------------------------------------------------
 *
 * found.c
 *	  Lists of files that are compared with each other.
 *
 *-------------------------------------------------------------------------
 */
#include <stdlib.h>
#include <string.h>

#include "found.h"

static int
compare(const void *a, const void *b)
{
	return strcmp(*(const char *const *) a, *(const char *const *) b);
}

Sorted
found_sort(const FoundList *list, size_t skip)
{
	Sorted		sorted = {malloc((list->count + 1) * sizeof(char *)), list->count};

	if (sorted.paths == NULL)
		abort();
	for (size_t i = 0; i < list->count; i++)
		sorted.paths[i] = list->files[i].path + skip;
	qsort(sorted.paths, sorted.count, sizeof(char *), compare);
	return sorted;
}

bool
found_has(const Sorted *sorted, const char *path)
{
	return bsearch(&path, sorted->paths, sorted->count, sizeof(char *), compare) != NULL;
}

bool
found_has_below(const Sorted *sorted, const char *directory)
{
	size_t		length = strlen(directory);
	size_t		low = 0;
	size_t		high = sorted->count;

	/*
	 * the first path that is not less than the directory with a slash behind
	 * it
	 */
	while (low < high)
	{
		size_t		middle = low + (high - low) / 2;
		int			order = strncmp(sorted->paths[middle], directory, length);

		if (order < 0 || (order == 0 && sorted->paths[middle][length] < '/'))
			low = middle + 1;
		else
			high = middle;
	}
	return low < sorted->count && strncmp(sorted->paths[low], directory, length) == 0 &&
		sorted->paths[low][length] == '/';
}

FoundList
found_less(const FoundList *list, size_t skip, const Sorted *other)
{
	FoundList	less = {0};

	for (size_t i = 0; i < list->count; i++)
	{
		const Found *found = &list->files[i];

		if (!found_has(other, found->path + skip))
			walk_add(&less, found->path, found->length, &found->meta);
	}
	return less;
}
