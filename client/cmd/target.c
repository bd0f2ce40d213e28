/*-------------------------------------------------------------------------
 *
 * target.c
 *	  Finding the table, the column of the files and the column of the names.
 *
 * The user writes the table as in SQL and the columns as in the catalog, as for the
 * functions of the extension.  The server does the quoting.
 *
 * The command's statements run with the rights of its user, often a superuser.  Other
 * users of the database may make functions and operators in the schemas of the search
 * path, and PostgreSQL takes the one whose argument types fit best.  So in all files:
 * functions, types, collations and operators are named with their schemas.  If others can
 * create objects in that schema (the extension's, for one) the arguments have exactly the
 * declared types.  IN, BETWEEN, LIKE and CASE x WHEN look up operators and are not used.
 *
 *-------------------------------------------------------------------------
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "answer.h"
#include "meta.h"
#include "session.h"
#include "text.h"

#define NO_SUCH_TABLE	"42P01"

bool
target_find_extension(Session *session, Target *target, Failure *failure)
{
	PGresult   *result = session_rows(session, failure, 1,
									  "SELECT pg_catalog.quote_ident(n.nspname)"
									  " FROM pg_catalog.pg_extension e"
									  " JOIN pg_catalog.pg_namespace n ON n.oid OPERATOR(pg_catalog.=) e.extnamespace"
									  " WHERE e.extname OPERATOR(pg_catalog.=) 'securefile'", 0, NULL);
	bool		found = result != NULL && PQntuples(result) == 1;

	if (found)
	{
		target->extension = answer_name(result, 0, failure);
		found = target->extension != NULL;
	}
	else if (result != NULL)
		failure_say(failure, "database \"%s\" does not have the extension securefile\n"
					"Hint: CREATE EXTENSION securefile;", PQdb(session->conn));
	PQclear(result);
	return found;
}

/* There is no such table: say how it is made, in words that a shell takes. */
static void
hint_at_init(const Options *options, Failure *failure)
{
	char	   *text = text_make("%s", failure->text);
	bool		plain = options->table[strspn(options->table, "abcdefghijklmnopqrstuvwxyz"
											  "ABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_.")] == '\0';
	const char *quote = plain ? "" : "'";

	if (strcmp(failure->sqlstate, NO_SUCH_TABLE) == 0)
	{
		failure_say(failure, "%s\nHint: \"securefile init -t %s%s%s\" makes it.", text, quote,
					options->table, quote);
		strcpy(failure->sqlstate, NO_SUCH_TABLE);
	}
	free(text);
}

/*
 * The table; also its first leaf partition, where new values can be made for a
 * partitioned one.
 */
bool
target_find_table(Session *session, const Options *options, Target *target, Failure *failure)
{
	const char *const values[] = {options->table};
	PGresult   *result = session_rows(session, failure, 3,
									  "SELECT pg_catalog.format('%I.%I', n.nspname, c.relname),"
									  " c.relkind OPERATOR(pg_catalog.<>) 'p' AND c.relkind OPERATOR(pg_catalog.<>) 'v',"
									  " CASE WHEN c.relkind OPERATOR(pg_catalog.=) 'p' THEN"
									  "  (SELECT pg_catalog.format('%I.%I', m.nspname, l.relname)"
									  "   FROM pg_catalog.pg_partition_tree(c.oid) p"
									  "   JOIN pg_catalog.pg_class l ON l.oid OPERATOR(pg_catalog.=) p.relid"
									  "   JOIN pg_catalog.pg_namespace m ON m.oid OPERATOR(pg_catalog.=) l.relnamespace"
									  "   WHERE p.isleaf AND l.relkind OPERATOR(pg_catalog.=) 'r'"
									  "   ORDER BY p.level, l.relname LIMIT 1) END"
									  " FROM pg_catalog.pg_class c"
									  " JOIN pg_catalog.pg_namespace n ON n.oid OPERATOR(pg_catalog.=) c.relnamespace"
									  " WHERE c.oid OPERATOR(pg_catalog.=) $1::pg_catalog.regclass", 1, values);

	if (result == NULL)
	{
		hint_at_init(options, failure);
		return false;
	}
	if (PQntuples(result) == 0)
	{
		/* the server takes any number as a regclass, also one of no relation */
		PQclear(result);
		return failure_say(failure, "relation \"%s\" does not exist", options->table);
	}
	target->table = answer_name(result, 0, failure);
	target->has_rows = PQgetvalue(result, 0, 1)[0] == 't';
	target->store_table = answer_name(result, PQgetisnull(result, 0, 2) ? 0 : 2, failure);
	PQclear(result);
	return target->table != NULL && target->store_table != NULL;
}

