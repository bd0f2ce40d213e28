/*-------------------------------------------------------------------------
 *
 * query.c
 *	  Statements on a connection, that of a session or another one, and their failures.
 *
 *-------------------------------------------------------------------------
 */
#include "answer.h"
#include "session.h"

PGresult *
conn_query(PGconn *conn, Failure *failure, const char *sql, int count, const char *const *values)
{
	PGresult   *result = PQexecParams(conn, sql, count, NULL, values, NULL, NULL, 0);

	if (PQresultStatus(result) == PGRES_TUPLES_OK || PQresultStatus(result) == PGRES_COMMAND_OK)
		return result;
	failure_sql(failure, conn, result);
	PQclear(result);
	return NULL;
}

PGresult *
conn_rows(PGconn *conn, Failure *failure, int columns, const char *sql, int count,
		  const char *const *values)
{
	PGresult   *result = conn_query(conn, failure, sql, count, values);

	if (result == NULL || answer_has(result, columns, failure))
		return result;
	PQclear(result);
	return NULL;
}

bool
conn_do(PGconn *conn, Failure *failure, const char *sql)
{
	PGresult   *result = conn_query(conn, failure, sql, 0, NULL);

	PQclear(result);
	return result != NULL;
}

void
session_let_go(Session *session)
{
	Failure		ignored;

	if (session->keeps_table)
		(void) conn_do(session->conn, &ignored, "ROLLBACK");
	session->keeps_table = false;
}

PGresult *
session_query(Session *session, Failure *failure, const char *sql,
			  int count, const char *const *values)
{
	session_let_go(session);
	return conn_query(session->conn, failure, sql, count, values);
}

PGresult *
session_rows(Session *session, Failure *failure, int columns, const char *sql,
			 int count, const char *const *values)
{
	session_let_go(session);
	return conn_rows(session->conn, failure, columns, sql, count, values);
}

bool
session_do(Session *session, Failure *failure, const char *sql)
{
	session_let_go(session);
	return conn_do(session->conn, failure, sql);
}
