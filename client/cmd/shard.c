/*-------------------------------------------------------------------------
 *
 * shard.c
 *	  Which shard of a distributed table has the row of a key, as the coordinator says.
 *
 * It is asked once: for all files of a tree (queues.c), or else for a key.  What it has said
 * holds until the shard is found to have moved.
 *
 *-------------------------------------------------------------------------
 */
#include <stdlib.h>
#include <string.h>

#include "shard.h"
#include "text.h"

Shard
shard_take(const PGresult *result, int row)
{
	return (Shard) {
						   .id = text_make("%s", PQgetvalue(result, row, 0)),
						   .name = text_make("%s", PQgetvalue(result, row, 1)),
						   .host = text_make("%s", PQgetvalue(result, row, 2)),
						   .port = atoi(PQgetvalue(result, row, 3))
						  };
}

void
shard_clear(Shard *shard)
{
	free(shard->id);
	free(shard->name);
	free(shard->host);
}

char *
shard_question(const Target *target, const char *keys)
{
	return text_make("SELECT r.shardid, r.shard_name, r.nodename, r.nodeport"
					 " FROM %s.securefile_dist_routes($1::pg_catalog.regclass, %s) r",
					 target->dist_schema, keys);
}

void
shard_forget(Session *session)
{
	if (session->asked != NULL)
		shard_clear(session->asked);
	free(session->asked);
	free(session->asked_key);
	session->asked = NULL;
	session->asked_key = NULL;
}

/* Ask for the shard of a key, and keep it. */
static bool
ask(Session *session, const char *key, Failure *failure)
{
	const char *const values[] = {session->target->table, key};
	char	   *sql = shard_question(session->target, "ARRAY[$2::pg_catalog.text]");
	PGresult   *result = session_rows(session, failure, 4, sql, 2, values);

	free(sql);
	shard_forget(session);
	if (result == NULL)
		return false;
	if (PQntuples(result) == 1)
	{
		session->asked = calloc(1, sizeof(Shard));
		if (session->asked == NULL)
			abort();
		*session->asked = shard_take(result, 0);
		session->asked_key = key == NULL ? NULL : text_make("%s", key);
	}
	PQclear(result);
	return session->asked != NULL || failure_say(failure, "the server has given no route");
}

static bool
is_key(const char *a, const char *b)
{
	return a == NULL || b == NULL ? a == b : strcmp(a, b) == 0;
}

Shard *
shard_known(Session *session)
{
	return session->shard != NULL && !atomic_load(&session->shard->moved) ? session->shard : NULL;
}

Shard *
shard_find(Session *session, const char *key, Failure *failure)
{
	Shard	   *known = shard_known(session);

	if (known != NULL)
		return known;
	if (session->asked != NULL && is_key(session->asked_key, key) &&
		!atomic_load(&session->asked->moved))
		return session->asked;
	return ask(session, key, failure) ? session->asked : NULL;
}
