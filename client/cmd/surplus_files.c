/*-------------------------------------------------------------------------
 *
 * surplus_files.c
 *	  Deleting files of a tree.
 *
 * Another program may change the tree meanwhile, and put a link in the place of a directory.  So
 * each file is found from the top on, through no link, and looked at once more; unlinkat() itself
 * follows none.
 *
 *-------------------------------------------------------------------------
 */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "output.h"
#include "surplus.h"
#include "text.h"

/* Delete a file that was found in the tree; vanished: another program has done so. */
static bool
delete_file(int top, const Found *found, Failure *failure)
{
	struct stat st;
	const char *last;
	int			directory = local_open_parent(top, found->path, false, &last, failure);
	bool		good = directory >= 0 && fstatat(directory, last, &st, AT_SYMLINK_NOFOLLOW) == 0;
	bool		gone = !good && errno == ENOENT;

	if (directory >= 0 && !good)
		failure_errno(failure, "could not look at it");
	else if (good && (found->meta.link != NULL ? !S_ISLNK(st.st_mode) : !S_ISREG(st.st_mode)))
		good = failure_say(failure, "another program has put something else in its place");
	else if (good && unlinkat(directory, last, 0) != 0)
	{
		gone = errno == ENOENT;
		good = failure_errno(failure, "could not delete the file");
	}
	failure->vanished = gone;
	if (directory >= 0)
		close(directory);
	return good;
}

/* Delete the directory of a path, and those above it, as long as they are empty. */
static void
delete_directories(int top, const char *path)
{
	char	   *rest = text_make("%s", path);
	char	   *slash;
	bool		empty = true;

	while (empty && (slash = strrchr(rest, '/')) != NULL)
	{
		const char *last;
		Failure		ignored;
		int			directory;

		*slash = '\0';
		directory = local_open_parent(top, rest, false, &last, &ignored);
		empty = directory >= 0 && unlinkat(directory, last, AT_REMOVEDIR) == 0;
		if (directory >= 0)
			close(directory);
	}
	free(rest);
}

/* Are two paths in the same directory? */
static bool
same_directory(const char *a, const char *b)
{
	const char *slash = strrchr(a, '/');
	size_t		length = slash != NULL ? slash - a + 1 : 0;

	return strncmp(a, b, length) == 0 && strchr(b + length, '/') == NULL;
}

void
surplus_delete_files(const Options *options, int top, const FoundList *surplus)
{
	for (size_t i = 0; i < surplus->count; i++)
	{
		const Found *found = &surplus->files[i];
		char	   *name = text_make("%s%s", options->prefix, found->path);
		Failure		failure;

		if (options->dry_run || delete_file(top, found, &failure))
			output_file(name, ACTION_REMOVED, found->length);
		else
			output_failed(name, &failure);
		free(name);
		if (!options->dry_run && (i + 1 == surplus->count ||
								  !same_directory(found->path, surplus->files[i + 1].path)))
			delete_directories(top, found->path);
	}
}
