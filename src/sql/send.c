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
 * values is sent as always.
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

static const PQcommMethods *servers;
static PQcommMethods ours;

/* Has this transaction asked? */
static bool wanted;

/* In the middle of a message: nothing else may be sent. */
static bool busy;

/* As the server does it: the next check for interrupts ends the connection. */
static int
lose_client(void)
{
	if (!ClientConnectionLost)
		ereport(COMMERROR,
				(errcode_for_socket_access(),
				 errmsg("could not send data to client: %m")));
	ClientConnectionLost = 1;
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

static int
put_message(char type, const char *body, size_t len)
{
	int			rc;

	if (busy)
		return 0;
	if (!wanted || len < LARGE_MESSAGE)
		return servers->putmessage(type, body, len);
	/* what is in the buffer goes first; leaves the socket in blocking mode */
	if (servers->flush() != 0)
		return EOF;
	busy = true;
	rc = write_message(type, body, len);
	busy = false;
	return rc;
}

static void
comm_reset(void)
{
	busy = false;
	servers->comm_reset();
}

void
sf_sql_send_large(void)
{
	if (SF_SERVER_SENDS_LARGE || !sf_base_preloaded || wanted || MyProcPort == NULL || whereToSendOutput != DestRemote)
		return;
	if (servers == NULL)
	{
		servers = PqCommMethods;
		ours = *servers;
		ours.comm_reset = comm_reset;
		ours.putmessage = put_message;
		PqCommMethods = &ours;
	}
	wanted = true;
}

void
sf_sql_send_at_end(void)
{
	wanted = false;
}
