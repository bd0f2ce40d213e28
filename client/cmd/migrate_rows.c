/*-------------------------------------------------------------------------
 *
 * migrate_rows.c
 *	  The column of the paths and URLs, and the rows that have one.
 *
 * How names of functions and operators are written: target.c.
 *
 *-------------------------------------------------------------------------
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "answer.h"
#include "migrate.h"
#include "text.h"

/*
 * For the column $2 of the table $1: its name, and whether it is of a type of text, or of a domain
 * over one.  Casts of other types may be functions of their owner.
 */
static const char find_from[] =
	"WITH RECURSIVE chain (oid, typbasetype, typtype) AS ("
	" SELECT t.oid, t.typbasetype, t.typtype FROM pg_catalog.pg_attribute a"
	"  JOIN pg_catalog.pg_type t ON t.oid OPERATOR(pg_catalog.=) a.atttypid"
	"  WHERE a.attrelid OPERATOR(pg_catalog.=) $1::pg_catalog.regclass"
	"  AND a.attname OPERATOR(pg_catalog.=) $2::pg_catalog.text"
	"  AND a.attnum OPERATOR(pg_catalog.>) 0 AND NOT a.attisdropped"
	" UNION ALL SELECT t.oid, t.typbasetype, t.typtype FROM chain d"
	"  JOIN pg_catalog.pg_type t ON t.oid OPERATOR(pg_catalog.=) d.typbasetype"
	"  WHERE d.typtype OPERATOR(pg_catalog.=) 'd')"
	" SELECT pg_catalog.quote_ident($2::pg_catalog.text), d.oid OPERATOR(pg_catalog.=) ANY"
	"  (ARRAY['pg_catalog.text', 'pg_catalog.varchar', 'pg_catalog.bpchar', 'pg_catalog.name']"
	"   ::pg_catalog.regtype[]::pg_catalog.oid[])"
	" FROM chain d WHERE d.typtype OPERATOR(pg_catalog.<>) 'd'";

bool
migrate_find_from(Session *session, Migrate *migrate, Failure *failure)
{
	const char *column = migrate->options->from;
	const char *const values[] = {migrate->target->table, column};
	PGresult   *result = session_rows(session, failure, 2, find_from, 2, values);
	char	   *name = NULL;

	if (result == NULL)
		return false;
	if (PQntuples(result) != 1)
		failure_say(failure, "%s has no column \"%s\"", migrate->target->table, column);
	else if (PQgetvalue(result, 0, 1)[0] != 't')
		failure_say(failure, "column \"%s\" of %s is not of a type of text, as paths and URLs are",
					column, migrate->target->table);
	else
		name = answer_name(result, 0, failure);
	PQclear(result);
	if (name == NULL)
		return false;

	/*
	 * COLLATE: two texts are equal if their bytes are, whatever the collation
	 * of the column is
	 */
	migrate->from = text_make("(CASE WHEN pg_catalog.octet_length(%s::pg_catalog.text)"
							  " OPERATOR(pg_catalog.>) 0"
							  " THEN %s::pg_catalog.text COLLATE pg_catalog.\"C\" END)", name, name);
	migrate->is_from = text_make("%s OPERATOR(pg_catalog.=) $2::pg_catalog.text", migrate->from);
	free(name);
	return true;
}

/* A copy of a field; NULL for null. */
static char *
copy_field(const PGresult *row, int column)
{
	return PQgetisnull(row, 0, column) ? NULL : text_make("%s", PQgetvalue(row, 0, column));
}

static bool
add_row(void *arg, const PGresult *row, Failure *failure)
{
	Migrate    *migrate = arg;

	if (!answer_has(row, 2, failure))
		return false;
	if (migrate->count == migrate->space)
	{
		migrate->space = migrate->space * 2 + 1024;
		migrate->rows = realloc(migrate->rows, migrate->space * sizeof(MigrateRow));
		if (migrate->rows == NULL)
			abort();
	}
	migrate->rows[migrate->count++] = (MigrateRow)
	{
		copy_field(row, 0), copy_field(row, 1)
	};
	return true;
}

bool
migrate_list(Session *session, Migrate *migrate, bool done, Failure *failure)
{
	const Target *target = migrate->target;
	char	   *sql = text_make("SELECT %s, %s FROM %s WHERE %s IS %s NULL AND %s IS NOT NULL",
								target->key_text, migrate->from, target->table, target->column,
								done ? "NOT" : "", migrate->from);
	bool		sent = PQsendQueryParams(session->conn, sql, 0, NULL, NULL, NULL, NULL, 0) &&
		PQsetSingleRowMode(session->conn);

	free(sql);
	migrate->count = 0;
	if (!sent)
		return failure_sql(failure, session->conn, NULL);
	return answer_each_row(session->conn, add_row, migrate, failure);
}

static int64_t
count_field(const PGresult *row, int column)
{
	return strtoll(PQgetvalue(row, 0, column), NULL, 10);
}

bool
migrate_count(Session *session, const Migrate *migrate, MigrateCounts *counts, Failure *failure)
{
	char	   *sql = text_make("SELECT pg_catalog.count(*),"
								" pg_catalog.count(*) FILTER (WHERE f.done),"
								" pg_catalog.count(*) FILTER (WHERE NOT f.done AND f.origin IS NULL),"
								" pg_catalog.count(f.origin) FILTER (WHERE NOT f.done) OPERATOR(pg_catalog.-)"
								"  pg_catalog.count(DISTINCT f.origin) FILTER (WHERE NOT f.done)"
								" FROM (SELECT %s IS NOT NULL, %s FROM %s) f (done, origin)",
								migrate->target->column, migrate->from, migrate->target->table);
	PGresult   *result = session_rows(session, failure, 4, sql, 0, NULL);
	bool		good = PQntuples(result) == 1;

	free(sql);
	if (good)
	{
		counts->rows = count_field(result, 0);
		counts->done = count_field(result, 1);
		counts->empty = count_field(result, 2);
		counts->repeated = count_field(result, 3);
	}
	else if (result != NULL)
		failure_say(failure, "the server sent an answer of another form");
	PQclear(result);
	return good;
}

bool
migrate_look(Session *session, const Migrate *migrate, const char *key, const char *digest,
			 MigrateLook *look, Failure *failure)
{
	const Target *target = migrate->target;
	const char *const values[] = {key};
	char	   *sql = text_make("SELECT %s IS NOT NULL, %s, %s FROM %s WHERE %s", target->column,
								migrate->from, digest == NULL ? "NULL" : digest, target->table,
								target->key_is_name);
	PGresult   *result = session_rows(session, failure, 3, sql, 1, values);
	int			rows = PQntuples(result);

	free(sql);
	memset(look, 0, sizeof(*look));
	if (result == NULL)
		return false;
	look->there = rows == 1;
	if (rows == 1)
	{
		look->done = PQgetvalue(result, 0, 0)[0] == 't';
		look->from = copy_field(result, 1);
		snprintf(look->sha256, sizeof(look->sha256), "%s", PQgetvalue(result, 0, 2));
	}
	PQclear(result);
	return rows <= 1 || failure_say(failure, "more than one row has that name");
}
