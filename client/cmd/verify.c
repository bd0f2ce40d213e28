/*-------------------------------------------------------------------------
 *
 * verify.c
 *	  securefile verify [NAME...]
 *
 * Without names securefile_check() looks at the whole column.  With --against the files
 * are compared with the files of a tree, by hashes, which the server computes.
 *
 *-------------------------------------------------------------------------
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "found.h"
#include "list.h"
#include "meta.h"
#include "names.h"
#include "output.h"
#include "pool.h"
#include "text.h"
#include "transfer.h"
#include "verbs.h"

typedef struct Verify
{
	const Options *options;
	int			top;			/* of --against, or -1 */
	FoundList	list;			/* stored files to look at; length -1: named
								 * by the user */
} Verify;

/* ---- the column ---- */

/* A finding is a failure of the row, if it names one, else of the table. */
static void
show_finding(const Options *options, const PGresult *result, int row)
{
	bool		has_name = !PQgetisnull(result, row, 1);
	Failure		failure;

	failure_say(&failure, "%s%s%s", PQgetvalue(result, row, 0),
				PQgetisnull(result, row, 2) ? "" : ": ", PQgetvalue(result, row, 2));
	if (has_name)
		output_failed(PQgetvalue(result, row, 1), &failure);
	else
		output_failed(options->table, &failure);
}

#define CHECK_CALL	"%s.securefile_check($1::pg_catalog.regclass, $2::pg_catalog.name)"

/*
 * Call securefile_check(), of a distributed table for all its shards, and show the findings;
 * false if the call itself failed.
 */
static bool
check_column(Session *session, const Options *options, Failure *failure)
{
	const Target *target = session->target;
	const char *const values[] = {target->table, target->plain_column};

	/*
	 * A partitioned table has no ctid of its own: the finding names the
	 * partition. For a view the call fails.
	 */
	char	   *sql = target->distributed
		? text_make("SELECT c.finding, NULL,"
					" pg_catalog.concat_ws(': ', 'shard ' OPERATOR(pg_catalog.||) c.shard_name, c.detail)"
					" FROM %s.securefile_dist_check($1::pg_catalog.regclass, $2::pg_catalog.name) c",
					target->dist_schema)
		: !target->has_rows
		? text_make("SELECT c.finding, NULL, c.detail FROM " CHECK_CALL " c", target->extension)
		: text_make("SELECT c.finding, t.name, c.detail FROM " CHECK_CALL " c"
					" LEFT JOIN (SELECT ctid, %s FROM ONLY %s) t (place, name)"
					" ON t.place OPERATOR(pg_catalog.=) c.ctid",
					target->extension, target->key_text, target->table);
	PGresult   *result = target->distributed && target->dist_schema == NULL
		? NULL : session_rows(session, failure, 3, sql, 2, values);

	free(sql);
	if (target->distributed && target->dist_schema == NULL)
		failure_say(failure, "%s is a distributed table, whose shards cannot be checked from here\n"
					"Hint: CREATE EXTENSION securefile_citus; or name the files.", target->table);
	for (int i = 0; i < PQntuples(result); i++)
		show_finding(options, result, i);
	if (result != NULL && PQntuples(result) == 0 && !options->quiet && !options->json)
		output_sound(target->column, target->table);
	PQclear(result);
	return result != NULL;
}

/* ---- files ---- */

/* Compare a stored file with the file of that path in the tree; false if they differ. */
static bool
compare_one(Session *session, const Verify *verify, const char *name, const char *path,
			int64_t stored_length, Failure *failure)
{
	Stored		stored = {.row = true, .file = true, .length = stored_length};
	int64_t		length;
	bool		same = false;
	int			fd;

	if (!local_check_path(path, failure))
		return false;
	fd = local_open_below(verify->top, path, verify->options->links == LINKS_FOLLOW, &length,
						  failure);
	if (fd < 0)
		return false;
	if (transfer_same(session, name, &stored, fd, length, &same, failure) && !same)
	{
		if (length != stored_length)
			failure_say(failure, "differs: %lld bytes are stored, the file has %lld",
						(long long) stored_length, (long long) length);
		else
			failure_say(failure, "differs");
	}
	close(fd);
	return same;
}

