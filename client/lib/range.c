/*-------------------------------------------------------------------------
 *
 * range.c
 *	  Work on a range of a value that the server does by itself: its bytes do not travel.
 *
 * Everything begins at the position of the library's handle, so each statement seeks first, as
 * those of pieces do.  The bytes that are gathered go before it, because it has to see them.  What
 * was read ahead is dropped.
 *
 *-------------------------------------------------------------------------
 */
#include <stdlib.h>
#include <string.h>

#include "internal.h"

/*
 * The longest pattern.  The server ends the session for a message of 1 GB, and the pattern is not
 * alone in its message.
 */
#define MAX_PATTERN_BYTES	(1024 * 1024 * 1024 - 64 * 1024)

/* The server's handle is at a position that nobody has noted. */
#define NOWHERE			(-1)

/* Expression: the server's handle, a parameter, moved to a position before it is used. */
#define HANDLE_AT		"CASE WHEN %s.securefile_seek($%d, $%d, 0) IS NOT NULL THEN $%d END"

/* How many of count bytes there are from the position on; count -1: all. */
static int64_t
bytes_there(const pgsf *h, int64_t count)
{
	int64_t		left = h->length > h->position ? h->length - h->position : 0;

	PGSF_ASSERT(count >= -1);
	return count >= 0 && count < left ? count : left;
}

/*
 * Execute a statement that moves the server's handle, behind the gathered bytes, and wait for its
 * answer, in binary form, which the caller clears; NULL after an error.
 */
static PGresult *
ask_row(pgsf *h, const char *sql, const pgsf_params *params)
{
	PGresult   *answer = NULL;

	PGSF_ASSERT(pgsfi_has_connection(h) && h->requested_until == 0);
	if (pgsfi_send_gathered(h) < 0)
		return NULL;
	h->server_position = NOWHERE;
	if (pgsfi_send(h, AWAITED_ANSWER, sql, params, 1) < 0 || pgsfi_finish(h, &answer) < 0)
		return NULL;
	if (answer == NULL)
		pgsfi_fail(h, PGSF_ERROR_PROTOCOL, "no answer");
	return answer;
}

/* The bytes from the position on are others now: so many, which may lie behind the end. */
static void
advance(pgsf *h, int64_t len_bytes)
{
	PGSF_ASSERT(len_bytes >= 0 && len_bytes <= INT64_MAX - h->position);
	PGSF_ASSERT(h->mode == PGSF_READ_WRITE);
	h->position += len_bytes;
	if (h->length < h->position)
		h->length = h->position;
}

/* ---- copying from another handle ---- */

/* Fail unless a range can be copied from source. */
static int
check_source(pgsf *target, const pgsf *source, int64_t count)
{
	if (source == NULL || source->link != target->link)
		return pgsfi_fail(target, PGSF_ERROR_ARGUMENT,
						  "source must be a handle of the same connection");
	if (source == target)
		return pgsfi_fail(target, PGSF_ERROR_ARGUMENT, "source and target must be two handles");
	if (count < -1)
		return pgsfi_fail(target, PGSF_ERROR_ARGUMENT, "count must not be below -1");
	if (source->mode == PGSF_CLOSED && !source->failed_unseen)
		return pgsfi_fail(target, PGSF_ERROR_STATE, "no value is open in the source");
	pgsfi_check_state(source);
	return 0;
}

/* Copy len_bytes, which the source has; target has the connection. */
static int
copy_range(pgsf *target, pgsf *source, int64_t len_bytes)
{
	const char *schema = target->link->schema;
	char	   *sql = pgsfi_sql(target,
								"SELECT %s.securefile_copy(" HANDLE_AT ", " HANDLE_AT ", $5)",
								schema, schema, 1, 2, 1, schema, 3, 4, 3);
	Params		params;
	PGresult   *answer = NULL;
	int			rc = -1;

	PGSF_ASSERT(len_bytes > 0 && len_bytes <= source->length - source->position);
	PGSF_ASSERT(source->gathered_len == 0);
	source->server_position = NOWHERE;
	if (pgsfi_params_start(target, &params, NULL) == 0)
	{
		pgsfi_params_int4(&params, target->fd);
		pgsfi_params_int8(&params, target->position);
		pgsfi_params_int4(&params, source->fd);
		pgsfi_params_int8(&params, source->position);
		pgsfi_params_int8(&params, len_bytes);
		answer = ask_row(target, sql, &params.all);
	}
	if (answer != NULL && pgsfi_check_columns(target, answer, 1, 1) == 0)
		rc = pgsfi_get_int(answer, 0) == len_bytes ? 0 : pgsfi_fail_form(target);
	PQclear(answer);
	pgsfi_params_free(&params);
	free(sql);
	return rc;
}

