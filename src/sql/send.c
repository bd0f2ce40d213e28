/*-------------------------------------------------------------------------
 *
 * send.c
 *	  Large pieces go to the client without a detour.
 *
 * The server puts every message into its send buffer and gives the socket 8 KB at
 * a time: one more copy, and a call and perhaps a wakeup of the client for each
 * 8 KB.  PostgreSQL 17 gives the socket large messages as they are; before, we do.
 *
 * Only in transactions that asked for it: what sends no pieces of values is sent as
 * always.
 *
 * What the methods promise is kept.  A message may come while another is half sent,
 * and is dropped then; pq_putmessage_noblock() neither waits nor fails for any caller:
 * its messages are left to the server.
 *
 *-------------------------------------------------------------------------
 */
#include "base/base.h"

#include "miscadmin.h"
#include "port/pg_bswap.h"
#include "sql/wire_internal.h"

/* from there on, a message goes as it is */
#define LARGE_MESSAGE	(32 * 1024)

/* goes with the header of a message, which would be a small packet alone */
#define FIRST_PART		8192

#define HEADER_SIZE		5

/* Has this transaction asked? */
static bool wanted;

/* In the middle of a message: nothing else may be sent. */
static bool busy;

/*
 * As the server does it: the next check for interrupts ends the connection.  A report
 * is such a check, too, so that the client is noted as lost before it.
 */
static int
lose_client(void)
{
	bool		is_news = !ClientConnectionLost;

	ClientConnectionLost = 1;
	if (is_news)
		ereport(COMMERROR,
				(errcode_for_socket_access(),
				 errmsg("could not send data to client: %m")));
	InterruptPending = 1;
	return EOF;
}

static int
write_all(char *bytes, size_t len)
{
	while (len > 0)
	{
		ssize_t		n = secure_write(MyProcPort, bytes, len);

		if (n > 0)
		{
			bytes += n;
			len -= n;
		}
		else if (n == 0 || errno != EINTR)
			return lose_client();
	}
	return 0;
}

static int
write_message(char type, const char *body, size_t len)
{
	char		first[FIRST_PART];
	uint32		length = pg_hton32((uint32) (len + sizeof(length)));
	size_t		with_header = FIRST_PART - HEADER_SIZE;

	/* so that no error message gets between its parts */
	SF_ASSERT(busy && len >= with_header);
	first[0] = type;
	memcpy(first + 1, &length, sizeof(length));
	memcpy(first + HEADER_SIZE, body, with_header);
	if (write_all(first, FIRST_PART) != 0)
		return EOF;
	return write_all(unconstify(char *, body) + with_header, len - with_header);
}

/* ---- for the methods ---- */

/*
 * Does the server stand in the middle of a message?  Then flush() has done nothing;
 * else it has emptied the buffer and left the socket in blocking mode.
 */
static bool
is_busy(const PQcommMethods *server)
{
	return MyProcPort->noblock || server->is_send_pending();
}

/* Waits for the client; terminating the session ends that. */
int
sfi_sql_send_message(const PQcommMethods *server, char type, const char *body, size_t len)
{
	int			rc;

	if (busy)
		return 0;
	if (!wanted || len < LARGE_MESSAGE)
		return server->putmessage(type, body, len);
	/* what is in the buffer goes first */
	if (server->flush() != 0)
		return EOF;
	if (is_busy(server))
		return server->putmessage(type, body, len);
	busy = true;
	rc = write_message(type, body, len);
	busy = false;
	return rc;
}

/*
 * Put a message into the server's buffer, which grows as it must.  The server's own
 * function calls sfi_sql_send_message() for it.  After an error nothing is sent past the
 * server in this transaction.
 */
void
sfi_sql_send_noblock(const PQcommMethods *server, char type, const char *body, size_t len)
{
	bool		was_wanted = wanted;

	if (busy)
		return;
	wanted = false;
	server->putmessage_noblock(type, body, len);
	wanted = was_wanted;
}

void
sfi_sql_send_reset(void)
{
	busy = false;
}

void
sf_sql_send_large(void)
{
	wanted = !SF_SERVER_SENDS_LARGE;
}

void
sf_sql_send_at_end(void)
{
	wanted = false;
}
