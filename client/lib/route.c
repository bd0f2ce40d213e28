/*-------------------------------------------------------------------------
 *
 * route.c
 *	  Where a row of a distributed table of Citus lies, and connections to the nodes.
 *
 * A value that goes through the coordinator is quoted into the text of a statement there,
 * and read from it on the worker.  A client that knows the shard streams to the worker
 * and costs the coordinator nothing.  The coordinator is asked by the handle's own
 * connection; the connections to nodes are made when they are first needed, and belong
 * to the handle.
 *
 *-------------------------------------------------------------------------
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "internal.h"

/* A node, and the connection to it. */
struct Node
{
	struct Node *next;
	char	   *host;
	int			port;
	PGconn	   *conn;
	pgsf	   *handle;
};

void
pgsf_set_connect(pgsf *h, pgsf_connect connect, void *arg)
{
	if (h == NULL)
		return;
	h->connect = connect;
	h->connect_arg = arg;
}

/* ---- connections ---- */

/* A connection like the handle's own, but for the place. */
static PGconn *
connect_alike(pgsf *h, const char *host, const char *port)
{
	PQconninfoOption *options = PQconninfo(h->link->conn);
	PGconn	   *conn = NULL;
	int			count = 0;
	int			n = 0;

	while (options != NULL && options[count].keyword != NULL)
		count++;
	if (count > 0)
	{
		const char **words = calloc((size_t) count + 3, sizeof(char *));
		const char **values = calloc((size_t) count + 3, sizeof(char *));

		for (int i = 0; words != NULL && values != NULL && i < count; i++)
		{
			const char *word = options[i].keyword;

			if (options[i].val == NULL || strcmp(word, "host") == 0 ||
				strcmp(word, "hostaddr") == 0 || strcmp(word, "port") == 0)
				continue;
			words[n] = word;
			values[n++] = options[i].val;
		}
		PGSF_ASSERT(n <= count);
		if (words != NULL && values != NULL)
		{
			words[n] = "host";
			values[n++] = host;
			words[n] = "port";
			values[n++] = port;
			conn = PQconnectdbParams(words, values, 0);
		}
		free(words);
		free(values);
	}
	PQconninfoFree(options);
	return conn;
}

/* Make the connection to a node; the one that was lost goes. */
static int
connect_node(pgsf *h, struct Node *node)
{
	char		port[16];

	pgsf_free(node->handle);
	node->handle = NULL;
	PQfinish(node->conn);
	snprintf(port, sizeof(port), "%d", node->port);
	node->conn = h->connect != NULL ? h->connect(h->connect_arg, node->host, node->port)
		: connect_alike(h, node->host, port);
	if (node->conn == NULL)
		return pgsfi_fail(h, PGSF_ERROR_CONNECTION, "no connection to node %s:%s",
						  node->host, port);
	if (PQstatus(node->conn) != CONNECTION_OK)
		return pgsfi_fail(h, PGSF_ERROR_CONNECTION, "could not connect to node %s:%s: %s",
						  node->host, port, PQerrorMessage(node->conn));
	node->handle = pgsf_new(node->conn);
	return node->handle == NULL ? pgsfi_fail_memory(h) : 0;
}

/* The node of that place, connected; NULL after an error. */
static struct Node *
find_node(pgsf *h, const char *host, int port)
{
	struct Node *node = h->nodes;

	while (node != NULL && (node->port != port || strcmp(node->host, host) != 0))
		node = node->next;
	if (node == NULL)
	{
		node = calloc(1, sizeof(struct Node));
		if (node != NULL)
			node->host = strdup(host);
		if (node == NULL || node->host == NULL)
		{
			free(node);
			pgsfi_fail_memory(h);
			return NULL;
		}
		node->port = port;
		node->next = h->nodes;
		h->nodes = node;
	}
	if (node->handle != NULL && PQstatus(node->conn) == CONNECTION_OK)
		return node;
	return connect_node(h, node) < 0 ? NULL : node;
}

static void
forget_route(pgsf *h)
{
	free(h->shard);
	free(h->is_here);
	free(h->is_held);
	h->shard = h->is_here = h->is_held = NULL;
}

void
pgsfi_forget_nodes(pgsf *h)
{
	while (h->nodes != NULL)
	{
		struct Node *node = h->nodes;

		h->nodes = node->next;
		pgsf_free(node->handle);
		PQfinish(node->conn);
		free(node->host);
		free(node);
	}
	forget_route(h);
}

/* ---- asking the coordinator ---- */

