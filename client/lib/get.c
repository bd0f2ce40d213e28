/*-------------------------------------------------------------------------
 *
 * get.c
 *	  Whole values, or parts, to a local file, to memory, or to a callback.
 *
 * One statement gives all pieces as rows, which are taken in single-row mode.  So a get
 * needs no handle of the server and no transaction around it, and runs on a standby.
 *
 *-------------------------------------------------------------------------
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "internal.h"

/* The destination of the bytes, and their source. */
typedef struct Get
{
	/* take bytes; -1 with the error set */
	int			(*take) (pgsf *h, struct Get *get, const char *data, int64_t len);

	int			fd;
	char	   *memory;
	pgsf_sink	sink;
	void	   *arg;

	int64_t		done;			/* bytes taken */
	int64_t		total;			/* known with the first row */

	int64_t		offset;
	int64_t		length;			/* -1: to the end */
	const char *sql;
	const pgsf_params *params;
} Get;

/*
 * The statement; the caller frees it.  generate_series gives a row even if the value
 * has no bytes to give; the columns before the piece are the same in all rows.
 */
static char *
get_sql(pgsf *h, const Get *get, int first_param)
{
	char	   *columns;
	char	   *sql;

	columns = pgsfi_sql(h, "n, pg_catalog.length(v), pg_catalog.generate_series(1, 1),"
						" %s.securefile_chunks(v, $%d, $%d, %d)", h->link->schema,
						first_param, first_param + 1, PIECE_BYTES);
	if (columns == NULL)
		return NULL;
	sql = pgsfi_sql_one_row(h, columns, get->sql);
	free(columns);
	return sql;
}

#define COLUMN_PIECE	3

/* Send the statement, with a sync behind it, and choose single-row mode for its result. */
static int
send_get(pgsf *h, const Get *get)
{
	Params		params;
	char	   *sql;
	int			rc = -1;

	if (pgsfi_params_start(h, &params, get->params) == 0)
	{
		sql = get_sql(h, get, params.given + 1);
		/* positions of the function count from 1 */
		pgsfi_params_int8(&params, get->offset + 1);
		pgsfi_params_int8(&params, get->length < 0 ? INT64_MAX - get->offset : get->length);
		rc = pgsfi_send(h, AWAITED_ANSWER, sql, &params.all, 1);
		free(sql);
	}
	pgsfi_params_free(&params);
	if (rc < 0 || pgsfi_sync(h) < 0)
		return -1;
	if (!PQsetSingleRowMode(h->link->conn))
		return pgsfi_fail(h, PGSF_ERROR_PROTOCOL, "could not set single-row mode");
	return 0;
}

/* The first row tells whether there is a value, and how long it is. */
static int
check_first(pgsf *h, Get *get, const PGresult *row)
{
	int64_t		length;

	if (row == NULL)
		return pgsfi_fail(h, PGSF_ERROR_NOT_FOUND, "the SELECT gave no row");
	if (pgsfi_check_row(h, row) < 0)
		return -1;
	length = pgsfi_get_int(row, 1);
	get->total = length > get->offset ? length - get->offset : 0;
	if (get->length >= 0 && get->length < get->total)
		get->total = get->length;
	return pgsfi_report(h, 0, get->total);
}

/* Hand the piece of a row to its destination. */
static int
take_row(pgsf *h, Get *get, const PGresult *row)
{
	int64_t		len = PQgetlength(row, 0, COLUMN_PIECE);

	if (len == 0)
		return 0;
	if (get->done + len > get->total)
		return pgsfi_fail(h, PGSF_ERROR_PROTOCOL, "the server sent more bytes than there are");
	if (get->take(h, get, PQgetvalue(row, 0, COLUMN_PIECE), len) < 0)
		return -1;
	get->done += len;
	return pgsfi_report(h, get->done, get->total);
}

/* Take all rows.  The first may be missing, which is an error that check_first() reports. */
static int
get_rows(pgsf *h, Get *get)
{
	PGresult   *row;
	bool		first = true;
	int			rc;

	do
	{
		if (pgsfi_next_row(h, &row) < 0)
			return -1;
		rc = first ? check_first(h, get, row) : 0;
		first = false;
		if (rc == 0 && row != NULL)
			rc = take_row(h, get, row);
		PQclear(row);
	} while (rc == 0 && row != NULL);
	if (rc == 0 && get->done < get->total)
		rc = pgsfi_fail(h, PGSF_ERROR_PROTOCOL, "the server sent fewer bytes than there are");
	return rc;
}

