/*-------------------------------------------------------------------------
 *
 * error.c
 *	  The error of a handle: how it is set, cleared and read.
 *
 * Every other file calls this one, and this one calls no other: so it knows nothing
 * of commands or transactions, only of the handle and of libpq.
 *
 *-------------------------------------------------------------------------
 */
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "internal.h"

const char *
pgsf_error(const pgsf *h)
{
	if (h == NULL)
		return "no handle: not connected, or out of memory";
	if (h->error.message != NULL)
		return h->error.message;

	/*
	 * fail_lines() and pgsfi_fail() set the SQLSTATE even if there is no
	 * memory for the text
	 */
	return h->error.sqlstate[0] == '\0' ? "" : "out of memory";
}

const char *
pgsf_error_detail(const pgsf *h)
{
	return h == NULL || h->error.detail == NULL ? "" : h->error.detail;
}

const char *
pgsf_error_hint(const pgsf *h)
{
	return h == NULL || h->error.hint == NULL ? "" : h->error.hint;
}

const char *
pgsf_sqlstate(const pgsf *h)
{
	return h == NULL ? PGSF_ERROR_MEMORY : h->error.sqlstate;
}

int
pgsf_errno(const pgsf *h)
{
	return h == NULL ? 0 : h->error.errnum;
}

void
pgsfi_error_clear(pgsf *h)
{
	free(h->error.message);
	free(h->error.detail);
	free(h->error.hint);
	memset(&h->error, 0, sizeof(Error));
}

int
pgsfi_fail(pgsf *h, const char *sqlstate, const char *format, ...)
{
	va_list		args;

	/* by it the handle knows that there is an error */
	PGSF_ASSERT(sqlstate[0] != '\0');
	if (h->error.sqlstate[0] != '\0')
		return -1;
	snprintf(h->error.sqlstate, sizeof(h->error.sqlstate), "%s", sqlstate);
	va_start(args, format);
	if (vasprintf(&h->error.message, format, args) < 0)
		h->error.message = NULL;
	va_end(args);
	return -1;
}

int
pgsfi_fail_errno(pgsf *h, const char *sqlstate, int errnum, const char *what)
{
	char		text[256];

	if (h->error.sqlstate[0] == '\0')
	{
		pgsfi_fail(h, sqlstate, "%s: %s", what, strerror_r(errnum, text, sizeof(text)));
		h->error.errnum = errnum;
	}
	return -1;
}

int
pgsfi_fail_memory(pgsf *h)
{
	return pgsfi_fail(h, PGSF_ERROR_MEMORY, "out of memory");
}

/* Set the error to a message of libpq: its lines, some of them indented, become one line. */
static void
fail_lines(pgsf *h, const char *sqlstate, const char *lines)
{
	char	   *to;

	pgsfi_fail(h, sqlstate, "%s", lines);
	to = h->error.message;
	if (to == NULL)
		return;
	for (const char *p = to; *p != '\0'; p++)
	{
		if (*p != '\n' && *p != '\t')
			*to++ = *p;
		else if (p[1] != '\0' && p[1] != '\t')
			*to++ = ' ';
	}
	*to = '\0';
}

int
pgsfi_fail_connection(pgsf *h)
{
	if (h->link->conn == NULL)
		return pgsfi_fail(h, PGSF_ERROR_CLOSED, "the connection was closed");
	if (h->error.sqlstate[0] == '\0')
		fail_lines(h, PGSF_ERROR_CONNECTION, PQerrorMessage(h->link->conn));
	return -1;
}

static char *
copy_field(const PGresult *result, int field)
{
	const char *text = PQresultErrorField(result, field);

	return text == NULL ? NULL : strdup(text);
}

/* A result that libpq made has no SQLSTATE: the connection is lost, or the protocol broken. */
int
pgsfi_fail_result(pgsf *h, const PGresult *result)
{
	const char *sqlstate = PQresultErrorField(result, PG_DIAG_SQLSTATE);
	const char *message = PQresultErrorField(result, PG_DIAG_MESSAGE_PRIMARY);

	if (h->error.sqlstate[0] != '\0')
		return -1;
	if (sqlstate != NULL && sqlstate[0] != '\0' && message != NULL)
	{
		pgsfi_fail(h, sqlstate, "%s", message);
		h->error.detail = copy_field(result, PG_DIAG_MESSAGE_DETAIL);
		h->error.hint = copy_field(result, PG_DIAG_MESSAGE_HINT);
	}
	else if (!pgsfi_connected(h))
		fail_lines(h, PGSF_ERROR_CONNECTION, PQresultErrorMessage(result));
	else
		fail_lines(h, PGSF_ERROR_PROTOCOL, PQresultErrorMessage(result));
	return -1;
}
