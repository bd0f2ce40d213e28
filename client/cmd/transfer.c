/*-------------------------------------------------------------------------
 *
 * transfer.c
 *	  One file between this machine and the database, in constant memory.
 *
 * A file that fits the buffer is a parameter of one statement, which costs one round
 * trip; a longer file is a stream (libpgsecurefile).  Either way it is one transaction.
 *
 *-------------------------------------------------------------------------
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "copied.h"
#include "download.h"
#include "local.h"
#include "output.h"
#include "reserved.h"
#include "route.h"
#include "shard.h"
#include "source.h"
#include "statement.h"
#include "text.h"
#include "transfer.h"

/* What Citus can put into the text of a statement, in hexadecimal digits. */
#define WHOLE_BYTES		(268435440 / BUFFER_SIZE * BUFFER_SIZE)

/* What a statement through the coordinator carries in the time of its other work. */
#define THROUGH_BYTES	(8 * 1024)

/* ---- looking ---- */

bool
transfer_look(Session *session, const char *name, Stored *stored, Failure *failure)
{
	const Target *target = session->target;
	const char *const values[] = {name};
	PGresult   *result;
	int			rows;

	if (!reserved_refuse(name, failure))
		return false;
	if (!route_look(session, name, &rows, &result))
	{
		char	   *sql = text_make("SELECT pg_catalog.length(%s) FROM %s WHERE %s LIMIT 2",
									target->column, target->table, target->key_is_name);

		result = session_rows(session, failure, 1, sql, 1, values);
		rows = PQntuples(result);
		free(sql);
	}
	memset(stored, 0, sizeof(*stored));
	if (result == NULL)
		return false;
	stored->row = rows > 0;
	stored->file = rows > 0 && !PQgetisnull(result, 0, 0);
	if (stored->file)
		stored->length = strtoll(PQgetvalue(result, 0, 0), NULL, 10);
	PQclear(result);
	if (stored->length < 0)
		return failure_say(failure, "the server sent a length below 0");
	if (rows > 1)
		return failure_say(failure, "more than one row has that name");
	return true;
}

/* A hash of a stored file: the SHA-256 that is kept with it, or XXH3-64 of what was read. */
typedef struct StoredHash
{
	char		sha256[SHA256_HEX_SIZE];	/* "": none is kept */
	uint64_t	xxh3;
} StoredHash;

/* Ask for a hash at one place: of the shard, or of the table. */
static PGresult *
ask_hash(const Seat *seat, const Target *target, const char *name, bool kept, Failure *failure)
{
	const char *const values[] = {name};

	/* OFFSET keeps the inner statement apart: what is kept is asked once */
	char	   *sql = text_make("SELECT f.kept, CASE WHEN f.kept IS NULL THEN"
								" %s.securefile_hash_extended(f.file, 0::pg_catalog.int8) END"
								" FROM (SELECT %s, %s::%s.securefile FROM %s WHERE %s AND %s OFFSET 0)"
								" f (kept, file)", target->extension,
								kept ? target->kept_digest : "NULL",
								target->column, target->extension, seat->table,
								target->key_is_name, seat->condition);
	PGresult   *result = conn_rows(seat->conn, failure, 2, sql, 1, values);

	free(sql);
	return result;
}

/* Ask the server for a hash of the file of that name; kept: look for one that is kept, too. */
static bool
look_up_hash(Session *session, const char *name, bool kept, StoredHash *hash, Failure *failure)
{
	const Target *target = session->target;
	Seat		seat;
	PGresult   *result = NULL;
	bool		found;

	if (route_seat(session, &seat))
		result = ask_hash(&seat, target, name, kept, failure);
	if (PQntuples(result) != 1)
	{
		PQclear(result);
		session_let_go(session);
		seat = (Seat) {session->conn, target->table, "true"};
		result = ask_hash(&seat, target, name, kept, failure);
	}
	found = PQntuples(result) == 1 && !(PQgetisnull(result, 0, 0) && PQgetisnull(result, 0, 1));
	memset(hash, 0, sizeof(*hash));
	if (found)
	{
		snprintf(hash->sha256, sizeof(hash->sha256), "%s", PQgetvalue(result, 0, 0));
		hash->xxh3 = (uint64_t) strtoll(PQgetvalue(result, 0, 1), NULL, 10);
	}
	else if (result != NULL)
		failure_say(failure, PQntuples(result) > 1 ?
					"more than one row has that name" : "no file of that name");
	PQclear(result);
	return found;
}