/*
 * Take the connection for target.  That ends the stream of the source, and may show that it has
 * failed: then there is nothing to copy, and its error is that of target, too.
 */
static int
enter_both(pgsf *target, const pgsf *source)
{
	int			rc = source->failed_unseen ? 0 : pgsfi_enter(target);

	if (!source->failed_unseen)
		return rc;
	pgsfi_error_clear(target);
	pgsfi_fail(target, source->error.sqlstate, "%s", pgsf_error(source));
	return pgsfi_give_up(target);
}

int64_t
pgsf_copy_range(pgsf *target, pgsf *source, int64_t count)
{
	int64_t		len;

	if (pgsfi_start_open(target, true) < 0 || check_source(target, source, count) < 0)
		return -1;
	len = bytes_there(source, count);
	if (len == 0 && !source->failed_unseen)
		return 0;
	if (enter_both(target, source) < 0)
		return -1;
	pgsfi_forget_ahead(target);
	if (len > INT64_MAX - target->position)
		pgsfi_fail(target, "54000", "a value cannot be longer than 2^63 - 1 bytes");
	else if (copy_range(target, source, len) == 0 && pgsfi_release(target) == 0)
	{
		advance(target, len);
		source->position += len;
		return len;
	}
	return pgsfi_give_up(target);
}

/* ---- copying from the value of a row ---- */

/* Columns of the statement. */
enum
{
	COLUMN_ROWS,
	COLUMN_LENGTH,
	COLUMN_COPIED,
	NUM_COLUMNS
};

/* The statement; the caller frees it.  The library's parameters begin with that number. */
static char *
copy_value_sql(pgsf *h, const char *select, int first)
{
	const char *schema = h->link->schema;
	char	   *columns = pgsfi_sql(h, "n, pg_catalog.length(v),"
									" %s.securefile_copy(" HANDLE_AT ", v, $%d, $%d)", schema,
									schema, first, first + 1, first, first + 2, first + 3);
	char	   *sql = columns == NULL ? NULL : pgsfi_sql_one_row(h, columns, select);

	free(columns);
	return sql;
}

/* The answer of that statement: how many bytes were copied; -1 after an error. */
static int64_t
take_copied(pgsf *h, const PGresult *answer, int64_t offset, int64_t length)
{
	int64_t		there;
	int64_t		copied;

	if (pgsfi_check_row(h, answer, NUM_COLUMNS) < 0)
		return -1;
	there = pgsfi_get_int(answer, COLUMN_LENGTH);
	there = there > offset ? there - offset : 0;
	if (length >= 0 && length < there)
		there = length;
	copied = pgsfi_get_int(answer, COLUMN_COPIED);
	if (copied != there || copied > INT64_MAX - h->position)
		return pgsfi_fail_form(h);
	return copied;
}

/* Copy the range; h has the connection.  Returns how many bytes, -1 after an error. */
static int64_t
copy_value(pgsf *h, int64_t offset, int64_t length, const char *select, const pgsf_params *given)
{
	Params		params;
	char	   *sql = NULL;
	PGresult   *answer = NULL;
	int64_t		copied = -1;

	PGSF_ASSERT(offset >= 0 && offset < INT64_MAX && length >= -1);
	if (pgsfi_params_start(h, &params, given) == 0)
	{
		sql = copy_value_sql(h, select, params.given + 1);
		pgsfi_params_int4(&params, h->fd);
		pgsfi_params_int8(&params, h->position);
		/* positions of the function count from 1 */
		pgsfi_params_int8(&params, offset + 1);
		pgsfi_params_int8(&params, length < 0 ? INT64_MAX - offset : length);
		answer = ask_row(h, sql, &params.all);
	}
	if (answer != NULL)
		copied = take_copied(h, answer, offset, length);
	PQclear(answer);
	pgsfi_params_free(&params);
	free(sql);
	return copied;
}

int64_t
pgsf_copy_value(pgsf *h, int64_t offset, int64_t length,
				const char *sql, const pgsf_params *params)
{
	int64_t		copied;

	if (pgsfi_start_open(h, true) < 0)
		return -1;
	if (sql == NULL || offset < 0 || length < -1 || offset == INT64_MAX)
		return pgsfi_fail(h, PGSF_ERROR_ARGUMENT,
						  "offset must not be negative, length not below -1, sql not NULL");
	if (pgsfi_check_select(h, sql, params) < 0 || pgsfi_enter(h) < 0)
		return -1;
	pgsfi_forget_ahead(h);
	copied = copy_value(h, offset, length, sql, params);
	if (copied < 0 || pgsfi_release(h) < 0)
		return pgsfi_give_up(h);
	advance(h, copied);
	return copied;
}

/* ---- erasing and deleting ---- */

