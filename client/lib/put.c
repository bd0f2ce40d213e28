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
	 * first; 0 at the end, -1 with the error set.  With 0 it may set hole,
	 * which is 0 at first: so many zeros come next.
	 */
	int64_t		(*next) (pgsf *h, struct Put *put, char *buf, int64_t len,
						 const char **data);
	/* -1, with the error set, if the bytes must not be stored; may be NULL */
	int			(*check) (pgsf *h, struct Put *put);

	LocalFile	file;
	const char *memory;
	pgsf_source source;
	pgsf_sparse_source sparse_source;
	void	   *arg;

	int64_t		done;			/* bytes given, holes among them */
	int64_t		hole;			/* that was given last */
	int64_t		skipped;		/* bytes of all holes */
	int64_t		total;			/* -1: not known */

	const char *table;
	const char *column;
	const char *sql;
	const pgsf_params *params;
	PGresult  **result;
} Put;

/* Tell how much is done: holes are, as soon as they are found. */
static int
report(pgsf *h, const Put *put)
{
	PGSF_ASSERT(h->taken + put->skipped <= put->done);
	return pgsfi_report(h, h->taken + put->skipped, put->total);
}

/* Leave a hole out; returns its length. */
static int64_t
leave_out(pgsf *h, Put *put)
{
	if (put->hole > INT64_MAX - h->position)
		return pgsfi_fail(h, "54000", "a value cannot be longer than 2^63 - 1 bytes");
	h->position += put->hole;
	put->skipped += put->hole;
	return put->hole;
}

/*
 * Write the next bytes, or leave a hole out; returns their number, 0 at the end.  They come in
 * whole pieces, which pgsfi_write() sends without gathering.
 */
static int64_t
write_next(pgsf *h, Put *put, char *buf)
{
	const char *data = buf;
	int64_t		len;

	put->hole = 0;
	len = put->next(h, put, buf, PIECE_BYTES - h->position % PIECE_BYTES, &data);
	PGSF_ASSERT(len <= PIECE_BYTES - h->position % PIECE_BYTES);
	if (len > 0)
		len = pgsfi_write(h, data, len) < 0 ? -1 : len;
	else if (len == 0 && put->hole > 0)
		len = leave_out(h, put);
	if (len > 0)
		put->done += len;
	return len;
}

/* Write all bytes; a hole at the end is made by the length. */
static int
write_all(pgsf *h, Put *put)
{
	char	   *buf = aligned_alloc(BUFFER_ALIGNMENT, PIECE_BYTES);
	int64_t		len;

	if (buf == NULL)
		return pgsfi_fail_memory(h);
	do
	{
		len = report(h, put);
		if (len == 0)
			len = write_next(h, put, buf);
	} while (len > 0);
	free(buf);
	if (len == 0 && h->position > h->length)
		return pgsfi_truncate(h, h->position);
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
		 report(h, put) < 0))
		return -1;
	return pgsfi_store(h, put->sql, put->params, put->result);
}

/* The common part of the three functions: check, put, or give up. */
static int64_t
run_put(pgsf *h, Put *put)
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
	put->hole = pgsfi_holes_skip(&put->file);
	return put->hole > 0 ? 0 : pgsfi_local_read(h, &put->file, buf, len);
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
	return run_put(h, &put);
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
	return run_put(h, &put);
}

/* ---- callback ---- */

/* What the callback gave; a number that is out of range is a failure of the callback. */
static int64_t
given_by_source(pgsf *h, const Put *put, int64_t given, int64_t len)
{
	if (given >= 0 && given <= len && put->hole >= 0 && (given == 0 || put->hole == 0))
		return given;
	pgsfi_fail(h, PGSF_ERROR_CALLBACK, "the source of the bytes failed");
	h->error.errnum = errno;
	return -1;
}

static int64_t
next_of_source(pgsf *h, Put *put, char *buf, int64_t len, const char **data)
{
	(void) data;
	errno = 0;
	return given_by_source(h, put, put->source(put->arg, buf, (size_t) len), len);
}

static int64_t
next_of_sparse_source(pgsf *h, Put *put, char *buf, int64_t len, const char **data)
{
	(void) data;
	errno = 0;
	return given_by_source(h, put, put->sparse_source(put->arg, buf, (size_t) len, &put->hole),
						   len);
}

/* The common part of the two functions. */
static int64_t
put_from_source(pgsf *h, Put *put, bool has_source)
{
	if (pgsfi_start_closed(h) < 0)
		return -1;
	if (!has_source)
		return pgsfi_fail(h, PGSF_ERROR_ARGUMENT, "source must not be NULL");
	return run_put(h, put);
}

int64_t
pgsf_put_callback(pgsf *h, pgsf_source source, void *arg, int64_t total,
				  const char *table, const char *column,
				  const char *sql, const pgsf_params *params, PGresult **result)
{
	Put			put = {.next = next_of_source, .source = source, .arg = arg,
		.total = total < 0 ? -1 : total,
		.table = table, .column = column, .sql = sql, .params = params, .result = result};

	return put_from_source(h, &put, source != NULL);
}

int64_t
pgsf_put_sparse(pgsf *h, pgsf_sparse_source source, void *arg, int64_t total,
				const char *table, const char *column,
				const char *sql, const pgsf_params *params, PGresult **result)
{
	Put			put = {.next = next_of_sparse_source, .sparse_source = source, .arg = arg,
		.total = total < 0 ? -1 : total,
		.table = table, .column = column, .sql = sql, .params = params, .result = result};

	return put_from_source(h, &put, source != NULL);
}
