/*-------------------------------------------------------------------------
 *
 * export.c
 *	  securefile export DIR [PATTERN]
 *
 * The first connection makes the list and exports its snapshot; all others read with that
 * snapshot.  So the tree shows one moment of the table.  There is no snapshot of all nodes:
 * of a distributed table each file is read as it is when its turn comes.
 *
 *-------------------------------------------------------------------------
 */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "list.h"
#include "meta.h"
#include "names.h"
#include "output.h"
#include "pool.h"
#include "quick.h"
#include "tempfile.h"
#include "text.h"
#include "transfer.h"
#include "tree.h"
#include "verbs.h"

#define BEGIN_READING	"BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY"

typedef struct Export
{
	const Options *options;
	int			top;
	const StoredTree *stored;
	const FoundList *list;		/* of these: what is to be written */
} Export;

bool
tree_list(Session *session, const Options *options, const char *pattern, StoredTree *stored,
		  Failure *failure)
{
	PGresult   *result;

	memset(stored, 0, sizeof(*stored));
	if (session->target->distributed)
		return list_all(session, pattern, options, &stored->list, failure);
	if (!session_do(session, failure, BEGIN_READING) ||
		!session_do(session, failure, "SET LOCAL idle_in_transaction_session_timeout = 0"))
		return false;
	result = session_rows(session, failure, 1, "SELECT pg_catalog.pg_export_snapshot()", 0, NULL);
	if (result == NULL)
		return false;
	if (PQntuples(result) == 1)
		stored->snapshot = text_make("SET TRANSACTION SNAPSHOT '%s'", PQgetvalue(result, 0, 0));
	PQclear(result);
	if (stored->snapshot == NULL)
		return failure_say(failure, "the server exported no snapshot");
	return list_all(session, pattern, options, &stored->list, failure);
}

/* Begin a transaction with the snapshot of the list, if the session is in none. */
static bool
see_snapshot(Session *session, const Export *export, Failure *failure)
{
	if (PQtransactionStatus(session->conn) != PQTRANS_IDLE || export->stored->snapshot == NULL)
		return true;
	return session_do(session, failure, BEGIN_READING) &&
		session_do(session, failure, export->stored->snapshot);
}

/* What there is of a file here. */
typedef struct Here
{
	bool		exists;
	bool		known;			/* with the same contents */
	bool		touched;		/* and had another time or mode */
} Here;

/* Give a file that is known its time and mode. */
static bool
touch(const Export *export, const Found *found, int fd, Here *here, Failure *failure)
{
	struct stat st;

	if (!export->options->meta)
		return true;
	if (fstat(fd, &st) != 0)
		return failure_errno(failure, "could not look at the file");
	here->touched = meta_differs(export->options, &st, &found->meta);
	return !here->touched || export->options->dry_run ||
		meta_apply(export->options, fd, &found->meta, failure);
}

static bool
say_other(const Export *export, Failure *failure)
{
	return export->options->replace ||
		failure_say(failure, "another file is there already\nHint: --replace replaces it.");
}

/* Look for a link of that name here. */
static bool
look_at_link(const Export *export, const Found *found, int directory, const char *last,
			 Here *here, Failure *failure)
{
	size_t		size = strlen(found->meta.link);
	char	   *text = malloc(size + 2);
	struct stat st;

	if (text == NULL)
		abort();
	here->exists = fstatat(directory, last, &st, AT_SYMLINK_NOFOLLOW) == 0;
	here->known = here->exists &&
		readlinkat(directory, last, text, size + 1) == (ssize_t) size &&
		memcmp(text, found->meta.link, size) == 0;
	free(text);
	return !here->exists || here->known || say_other(export, failure);
}

/* Look for a file of that name here. */
static bool
look_at_local(Session *session, const Export *export, const Found *found, int directory,
			  const char *last, Here *here, Failure *failure)
{
	Stored		stored = {.row = true, .file = true, .length = found->length};
	int64_t		length;
	int			fd;
	bool		good;

	if (export->options->meta && found->meta.link != NULL)
		return look_at_link(export, found, directory, last, here, failure);
	fd = local_open_file(directory, last, &length, failure);
	here->exists = fd >= 0 || errno != ENOENT;
	/* --replace also replaces a link, and a file that may not be read */
	if (fd < 0)
		return !here->exists || (export->options->replace && errno != EISDIR);
	good = transfer_same(session, found->path, &stored, fd, length, &here->known, failure);
	if (good && here->known)
		good = touch(export, found, fd, here, failure);
	close(fd);
	return good && (here->known || say_other(export, failure));
}