bool
transfer_hash(Session *session, const char *name, uint64_t *hash, Failure *failure)
{
	StoredHash	stored;
	bool		found = look_up_hash(session, name, false, &stored, failure);

	*hash = stored.xxh3;
	return found;
}

/* Has the open file that hash? */
static bool
compare_hash(int fd, const StoredHash *stored, bool *same, Failure *failure)
{
	char		sha256[SHA256_HEX_SIZE];
	uint64_t	xxh3;

	if (stored->sha256[0] == '\0')
	{
		if (!local_hash(fd, &xxh3, failure))
			return false;
		*same = xxh3 == stored->xxh3;
		return true;
	}
	if (!local_sha256(fd, sha256, failure))
		return false;
	*same = strcmp(sha256, stored->sha256) == 0;
	return true;
}

bool
transfer_same(Session *session, const char *name, const Stored *stored, int fd,
			  int64_t length, bool *same, Failure *failure)
{
	StoredHash	hash;

	*same = false;
	if (stored->length != length)
		return true;
	if (!look_up_hash(session, name, true, &hash, failure) ||
		!compare_hash(fd, &hash, same, failure))
		return false;
	return lseek(fd, 0, SEEK_SET) == 0 || failure_errno(failure, "could not read the file");
}

/* ---- putting ---- */

/* Store all bytes in one statement. */
static bool
put_whole(Session *session, const Options *options, const char *name, bool row_exists,
		  const char *bytes, size_t length, Failure *failure)
{
	WholeFile	whole = statement_whole(session, options, name, row_exists, bytes, length);
	bool		stored = statement_execute(session, &whole, row_exists, failure);

	statement_free(&whole);
	return stored;
}

/* Store a file as a stream; bytes that were read ahead are its start. */
static bool
put_stream(Session *session, const Options *options, const char *name, bool row_exists,
		   Source *source, Failure *failure)
{
	const Target *target = session->target;
	char	   *sql = statement_put(session, options, row_exists, PGSF_VALUE);
	const char **values = statement_values(options, name);
	pgsf_params params = {options->nsets + 1, NULL, values, NULL, NULL};
	int64_t		bytes;

	bytes = pgsf_put_sparse(session->handle, source_next_sparse, source, source->total,
							target->store_table, target->plain_column, sql, &params, NULL);
	if (bytes < 0 && !source->failed)
		failure_pgsf(failure, session->handle);
	free(values);
	free(sql);
	return bytes >= 0;
}

/* Store a file of a distributed table on the node that has its shard. */
static bool
put_routed(Session *session, const Options *options, const char *name, bool row_exists,
		   Source *source, Failure *failure)
{
	char	   *empty = text_make("''::%s.securefile", session->target->extension);
	char	   *sql = row_exists && options->nsets == 0 ? NULL :
		statement_put(session, options, row_exists, empty);
	const char **values = statement_values(options, name);
	RoutedPut	put = {sql, options->nsets + 1, values, row_exists, source_next_sparse, source,
		source->total};
	int64_t		bytes = route_put(session, options, &put, failure);

	free(values);
	free(sql);
	free(empty);
	return bytes >= 0;
}

/*
 * Store a file that is too long for one read where it cannot be a stream: replaced, or of
 * unknown length, in a reference table, or where the nodes cannot be reached.  All of it has
 * to be in memory.
 */
static bool
put_in_memory(Session *session, const Options *options, const char *name, bool row_exists,
			  Source *source, Failure *failure)
{
	size_t		size = 0;
	char	   *bytes = NULL;
	int64_t		got = 0;
	bool		stored = false;

	do
	{
		char	   *more = size >= WHOLE_BYTES ? NULL : realloc(bytes, size + BUFFER_SIZE);

		if (more == NULL)
		{
			got = -1;
			failure_say(failure, "the file is too long to be stored in one statement\n"
						"Hint: Files of more than 256 MB need a distributed table with the extension securefile_citus, whose nodes can be reached from here.");
			break;
		}
		bytes = more;
		got = source_next(source, bytes + size, BUFFER_SIZE);
		size += got > 0 ? got : 0;
	} while (got > 0);
	if (got == 0)
		stored = put_whole(session, options, name, row_exists, bytes, size, failure);
	free(bytes);
	return stored;
}