/*
 * Is it a distributed table of Citus?  What the catalog of Citus says is asked for only where
 * there is one.
 */
static bool
find_distribution(Session *session, Target *target, Failure *failure)
{
	const char *const values[] = {target->table};
	PGresult   *result = session_rows(session, failure, 2,
									  "SELECT pg_catalog.to_regclass('pg_catalog.pg_dist_partition') IS NOT NULL,"
									  " (SELECT pg_catalog.quote_ident(n.nspname) FROM pg_catalog.pg_extension e"
									  "  JOIN pg_catalog.pg_namespace n ON n.oid OPERATOR(pg_catalog.=) e.extnamespace"
									  "  WHERE e.extname OPERATOR(pg_catalog.=) 'securefile_citus')", 0, NULL);
	bool		good;
	bool		known;
	char	   *sql;

	if (result == NULL)
		return false;
	known = PQntuples(result) == 1 && PQgetvalue(result, 0, 0)[0] == 't';
	good = !known || PQgetisnull(result, 0, 1) ||
		(target->dist_schema = answer_name(result, 1, failure)) != NULL;
	PQclear(result);
	if (!known || !good)
		return good;
	sql = text_make("SELECT %s%s,"
					" pg_catalog.quote_ident(pg_catalog.column_to_column_name(p.logicalrelid, p.partkey))"
					" FROM pg_catalog.pg_dist_partition p"
					" WHERE p.logicalrelid OPERATOR(pg_catalog.=) $1::pg_catalog.regclass",
					target->dist_schema == NULL ? "false" : target->dist_schema,
					target->dist_schema == NULL ? "" :
					".securefile_dist_routable($1::pg_catalog.regclass)");
	result = session_rows(session, failure, 2, sql, 1, values);
	free(sql);
	if (result == NULL)
		return false;
	target->distributed = PQntuples(result) > 0;
	if (target->distributed)
	{
		target->routable = PQgetvalue(result, 0, 0)[0] == 't';
		good = PQgetisnull(result, 0, 1) ||
			(target->dist_key = answer_name(result, 1, failure)) != NULL;
	}
	PQclear(result);
	return good;
}

/* The column of that name, or the only securefile column; domains over the type count. */
static bool
find_column(Session *session, const Options *options, Target *target, Failure *failure)
{
	char	   *type = text_make("%s.securefile", target->extension);
	const char *const values[] = {target->table, options->column, type};
	PGresult   *result = session_rows(session, failure, 3,
									  "WITH RECURSIVE " TARGET_FILE_TYPES
									  " SELECT pg_catalog.quote_ident(a.attname), a.attname,"
									  "  a.atttypid OPERATOR(pg_catalog.=) ANY (SELECT f.oid FROM files f)"
									  " FROM pg_catalog.pg_attribute a"
									  " WHERE a.attrelid OPERATOR(pg_catalog.=) $1::pg_catalog.regclass"
									  " AND a.attnum OPERATOR(pg_catalog.>) 0 AND NOT a.attisdropped"
									  " AND CASE WHEN $2::pg_catalog.text IS NULL"
									  "  THEN a.atttypid OPERATOR(pg_catalog.=) ANY (SELECT f.oid FROM files f)"
									  "  ELSE a.attname OPERATOR(pg_catalog.=) $2::pg_catalog.text END", 3, values);
	int			rows = PQntuples(result);

	free(type);
	if (result == NULL)
		return false;
	if (rows == 1 && PQgetvalue(result, 0, 2)[0] == 't')
	{
		target->column = answer_name(result, 0, failure);
		target->plain_column = text_make("%s", PQgetvalue(result, 0, 1));
	}
	else if (rows == 1)
		failure_say(failure, "column \"%s\" of %s is not of type securefile",
					options->column, target->table);
	else if (options->column != NULL)
		failure_say(failure, "%s has no column \"%s\"", target->table, options->column);
	else if (rows == 0)
		failure_say(failure, "%s has no securefile column", target->table);
	else
		failure_say(failure, "%s has several securefile columns\nHint: Say with -c which one.",
					target->table);
	PQclear(result);
	return target->column != NULL;
}

