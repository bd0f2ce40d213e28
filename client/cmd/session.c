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
#include "local.h"
#include "output.h"
#include "password.h"
#include "session.h"
#include "shard.h"

/* The password that the user typed: the first connection asks, the others use it. */
static char *password = NULL;

const char *
session_password(void)
{
	return password;
}

/*
 * One attempt.  Names of files are UTF-8 nearly everywhere, whatever the locale of a
 * cron job is.  A user with another encoding sets PGCLIENTENCODING or names it in the
 * connection string: of two equal words libpq takes the later, and those in dbname
 * come later.
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

/* Connect, and ask for a password if the server wants one, as psql does. */
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

/* Give a new connection its handle, and make interrupts and notices know it. */
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

/* A session without a target; NULL after a failure. */
static Session *
session_begin(const Options *options, Failure *failure)
{
	Session    *session = calloc(1, sizeof(Session));

	if (session == NULL)
		abort();
	session->buffer = local_buffer(BUFFER_SIZE);
	session->conn = connect_server(options, failure);
	if (session->conn != NULL && equip(session, failure))
		return session;
	session_end(session);
	return NULL;
}

/* Finds a target: target_find(), or target_find_column(). */
typedef bool (*Find) (Session *session, const Options *options, Target *target, Failure *failure);

/* Make the first connection and find the target. */
static Session *
begin_with(const Options *options, Target *target, Find find)
{
	Failure		failure;
	Session    *session = session_begin(options, &failure);

	if (session != NULL)
	{
		session->target = target;
		if (find(session, options, target, &failure))
			return session;
		session_end(session);
	}
	output_message(&failure);
	return NULL;
}

Session *
session_first(const Options *options, Target *target)
{
	return begin_with(options, target, target_find);
}

Session *
session_column(const Options *options, Target *target)
{
	return begin_with(options, target, target_find_column);
}

Session *
session_refuse_distributed(Session *session, const char *what)
{
	Failure		failure;

	failure_say(&failure, "%s is a distributed table, %s", session->target->table, what);
	output_message(&failure);
	session_end(session);
	return NULL;
}

Session *
session_alone(const Options *options)
{
	Failure		failure;
	Session    *session = session_begin(options, &failure);

	if (session == NULL)
		output_message(&failure);
	return session;
}

Session *
session_more(const Options *options, const Target *target, Failure *failure)
{
	Session    *session = session_begin(options, failure);

	if (session != NULL)
		session->target = target;
	return session;
}

bool
session_recover(Session *session, Failure *failure)
{
	pgsf_close(session->handle);
	session->keeps_table = false;
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
	shard_forget(session);
	free(session->buffer);
	free(session);
}

int
session_leave(Session *session, bool good)
{
	bool		lost = PQstatus(session->conn) != CONNECTION_OK;

	session_end(session);
	return good ? EXIT_DONE : lost ? EXIT_SETUP : EXIT_SOME;
}
