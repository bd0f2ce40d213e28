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
	/* take bytes, or a hole; all have come; -1 with the error set */
	int			(*take) (pgsf *h, struct Get *get, const char *data, int64_t len);
	int			(*take_hole) (pgsf *h, struct Get *get, int64_t len);
	int			(*end) (pgsf *h, struct Get *get);
	int64_t		hole_bytes;		/* it takes holes in pieces of so many bytes */

	LocalSink	file;
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

/* Columns of the statement. */
enum
{
	COLUMN_ROWS,				/* of the SELECT */
	COLUMN_LENGTH,				/* of the value */
	COLUMN_ROW,
	COLUMN_START,				/* where the piece begins */
	COLUMN_PIECE,
	NUM_COLUMNS
};

/*
 * The statement; the caller frees it.  generate_series gives a row even if the value
 * has no bytes to give; the columns before it are the same in all rows.
 */
static char *
get_sql(pgsf *h, const Get *get, int first_param)
{
	const char *schema = h->link->schema;
	int			second_param = first_param + 1;
	char	   *columns = pgsfi_sql(h, "n, pg_catalog.length(v), pg_catalog.generate_series(1, 1),"
									" %s.securefile_data_starts(v, $%d, $%d, %d),"
									" %s.securefile_data_chunks(v, $%d, $%d, %d)",
									schema, first_param, second_param, PIECE_BYTES,
									schema, first_param, second_param, PIECE_BYTES);
	char	   *sql;

	if (columns == NULL)
		return NULL;
	sql = pgsfi_sql_one_row(h, columns, get->sql);
	free(columns);
	return sql;
}

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
	if (pgsfi_check_row(h, row, NUM_COLUMNS) < 0)
		return -1;
	length = pgsfi_get_int(row, COLUMN_LENGTH);
	get->total = length > get->offset ? length - get->offset : 0;
	if (get->length >= 0 && get->length < get->total)
		get->total = get->length;
	return pgsfi_report(h, 0, get->total);
}

/* Hand a hole to its destination.  It may be longer than any data, and can be cancelled. */
static int
take_hole(pgsf *h, Get *get, int64_t len)
{
	while (len > 0)
	{
		int64_t		n = len < get->hole_bytes ? len : get->hole_bytes;

		if (get->take_hole(h, get, n) < 0)
			return -1;
		get->done += n;
		len -= n;
		if (pgsfi_report(h, get->done, get->total) < 0)
			return -1;
	}
	return 0;
}

/* Where the piece of a row begins, from the offset of the get on; -1 if it cannot be there. */
static int64_t
start_of(const Get *get, const PGresult *row, int64_t len)
{
	int64_t		start = pgsfi_get_int(row, COLUMN_START);

	start = start > get->offset ? start - get->offset - 1 : -1;
	return start >= get->done && start <= get->total && len <= get->total - start ? start : -1;
}

/* Is it on the border of a unit of the value? */
static bool
is_border(const Get *get, int64_t at)
{
	return (get->offset + at) % PGSF_UNIT_BYTES == 0;
}

/*
 * Hand what lies before a piece, or the end, to its destination.  Only whole units are left
 * out, as far as they were asked for: else a row was cut short.
 */
static int
take_gap(pgsf *h, Get *get, int64_t until)
{
	PGSF_ASSERT(until >= get->done && until <= get->total);
	if (until > get->done && ((get->done > 0 && !is_border(get, get->done)) ||
							  (until < get->total && !is_border(get, until))))
		return pgsfi_fail(h, PGSF_ERROR_PROTOCOL, "the server left out bytes that are no hole");
	return take_hole(h, get, until - get->done);
}

/* Hand the piece of a row, and the hole before it, to their destination. */
static int
take_row(pgsf *h, Get *get, const PGresult *row)
{
	int64_t		len = PQgetlength(row, 0, COLUMN_PIECE);
	int64_t		start;

	if (PQnfields(row) != NUM_COLUMNS || PQfformat(row, COLUMN_PIECE) != 1)
		return pgsfi_fail(h, PGSF_ERROR_PROTOCOL, "the server sent a row of another form");
	start = start_of(get, row, len);
	if (start < 0)
		return pgsfi_fail(h, PGSF_ERROR_PROTOCOL, "the server sent more bytes than there are");
	if (take_gap(h, get, start) < 0)
		return -1;
	if (get->take(h, get, PQgetvalue(row, 0, COLUMN_PIECE), len) < 0)
		return -1;
	get->done += len;
	return pgsfi_report(h, get->done, get->total);
}

