/*-------------------------------------------------------------------------
 *
 * answer.c
 *	  What a server answers is looked at before it is used.
 *
 * A server may be another one than the application thinks, or speak for somebody else: a
 * coordinator sends its clients to other servers, with text that becomes a part of statements
 * there.  So rows must have the columns that were asked for, in the form that was asked for, and a
 * name must be a name and nothing more.
 *
 *-------------------------------------------------------------------------
 */
#include <stdlib.h>
#include <string.h>

#include "internal.h"

int
pgsfi_fail_form(pgsf *h)
{
	return pgsfi_fail(h, PGSF_ERROR_PROTOCOL, "the server sent an answer of another form");
}

int
pgsfi_check_columns(pgsf *h, const PGresult *result, int columns, int format)
{
	if (result == NULL || PQntuples(result) == 0 || PQnfields(result) != columns)
		return pgsfi_fail_form(h);
	for (int i = 0; i < columns; i++)
	{
		if (PQfformat(result, i) != format)
			return pgsfi_fail_form(h);
	}
	return 0;
}

/* Behind an identifier with or without quotes; NULL if there is none. */
static const char *
skip_identifier(const char *p)
{
	const char *start = p;

	if (*p != '"')
	{
		while ((*p >= 'a' && *p <= 'z') || *p == '_' || (*p & 0x80) != 0 ||
			   (p > start && ((*p >= '0' && *p <= '9') || *p == '$')))
			p++;
		return p > start ? p : NULL;
	}
	for (p++; *p != '\0'; p++)
	{
		if (*p != '"')
			continue;
		if (p[1] != '"')
			return p > start + 1 ? p + 1 : NULL;
		p++;
	}
	return NULL;
}

bool
pgsfi_is_name(const char *text)
{
	const char *p = skip_identifier(text);

	while (p != NULL && *p == '.')
		p = skip_identifier(p + 1);
	return p != NULL && *p == '\0';
}

char *
pgsfi_copy_name(pgsf *h, const PGresult *result, int column)
{
	const char *name = PQgetvalue(result, 0, column);
	char	   *copy;

	if (!pgsfi_is_name(name))
	{
		pgsfi_fail_form(h);
		return NULL;
	}
	copy = strdup(name);
	if (copy == NULL)
		pgsfi_fail_memory(h);
	return copy;
}

/* A name or an address. */
static bool
is_host(const char *text)
{
	static const char allowed[] = "abcdefghijklmnopqrstuvwxyz"
		"ABCDEFGHIJKLMNOPQRSTUVWXYZ" "0123456789" ".-_:%";

	return text[0] != '\0' && text[strspn(text, allowed)] == '\0';
}

static bool
is_number(const char *text, size_t most_digits)
{
	size_t		digits = strspn(text, "0123456789");

	return digits > 0 && digits <= most_digits && text[digits] == '\0';
}

/*
 * The directory of a socket is on the machine of the client, where a server has nothing to say; but
 * that by which the client has reached it is known.
 */
static bool
is_own_directory(const pgsf *h, const char *text)
{
	return text[0] == '/' && h->link->conn != NULL && strcmp(text, PQhost(h->link->conn)) == 0;
}

int
pgsfi_check_place(pgsf *h, const pgsf_place *place)
{
	if (!pgsfi_is_name(place->schema) || !is_number(place->shardid, 18) ||
		!pgsfi_is_name(place->shard) ||
		(place->column != NULL && !pgsfi_is_name(place->column)))
		return pgsfi_fail_form(h);
	if ((is_host(place->host) || is_own_directory(h, place->host)) &&
		place->port > 0 && place->port <= 65535)
		return 0;
	return pgsfi_fail(h, PGSF_ERROR_CONNECTION,
					  "the server named a node that cannot be one: \"%s\"", place->host);
}
