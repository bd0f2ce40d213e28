/*-------------------------------------------------------------------------
 *
 * import.c
 *	  securefile import DIR
 *
 * Short files are stored many at a time (batch.c); a long file is a transaction of its own.  A
 * file that is stored with the same contents is skipped, so that a second run continues after an
 * interrupt.
 *
 *-------------------------------------------------------------------------
 */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "batch.h"
#include "groups.h"
#include "local.h"
#include "look.h"
#include "meta.h"
#include "names.h"
#include "output.h"
#include "pool.h"
#include "quick.h"
#include "source.h"
#include "text.h"
#include "transfer.h"
#include "tree.h"
#include "verbs.h"

typedef struct Import
{
	const Options *options;
	int			top;
	const FoundList *list;
	Groups		groups;
} Import;

/*
 * Open a file of the tree.  A link is stored as a file without bytes.  A file that is gone since
 * the tree was walked is not in the tree.  (The open directory at the top does not go away: what
 * is missing below it was removed.)
 */
static int
open_found(void *arg, const Found *found, int64_t *length, Failure *failure)
{
	const Import *import = arg;
	int			fd;

	if (found->meta.link == NULL)
	{
		bool		follow = import->options->links == LINKS_FOLLOW;

		fd = local_open_below(import->top, found->path, follow, length, failure);
		if (fd < 0)
			failure->vanished = errno == ENOENT && !follow;
		return fd;
	}
	*length = 0;
	fd = open("/dev/null", O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		failure_errno(failure, "could not open /dev/null");
	return fd;
}

/* Is the file stored already?  *known: yes, with the same contents. */
static bool
compare_stored(Session *session, const Options *options, const char *name, const Found *found,
			   int fd, int64_t length, const Stored *stored, bool *known, Failure *failure)
{
	bool		is_link = found->meta.link != NULL;

	*known = false;
	if (stored->many)
		return failure_say(failure, "more than one row has that name");
	if (!stored->file)
		return true;
	if (is_link || stored->meta.link != NULL)
		*known = is_link && stored->meta.link != NULL &&
			strcmp(found->meta.link, stored->meta.link) == 0;
	else if (!transfer_same(session, name, stored, fd, length, known, failure))
		return false;
	if (*known || options->replace)
		return true;
	return failure_say(failure,
					   "another file of that name is stored already\nHint: --replace replaces it.");
}

/* Bring the time and the mode of a stored file up to date. */
static bool
touch(Session *session, const Import *import, const char *name, const Found *found,
	  const Stored *stored, int64_t length, Failure *failure)
{
	bool		same = !import->options->meta || meta_same(&found->meta, &stored->meta);

	if (!same && !import->options->dry_run &&
		!meta_update(session, name, &found->meta, failure))
		return false;
	progress_bytes(length);
	output_file(name, same ? ACTION_SAME : ACTION_TOUCHED, length);
	return true;
}

static bool
put(Session *session, const Import *import, const char *name, const Found *found, int fd,
	const Stored *stored, Action action, Failure *failure)
{
	MetaSets	sets;
	const Options *options = meta_add(import->options, &found->meta, &sets);
	int64_t		length = transfer_put(session, options, name, stored->row, fd, failure);

	meta_free(options, &sets);
	if (length >= 0)
		output_file(name, action, length);
	return length >= 0;
}

/*
 * Store a file, unless it is stored already, and tell the user.  later: the file of a batch,
 * which is filled in if the file has to be stored; null: store it now.
 */
static bool
import_open(Session *session, const Import *import, const char *name, const Found *found,
			int fd, int64_t length, const Stored *stored, BatchFile *later, Failure *failure)
{
	bool		known;
	Action		action = stored->file ? ACTION_REPLACED : ACTION_PUT;

	if (!compare_stored(session, import->options, name, found, fd, length, stored, &known,
						failure))
		return false;
	if (known)
		return touch(session, import, name, found, stored, length, failure);
	if (import->options->dry_run)
	{
		progress_bytes(length);
		output_file(name, action, length);
		return true;
	}
	if (later == NULL)
		return put(session, import, name, found, fd, stored, action, failure);
	*later = (BatchFile)
	{
		.source = found, .name = name, .row_exists = stored->row, .action = action
	};
	return true;
}

/* The same of a file that is not open yet. */
static bool
import_looked(Session *session, Import *import, const char *name, const Found *found,
			  const Stored *stored, BatchFile *later, Failure *failure)
{
	int64_t		length;
	int			fd = open_found(import, found, &length, failure);
	bool		good = fd >= 0 &&
		import_open(session, import, name, found, fd, length, stored, later, failure);

	if (fd >= 0)
		close(fd);
	return good;
}

/* Look a file of the tree up, and store it if need be; the user is not told of a failure. */
static bool
try_one(Session *session, Import *import, const char *name, const Found *found, Failure *failure)
{
	Stored		stored;
	bool		good = transfer_look(session, name, &stored, failure);

	/*
	 * a link has no bytes; without --meta, too, it is another thing than an
	 * empty file
	 */
	stored.meta = meta_unknown;
	if (good && (import->options->meta || (stored.file && stored.length == 0)))
		good = meta_look(session, name, &stored.meta, failure);

	if (!good)
		return false;
	good = import_looked(session, import, name, found, &stored, NULL, failure);
	free(stored.meta.link);
	return good;
}

/*
 * One file of the tree, by itself.  If another command has stored a file of that name meanwhile,
 * look at that one.
 */
static bool
import_one(Session *session, Import *import, const char *name, const Found *found)
{
	Failure		failure;
	Failure		ignored;
	bool		good = local_check_name(name, session->target->names_are_utf8, &failure);

	if (good)
	{
		good = try_one(session, import, name, found, &failure);
		if (!good && failure_is_duplicate(&failure) && session_recover(session, &ignored))
			good = try_one(session, import, name, found, &failure);
	}
	if (!good)
		output_failed(name, &failure);
	return good;
}

/* ---- many short files ---- */

/* Files that are looked up and stored together. */
typedef struct Together
{
	size_t		count;
	const Found **found;
	char	  **names;
	bool	   *done;			/* the user was told of it */
	Stored	   *stored;
	BatchFile  *batch;
	size_t		in_batch;
} Together;

/* Take the files of a group whose names are possible; the user is told of the others. */
static Together
together_make(const Session *session, const Import *import, const Group *group)
{
	Together	together = {
		.found = calloc(group->count, sizeof(Found *)),
		.names = calloc(group->count, sizeof(char *)),
		.done = calloc(group->count, sizeof(bool)),
		.stored = calloc(group->count, sizeof(Stored)),
		.batch = calloc(group->count, sizeof(BatchFile)),
	};

	if (together.found == NULL || together.names == NULL || together.done == NULL ||
		together.stored == NULL || together.batch == NULL)
		abort();
	for (size_t i = 0; i < group->count; i++)
	{
		const Found *found = &import->list->files[group->files[i]];
		char	   *name = text_make("%s%s", import->options->prefix, found->path);
		Failure		failure;

		if (local_check_name(name, session->target->names_are_utf8, &failure))
		{
			together.found[together.count] = found;
			together.names[together.count++] = name;
			continue;
		}
		output_failed(name, &failure);
		free(name);
	}
	return together;
}

static void
together_free(Together *together)
{
	for (size_t i = 0; i < together->count; i++)
		free(together->names[i]);
	look_free(together->stored, together->count);
	free(together->batch);
	free(together->stored);
	free(together->done);
	free(together->names);
	free(together->found);
}

/* Ask what there is of all of them, and find out which ones have to be stored. */
static bool
look_together(Session *session, Import *import, Together *together)
{
	Failure		failure;

	if (!look_many(session, import->options->prefix, together->found, together->count,
				   together->stored, &failure))
		return session_recover(session, &failure) && false;
	for (size_t i = 0; i < together->count && PQstatus(session->conn) == CONNECTION_OK; i++)
	{
		BatchFile  *file = &together->batch[together->in_batch];

		together->done[i] = true;
		if (!import_looked(session, import, together->names[i], together->found[i],
						   &together->stored[i], file, &failure))
		{
			output_failed(together->names[i], &failure);
			(void) session_recover(session, &failure);
		}
		else if (file->source != NULL)
			together->in_batch++;
	}
	return true;
}

/* Send the bytes that the buffer has. */
static bool
send_bytes(Session *session, const Import *import, const BatchFile *file, bool prepare)
{
	const Found *found = file->source;
	MetaSets	sets;
	const Options *options = meta_add(import->options, &found->meta, &sets);
	WholeFile	whole = statement_whole(session, options, file->name, file->row_exists,
										session->buffer, (size_t) file->bytes);
	bool		sent = batch_send(session, &whole, prepare);

	statement_free(&whole);
	meta_free(options, &sets);
	return sent;
}

/* Read a file of a batch, and send it if it is short. */
static bool
send_found(Session *session, void *arg, BatchFile *file, bool prepare, Failure *failure)
{
	int64_t		length;
	int			fd = open_found(arg, file->source, &length, failure);
	bool		fits = true;

	file->bytes = fd < 0 ? -1 :
		source_read_short(fd, session->buffer, BUFFER_SIZE, &fits, failure);
	if (fd >= 0)
		close(fd);
	file->sent = file->bytes >= 0 && fits;
	return !file->sent || send_bytes(session, arg, file, prepare);
}

/* Store a file of a batch alone. */
static void
store_found(Session *session, void *arg, BatchFile *file, Failure *failure)
{
	const Import *import = arg;
	const Found *found = file->source;
	MetaSets	sets;
	const Options *options = meta_add(import->options, &found->meta, &sets);
	int			fd = open_found(arg, found, &file->bytes, failure);

	file->bytes = fd < 0 ? -1 :
		transfer_put(session, options, file->name, file->row_exists, fd, failure);
	if (fd >= 0)
		close(fd);
	meta_free(options, &sets);
}

static const BatchWork batch_work = {send_found, store_found, true};

/* Do the files of which the user was not told, one by one. */
static bool
import_rest(Session *session, Import *import, Together *together)
{
	const BatchFile *file = together->batch;
	Failure		ignored;
	bool		good = PQstatus(session->conn) == CONNECTION_OK;

	for (size_t i = 0; i < together->count; i++)
	{
		if (file < together->batch + together->in_batch && file->name == together->names[i])
			together->done[i] = file++->told;
		if (together->done[i])
			continue;
		good = !session->lost && !output_stopped() && (good || session_recover(session, &ignored));
		if (good)
			good = import_one(session, import, together->names[i], together->found[i]);
		else
			session->not_begun++;
	}
	return good;
}

static bool
import_together(Session *session, Import *import, const Group *group)
{
	Together	together = together_make(session, import, group);
	bool		good = look_together(session, import, &together) &&
		batch_store(session, &batch_work, import, together.batch, together.in_batch);

	if (!good || PQstatus(session->conn) != CONNECTION_OK)
		good = import_rest(session, import, &together);
	together_free(&together);
	return good;
}

/* A PoolWork: one group of files. */
static bool
import_group(Session *session, void *arg, size_t number)
{
	Import	   *import = arg;
	const Group *group = &import->groups.groups[number];
	const Found *found = &import->list->files[group->files[0]];
	char	   *name;
	bool		good;

	if (group->count > 1)
		return import_together(session, import, group);
	name = text_make("%s%s", import->options->prefix, found->path);
	good = import_one(session, import, name, found);
	free(name);
	return good;
}

bool
tree_import(Session *session, const Options *options, int top, const FoundList *list)
{
	Import		import = {.options = options, .top = top, .list = list};
	Queues		queues;
	bool		all;

	if (!options->quiet)
		progress_begin((int64_t) list->count, list->bytes);
	if (options->quick)
		import.list = quick_import(session, options, list);
	queues = queues_find(session, import.list, options->prefix);
	import.groups = groups_make(session, options, import.list);
	queues.sizes = import.groups.sizes;
	all = pool_run(options, session->target, session, import.groups.count, &queues,
				   import_group, &import);
	groups_free(&import.groups);
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
