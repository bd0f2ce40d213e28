/*-------------------------------------------------------------------------
 *
 * batch.c
 *	  Many short files in one transaction.
 *
 * The statements of a batch are sent without waiting for answers (libpq's pipeline mode), each
 * with one file, which is all that is in memory.  Each file is a statement of its own, so that
 * triggers, rules and views see what they see of a file alone.
 *
 * After a statement that failed the server does none of the others.  Then the files before it,
 * which are known to be good, become the next batch, the file itself is stored alone, and the
 * batches after it are half as long, until one succeeds.  So a file that fails is told of with
 * the reason that it has when it is alone; and if all fail, each is sent three times at most.
 *
 *-------------------------------------------------------------------------
 */
#include <sys/socket.h>

#include "answer.h"
#include "batch.h"

typedef struct Batch
{
	Session    *session;
	const BatchWork *work;
	void	   *arg;
	BatchFile  *files;
	bool		look_again;		/* the user was not told of a file */
} Batch;

/* No statement of a batch has failed. */
#define NONE	SIZE_MAX

static void
tell_failed(BatchFile *file, const Failure *failure)
{
	output_failed(file->name, failure);
	file->told = true;
}

static void
tell_stored(BatchFile *file)
{
	progress_bytes(file->bytes);
	output_file(file->name, file->action, file->bytes);
	file->told = true;
}

/* ---- a file alone ---- */

/* Store a file in a transaction of its own; the session is recovered after a failure. */
static void
store_alone(Batch *batch, BatchFile *file)
{
	Session    *session = batch->session;
	Failure		failure;
	Failure		ignored;

	batch->work->store(session, batch->arg, file, &failure);
	if (file->bytes >= 0)
	{
		output_file(file->name, file->action, file->bytes);
		file->told = true;
		return;
	}
	if (batch->work->looks_again && !file->row_exists && failure_is_duplicate(&failure))
		batch->look_again = true;
	else
		tell_failed(file, &failure);
	if (PQstatus(session->conn) == CONNECTION_OK)
		(void) session_recover(session, &ignored);
}

/* ---- sending ---- */

static bool
send_text(Session *session, const char *sql)
{
	return PQsendQueryParams(session->conn, sql, 0, NULL, NULL, NULL, NULL, 0) == 1;
}

bool
batch_send(Session *session, const WholeFile *whole, bool prepare)
{
	return (!prepare ||
			PQsendPrepare(session->conn, "", whole->sql, whole->count, whole->types) == 1) &&
		PQsendQueryPrepared(session->conn, "", whole->count, whole->values, whole->lengths,
							whole->formats, 0) == 1;
}

/* Read a file and send it.  A file that cannot be read is told of and left out. */
static bool
send_file(const Batch *batch, BatchFile *file, bool prepare)
{
	Failure		failure;
	bool		sent;

	file->sent = false;
	sent = batch->work->send(batch->session, batch->arg, file, prepare, &failure);
	if (file->bytes < 0)
		tell_failed(file, &failure);
	return sent;
}

/*
 * Send a transaction with the files from first on; the prepared statement has no name, so that
 * it is nobody else's, whatever stands between this connection and the server.
 */
static bool
send_all(const Batch *batch, size_t first, size_t count)
{
	Session    *session = batch->session;
	const BatchFile *before = NULL;
	bool		sent = send_text(session, "BEGIN");

	for (size_t i = first; sent && i < first + count; i++)
	{
		BatchFile  *file = &batch->files[i];

		if (file->told)
			continue;
		sent = send_file(batch, file,
						 before == NULL || before->row_exists != file->row_exists);
		if (file->sent)
			before = file;
	}
	return sent && send_text(session, "COMMIT") && PQpipelineSync(session->conn) == 1;
}

/* ---- answers ---- */

/* The answer to the next statement, without the NULL behind it. */
static PGresult *
next_answer(PGconn *conn)
{
	PGresult   *result = PQgetResult(conn);

	if (result != NULL && PQresultStatus(result) != PGRES_PIPELINE_SYNC &&
		!answer_is_copy(PQresultStatus(result)))
		PQclear(PQgetResult(conn));
	return result;
}

/* Was the next statement done? */
static bool
take_done(PGconn *conn)
{
	PGresult   *result = next_answer(conn);
	bool		done = PQresultStatus(result) == PGRES_COMMAND_OK;

	PQclear(result);
	return done;
}

