/*-------------------------------------------------------------------------
 *
 * mv.c
 *	  securefile mv OLD NEW, securefile mv --prefix OLD NEW, and cp likewise
 *
 * Both work on the server, in one transaction: the bytes of no file come here.  All statements of
 * the transaction see one snapshot, so that what is looked for is what is changed; a change by
 * another session meanwhile ends it with an error.
 *
 *-------------------------------------------------------------------------
 */
#include <stdlib.h>
#include <string.h>

#include "answer.h"
#include "found.h"
#include "list.h"
#include "names.h"
#include "output.h"
#include "reserved.h"
#include "text.h"
#include "transfer.h"
#include "verbs.h"

#define BEGIN_MOVING	"BEGIN ISOLATION LEVEL REPEATABLE READ"

typedef struct Move
{
	const Options *options;
	bool		copies;
	const char *old;			/* a name, or a prefix */
	char	   *new;
	FoundList	from;			/* names that there are */
	FoundList	to;				/* the same files with their new names */
} Move;

/* A directory as the new name of one file stands for the last part of the old one in it. */
static char *
complete_name(const Move *move, const char *new)
{
	const char *slash = strrchr(move->old, '/');
	size_t		length = strlen(new);

	if (move->options->has_prefix || length == 0 || new[length - 1] != '/')
		return text_make("%s", new);
	return text_make("%s%s", new, slash == NULL ? move->old : slash + 1);
}

/* List the files that are moved, and make their new names, which export has to accept. */
static bool
find_files(Session *session, Move *move, Failure *failure)
{
	Stored		stored;
	bool		good = true;

	if (move->options->has_prefix)
	{
		if (!list_names(session, NULL, move->old, &move->from, failure))
			return false;
	}
	else if (!transfer_look(session, move->old, &stored, failure))
		return false;
	else if (stored.file)
		walk_add(&move->from, move->old, stored.length, &meta_unknown);
	if (move->from.count == 0)
		return failure_say(failure, move->options->has_prefix ? "no name begins so" :
						   "no file of that name");
	for (size_t i = 0; i < move->from.count; i++)
	{
		const Found *found = &move->from.files[i];
		char	   *name = text_make("%s%s", move->new, found->path + strlen(move->old));

		good = good && reserved_refuse(name, failure) &&
			local_check_name(name, session->target->names_are_utf8, failure);
		walk_add(&move->to, name, found->length, &meta_unknown);
		free(name);
	}
	return good;
}

/* Add the new names that there are already to a list, but those that move away themselves. */
static bool
find_taken(Session *session, Move *move, FoundList *taken, Failure *failure)
{
	FoundList	there = {NULL, 0, 0, 0};
	Sorted		taken_names;
	Sorted		leaving;
	Stored		stored;

	if (!move->options->has_prefix)
	{
		if (!transfer_look(session, move->new, &stored, failure))
			return false;
		if (stored.row)
			walk_add(taken, move->new, stored.length, &meta_unknown);
		return true;
	}
	if (!list_names(session, NULL, move->new, &there, failure))
		return false;
	taken_names = found_sort(&there, 0);
	leaving = found_sort(&move->from, 0);
	for (size_t i = 0; i < move->to.count; i++)
	{
		const char *name = move->to.files[i].path;

		if (found_has(&taken_names, name) && (move->copies || !found_has(&leaving, name)))
			walk_add(taken, name, 0, &meta_unknown);
	}
	free(taken_names.paths);
	free(leaving.paths);
	return true;
}

/* Refuse new names that are taken, or delete their rows. */
static bool
make_room(Session *session, Move *move, Failure *failure)
{
	const Target *target = session->target;
	FoundList	taken = {NULL, 0, 0, 0};
	char	   *sql;
	bool		good = find_taken(session, move, &taken, failure);

	if (good && taken.count > 0 && !move->options->replace)
		return failure_say(failure, "a file of the name \"%s\" is stored already\n"
						   "Hint: --replace replaces it.", taken.files[0].path);
	sql = text_make("DELETE FROM %s WHERE %s", target->table, target->key_is_name);
	for (size_t i = 0; good && i < taken.count && !move->options->dry_run; i++)
	{
		const char *const values[] = {taken.files[i].path};
		PGresult   *result = session_query(session, failure, sql, 1, values);

		good = result != NULL;
		PQclear(result);
	}
	free(sql);
	return good;
}

/* ---- what changes the rows ---- */

/*
 * The columns that a copy takes over, as the beginning of a list: all but the name, those that the
 * server computes, and those of the primary key that have a default.  The caller frees it; NULL
 * after a failure.
 */