/* Send the statement and take its rows; after an error stop the server. */
static int
get_value(pgsf *h, Get *get)
{
	if (pgsfi_schema(h) < 0 || send_get(h, get) < 0)
		return -1;
	if (get_rows(h, get) < 0)
	{
		/* without that the server would send the rest of the value */
		if (h->link->queue_len > 1 && pgsfi_connected(h))
			pgsfi_ask_to_stop(h);
		return -1;
	}
	return pgsfi_release(h);
}

/* The common part of the three functions: check, get, or give up. */
static int64_t
run(pgsf *h, Get *get)
{
	if (get->sql == NULL || get->offset < 0 || get->length < -1 || get->offset == INT64_MAX)
		return pgsfi_fail(h, PGSF_ERROR_ARGUMENT,
						  "offset must not be negative, length not below -1, sql not NULL");
	if (pgsfi_check_select(h, get->sql, get->params) < 0 || pgsfi_enter(h) < 0)
		return -1;
	if (get_value(h, get) == 0)
		return get->done;
	return pgsfi_give_up(h);
}

/* ---- file ---- */

static int
take_to_file(pgsf *h, Get *get, const char *data, int64_t len)
{
	return pgsfi_local_write(h, get->fd, data, len);
}

int64_t
pgsf_get_fd(pgsf *h, int fd, int64_t offset, int64_t length,
			const char *sql, const pgsf_params *params)
{
	Get			get = {.take = take_to_file, .fd = fd, .offset = offset, .length = length,
	.sql = sql, .params = params};

	if (pgsfi_start_closed(h) < 0)
		return -1;
	return run(h, &get);
}

/* ---- memory ---- */

/* Allocates with the first piece; one byte more than the value has, which is zero. */
static int
take_to_memory(pgsf *h, Get *get, const char *data, int64_t len)
{
	if (get->memory == NULL)
		get->memory = malloc((size_t) get->total + 1);
	if (get->memory == NULL)
		return pgsfi_fail_memory(h);
	memcpy(get->memory + get->done, data, len);
	get->memory[get->done + len] = '\0';
	return 0;
}

int64_t
pgsf_get_memory(pgsf *h, void **data, size_t *data_len, int64_t offset, int64_t length,
				const char *sql, const pgsf_params *params)
{
	Get			get = {.take = take_to_memory, .offset = offset, .length = length,
	.sql = sql, .params = params};
	int64_t		rc;

	if (pgsfi_start_closed(h) < 0)
		return -1;
	if (data == NULL || data_len == NULL)
		return pgsfi_fail(h, PGSF_ERROR_ARGUMENT, "data and data_len must not be NULL");
	*data = NULL;
	*data_len = 0;
	rc = run(h, &get);
	if (rc == 0 && get.memory == NULL && (get.memory = calloc(1, 1)) == NULL)
		rc = pgsfi_fail_memory(h);
	if (rc < 0)
	{
		free(get.memory);
		return -1;
	}
	*data = get.memory;
	*data_len = (size_t) rc;
	return rc;
}

void
pgsf_free_memory(void *data)
{
	free(data);
}

/* ---- callback ---- */

static int
take_to_sink(pgsf *h, Get *get, const char *data, int64_t len)
{
	errno = 0;
	if (get->sink(get->arg, data, (size_t) len) == 0)
		return 0;
	pgsfi_fail(h, PGSF_ERROR_CALLBACK, "the sink of the bytes failed");
	h->error.errnum = errno;
	return -1;
}

int64_t
pgsf_get_callback(pgsf *h, pgsf_sink sink, void *arg, int64_t offset, int64_t length,
				  const char *sql, const pgsf_params *params)
{
	Get			get = {.take = take_to_sink, .sink = sink, .arg = arg, .offset = offset,
	.length = length, .sql = sql, .params = params};

	if (pgsfi_start_closed(h) < 0)
		return -1;
	if (sink == NULL)
		return pgsfi_fail(h, PGSF_ERROR_ARGUMENT, "sink must not be NULL");
	return run(h, &get);
}
