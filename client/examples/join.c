/*-------------------------------------------------------------------------
 *
 * join.c
 *	  Join values to a new one, and print its id.
 *
 *	  join CONNINFO ID...
 *
 * The server copies: no byte of the values comes here.  Rows that are changed meanwhile are taken
 * as the statements find them; begin a transaction with REPEATABLE READ for values of one moment.
 *
 *-------------------------------------------------------------------------
 */
#include <stdio.h>

#include <pgsecurefile.h>

/* Returns 0, or -1 with the error in h. */
static int
join(pgsf *h, char **ids, int count)
{
	const char *values[1];
	pgsf_params id = {1, NULL, values, NULL, NULL};
	PGresult   *result;

	if (pgsf_create(h, "docs", "document") < 0)
		return -1;
	for (int i = 0; i < count; i++)
	{
		values[0] = ids[i];
		if (pgsf_copy_value(h, 0, -1, "SELECT document FROM docs WHERE id = $1", &id) < 0)
			return -1;
	}
	if (pgsf_store(h, "INSERT INTO docs (document) VALUES (" PGSF_VALUE ") RETURNING id",
				   NULL, &result) < 0)
		return -1;
	printf("%s\n", PQgetvalue(result, 0, 0));
	PQclear(result);
	return 0;
}

int
main(int argc, char **argv)
{
	PGconn	   *conn;
	pgsf	   *h;
	int			rc;

	if (argc < 3)
	{
		fprintf(stderr, "join CONNINFO ID...\n");
		return 1;
	}
	conn = PQconnectdb(argv[1]);
	if (PQstatus(conn) != CONNECTION_OK)
	{
		fprintf(stderr, "join: %s", PQerrorMessage(conn));
		return 1;
	}

	h = pgsf_new(conn);
	rc = join(h, argv + 2, argc - 2);
	if (rc < 0)
		fprintf(stderr, "join: %s (%s)\n", pgsf_error(h), pgsf_sqlstate(h));

	/* if anything failed, this closes the value and rolls back */
	pgsf_free(h);
	PQfinish(conn);
	return rc < 0 ? 1 : 0;
}
