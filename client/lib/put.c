/*-------------------------------------------------------------------------
 *
 * put.c
 *	  Whole values from a local file, from memory, or from a callback.
 *
 *-------------------------------------------------------------------------
 */
#include <errno.h>
#include <stdlib.h>

#include "internal.h"

/* The source of the bytes, and their destination. */
typedef struct Put
{
	/*
	 * Give up to len bytes, in buf or by setting *data, which is buf at
	 * first; 0 at the end, -1 with the error set.
	 */
	int64_t		(*next) (pgsf *h, struct Put *put, char *buf, int64_t len,
						 const char **data);
	/* -1, with the error set, if the bytes must not be stored; may be NULL */
	int			(*check) (pgsf *h, struct Put *put);

	LocalFile	file;
	const char *memory;
	pgsf_source source;
	void	   *arg;

	int64_t		done;			/* bytes given */
	int64_t		total;			/* -1: not known */

	const char *table;
	const char *column;
	const char *sql;
	const pgsf_params *params;
	PGresult  **result;
} Put;

/* Write all bytes.  They come in whole pieces, which pgsfi_write() sends without gathering. */
static int
write_all(pgsf *h, Put *put)
{
	char	   *buf = malloc(PIECE_BYTES);
	int64_t		len = 0;

	if (buf == NULL)
		return pgsfi_fail_memory(h);
	do
	{
		const char *data = buf;

		len = pgsfi_report(h, h->taken, put->total);
		if (len == 0)
			len = put->next(h, put, buf, PIECE_BYTES, &data);
		if (len > 0)
			len = pgsfi_write(h, data, len) < 0 ? -1 : len;
		if (len > 0)
			put->done += len;
	} while (len > 0);
	free(buf);
	return (int) len;
}

/* Create the value, write it, check its source, and store it. */
static int
put_value(pgsf *h, Put *put)
{
	if (pgsfi_create(h, put->table, put->column) < 0 || write_all(h, put) < 0)
		return -1;
	if (put->check != NULL && put->check(h, put) < 0)
		return -1;

	/*
	 * the last report tells all bytes: wait for the server to take the last
	 * pieces
	 */
	if (h->progress != NULL &&
		(pgsfi_send_gathered(h) < 0 || pgsfi_finish(h, NULL) < 0 ||
		 pgsfi_report(h, h->taken, put->total) < 0))
		return -1;
	return pgsfi_store(h, put->sql, put->params, put->result);
}

/* The common part of the three functions: check, put, or give up. */
static int64_t
run(pgsf *h, Put *put)
{
	if (put->result != NULL)
		*put->result = NULL;
	if (pgsfi_check_storing(h, put->sql, put->params) < 0 || pgsfi_enter(h) < 0)
		return -1;
	if (put_value(h, put) < 0)
		return pgsfi_give_up(h);
	return put->done;
}

/* ---- file ---- */

static int64_t
next_of_file(pgsf *h, Put *put, char *buf, int64_t len, const char **data)
{
	(void) data;
	return pgsfi_local_read(h, &put->file, buf, len);
}

static int
check_file(pgsf *h, Put *put)
{
	return pgsfi_local_unchanged(h, &put->file, put->done);
}

int64_t
pgsf_put_fd(pgsf *h, int fd, const char *table, const char *column,
			const char *sql, const pgsf_params *params, PGresult **result)
{
	Put			put = {.next = next_of_file, .check = check_file, .table = table,
	.column = column, .sql = sql, .params = params, .result = result};

	if (pgsfi_start_closed(h) < 0 || pgsfi_local_start(h, &put.file, fd) < 0)
		return -1;
	put.total = pgsfi_local_left(&put.file);
	return run(h, &put);
}

/* ---- memory ---- */

static int64_t
next_of_memory(pgsf *h, Put *put, char *buf, int64_t len, const char **data)
{
	int64_t		left = put->total - put->done;

	(void) h;
	(void) buf;
	*data = put->memory + put->done;
	return left < len ? left : len;
}

int64_t
pgsf_put_memory(pgsf *h, const void *data, size_t len,
				const char *table, const char *column,
				const char *sql, const pgsf_params *params, PGresult **result)
{
	Put			put = {.next = next_of_memory, .memory = data, .total = (int64_t) len,
	.table = table, .column = column, .sql = sql, .params = params, .result = result};

	if (pgsfi_start_closed(h) < 0)
		return -1;
	if (len > INT64_MAX || (data == NULL && len > 0))
		return pgsfi_fail(h, PGSF_ERROR_ARGUMENT, "data must not be NULL");
	return run(h, &put);
}

/* ---- callback ---- */

/* Ask the callback; a number that is out of range is a failure of the callback. */
static int64_t
next_of_source(pgsf *h, Put *put, char *buf, int64_t len, const char **data)
{
	int64_t		given;

	(void) data;
	errno = 0;
	given = put->source(put->arg, buf, (size_t) len);
	if (given >= 0 && given <= len)
		return given;
	pgsfi_fail(h, PGSF_ERROR_CALLBACK, "the source of the bytes failed");
	h->error.errnum = errno;
	return -1;
}

int64_t
pgsf_put_callback(pgsf *h, pgsf_source source, void *arg, int64_t total,
				  const char *table, const char *column,
				  const char *sql, const pgsf_params *params, PGresult **result)
{
	Put			put = {.next = next_of_source, .source = source, .arg = arg,
		.total = total < 0 ? -1 : total,
	.table = table, .column = column, .sql = sql, .params = params, .result = result};

	if (pgsfi_start_closed(h) < 0)
		return -1;
	if (source == NULL)
		return pgsfi_fail(h, PGSF_ERROR_ARGUMENT, "source must not be NULL");
	return run(h, &put);
}
