/*-------------------------------------------------------------------------
 *
 * get.c
 *	  Write a value, or a part of it, to standard output.
 *
 *	  get CONNINFO ID [OFFSET LENGTH]
 *
 *-------------------------------------------------------------------------
 */
#include <stdio.h>
#include <stdlib.h>

#include <unistd.h>

#include <pgsecurefile.h>

int
main(int argc, char **argv)
{
	const char *values[1];
	pgsf_params params = {1, NULL, values, NULL, NULL};
	PGconn	   *conn;
	pgsf	   *h;
	int64_t		offset = argc > 4 ? atoll(argv[3]) : 0;
	int64_t		length = argc > 4 ? atoll(argv[4]) : -1;
	int64_t		len;

	if (argc != 3 && argc != 5)
	{
		fprintf(stderr, "get CONNINFO ID [OFFSET LENGTH]\n");
		return 1;
	}
	conn = PQconnectdb(argv[1]);
	if (PQstatus(conn) != CONNECTION_OK)
	{
		fprintf(stderr, "get: %s", PQerrorMessage(conn));
		return 1;
	}

	h = pgsf_new(conn);
	values[0] = argv[2];
	len = pgsf_get_fd(h, STDOUT_FILENO, offset, length,
					  "SELECT document FROM docs WHERE id = $1", &params);
	if (len < 0)
		fprintf(stderr, "get: %s (%s)\n", pgsf_error(h), pgsf_sqlstate(h));

	pgsf_free(h);
	PQfinish(conn);
	return len < 0 ? 1 : 0;
}
