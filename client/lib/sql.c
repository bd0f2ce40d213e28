/*-------------------------------------------------------------------------
 *
 * sql.c
 *	  Texts of statements, and the library's parameters beside the application's.
 *
 * A statement of the library names everything with its schema.  Other users may be able
 * to create functions in the extension's schema, and PostgreSQL takes the function whose
 * argument types fit best: so the arguments have exactly the declared types.
 *
 *-------------------------------------------------------------------------
 */
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <endian.h>

#include "internal.h"

char *
pgsfi_sql(pgsf *h, const char *format, ...)
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
 * Why the statement looks like this:
 *	- the newline behind the SELECT ends a line comment at its end
 *	- LIMIT 2 suffices to see that there is more than one row
 *	- (SELECT q.*) makes several columns an error, where q (v) would ignore the others
 *	- the CASE makes v of type securefile and nothing else (the base type, for a
 *	  domain): the owner of a table may give its column another type and make functions
 *	  that fit it.  Its ELSE makes most other types an error; the cast alone would
 *	  convert them as text.
 */
char *
pgsfi_sql_one_row(pgsf *h, const char *columns, const char *select)
{
	PGSF_ASSERT(h->link->schema != NULL);
	return pgsfi_sql(h,
					 "SELECT %s FROM ("
					 "SELECT n, (CASE WHEN n OPERATOR(pg_catalog.=) 1 THEN v"
					 " ELSE NULL::%s.securefile END)::%s.securefile FROM ("
					 "SELECT (SELECT q.*), pg_catalog.count(*) OVER () FROM ("
					 "SELECT * FROM (%s\n) q LIMIT 2"
					 ") q) q (v, n)) q (n, v)",
					 columns, h->link->schema, h->link->schema, select);
}

/* ---- looking into statements of the application ---- */

/* The findings in a statement, outside of comments, strings and quoted names. */
typedef struct Scan
{
	char		keyword[10];	/* the first word, in upper case, cut if
								 * longer */
	int			highest;		/* parameter, 0: none */
	bool		has_value;		/* PGSF_VALUE is there */
} Scan;

static bool
is_name_start(char c)
{
	return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_' || (c & 0x80) != 0;
}

static bool
is_digit(char c)
{
	return c >= '0' && c <= '9';
}

static const char *
skip_name(const char *p)
{
	while (is_name_start(*p) || is_digit(*p) || *p == '$')
		p++;
	return p;
}

/* From the opening quote to behind the closing one; a doubled quote reads as two strings. */
static const char *
skip_quoted(const char *p, bool backslashes)
{
	char		quote = *p++;

	PGSF_ASSERT(quote == '\'' || quote == '"');
	while (*p != '\0' && *p != quote)
		p += backslashes && *p == '\\' && p[1] != '\0' ? 2 : 1;
	return *p == '\0' ? p : p + 1;
}

/* From the start of a comment to its end.  Comments between slash and star can be nested. */
static const char *
skip_comment(const char *p)
{
	int			depth = 0;

	if (*p == '-')
		return p + strcspn(p, "\r\n");
	do
	{
		bool		opens = p[0] == '/' && p[1] == '*';
		bool		closes = p[0] == '*' && p[1] == '/';

		depth += opens ? 1 : closes ? -1 : 0;
		p += opens || closes ? 2 : 1;
	} while (depth > 0 && *p != '\0');
	return p;
}

/* From a dollar to behind the parameter, which is noted, or behind the dollar-quoted string. */
static const char *
skip_dollar(const char *p, Scan *scan)
{
	const char *tag = p++;
	const char *end;
	size_t		len;

	if (is_digit(*p))
	{
		char	   *after;
		long		number = strtol(p, &after, 10);

		if (number > scan->highest)
			scan->highest = number > INT32_MAX ? INT32_MAX : (int) number;
		return after;
	}
	if (is_name_start(*p))
	{
		while (is_name_start(*p) || is_digit(*p))
			p++;
	}
	if (*p != '$')
		return tag + 1;
	len = (size_t) (p + 1 - tag);
	for (end = strchr(p + 1, '$'); end != NULL; end = strchr(end + 1, '$'))
	{
		if (strncmp(end, tag, len) == 0)
			return end + len;
	}
	return p + strlen(p);
}

/* From the start of a word to its end; the first word is noted. */
static const char *
skip_word(const char *p, Scan *scan)
{
	const char *end = skip_name(p);
	size_t		len = (size_t) (end - p);

	if (scan->keyword[0] != '\0')
		return end;
	for (size_t i = 0; i < len && i < sizeof(scan->keyword) - 1; i++)
		scan->keyword[i] = p[i] >= 'a' && p[i] <= 'z' ? (char) (p[i] - 'a' + 'A') : p[i];
	return end;
}

