/*-------------------------------------------------------------------------
 *
 * send.c
 *	  Large pieces go to the client without a detour.
 *
 * The server puts every message into its send buffer and gives the socket 8 KB at
 * a time: one more copy, and a call and perhaps a wakeup of the client for each
 * 8 KB.  PostgreSQL 17 gives the socket large messages as they are; before, we do.
 *
 * Done where the server lets an extension do it (PqCommMethods, as parallel workers
 * do), and only in transactions that asked for it: what sends no pieces of
 * values is sent as always.  Only in sessions of clients, too: a walsender has to go
 * on with its work while its peer does not read, and a worker's peer is no socket.
 *
 * What the methods promise is kept.  A message may come while another is half sent,
 * and is dropped then; pq_putmessage_noblock() neither waits nor fails, whoever calls
 * it: its messages are left to the server.
 *
 *-------------------------------------------------------------------------
 */
#include "base/base.h"

/*
 * Where the server has GSSAPI, this wants the headers of Kerberos, which come with no
 * package for extensions.  A Port is the same without.
 */
#undef ENABLE_GSS
#include "libpq/libpq.h"
#include "miscadmin.h"
#include "port/pg_bswap.h"
#include "sql/send.h"
#include "tcop/tcopprot.h"

/* from there on, a message goes as it is */
#define LARGE_MESSAGE	(32 * 1024)

/* goes with the header of a message, which would be a small packet alone */
#define FIRST_PART		8192

#define HEADER_SIZE		5

/* NULL: the server's methods are in their place */
static const PQcommMethods *servers;
static PQcommMethods ours;

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

	first[0] = type;
	memcpy(first + 1, &length, sizeof(length));
	memcpy(first + HEADER_SIZE, body, with_header);
	if (write_all(first, FIRST_PART) != 0)
		return EOF;
	return write_all(unconstify(char *, body) + with_header, len - with_header);
}

/* ---- methods ---- */

/*
 * Does the server stand in the middle of a message?  Then flush() has done nothing;
 * else it has emptied the buffer and left the socket in blocking mode.
 */
static bool
server_is_busy(void)
{
	return MyProcPort->noblock || servers->is_send_pending();
}

/* Send a message.  Waits for the client; terminating the session ends that. */
static int
put_message(char type, const char *body, size_t len)
{
	int			rc;

	if (busy)
		return 0;
	if (!wanted || len < LARGE_MESSAGE)
		return servers->putmessage(type, body, len);
	/* what is in the buffer goes first */
	if (servers->flush() != 0)
		return EOF;
	if (server_is_busy())
		return servers->putmessage(type, body, len);
	busy = true;
	rc = write_message(type, body, len);
	busy = false;
	return rc;
}

/*
 * Put a message into the server's buffer, which grows as it must.  The server's own
 * function calls put_message() for it.  After an error nothing is sent past the server
 * in this transaction.
 */
static void
put_message_noblock(char type, const char *body, size_t len)
{
	bool		was_wanted = wanted;

	if (busy)
		return;
	wanted = false;
	servers->putmessage_noblock(type, body, len);
	wanted = was_wanted;
}

static void
comm_reset(void)
{
	busy = false;
	servers->comm_reset();
}

/* Is there a socket, and a client behind it for whom the session may wait? */
static bool
has_client(void)
{
	return MyBackendType == B_BACKEND && MyProcPort != NULL && whereToSendOutput == DestRemote;
}

void
sf_sql_send_large(void)
{
	if (SF_SERVER_SENDS_LARGE || !sf_base_preloaded || wanted || !has_client())
		return;
	if (servers == NULL)
	{
		servers = PqCommMethods;
		ours = *servers;
		ours.comm_reset = comm_reset;
		ours.putmessage = put_message;
		ours.putmessage_noblock = put_message_noblock;
		PqCommMethods = &ours;
	}
	wanted = true;
}

/*
 * Take the server's methods back, unless somebody has put his own over them, or the
 * session dies in the middle of a message.
 */
void
sf_sql_send_at_end(void)
{
	wanted = false;
	if (servers != NULL && !busy && PqCommMethods == &ours)
	{
		PqCommMethods = servers;
		servers = NULL;
	}
}