static char *
find_columns(Session *session, Failure *failure)
{
	const Target *target = session->target;
	const char *const values[] = {target->table};
	PGresult   *result = session_rows(session, failure, 1,
									  "SELECT pg_catalog.quote_ident(a.attname)"
									  " FROM pg_catalog.pg_attribute a"
									  " LEFT JOIN pg_catalog.pg_index i"
									  "  ON i.indrelid OPERATOR(pg_catalog.=) a.attrelid AND i.indisprimary"
									  "  AND a.attnum OPERATOR(pg_catalog.=)"
									  "   ANY ((i.indkey::pg_catalog.int2[])[0:i.indnkeyatts OPERATOR(pg_catalog.-) 1])"
									  " WHERE a.attrelid OPERATOR(pg_catalog.=) $1::pg_catalog.regclass"
									  " AND a.attnum OPERATOR(pg_catalog.>) 0 AND NOT a.attisdropped"
									  " AND a.attgenerated OPERATOR(pg_catalog.=) '' AND a.attidentity OPERATOR(pg_catalog.=) ''"
									  " AND NOT (i.indrelid IS NOT NULL AND a.atthasdef)"
									  " ORDER BY a.attnum", 1, values);
	char	   *columns = result == NULL ? NULL : text_make("%s", "");

	for (int i = 0; columns != NULL && i < PQntuples(result); i++)
	{
		const char *name = PQgetvalue(result, i, 0);
		bool		is_name = answer_is_name(name);
		char	   *more;

		if (is_name && strcmp(name, target->key) == 0)
			continue;
		more = is_name ? text_make("%s%s, ", columns, name) : NULL;
		free(columns);
		columns = more;
		if (!is_name)
			failure_say(failure, "the server sent a name that cannot be one");
	}
	PQclear(result);
	return columns;
}

/*
 * The new name and the condition of the row, as expressions.  $1 is the old name or prefix, $2 the
 * new one.
 */
static void
describe(const Move *move, const Target *target, char **name, char **condition)
{
	char	   *begins;

	if (!move->options->has_prefix)
	{
		/* an UPDATE makes the parameter one of the type of the column */
		*name = move->copies ? text_make("$2::%s", target->key_type) : text_make("$2");
		*condition = text_make("%s AND %s IS NOT NULL", target->key_is_name, target->column);
		return;
	}
	*name = text_make("pg_catalog.concat($2::pg_catalog.text, pg_catalog.substr(%s,"
					  " pg_catalog.length($1::pg_catalog.text) OPERATOR(pg_catalog.+) 1))",
					  target->key_text);
	begins = list_begins(target->key_text, "$1", move->old);
	*condition = text_make("%s AND %s IS NOT NULL", begins, target->column);
	free(begins);
}

/* Give the rows their new names, or make copies of them. */
static bool
change(Session *session, const Move *move, Failure *failure)
{
	const Target *target = session->target;
	const char *const values[] = {move->old, move->new};
	char	   *columns = move->copies ? find_columns(session, failure) : NULL;
	char	   *name;
	char	   *condition;
	char	   *sql;
	PGresult   *result;
	bool		good;

	if (move->copies && columns == NULL)
		return false;
	describe(move, target, &name, &condition);
	sql = move->copies ?
		text_make("INSERT INTO %s (%s%s) SELECT %s%s FROM %s WHERE %s", target->table, columns,
				  target->key, columns, name, target->table, condition) :
		text_make("UPDATE %s SET %s = %s WHERE %s", target->table, target->key, name, condition);
	result = session_query(session, failure, sql, 2, values);
	good = result != NULL;
	if (good && strtoull(PQcmdTuples(result), NULL, 10) != move->from.count)
		good = failure_say(failure, "the statement changed %s of %zu rows\n"
						   "Hint: A policy, rule or trigger of the table may be the reason.",
						   PQcmdTuples(result), move->from.count);
	PQclear(result);
	free(sql);
	free(condition);
	free(name);
	free(columns);
	return good;
}

/* ---- the verbs ---- */

static bool
check_names(const Session *session, const Move *move, Failure *failure)
{
	const Target *target = session->target;

	if (!reserved_refuse(move->old, failure) || !reserved_refuse(move->new, failure))
		return false;
	if (strcmp(move->old, move->new) == 0)
		return failure_say(failure, "the new name is the old one");
	if (!move->copies && target->dist_key != NULL && strcmp(target->dist_key, target->key) == 0)
		return failure_say(failure, "%s is the distribution column of %s, which cannot be changed\n"
						   "Hint: \"securefile cp\", and then \"securefile rm\".",
						   target->key, target->table);
	return true;
}

/* All in one transaction, which a dry run rolls back. */
static bool
move_all(Session *session, Move *move, Failure *failure)
{
	return check_names(session, move, failure) &&
		session_do(session, failure, BEGIN_MOVING) &&
		find_files(session, move, failure) &&
		make_room(session, move, failure) &&
		(move->options->dry_run || change(session, move, failure)) &&
		session_do(session, failure, move->options->dry_run ? "ROLLBACK" : "COMMIT");
}

static int
move_files(const Options *options, bool copies)
{
	Move		move = {.options = options, .copies = copies};
	Target		target;
	Session    *session = session_first(options, &target);
	Failure		failure;
	bool		moved;
	int			status;

	if (session == NULL)
		return EXIT_SETUP;
	move.old = options->has_prefix ? options->prefix : options->args[0];
	move.new = complete_name(&move, options->args[options->nargs - 1]);
	moved = move_all(session, &move, &failure);
	if (!moved)
		output_failed(move.old, &failure);
	else
		for (size_t i = 0; i < move.to.count; i++)
			output_file(move.to.files[i].path, copies ? ACTION_COPIED : ACTION_MOVED,
						move.to.files[i].length);
	status = session_leave(session, moved);
	free(move.new);
	return output_end(status);
}

int
verb_mv(const Options *options)
{
	return move_files(options, false);
}

int
verb_cp(const Options *options)
{
	return move_files(options, true);
}
