/*-------------------------------------------------------------------------
 *
 * wire_internal.h
 *	  What a message goes through on its way to the client.
 *
 *-------------------------------------------------------------------------
 */
#ifndef SF_SQL_WIRE_INTERNAL_H
#define SF_SQL_WIRE_INTERNAL_H

/*
 * Where the server has GSSAPI, its headers want those of Kerberos, which come with no
 * package for extensions.  A Port is the same without.
 */
#undef ENABLE_GSS
#include "libpq/auth.h"
#include "libpq/libpq.h"
#include "libpq/libpq-be.h"
#include "sql/sql.h"

/*
 * Send a message of a type with a body: a large one past the server's send buffer,
 * others by the methods of the server.  Returns 0, or EOF if the connection is lost.
 */
extern int	sfi_sql_send_message(const PQcommMethods *server, char type, const char *body,
								 size_t len);

/* Send a message without waiting.  Never throws. */
extern void sfi_sql_send_noblock(const PQcommMethods *server, char type, const char *body,
								 size_t len);

/* Forget a message that an error has interrupted.  Never throws. */
extern void sfi_sql_send_reset(void);

/*
 * The body of a RowDescription or ParameterDescription with bytea in the place of
 * securefile, palloc'd; NULL: the message is right as it is.
 */
extern char *sfi_sql_describe(char type, const char *body, size_t len);

#endif							/* SF_SQL_WIRE_INTERNAL_H */
