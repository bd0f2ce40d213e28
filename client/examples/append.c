/*-------------------------------------------------------------------------
 *
 * append.c
 *	  Append the lines of standard input to a value that is a log.
 *
 *	  append CONNINFO ID
 *
 * The existing bytes are neither read nor copied.  FOR UPDATE locks the row, so that two
 * programs append one after the other.  All lines are one transaction.
 *
 *-------------------------------------------------------------------------
 */
#include <stdio.h>
#include <string.h>

#include <pgsecurefile.h>

/* Returns 0, or -1 with the error in h. */
static int
append_lines(pgsf *h, const pgsf_params *id)
{
	char		line[4096];

	if (pgsf_open(h, PGSF_READ_WRITE,
				  "SELECT document FROM docs WHERE id = $1 FOR UPDATE", id) < 0)
		return -1;
	if (pgsf_seek(h, 0, SEEK_END) < 0)
		return -1;
	while (fgets(line, sizeof(line), stdin) != NULL)
	{
		if (pgsf_write(h, line, strlen(line)) < 0)
			return -1;
	}
	return pgsf_store(h, "UPDATE docs SET document = " PGSF_VALUE " WHERE id = $1",
					  id, NULL);
}

int
main(int argc, char **argv)
{
	const char *values[1];
	pgsf_params params = {1, NULL, values, NULL, NULL};
	PGconn	   *conn;
	pgsf	   *h;
	int			rc;

	if (argc != 3)
	{
		fprintf(stderr, "append CONNINFO ID\n");
		return 1;
	}
	conn = PQconnectdb(argv[1]);
	if (PQstatus(conn) != CONNECTION_OK)
	{
		fprintf(stderr, "append: %s", PQerrorMessage(conn));
		return 1;
	}

	h = pgsf_new(conn);
	values[0] = argv[2];
	rc = append_lines(h, &params);
	if (rc < 0)
		fprintf(stderr, "append: %s (%s)\n", pgsf_error(h), pgsf_sqlstate(h));

	/* if anything failed, this closes the value and rolls back */
	pgsf_free(h);
	PQfinish(conn);
	return rc < 0 ? 1 : 0;
}
