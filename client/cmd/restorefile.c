/*-------------------------------------------------------------------------
 *
 * restorefile.c
 *	  One row of a dump with its file, into the table.
 *
 * The SHA-256 of the object is computed while it is read.  Of a short file it is compared before
 * the file is sent, of a long one before the last piece is: either way nothing else is stored.
 *
 *-------------------------------------------------------------------------
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "output.h"
#include "restore.h"
#include "sparse.h"
#include "text.h"

#define BYTEA_OID		17

/* What Citus can put into the text of a statement, in hexadecimal digits. */
#define WHOLE_BYTES		268435440

/* ---- parameters ---- */

static int
digit_of(char c)
{
	return c >= '0' && c <= '9' ? c - '0' : c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

/* A text that was no UTF-8; NULL: it is none. */
static char *
decode_hex(const char *hex)
{
	size_t		length = strlen(hex) / 2;
	char	   *text = malloc(length + 1);

	if (text == NULL)
		abort();
	for (size_t i = 0; i < length; i++)
	{
		int			high = digit_of(hex[2 * i]);
		int			low = digit_of(hex[2 * i + 1]);

		if (high < 0 || low < 0 || high + low == 0)
		{
			free(text);
			return NULL;
		}
		text[i] = (char) (high * 16 + low);
	}
	text[length] = '\0';
	return text;
}

/* A value of a row as text, or NULL for null.  False: it is neither. */
static bool
take_value(const json_t *value, char **text, Failure *failure)
{
	const char *hex = json_string_value(json_object_get(value, "hex"));

	*text = NULL;
	if (json_is_null(value))
		return true;
	if (json_is_string(value))
		*text = strdup(json_string_value(value));
	else if (hex != NULL)
		*text = decode_hex(hex);
	return *text != NULL || failure_say(failure, "a value in the manifest is no text");
}

char **
restore_values(const ManifestRow *row, const int *numbers, int count, Failure *failure)
{
	char	  **values = calloc(count + 1, sizeof(char *));

	if (values == NULL)
		abort();
	for (int i = 0; i < count; i++)
		if (!take_value(json_array_get(row->values, numbers[i]), &values[i], failure))
		{
			restore_free_values(values, count);
			return NULL;
		}
	return values;
}

void
restore_free_values(char **values, int count)
{
	for (int i = 0; values != NULL && i < count; i++)
		free(values[i]);
	free(values);
}

/* ---- statements ---- */

/* The parameters of the statement, before the file. */
static int
count_of(const RestoreStore *store)
{
	return store->row_exists ? store->table->nkeys : store->table->nvalues;
}

static char **
values_of(const RestoreStore *store, Failure *failure)
{
	return restore_values(store->row, store->row_exists ? store->table->keys : store->table->values,
						  count_of(store), failure);
}

static char *
statement_of(const RestoreStore *store, const char *file)
{
	const RestoreTable *table = store->table;

	if (store->row_exists)
		return text_make("UPDATE %s SET %s = %s WHERE %s", table->target.quoted_table,
						 table->target.quoted_column, file, table->key_is_given);
	return text_make("%s%s)", table->insert, file);
}

/* ---- short files ---- */

/* Read an object into memory, and compare its SHA-256; bytes has room for its length. */
static bool
read_object(int fd, const ManifestFile *file, char *bytes, Failure *failure)
{
	char		hex[SHA256_HEX_SIZE];
	Sha256	   *sum = sha256_begin();
	int64_t		got = local_read(fd, bytes, file->length);

	if (got < 0)
	{
		sha256_free(sum);
		return failure_errno(failure, "could not read the object");
	}
	(void) sha256_add(sum, bytes, got);
	if (!sha256_end(sum, hex))
		return failure_say(failure, "could not compute SHA-256");
	return strcmp(hex, file->sha256) == 0 ||
		failure_say(failure, "object %s is damaged: its SHA-256 is %s", file->sha256, hex);
}

/* Execute the statement with the file as its last parameter; bytes NULL: null. */
static bool
send_whole(Session *session, const RestoreStore *store, const char *bytes, Failure *failure)
{
	int			last = count_of(store);
	char	   *parameter = text_make("$%d", last + 1);
	char	   *sql = statement_of(store, parameter);
	char	  **values = values_of(store, failure);
	Oid		   *types = calloc(last + 1, sizeof(Oid));
	int		   *lengths = calloc(last + 1, sizeof(int));
	int		   *formats = calloc(last + 1, sizeof(int));
	PGresult   *result = NULL;
	bool		stored = false;

	if (types == NULL || lengths == NULL || formats == NULL)
		abort();
	if (values != NULL)
	{
		const char **all = (const char **) values;

		types[last] = BYTEA_OID;
		all[last] = bytes;
		lengths[last] = (int) store->row->file.length;
		formats[last] = 1;
		result = PQexecParams(session->conn, sql, last + 1, types, all, lengths, formats, 0);
		stored = PQresultStatus(result) == PGRES_COMMAND_OK;
		if (!stored)
			failure_sql(failure, session->conn, result);
		else if (strcmp(PQcmdTuples(result), "0") == 0)
			stored = failure_say(failure, "the statement stored no row");
	}
	PQclear(result);
	free(formats);
	free(lengths);
	free(types);
	restore_free_values(values, last);
	free(sql);
	free(parameter);
	return stored;
}

static bool
store_short(Session *session, int fd, const RestoreStore *store, Failure *failure)
{
	int64_t		length = store->row->file.length;
	char	   *bytes = length < BUFFER_SIZE ? session->buffer : malloc(length);
	bool		good;

	if (bytes == NULL)
		return failure_say(failure, "out of memory");
	good = read_object(fd, &store->row->file, bytes, failure) &&
		send_whole(session, store, bytes, failure);
	if (bytes != session->buffer)
		free(bytes);
	return good;
}

/* ---- long files ---- */

/* An object that is sent as a stream. */
typedef struct Stream
{
	SparseFile	file;
	const char *sha256;
	Sha256	   *sum;
	Failure    *failure;
	bool		failed;			/* failure says why */
} Stream;

/* The object has been read: is it the one? */
static bool
check_stream(Stream *stream)
{
	char		hex[SHA256_HEX_SIZE];
	bool		good = sha256_end(stream->sum, hex);

	stream->sum = NULL;
	if (!good)
		return failure_say(stream->failure, "could not compute SHA-256");
	return strcmp(hex, stream->sha256) == 0 ||
		failure_say(stream->failure, "object %s is damaged: its SHA-256 is %s",
					stream->sha256, hex);
}

/* A pgsf_sparse_source. */
static int64_t
next_piece(void *arg, void *buffer, size_t size, int64_t *hole)
{
	Stream	   *stream = arg;
	int64_t		got;

	*hole = sparse_hole(&stream->file);
	if (*hole > 0)
	{
		(void) sha256_add_zeros(stream->sum, *hole);
		progress_bytes(*hole);
		return 0;
	}
	got = sparse_read(&stream->file, buffer, size);
	if (got > 0)
	{
		(void) sha256_add(stream->sum, buffer, got);
		progress_bytes(got);
	}
	else if (got < 0)
		failure_errno(stream->failure, "could not read the object");
	stream->failed = got < 0 || (got == 0 && !check_stream(stream));
	return stream->failed ? -1 : got;
}

static bool
store_long(Session *session, int fd, const RestoreStore *store, Failure *failure)
{
	const RestoreTable *table = store->table;
	Stream		stream = {.sha256 = store->row->file.sha256, .failure = failure};
	char	   *sql = statement_of(store, PGSF_VALUE);
	char	  **values = values_of(store, failure);
	pgsf_params params = {count_of(store), NULL, (const char *const *) values, NULL, NULL};
	int64_t		bytes = -1;

	if (!sparse_begin(&stream.file, fd))
		failure_errno(failure, "could not read the object");
	else if (values != NULL)
	{
		stream.sum = sha256_begin();
		bytes = pgsf_put_sparse(session->handle, next_piece, &stream, store->row->file.length,
								table->store_table, table->target.column, sql, &params, NULL);
		if (bytes < 0 && !stream.failed)
			failure_pgsf(failure, session->handle);
		sha256_free(stream.sum);
	}
	restore_free_values(values, params.count);
	free(sql);
	return bytes >= 0;
}

/* ---- both ---- */

bool
restore_is_long(const RestoreStore *store)
{
	return store->row->file.sha256 != NULL && store->row->file.length >= BUFFER_SIZE;
}

bool
restore_store(Session *session, DumpDir *dir, const RestoreStore *store, Failure *failure)
{
	const ManifestFile *file = &store->row->file;
	int64_t		length;
	int			fd;
	bool		good = false;

	if (file->sha256 == NULL)
		return send_whole(session, store, NULL, failure);
	fd = object_open(dir, file->sha256, &length, failure);
	if (fd < 0)
		return false;
	if (length != file->length)
		failure_say(failure, "object %s is damaged: it has %lld bytes, not %lld", file->sha256,
					(long long) length, (long long) file->length);
	else if (!restore_is_long(store))
		good = store_short(session, fd, store, failure);
	else if (!store->table->target.distributed)
		good = store_long(session, fd, store, failure);
	else if (length > WHOLE_BYTES)
		failure_say(failure, "the file is too long to be stored in one statement\n"
					"Hint: Restore it to a table that is not distributed, and store it from there.");
	else
		good = store_short(session, fd, store, failure);
	close(fd);
	return good;
}