/* Store a file through the coordinator: a new row by COPY, which has the higher limit. */
static bool
put_through(Session *session, const Options *options, const char *name, bool row_exists,
			Source *source, Failure *failure)
{
	int64_t		total = source->total;
	const char **values;
	CopiedRow	row = {options->nsets + 1, NULL, source_next, source, total};
	bool		stored;

	if (row_exists || total < 0 || total > COPIED_MOST)
		return put_in_memory(session, options, name, row_exists, source, failure);
	row.values = values = statement_values(options, name);
	stored = copied_put(session, options, &row, failure);
	free(values);
	return stored;
}

/* Store a long file, or a sparse one; its first bytes may have been read ahead. */
static bool
put_long(Session *session, const Options *options, const char *name, bool row_exists,
		 Source *source, Failure *failure)
{
	if (!session->target->distributed)
		return put_stream(session, options, name, row_exists, source, failure);
	if (session->target->routable && !session->no_routes)
	{
		if (put_routed(session, options, name, row_exists, source, failure))
			return true;
		if (source->done > 0 || !route_is_missing(session, failure))
			return false;
	}
	return put_through(session, options, name, row_exists, source, failure);
}

/*
 * Where the shard is known, a statement through the coordinator costs less than the way to the
 * shard for short files only.
 */
static bool
goes_to_shard(Session *session, int64_t length)
{
	return length > THROUGH_BYTES && !session->no_routes && shard_known(session) != NULL;
}

/* Read the file; if it fits the buffer, store it in one statement. */
static bool
put_read_ahead(Session *session, const Options *options, const char *name, bool row_exists,
			   Source *source, Failure *failure)
{
	int64_t		got = local_read(source->file.fd, session->buffer, BUFFER_SIZE);

	if (got < 0)
		return failure_errno(failure, "could not read the file");
	source->file.position += got;
	if (got == BUFFER_SIZE || goes_to_shard(session, got))
	{
		source->ahead = session->buffer;
		source->ahead_bytes = got;
		return put_long(session, options, name, row_exists, source, failure);
	}
	source->done = got;
	if (!source_check_unchanged(source) ||
		!put_whole(session, options, name, row_exists, session->buffer, got, failure))
		return false;
	progress_bytes(got);
	return true;
}

int64_t
transfer_put(Session *session, const Options *options, const char *name,
			 bool row_exists, int fd, Failure *failure)
{
	Source		source;
	bool		stored;

	if (!source_begin(&source, fd, failure))
		return -1;
	if (source.total >= BUFFER_SIZE || sparse_has_holes(&source.file))
		stored = put_long(session, options, name, row_exists, &source, failure);
	else
		stored = put_read_ahead(session, options, name, row_exists, &source, failure);
	return stored ? source.done : -1;
}

/* ---- getting ---- */

int64_t
transfer_get(Session *session, const char *name, int fd, Failure *failure)
{
	const Target *target = session->target;
	const char *const values[] = {name};
	pgsf_params params = {1, NULL, values, NULL, NULL};
	Download	to = {fd, 0};
	char	   *sql = text_make("SELECT %s FROM %s WHERE %s",
								target->column, target->table, target->key_is_name);
	int64_t		bytes = -1;
	bool		routed = target->routable && !session->no_routes;

	if (!reserved_refuse(name, failure))
	{
		free(sql);
		return -1;
	}
	if (routed)
	{
		bytes = route_get(session, name, &to, failure);
		routed = bytes >= 0 || to.done > 0 || !route_is_missing(session, failure);
	}
	if (!routed)
		bytes = download(&to, session->handle, sql, &params, failure);
	free(sql);
	if (bytes >= 0)
		return bytes;
	if (strcmp(failure->sqlstate, PGSF_ERROR_NOT_FOUND) == 0 ||
		strcmp(failure->sqlstate, PGSF_ERROR_NULL) == 0)
		failure_say(failure, "no file of that name");
	else if (strcmp(failure->sqlstate, PGSF_ERROR_MANY) == 0)
		failure_say(failure, "more than one row has that name");
	return bytes;
}
