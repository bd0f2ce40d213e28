/*-------------------------------------------------------------------------
 *
 * engines.c
 *	  The table of engines, and how an object is written and read by each.
 *
 * All get the same bytes over the same connection, as binary parameters of prepared
 * statements, and give them as binary results.  A file beside the database is what the
 * application does without a database: write, fdatasync, then the row that names it.
 *
 *-------------------------------------------------------------------------
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common.h"
#include "engines.h"

static void write_file(Client * client, int64_t id);
static void read_file(Client * client, int64_t id);

#define TABLE(name, type) \
	"DROP TABLE IF EXISTS bench_" name ";" \
	"CREATE TABLE bench_" name " (id int8 PRIMARY KEY, doc " type ");"
#define INSERT(name, value)	"INSERT INTO bench_" name " VALUES ($1, " value ")"
#define SELECT(name, value)	"SELECT " value " FROM bench_" name " WHERE id = $1"
#define SECUREFILE(name, options) \
	{name, TABLE(name, "securefile(" options ")"), INSERT(name, "$2"), SELECT(name, "doc"), \
	NULL, NULL}
#define BYTEA(name, how) \
	{name, TABLE(name, "bytea") "ALTER TABLE bench_" name " ALTER doc SET " how, \
	INSERT(name, "$2"), SELECT(name, "doc"), NULL, NULL}

/* A bound: its write has no table, and its read gets bytes from nowhere. */
#define BOUND(name, write)	{name, "", "SELECT $1, " write, \
	"SELECT null_memory($2) WHERE $1 IS NOT NULL", NULL, NULL}

static const Engine engines[] = {
	SECUREFILE("logging", "logging"),
	SECUREFILE("filesystem_like", "filesystem_like_logging"),
	SECUREFILE("nocache", "nocache"),
	BYTEA("bytea", "STORAGE EXTERNAL"),
	BYTEA("bytea_lz4", "COMPRESSION lz4"),
	BYTEA("bytea_pglz", "COMPRESSION pglz"),
	{"large_object", TABLE("large_object", "oid"), INSERT("large_object", "lo_from_bytea(0, $2)"),
	SELECT("large_object", "lo_get(doc)"), NULL, NULL},
	{"file", TABLE("file", "text"), INSERT("file", "$2"), SELECT("file", "doc"), write_file, read_file},

	/*
	 * bounds: a durable write or a direct read; the same WAL, and its flush;
	 * the connection
	 */
	{"null", "", "SELECT $1, null_write($2)", "SELECT null_read($2) WHERE $1 IS NOT NULL",
	NULL, NULL},
	BOUND("wal", "pg_logical_emit_message(true, 'bench', $2)"),
	BOUND("connection", "octet_length($2)"),
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
static void
fail(Client * client, const char *what)
{
	fprintf(stderr, "%s: %s: %s\n", client->engine->name, what,
			errno != 0 && client->conn == NULL ? strerror(errno) : PQerrorMessage(client->conn));
	exit(1);
}

static void
require(Client * client, PGresult *result, const char *what)
{
	ExecStatusType status = PQresultStatus(result);

	if (status != PGRES_COMMAND_OK && status != PGRES_TUPLES_OK)
		fail(client, what);
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
		fail(client, "connect");
	client->data = malloc(client->size);
	fill(client->data, client->size, (uint64_t) client->number + 1);
	prepare(client, "write", client->engine->insert, 2);
	prepare(client, "read", client->engine->select, 2);
}

/* Execute one of the prepared statements; the caller clears the result. */
static PGresult *
execute(Client * client, const char *name, int64_t id, const char *value, int length)
{
	char		id_bytes[8];
	const char *values[2] = {id_bytes, value};
	int			lengths[2] = {8, length};
	int			formats[2] = {1, 1};
	PGresult   *result;

	put_int64(id_bytes, id);
	result = PQexecPrepared(client->conn, name, 2, values, lengths, formats, 1);
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
		PQclear(execute(client, "write", id, client->data, (int) client->size));
}

/* Bounds give other bytes, so these are compared only where there is a table. */
static void
compare(Client * client, int64_t id, const char *bytes, size_t length)
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
	result = execute(client, "read", id, size_bytes, 4);
	if (PQntuples(result) != 1)
		fail(client, "an object is missing");
	compare(client, id, PQgetvalue(result, 0, 0), (size_t) PQgetlength(result, 0, 0));
	PQclear(result);
}

/* ---- files ---- */

static void
file_path(const Client * client, int64_t id, char *path, size_t size)
{
	snprintf(path, size, "%s/%lld", client->directory, (long long) id);
}

static void
write_file(Client * client, int64_t id)
{
	char		path[1024];
	int			fd;
	size_t		done = 0;

	file_path(client, id, path, sizeof(path));
	fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
	while (fd >= 0 && done < client->size)
	{
		ssize_t		n = write(fd, client->data + done, client->size - done);

		if (n <= 0)
			break;
		done += (size_t) n;
	}
	if (fd < 0 || done < client->size || fdatasync(fd) != 0 || close(fd) != 0)
		fail(client, path);
	PQclear(execute(client, "write", id, path, (int) strlen(path)));
}

static void
read_file(Client * client, int64_t id)
{
	char		size_bytes[4] = {0};
	char		path[1024] = {0};
	PGresult   *result = execute(client, "read", id, size_bytes, 4);
	char	   *bytes = malloc(client->size);
	size_t		done = 0;
	ssize_t		n = 1;
	int			fd;

	if (PQntuples(result) != 1 || PQgetlength(result, 0, 0) >= (int) sizeof(path))
		fail(client, "a row is missing");
	memcpy(path, PQgetvalue(result, 0, 0), (size_t) PQgetlength(result, 0, 0));
	PQclear(result);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	while (fd >= 0 && n > 0 && done < client->size)
	{
		n = read(fd, bytes + done, client->size - done);
		done += n > 0 ? (size_t) n : 0;
	}
	if (fd < 0 || close(fd) != 0)
		fail(client, path);
	compare(client, id, bytes, done);
	free(bytes);
}
