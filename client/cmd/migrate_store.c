/*-------------------------------------------------------------------------
 *
 * migrate_store.c
 *	  The files of some rows, stored in them and compared.
 *
 * Short files are read first, and then stored in one transaction, which is short: it waits for
 * neither a disk of this machine nor a web server.  If one row cannot be stored the transaction
 * is rolled back, and each row gets one of its own.  A long file is a stream in its own one.
 *
 * The UPDATE wants the path that was read, and no value yet.  If the row has another path by now
 * it changes nothing, and the row is looked at again.  Before the commit the server is asked for
 * the SHA-256 of what it has stored, which has to be that of the bytes that were read here.
 *
 *-------------------------------------------------------------------------
 */
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "local.h"
#include "migrate.h"
#include "output.h"
#include "source.h"
#include "text.h"

#define BYTEA_OID		17
#define BATCH_BYTES		(4 * 1024 * 1024)
#define MAX_CHANGES		5		/* of the path of a row, while its file is
								 * read */
#define BEGIN_STORING	"BEGIN ISOLATION LEVEL READ COMMITTED READ WRITE"

/* A file that was opened, and of a short one its bytes. */
typedef struct Held
{
	const char *key;
	char	   *from;
	int			fd;				/* of a long file; -1: all bytes are here */
	Source		source;
	char	   *bytes;
	size_t		length;
	char		sha256[SHA256_HEX_SIZE];
} Held;

typedef enum Outcome
{
	OUTCOME_FAILED,
	OUTCOME_STORED,
	OUTCOME_NO_ROW				/* with that path and without a value */
} Outcome;

static void
let_go(Held *held)
{
	if (held->fd >= 0)
		close(held->fd);
	free(held->bytes);
	free(held->from);
	memset(held, 0, sizeof(*held));
	held->fd = -1;
}

/* ---- reading ---- */

static bool
hash_bytes(Held *held, Failure *failure)
{
	Sha256	   *sha = sha256_begin();

	sha256_add(sha, held->bytes, held->length);
	return sha256_end(sha, held->sha256) || failure_say(failure, "could not compute SHA-256");
}

/* Read an open file that is short; a long one stays open, and its first bytes are kept. */
static bool
read_ahead(Held *held, Failure *failure)
{
	int64_t		got;

	held->bytes = local_buffer(BUFFER_SIZE);
	got = local_read(held->fd, held->bytes, BUFFER_SIZE);
	if (got < 0)
		return failure_errno(failure, "could not read the file");
	held->length = got;
	held->source.file.position += got;
	if (got == BUFFER_SIZE)
	{
		held->source.ahead = held->bytes;
		held->source.ahead_bytes = got;
		return true;
	}
	held->source.done = got;
	progress_bytes(got);
	if (!source_check_unchanged(&held->source) || !hash_bytes(held, failure))
		return false;
	close(held->fd);
	held->fd = -1;
	held->bytes = realloc(held->bytes, got + 1);
	if (held->bytes == NULL)
		abort();
	return true;
}

/* Open the file of a row; all of a short one is read, and it is closed. */
static bool
hold(const Migrate *migrate, const char *key, const char *from, Held *held, Failure *failure)
{
	int64_t		length;

	*held = (Held)
	{
		.key = key, .from = text_make("%s", from), .fd = -1
	};
	held->source.failure = failure;
	if (key == NULL)
		return failure_say(failure, "the row of %s has no name", output_quoted(from));
	held->fd = migrate_open(migrate, from, &length, failure);
	if (held->fd < 0)
		return false;
	if (!sparse_begin(&held->source.file, held->fd))
		return failure_errno(failure, "could not look at the file");
	/* nobody else writes a file that was fetched */
	if (!url_is_one(from) && !source_settle(&held->source))
		return false;
	held->source.total = sparse_left(&held->source.file);
	return held->source.total >= BUFFER_SIZE || sparse_has_holes(&held->source.file) ||
		read_ahead(held, failure);
}

/* ---- storing, in a transaction ---- */

static char *
update_statement(const Migrate *migrate, const char *value)
{
	const Target *target = migrate->target;

	return text_make("UPDATE %s SET %s = %s WHERE %s AND %s IS NULL AND %s", target->table,
					 target->column, value, target->key_is_name, target->column,
					 migrate->is_from);
}

