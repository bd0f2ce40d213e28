/*-------------------------------------------------------------------------
 *
 * put.c
 *	  Put a file into a new row.
 *
 *	  put CONNINFO FILE
 *
 * The table: CREATE TABLE docs (id serial PRIMARY KEY, name text, document securefile)
 * Prints the id of the row.
 *
 *-------------------------------------------------------------------------
 */
#include <stdio.h>

#include <fcntl.h>

#include <pgsecurefile.h>

int
main(int argc, char **argv)
{
	const char *values[1];
	pgsf_params params = {1, NULL, values, NULL, NULL};
	PGconn	   *conn;
	pgsf	   *h;
	PGresult   *result;
	int64_t		len;
	int			fd;

	if (argc != 3 || (fd = open(argv[2], O_RDONLY)) < 0)
	{
		perror("put CONNINFO FILE");
		return 1;
	}
	conn = PQconnectdb(argv[1]);
	if (PQstatus(conn) != CONNECTION_OK)
	{
		fprintf(stderr, "put: %s", PQerrorMessage(conn));
		return 1;
	}

	h = pgsf_new(conn);
	values[0] = argv[2];
	len = pgsf_put_fd(h, fd, "docs", "document",
					  "INSERT INTO docs (name, document) VALUES ($1, " PGSF_VALUE ") RETURNING id",
					  &params, &result);
	if (len < 0)
		fprintf(stderr, "put: %s (%s)\n", pgsf_error(h), pgsf_sqlstate(h));
	else
		printf("%s\n", PQgetvalue(result, 0, 0));

	PQclear(result);
	pgsf_free(h);
	PQfinish(conn);
	return len < 0 ? 1 : 0;
}
