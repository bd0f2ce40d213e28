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
	va_start(args, format);
	vsnprintf(failure->text, sizeof(failure->text), format, args);
	va_end(args);
	return false;
}

bool
failure_errno(Failure *failure, const char *what)
{
	int			saved = errno;

	return failure_say(failure, "%s: %s", what, strerror(saved));
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

bool
failure_sql(Failure *failure, PGconn *conn, const PGresult *result)
{
	const char *primary = PQresultErrorField(result, PG_DIAG_MESSAGE_PRIMARY);

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
	return false;
}

bool
failure_pgsf(Failure *failure, const pgsf *handle)
{
	set_text(failure, pgsf_error(handle), pgsf_error_detail(handle), pgsf_error_hint(handle));
	set_sqlstate(failure, pgsf_sqlstate(handle));
	return false;
}
