/*-------------------------------------------------------------------------
 *
 * wire.c
 *	  The methods by which a session of a client sends its messages.
 *
 * The server lets an extension put its own in their place (PqCommMethods, as parallel
 * workers do).  They are put there once, when the client has been let in, and stay:
 * a library that puts others over them later finds them where they were.
 *
 * Only sessions of clients have them.  A walsender has to go on with its work while its
 * peer does not read, and its peer reads the names of types, not their numbers; a
 * worker's peer is no socket.
 *
 *-------------------------------------------------------------------------
 */
#include "base/base.h"

#include "base/server.h"
#include "miscadmin.h"
#include "sql/wire_internal.h"
#include "tcop/tcopprot.h"

static ClientAuthentication_hook_type prev_authentication_hook;

/* NULL: this session has the server's methods */
static const PQcommMethods *server;
static PQcommMethods methods;

static int
put_message(char type, const char *body, size_t len)
{
	char	   *described = sfi_sql_describe(type, body, len);
	int			rc = sfi_sql_send_message(server, type, described ? described : body, len);

	if (described)
		pfree(described);
	return rc;
}

static void
put_message_noblock(char type, const char *body, size_t len)
{
	sfi_sql_send_noblock(server, type, body, len);
}

static void
comm_reset(void)
{
	sfi_sql_send_reset();
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
