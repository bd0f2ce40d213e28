/*-------------------------------------------------------------------------
 *
 * patch.c
 *	  Random access: replace zero bytes by ones at some places of a value, and count
 *	  them.
 *
 *	  patch CONNINFO ID LEN OFFSET...
 *
 * Reads LEN bytes at each OFFSET, with a round trip for each, writes them back changed, and
 * stores the new version.  The server writes only the changed units of a large value.
 * Readers of the old version still see the old bytes.
 *
 *-------------------------------------------------------------------------
 */
#include <stdio.h>
#include <stdlib.h>

#include <pgsecurefile.h>

/* Change len bytes at offset.  Returns the number of changed bytes, or -1. */
static int64_t
patch_at(pgsf *h, int64_t offset, char *buf, size_t len)
{
	int64_t		changed = 0;
	int64_t		got;

	if (pgsf_seek(h, offset, SEEK_SET) < 0)
		return -1;
	got = pgsf_read(h, buf, len);
	for (int64_t i = 0; i < got; i++)
	{
		if (buf[i] == 0)
		{
			buf[i] = 1;
			changed++;
		}
	}
	if (got < 0 || pgsf_seek(h, offset, SEEK_SET) < 0 || pgsf_write(h, buf, got) < 0)
		return -1;
	return changed;
}

/* Change all places and store the new version.  Returns 0, or -1 with the error in h. */
static int
patch_all(pgsf *h, const pgsf_params *id, char *buf, size_t len, char **offsets)
{
	if (pgsf_open(h, PGSF_READ_WRITE,
				  "SELECT document FROM docs WHERE id = $1 FOR UPDATE", id) < 0)
		return -1;
	for (; *offsets != NULL; offsets++)
	{
		int64_t		changed = patch_at(h, atoll(*offsets), buf, len);

		if (changed < 0)
			return -1;
		printf("%s: %lld\n", *offsets, (long long) changed);
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
	char	   *buf;
	size_t		len = argc > 4 ? (size_t) atoll(argv[3]) : 0;
	int			rc;

	if (len == 0 || (buf = malloc(len)) == NULL)
	{
		fprintf(stderr, "patch CONNINFO ID LEN OFFSET...\n");
		return 1;
	}
	conn = PQconnectdb(argv[1]);
	if (PQstatus(conn) != CONNECTION_OK)
	{
		fprintf(stderr, "patch: %s", PQerrorMessage(conn));
		return 1;
	}

	h = pgsf_new(conn);
	values[0] = argv[2];
	rc = patch_all(h, &params, buf, len, argv + 4);
	if (rc < 0)
		fprintf(stderr, "patch: %s (%s)\n", pgsf_error(h), pgsf_sqlstate(h));

	pgsf_free(h);
	PQfinish(conn);
	free(buf);
	return rc < 0 ? 1 : 0;
}
