/*-------------------------------------------------------------------------
 *
 * sql.h
 *	  What stands between the server and the socket of its client; and in EXPLAIN.
 *
 *-------------------------------------------------------------------------
 */
#ifndef SF_SQL_H
#define SF_SQL_H

/*
 * From now on the messages of each new session of a client go through this room.
 * Call from _PG_init while preloading.
 */
extern void sf_sql_wire_install(void);

/*
 * Until the end of the transaction, messages of 32 KB and more go from where they
 * were made to the socket, not through the server's send buffer.
 */
extern void sf_sql_send_large(void);

/* At the end of a transaction: messages are sent as the server does again. */
extern void sf_sql_send_at_end(void);

/*
 * EXPLAIN gets the option SECUREFILE, where the server lets an extension add one.  Call from
 * _PG_init while preloading.
 */
extern void sf_sql_explain_install(void);

#endif							/* SF_SQL_H */
