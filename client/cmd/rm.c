/*-------------------------------------------------------------------------
 *
 * rm.c
 *	  securefile rm [--dry-run] [--prefix TEXT] [--unfinished] [NAME|PATTERN...]
 *
 * An argument is the name of a file, or if there is none of that name, a pattern.  The files of
 * one pattern are deleted by one statement, all or none.
 *
 *-------------------------------------------------------------------------
 */
#include <stdlib.h>
#include <string.h>

#include "list.h"
#include "names.h"
#include "output.h"
#include "reserved.h"
#include "text.h"
#include "transfer.h"
#include "verbs.h"

/* Delete the row of a name, whose file has that many bytes. */
static bool
remove_row(Session *session, const Options *options, const char *name, int64_t length,
		   Failure *failure)
{
	const Target *target = session->target;
	const char *const values[] = {name};
	char	   *sql = text_make("DELETE FROM %s WHERE %s", target->table, target->key_is_name);
	PGresult   *result = NULL;
	bool		good = true;

	if (!options->dry_run)
	{
		result = session_query(session, failure, sql, 1, values);
		good = result != NULL;
		if (good && strcmp(PQcmdTuples(result), "0") == 0)
			good = failure_say(failure, "no file of that name");
	}
	PQclear(result);
	free(sql);
	if (good)
		output_file(name, ACTION_REMOVED, length);
	return good;
}

/* Delete all files that match a pattern (NULL: all) and begin with the prefix. */
static bool
remove_matching(Session *session, const Options *options, const char *pattern, Failure *failure)
{
	FoundList	list = {NULL, 0, 0, 0};

	if (!(options->dry_run ? list_names : list_delete) (session, pattern, options->prefix, &list,
														failure))
		return false;
	for (size_t i = 0; i < list.count; i++)
		output_file(list.files[i].path, ACTION_REMOVED, list.files[i].length);
	if (list.count == 0 && pattern == NULL)
		return failure_say(failure, "no name begins so");
	return list.count > 0 ||
		failure_say(failure, "no file of that name, and none that matches");
}

/* A NameWork: one argument, or the prefix without one. */
static bool
remove_one(Session *session, const Options *options, const char *name, Failure *failure)
{
	Stored		stored;

	if (options->has_prefix)
		return remove_matching(session, options, name == options->prefix ? NULL : name, failure);
	if (transfer_look(session, name, &stored, failure))
	{
		if (!stored.row && list_is_pattern(name))
			return remove_matching(session, options, name, failure);
		return stored.row ? remove_row(session, options, name, stored.length, failure) :
			failure_say(failure, "no file of that name");
	}
	/* 22: a pattern may be no value of the type that the names have */
	return list_is_pattern(name) && strncmp(failure->sqlstate, "22", 2) == 0 &&
		session_recover(session, failure) && remove_matching(session, options, name, failure);
}

/* A NameWork: what is stored of files that are not complete, and will have that name. */
static bool
remove_unfinished(Session *session, const Options *options, const char *name, Failure *failure)
{
	FoundList	list = {NULL, 0, 0, 0};
	bool		good = list_names(session, NULL, RESERVED_PREFIX, &list, failure);
	size_t		found = 0;

	for (size_t i = 0; good && i < list.count; i++)
	{
		int64_t		size;
		const char *final = reserved_final(list.files[i].path, &size);

		if (final == NULL ||
			strncmp(final, options->prefix, strlen(options->prefix)) != 0 ||
			(name != options->prefix && strcmp(final, name) != 0 && !list_matches(name, final)))
			continue;
		found++;
		good = remove_row(session, options, list.files[i].path, list.files[i].length, failure);
	}
	return good && (found > 0 || failure_say(failure, "nothing unfinished of that name"));
}

int
verb_rm(const Options *options)
{
	NameWork	work = options->unfinished ? remove_unfinished : remove_one;
	Options		all = *options;
	char	   *prefix = (char *) options->prefix;

	/* the prefix alone stands for an argument, and is what messages name */
	if (options->nargs == 0)
	{
		all.args = &prefix;
		all.nargs = 1;
	}
	return output_end(names_each(&all, work));
}
