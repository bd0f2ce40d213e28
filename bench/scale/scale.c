/*-------------------------------------------------------------------------
 *
 * scale.c
 *	  Clients of a distributed table, with a pool for each worker: bytes for some seconds.
 *
 *	  scale OPERATION [options] CONNINFO
 *
 *		--size N		bytes of a value (1000000)
 *		--clients N		for each worker (4)
 *		--seconds S		how long (3)
 *		--first N		id of the first row (0)
 *		--rows N		rows that there are, to be read (200)
 *
 * Operations: put and insert go to the shard, as a stream and as a parameter, by the protocol
 * of doc/scale-out.md; batch stores 20 rows in a transaction, as that says of small files; get
 * reads a stream from the shard; coordinator_insert and coordinator_get name the distributed
 * table on the coordinator; local_put, local_insert, local_batch and local_get have an
 * ordinary table, on the server of CONNINFO.  Routes are asked for before the time
 * begins: then it prints "ready".  Prints one JSON object in the end.
 *
 *-------------------------------------------------------------------------
 */
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include <pgsecurefile.h>

#include "common.h"

#define MOST_THREADS	64
#define MOST_IDS		20000
#define BATCH			20
#define WARM_TURNS		6

/* Where a row is, or will be. */
typedef struct Route
{
	char		shard[80];
	int64_t		id;
} Route;

/* A worker, or the only server: its rows, and the one that comes next. */
typedef struct Place
{
	char		host[256];
	int			port;
	int64_t    *ids;
	size_t		count;
	atomic_size_t next;
} Place;

typedef struct Settings
{
	const char *conninfo;
	const char *operation;
	size_t		size;
	int			clients;
	double		seconds;
	int64_t		first;
	int64_t		rows;
} Settings;

typedef struct Client
{
	pthread_t	thread;
	Place	   *place;
	PGconn	   *conn;
	pgsf	   *handle;
	char	   *data;
	int64_t		done;
	double		begun;			/* the read that is running */
	bool		waiting;		/* for its first byte */
	double		waited;			/* seconds, in all reads together */
} Client;

static Settings settings = {NULL, NULL, 1000000, 4, 3, 0, 200};
static Route *routes;
static Place places[MOST_THREADS];
static int	nplaces;
static double end;
static pthread_barrier_t warm_line;
static pthread_barrier_t start_line;

static bool
is(const char *operation)
{
	return strcmp(settings.operation, operation) == 0;
}

static bool
reads(void)
{
	return strstr(settings.operation, "get") != NULL;
}

static bool
in_batches(void)
{
	return strstr(settings.operation, "batch") != NULL;
}

/* ---- where rows are ---- */

static Place *
find_place(const char *host, int port)
{
	for (int i = 0; i < nplaces; i++)
		if (places[i].port == port && strcmp(places[i].host, host) == 0)
			return &places[i];
	snprintf(places[nplaces].host, sizeof(places[0].host), "%s", host);
	places[nplaces].port = port;
	places[nplaces].ids = malloc(MOST_IDS * sizeof(int64_t));
	return &places[nplaces++];
}

/* For qsort: rows of one shard side by side. */
static int
compare_shards(const void *a, const void *b)
{
	int64_t		x = routes[*(const int64_t *) a].id;
	int64_t		y = routes[*(const int64_t *) b].id;

	return x != y ? (x > y ? 1 : -1) : *(const int64_t *) a > *(const int64_t *) b ? 1 : -1;
}

/* Ask once for all rows. */
static void
find_routes(int64_t count)
{
	char		sql[300];
	PGresult   *result;

	snprintf(sql, sizeof(sql), "SELECT shard_name, nodename, nodeport, shardid FROM securefile_dist_routes('scale',"
			 " (SELECT array_agg(i::text ORDER BY i) FROM generate_series(%lld, %lld) i))",
			 (long long) settings.first, (long long) (settings.first + count - 1));
	result = PQexec(conn, sql);
	if (PQntuples(result) != count)
		die(sql);
	for (int i = 0; i < count; i++)
	{
		Place	   *place = find_place(PQgetvalue(result, i, 1), atoi(PQgetvalue(result, i, 2)));

		snprintf(routes[i].shard, sizeof(routes[i].shard), "%s", PQgetvalue(result, i, 0));
		routes[i].id = atoll(PQgetvalue(result, i, 3));
		place->ids[place->count++] = i;
	}
	PQclear(result);
	for (int i = 0; i < nplaces; i++)
		qsort(places[i].ids, places[i].count, sizeof(int64_t), compare_shards);
}

