/*-------------------------------------------------------------------------
 *
 * queues.c
 *	  Which files of a tree go to which node.
 *
 * Threads that took all files from one list would wait for the slowest node in the end, each
 * of them.  So there is a list for each node, and each thread has one of them that it prefers.
 *
 *-------------------------------------------------------------------------
 */
#include <stdlib.h>
#include <string.h>

#include "queues.h"
#include "shard.h"
#include "text.h"

/* Names in one question. */
#define NAMES_AT_ONCE	1000

/* With more nodes than these, lists of their own help nobody. */
#define MOST_NODES		1000

/* Nodes that are known so far, by "host:port". */
typedef struct Nodes
{
	int			count;
	char	  **names;
} Nodes;

static int
number_of(Nodes *nodes, const char *name)
{
	for (int i = 0; i < nodes->count; i++)
		if (strcmp(nodes->names[i], name) == 0)
			return i;
	nodes->names = realloc(nodes->names, (nodes->count + 1) * sizeof(char *));
	if (nodes->names == NULL)
		abort();
	nodes->names[nodes->count] = text_make("%s", name);
	return nodes->count++;
}

/* The number of the shard in that row, which is added if it is new. */
static int
shard_number(Queues *queues, const PGresult *result, int row)
{
	for (int i = 0; i < queues->nshards; i++)
		if (strcmp(queues->shards[i].id, PQgetvalue(result, row, 0)) == 0)
			return i;
	queues->shards = realloc(queues->shards, (queues->nshards + 1) * sizeof(Shard));
	if (queues->shards == NULL)
		abort();
	queues->shards[queues->nshards] = shard_take(result, row);
	return queues->nshards++;
}

/* The queue of a file whose shard is known: that of its node. */
static int
queue_of(const Shard *shard, Nodes *nodes)
{
	char	   *name = text_make("%s:%d", shard->host, shard->port);
	int			number = number_of(nodes, name);

	free(name);
	return number;
}

/* Files [first, end): their shards and queues.  False if the server cannot tell. */
static bool
ask(Session *session, const FoundList *list, const char *prefix, size_t first, size_t end,
	Nodes *nodes, Queues *queues)
{
	char	   *array = NULL;
	size_t		length = 0;
	char	   *sql = shard_question(session->target, "$2::pg_catalog.text[]");
	const char *values[2] = {session->target->table, NULL};
	PGresult   *result;
	Failure		ignored;
	bool		good;

	for (size_t i = first; i < end; i++)
		array = text_add_name(array, &length, prefix, list->files[i].path);
	values[1] = array;
	result = session_rows(session, &ignored, 4, sql, 2, values);
	good = result != NULL && (size_t) PQntuples(result) == end - first;
	for (size_t i = first; good && i < end; i++)
	{
		queues->shard_of[i] = shard_number(queues, result, (int) (i - first));
		queues->of[i] = queue_of(&queues->shards[queues->shard_of[i]], nodes);
		good = nodes->count <= MOST_NODES;
	}
	PQclear(result);
	free(array);
	free(sql);
	return good;
}

Queues
queues_find(Session *session, const FoundList *list, const char *prefix)
{
	const Target *target = session->target;
	Nodes		nodes = {0, NULL};
	Queues		queues = {.count = 1};
	bool		good = target->routable && target->dist_key != NULL &&
		strcmp(target->dist_key, target->key) == 0 && list->count > 1;

	if (good)
	{
		queues.of = calloc(list->count, sizeof(int));
		queues.shard_of = calloc(list->count, sizeof(int));
		if (queues.of == NULL || queues.shard_of == NULL)
			abort();
	}
	for (size_t first = 0; good && first < list->count; first += NAMES_AT_ONCE)
	{
		size_t		end = first + NAMES_AT_ONCE;

		good = ask(session, list, prefix, first, end < list->count ? end : list->count, &nodes,
				   &queues);
	}
	if (good)
		queues.count = nodes.count;
	else
		queues_free(&queues);
	for (int i = 0; i < nodes.count; i++)
		free(nodes.names[i]);
	free(nodes.names);
	return queues;
}

void
queues_free(Queues *queues)
{
	for (int i = 0; i < queues->nshards; i++)
		shard_clear(&queues->shards[i]);
	free(queues->shards);
	free(queues->shard_of);
	free(queues->of);
	*queues = (Queues) {.count = 1};
}

Shard *
queues_shard(const Queues *queues, size_t number)
{
	return queues == NULL || queues->shard_of == NULL ? NULL :
		&queues->shards[queues->shard_of[number]];
}
