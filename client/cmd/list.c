/*-------------------------------------------------------------------------
 *
 * list.c
 *	  Names, lengths and stored bytes of the stored files, a row at a time.
 *
 *-------------------------------------------------------------------------
 */
#include <ctype.h>
#include <stdlib.h>
#include <string.h>

#include "answer.h"
#include "filter.h"
#include "list.h"
#include "meta.h"
#include "reserved.h"
#include "storage.h"
#include "text.h"
#include "utf8.h"

char *
list_begins(const char *name, const char *parameter, const char *prefix)
{
	char	   *begins = text_make("pg_catalog.starts_with(%s COLLATE pg_catalog.\"C\","
								   " %s::pg_catalog.text)", name, parameter);
	char	   *complete;

	if (reserved_is(prefix))
		return begins;
	complete = text_make("%s AND NOT pg_catalog.starts_with(%s COLLATE pg_catalog.\"C\", '%s')",
						 begins, name, RESERVED_PREFIX);
	free(begins);
	return complete;
}

/*
 * The condition that a name, an expression, matches the pattern $1 of LIKE (null: any does) and
 * begins with $2, which is the prefix.  COLLATE: a pattern means the same whatever the collation
 * of the column is.
 */
static char *
condition_of(const char *name, const char *prefix)
{
	char	   *begins = list_begins(name, "$2", prefix);
	char	   *condition = text_make("($1::pg_catalog.text IS NULL OR"
									  " %s COLLATE pg_catalog.\"C\" OPERATOR(pg_catalog.~~) $1::pg_catalog.text)"
									  " AND %s", name, begins);

	free(begins);
	return condition;
}

bool
list_is_pattern(const char *text)
{
	return strpbrk(text, "*?") != NULL;
}

char *
list_like(const char *pattern)
{
	char	   *like = malloc(strlen(pattern) * 2 + 3);
	char	   *out = like;

	if (like == NULL)
		abort();
	for (; *pattern; pattern++)
	{
		if (*pattern == '*' || *pattern == '?')
		{
			*out++ = *pattern == '*' ? '%' : '_';
			continue;
		}
		if (*pattern == '\\' && pattern[1] != '\0')
			pattern++;
		if (*pattern == '%' || *pattern == '_' || *pattern == '\\')
			*out++ = '\\';
		*out++ = *pattern;
	}
	*out = '\0';
	return like;
}

/* What was asked for. */
typedef struct Asked
{
	const char *pattern;
	const char *prefix;
	bool		names_are_utf8;
	ListEach	each;
	void	   *arg;
} Asked;

/* The bytes of the character that begins there; 1 if none does. */
static int
bytes_of_character(const char *text)
{
	int			length = utf8_length((const unsigned char *) text);

	return length > 0 ? length : 1;
}

/* A star is tried with as little as possible, and with more when the rest does not match. */
bool
list_matches(const char *pattern, const char *name)
{
	const char *star = NULL;
	const char *behind = NULL;

	while (*name != '\0')
	{
		bool		quoted = pattern[0] == '\\' && pattern[1] != '\0';

		if (!quoted && *pattern == '*')
		{
			star = ++pattern;
			behind = name;
		}
		else if (!quoted && *pattern == '?')
		{
			pattern++;
			name += bytes_of_character(name);
		}
		else if (pattern[quoted] == *name)
		{
			pattern += quoted + 1;
			name++;
		}
		else if (star != NULL)
		{
			pattern = star;
			name = ++behind;
		}
		else
			return false;
	}
	while (*pattern == '*')
		pattern++;
	return *pattern == '\0';
}

/*
 * The server has compared the name already, but it may become that of a file here.  A question
 * mark stands for a character, whose bytes are those of the database.
 */
static bool
is_comparable(const Asked *asked, const char *name)
{
	if (asked->pattern == NULL || !asked->names_are_utf8)
		return false;
	for (const char *c = name; *c != '\0'; c++)
		if (!isascii(*c))
			return strchr(asked->pattern, '?') == NULL;
	return true;
}