/* Store all bytes in one statement. */
static Outcome
store_bytes(Session *session, const Migrate *migrate, const Held *held, Failure *failure)
{
	char	   *sql = update_statement(migrate, "$3");
	const Oid	types[] = {0, 0, BYTEA_OID};
	const char *const values[] = {held->key, held->from, held->bytes};
	const int	lengths[] = {0, 0, (int) held->length};
	const int	formats[] = {0, 0, 1};
	PGresult   *result = PQexecParams(session->conn, sql, 3, types, values, lengths, formats, 0);
	Outcome		outcome = OUTCOME_FAILED;

	if (PQresultStatus(result) != PGRES_COMMAND_OK)
		failure_sql(failure, session->conn, result);
	else if (strcmp(PQcmdTuples(result), "1") == 0)
		outcome = OUTCOME_STORED;
	else if (strcmp(PQcmdTuples(result), "0") == 0)
		outcome = OUTCOME_NO_ROW;
	else
		failure_say(failure, "more than one row has that name");
	PQclear(result);
	free(sql);
	return outcome;
}

/* A source whose bytes are hashed on their way. */
typedef struct HashedSource
{
	Source	   *source;
	Sha256	   *sha;
} HashedSource;

/* A pgsf_sparse_source. */
static int64_t
next_hashed(void *arg, void *buffer, size_t size, int64_t *hole)
{
	HashedSource *hashed = arg;
	Source	   *source = hashed->source;
	int64_t		got = source_next_sparse(source, buffer, size, hole);

	source->failed = source->failed ||
		(*hole > 0 && !sha256_add_zeros(hashed->sha, *hole)) ||
		(got > 0 && !sha256_add(hashed->sha, buffer, got));
	return source->failed ? -1 : got;
}

/* Store a file as a stream. */
static Outcome
store_stream(Session *session, const Migrate *migrate, Held *held, Failure *failure)
{
	const Target *target = migrate->target;
	char	   *sql = update_statement(migrate, PGSF_VALUE);
	const char *const values[] = {held->key, held->from};
	const pgsf_params params = {2, NULL, values, NULL, NULL};
	HashedSource hashed = {&held->source, sha256_begin()};
	int64_t		bytes;
	bool		hashing;

	failure_say(failure, "could not compute SHA-256");
	held->source.failure = failure;
	bytes = pgsf_put_sparse(session->handle, next_hashed, &hashed, held->source.total,
							target->store_table, target->plain_column, sql, &params, NULL);
	hashing = sha256_end(hashed.sha, held->sha256);
	free(sql);
	if (bytes < 0 && !held->source.failed)
		failure_pgsf(failure, session->handle);
	if (bytes < 0)
		return strcmp(failure->sqlstate, PGSF_ERROR_NOT_FOUND) == 0 ?
			OUTCOME_NO_ROW : OUTCOME_FAILED;
	held->length = bytes;
	return hashing ? OUTCOME_STORED : OUTCOME_FAILED;
}

/* Has the server the bytes that were read here? */
static bool
check_stored(Session *session, const Migrate *migrate, const Held *held, Failure *failure)
{
	MigrateLook look;
	bool		good = migrate_look(session, migrate, held->key, migrate->target->digest, &look,
									failure);

	if (good && strcmp(look.sha256, held->sha256) != 0)
		good = failure_say(failure,
						   "the server has stored other bytes than those that were read: "
						   "SHA-256 %s, not %s",
						   look.sha256, held->sha256);
	free(look.from);
	return good;
}

static Outcome
store(Session *session, const Migrate *migrate, Held *held, Failure *failure)
{
	Outcome		outcome = held->fd >= 0 ? store_stream(session, migrate, held, failure) :
		store_bytes(session, migrate, held, failure);

	if (outcome == OUTCOME_STORED && !check_stored(session, migrate, held, failure))
		return OUTCOME_FAILED;
	return outcome;
}

/* ---- a row ---- */

/*
 * Store a file in a transaction of its own; after anything but success there is none any more.
 * *lost: the connection was, and another one was made.
 */
static Outcome
store_alone(Session *session, const Migrate *migrate, Held *held, bool *lost, Failure *failure)
{
	Outcome		outcome = OUTCOME_FAILED;
	Failure		ignored;

	if (session_do(session, failure, BEGIN_STORING))
		outcome = store(session, migrate, held, failure);
	if (outcome == OUTCOME_STORED && !session_do(session, failure, "COMMIT"))
		outcome = OUTCOME_FAILED;
	*lost = PQstatus(session->conn) != CONNECTION_OK;
	if (outcome != OUTCOME_STORED)
		*lost = session_recover(session, &ignored) && *lost;
	return outcome;
}

/*
 * No row had that path and no value: look why.  True: the row has another path now, which was
 * opened.  False, with *tell: the user has to be told the failure.
 */
