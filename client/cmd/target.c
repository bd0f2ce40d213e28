/*-------------------------------------------------------------------------
 *
 * target.c
 *	  Which table, which column has the files, which one the names.
 *
 * The table is written as in SQL, the columns as they are in the catalog: as the
 * functions of the extension have it.  Quoting is the server's work.
 *
 *-------------------------------------------------------------------------
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "session.h"
#include "text.h"

static char *
copy_field(const PGresult *result, int column)
{
	char	   *copy = strdup(PQgetvalue(result, 0, column));

	if (copy == NULL)
		abort();
	return copy;
}

static bool
find_extension(Session *session, Target *target, Failure *failure)
{
	PGresult   *result = session_query(session, failure,
									   "SELECT quote_ident(nspname) FROM pg_catalog.pg_extension"
									   " JOIN pg_catalog.pg_namespace n ON n.oid = extnamespace"
									   " WHERE extname = 'securefile'", 0, NULL);
	bool		found = result != NULL && PQntuples(result) == 1;

	if (found)
		target->extension = copy_field(result, 0);
	else if (result != NULL)
		failure_say(failure, "database \"%s\" does not have the extension securefile\n"
					"Hint: CREATE EXTENSION securefile;", PQdb(session->conn));
	PQclear(result);
	return found;
}

/*
 * The table; also its first leaf partition, where new values can be made for a
 * partitioned one.
 */
static bool
find_table(Session *session, const Options *options, Target *target, Failure *failure)
{
	const char *const values[] = {options->table};
	PGresult   *result = session_query(session, failure,
									   "SELECT quote_ident(n.nspname) || '.' || quote_ident(c.relname), c.relkind NOT IN ('p', 'v'),"
									   " CASE WHEN c.relkind = 'p' THEN"
									   "  (SELECT quote_ident(m.nspname) || '.' || quote_ident(l.relname)"
									   "   FROM pg_catalog.pg_partition_tree(c.oid) p"
									   "   JOIN pg_catalog.pg_class l ON l.oid = p.relid"
									   "   JOIN pg_catalog.pg_namespace m ON m.oid = l.relnamespace"
									   "   WHERE p.isleaf AND l.relkind = 'r' ORDER BY p.level, l.relname LIMIT 1) END"
									   " FROM pg_catalog.pg_class c"
									   " JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace"
									   " WHERE c.oid = $1::pg_catalog.regclass", 1, values);

	if (result == NULL)
		return false;
	if (PQntuples(result) == 0)
	{
		/* a number that is no relation's is a regclass, too */
		PQclear(result);
		return failure_say(failure, "relation \"%s\" does not exist", options->table);
	}
	target->table = copy_field(result, 0);
	target->has_rows = PQgetvalue(result, 0, 1)[0] == 't';
	target->store_table = copy_field(result, PQgetisnull(result, 0, 2) ? 0 : 2);
	PQclear(result);
	return true;
}

/* The securefile columns, or the one of that name; domains over the type, too. */
static bool
find_column(Session *session, const Options *options, Target *target, Failure *failure)
{
	char	   *type = text_make("%s.securefile", target->extension);
	const char *const values[] = {target->table, options->column, type};
	PGresult   *result = session_query(session, failure,
									   "WITH RECURSIVE ours(oid) AS ("
									   " SELECT $3::text::pg_catalog.regtype::oid"
									   " UNION ALL SELECT t.oid FROM pg_catalog.pg_type t JOIN ours o"
									   "  ON t.typbasetype = o.oid AND t.typtype = 'd')"
									   " SELECT quote_ident(a.attname), a.attname, a.atttypid IN (SELECT oid FROM ours)"
									   " FROM pg_catalog.pg_attribute a"
									   " WHERE a.attrelid = $1::pg_catalog.regclass AND a.attnum > 0 AND NOT a.attisdropped"
									   " AND CASE WHEN $2::text IS NULL THEN a.atttypid IN (SELECT oid FROM ours)"
									   "  ELSE a.attname = $2 END", 3, values);
	int			rows = PQntuples(result);

	free(type);
	if (result == NULL)
		return false;
	if (rows == 1 && PQgetvalue(result, 0, 2)[0] == 't')
	{
		target->column = copy_field(result, 0);
		target->plain_column = copy_field(result, 1);
	}
	else if (rows == 1)
		failure_say(failure, "column \"%s\" of %s is not of type securefile", options->column, target->table);
	else if (options->column != NULL)
		failure_say(failure, "%s has no column \"%s\"", target->table, options->column);
	else if (rows == 0)
		failure_say(failure, "%s has no securefile column", target->table);
	else
		failure_say(failure, "%s has several securefile columns\nHint: Say with -c which one.", target->table);
	PQclear(result);
	return target->column != NULL;
}

/* The column of the names: the one asked for, or the primary key. */
static bool
find_key(Session *session, const Options *options, Target *target, Failure *failure)
{
	const char *const values[] = {target->table, options->key};
	PGresult   *result = session_query(session, failure,
									   "SELECT quote_ident(a.attname)"
									   " FROM pg_catalog.pg_attribute a"
									   " LEFT JOIN pg_catalog.pg_index i ON i.indrelid = a.attrelid AND i.indisprimary"
									   "  AND a.attnum = ANY ((i.indkey::int2[])[0:i.indnkeyatts - 1])"
									   " WHERE a.attrelid = $1::pg_catalog.regclass AND a.attnum > 0 AND NOT a.attisdropped"
									   " AND CASE WHEN $2::text IS NULL THEN i.indrelid IS NOT NULL"
									   "  ELSE a.attname = $2 END", 2, values);
	int			rows = PQntuples(result);

	if (result == NULL)
		return false;
	if (rows == 1)
		target->key = copy_field(result, 0);
	else if (options->key != NULL)
		failure_say(failure, "%s has no column \"%s\"", target->table, options->key);
	else
		failure_say(failure, "%s has no primary key of one column\nHint: Say with -k which column has the names.",
					target->table);
	PQclear(result);
	return rows == 1;
}

/* Fill it all in; false if something is not there. */
bool
target_find(Session *session, const Options *options, Target *target, Failure *failure)
{
	memset(target, 0, sizeof(*target));
	target->names_are_utf8 = strcmp(pg_encoding_to_char(PQclientEncoding(session->conn)), "UTF8") == 0;
	return find_extension(session, target, failure) &&
		find_table(session, options, target, failure) &&
		find_column(session, options, target, failure) &&
		find_key(session, options, target, failure);
}
