/*-------------------------------------------------------------------------
 *
 * migrate_open.c
 *	  The file that a path or URL of a row leads to.
 *
 * Paths come out of a table, and the person who wrote them may be another than the one who runs
 * the command.  So nothing outside of --root is read: no absolute path, no "..", and no link that
 * leads there.
 *
 *-------------------------------------------------------------------------
 */
#include <errno.h>
#include <string.h>
#include <unistd.h>

#include "migrate.h"
#include "output.h"

/* A path of this machine below --root; *path is what is left of it without the prefix. */
static bool
check_path(const Migrate *migrate, const char **path, Failure *failure)
{
	const char *prefix = migrate->options->prefix;
	size_t		length = strlen(prefix);

	if (migrate->top < 0)
		return failure_say(failure,
						   "a path, not a URL\nHint: Say with --root below which directory the paths are.");
	if (strncmp(*path, prefix, length) != 0)
		return failure_say(failure, "path \"%s\" does not begin with the prefix",
						   output_quoted(*path));
	*path += length;
	if (**path == '/')
		return failure_say(failure, "path \"%s\" is absolute: refused\n"
						   "Hint: --prefix says what the paths have in front of those below --root.",
						   output_quoted(*path));
	return local_check_path(*path, failure);
}

/* Put the path in front of the reason. */
static void
name_path(const char *path, Failure *failure)
{
	Failure		reason = *failure;

	failure_say(failure, "path \"%s\": %.900s", output_quoted(path), reason.text);
	failure->systemic = reason.systemic;
}

static int
open_path(const Migrate *migrate, const char *path, int64_t *length, Failure *failure)
{
	int			fd = local_open_below(migrate->top, path, migrate->options->links == LINKS_FOLLOW,
									  length, failure);
	int			saved = errno;

	if (fd < 0)
		name_path(path, failure);
	errno = saved;
	return fd;
}

/* Is the open file as long as it may be? */
static int
check_length(const Migrate *migrate, int fd, int64_t length, Failure *failure)
{
	int64_t		most = migrate->limits.max_bytes;

	if (fd < 0 || most == 0 || length <= most)
		return fd;
	failure_say(failure, "the file is longer than the %lld bytes of --max-size", (long long) most);
	close(fd);
	errno = EFBIG;
	return -1;
}

int
migrate_open(const Migrate *migrate, const char *from, int64_t *length, Failure *failure)
{
	int			fd;

	*length = 0;
	if (url_is_one(from))
	{
		fd = url_fetch(from, &migrate->limits, length, failure);
		/* it is no path where there is none */
		if (fd < 0 && errno == ENOENT)
			errno = 0;
		return fd;
	}
	errno = 0;
	if (!check_path(migrate, &from, failure))
		return -1;
	fd = open_path(migrate, from, length, failure);
	return check_length(migrate, fd, *length, failure);
}
