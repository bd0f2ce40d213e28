/*-------------------------------------------------------------------------
 *
 * sync.c
 *	  securefile sync DIR --to-table | --to-tree
 *
 * Makes the table equal to a tree, or a tree equal to the table.  Files are copied as import and
 * export copy them.  With --delete, what the other side has not is deleted, and only when all
 * else has gone well: a file that could not be read must not be taken for one that is missing.
 *
 * The side that is changed is listed first.  So what other programs add to both sides meanwhile
 * is not taken for surplus.
 *
 *-------------------------------------------------------------------------
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "found.h"
#include "list.h"
#include "names.h"
#include "output.h"
#include "surplus.h"
#include "tree.h"
#include "verbs.h"

/* Why nothing may be deleted, though --force would help; false if it may. */
static bool
is_refused(const Options *options, size_t source, size_t surplus, Failure *failure)
{
	const char *side = options->to_table ? "tree" : "table";

	if (!options->force && output_failures() > 0)
		failure_say(failure, "nothing is deleted, since not all files could be copied\n"
					"Hint: With --force, what the %s has not is deleted nevertheless.", side);
	else if (!options->force && source == 0)
		failure_say(failure, "nothing is deleted, since the %s has no files%s\n"
					"Hint: With --force, %zu file%s deleted.", side,
					!options->to_table && *options->prefix != '\0' ? " with that prefix" : "",
					surplus, surplus == 1 ? " is" : "s are");
	else if (options->max_delete >= 0 && surplus > (size_t) options->max_delete)
		failure_say(failure, "nothing is deleted: it would be %zu file%s, and --max-delete is %lld",
					surplus, surplus == 1 ? "" : "s", (long long) options->max_delete);
	else
		return false;
	return true;
}

/*
 * May that many files be deleted?  all: no file was left for want of a connection.  Where no
 * file can be stored, or no connection is left, not even with --force.
 */
static bool
may_delete(const Options *options, bool all, size_t source, size_t surplus)
{
	Failure		failure;

	if (!all || output_stopped())
		failure_say(&failure, "nothing is deleted, since not all files could be copied");
	else if (!is_refused(options, source, surplus, &failure))
		return true;
	output_message(&failure);
	return false;
}

/* The exit status, after the summary.  Not everything was tried if deletions were refused. */
static int
end(bool all, bool refused)
{
	bool		tried = all && !output_stopped() && (!refused || output_failures() > 0);

	return output_end(tried ? EXIT_DONE : EXIT_SETUP);
}

/* ---- the table becomes equal to the tree ---- */

/* Open the tree, which may be missing if the user means it: -1. */
static bool
open_source(const Options *options, int *top, Failure *failure)
{
	*top = local_open_top(options->args[0], failure);
	return *top >= 0 || (errno == ENOENT && options->delete && options->force);
}

/* The table failed, when rows were to be deleted. */
static void
say_not_deleted(const Options *options, const Failure *failure)
{
	Failure		whole = *failure;

	snprintf(whole.text, sizeof(whole.text), "could not delete rows: %.990s", failure->text);
	output_failed(options->table, &whole);
}

/* Delete the rows of files that the tree has not; false if that was refused. */
static bool
delete_rows(Session *session, const Options *options, int top, bool all,
			const FoundList *stored, const FoundList *tree)
{
	FoundList	surplus = {0};
	Failure		failure;

	if (session->lost)
		return false;
	if (!surplus_rows(session, options, stored, tree, &surplus, &failure))
		say_not_deleted(options, &failure);
	else if (surplus.count > 0 && !may_delete(options, all, tree->count, surplus.count))
		return false;
	else if (surplus.count > 0 &&
			 !surplus_delete_rows(session, options, top, &surplus, &failure))
		say_not_deleted(options, &failure);
	return true;
}

