/*-------------------------------------------------------------------------
 *
 * wire.c
 *	  What the messages of a session go through on their way to its client.
 *
 * Descriptions of rows and parameters name bytea in the place of securefile.  Large messages go
 * past the server's send buffer.
 *
 * The server lets an extension put methods of its own in the place of those by which a session
 * sends (PqCommMethods, as parallel workers do).  They are put there once, when the client has
 * been let in, and stay: a library that puts others over them later finds them where they were.
 *
 * Only sessions of clients have them.  A walsender has to go on with its work while its
 * peer does not read, and its peer reads the names of types, not their numbers; a
 * worker's peer is no socket.
 *
 *-------------------------------------------------------------------------
 */
#include "base/base.h"

#include "access/transam.h"
#include "access/xact.h"
#include "base/server.h"
#include "catalog/pg_type.h"
#include "config/config.h"
#include "ddl/ddl.h"
#include "lib/stringinfo.h"

/*
 * Where the server has GSSAPI, its headers want those of Kerberos, which come with no
 * package for extensions.  A Port is the same without.
 */
#undef ENABLE_GSS
#include "libpq/auth.h"
#include "libpq/libpq.h"
#include "libpq/libpq-be.h"
#include "libpq/pqformat.h"
#include "miscadmin.h"
#include "port/pg_bswap.h"
#include "sql/sql.h"
#include "tcop/tcopprot.h"

static ClientAuthentication_hook_type prev_authentication_hook;

/* NULL: this session has the server's methods */
static const PQcommMethods *server;
static PQcommMethods methods;

/* ---- descriptions ---- */

/*
 * Text and binary form of securefile are those of bytea, so that whatever knows bytea
 * can read and write it.  Drivers go by the number of the type, though, and that of an
 * extension's type is another one in each database.  So the descriptions of rows and of
 * parameters that the server sends have bytea's number in its place, that of bytea[]
 * for arrays, and the type modifier -1.  securefile.describe_as = securefile leaves
 * them as they are.
 *
 * RowDescription, 'T' (integers in network byte order):
 *
 *	 offset		size	what
 *	 0			2		number of columns; then, for each of them:
 *	 0			n		name, with its terminating zero
 *	 n			4		table
 *	 n + 4		2		column of the table
 *	 n + 6		4		type
 *	 n + 10		2		its length, -1 for both types
 *	 n + 12		4		type modifier
 *	 n + 16		2		format
 *
 * ParameterDescription, 't':
 *
 *	 0			2		number of parameters
 *	 2			4 each	type
 */

#define ROW_DESCRIPTION			'T'
#define PARAMETER_DESCRIPTION	't'

/* A message that is read, and its copy once something in it has to change. */
typedef struct Description
{
	StringInfoData message;
	char	   *copy;
} Description;

#define KNOWN_TYPES		16

/* Types that this session has described otherwise, the last ones of them. */
static struct
{
	Oid			type;
	Oid			described;
}			known[KNOWN_TYPES];

static Oid
describe_by_memory(Oid type)
{
	for (int i = 0; i < KNOWN_TYPES; i++)
		if (known[i].type == type)
			return known[i].described;
	return type;
}

static void
remember(Oid type, Oid described)
{
	static int	next = 0;

	/* an unused place has type 0 */
	SF_ASSERT(OidIsValid(type) && described != type);
	if (describe_by_memory(type) == described)
		return;
	known[next].type = type;
	known[next].described = described;
	next = (next + 1) % KNOWN_TYPES;
}

/*
 * A transaction that has failed looks nothing up; it may still describe a statement
 * that was prepared before.
 */
static Oid
describe_type(Oid type)
{
	Oid			described;

	if (type < FirstNormalObjectId)
		return type;
	if (!IsTransactionState())
		return describe_by_memory(type);

	described = sf_ddl_described_type(type);
	if (described != type)
		remember(type, described);
	return described;
}

/* Put a number in the place of the one that was read last. */
static void
replace_uint32(Description *description, uint32 number)
{
	StringInfo	message = &description->message;

	SF_ASSERT(message->cursor >= (int) sizeof(number) && message->cursor <= message->len);
	if (description->copy == NULL)
	{
		description->copy = palloc(message->len);
		memcpy(description->copy, message->data, message->len);
	}
	number = pg_hton32(number);
	memcpy(description->copy + message->cursor - sizeof(number), &number, sizeof(number));
}

