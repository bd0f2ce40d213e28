/*-------------------------------------------------------------------------
 *
 * copied.c
 *	  A file of a distributed table that goes through the coordinator, by COPY.
 *
 * The parameter of an INSERT there becomes a literal in the text of a statement, which ends at
 * 256 MB and costs much.  COPY in binary form does not: one row, whose last field is the file.
 * It can only add rows.
 *
 * The other fields are wanted in binary form, too.  The server makes it: the types are those
 * that it gives to the parameters of an INSERT.
 *
 *-------------------------------------------------------------------------
 */
#include <arpa/inet.h>
#include <stdlib.h>
#include <string.h>

#include "answer.h"
#include "copied.h"
#include "text.h"

/* What a COPY in binary form begins with: signature (11 bytes), flags, length of the extension. */
static const char header[19] = "PGCOPY\n\377\r\n";

char *
copied_columns(const Session *session, const Options *options)
{
	char	   *columns = text_make("%s", session->target->key);

	for (int i = 0; i < options->nsets; i++)
	{
		const char *column = options->sets[i].column;
		char	   *quoted = PQescapeIdentifier(session->conn, column, strlen(column));
		char	   *more;

		if (quoted == NULL)
			abort();
		more = text_make("%s, %s", columns, quoted);
		PQfreemem(quoted);
		free(columns);
		columns = more;
	}
	return columns;
}

char *
copied_parameters(int count)
{
	char	   *list = text_make("$1");

	for (int i = 2; i <= count; i++)
	{
		char	   *more = text_make("%s, $%d", list, i);

		free(list);
		list = more;
	}
	return list;
}

/* The types of the columns but the last one, as the server sees them. */
static bool
find_types(Session *session, const char *columns, const char *parameters, int count, Oid *types,
		   Failure *failure)
{
	char	   *sql = text_make("INSERT INTO %s (%s) VALUES (%s)", session->target->table, columns,
								parameters);
	PGresult   *result = PQprepare(session->conn, "", sql, 0, NULL);
	bool		good = PQresultStatus(result) == PGRES_COMMAND_OK;

	free(sql);
	if (good)
	{
		PQclear(result);
		result = PQdescribePrepared(session->conn, "");
		good = PQresultStatus(result) == PGRES_COMMAND_OK && PQnparams(result) == count;
	}
	if (!good)
		failure_sql(failure, session->conn, result);
	for (int i = 0; good && i < count; i++)
		types[i] = PQparamtype(result, i);
	PQclear(result);
	return good;
}

/* The values of the row in binary form: one row; NULL after a failure. */
static PGresult *
binary_values(Session *session, const CopiedRow *row, const char *columns, Failure *failure)
{
	char	   *parameters = copied_parameters(row->count);
	Oid		   *types = calloc(row->count, sizeof(Oid));
	char	   *sql = text_make("SELECT %s", parameters);
	PGresult   *result = NULL;

	if (types == NULL)
		abort();
	if (find_types(session, columns, parameters, row->count, types, failure))
	{
		result = PQexecParams(session->conn, sql, row->count, types, row->values, NULL, NULL, 1);
		if (PQresultStatus(result) != PGRES_TUPLES_OK || PQntuples(result) != 1 ||
			PQnfields(result) != row->count)
		{
			failure_sql(failure, session->conn, result);
			PQclear(result);
			result = NULL;
		}
	}
	free(sql);
	free(types);
	free(parameters);
	return result;
}

/* ---- the row ---- */

static bool
send_bytes(Session *session, const void *bytes, int length, Failure *failure)
{
	if (PQputCopyData(session->conn, bytes, length) == 1)
		return true;
	return failure_sql(failure, session->conn, NULL);
}

static bool
send_int16(Session *session, int value, Failure *failure)
{
	uint16_t	number = htons((uint16_t) value);

	return send_bytes(session, &number, sizeof(number), failure);
}

static bool
send_int32(Session *session, int64_t value, Failure *failure)
{
	uint32_t	number = htonl((uint32_t) value);

	return send_bytes(session, &number, sizeof(number), failure);
}

/* The header, and all fields but the file. */
static bool
send_values(Session *session, const PGresult *values, Failure *failure)
{
	int			count = PQnfields(values);
	bool		good = send_bytes(session, header, sizeof(header), failure) &&
		send_int16(session, count + 1, failure);

	for (int i = 0; good && i < count; i++)
	{
		if (PQgetisnull(values, 0, i))
			good = send_int32(session, -1, failure);
		else
			good = send_int32(session, PQgetlength(values, 0, i), failure) &&
				send_bytes(session, PQgetvalue(values, 0, i), PQgetlength(values, 0, i), failure);
	}
	return good;
}

/* The file, and the end of the row.  A source that fails has filled in the failure. */
static bool
send_file(Session *session, const CopiedRow *row, Failure *failure)
{
	int64_t		left = row->total;
	int64_t		got;

	if (!send_int32(session, row->total, failure))
		return false;
	while ((got = row->source(row->arg, session->buffer, BUFFER_SIZE)) > 0)
	{
		if (got > left)
			return failure_say(failure, "the file changed while it was read");
		if (!send_bytes(session, session->buffer, (int) got, failure))
			return false;
		left -= got;
	}
	if (got == 0 && left > 0)
		return failure_say(failure, "the file changed while it was read");
	return got == 0 && send_int16(session, -1, failure);
}

/* End the COPY; good: the row is complete.  Else the failure is known already. */
static bool
end_copy(Session *session, bool good, Failure *failure)
{
	PGresult   *result;
	bool		stored = false;

	(void) PQputCopyEnd(session->conn, good ? NULL : "the client has given up");
	while ((result = PQgetResult(session->conn)) != NULL)
	{
		ExecStatusType status = PQresultStatus(result);

		stored = status == PGRES_COMMAND_OK;
		if (!stored && good)
			failure_sql(failure, session->conn, result);
		PQclear(result);
		/* libpq would give it again and again */
		if (answer_is_copy(status))
			return false;
	}
	return good && stored;
}

bool
copied_put(Session *session, const Options *options, const CopiedRow *row, Failure *failure)
{
	const Target *target = session->target;
	char	   *columns = copied_columns(session, options);
	PGresult   *values;
	bool		stored = false;

	session_let_go(session);
	values = binary_values(session, row, columns, failure);
	if (values != NULL)
	{
		char	   *sql = text_make("COPY %s (%s, %s) FROM STDIN (FORMAT binary)", target->table,
									columns, target->column);
		PGresult   *result = PQexec(session->conn, sql);

		if (PQresultStatus(result) == PGRES_COPY_IN)
			stored = end_copy(session, send_values(session, values, failure) &&
							  send_file(session, row, failure), failure);
		else
			failure_sql(failure, session->conn, result);
		PQclear(result);
		free(sql);
	}
	PQclear(values);
	free(columns);
	return stored;
}