/*
 * How the files are stored, and their hashes.  The cast is for columns of a domain: a function
 * is found by the exact type, as said above.
 */
static void
find_storage(Target *target)
{
	const char *extension = target->extension;
	const char *column = target->column;

	target->storage = text_make("%s.securefile_storage(%s::%s.securefile)",
								extension, column, extension);
	target->digest = text_make("pg_catalog.encode(%s.securefile_digest(%s::%s.securefile), 'hex')",
							   extension, column, extension);
	target->read_digest =
		text_make("pg_catalog.encode(%s.securefile_digest(%s::%s.securefile, 'sha256'::pg_catalog.text), 'hex')",
				  extension, column, extension);
	target->kept_digest =
		text_make("pg_catalog.encode(%s.securefile_kept_digest(%s::%s.securefile), 'hex')",
				  extension, column, extension);
}

/* The column of the names: the column that the user named, or the primary key. */
static bool
find_key(Session *session, const Options *options, Target *target, Failure *failure)
{
	const char *const values[] = {target->table, options->key};
	PGresult   *result = session_rows(session, failure, 2,
									  "SELECT pg_catalog.quote_ident(a.attname), a.atttypid"
									  " FROM pg_catalog.pg_attribute a"
									  " LEFT JOIN pg_catalog.pg_index i"
									  "  ON i.indrelid OPERATOR(pg_catalog.=) a.attrelid AND i.indisprimary"
									  "  AND a.attnum OPERATOR(pg_catalog.=)"
									  "   ANY ((i.indkey::pg_catalog.int2[])[0:i.indnkeyatts OPERATOR(pg_catalog.-) 1])"
									  " WHERE a.attrelid OPERATOR(pg_catalog.=) $1::pg_catalog.regclass"
									  " AND a.attnum OPERATOR(pg_catalog.>) 0 AND NOT a.attisdropped"
									  " AND CASE WHEN $2::pg_catalog.text IS NULL THEN i.indrelid IS NOT NULL"
									  "  ELSE a.attname OPERATOR(pg_catalog.=) $2::pg_catalog.text END", 2, values);
	int			rows = PQntuples(result);
	bool		found = false;

	if (result == NULL)
		return false;
	if (rows == 1)
	{
		target->key = answer_name(result, 0, failure);
		found = target->key != NULL &&
			key_describe(session, PQgetvalue(result, 0, 1), target, failure);
	}
	else if (options->key != NULL)
		failure_say(failure, "%s has no column \"%s\"", target->table, options->key);
	else
		failure_say(failure,
					"%s has no primary key of one column\n"
					"Hint: Say with -k which column has the names.",
					target->table);
	PQclear(result);
	return found;
}

bool
target_find_column(Session *session, const Options *options, Target *target, Failure *failure)
{
	const char *encoding = pg_encoding_to_char(PQclientEncoding(session->conn));

	memset(target, 0, sizeof(*target));
	target->names_are_utf8 = strcmp(encoding, "UTF8") == 0;
	return target_find_extension(session, target, failure) &&
		target_find_table(session, options, target, failure) &&
		find_distribution(session, target, failure) &&
		find_column(session, options, target, failure);
}

bool
target_find(Session *session, const Options *options, Target *target, Failure *failure)
{
	if (!target_find_column(session, options, target, failure) ||
		!find_key(session, options, target, failure) ||
		!meta_find(session, options, target, failure))
		return false;
	find_storage(target);
	return true;
}
