/*-------------------------------------------------------------------------
 *
 * surplus_rows.c
 *	  Stored files that a tree has not, and deleting their rows.
 *
 *-------------------------------------------------------------------------
 */
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "found.h"
#include "output.h"
#include "surplus.h"
#include "text.h"

/* The names that the table takes for equal to those of the tree that are not stored as they are. */
static bool
find_equal(Session *session, const Options *options, const FoundList *stored,
		   const FoundList *tree, FoundList *equal, Failure *failure)
{
	const Target *target = session->target;
	Sorted		sorted = found_sort(stored, strlen(options->prefix));
	FoundList	others = found_less(tree, 0, &sorted);
	char	   *array = NULL;
	size_t		length = 0;
	char	   *sql;
	const char *values[1];
	PGresult   *result;

	free(sorted.paths);
	if (others.count == 0)
		return true;
	for (size_t i = 0; i < others.count; i++)
		array = text_add_name(array, &length, options->prefix, others.files[i].path);
	sql = text_make("SELECT %s FROM %s WHERE %s", target->key_text, target->table,
					target->key_is_any);
	values[0] = array;
	result = session_rows(session, failure, 1, sql, 1, values);
	for (int i = 0; i < PQntuples(result); i++)
		walk_add(equal, PQgetvalue(result, i, 0), 0, &meta_unknown);
	free(sql);
	free(array);
	PQclear(result);
	return result != NULL;
}

/* A name that several rows have stands for none of them. */
static bool
check_unique(const FoundList *surplus, Failure *failure)
{
	Sorted		sorted = found_sort(surplus, 0);
	bool		unique = true;

	for (size_t i = 1; i < sorted.count && unique; i++)
		if (strcmp(sorted.paths[i - 1], sorted.paths[i]) == 0)
			unique = failure_say(failure, "more than one row has the name \"%s\"",
								 sorted.paths[i]);
	free(sorted.paths);
	return unique;
}

bool
surplus_rows(Session *session, const Options *options, const FoundList *stored,
			 const FoundList *tree, FoundList *surplus, Failure *failure)
{
	Sorted		paths = found_sort(tree, 0);
	FoundList	missing = found_less(stored, strlen(options->prefix), &paths);
	FoundList	equal = {0};
	Sorted		kept;

	free(paths.paths);
	if (missing.count > 0 && !find_equal(session, options, stored, tree, &equal, failure))
		return false;
	kept = found_sort(&equal, 0);
	*surplus = found_less(&missing, 0, &kept);
	free(kept.paths);
	return check_unique(surplus, failure);
}

/*
 * Has a file of that path come to the tree, or a link, if links are kept?  top -1: there is no
 * tree.
 */
static bool
has_come(const Options *options, int top, const char *path)
{
	struct stat st;
	const char *last;
	Failure		ignored;
	int			directory = top < 0 || !local_check_path(path, &ignored) ? -1 :
		local_open_parent(top, path, false, &last, &ignored);
	bool		come = directory >= 0 && fstatat(directory, last, &st, AT_SYMLINK_NOFOLLOW) == 0 &&
		(S_ISREG(st.st_mode) || (S_ISLNK(st.st_mode) && options->links == LINKS_KEEP));

	if (directory >= 0)
		close(directory);
	return come;
}

/* Delete the rows of these names, and add the names to a list. */
static bool
delete_names(Session *session, const char *names, FoundList *deleted, Failure *failure)
{
	const Target *target = session->target;
	const char *const values[] = {names};
	char	   *sql = text_make("DELETE FROM %s WHERE (%s) COLLATE pg_catalog.\"C\""
								" OPERATOR(pg_catalog.=) ANY ($1::pg_catalog.text[]) RETURNING %s",
								target->table, target->key_text, target->key_text);
	PGresult   *result = session_rows(session, failure, 1, sql, 1, values);

	for (int i = 0; i < PQntuples(result); i++)
		walk_add(deleted, PQgetvalue(result, i, 0), 0, &meta_unknown);
	free(sql);
	PQclear(result);
	return result != NULL;
}

/*
 * Delete the rows of a list of files, and tell the user.  The COMMIT is a statement of its own: a
 * server goes on with a statement whose client has been killed.
 */
static bool
delete_rows(Session *session, const FoundList *files, Failure *failure)
{
	FoundList	deleted = {0};
	char	   *names = NULL;
	size_t		length = 0;
	Sorted		sorted;
	bool		good;

	for (size_t i = 0; i < files->count; i++)
		names = text_add_name(names, &length, "", files->files[i].path);
	good = session_do(session, failure, "BEGIN") &&
		delete_names(session, names, &deleted, failure) &&
		session_do(session, failure, "COMMIT");
	free(names);
	if (!good)
		return false;
	sorted = found_sort(&deleted, 0);
	for (size_t i = 0; i < files->count; i++)
		if (found_has(&sorted, files->files[i].path))
			output_file(files->files[i].path, ACTION_REMOVED, files->files[i].length);
	free(sorted.paths);
	return true;
}

bool
surplus_delete_rows(Session *session, const Options *options, int top, const FoundList *surplus,
					Failure *failure)
{
	size_t		skip = strlen(options->prefix);
	FoundList	gone = {0};

	for (size_t i = 0; i < surplus->count; i++)
		if (!has_come(options, top, surplus->files[i].path + skip))
			walk_add(&gone, surplus->files[i].path, surplus->files[i].length, &meta_unknown);
	if (gone.count == 0)
		return true;
	if (!options->dry_run)
		return delete_rows(session, &gone, failure);
	for (size_t i = 0; i < gone.count; i++)
		output_file(gone.files[i].path, ACTION_REMOVED, gone.files[i].length);
	return true;
}