/* As long as the program runs, the table is not made anew. */
static void
hold_table(void)
{
	PGresult   *result = PQexec(conn, "BEGIN; SELECT securefile_dist_hold('scale')");

	if (PQresultStatus(result) != PGRES_TUPLES_OK)
		die("securefile_dist_hold");
	PQclear(result);
}

/* All rows are asked of one server. */
static void
one_place(int64_t count)
{
	Place	   *place = find_place("", 0);

	for (int64_t i = 0; i < count; i++)
	{
		snprintf(routes[i].shard, sizeof(routes[i].shard), "scale");
		place->ids[place->count++] = i;
	}
}

/* ---- one value ---- */

static void
failed(Client *client, const char *what)
{
	fprintf(stderr, "scale: %s: %s %s\n", what, PQerrorMessage(client->conn), pgsf_error(client->handle));
	exit(1);
}

static void
execute(Client *client, const char *sql)
{
	PGresult   *result = PQexec(client->conn, sql);

	if (PQresultStatus(result) != PGRES_COMMAND_OK && PQresultStatus(result) != PGRES_TUPLES_OK)
		failed(client, sql);
	PQclear(result);
}

/* Execute a statement whose $1 is the value. */
static void
execute_with_value(Client *client, const char *sql)
{
	const Oid	types[] = {17};
	const char *const values[] = {client->data};
	const int	lengths[] = {(int) settings.size};
	const int	formats[] = {1};
	PGresult   *result = PQexecParams(client->conn, sql, 1, types, values, lengths, formats, 1);

	if (PQresultStatus(result) != PGRES_COMMAND_OK || strcmp(PQcmdTuples(result), "1") != 0)
		failed(client, sql);
	PQclear(result);
}

static void
write_one(Client *client, int64_t id, const Route *route)
{
	bool		whole = strstr(settings.operation, "insert") != NULL;
	const char *value = whole ? "$1" : PGSF_VALUE;
	char		sql[300];

	if (is("put") || is("insert"))
		snprintf(sql, sizeof(sql), "INSERT INTO %s SELECT %lld, %s"
				 " WHERE securefile_dist_hold_shard(%lld, worker_hash(%lld::bigint))", route->shard,
				 (long long) id, value, (long long) route->id, (long long) id);
	else
		snprintf(sql, sizeof(sql), "INSERT INTO scale VALUES (%lld, %s)", (long long) id, value);
	if (whole)
		execute_with_value(client, sql);
	else if (pgsf_put_memory(client->handle, client->data, settings.size, route->shard, "document", sql,
							 NULL, NULL) < 0)
		failed(client, sql);
}

/* The lock of a shard, for the rest of the transaction. */
static void
hold_shard(Client *client, const Route *route)
{
	char		sql[200];
	PGresult   *result;

	snprintf(sql, sizeof(sql), "SELECT securefile_dist_hold_shard(%lld)", (long long) route->id);
	result = PQexec(client->conn, sql);
	if (PQntuples(result) != 1 || strcmp(PQgetvalue(result, 0, 0), "t") != 0)
		failed(client, sql);
	PQclear(result);
}

/* n rows in a transaction; those of one shard follow one another. */
static void
write_batch(Client *client, const int64_t *ids, size_t n)
{
	int64_t		held = 0;
	char		sql[200];

	execute(client, "BEGIN");
	for (size_t i = 0; i < n; i++)
	{
		const Route *route = &routes[ids[i]];
		int64_t		id = settings.first + ids[i];

		if (is("batch") && route->id != held)
			hold_shard(client, route);
		held = route->id;
		snprintf(sql, sizeof(sql), "INSERT INTO %s VALUES (%lld, $1)", route->shard, (long long) id);
		execute_with_value(client, sql);
	}
	execute(client, "COMMIT");
}

/* A pgsf_sink: notes when the first byte came. */
static int
take(void *arg, const void *data, size_t len)
{
	Client	   *client = arg;

	(void) data;
	(void) len;
	if (client->waiting)
		client->waited += now() - client->begun;
	client->waiting = false;
	return 0;
}

static void
read_one(Client *client, int64_t id, const Route *route)
{
	char		sql[300];
	int			sql_len;
	int64_t		len;

	sql_len = snprintf(sql, sizeof(sql), "SELECT document FROM %s WHERE id = %lld", route->shard,
					   (long long) id);
	if (is("get"))
		snprintf(sql + sql_len, sizeof(sql) - sql_len, " AND securefile_dist_is_here(%lld)",
				 (long long) route->id);
	client->begun = now();
	client->waiting = true;
	len = pgsf_get_callback(client->handle, take, client, 0, -1, sql, NULL);
	if (len != (int64_t) settings.size)
		failed(client, sql);
}

/* ---- clients ---- */