/* Read a statement as far as PostgreSQL's lexer would matter; backslashes: they escape in '..'. */
static void
scan_statement(const char *p, bool backslashes, Scan *scan)
{
	memset(scan, 0, sizeof(Scan));
	while (*p != '\0')
	{
		if (*p == '\'' || *p == '"')
			p = skip_quoted(p, *p == '\'' && backslashes);
		else if ((*p == 'e' || *p == 'E') && p[1] == '\'')
			p = skip_quoted(p + 1, true);
		else if (strncmp(p, "--", 2) == 0 || strncmp(p, "/*", 2) == 0)
			p = skip_comment(p);
		else if (*p == '$')
			p = skip_dollar(p, scan);
		else if (is_name_start(*p))
			p = skip_word(p, scan);
		else if (strncmp(p, PGSF_VALUE, strlen(PGSF_VALUE)) == 0)
		{
			scan->has_value = true;
			p += strlen(PGSF_VALUE);
		}
		else
			p++;
	}
}

/* Scan a statement, and fail if it uses more parameters than the application gives. */
static int
check_statement(pgsf *h, const char *sql, const pgsf_params *params, Scan *scan)
{
	int			count = params == NULL ? 0 : params->count;
	const char *conforming = h->link->conn == NULL ? NULL :
		PQparameterStatus(h->link->conn, "standard_conforming_strings");

	if (params != NULL && pgsfi_check_params(h, params) < 0)
		return -1;
	scan_statement(sql, conforming != NULL && strcmp(conforming, "off") == 0, scan);
	if (scan->highest <= count)
		return 0;
	return pgsfi_fail(h, PGSF_ERROR_ARGUMENT,
					  "the statement uses $%d, but has %d parameters", scan->highest, count);
}

/*
 * A parameter that the application has forgotten would be one of the library's, which
 * stand behind its own: the server could not find that mistake.
 */
int
pgsfi_check_select(pgsf *h, const char *sql, const pgsf_params *params)
{
	Scan		scan;

	return check_statement(h, sql, params, &scan);
}

/* A statement that cannot store anything is refused: it would succeed with the value lost. */
int
pgsfi_check_storing(pgsf *h, const char *sql, const pgsf_params *params)
{
	static const char *const storing[] = {"INSERT", "UPDATE", "MERGE", "WITH", "SELECT", "CALL"};
	const char *first = sql == NULL ? NULL : strstr(sql, PGSF_VALUE);
	Scan		scan;

	if (first == NULL || strstr(first + 1, PGSF_VALUE) != NULL)
		return pgsfi_fail(h, PGSF_ERROR_ARGUMENT,
						  "the storing statement must have " PGSF_VALUE " in it exactly once");
	if (check_statement(h, sql, params, &scan) < 0)
		return -1;
	if (!scan.has_value)
		return pgsfi_fail(h, PGSF_ERROR_ARGUMENT,
						  PGSF_VALUE " must not be in a comment, string or quoted name");
	for (size_t i = 0; i < sizeof(storing) / sizeof(storing[0]); i++)
	{
		if (strcmp(scan.keyword, storing[i]) == 0)
			return 0;
	}
	return pgsfi_fail(h, PGSF_ERROR_ARGUMENT,
					  "the storing statement must be INSERT, UPDATE, MERGE, WITH, SELECT or CALL");
}

char *
pgsfi_sql_with_value(pgsf *h, const char *sql, int number)
{
	const char *at = strstr(sql, PGSF_VALUE);

	PGSF_ASSERT(at != NULL && h->link->schema != NULL);
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

int64_t
pgsfi_get_int(const PGresult *result, int column)
{
	const char *data = PQgetvalue(result, 0, column);
	uint32_t	wire4;
	uint64_t	wire8;

	PGSF_ASSERT(PQntuples(result) > 0 && column < PQnfields(result));
	if (PQfformat(result, column) != 1)
		return -1;
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

/* The protocol counts parameters in 16 bits, the library's included. */
int
pgsfi_check_params(pgsf *h, const pgsf_params *params)
{
	if (params->count >= 0 && params->count <= 65535 - OWN_PARAMS)
		return 0;
	return pgsfi_fail(h, PGSF_ERROR_ARGUMENT, "wrong number of parameters: %d", params->count);
}

/* Copy the application's parameters; arrays that it left out get their defaults. */
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

/* Add a binary parameter of the library; returns the place for its value. */
static char *
add_param(Params *params, Oid type, int len_bytes)
{
	int			i = params->all.count++;
	char	   *value = params->own[i - params->given];

	PGSF_ASSERT(i - params->given < OWN_PARAMS && len_bytes <= (int) sizeof(params->own[0]));
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