static bool
hold_again(Session *session, const Migrate *migrate, Held *held, bool *tell, Failure *failure)
{
	const char *key = held->key;
	MigrateLook look;
	bool		again = false;

	*tell = !migrate_look(session, migrate, key, NULL, &look, failure);
	if (!*tell && (!look.there || look.done || look.from == NULL))
		output_file(key, look.done ? ACTION_SAME : ACTION_SKIPPED, 0);
	else if (!*tell && strcmp(look.from, held->from) == 0)
	{
		failure_say(failure, "the statement stored no row");
		*tell = true;
	}
	else if (!*tell)
	{
		let_go(held);
		again = hold(migrate, key, look.from, held, failure);
		*tell = !again;
	}
	free(look.from);
	return again;
}

/* The connection was lost: open the same file again, which may have been read in part. */
static bool
hold_anew(const Migrate *migrate, Held *held, Failure *failure)
{
	const char *key = held->key;
	char	   *from = text_make("%s", held->from);
	bool		good;

	let_go(held);
	good = hold(migrate, key, from, held, failure);
	free(from);
	return good;
}

/* Store the file of a row, which may change meanwhile, and tell the user. */
static void
store_row(Session *session, const Migrate *migrate, Held *held)
{
	Failure		failure;
	bool		tell = false;
	bool		was_lost = false;

	for (int changes = 0;; changes++)
	{
		bool		lost;
		Outcome		outcome = store_alone(session, migrate, held, &lost, &failure);

		tell = outcome == OUTCOME_FAILED;
		if (outcome == OUTCOME_STORED)
			output_file(held->key, ACTION_PUT, held->length);
		if (tell && lost && !was_lost && hold_anew(migrate, held, &failure))
		{
			was_lost = true;
			continue;
		}
		if (outcome == OUTCOME_NO_ROW && changes == MAX_CHANGES)
			tell = !failure_say(&failure, "the path of the row keeps changing");
		else if (outcome == OUTCOME_NO_ROW &&
				 hold_again(session, migrate, held, &tell, &failure))
			continue;
		break;
	}
	if (tell)
		output_failed(held->key, &failure);
}

/* ---- a batch ---- */

/* Files that are read, and stored in one transaction. */
typedef struct Batch
{
	Held	   *held;
	size_t		count;
	size_t		bytes;
} Batch;

/* Store them together, and note what became of each; false: none is stored. */
static bool
store_together(Session *session, const Migrate *migrate, Batch *batch, Outcome *outcomes)
{
	Failure		failure;
	bool		good = session_do(session, &failure, BEGIN_STORING);

	for (size_t i = 0; good && i < batch->count; i++)
	{
		outcomes[i] = store(session, migrate, &batch->held[i], &failure);
		good = outcomes[i] != OUTCOME_FAILED;
	}
	if (good && session_do(session, &failure, "COMMIT"))
		return true;
	(void) session_recover(session, &failure);
	return false;
}

/* Store the files of a batch, and tell the user; then it is empty. */
static void
store_batch(Session *session, const Migrate *migrate, Batch *batch)
{
	Outcome    *outcomes = calloc(batch->count + 1, sizeof(Outcome));
	bool		together;

	if (outcomes == NULL)
		abort();
	together = batch->count > 1 && store_together(session, migrate, batch, outcomes);
	for (size_t i = 0; i < batch->count; i++)
	{
		Held	   *held = &batch->held[i];

		if (output_stopped() || session->lost)
			;					/* no file can be done */
		else if (!together || outcomes[i] != OUTCOME_STORED)
			store_row(session, migrate, held);
		else
			output_file(held->key, ACTION_PUT, held->length);
		let_go(held);
	}
	free(outcomes);
	batch->count = 0;
	batch->bytes = 0;
}

/* Read the file of a row into the batch, which is stored when it is full; a long file at once. */
static void
add_row(Session *session, const Migrate *migrate, const MigrateRow *row, Batch *batch)
{
	Held	   *held = &batch->held[batch->count];
	Failure		failure;

	if (!hold(migrate, row->key, row->from, held, &failure))
		output_failed(row->key != NULL ? row->key : "", &failure);
	else if (held->fd >= 0)
		store_row(session, migrate, held);
	else
	{
		batch->count++;
		batch->bytes += held->length;
		if (batch->bytes >= BATCH_BYTES)
			store_batch(session, migrate, batch);
		return;
	}
	let_go(held);
}

bool
migrate_store(Session *session, const Migrate *migrate, size_t first, size_t count)
{
	Batch		batch = {calloc(count, sizeof(Held)), 0, 0};

	if (batch.held == NULL)
		abort();
	for (size_t i = 0; i < count && !session->lost && !output_stopped(); i++)
	{
		add_row(session, migrate, &migrate->rows[first + i], &batch);
		/* the caller counts the last one */
		if (i > 0)
			progress_file();
	}
	store_batch(session, migrate, &batch);
	free(batch.held);
	return !session->lost;
}