/* Compare the target of a stored link with that of the link of that path in the tree. */
static bool
compare_link(const Verify *verify, const char *path, const char *target, Failure *failure)
{
	const char *last;
	char	   *local = NULL;
	bool		same;
	int			directory = local_check_path(path, failure) ?
		local_open_parent(verify->top, path, false, &last, failure) : -1;

	if (directory < 0)
		return false;
	local = local_read_link(directory, last, failure);
	if (local == NULL && errno == EINVAL)
		failure_say(failure, "differs: a link is stored, and this is none");
	close(directory);
	same = local != NULL && strcmp(local, target) == 0;
	if (local != NULL && !same)
		failure_say(failure, "differs: the links have other targets");
	free(local);
	return same;
}

/* Compare what is stored under a name with the tree. */
static bool
compare_stored(Session *session, const Verify *verify, const Found *found, const Stored *stored,
			   Failure *failure)
{
	size_t		skip = strlen(verify->options->prefix);
	const char *link = found->meta.link;
	Meta		meta = meta_unknown;
	bool		same;

	if (strncmp(found->path, verify->options->prefix, skip) != 0)
		return failure_say(failure, "the name does not begin with the prefix");
	/* of files that the user has named only the name is known */
	if (found->length < 0)
	{
		if (!meta_look(session, found->path, &meta, failure))
			return false;
		link = meta.link;
	}
	same = link != NULL ? compare_link(verify, found->path + skip, link, failure) :
		compare_one(session, verify, found->path, found->path + skip, stored->length, failure);
	free(meta.link);
	return same;
}

/* A PoolWork: reads one stored file, or compares it with the tree. */
static bool
verify_one(Session *session, void *arg, size_t number)
{
	const Verify *verify = arg;
	const Found *found = &verify->list.files[number];
	Stored		stored = {.row = true, .file = true, .length = found->length};
	uint64_t	hash;
	Failure		failure;
	bool		good = found->length >= 0 || transfer_look(session, found->path, &stored, &failure);

	if (good && !stored.file)
		good = failure_say(&failure, "no file of that name");
	else if (good && verify->top < 0)
		good = transfer_hash(session, found->path, &hash, &failure);
	else if (good)
		good = compare_stored(session, verify, found, &stored, &failure);
	progress_bytes(stored.length);
	if (good)
		output_file(found->path, verify->top < 0 ? ACTION_SOUND : ACTION_SAME, stored.length);
	else
		output_failed(found->path, &failure);
	return good;
}

/* Tell the user which files of the tree are not stored. */
static void
find_missing(const Verify *verify)
{
	FoundList	local = {0};
	FoundList	missing;
	Sorted		stored = found_sort(&verify->list, strlen(verify->options->prefix));
	Failure		failure;

	failure_say(&failure, "is not stored");
	walk_tree(verify->top, verify->options, &local, output_passed);
	missing = found_less(&local, 0, &stored);
	for (size_t i = 0; i < missing.count; i++)
	{
		char	   *name = text_make("%s%s", verify->options->prefix, missing.files[i].path);

		output_failed(name, &failure);
		free(name);
	}
	free(stored.paths);
}

/* List the files to look at one by one: the named ones, or with --against all. */
static bool
make_list(Session *session, Verify *verify, Failure *failure)
{
	const Options *options = verify->options;

	for (int i = 0; i < options->nargs; i++)
		walk_add(&verify->list, options->args[i], -1, &meta_unknown);
	if (options->nargs > 0 || verify->top < 0)
		return true;
	if (!list_all(session, NULL, options, &verify->list, failure))
		return false;
	find_missing(verify);
	return true;
}

int
verb_verify(const Options *options)
{
	Verify		verify = {.options = options, .top = -1};
	Target		target;
	Session    *session;
	Failure		failure;
	bool		all;

	if (options->against != NULL &&
		(verify.top = local_open_top(options->against, &failure)) < 0)
	{
		output_message(&failure);
		return EXIT_SETUP;
	}
	session = session_first(options, &target);
	if (session == NULL)
		return EXIT_SETUP;
	names_say_prefix(options);
	if ((options->nargs == 0 && !check_column(session, options, &failure)) ||
		!make_list(session, &verify, &failure))
	{
		output_message(&failure);
		return EXIT_SETUP;
	}
	if (!options->quiet && verify.list.count > 0)
		progress_begin((int64_t) verify.list.count, options->nargs > 0 ? -1 : verify.list.bytes);
	all = pool_run(options, &target, session, verify.list.count, NULL, verify_one, &verify);
	session_end(session);
	if (options->nargs == 0 && options->against == NULL && !options->json)
		return output_status(EXIT_DONE);
	return output_end(all ? EXIT_DONE : EXIT_SETUP);
}
