/*-------------------------------------------------------------------------
 *
 * handle.c
 *	  Making and freeing handles, their errors, and cancel requests.
 *
 *-------------------------------------------------------------------------
 */
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <sys/eventfd.h>
#include <unistd.h>

#include "internal.h"

int
pgsf_version(void)
{
	return PGSF_VERSION_NUM;
}

pgsf *
pgsf_new(PGconn *conn)
{
	pgsf	   *h;

	if (conn == NULL || PQstatus(conn) != CONNECTION_OK)
		return NULL;
	h = calloc(1, sizeof(pgsf));
	if (h == NULL)
		return NULL;
	h->cancel_event = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
	h->link = h->cancel_event < 0 ? NULL : pgsfi_link(conn);
	if (h->link == NULL)
	{
		if (h->cancel_event >= 0)
			close(h->cancel_event);
		free(h);
		return NULL;
	}
	h->next = h->link->handles;
	h->link->handles = h;
	return h;
}

void
pgsf_free(pgsf *h)
{
	if (h == NULL)
		return;
	(void) pgsf_close(h);
	pgsfi_error_clear(h);
	pgsfi_link_leave(h);
	close(h->cancel_event);
	free(h->gathered);
	free(h);
}

/* ---- errors ---- */

const char *
pgsf_error(const pgsf *h)
{
	if (h == NULL)
		return "no handle: not connected, or out of memory";
	if (h->error.message != NULL)
		return h->error.message;
	/* an error there was no memory to describe */
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

/* Whether an error is there already: what follows from it is not reported. */
static bool
has_failed(pgsf *h, const char *sqlstate)
{
	if (h->error.sqlstate[0] != '\0')
		return true;
	snprintf(h->error.sqlstate, sizeof(h->error.sqlstate), "%s", sqlstate);
	return false;
}

/* Set the error, unless there is one, and return -1. */
int
pgsfi_fail(pgsf *h, const char *sqlstate, const char *format, ...)
{
	va_list		args;

	if (has_failed(h, sqlstate))
		return -1;
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

/* A message of libpq is lines, some of them indented; an error of ours is one. */
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

/* The error that the server, or libpq, made a result of. */
int
pgsfi_fail_result(pgsf *h, const PGresult *result)
{
	const char *sqlstate = PQresultErrorField(result, PG_DIAG_SQLSTATE);
	const char *message = PQresultErrorField(result, PG_DIAG_MESSAGE_PRIMARY);

	if (h->error.sqlstate[0] != '\0')
		return -1;
	if (sqlstate != NULL && message != NULL)
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

/*
 * The start of a public function.  An error that came up between two calls is
 * reported by the second.
 */
int
pgsfi_start(pgsf *h)
{
	if (h == NULL)
		return -1;
	if (h->failed_unseen)
	{
		h->failed_unseen = false;
		return -1;
	}
	pgsfi_error_clear(h);
	h->cancel_sent = false;
	return 0;
}

/* ... that wants a value to be open, for writing too or not. */
int
pgsfi_start_open(pgsf *h, bool writing)
{
	if (pgsfi_start(h) < 0)
		return -1;
	if (h->mode == PGSF_CLOSED)
		return pgsfi_fail(h, PGSF_ERROR_STATE, "no value is open");
	if (writing && h->mode == PGSF_READ)
		return pgsfi_fail(h, PGSF_ERROR_STATE, "the value is open for reading only");
	return 0;
}

/* ... that wants nothing to be open. */
int
pgsfi_start_closed(pgsf *h)
{
	if (pgsfi_start(h) < 0)
		return -1;
	if (h->mode != PGSF_CLOSED)
		return pgsfi_fail(h, PGSF_ERROR_STATE, "a value is open already");
	return 0;
}

/* ---- progress and cancelling ---- */

void
pgsf_set_progress(pgsf *h, pgsf_progress progress, void *arg)
{
	if (h == NULL)
		return;
	h->progress = progress;
	h->progress_arg = arg;
}

/* Tell the progress callback, which may cancel. */
int
pgsfi_report(pgsf *h, int64_t done, int64_t total)
{
	if (h->progress != NULL && h->progress(h->progress_arg, done, total) != 0)
		return pgsfi_fail(h, PGSF_ERROR_CANCELLED, "cancelled by the progress callback");
	return pgsfi_check_cancel(h);
}

/* In signal handlers and other threads: no more than a flag and a wake-up. */
void
pgsf_cancel(pgsf *h)
{
	int			saved = errno;
	uint64_t	one = 1;

	if (h == NULL)
		return;
	atomic_store(&h->cancel_wanted, 1);
	/* fails only if it would count beyond 2^64, and then it wakes as well */
	if (write(h->cancel_event, &one, sizeof(one)) < 0)
		errno = saved;
	errno = saved;
}

void
pgsfi_forget_cancel(pgsf *h)
{
	uint64_t	count;

	atomic_store(&h->cancel_wanted, 0);
	h->cancel_sent = false;
	while (read(h->cancel_event, &count, sizeof(count)) < 0 && errno == EINTR)
		;
}

/* -1 if the call is to be cancelled; asked between pieces. */
int
pgsfi_check_cancel(pgsf *h)
{
	if (h->cancel_masked || !atomic_load(&h->cancel_wanted))
		return 0;
	return pgsfi_fail(h, PGSF_ERROR_CANCELLED, "cancelled by pgsf_cancel");
}
