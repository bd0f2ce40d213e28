/*-------------------------------------------------------------------------
 *
 * groups.c
 *	  Which files of a tree are stored together.
 *
 *-------------------------------------------------------------------------
 */
#include <stdlib.h>

#include "batch.h"
#include "groups.h"

/* A group that is being filled. */
typedef struct Filling
{
	Groups		groups;
	size_t	   *next;			/* free place for the number of a file */
	size_t		most;			/* files */
	int64_t		bytes;
} Filling;

static void
begin_group(Filling *filling)
{
	filling->groups.groups[filling->groups.count++] = (Group)
	{
		filling->next, 0
	};
	filling->bytes = 0;
}

static void
add_file(Filling *filling, size_t number)
{
	size_t		group = filling->groups.count - 1;

	*filling->next++ = number;
	filling->groups.sizes[group] = ++filling->groups.groups[group].count;
}

static Filling
filling_make(const Session *session, const Options *options, size_t files)
{
	size_t		each = (files + options->jobs - 1) / options->jobs;
	size_t		batch = session->target->distributed ? 1 : options->batch;
	Filling		filling = {
		.groups = {
			.groups = calloc(files + 1, sizeof(Group)),
			.sizes = calloc(files + 1, sizeof(size_t)),
			.files = calloc(files + 1, sizeof(size_t)),
		},
		.most = each < batch ? each : batch,
	};

	if (filling.groups.groups == NULL || filling.groups.sizes == NULL ||
		filling.groups.files == NULL)
		abort();
	filling.next = filling.groups.files;
	return filling;
}

static bool
is_short(const Filling *filling, const Found *found)
{
	return filling->most > 1 && found->length < BUFFER_SIZE;
}

Groups
groups_make(const Session *session, const Options *options, const FoundList *list)
{
	Filling		filling = filling_make(session, options, list->count);

	for (size_t i = 0; i < list->count; i++)
	{
		size_t		last = filling.groups.count - 1;
		int64_t		length = list->files[i].length;

		if (!is_short(&filling, &list->files[i]))
			continue;
		if (filling.groups.count == 0 || filling.groups.sizes[last] == filling.most ||
			filling.bytes + length > BATCH_BYTES)
			begin_group(&filling);
		add_file(&filling, i);
		filling.bytes += length;
	}
	for (size_t i = 0; i < list->count; i++)
		if (!is_short(&filling, &list->files[i]))
		{
			begin_group(&filling);
			add_file(&filling, i);
		}
	return filling.groups;
}

void
groups_free(Groups *groups)
{
	free(groups->groups);
	free(groups->sizes);
	free(groups->files);
}
