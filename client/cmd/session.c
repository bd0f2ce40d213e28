/*-------------------------------------------------------------------------
 *
 * session.c
 *	  Connections: made as psql makes them, made again when they are lost.
 *
 *-------------------------------------------------------------------------
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "interrupt.h"
#include "output.h"
#include "password.h"
#include "session.h"

/* What the user typed; the first connection asks, the others use it. */
static char *password = NULL;

/*
 * Names of files are UTF-8 nearly everywhere, whatever the locale of a cron job
 * says.  Who has others says so in PGCLIENTENCODING or the connection string: later
 * words, those of dbname among them, win.
 */
static PGconn *
connect_once(const Options *options)
{
	const char *const words[] = {
		"client_encoding", "fallback_application_name",
		"host", "port", "user", "password", "dbname", NULL
	};
	const char *const values[] = {
		getenv("PGCLIENTENCODING") == NULL ? "UTF8" : NULL, "securefile",
		options->host, options->port, options->user, password, options->dbname, NULL
	};

	return PQconnectdbParams(words, values, 1);
}

static PGconn *
connect_server(const Options *options, Failure *failure)
{
	PGconn	   *conn;

	if (options->password == PASSWORD_ALWAYS && password == NULL)
		password = password_ask();
	conn = connect_once(options);
	if (conn != NULL && PQstatus(conn) == CONNECTION_BAD && PQconnectionNeedsPassword(conn) &&
		password == NULL && options->password != PASSWORD_NEVER)
	{
		PQfinish(conn);
		password = password_ask();
		conn = connect_once(options);
	}
	if (conn == NULL)
		abort();
	if (PQstatus(conn) == CONNECTION_OK)
		return conn;
	failure_sql(failure, conn, NULL);
	PQfinish(conn);
	return NULL;
}

/* A handle and the other things that a connection is used with. */
static bool
equip(Session *session, Failure *failure)
{
	interrupt_watch(session->conn);
	PQsetNoticeProcessor(session->conn, output_notice, NULL);
	session->handle = pgsf_new(session->conn);
	if (session->handle == NULL)
		return failure_say(failure, "out of memory");
	return true;
}

static Session *
session_begin(const Options *options, Failure *failure)
{
	Session    *session = calloc(1, sizeof(Session));

	if (session == NULL)
		abort();
	session->buffer = malloc(BUFFER_SIZE);
	if (session->buffer == NULL)
		abort();
	session->conn = connect_server(options, failure);
	if (session->conn != NULL && equip(session, failure))
		return session;
	session_end(session);
	return NULL;
}

/*
 * The first connection, with the target found; null if that fails, which the user
 * has been told.
 */
Session *
session_first(const Options *options, Target *target)
{
	Failure		failure;
	Session    *session = session_begin(options, &failure);

	if (session != NULL)
	{
		session->target = target;
		if (target_find(session, options, target, &failure))
			return session;
		session_end(session);
	}
	output_message(&failure);
	return NULL;
}

/* One more for another thread. */
Session *
session_more(const Options *options, const Target *target, Failure *failure)
{
	Session    *session = session_begin(options, failure);

	if (session != NULL)
		session->target = target;
	return session;
}

/*
 * After a failure: leave its transaction, and if the connection is lost make it
 * again, once.  False if it does not come back.
 */
bool
session_recover(Session *session, Failure *failure)
{
	pgsf_close(session->handle);
	if (PQstatus(session->conn) == CONNECTION_OK &&
		PQtransactionStatus(session->conn) != PQTRANS_IDLE)
		PQclear(PQexec(session->conn, "ROLLBACK"));
	if (PQstatus(session->conn) == CONNECTION_OK)
		return true;
	pgsf_free(session->handle);
	session->handle = NULL;
	interrupt_unwatch(session->conn);
	PQreset(session->conn);
	session->lost = PQstatus(session->conn) != CONNECTION_OK;
	if (session->lost)
		return failure_sql(failure, session->conn, NULL);
	return equip(session, failure);
}

void
session_end(Session *session)
{
	pgsf_free(session->handle);
	if (session->conn != NULL)
	{
		interrupt_unwatch(session->conn);
		PQfinish(session->conn);
	}
	free(session->buffer);
	free(session);
}

/* End it after the only file of a run; returns the exit status. */
int
session_leave(Session *session, bool good)
{
	bool		lost = PQstatus(session->conn) != CONNECTION_OK;

	session_end(session);
	return good ? EXIT_DONE : lost ? EXIT_SETUP : EXIT_SOME;
}

/* Rows of a statement, whose parameters the server gives types; null if it fails. */
PGresult *
session_query(Session *session, Failure *failure, const char *sql, int count, const char *const *values)
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
