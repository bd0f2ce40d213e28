/*-------------------------------------------------------------------------
 *
 * columns.c
 *	  Tables of the columns that are compared.
 *
 *-------------------------------------------------------------------------
 */
#include <stdlib.h>
#include <string.h>

#include <arpa/inet.h>

#include "columns.h"
#include "common.h"

#define BINARY			1
#define OID_INT4		23
#define OID_BYTEA		17

/* Run a statement with a table's name in it. */
static void
run_on(const char *format, const char *table)
{
	char		sql[512];

	snprintf(sql, sizeof(sql), format, table);
	run(sql);
}

const char *
table_of(int column)
{
	static char name[32];

	snprintf(name, sizeof(name), "bench_%d", column);
	return name;
}

/* Prepare a statement of a column: w3 or r3. */
static void
prepare(char what, int column, const char *sql, int parameters)
{
	static const Oid types[] = {OID_INT4, OID_BYTEA};
	char		name[16];
	PGresult   *res;

	snprintf(name, sizeof(name), "%c%d", what, column);
	res = PQprepare(conn, name, sql, parameters, types);
	if (PQresultStatus(res) != PGRES_COMMAND_OK)
		die(sql);
	PQclear(res);
}

void
make_columns(const Column *columns, int n)
{
	char		sql[512];

	run("DEALLOCATE ALL");
	drop_columns(n);
	for (int c = 0; c < n; c++)
	{
		const char *table = table_of(c);

		snprintf(sql, sizeof(sql), "CREATE TABLE %s (id int PRIMARY KEY, doc %s)",
				 table, columns[c].type);
		run(sql);
		if (columns[c].storage)
			run_on(columns[c].storage, table);
		snprintf(sql, sizeof(sql), "INSERT INTO %s VALUES ($1, %s)", table, columns[c].value);
		prepare('w', c, sql, 2);
		snprintf(sql, sizeof(sql), "SELECT doc::bytea FROM %s WHERE id = $1", table);
		if (strcmp(columns[c].type, "int") != 0)
			prepare('r', c, sql, 1);
	}
}

void
drop_columns(int n)
{
	for (int c = 0; c < n; c++)
		run_on("DROP TABLE IF EXISTS %s", table_of(c));
}

/* Insert an object with the prepared statement of its column. */
static void
insert_one(int column, int id, const char *data, int size)
{
	uint32_t	wire_id = htonl((uint32_t) id);
	const char *values[] = {(const char *) &wire_id, data};
	const int	lengths[] = {sizeof(wire_id), size};
	const int	formats[] = {BINARY, BINARY};
	char		name[16];
	PGresult   *res;

	snprintf(name, sizeof(name), "w%d", column);
	res = PQexecPrepared(conn, name, 2, values, lengths, formats, BINARY);
	if (PQresultStatus(res) != PGRES_COMMAND_OK)
		die("insert");
	PQclear(res);
}

/* Read an object and check its length and, unless expected is NULL, its bytes. */
static void
read_one(const char *column_name, int column, int id, const char *expected, int size)
{
	uint32_t	wire_id = htonl((uint32_t) id);
	const char *values[] = {(const char *) &wire_id};
	const int	lengths[] = {sizeof(wire_id)};
	const int	formats[] = {BINARY};
	char		name[16];
	PGresult   *res;

	snprintf(name, sizeof(name), "r%d", column);
	res = PQexecPrepared(conn, name, 1, values, lengths, formats, BINARY);
	if (PQresultStatus(res) != PGRES_TUPLES_OK || PQntuples(res) != 1)
		die("select");
	if (PQgetlength(res, 0, 0) != size ||
		(expected && memcmp(PQgetvalue(res, 0, 0), expected, (size_t) size) != 0))
	{
		fprintf(stderr, "bench: object %d of %s came back changed\n", id, column_name);
		exit(1);
	}
	PQclear(res);
}

void
empty_column(const Column *columns, int column)
{
	const char *table = table_of(column);

	run_on("DELETE FROM %s", table);
	run_on("VACUUM %s", table);
	if (strncmp(columns[column].type, "securefile", 10) == 0)
		wait_for_space(table, "doc");
}

double
write_column(int column, const Load *load)
{
	double		start;

	run("CHECKPOINT");
	start = now();
	for (int i = 0; i < load->objects; i++)
	{
		if (load->per_commit > 1 && i % load->per_commit == 0)
			run("BEGIN");
		insert_one(column, i, load->bytes(load, i), load->size_bytes);
		if (load->per_commit > 1 && (i + 1) % load->per_commit == 0)
			run("COMMIT");
	}
	return now() - start;
}

double
read_column(const Column *columns, int column, const Load *load, bool check)
{
	double		start = now();

	for (int i = 0; i < load->objects; i++)
		read_one(columns[column].name, column, i, check ? load->bytes(load, i) : NULL,
				 load->size_bytes);
	return now() - start;
}