/* Write the contents of a file. */
static bool
fill(Session *session, const Export *export, const Found *found, int fd, Failure *failure)
{
	int64_t		bytes = transfer_get(session, found->path, fd, failure);

	if (bytes < 0)
		return false;
	if (export->stored->snapshot != NULL && bytes != found->length)
		return failure_say(failure, "the server listed %lld bytes, and sent %lld",
						   (long long) found->length, (long long) bytes);
	return !export->options->meta || meta_apply(export->options, fd, &found->meta, failure);
}

/* Write one file, or a link, into an open directory. */
static bool
write_file(Session *session, const Export *export, const Found *found, int directory,
		   const char *last, Failure *failure)
{
	bool		is_link = export->options->meta && found->meta.link != NULL;
	TempFile   *file = is_link ? tempfile_link(directory, found->meta.link, failure) :
		tempfile_open(directory, 0666, failure);

	if (file == NULL)
		return false;
	if (is_link || fill(session, export, found, tempfile_fd(file), failure))
		return tempfile_finish(file, last, export->options->replace, failure);
	tempfile_discard(file);
	return false;
}

/* Write one file unless it is here already; directory -1: a dry run, and it does not exist. */
static bool
export_into(Session *session, const Export *export, const Found *found, int directory,
			const char *last, Failure *failure)
{
	Here		here = {false, false, false};

	if (directory >= 0 &&
		!look_at_local(session, export, found, directory, last, &here, failure))
		return false;
	if (here.known || export->options->dry_run)
		progress_bytes(found->length);
	else if (!write_file(session, export, found, directory, last, failure))
		return false;
	output_file(found->path, here.touched ? ACTION_TOUCHED : here.known ? ACTION_SAME :
				here.exists ? ACTION_REPLACED : ACTION_GOT, found->length);
	return true;
}

/* A PoolWork: one file of the list. */
static bool
export_one(Session *session, void *arg, size_t number)
{
	const Export *export = arg;
	const Found *found = &export->list->files[number];
	const char *path = found->path + strlen(export->options->prefix);
	bool		dry_run = export->options->dry_run;
	const char *last = NULL;
	Failure		failure;
	int			directory = -1;
	bool		good = local_check_path(path, &failure) && see_snapshot(session, export, &failure);

	if (good && export->top >= 0)
	{
		directory = local_open_parent(export->top, path, !dry_run, &last, &failure);
		good = directory >= 0 || (dry_run && errno == ENOENT);
	}
	if (good)
		good = export_into(session, export, found, directory, last, &failure);
	if (directory >= 0)
		close(directory);
	if (!good)
		output_failed(found->path, &failure);
	return good;
}

bool
tree_open_top(const Options *options, const char *path, int *top, Failure *failure)
{
	*top = local_open_top(path, failure);
	if (*top >= 0 || access(path, F_OK) == 0)
		return *top >= 0;
	if (options->dry_run)
		return true;
	if (mkdir(path, 0777) != 0)
		return failure_say(failure, "could not make directory \"%s\": %s", path, strerror(errno));
	*top = local_open_top(path, failure);
	return *top >= 0;
}

bool
tree_export(Session *session, const Options *options, int top, StoredTree *stored)
{
	Export		export = {options, top, stored, &stored->list};
	Queues		queues;
	bool		all;

	if (session->target->distributed && !options->quiet)
		output_notice(NULL, "the files are not of one moment: "
					  "a distributed table has no snapshot of all its nodes");
	if (!options->quiet)
		progress_begin((int64_t) stored->list.count, stored->list.bytes);
	if (options->quick)
		export.list = quick_export(options, top, &stored->list);
	queues = queues_find(session, export.list, "");
	all = pool_run(options, session->target, NULL, export.list->count, &queues, export_one,
				   &export);
	queues_free(&queues);
	return all;
}

int
verb_export(const Options *options)
{
	const char *pattern = options->nargs > 1 ? options->args[1] : NULL;
	StoredTree	stored;
	Target		target;
	Session    *session;
	Failure		failure;
	bool		all;
	int			top;

	if (!tree_open_top(options, options->args[0], &top, &failure))
	{
		output_message(&failure);
		return EXIT_SETUP;
	}
	session = session_first(options, &target);
	if (session == NULL)
		return EXIT_SETUP;
	names_say_prefix(options);
	if (!tree_list(session, options, pattern, &stored, &failure))
	{
		output_message(&failure);
		return EXIT_SETUP;
	}
	all = tree_export(session, options, top, &stored);
	session_end(session);
	return output_end(all ? EXIT_DONE : EXIT_SETUP);
}
