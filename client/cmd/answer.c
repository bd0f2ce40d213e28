/*-------------------------------------------------------------------------
 *
 * answer.c
 *	  What a server answers is looked at before it is used.
 *
 * A server may be another one than the user thinks.  It knows what is stored in it anyway, but
 * it must not make the command read behind its answers, or write files that were not asked for.
 * Names become a part of statements, also of those that go to other servers (route.c): so they
 * must be names and nothing more.
 *
 *-------------------------------------------------------------------------
 */
#include <ctype.h>
#include <stdlib.h>
#include <string.h>

#include "answer.h"

bool
answer_has(const PGresult *result, int columns, Failure *failure)
{
	bool		good = PQnfields(result) == columns;

	for (int i = 0; good && i < columns; i++)
		good = PQfformat(result, i) == 0;
	return good || failure_say(failure, "the server sent an answer of another form");
}

bool
answer_is_copy(ExecStatusType status)
{
	return status == PGRES_COPY_IN || status == PGRES_COPY_OUT || status == PGRES_COPY_BOTH;
}

bool
answer_each_row(PGconn *conn, AnswerRow take, void *arg, Failure *failure)
{
	PGresult   *result;
	bool		good = true;

	while ((result = PQgetResult(conn)) != NULL)
	{
		ExecStatusType status = PQresultStatus(result);

		if (status == PGRES_SINGLE_TUPLE)
			good = good && take(arg, result, failure);
		else if (status != PGRES_TUPLES_OK && good)
			good = failure_sql(failure, conn, result);
		PQclear(result);
		/* libpq would give it again and again */
		if (answer_is_copy(status))
			return failure_say(failure, "the server began a COPY that was not asked for");
	}
	return good;
}

bool
answer_is_name(const char *text)
{
	bool		quoted = false;

	for (const char *c = text; *c != '\0'; c++)
	{
		if (*c == '"')
			quoted = !quoted;
		else if (!quoted && isascii(*c) && !isalnum(*c) && strchr("_$.", *c) == NULL)
			return false;
	}
	return *text != '\0' && !quoted;
}

bool
answer_is_operator(const char *text)
{
	const char *dot = strrchr(text, '.');
	char	   *schema = strndup(text, dot == NULL ? 0 : dot - text);
	bool		good;

	if (schema == NULL)
		abort();
	good = dot != NULL && answer_is_name(schema) && dot[1] != '\0' &&
		dot[1 + strspn(dot + 1, "+-*/<>=~!@#%^&|`?")] == '\0' &&
		strstr(dot, "--") == NULL && strstr(dot, "/*") == NULL;
	free(schema);
	return good;
}

char *
answer_name(const PGresult *result, int column, Failure *failure)
{
	const char *text = PQgetvalue(result, 0, column);
	char	   *name;

	if (!answer_is_name(text))
	{
		failure_say(failure, "the server sent a name that cannot be one");
		return NULL;
	}
	name = strdup(text);
	if (name == NULL)
		abort();
	return name;
}