/* The schema of the extension securefile_citus, quoted; NULL after an error. */
static char *
find_schema(pgsf *h)
{
	PGresult   *result;
	char	   *schema = NULL;

	if (pgsfi_execute(h, "SELECT pg_catalog.quote_ident(n.nspname)"
					  " FROM pg_catalog.pg_extension e"
					  " JOIN pg_catalog.pg_namespace n ON n.oid OPERATOR(pg_catalog.=) e.extnamespace"
					  " WHERE e.extname OPERATOR(pg_catalog.=) 'securefile_citus'", &result) < 0)
		return NULL;
	if (PQntuples(result) == 0)
		pgsfi_fail(h, PGSF_ERROR_EXTENSION, "extension securefile_citus is not in this database");
	else if (pgsfi_check_columns(h, result, 1, 0) == 0)
		schema = pgsfi_copy_name(h, result, 0);
	PQclear(result);
	return schema;
}

/*
 * Ask for the shard of a key: its number, name, host and port, and the distribution column,
 * quoted; NULL after an error.
 */
static PGresult *
ask_coordinator(pgsf *h, const char *schema, const char *table, const char *key)
{
	const char *values[] = {table, key};
	pgsf_params params = {2, NULL, values, NULL, NULL};
	char	   *sql = pgsfi_sql(h, "SELECT r.shardid, r.shard_name, r.nodename, r.nodeport,"
								" pg_catalog.quote_ident(pg_catalog.column_to_column_name("
								"p.logicalrelid, p.partkey))"
								" FROM %s.securefile_dist_route($1::pg_catalog.regclass, $2::pg_catalog.text) r,"
								" pg_catalog.pg_dist_partition p"
								" WHERE p.logicalrelid::pg_catalog.oid OPERATOR(pg_catalog.=)"
								" $1::pg_catalog.regclass::pg_catalog.oid",
								schema);
	PGresult   *result = NULL;

	if (sql != NULL && pgsfi_send(h, AWAITED_ANSWER, sql, &params, 0) == 0 &&
		pgsfi_finish(h, &result) == 0 &&
		pgsfi_check_columns(h, result, NUM_ROUTE_COLUMNS, 0) < 0)
	{
		PQclear(result);
		result = NULL;
	}
	free(sql);
	return result;
}

/* Keep the texts of a route, and connect. */
static int
take_route(pgsf *h, const pgsf_place *place, pgsf_route *route)
{
	struct Node *node;

	if (pgsfi_check_place(h, place) < 0)
		return -1;
	forget_route(h);
	h->shard = strdup(place->shard);
	h->is_here = pgsfi_sql(h, "%s.securefile_dist_is_here(%s::pg_catalog.int8)", place->schema,
						   place->shardid);
	if (place->column == NULL)
		h->is_held = pgsfi_sql(h, "%s.securefile_dist_hold_shard(%s::pg_catalog.int8)",
							   place->schema, place->shardid);
	else
		h->is_held = pgsfi_sql(h, "%s.securefile_dist_hold_shard(%s::pg_catalog.int8,"
							   " pg_catalog.worker_hash(%s))", place->schema, place->shardid,
							   place->column);
	if (h->shard == NULL || h->is_here == NULL || h->is_held == NULL)
		return pgsfi_fail_memory(h);
	node = find_node(h, place->host, place->port);
	if (node == NULL)
		return -1;
	*route = (pgsf_route) {node->conn, node->handle, h->shard, h->is_here, h->is_held};
	return 0;
}

static int
take_answer(pgsf *h, const char *schema, const PGresult *result, pgsf_route *route)
{
	pgsf_place	place = {
		.schema = schema,
		.shardid = PQgetvalue(result, 0, ROUTE_SHARD),
		.shard = PQgetvalue(result, 0, ROUTE_NAME),
		.host = PQgetvalue(result, 0, ROUTE_HOST),
		.port = atoi(PQgetvalue(result, 0, ROUTE_PORT)),
		.column = PQgetisnull(result, 0, ROUTE_KEY) ? NULL : PQgetvalue(result, 0, ROUTE_KEY)
	};

	return take_route(h, &place, route);
}

int
pgsf_find_route(pgsf *h, const char *table, const char *key, pgsf_route *route)
{
	PGresult   *result;
	char	   *schema;
	int			rc = -1;

	if (pgsfi_start_closed(h) < 0)
		return -1;
	if (table == NULL || route == NULL)
		return pgsfi_fail(h, PGSF_ERROR_ARGUMENT, "table and route must not be NULL");
	if (pgsfi_enter(h) < 0)
		return -1;
	schema = find_schema(h);
	result = schema == NULL ? NULL : ask_coordinator(h, schema, table, key);
	if (result == NULL || pgsfi_release(h) < 0)
		pgsfi_give_up(h);
	else
		rc = take_answer(h, schema, result, route);
	PQclear(result);
	free(schema);
	return rc;
}

int
pgsf_use_route(pgsf *h, const pgsf_place *place, pgsf_route *route)
{
	if (pgsfi_start_closed(h) < 0)
		return -1;
	if (place == NULL || route == NULL || place->schema == NULL || place->shardid == NULL ||
		place->shard == NULL || place->host == NULL)
		return pgsfi_fail(h, PGSF_ERROR_ARGUMENT, "place and route must not be NULL");
	return take_route(h, place, route);
}