/* Send the statement; its function leaves the position.  The answer is not waited for. */
static int
send_remove(pgsf *h, const char *function, int64_t len_bytes)
{
	const char *schema = h->link->schema;
	char	   *sql = pgsfi_sql(h, "SELECT %s.%s(" HANDLE_AT ", $3)",
								schema, function, schema, 1, 2, 1);
	Params		params;
	int			rc = -1;

	PGSF_ASSERT(len_bytes > 0 && len_bytes <= h->length - h->position);
	if (pgsfi_params_start(h, &params, NULL) == 0 && pgsfi_send_gathered(h) == 0)
	{
		h->server_position = h->position;
		pgsfi_params_int4(&params, h->fd);
		pgsfi_params_int8(&params, h->position);
		pgsfi_params_int8(&params, len_bytes);
		rc = pgsfi_send(h, AWAITED_NOTHING, sql, &params.all, 1);
	}
	free(sql);
	pgsfi_params_free(&params);
	return rc < 0 ? -1 : pgsfi_request_answers(h);
}

/* Let function remove up to count bytes.  Returns how many. */
static int64_t
remove_bytes(pgsf *h, const char *function, int64_t count)
{
	int64_t		len;

	if (pgsfi_start_open(h, true) < 0)
		return -1;
	if (count < 0)
		return pgsfi_fail(h, PGSF_ERROR_ARGUMENT, "count must not be negative");
	len = bytes_there(h, count);
	if (len == 0)
		return 0;
	if (pgsfi_enter(h) < 0)
		return -1;
	pgsfi_forget_ahead(h);
	if (send_remove(h, function, len) < 0 || h->cancel_sent)
		return pgsfi_give_up(h);
	return len;
}

int64_t
pgsf_erase(pgsf *h, int64_t count)
{
	return remove_bytes(h, "securefile_erase", count);
}

int64_t
pgsf_delete(pgsf *h, int64_t count)
{
	int64_t		len = remove_bytes(h, "securefile_delete", count);

	if (len > 0)
		h->length -= len;
	return len;
}

/* ---- searching ---- */

/* The place that the server has found, -1: none; fails if the pattern cannot be there. */
static int
take_found(pgsf *h, const PGresult *answer, int64_t len_bytes, int64_t *found)
{
	if (pgsfi_check_columns(h, answer, 1, 1) < 0)
		return -1;
	if (PQgetlength(answer, 0, 0) != sizeof(int64_t))
		return pgsfi_fail_form(h);
	*found = pgsfi_get_int(answer, 0);
	if (*found == -1 ||
		(*found >= h->position && h->length >= len_bytes && *found <= h->length - len_bytes))
		return 0;
	return pgsfi_fail_form(h);
}

/* Search from the position on; h has the connection. */
static int
search(pgsf *h, const char *pattern, int64_t len_bytes, int64_t *found)
{
	static const Oid types[] = {OID_BYTEA};
	static const int formats[] = {1};
	const char *const values[] = {pattern};
	const int	lengths[] = {(int) len_bytes};
	const pgsf_params given = {1, types, values, lengths, formats};
	const char *schema = h->link->schema;
	char	   *sql = pgsfi_sql(h, "SELECT %s.securefile_search(" HANDLE_AT ", $1)",
								schema, schema, 2, 3, 2);
	Params		params;
	PGresult   *answer = NULL;
	int			rc = -1;

	PGSF_ASSERT(pattern != NULL && len_bytes <= MAX_PATTERN_BYTES);
	if (pgsfi_params_start(h, &params, &given) == 0)
	{
		pgsfi_params_int4(&params, h->fd);
		pgsfi_params_int8(&params, h->position);
		answer = ask_row(h, sql, &params.all);
	}
	if (answer != NULL)
		rc = take_found(h, answer, len_bytes, found);
	PQclear(answer);
	pgsfi_params_free(&params);
	free(sql);
	return rc;
}

int
pgsf_search(pgsf *h, const void *pattern, size_t len, int64_t *found)
{
	int64_t		at = -1;

	if (found != NULL)
		*found = -1;
	if (pgsfi_start_open(h, false) < 0)
		return -1;
	if (found == NULL || (pattern == NULL && len > 0))
		return pgsfi_fail(h, PGSF_ERROR_ARGUMENT, "pattern and found must not be NULL");
	if (len > MAX_PATTERN_BYTES)
		return pgsfi_fail(h, PGSF_ERROR_ARGUMENT, "a pattern has at most %d bytes",
						  MAX_PATTERN_BYTES);
	if (pgsfi_enter(h) < 0)
		return -1;
	pgsfi_forget_ahead(h);
	/* for libpq a NULL would be a null */
	if (search(h, len == 0 ? "" : pattern, (int64_t) len, &at) < 0 || pgsfi_release(h) < 0)
		return pgsfi_give_up(h);
	*found = at;
	return 0;
}
