/*-------------------------------------------------------------------------
 *
 * query.c
 *	  Statements on the connection of a session, and their failures.
 *
 *-------------------------------------------------------------------------
 */
#include "session.h"

PGresult *
session_query(Session *session, Failure *failure, const char *sql,
			  int count, const char *const *values)
{
	PGresult   *result = PQexecParams(session->conn, sql, count, NULL, values, NULL, NULL, 0);

	if (PQresultStatus(result) == PGRES_TUPLES_OK || PQresultStatus(result) == PGRES_COMMAND_OK)
		return result;
	failure_sql(failure, session->conn, result);
	PQclear(result);
	return NULL;
}

bool
session_do(Session *session, Failure *failure, const char *sql)
{
	PGresult   *result = session_query(session, failure, sql, 0, NULL);

	PQclear(result);
	return result != NULL;
}