/* Take the answer of a file that was sent; a statement that stores no row is told of. */
static bool
take_file(const Batch *batch, BatchFile *file)
{
	Failure		failure;
	PGresult   *result = next_answer(batch->session->conn);
	bool		done = PQresultStatus(result) == PGRES_COMMAND_OK;

	if (done && !statement_stored(batch->session, result, file->row_exists, &failure))
	{
		tell_failed(file, &failure);
		file->sent = false;
	}
	PQclear(result);
	return done;
}

/* Take all answers; returns the place of the first file that failed, count for COMMIT, or NONE. */
static size_t
take_all(const Batch *batch, size_t first, size_t count)
{
	PGconn	   *conn = batch->session->conn;
	const BatchFile *before = NULL;
	size_t		failed = take_done(conn) ? NONE : 0;

	for (size_t i = first; i < first + count; i++)
	{
		BatchFile  *file = &batch->files[i];
		bool		done;

		if (!file->sent || file->told)
			continue;
		done = before != NULL && before->row_exists == file->row_exists;
		before = file;
		done = done || take_done(conn);
		if ((!take_file(batch, file) || !done) && failed == NONE)
			failed = i - first;
	}
	return take_done(conn) || failed != NONE ? failed : count;
}

/* Leave the pipeline; a server that sends something else than it should is no longer asked. */
static void
leave_pipeline(PGconn *conn)
{
	PGresult   *result = next_answer(conn);
	bool		in_step = PQresultStatus(result) == PGRES_PIPELINE_SYNC;

	PQclear(result);
	if (PQstatus(conn) == CONNECTION_OK && !(in_step && PQexitPipelineMode(conn) == 1))
	{
		(void) shutdown(PQsocket(conn), SHUT_RDWR);
		(void) PQconsumeInput(conn);
	}
}

/* Store files in one transaction; returns as take_all(). */
static size_t
store_together(const Batch *batch, size_t first, size_t count)
{
	PGconn	   *conn = batch->session->conn;
	size_t		failed = 0;

	if (PQenterPipelineMode(conn) != 1)
		return 0;
	if (send_all(batch, first, count))
		failed = take_all(batch, first, count);
	leave_pipeline(conn);
	for (size_t i = first; failed == NONE && i < first + count; i++)
		if (!batch->files[i].told && batch->files[i].sent)
			tell_stored(&batch->files[i]);
	return failed;
}

/* Store those that have become too long for a batch since the tree was walked. */
static void
store_rest(Batch *batch, size_t first, size_t count)
{
	for (size_t i = first; i < first + count; i++)
		if (!batch->files[i].told && !output_stopped() &&
			PQstatus(batch->session->conn) == CONNECTION_OK)
			store_alone(batch, &batch->files[i]);
}

/* How much of a batch is stored, and how to go on. */
typedef struct Pace
{
	size_t		first;			/* the next file */
	size_t		limit;			/* of files in the next transaction */
	size_t		suspect;		/* a file that has failed with others: it is
								 * stored alone, and those before it without
								 * it */
} Pace;

static size_t
next_count(const Pace *pace, size_t count)
{
	size_t		end = pace->first == pace->suspect ? pace->first + 1 :
		pace->first < pace->suspect && pace->suspect < count ? pace->suspect : count;
	size_t		some = end - pace->first;

	return some < pace->limit ? some : pace->limit;
}

/* So many files were tried; failed as take_all() says. */
static void
go_on(Pace *pace, size_t some, size_t failed, bool all_stored)
{
	if (failed == NONE)
	{
		pace->first += some;
		if (all_stored)
			pace->limit *= 2;
		return;
	}
	pace->limit = (some + 1) / 2;
	if (failed < some)
		pace->suspect = pace->first + failed;
}

bool
batch_store(Session *session, const BatchWork *work, void *arg, BatchFile *files, size_t count)
{
	Batch		batch = {session, work, arg, files, false};
	Pace		pace = {0, count, SIZE_MAX};
	Failure		ignored;

	while (pace.first < count)
	{
		size_t		first = pace.first;
		size_t		some = next_count(&pace, count);
		size_t		failed = some == 1 ? NONE : store_together(&batch, first, some);

		if (failed == NONE)
			store_rest(&batch, first, some);
		if (PQstatus(session->conn) != CONNECTION_OK || output_stopped())
			return false;
		if (failed != NONE)
			(void) session_recover(session, &ignored);
		go_on(&pace, some, failed, some > 1 || files[first].bytes >= 0);
	}
	return !batch.look_again;
}