/* Take a row; only the first one may have no bytes. */
static int
take_any_row(pgsf *h, Get *get, const PGresult *row, bool first)
{
	if (first && check_first(h, get, row) < 0)
		return -1;
	if (row == NULL)
		return 0;
	if (PQgetlength(row, 0, COLUMN_PIECE) > 0)
		return take_row(h, get, row);
	return first ? 0 : pgsfi_fail(h, PGSF_ERROR_PROTOCOL, "the server sent an empty piece");
}

/* All rows have come: what is left is a hole. */
static int
end_rows(pgsf *h, Get *get)
{
	if (take_gap(h, get, get->total) < 0)
		return -1;
	PGSF_ASSERT(get->done == get->total);
	return get->end == NULL ? 0 : get->end(h, get);
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
		rc = take_any_row(h, get, row, first);
		first = false;
		PQclear(row);
	} while (rc == 0 && row != NULL);
	return rc < 0 ? -1 : end_rows(h, get);
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
run_get(pgsf *h, Get *get)
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
	return pgsfi_holes_write(h, &get->file, data, len);
}

static int
take_hole_to_file(pgsf *h, Get *get, int64_t len)
{
	return pgsfi_holes_make(h, &get->file, len);
}

static int
end_file(pgsf *h, Get *get)
{
	return pgsfi_holes_finish(h, &get->file);
}

int64_t
pgsf_get_fd(pgsf *h, int fd, int64_t offset, int64_t length,
			const char *sql, const pgsf_params *params)
{
	Get			get = {.take = take_to_file, .take_hole = take_hole_to_file, .end = end_file,
		.offset = offset, .length = length, .sql = sql, .params = params};

	if (pgsfi_start_closed(h) < 0)
		return -1;
	pgsfi_holes_start(&get.file, fd);
	get.hole_bytes = get.file.sparse ? INT64_MAX : ZEROS_BYTES;
	return run_get(h, &get);
}

/* ---- memory ---- */

/* Allocates with the first piece or hole; one byte more than the value has; all are zero. */
static int
take_hole_to_memory(pgsf *h, Get *get, int64_t len)
{
	(void) len;
	if (get->memory == NULL)
		get->memory = calloc((size_t) get->total + 1, 1);
	return get->memory == NULL ? pgsfi_fail_memory(h) : 0;
}

static int
take_to_memory(pgsf *h, Get *get, const char *data, int64_t len)
{
	if (take_hole_to_memory(h, get, 0) < 0)
		return -1;
	PGSF_ASSERT(len <= get->total - get->done);
	memcpy(get->memory + get->done, data, len);
	return 0;
}

int64_t
pgsf_get_memory(pgsf *h, void **data, size_t *data_len, int64_t offset, int64_t length,
				const char *sql, const pgsf_params *params)
{
	Get			get = {.take = take_to_memory, .take_hole = take_hole_to_memory,
		.hole_bytes = INT64_MAX, .offset = offset, .length = length, .sql = sql, .params = params};
	int64_t		rc;

	if (pgsfi_start_closed(h) < 0)
		return -1;
	if (data == NULL || data_len == NULL)
		return pgsfi_fail(h, PGSF_ERROR_ARGUMENT, "data and data_len must not be NULL");
	*data = NULL;
	*data_len = 0;
	rc = run_get(h, &get);
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

static int
take_hole_to_sink(pgsf *h, Get *get, int64_t len)
{
	PGSF_ASSERT(len <= ZEROS_BYTES);
	return take_to_sink(h, get, pgsfi_zeros, len);
}

int64_t
pgsf_get_callback(pgsf *h, pgsf_sink sink, void *arg, int64_t offset, int64_t length,
				  const char *sql, const pgsf_params *params)
{
	Get			get = {.take = take_to_sink, .take_hole = take_hole_to_sink,
		.hole_bytes = ZEROS_BYTES, .sink = sink, .arg = arg, .offset = offset,
		.length = length, .sql = sql, .params = params};

	if (pgsfi_start_closed(h) < 0)
		return -1;
	if (sink == NULL)
		return pgsfi_fail(h, PGSF_ERROR_ARGUMENT, "sink must not be NULL");
	return run_get(h, &get);
}
