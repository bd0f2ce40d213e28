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

/* The statement with the file as its last parameter; bytes NULL: null. */
static bool
make_whole(const RestoreStore *store, const char *bytes, WholeFile *whole, Failure *failure)
{
	int			count = count_of(store);
	char	  **values = values_of(store, failure);
	char	   *parameter;

	if (values == NULL)
		return false;
	parameter = text_make("$%d", count + 1);
	*whole = statement_with(statement_of(store, parameter), (const char **) values, count, bytes,
							store->row->file.length);
	whole->owns_texts = true;
	free(parameter);
	return true;
}

/* Open the object of a row; it must have the length of the file. */
static int
open_object(DumpDir *dir, const ManifestFile *file, Failure *failure)
{
	int64_t		length;
	int			fd = object_open(dir, file->sha256, &length, failure);

	if (fd < 0 || length == file->length)
		return fd;
	failure_say(failure, "object %s is damaged: it has %lld bytes, not %lld", file->sha256,
				(long long) length, (long long) file->length);
	close(fd);
	return -1;
}

/* The same with the bytes of the object, for which there is room. */
static bool
read_whole(DumpDir *dir, const RestoreStore *store, char *bytes, WholeFile *whole,
		   Failure *failure)
{
	int			fd = open_object(dir, &store->row->file, failure);
	bool		good = fd >= 0 && read_object(fd, &store->row->file, bytes, failure) &&
		make_whole(store, bytes, whole, failure);

	if (fd >= 0)
		close(fd);
	return good;
}

bool
restore_whole(Session *session, DumpDir *dir, const RestoreStore *store, WholeFile *whole,
			  Failure *failure)
{
	if (store->row->file.sha256 == NULL)
		return make_whole(store, NULL, whole, failure);
	return read_whole(dir, store, session->buffer, whole, failure);
}

static bool
execute(Session *session, const RestoreStore *store, WholeFile *whole, Failure *failure)
{
	bool		stored = statement_execute(session, whole, store->row_exists, failure);

	statement_free(whole);
	return stored;
}

/* Store a file of a distributed table, however long it is, in one statement. */
static bool
store_whole(Session *session, DumpDir *dir, const RestoreStore *store, Failure *failure)
{
	WholeFile	whole;
	char	   *bytes;
	bool		stored;

	if (store->row->file.length > WHOLE_BYTES)
		return failure_say(failure, "the file is too long to be stored in one statement\n"
						   "Hint: Restore it to a table that is not distributed, and store it from there.");
	bytes = malloc(store->row->file.length);
	if (bytes == NULL)
		return failure_say(failure, "out of memory");
	stored = read_whole(dir, store, bytes, &whole, failure) &&
		execute(session, store, &whole, failure);
	free(bytes);
	return stored;
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
send_stream(Session *session, int fd, const RestoreStore *store, Failure *failure)
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

static bool
store_long(Session *session, DumpDir *dir, const RestoreStore *store, Failure *failure)
{
	int			fd = open_object(dir, &store->row->file, failure);
	bool		stored = fd >= 0 && send_stream(session, fd, store, failure);

	if (fd >= 0)
		close(fd);
	return stored;
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
	WholeFile	whole;

	if (restore_is_long(store))
		return store->table->target.distributed ? store_whole(session, dir, store, failure) :
			store_long(session, dir, store, failure);
	return restore_whole(session, dir, store, &whole, failure) &&
		execute(session, store, &whole, failure);
}
