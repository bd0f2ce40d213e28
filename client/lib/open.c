/*-------------------------------------------------------------------------
 *
 * open.c
 *	  Opening the value of a row, and creating a new one.
 *
 *-------------------------------------------------------------------------
 */
#include <stdlib.h>
#include <string.h>

#include "internal.h"

/* Begin a transaction if the connection is in none; BEGIN costs no round trip of its own. */
static int
begin(pgsf *h)
{
	h->own_transaction = false;
	if (!h->link->was_idle)
		return 0;

	/*
	 * a transaction that another handle began has ended, perhaps by a COMMIT
	 * that failed
	 */
	pgsfi_disown_transaction(h->link);
	h->own_transaction = true;
	return pgsfi_send(h, AWAITED_NOTHING, "BEGIN", NULL, 0);
}

/*
 * The search path of the application may lack the schema of the extension, or have
 * other functions of the same names before it: so each statement names the schema.
 */
int
pgsfi_schema(pgsf *h)
{
	Link	   *link = h->link;
	PGresult   *result;

	if (link->schema != NULL)
		return 0;
	if (pgsfi_execute(h, "SELECT pg_catalog.quote_ident(n.nspname)"
					  " FROM pg_catalog.pg_extension e"
					  " JOIN pg_catalog.pg_namespace n ON n.oid OPERATOR(pg_catalog.=) e.extnamespace"
					  " WHERE e.extname OPERATOR(pg_catalog.=) 'securefile'", &result) < 0)
		return -1;
	if (PQntuples(result) == 0)
		pgsfi_fail(h, PGSF_ERROR_EXTENSION,
				   "extension securefile is not in this database");
	else if (pgsfi_check_columns(h, result, 1, 0) == 0)
		link->schema = pgsfi_copy_name(h, result, 0);
	PQclear(result);
	return link->schema == NULL ? -1 : 0;
}

int
pgsfi_check_row(pgsf *h, const PGresult *result, int columns)
{
	if (PQntuples(result) == 0)
		return pgsfi_fail(h, PGSF_ERROR_NOT_FOUND, "the SELECT gave no row");
	if (pgsfi_check_columns(h, result, columns, 1) < 0)
		return -1;
	if (pgsfi_get_int(result, 0) != 1)
		return pgsfi_fail(h, PGSF_ERROR_MANY, "the SELECT gave more than one row");
	if (PQgetisnull(result, 0, 1))
		return pgsfi_fail(h, PGSF_ERROR_NULL, "the value is NULL");
	return pgsfi_get_int(result, 1) >= 0 ? 0 : pgsfi_fail_form(h);
}

/* The server has opened a handle of that number. */
static int
take_handle(pgsf *h, pgsf_mode mode, bool created, int64_t number, int64_t length)
{
	if (number < 0 || number > INT32_MAX)
		return pgsfi_fail_form(h);
	pgsfi_opened(h, mode, created, (int) number, length);
	return 0;
}

/* Let the server open the value that a SELECT yields, and note what it answers. */
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
		pgsfi_finish(h, &result) == 0 && pgsfi_check_row(h, result, 3) == 0)
		rc = take_handle(h, mode, false, pgsfi_get_int(result, 2), pgsfi_get_int(result, 1));
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
		pgsfi_finish(h, &result) == 0 && pgsfi_check_columns(h, result, 1, 1) == 0)
		rc = take_handle(h, PGSF_READ_WRITE, true, pgsfi_get_int(result, 0), 0);
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
