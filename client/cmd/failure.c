/*-------------------------------------------------------------------------
 *
 * failure.c
 *	  Errors of the system, the server and the library in one form.
 *
 *-------------------------------------------------------------------------
 */
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "failure.h"

bool
failure_say(Failure *failure, const char *format, ...)
{
	va_list		args;

	failure->sqlstate[0] = '\0';
	failure->systemic = false;
	failure->vanished = false;
	va_start(args, format);
	vsnprintf(failure->text, sizeof(failure->text), format, args);
	va_end(args);
	return false;
}

bool
failure_errno(Failure *failure, const char *what)
{
	int			saved = errno;

	failure_say(failure, "%s: %s", what, strerror(saved));
	failure->systemic = saved == ENOSPC || saved == EDQUOT || saved == EROFS;
	return false;
}

/* Set the text from the parts of an error; empty parts are left out. */
static void
set_text(Failure *failure, const char *message, const char *detail, const char *hint)
{
	size_t		length;

	failure_say(failure, "%s%s%s%s%s", message,
				detail != NULL && *detail ? "\nDetail: " : "", detail != NULL ? detail : "",
				hint != NULL && *hint ? "\nHint: " : "", hint != NULL ? hint : "");
	length = strlen(failure->text);
	while (length > 0 && failure->text[length - 1] == '\n')
		failure->text[--length] = '\0';
}

static void
set_sqlstate(Failure *failure, const char *sqlstate)
{
	snprintf(failure->sqlstate, sizeof(failure->sqlstate), "%s", sqlstate != NULL ? sqlstate : "");
}

/*
 * Would an error of the server come for each other file, too?  A policy of the table can refuse a
 * single row, with the SQLSTATE of missing privileges.
 */
static bool
is_systemic(const char *sqlstate, bool of_policy)
{
	static const char *const states[] = {
		"25006",				/* read_only_sql_transaction */
		"42703",				/* undefined_column */
		"42P01",				/* undefined_table */
		"53100"					/* disk_full */
	};

	if (strcmp(sqlstate, "42501") == 0)
		return !of_policy;
	for (size_t i = 0; i < sizeof(states) / sizeof(states[0]); i++)
		if (strcmp(sqlstate, states[i]) == 0)
			return true;
	return false;
}

bool
failure_sql(Failure *failure, PGconn *conn, const PGresult *result)
{
	const char *primary = PQresultErrorField(result, PG_DIAG_MESSAGE_PRIMARY);
	const char *function = PQresultErrorField(result, PG_DIAG_SOURCE_FUNCTION);

	if (primary == NULL)
	{
		/* an error of libpq, or of the connection */
		const char *message = PQresultErrorMessage(result);

		set_text(failure, *message ? message : PQerrorMessage(conn), NULL, NULL);
	}
	else
		set_text(failure, primary,
				 PQresultErrorField(result, PG_DIAG_MESSAGE_DETAIL),
				 PQresultErrorField(result, PG_DIAG_MESSAGE_HINT));
	set_sqlstate(failure, PQresultErrorField(result, PG_DIAG_SQLSTATE));
	failure->systemic = is_systemic(failure->sqlstate, function == NULL ||
									strncmp(function, "aclcheck", strlen("aclcheck")) != 0);
	return false;
}

bool
failure_pgsf(Failure *failure, const pgsf *handle)
{
	set_text(failure, pgsf_error(handle), pgsf_error_detail(handle), pgsf_error_hint(handle));
	set_sqlstate(failure, pgsf_sqlstate(handle));
	failure->systemic = is_systemic(failure->sqlstate,
									strstr(failure->text, "row-level security") != NULL);
	return false;
}

bool
failure_is_duplicate(const Failure *failure)
{
	return strcmp(failure->sqlstate, "23505") == 0;
}
