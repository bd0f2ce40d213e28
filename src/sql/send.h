/*-------------------------------------------------------------------------
 *
 * send.h
 *	  The way of large pieces to the client.
 *
 *-------------------------------------------------------------------------
 */
#ifndef SF_SQL_SEND_H
#define SF_SQL_SEND_H

/*
 * Until the end of the transaction, messages of 32 KB and more go from where they
 * were made to the socket, not through the server's send buffer.
 */
extern void sf_sql_send_large(void);

/* The end of the transaction. */
extern void sf_sql_send_at_end(void);

#endif							/* SF_SQL_SEND_H */