/* Read a type, and put another in its place if need be. */
static bool
describe_next(Description *description)
{
	Oid			type = pq_getmsgint(&description->message, 4);
	Oid			described = describe_type(type);

	if (described == type)
		return false;
	replace_uint32(description, described);
	return true;
}

static void
describe_column(Description *description)
{
	StringInfo	message = &description->message;
	bool		changed;

	(void) pq_getmsgrawstring(message);
	(void) pq_getmsgbytes(message, 6);	/* table, column of the table */
	changed = describe_next(description);
	(void) pq_getmsgbytes(message, 2);	/* length of the type */
	(void) pq_getmsgint(message, 4);	/* type modifier */
	if (changed)
		replace_uint32(description, (uint32) -1);
	(void) pq_getmsgbytes(message, 2);	/* format */
}

/*
 * The body of a RowDescription or ParameterDescription with bytea in the place of
 * securefile, palloc'd; NULL: the message is right as it is.
 */
static char *
describe(char type, const char *body, size_t len)
{
	Description description = {
		.message = {.data = unconstify(char *, body), .len = len},
	};
	uint32		count;

	if ((type != ROW_DESCRIPTION && type != PARAMETER_DESCRIPTION) ||
		sf_describe_as != SF_DESCRIBE_AS_BYTEA)
		return NULL;

	count = pq_getmsgint(&description.message, 2);
	while (count-- > 0)
	{
		if (type == ROW_DESCRIPTION)
			describe_column(&description);
		else
			(void) describe_next(&description);
	}
	return description.copy;
}

/* ---- large messages ---- */

/*
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
 */

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

/*
 * Does the server stand in the middle of a message?  Then flush() has done nothing;
 * else it has emptied the buffer and left the socket in blocking mode.
 */
static bool
is_busy(void)
{
	return MyProcPort->noblock || server->is_send_pending();
}

/*
 * Send a message: a large one past the server's send buffer.  Waits for the client; terminating
 * the session ends that.  Returns 0, or EOF if the connection is lost.
 */
static int
send_message(char type, const char *body, size_t len)
{
	int			rc;

	if (busy)
		return 0;
	if (!wanted || len < LARGE_MESSAGE)
		return server->putmessage(type, body, len);
	/* what is in the buffer goes first */
	if (server->flush() != 0)
		return EOF;
	if (is_busy())
		return server->putmessage(type, body, len);
	busy = true;
	rc = write_message(type, body, len);
	busy = false;
	return rc;
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

/* ---- methods ---- */

static int
put_message(char type, const char *body, size_t len)
{
	char	   *described = describe(type, body, len);
	int			rc = send_message(type, described ? described : body, len);

	if (described)
		pfree(described);
	return rc;
}

/*
 * Put a message into the server's buffer, which grows as it must.  The server's own
 * function calls put_message() for it.  After an error nothing is sent past the
 * server in this transaction.
 */
static void
put_message_noblock(char type, const char *body, size_t len)
{
	bool		was_wanted = wanted;

	if (busy)
		return;
	wanted = false;
	server->putmessage_noblock(type, body, len);
	wanted = was_wanted;
}

/* After an error, which may have interrupted a message. */
static void
comm_reset(void)
{
	busy = false;
	server->comm_reset();
}

/* Is there a socket, and a client behind it for whom the session may wait? */
static bool
has_client(void)
{
	return MyBackendType == B_BACKEND && MyProcPort != NULL && whereToSendOutput == DestRemote;
}

static void
after_authentication(Port *port, int status)
{
	if (prev_authentication_hook)
		prev_authentication_hook(port, status);
	if (status != STATUS_OK || !has_client())
		return;
	/* methods that call themselves never end */
	SF_ASSERT(server == NULL && sf_server_wire() != &methods);
	server = sf_server_wire();
	methods = *server;
	methods.comm_reset = comm_reset;
	methods.putmessage = put_message;
	methods.putmessage_noblock = put_message_noblock;
	sf_server_set_wire(&methods);
}

void
sf_sql_wire_install(void)
{
	prev_authentication_hook = ClientAuthentication_hook;
	ClientAuthentication_hook = after_authentication;
}
