/*-------------------------------------------------------------------------
 *
 * wait.c
 *	  Waiting: for the server, for a local file, for a cancel request.
 *
 * Nothing else in the library blocks.  A cancel request wakes the waiting call.  If the
 * call waits for the server, PQcancel (ask.c) passes the request on, and again each second: the
 * server ignores a request that arrives between two commands.  A server, or a network, that
 * answers none of these for some seconds has lost the connection: otherwise the call would wait
 * for it for ever, or for all of a value that nobody wants any more.
 *
 *-------------------------------------------------------------------------
 */
#include <errno.h>
#include <string.h>

#include <poll.h>
#include <sys/socket.h>

#include "internal.h"

#define ASK_AGAIN_MS	1000
#define GIVE_UP_MS		6000

void
pgsfi_ask_to_stop(pgsf *h)
{
	int64_t		begun = pgsfi_now_ms();

	h->cancel_sent = true;

	/*
	 * the result matters only if there is none: wait_server() repeats the
	 * request
	 */
	if (pgsfi_ask(h->link->conn))
		h->unanswered_since_ms = 0;
	else if (h->unanswered_since_ms == 0)
		h->unanswered_since_ms = begun;
	h->asked_ms = pgsfi_now_ms();
}

/* Read what is left, which is finite now; the end makes libpq see that the connection is lost. */
void
pgsfi_abandon(pgsf *h)
{
	PGconn	   *conn = h->link->conn;

	(void) shutdown(PQsocket(conn), SHUT_RDWR);
	while (PQstatus(conn) == CONNECTION_OK && PQconsumeInput(conn))
		;
	h->link->lost = true;
}

/* A call is being cancelled: ask again if it is time, or give the connection up. */
static int
go_on_asking(pgsf *h)
{
	int64_t		now = pgsfi_now_ms();

	if (h->unanswered_since_ms != 0 && now - h->unanswered_since_ms >= GIVE_UP_MS)
	{
		pgsfi_fail(h, PGSF_ERROR_CONNECTION, "the server answers no cancel request");
		pgsfi_abandon(h);
		return -1;
	}
	if (now - h->asked_ms >= ASK_AGAIN_MS)
		pgsfi_ask_to_stop(h);
	return 0;
}

/*
 * Wait until fd has one of the events or a cancel request comes, at most timeout_ms
 * (-1: without limit).  Returns the result of poll().
 */
static int
wait_for(pgsf *h, int fd, short events, int timeout_ms)
{
	struct pollfd fds[2];
	int			rc;

	memset(fds, 0, sizeof(fds));
	fds[0].fd = fd;
	fds[0].events = events;

	/*
	 * poll ignores a negative descriptor; a request that was passed on would
	 * wake it at once
	 */
	fds[1].fd = h->cancel_masked || h->cancel_sent ? -1 : h->cancel_event;
	fds[1].events = POLLIN;
	do
		rc = poll(fds, 2, timeout_ms);
	while (rc < 0 && errno == EINTR && !atomic_load(&h->cancel_wanted));
	return rc;
}

/* Wait for the server's socket; pass a cancel request on, and repeat it each second. */
static int
wait_server(pgsf *h, short events)
{
	int			rc;

	if (!h->cancel_masked && !h->cancel_sent && atomic_load(&h->cancel_wanted))
	{
		pgsfi_fail(h, PGSF_ERROR_CANCELLED, "cancelled by pgsf_cancel");
		pgsfi_ask_to_stop(h);
	}
	else if (h->cancel_sent && go_on_asking(h) < 0)
		return -1;
	rc = wait_for(h, PQsocket(h->link->conn), events, h->cancel_sent ? ASK_AGAIN_MS : -1);
	if (rc < 0 && errno != EINTR)
		return pgsfi_fail_errno(h, PGSF_ERROR_CONNECTION, errno, "could not wait for the server");
	return 0;
}

/* On a lost connection PQgetResult does not block either, and gives the error. */
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
 * Reads while it sends: a server that cannot send its answers may stop reading, and both
 * sides would wait for ever.
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

int
pgsfi_wait_local(pgsf *h, int fd, short events)
{
	/* poll would ignore it, and wait for ever */
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