/* A row of the answer, if it is one that was asked for. */
static bool
take_row(void *arg, const PGresult *row, Failure *failure)
{
	const Asked *asked = arg;
	Listed		file;

	if (!answer_has(row, 4 + META_COLUMNS, failure))
		return false;
	file = (Listed)
	{
		PQgetvalue(row, 0, 0), strtoll(PQgetvalue(row, 0, 1), NULL, 10), storage_field(row, 2),
			PQgetvalue(row, 0, 3), meta_take(row, 0, 4)
	};
	if (file.length < 0 || strspn(file.sha256, "0123456789abcdef") != strlen(file.sha256) ||
		strncmp(file.name, asked->prefix, strlen(asked->prefix)) != 0 ||
		reserved_is(file.name) != reserved_is(asked->prefix))
		return failure_say(failure, "the server listed a file that was not asked for");
	if (is_comparable(asked, file.name) && !list_matches(asked->pattern, file.name))
		return failure_say(failure, "the server listed a file that was not asked for");
	asked->each(asked->arg, &file);
	return true;
}

/* Execute a statement whose rows are names, lengths, stored bytes and hashes, and free it. */
static bool
execute(Session *session, char *sql, const Asked *asked, Failure *failure)
{
	char	   *like = asked->pattern != NULL ? list_like(asked->pattern) : NULL;
	const char *const values[] = {like, asked->prefix};
	bool		sent;

	session_let_go(session);
	sent = PQsendQueryParams(session->conn, sql, 2, NULL, values, NULL, NULL, 0) &&
		PQsetSingleRowMode(session->conn);
	free(sql);
	free(like);
	if (!sent)
		return failure_sql(failure, session->conn, NULL);
	return answer_each_row(session->conn, take_row, (void *) asked, failure);
}

bool
list_each(Session *session, const char *pattern, const char *prefix, bool stored,
		  bool hash, ListEach each, void *arg, Failure *failure)
{
	const Target *target = session->target;
	Asked		asked = {pattern, prefix, target->names_are_utf8, each, arg};
	char	   *storage = stored ? text_make("(%s).stored_bytes", target->storage) : NULL;
	char	   *condition = condition_of("f.name", prefix);

	/*
	 * ORDER BY cannot name an operator: it takes the one of the default
	 * operator class of text, and only a superuser can make operator classes.
	 */
	char	   *sql = text_make("SELECT f.name, f.length, f.stored, f.hash, f.mtime, f.mode, f.link"
								" FROM ("
								"SELECT %s, pg_catalog.length(%s), %s, %s, %s FROM %s WHERE %s IS NOT NULL"
								") f (name, length, stored, hash, mtime, mode, link)"
								" WHERE %s ORDER BY f.name",
								target->key_text, target->column, stored ? storage : "NULL",
								hash ? target->digest : "NULL", meta_expressions(target),
								target->table, target->column, condition);

	free(condition);
	free(storage);
	return execute(session, sql, &asked, failure);
}

/* A ListEach. */
static void
add_any(void *arg, const Listed *file)
{
	walk_add(arg, file->name, file->length, &file->meta);
}

bool
list_names(Session *session, const char *pattern, const char *prefix, FoundList *list,
		   Failure *failure)
{
	return list_each(session, pattern, prefix, false, false, add_any, list, failure);
}

/* Where list_all() puts the files. */
typedef struct Taken
{
	const Options *options;
	FoundList  *list;
} Taken;

/* A ListEach. */
static void
add_to_list(void *arg, const Listed *file)
{
	const Taken *taken = arg;
	const char *path = file->name + strlen(taken->options->prefix);

	if (!filter_excludes_file(taken->options->filter, path))
		walk_add(taken->list, file->name, file->length, &file->meta);
}

bool
list_all(Session *session, const char *pattern, const Options *options,
		 FoundList *list, Failure *failure)
{
	Taken		taken = {options, list};

	return list_each(session, pattern, options->prefix, false, false, add_to_list, &taken,
					 failure);
}

bool
list_delete(Session *session, const char *pattern, const char *prefix, FoundList *list,
			Failure *failure)
{
	const Target *target = session->target;
	Asked		asked = {pattern, prefix, target->names_are_utf8, add_any, list};
	char	   *condition = condition_of(target->key_text, prefix);
	char	   *sql = text_make("DELETE FROM %s WHERE %s IS NOT NULL AND %s"
								" RETURNING %s, pg_catalog.length(%s), NULL, NULL, %s",
								target->table, target->column, condition, target->key_text,
								target->column, meta_expressions(target));

	free(condition);
	return execute(session, sql, &asked, failure);
}