static int
sync_to_table(const Options *options)
{
	FoundList	stored = {0};
	FoundList	tree = {0};
	Target		target;
	Session    *session;
	Failure		failure;
	bool		all;
	bool		refused;
	int			top;

	if (!open_source(options, &top, &failure))
	{
		output_message(&failure);
		return EXIT_SETUP;
	}
	session = session_first(options, &target);
	if (session == NULL)
		return EXIT_SETUP;
	if (!list_all(session, NULL, options, &stored, &failure))
	{
		output_message(&failure);
		return EXIT_SETUP;
	}
	names_say_prefix(options);
	if (top >= 0)
		walk_tree(top, options, &tree, output_passed);
	all = tree_import(session, options, top, &tree);
	refused = options->delete && !delete_rows(session, options, top, all, &stored, &tree);
	session_end(session);
	return end(all, refused);
}

/* ---- the tree becomes equal to the table ---- */

/* Is that path a directory of a file that is to be deleted, or does one stand in its way? */
static bool
is_blocked(const char *path, const Sorted *surplus)
{
	bool		blocked = found_has_below(surplus, path);

	for (const char *slash = strchr(path, '/'); slash != NULL && !blocked;
		 slash = strchr(slash + 1, '/'))
	{
		char	   *directory = strndup(path, slash - path);

		if (directory == NULL)
			abort();
		blocked = found_has(surplus, directory);
		free(directory);
	}
	return blocked;
}

/* Take those files out of the list that can be written only when others are deleted. */
static FoundList
take_blocked(const Options *options, FoundList *list, const FoundList *surplus)
{
	FoundList	blocked = {0};
	Sorted		sorted = found_sort(surplus, 0);
	size_t		kept = 0;

	for (size_t i = 0; i < list->count; i++)
	{
		const Found *found = &list->files[i];

		if (is_blocked(found->path + strlen(options->prefix), &sorted))
		{
			walk_add(&blocked, found->path, found->length, &found->meta);
			list->bytes -= found->length;
		}
		else
			list->files[kept++] = *found;
	}
	list->count = kept;
	free(sorted.paths);
	return blocked;
}

/* Write the files for which others had to be deleted. */
static bool
write_blocked(Session *session, const Options *options, int top, StoredTree *stored)
{
	if (!options->dry_run)
		return tree_export(session, options, top, stored);
	for (size_t i = 0; i < stored->list.count; i++)
		output_file(stored->list.files[i].path, ACTION_GOT, stored->list.files[i].length);
	return true;
}

/*
 * Copy, delete, and copy what could not be copied before.  False if files were left for want of a
 * connection; *refused: files that the table has not were not deleted.
 */
static bool
write_tree(Session *session, const Options *options, int top, StoredTree *stored,
		   const FoundList *tree, bool *refused)
{
	size_t		count = stored->list.count;
	Sorted		names = found_sort(&stored->list, strlen(options->prefix));
	FoundList	surplus = found_less(tree, 0, &names);
	StoredTree	late = {.snapshot = stored->snapshot};
	bool		all;

	free(names.paths);
	*refused = false;
	if (!options->delete || surplus.count == 0)
		return tree_export(session, options, top, stored);
	late.list = take_blocked(options, &stored->list, &surplus);
	all = tree_export(session, options, top, stored);
	*refused = !may_delete(options, all, count, surplus.count);
	if (!*refused)
		surplus_delete_files(options, top, &surplus);
	if (!all || late.list.count == 0)
		return all;
	/* without the deletions each of these fails, and says what is in its way */
	return (*refused ? tree_export : write_blocked) (session, options, top, &late);
}

static int
sync_to_tree(const Options *options)
{
	StoredTree	stored;
	FoundList	tree = {0};
	Target		target;
	Session    *session;
	Failure		failure;
	bool		all;
	bool		refused;
	int			top;

	if (!tree_open_top(options, options->args[0], &top, &failure))
	{
		output_message(&failure);
		return EXIT_SETUP;
	}
	session = session_first(options, &target);
	if (session == NULL)
		return EXIT_SETUP;
	if (top >= 0)
		walk_tree(top, options, &tree, output_passed);
	if (!tree_list(session, options, NULL, &stored, &failure))
	{
		output_message(&failure);
		return EXIT_SETUP;
	}
	all = write_tree(session, options, top, &stored, &tree, &refused);
	session_end(session);
	return end(all, refused);
}

int
verb_sync(const Options *options)
{
	return options->to_table ? sync_to_table(options) : sync_to_tree(options);
}
