/*-------------------------------------------------------------------------
 *
 * sql.c
 *	  Texts of statements, and parameters of ours beside the application's.
 *
 * Whatever stands in a statement of ours is qualified with its schema.
 *
 *-------------------------------------------------------------------------
 */
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <endian.h>

#include "internal.h"

/* Like asprintf; NULL: out of memory, the error is set. */
char *
pgsfi_sql(pgsf *h, const char *format,...)
{
	va_list		args;
	char	   *text;
	int			rc;

	va_start(args, format);
	rc = vasprintf(&text, format, args);
	va_end(args);
	if (rc >= 0)
		return text;
	pgsfi_fail_memory(h);
	return NULL;
}

/*
 * Columns over the one row that a SELECT of the application has to give.  They may
 * use v, its value, or NULL if there are more rows than one, and n, how many there
 * are (at most 2 are looked at).  A line comment at the SELECT's end is harmless.
 */
char *
pgsfi_sql_one_row(pgsf *h, const char *columns, const char *select)
{
	return pgsfi_sql(h,
					 "SELECT %s FROM ("
					 "SELECT n, CASE WHEN n OPERATOR(pg_catalog.=) 1 THEN v END FROM ("
					 "SELECT v, pg_catalog.count(*) OVER () FROM ("
					 "SELECT * FROM (%s\n) q LIMIT 2"
					 ") q (v)) q (v, n)) q (n, v)",
					 columns, select);
}

/* PGSF_VALUE has to stand in a storing statement once. */
int
pgsfi_check_value_once(pgsf *h, const char *sql)
{
	const char *first = sql == NULL ? NULL : strstr(sql, PGSF_VALUE);

	if (first != NULL && strstr(first + 1, PGSF_VALUE) == NULL)
		return 0;
	return pgsfi_fail(h, PGSF_ERROR_ARGUMENT,
					  "the storing statement must have " PGSF_VALUE " in it exactly once");
}

/* The storing statement, with the finished value where PGSF_VALUE is. */
char *
pgsfi_sql_with_value(pgsf *h, const char *sql, int number)
{
	const char *at = strstr(sql, PGSF_VALUE);

	return pgsfi_sql(h, "%.*s%s.securefile_finish($%d)%s", (int) (at - sql), sql,
					 h->link->schema, number, at + strlen(PGSF_VALUE));
}

/* ---- integers in binary form ---- */

void
pgsfi_put_int4(char *to, int32_t value)
{
	uint32_t	wire = htobe32((uint32_t) value);

	memcpy(to, &wire, sizeof(wire));
}

void
pgsfi_put_int8(char *to, int64_t value)
{
	uint64_t	wire = htobe64((uint64_t) value);

	memcpy(to, &wire, sizeof(wire));
}

/* An int4 or int8 of the first row; -1 if it is NULL or neither. */
int64_t
pgsfi_get_int(const PGresult *result, int column)
{
	const char *data = PQgetvalue(result, 0, column);
	uint32_t	wire4;
	uint64_t	wire8;

	switch (PQgetlength(result, 0, column))
	{
		case sizeof(wire4):
			memcpy(&wire4, data, sizeof(wire4));
			return (int32_t) be32toh(wire4);
		case sizeof(wire8):
			memcpy(&wire8, data, sizeof(wire8));
			return (int64_t) be64toh(wire8);
		default:
			return -1;
	}
}

/* ---- parameters ---- */

/* As many as the protocol can count, ours included. */
int
pgsfi_check_params(pgsf *h, const pgsf_params *params)
{
	if (params->count >= 0 && params->count <= 65535 - OWN_PARAMS)
		return 0;
	return pgsfi_fail(h, PGSF_ERROR_ARGUMENT, "wrong number of parameters: %d", params->count);
}

static void
fill_params(Params *params, const pgsf_params *given)
{
	for (int i = 0; i < given->count; i++)
	{
		params->types[i] = given->types == NULL ? 0 : given->types[i];
		params->values[i] = given->values == NULL ? NULL : given->values[i];
		params->lengths[i] = given->lengths == NULL ? 0 : given->lengths[i];
		params->formats[i] = given->formats == NULL ? 0 : given->formats[i];
	}
	params->all.count = given->count;
	params->all.types = params->types;
	params->all.values = params->values;
	params->all.lengths = params->lengths;
	params->all.formats = params->formats;
}

/*
 * Copy the application's parameters, with room for ours.  To be freed also after
 * an error.
 */
int
pgsfi_params_start(pgsf *h, Params *params, const pgsf_params *given)
{
	static const pgsf_params none = {0, NULL, NULL, NULL, NULL};
	size_t		room;

	memset(params, 0, sizeof(Params));
	if (given == NULL)
		given = &none;
	if (pgsfi_check_params(h, given) < 0)
		return -1;
	room = (size_t) given->count + OWN_PARAMS;
	params->types = calloc(room, sizeof(Oid));
	params->values = calloc(room, sizeof(char *));
	params->lengths = calloc(room, sizeof(int));
	params->formats = calloc(room, sizeof(int));
	if (params->types == NULL || params->values == NULL ||
		params->lengths == NULL || params->formats == NULL)
		return pgsfi_fail_memory(h);
	params->given = given->count;
	fill_params(params, given);
	return 0;
}

/* Add a binary parameter of ours; returns where its value goes. */
static char *
add_param(Params *params, Oid type, int len_bytes)
{
	int			i = params->all.count++;
	char	   *value = params->own[i - params->given];

	params->types[i] = type;
	params->values[i] = value;
	params->lengths[i] = len_bytes;
	params->formats[i] = 1;
	return value;
}

void
pgsfi_params_int4(Params *params, int32_t value)
{
	pgsfi_put_int4(add_param(params, OID_INT4, sizeof(value)), value);
}

void
pgsfi_params_int8(Params *params, int64_t value)
{
	pgsfi_put_int8(add_param(params, OID_INT8, sizeof(value)), value);
}

void
pgsfi_params_free(Params *params)
{
	free(params->types);
	free(params->values);
	free(params->lengths);
	free(params->formats);
}
