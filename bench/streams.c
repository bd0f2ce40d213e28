/*-------------------------------------------------------------------------
 *
 * streams.c
 *	  What the benchmarks of streams share.
 *
 *-------------------------------------------------------------------------
 */
#include <stdlib.h>

#include "common.h"
#include "streams.h"

void
check_pgsf(pgsf *handle, int64_t result, const char *what)
{
	if (result >= 0)
		return;
	fprintf(stderr, "bench: %s: %s\n", what, pgsf_error(handle));
	exit(1);
}

int
throw_away(void *arg, const void *bytes, size_t len)
{
	(void) arg;
	(void) bytes;
	(void) len;
	return 0;
}

void
copy_out(const char *sql)
{
	PGresult   *res = PQexec(conn, sql);
	char	   *row;

	if (PQresultStatus(res) != PGRES_COPY_OUT)
		die(sql);
	PQclear(res);
	while (PQgetCopyData(conn, &row, 0) > 0)
		PQfreemem(row);
	res = PQgetResult(conn);
	if (PQresultStatus(res) != PGRES_COMMAND_OK)
		die(sql);
	PQclear(res);
	while ((res = PQgetResult(conn)) != NULL)
		PQclear(res);
}
