/*-------------------------------------------------------------------------
 *
 * look.c
 *	  What the database has under many names at a time, asked for in one statement.
 *
 *-------------------------------------------------------------------------
 */
#include <stdlib.h>
#include <string.h>

#include "look.h"
#include "meta.h"
#include "text.h"

/* The number of the name, the length of its file (null: there is none), and what meta.h has. */
static char *
make_question(const Target *target)
{
	return text_make("SELECT " ASKED_NUMBER ", pg_catalog.length(%s), %s FROM"
					 " pg_catalog.unnest($1::%s[]) WITH ORDINALITY"
					 " securefile_asked (securefile_name, securefile_number) JOIN %s ON %s",
					 target->column, meta_expressions(target), target->key_type,
					 target->table, target->key_is_asked);
}

/* Take a row of the answer; false if it is about a name that was not asked for. */
static bool
take(const PGresult *result, int row, Stored *stored, size_t count)
{
	long long	number = strtoll(PQgetvalue(result, row, 0), NULL, 10);
	Stored	   *one;

	if (number < 1 || (size_t) number > count)
		return false;
	one = &stored[number - 1];
	one->many = one->row;
	one->row = true;
	one->file = !PQgetisnull(result, row, 1);
	one->length = strtoll(PQgetvalue(result, row, 1), NULL, 10);
	free(one->meta.link);
	one->meta = meta_take(result, row, 2);
	if (one->meta.link != NULL)
		one->meta.link = text_make("%s", one->meta.link);
	return one->length >= 0;
}

bool
look_many(Session *session, const char *prefix, const Found *const *files, size_t count,
		  Stored *stored, Failure *failure)
{
	char	   *array = NULL;
	size_t		length = 0;
	char	   *sql = make_question(session->target);
	const char *values[1];
	PGresult   *result;
	bool		good;

	for (size_t i = 0; i < count; i++)
	{
		array = text_add_name(array, &length, prefix, files[i]->path);
		stored[i] = (Stored) {.meta = meta_unknown};
	}
	values[0] = array;
	result = session_rows(session, failure, 2 + META_COLUMNS, sql, 1, values);
	good = result != NULL;
	for (int row = 0; good && row < PQntuples(result); row++)
		if (!take(result, row, stored, count))
			good = failure_say(failure, "the server sent an answer of another form");
	PQclear(result);
	free(sql);
	free(array);
	return good;
}

void
look_free(Stored *stored, size_t count)
{
	for (size_t i = 0; i < count; i++)
		free(stored[i].meta.link);
}
