/*-------------------------------------------------------------------------
 *
 * wait.c
 *	  Waiting: for the server, for a local file, for a cancel request.
 *
 * Nothing else blocks.  A cancel request wakes what waits here; for the server it
 * is then passed on by PQcancel, and again each second: one that arrives between
 * two commands has no effect there.
 *
 *-------------------------------------------------------------------------
 */
#include <errno.h>
#include <string.h>

#include <poll.h>

#include "internal.h"

#define ASK_AGAIN_MS	1000

/* Ask the server to stop what it does for this connection. */
void
pgsfi_ask_to_stop(pgsf *h)
{
	char		text[256];
	PGcancel   *cancel = PQgetCancel(h->link->conn);

	h->cancel_sent = true;
	if (cancel == NULL)
		return;
	/* if it did not work it is tried again, see wait_for */
	(void) PQcancel(cancel, text, sizeof(text));
	PQfreeCancel(cancel);
}

/*
 * Wait until one of the events is there for fd, or a cancel request.  With
 * timeout_ms -1 forever.  The result is poll's.
 */
static int
wait_for(pgsf *h, int fd, short events, int timeout_ms)
{
	struct pollfd fds[2];
	int			rc;

	memset(fds, 0, sizeof(fds));
	fds[0].fd = fd;
	fds[0].events = events;
	/* a negative descriptor is ignored */
	fds[1].fd = h->cancel_masked || h->cancel_sent ? -1 : h->cancel_event;
	fds[1].events = POLLIN;
	do
		rc = poll(fds, 2, timeout_ms);
	while (rc < 0 && errno == EINTR && !atomic_load(&h->cancel_wanted));
	return rc;
}

/* Wait for the server; while cancelling, ask it again each second. */
static int
wait_server(pgsf *h, short events)
{
	int			rc;

	if (!h->cancel_masked && !h->cancel_sent && atomic_load(&h->cancel_wanted))
	{
		pgsfi_fail(h, PGSF_ERROR_CANCELLED, "cancelled by pgsf_cancel");
		pgsfi_ask_to_stop(h);
	}
	rc = wait_for(h, PQsocket(h->link->conn), events, h->cancel_sent ? ASK_AGAIN_MS : -1);
	if (rc == 0 && h->cancel_sent)
		pgsfi_ask_to_stop(h);
	if (rc < 0 && errno != EINTR)
		return pgsfi_fail_errno(h, PGSF_ERROR_CONNECTION, errno, "could not wait for the server");
	return 0;
}

/*
 * Until PQgetResult does not block.  If the connection is lost that is so, too, and
 * it will tell the reason.
 */
int
pgsfi_wait_result(pgsf *h)
{
	PGconn	   *conn = h->link->conn;

	while (PQisBusy(conn))
	{
		int			unsent = PQflush(conn);

		if (unsent < 0)
			break;
		if (wait_server(h, unsent > 0 ? POLLIN | POLLOUT : POLLIN) < 0)
			return -1;
		if (!PQconsumeInput(conn))
			break;
	}
	return 0;
}

/*
 * Until all that was sent is on its way.  Reads what the server sends meanwhile:
 * it might not read before that is read.
 */
int
pgsfi_send_all(pgsf *h)
{
	PGconn	   *conn = h->link->conn;
	int			unsent;

	while ((unsent = PQflush(conn)) > 0)
	{
		if (wait_server(h, POLLIN | POLLOUT) < 0)
			return -1;
		if (!PQconsumeInput(conn))
			break;
	}
	return unsent != 0 ? pgsfi_lost_in_flight(h) : 0;
}

/* Until a local descriptor is ready; -1: cancelled, or it cannot be waited for. */
int
pgsfi_wait_local(pgsf *h, int fd, short events)
{
	/* for poll that is nothing to wait for */
	if (fd < 0)
		return pgsfi_fail_errno(h, PGSF_ERROR_FILE, EBADF, "could not use local file");
	do
	{
		if (pgsfi_check_cancel(h) < 0)
			return -1;
		if (wait_for(h, fd, events, -1) >= 0)
			continue;
		if (errno != EINTR)
			return pgsfi_fail_errno(h, PGSF_ERROR_FILE, errno, "could not wait for local file");
	} while (atomic_load(&h->cancel_wanted));
	return 0;
}
