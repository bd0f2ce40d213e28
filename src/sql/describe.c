/*-------------------------------------------------------------------------
 *
 * describe.c
 *	  Clients are told that a securefile is a bytea.
 *
 * Text and binary form of securefile are those of bytea, so that whatever knows bytea
 * can read and write it.  Drivers go by the number of the type, though, and that of an
 * extension's type is another one in each database.  So the descriptions of rows and of
 * parameters that the server sends have bytea's number in its place, that of bytea[]
 * for arrays, and the type modifier -1.  securefile.describe_as = securefile leaves
 * them as they are.
 *
 * RowDescription, 'T' (integers in network byte order):
 *
 *	 offset		size	what
 *	 0			2		number of columns; then, for each of them:
 *	 0			n		name, with its terminating zero
 *	 n			4		table
 *	 n + 4		2		column of the table
 *	 n + 6		4		type
 *	 n + 10		2		its length, -1 for both types
 *	 n + 12		4		type modifier
 *	 n + 16		2		format
 *
 * ParameterDescription, 't':
 *
 *	 0			2		number of parameters
 *	 2			4 each	type
 *
 *-------------------------------------------------------------------------
 */
#include "base/base.h"

#include "access/transam.h"
#include "access/xact.h"
#include "catalog/pg_type.h"
#include "config/config.h"
#include "ddl/ddl.h"
#include "lib/stringinfo.h"
#include "libpq/pqformat.h"
#include "port/pg_bswap.h"
#include "sql/wire_internal.h"

#define ROW_DESCRIPTION			'T'
#define PARAMETER_DESCRIPTION	't'

/* A message that is read, and its copy once something in it has to change. */
typedef struct Description
{
	StringInfoData message;
	char	   *copy;
} Description;

#define KNOWN_TYPES		16

/* Types that this session has described otherwise, the last ones of them. */
static struct
{
	Oid			type;
	Oid			described;
}			known[KNOWN_TYPES];

static Oid
describe_by_memory(Oid type)
{
	for (int i = 0; i < KNOWN_TYPES; i++)
		if (known[i].type == type)
			return known[i].described;
	return type;
}

static void
remember(Oid type, Oid described)
{
	static int	next = 0;

	/* an unused place has type 0 */
	SF_ASSERT(OidIsValid(type) && described != type);
	if (describe_by_memory(type) == described)
		return;
	known[next].type = type;
	known[next].described = described;
	next = (next + 1) % KNOWN_TYPES;
}

/*
 * A transaction that has failed looks nothing up; it may still describe a statement
 * that was prepared before.
 */
static Oid
describe_type(Oid type)
{
	Oid			described;

	if (type < FirstNormalObjectId)
		return type;
	if (!IsTransactionState())
		return describe_by_memory(type);

	described = sf_ddl_described_type(type);
	if (described != type)
		remember(type, described);
	return described;
}

/* Put a number in the place of the one that was read last. */
static void
replace_uint32(Description *description, uint32 number)
{
	StringInfo	message = &description->message;

	SF_ASSERT(message->cursor >= (int) sizeof(number) && message->cursor <= message->len);
	if (description->copy == NULL)
	{
		description->copy = palloc(message->len);
		memcpy(description->copy, message->data, message->len);
	}
	number = pg_hton32(number);
	memcpy(description->copy + message->cursor - sizeof(number), &number, sizeof(number));
}

/* Read a type, and put another in its place if need be. */
static bool
describe_next(Description *description)
{
	Oid			type = pq_getmsgint(&description->message, 4);
	Oid			described = describe_type(type);

	if (described == type)
		return false;
	replace_uint32(description, described);
	return true;
}

static void
describe_column(Description *description)
{
	StringInfo	message = &description->message;
	bool		changed;

	(void) pq_getmsgrawstring(message);
	(void) pq_getmsgbytes(message, 6);	/* table, column of the table */
	changed = describe_next(description);
	(void) pq_getmsgbytes(message, 2);	/* length of the type */
	(void) pq_getmsgint(message, 4);	/* type modifier */
	if (changed)
		replace_uint32(description, (uint32) -1);
	(void) pq_getmsgbytes(message, 2);	/* format */
}

char *
sfi_sql_describe(char type, const char *body, size_t len)
{
	Description description = {
		.message = {.data = unconstify(char *, body), .len = len},
	};
	uint32		count;

	if ((type != ROW_DESCRIPTION && type != PARAMETER_DESCRIPTION) ||
		sf_describe_as != SF_DESCRIBE_AS_BYTEA)
		return NULL;

	count = pq_getmsgint(&description.message, 2);
	while (count-- > 0)
	{
		if (type == ROW_DESCRIPTION)
			describe_column(&description);
		else
			(void) describe_next(&description);
	}
	return description.copy;
}
