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

/* Send a message, large ones past the server's buffer, others by its methods. */
extern int	sfi_sql_send_message(const PQcommMethods *server, char type, const char *body, size_t len);

/* A message that must neither wait nor fail. */
extern void sfi_sql_send_noblock(const PQcommMethods *server, char type, const char *body, size_t len);

/* After an error in the middle of a message. */
extern void sfi_sql_send_reset(void);

/*
 * The body of a RowDescription or ParameterDescription with bytea in the place of
 * securefile, palloc'd; NULL: the message is right as it is.
 */
extern char *sfi_sql_describe(char type, const char *body, size_t len);

#endif							/* SF_SQL_WIRE_INTERNAL_H */