static PGconn *
connect_to(const Place *place)
{
	char		text[1024];

	if (place->port == 0)
		return PQconnectdb(settings.conninfo);
	/* of two equal words the later counts */
	snprintf(text, sizeof(text), "%s host=%s port=%d", settings.conninfo, place->host, place->port);
	return PQconnectdb(text);
}

/* One value, or one transaction; false: there are no rows left. */
static bool
take_turn(Client *client)
{
	Place	   *place = client->place;
	size_t		step = in_batches() ? BATCH : 1;
	size_t		n = atomic_fetch_add(&place->next, step);
	int64_t		i;

	if (!reads() && n + step > place->count)
		return false;
	client->done += step;
	i = place->ids[n % place->count];
	if (in_batches())
		write_batch(client, place->ids + n, step);
	else if (reads())
		read_one(client, settings.first + i, &routes[i]);
	else
		write_one(client, settings.first + i, &routes[i]);
	return true;
}

/* Before the time begins, the session fills its caches, as those of a pool are. */
static void *
work(void *arg)
{
	Client	   *client = arg;

	for (int i = 0; i < (in_batches() ? 1 : WARM_TURNS); i++)
		(void) take_turn(client);
	client->done = 0;
	client->waited = 0;
	pthread_barrier_wait(&warm_line);
	pthread_barrier_wait(&start_line);
	while (now() < end && take_turn(client))
		;
	return NULL;
}

static void
measure(void)
{
	static Client clients[MOST_THREADS];
	int			total = nplaces * settings.clients;
	int64_t		done = 0;
	double		begun;
	double		waited = 0;

	pthread_barrier_init(&warm_line, NULL, (unsigned) total + 1);
	pthread_barrier_init(&start_line, NULL, (unsigned) total + 1);
	for (int i = 0; i < total; i++)
	{
		Client	   *client = &clients[i];

		client->place = &places[i % nplaces];
		client->conn = connect_to(client->place);
		client->handle = pgsf_new(client->conn);
		if (client->handle == NULL)
			failed(client, "connect");
		client->data = malloc(settings.size);
		fill(client->data, settings.size, (uint64_t) i + 1);
		pthread_create(&client->thread, NULL, work, client);
	}
	pthread_barrier_wait(&warm_line);
	/* from here on processor time is counted */
	printf("ready\n");
	fflush(stdout);
	begun = now();
	end = begun + settings.seconds;
	pthread_barrier_wait(&start_line);
	for (int i = 0; i < total; i++)
	{
		pthread_join(clients[i].thread, NULL);
		done += clients[i].done;
		waited += clients[i].waited;
	}
	printf("{\"operation\": \"%s\", \"size\": %zu, \"servers\": %d, \"clients\": %d, \"values\": %lld, "
		   "\"mb\": %.3f, \"mb_per_second\": %.2f, \"first_byte_ms\": %.2f}\n", settings.operation,
		   settings.size, nplaces, total, (long long) done, done * (double) settings.size / 1e6,
		   done * (double) settings.size / 1e6 / (now() - begun), 1000 * waited / (done > 0 ? (double) done : 1));
}

int
main(int argc, char **argv)
{
	int64_t		count;

	if (argc < 3)
		return 2;
	settings.operation = argv[1];
	settings.conninfo = argv[argc - 1];
	for (int i = 2; i + 1 < argc - 1; i += 2)
	{
		if (strcmp(argv[i], "--size") == 0)
			settings.size = (size_t) atoll(argv[i + 1]);
		else if (strcmp(argv[i], "--clients") == 0)
			settings.clients = atoi(argv[i + 1]);
		else if (strcmp(argv[i], "--seconds") == 0)
			settings.seconds = atof(argv[i + 1]);
		else if (strcmp(argv[i], "--first") == 0)
			settings.first = atoll(argv[i + 1]);
		else if (strcmp(argv[i], "--rows") == 0)
			settings.rows = atoll(argv[i + 1]);
		else
			return 2;
	}
	count = reads() ? settings.rows : MOST_IDS;
	if (settings.clients < 1 || settings.size < 1 || count < 1 || count > MOST_IDS)
		return 2;
	routes = calloc(MOST_IDS, sizeof(Route));
	/* a standby makes no extension */
	conn = PQconnectdb(settings.conninfo);
	if (PQstatus(conn) != CONNECTION_OK)
		die("connect");
	if (is("put") || is("insert") || is("batch") || is("get"))
		find_routes(count);
	else
		one_place(count);
	if (nplaces * settings.clients > MOST_THREADS)
		return 2;
	if (is("put") || is("insert") || is("batch"))
		hold_table();
	measure();
	return 0;
}
