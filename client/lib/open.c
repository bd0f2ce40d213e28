/*-------------------------------------------------------------------------
 *
 * open.c
 *	  Opening the value of a row, and creating a new one.
 *
 *-------------------------------------------------------------------------
 */
#include <stdlib.h>

#include "internal.h"

/* Begin a transaction, if there is none; in the pipeline with what follows. */
static int
begin(pgsf *h)
{
	h->own_transaction = false;
	if (!h->link->was_idle)
		return 0;

	/*
	 * what another handle had begun has ended, perhaps by a COMMIT that
	 * failed
	 */
	pgsfi_disown_transaction(h->link);
	h->own_transaction = true;
	return pgsfi_send(h, AWAITED_NOTHING, "BEGIN", NULL, 0);
}

/*
 * Check what pgsfi_sql_one_row gave, in binary form: column 0 is n, column 1 the
 * length, NULL for a NULL value.
 */
int
pgsfi_check_row(pgsf *h, const PGresult *result)
{
	if (PQntuples(result) == 0)
		return pgsfi_fail(h, PGSF_ERROR_NOT_FOUND, "the SELECT gave no row");
	if (pgsfi_get_int(result, 0) != 1)
		return pgsfi_fail(h, PGSF_ERROR_MANY, "the SELECT gave more than one row");
	if (PQgetisnull(result, 0, 1))
		return pgsfi_fail(h, PGSF_ERROR_NULL, "the value is NULL");
	return 0;
}

/* The server has a handle: this is the value now. */
static void
opened(pgsf *h, pgsf_mode mode, bool created, int fd, int64_t length)
{
	h->mode = mode;
	h->created = created;
	h->fd = fd;
	h->length = length;
	h->position = 0;
	h->server_position = 0;
	h->gathered_offset = 0;
	h->gathered_len = 0;
	h->taken = 0;
	h->piece_offset = 0;
	h->piece_len = 0;
	h->asked_until = 0;
	h->last_end = -1;
	h->ahead = 0;
}

static int
open_row(pgsf *h, pgsf_mode mode, const char *select, const pgsf_params *params)
{
	char	   *columns;
	char	   *sql;
	PGresult   *result = NULL;
	int			rc = -1;

	if (pgsfi_schema(h) < 0)
		return -1;
	columns = pgsfi_sql(h, "n, pg_catalog.length(v), %s.securefile_open(v, '%s'::pg_catalog.text)",
						h->link->schema, mode == PGSF_READ ? "r" : "rw");
	if (columns == NULL)
		return -1;
	sql = pgsfi_sql_one_row(h, columns, select);
	if (sql != NULL && begin(h) == 0 &&
		pgsfi_send(h, AWAITED_ANSWER, sql, params, 1) == 0 &&
		pgsfi_finish(h, &result) == 0 && pgsfi_check_row(h, result) == 0)
	{
		opened(h, mode, false, (int) pgsfi_get_int(result, 2), pgsfi_get_int(result, 1));
		rc = 0;
	}
	PQclear(result);
	free(columns);
	free(sql);
	return rc;
}

int
pgsf_open(pgsf *h, pgsf_mode mode, const char *sql, const pgsf_params *params)
{
	if (pgsfi_start_closed(h) < 0)
		return -1;
	if (sql == NULL || (mode != PGSF_READ && mode != PGSF_READ_WRITE))
		return pgsfi_fail(h, PGSF_ERROR_ARGUMENT,
						  "mode must be PGSF_READ or PGSF_READ_WRITE, and sql not NULL");
	if (pgsfi_check_select(h, sql, params) < 0 || pgsfi_enter(h) < 0)
		return -1;
	if (open_row(h, mode, sql, params) == 0 && pgsfi_release(h) == 0)
		return 0;
	return pgsfi_give_up(h);
}

/* Create a value and leave the connection ours. */
int
pgsfi_create(pgsf *h, const char *table, const char *column)
{
	const char *values[] = {table, column};
	pgsf_params params = {2, NULL, values, NULL, NULL};
	char	   *sql;
	PGresult   *result = NULL;
	int			rc = -1;

	if (table == NULL || column == NULL)
		return pgsfi_fail(h, PGSF_ERROR_ARGUMENT, "table and column must be given");
	if (pgsfi_schema(h) < 0)
		return -1;
	sql = pgsfi_sql(h, "SELECT %s.securefile_create($1::pg_catalog.regclass, $2::pg_catalog.name)",
					h->link->schema);
	if (sql != NULL && begin(h) == 0 &&
		pgsfi_send(h, AWAITED_ANSWER, sql, &params, 1) == 0 &&
		pgsfi_finish(h, &result) == 0)
	{
		opened(h, PGSF_READ_WRITE, true, (int) pgsfi_get_int(result, 0), 0);
		rc = 0;
	}
	PQclear(result);
	free(sql);
	return rc;
}

int
pgsf_create(pgsf *h, const char *table, const char *column)
{
	if (pgsfi_start_closed(h) < 0 || pgsfi_enter(h) < 0)
		return -1;
	if (pgsfi_create(h, table, column) == 0 && pgsfi_release(h) == 0)
		return 0;
	return pgsfi_give_up(h);
}
