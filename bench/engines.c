/*-------------------------------------------------------------------------
 *
 * engines.c
 *	  The table of engines, and how an object is written and read by each.
 *
 * All get the same bytes over the same connection, as binary parameters of prepared
 * statements, and give them as binary results.  Where the bytes are kept beside the
 * database, the row names them; see peers.c.
 *
 *-------------------------------------------------------------------------
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common.h"
#include "engines.h"

#define TABLE(name, type) \
	"DROP TABLE IF EXISTS bench_" name ";" \
	"CREATE TABLE bench_" name " (id int8 PRIMARY KEY CHECK (id >= 0), doc " type ");"
#define INSERT(name, value)	"INSERT INTO bench_" name " VALUES ($1, " value ")"
#define SELECT(name, value)	"SELECT " value " FROM bench_" name " WHERE id = $1"

/* An engine with a table, whose column is given by the parameter and read as it is. */
#define STORING(the_name, type, ...) \
	{.name = the_name, .make = TABLE(the_name, type), .insert = INSERT(the_name, "$2"), \
		.select = SELECT(the_name, "doc"), __VA_ARGS__}

/* A step of the ladder: one cache mode, and one way of I/O. */
#define LADDER(name, cache, method) \
	STORING(name, "securefile(filesystem_like_logging, " cache ")", \
			.settings = "SET securefile.io_method = " method)

#define BYTEA(the_name, how) \
	{.name = the_name, .make = TABLE(the_name, "bytea") \
		"ALTER TABLE bench_" the_name " ALTER doc SET " how, \
		.insert = INSERT(the_name, "$2"), .select = SELECT(the_name, "doc")}

/* All tables start empty, and so does that of large objects. */
#define EMPTY_LARGE_OBJECTS \
	"SET allow_system_table_mods = on;" \
	"TRUNCATE pg_largeobject, pg_largeobject_metadata;"

/* A bound has no table.  Its read gets bytes from nowhere, or the disk. */
#define BOUND(the_name, write_by, read_by) \
	{.name = the_name, .make = "", .insert = "SELECT $1, " write_by, \
		.select = "SELECT " read_by " WHERE $1 IS NOT NULL"}

static const Engine engines[] = {
	STORING("logging", "securefile(logging)"),
	STORING("filesystem_like", "securefile(filesystem_like_logging)"),
	LADDER("buffered", "cache", "sync"),
	LADDER("direct_sync", "nocache", "sync"),
	LADDER("direct_libaio", "nocache", "libaio"),
	LADDER("direct_io_uring", "nocache", "io_uring"),
	BYTEA("bytea", "STORAGE EXTERNAL"),
	BYTEA("bytea_lz4", "COMPRESSION lz4"),
	BYTEA("bytea_pglz", "COMPRESSION pglz"),
	{.name = "large_object", .make = EMPTY_LARGE_OBJECTS TABLE("large_object", "oid"),
		.insert = INSERT("large_object", "lo_from_bytea(0, $2)"),
		.select = SELECT("large_object", "lo_get(doc)")},
	STORING("file", "text", .write = write_file, .read = read_file),
	STORING("http", "text", .write = write_http_flush, .read = read_http),
	STORING("http_no_flush", "text", .write = write_http, .read = read_http),

	/*
	 * bounds: a durable write or a direct read; the same WAL, and its flush;
	 * the connection
	 */
	BOUND("null", "null_write($2)", "null_read($2)"),
	BOUND("wal", "pg_logical_emit_message(true, 'bench', $2)", "null_memory($2)"),
	BOUND("connection", "octet_length($2)", "null_memory($2)"),
};

#define ENGINES		((int) (sizeof(engines) / sizeof(engines[0])))

const		Engine *
find_engine(const char *name)
{
	for (int i = 0; i < ENGINES; i++)
		if (strcmp(engines[i].name, name) == 0)
			return &engines[i];
	return NULL;
}

void
print_engines(void)
{
	for (int i = 0; i < ENGINES; i++)
		fprintf(stderr, " %s", engines[i].name);
	fprintf(stderr, "\n");
}

/* Print what failed, and exit: a benchmark that goes on would measure something else. */
void
client_fail(Client * client, const char *what)
{
	const char *of_server = PQerrorMessage(client->conn);

	fprintf(stderr, "%s: %s: %s\n", client->engine->name, what,
			of_server[0] != '\0' ? of_server : strerror(errno));
	exit(1);
}

static void
require(Client * client, PGresult *result, const char *what)
{
	ExecStatusType status = PQresultStatus(result);

	if (status != PGRES_COMMAND_OK && status != PGRES_TUPLES_OK)
		client_fail(client, what);
}

void
client_run(Client * client, const char *sql)
{
	PGresult   *result = PQexec(client->conn, sql);

	require(client, result, sql);
	PQclear(result);
}

