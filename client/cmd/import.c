/*-------------------------------------------------------------------------
 *
 * import.c
 *	  securefile import DIR
 *
 * Each file is a transaction of its own.  A file that is stored with the same contents is
 * skipped, so that a second run continues after an interrupt.
 *
 *-------------------------------------------------------------------------
 */
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "local.h"
#include "names.h"
#include "output.h"
#include "pool.h"
#include "text.h"
#include "transfer.h"
#include "tree.h"
#include "verbs.h"

typedef struct Import
{
	const Options *options;
	int			top;
	const FoundList *list;
} Import;

/* Is the file stored already?  *known: yes, with the same contents. */
static bool
look_at_stored(Session *session, const Options *options, const char *name, int fd,
			   int64_t length, Stored *stored, bool *known, Failure *failure)
{
	*known = false;
	if (!transfer_look(session, name, stored, failure))
		return false;
	if (!stored->file)
		return true;
	if (!transfer_same(session, name, stored, fd, length, known, failure))
		return false;
	if (*known || options->replace)
		return true;
	return failure_say(failure,
					   "another file of that name is stored already\nHint: --replace replaces it.");
}

/* Store an open file, unless it is stored already, and tell the user. */
static bool
import_open(Session *session, const Options *options, const char *name, int fd,
			int64_t length, Failure *failure)
{
	Stored		stored;
	bool		known;
	Action		action;

	if (!local_check_name(name, session->target->names_are_utf8, failure))
		return false;
	if (!look_at_stored(session, options, name, fd, length, &stored, &known, failure))
		return false;
	action = known ? ACTION_SAME : stored.file ? ACTION_REPLACED : ACTION_PUT;
	if (known || options->dry_run)
		progress_bytes(length);
	else
		length = transfer_put(session, options, name, stored.row, fd, failure);
	if (length < 0)
		return false;
	output_file(name, action, length);
	return true;
}

/* A PoolWork: one file of the tree. */
static bool
import_one(Session *session, void *arg, size_t number)
{
	Import	   *import = arg;
	const Found *found = &import->list->files[number];
	char	   *name = text_make("%s%s", import->options->prefix, found->path);
	Failure		failure;
	int64_t		length;
	int			fd = local_open_below(import->top, found->path,
									  import->options->links == LINKS_FOLLOW, &length, &failure);
	bool		good = fd >= 0 && import_open(session, import->options, name, fd, length, &failure);

	if (!good)
		output_failed(name, &failure);
	if (fd >= 0)
		close(fd);
	free(name);
	return good;
}

bool
tree_import(Session *session, const Options *options, int top, const FoundList *list)
{
	Import		import = {options, top, list};
	Queues		queues = queues_find(session, list, options->prefix);
	bool		all;

	if (!options->quiet)
		progress_begin((int64_t) list->count, list->bytes);
	all = pool_run(options, session->target, session, list->count, &queues, import_one, &import);
	queues_free(&queues);
	return all;
}

int
verb_import(const Options *options)
{
	FoundList	list = {0};
	Target		target;
	Session    *session;
	Failure		failure;
	bool		all;
	int			top = local_open_top(options->args[0], &failure);

	if (top < 0)
	{
		output_message(&failure);
		return EXIT_SETUP;
	}
	session = session_first(options, &target);
	if (session == NULL)
		return EXIT_SETUP;
	names_say_prefix(options);
	walk_tree(top, options, &list, output_passed);
	all = tree_import(session, options, top, &list);
	session_end(session);
	return output_end(all ? EXIT_DONE : EXIT_SETUP);
}