void
make_engine(const Engine * engine, PGconn *on)
{
	Client		client = {.engine = engine, .conn = on};

	client_run(&client, "SET client_min_messages = warning");
	if (engine->make[0] != '\0')
		client_run(&client, engine->make);
}

/* An int8 in network order, as parameters and the first bytes of objects have it. */
static void
put_int64(char *at, int64_t value)
{
	for (int i = 0; i < 8; i++)
		at[i] = (char) (value >> (56 - 8 * i));
}

static void
prepare(Client * client, const char *name, const char *sql, int ntypes)
{
	/* int8, then bytea, int4 or text */
	static const Oid write_types[] = {20, 17};
	static const Oid file_types[] = {20, 25};
	static const Oid read_types[] = {20, 23};
	const Oid  *types = strcmp(name, "read") == 0 ? read_types :
		client->engine->write != NULL ? file_types : write_types;
	PGresult   *result = PQprepare(client->conn, name, sql, ntypes, types);

	require(client, result, sql);
	PQclear(result);
}

void
begin_client(Client * client, const char *conninfo)
{
	client->conn = PQconnectdb(conninfo);
	if (PQstatus(client->conn) != CONNECTION_OK)
		client_fail(client, "connect");
	client->data = malloc(client->size);
	fill(client->data, client->size, (uint64_t) client->number + 1);
	if (client->engine->settings != NULL)
		client_run(client, client->engine->settings);
	prepare(client, "write", client->engine->insert, 2);
	prepare(client, "read", client->engine->select, 2);
}

/* Execute one of the prepared statements, which may fail. */
static PGresult *
try_statement(Client * client, const char *name, int64_t id, const char *value, int length)
{
	char		id_bytes[8];
	const char *values[2] = {id_bytes, value};
	int			lengths[2] = {8, length};
	int			formats[2] = {1, 1};

	put_int64(id_bytes, id);
	return PQexecPrepared(client->conn, name, 2, values, lengths, formats, 1);
}

/* Execute one of the prepared statements; the caller clears the result. */
PGresult *
client_execute(Client * client, const char *name, int64_t id, const char *value, int length)
{
	PGresult   *result = try_statement(client, name, id, value, length);

	require(client, result, name);
	return result;
}

void
write_object(Client * client, int64_t id)
{
	put_int64(client->data, id);
	if (client->engine->write != NULL)
		client->engine->write(client, id);
	else
		PQclear(client_execute(client, "write", id, client->data, (int) client->size));
}

/* Execute an INSERT that finds its id in the table. */
static void
write_conflict(Client * client, int64_t id, const char *action)
{
	char		sql[512];

	if (!client->prepared)
	{
		snprintf(sql, sizeof(sql), "%s ON CONFLICT (id) DO %s", client->engine->insert, action);
		prepare(client, "conflict", sql, 2);
		client->prepared = true;
	}
	put_int64(client->data, id);
	PQclear(client_execute(client, "conflict", id, client->data, (int) client->size));
}

void
upsert_object(Client * client, int64_t id)
{
	write_conflict(client, id, "UPDATE SET doc = excluded.doc");
}

void
ignore_object(Client * client, int64_t id)
{
	write_conflict(client, id, "NOTHING");
}

void
reject_object(Client * client, int64_t id)
{
	PGresult   *result;
	const char *state;

	put_int64(client->data, id);
	result = try_statement(client, "write", -1 - id, client->data, (int) client->size);
	state = PQresultErrorField(result, PG_DIAG_SQLSTATE);
	if (state == NULL || strcmp(state, "23514") != 0)
		client_fail(client, "no CHECK constraint was violated");
	PQclear(result);
}

/* Bounds give other bytes, so these are compared only where there is a table. */
void
client_compare(Client * client, int64_t id, const char *bytes, size_t length)
{
	char		want[8];

	put_int64(want, id);
	if (length == client->size && (client->engine->make[0] == '\0' || memcmp(bytes, want, 8) == 0))
		return;
	fprintf(stderr, "%s: object %lld is not what was written\n", client->engine->name,
			(long long) id);
	exit(1);
}

void
read_object(Client * client, int64_t id)
{
	char		size_bytes[4];
	PGresult   *result;

	if (client->engine->read != NULL)
	{
		client->engine->read(client, id);
		return;
	}
	for (int i = 0; i < 4; i++)
		size_bytes[i] = (char) (client->size >> (24 - 8 * i));
	result = client_execute(client, "read", id, size_bytes, 4);
	if (PQntuples(result) != 1)
		client_fail(client, "an object is missing");
	client_compare(client, id, PQgetvalue(result, 0, 0), (size_t) PQgetlength(result, 0, 0));
	PQclear(result);
}
