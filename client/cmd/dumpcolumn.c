/*-------------------------------------------------------------------------
 *
 * dumpcolumn.c
 *	  Finding securefile columns, the other columns of their rows, and the key.
 *
 * A file is read by the place of its row (tableoid, ctid), which is the same as long as the
 * snapshot of the dump is there: that needs no index, and works for any key.  The rows of a
 * distributed table lie elsewhere, so there it is read by its key.
 *
 *-------------------------------------------------------------------------
 */
#include <stdlib.h>
#include <string.h>

#include "answer.h"
#include "dumpcolumn.h"
#include "text.h"

/* What is not longer lies in its row.  The server digests it when it makes the list. */
#define IN_ROW_BYTES	4000

static char *
copy_of(const PGresult *result, int row, int column)
{
	return text_make("%s", PQgetvalue(result, row, column));
}

static char *
name_of(const PGresult *result, int row, int column, Failure *failure)
{
	if (answer_is_name(PQgetvalue(result, row, column)))
		return copy_of(result, row, column);
	failure_say(failure, "the server sent a name that cannot be one");
	return NULL;
}

/* ---- the columns ---- */

/* Is there Citus?  Its catalog can be asked for then. */
static bool
find_citus(Session *session, bool *citus, Failure *failure)
{
	PGresult   *result = session_rows(session, failure, 1,
									  "SELECT pg_catalog.to_regclass('pg_catalog.pg_dist_partition') IS NOT NULL",
									  0, NULL);

	*citus = result != NULL && PQntuples(result) == 1 && PQgetvalue(result, 0, 0)[0] == 't';
	PQclear(result);
	return result != NULL;
}

/* Temporary tables of others cannot be read, partitions are read with their table. */
static PGresult *
ask_columns(Session *session, const Options *options, const char *extension, bool citus,
			Failure *failure)
{
	char	   *type = text_make("%s.securefile", extension);
	const char *const values[] = {options->table, options->column, type};
	char	   *sql = text_make("WITH RECURSIVE " TARGET_FILE_TYPES
								" SELECT n.nspname, c.relname, a.attname,"
								"  pg_catalog.format('%%I.%%I', n.nspname, c.relname),"
								"  pg_catalog.quote_ident(a.attname),"
								"  pg_catalog.format_type(a.atttypid, a.atttypmod), c.oid, c.relkind, %s,"
								"  $1::pg_catalog.text IS NOT NULL"
								"   OR (pg_catalog.has_schema_privilege(n.oid, 'USAGE')"
								"    AND pg_catalog.has_column_privilege(c.oid, a.attnum, 'SELECT'))"
								" FROM pg_catalog.pg_attribute a"
								"  JOIN pg_catalog.pg_class c ON c.oid OPERATOR(pg_catalog.=) a.attrelid"
								"  JOIN pg_catalog.pg_namespace n ON n.oid OPERATOR(pg_catalog.=) c.relnamespace"
								" WHERE a.attnum OPERATOR(pg_catalog.>) 0 AND NOT a.attisdropped"
								"  AND a.atttypid OPERATOR(pg_catalog.=) ANY (SELECT f.oid FROM files f)"
								"  AND ($2::pg_catalog.text IS NULL OR a.attname OPERATOR(pg_catalog.=) $2::pg_catalog.text)"
								"  AND CASE WHEN $1::pg_catalog.text IS NULL THEN"
								"   c.relkind OPERATOR(pg_catalog.=) ANY ('{r,p}') AND NOT c.relispartition"
								"   AND c.relpersistence OPERATOR(pg_catalog.<>) 't'"
								"  ELSE c.oid OPERATOR(pg_catalog.=) $1::pg_catalog.regclass END"
								" ORDER BY 1, 2, a.attnum",
								citus ? "EXISTS (SELECT FROM pg_catalog.pg_dist_partition p"
								" WHERE p.logicalrelid OPERATOR(pg_catalog.=) c.oid)" : "false");
	PGresult   *result = session_rows(session, failure, 10, sql, 3, values);

	free(sql);
	free(type);
	return result;
}

static bool
take_column(const PGresult *result, int row, DumpColumn *column, Failure *failure)
{
	char		kind = PQgetvalue(result, row, 7)[0];

	column->schema = copy_of(result, row, 0);
	column->table = copy_of(result, row, 1);
	column->column = copy_of(result, row, 2);
	column->quoted_table = name_of(result, row, 3, failure);
	column->quoted_column = name_of(result, row, 4, failure);
	column->type = copy_of(result, row, 5);
	column->table_oid = copy_of(result, row, 6);
	column->partitioned = kind == 'p';
	column->distributed = PQgetvalue(result, row, 8)[0] == 't';
	column->readable = PQgetvalue(result, row, 9)[0] == 't';
	if (kind != 'r' && kind != 'p')
		return failure_say(failure, "%s is no table: its rows belong to others",
						   column->quoted_table);
	return column->quoted_table != NULL && column->quoted_column != NULL;
}

/* ---- the rows of a column ---- */

/*
 * The columns of the table, but for securefile ones.  The key is the primary key, else the
 * shortest unique index whose columns are not null.
 */
static PGresult *
ask_rows(Session *session, const char *table_oid, const char *extension, Failure *failure)
{
	char	   *type = text_make("%s.securefile", extension);
	const char *const values[] = {table_oid, NULL, type};
	PGresult   *result = session_rows(session, failure, 7,
									  "WITH RECURSIVE " TARGET_FILE_TYPES ","
									  " key (columns) AS ("
									  "  SELECT (i.indkey::pg_catalog.int2[])[0:i.indnkeyatts OPERATOR(pg_catalog.-) 1]"
									  "  FROM pg_catalog.pg_index i"
									  "  WHERE i.indrelid OPERATOR(pg_catalog.=) $1::pg_catalog.oid"
									  "   AND i.indisunique AND i.indimmediate AND i.indisvalid"
									  "   AND i.indpred IS NULL AND i.indexprs IS NULL"
									  "   AND NOT EXISTS (SELECT FROM pg_catalog.pg_attribute b"
									  "    WHERE b.attrelid OPERATOR(pg_catalog.=) i.indrelid AND NOT b.attnotnull"
									  "    AND b.attnum OPERATOR(pg_catalog.=)"
									  "     ANY ((i.indkey::pg_catalog.int2[])[0:i.indnkeyatts OPERATOR(pg_catalog.-) 1]))"
									  "  ORDER BY i.indisprimary DESC, i.indnkeyatts, i.indexrelid LIMIT 1)"
									  " SELECT a.attname, pg_catalog.quote_ident(a.attname),"
									  "  pg_catalog.format_type(a.atttypid, a.atttypmod), a.atttypid, a.attnotnull,"
									  "  a.attgenerated OPERATOR(pg_catalog.<>) '',"
									  "  COALESCE(pg_catalog.array_position(k.columns, a.attnum), 0)"
									  " FROM pg_catalog.pg_attribute a LEFT JOIN key k ON true"
									  " WHERE a.attrelid OPERATOR(pg_catalog.=) $1::pg_catalog.oid"
									  "  AND a.attnum OPERATOR(pg_catalog.>) 0 AND NOT a.attisdropped"
									  "  AND $2::pg_catalog.text IS NULL"
									  "  AND NOT a.atttypid OPERATOR(pg_catalog.=) ANY (SELECT f.oid FROM files f)"
									  " ORDER BY a.attnum", 3, values);

	free(type);
	return result;
}

bool
dumpcolumn_is_listed(const char *list, const char *name)
{
	size_t		length = strlen(name);

	for (const char *part = list; part != NULL; part = strchr(part, ','))
	{
		part += *part == ',';
		if (strncmp(part, name, length) == 0 && (part[length] == ',' || part[length] == '\0'))
			return true;
		if (*part == '\0')
			break;
	}
	return false;
}

static bool
take_row_column(const PGresult *result, int row, const Options *options, RowColumn *column,
				Failure *failure)
{
	const char *name = PQgetvalue(result, row, 0);

	column->name = copy_of(result, row, 0);
	column->quoted = name_of(result, row, 1, failure);
	column->type = copy_of(result, row, 2);
	column->type_oid = copy_of(result, row, 3);
	column->not_null = PQgetvalue(result, row, 4)[0] == 't';
	column->generated = PQgetvalue(result, row, 5)[0] == 't';
	column->key = (int) strtol(PQgetvalue(result, row, 6), NULL, 10);
	if (options->key != NULL)
		column->key = strcmp(options->key, name) == 0 ? 1 : 0;
	return column->quoted != NULL;
}

/* Put the numbers of the key's columns into their order. */
static void
order_keys(DumpColumn *column)
{
	column->keys = calloc(column->nrows + 1, sizeof(int));
	if (column->keys == NULL)
		abort();
	for (int i = 0; i < column->nrows; i++)
		if (column->rows[i].key > 0 && column->rows[i].key <= column->nrows)
		{
			column->keys[column->rows[i].key - 1] = i;
			column->nkeys++;
		}
}

/* Are all columns there that the user named? */
static bool
check_named(const DumpColumn *column, const PGresult *result, const Options *options,
			Failure *failure)
{
	char	   *list = text_make("%s", options->set_columns == NULL ? "" : options->set_columns);
	char	   *rest = list;
	bool		good = true;

	for (char *name = strsep(&rest, ","); good && name != NULL; name = strsep(&rest, ","))
	{
		bool		found = *name == '\0';

		for (int i = 0; i < PQntuples(result); i++)
			found = found || strcmp(PQgetvalue(result, i, 0), name) == 0;
		if (!found)
			good = failure_say(failure, "%s has no column \"%s\"", column->quoted_table, name);
	}
	free(list);
	return good;
}

/* Take those columns that belong to the key, and of the others all or those that were named. */
static bool
find_rows(Session *session, const Options *options, const char *extension, DumpColumn *column,
		  Failure *failure)
{
	PGresult   *result = ask_rows(session, column->table_oid, extension, failure);
	bool		good = result != NULL && check_named(column, result, options, failure);

	column->rows = calloc(PQntuples(result) + 1, sizeof(RowColumn));
	if (column->rows == NULL)
		abort();
	for (int i = 0; good && i < PQntuples(result); i++)
	{
		RowColumn	row;

		good = take_row_column(result, i, options, &row, failure);
		if (good && (row.key > 0 || (options->set_columns == NULL ? !row.generated :
									 dumpcolumn_is_listed(options->set_columns, row.name))))
			column->rows[column->nrows++] = row;
	}
	PQclear(result);
	order_keys(column);
	if (good && column->nkeys == 0 && options->key != NULL)
		return failure_say(failure, "%s has no column \"%s\"", column->quoted_table, options->key);
	if (good && column->nkeys == 0)
		column->left_out = text_make("%s has no primary key, and no unique index without nulls\n"
									 "Hint: Say with -k which column tells its rows apart.",
									 column->quoted_table);
	return good;
}

/* Find all that belongs to a column, unless the role may not read it. */
static bool
find_column(Session *session, const Options *options, const char *extension,
			const PGresult *result, int row, DumpColumn *column, Failure *failure)
{
	if (!take_column(result, row, column, failure))
		return false;
	if (column->readable)
		return find_rows(session, options, extension, column, failure);
	column->left_out = text_make("column %s was left out: permission denied",
								 column->quoted_column);
	return true;
}

/* Why there is none. */
static bool
say_none(const Options *options, Failure *failure)
{
	if (options->table == NULL)
		return failure_say(failure, "the database has no securefile column");
	if (options->column != NULL)
		return failure_say(failure, "%s has no securefile column \"%s\"", options->table,
						   options->column);
	return failure_say(failure, "%s has no securefile column", options->table);
}

bool
dumpcolumns_find(Session *session, const Options *options, DumpColumns *found, Failure *failure)
{
	Target		target = {0};
	bool		citus;
	PGresult   *result = NULL;
	bool		good = target_find_extension(session, &target, failure) &&
		find_citus(session, &citus, failure) &&
		(result = ask_columns(session, options, target.extension, citus, failure)) != NULL;

	found->count = PQntuples(result);
	found->columns = calloc(found->count + 1, sizeof(DumpColumn));
	if (found->columns == NULL)
		abort();
	for (int i = 0; good && i < found->count; i++)
		good = find_column(session, options, target.extension, result, i, &found->columns[i],
						   failure);
	PQclear(result);
	free(target.extension);
	return good && (found->count > 0 || say_none(options, failure));
}

/* ---- statements ---- */

/* The condition of one row: its place, or its key. */
static char *
condition_of(Session *session, const DumpColumn *column, Failure *failure)
{
	char	   *all = NULL;

	if (!column->distributed)
		return text_make("tableoid OPERATOR(pg_catalog.=) $1::pg_catalog.oid"
						 " AND ctid OPERATOR(pg_catalog.=) $2::pg_catalog.tid");
	for (int i = 0; i < column->nkeys; i++)
	{
		const RowColumn *key = &column->rows[column->keys[i]];
		char	   *parameter = text_make("$%d", i + 1);
		KeyComparison comparison;
		char	   *more = NULL;

		if (key_compare(session, key->type_oid, key->quoted, parameter, &comparison, failure))
			more = text_make("%s%s%s", all == NULL ? "" : all, all == NULL ? "" : " AND ",
							 comparison.condition);
		free(parameter);
		free(all);
		all = more;
		if (all == NULL)
			break;
	}
	return all;
}

/* The values of a row, each behind a comma. */
static char *
list_of(const DumpColumn *column)
{
	char	   *list = text_make("%s", "");

	for (int i = 0; i < column->nrows; i++)
	{
		char	   *more = text_make("%s, %s", list, column->rows[i].quoted);

		free(list);
		list = more;
	}
	return list;
}

/*
 * The SHA-256 in the list: the kept one, or of a file in its row.  No other file is read there: if
 * one of them is damaged, there shall be a list nevertheless.  A file that a dump has left out, and
 * that was not restored, has no SHA-256: none is kept, and there is nothing to digest.
 */
static char *
hash_of(const DumpColumn *column, const char *extension, const char *typed)
{
	if (strstr(column->type, "disable_storage_in_row") != NULL)
		return text_make("pg_catalog.encode(%s.securefile_kept_digest(%s), 'hex')", extension,
						 typed);
	return text_make("pg_catalog.encode(COALESCE(%s.securefile_kept_digest(%s),"
					 " CASE WHEN pg_catalog.length(%s) OPERATOR(pg_catalog.<=) %d::pg_catalog.int8"
					 " AND NOT %s.securefile_unfilled(%s)"
					 " THEN %s.securefile_digest(%s) END), 'hex')", extension, typed,
					 column->quoted_column, IN_ROW_BYTES, extension, typed, extension, typed);
}

/*
 * The condition that pg_dump writes a marker for a file: it is longer, or has a marker already, for
 * which there is no file to dump.  With longer -1: nothing.
 */
static char *
longer_than(const DumpColumn *column, const char *extension, int64_t longer)
{
	if (longer < 0)
		return text_make("%s", "");
	return text_make(" WHERE pg_catalog.length(%s) OPERATOR(pg_catalog.>) %lld::pg_catalog.int8"
					 " OR %s.securefile_unfilled(%s::%s.securefile)",
					 column->quoted_column, (long long) longer, extension, column->quoted_column,
					 extension);
}

bool
dumpcolumn_has_longer(Session *session, const DumpColumn *column, const char *extension,
					  int64_t longer, bool *has, Failure *failure)
{
	char	   *condition = longer_than(column, extension, longer);
	char	   *sql = text_make("SELECT true FROM %s%s LIMIT 1", column->quoted_table, condition);
	PGresult   *result = session_rows(session, failure, 1, sql, 0, NULL);

	*has = PQntuples(result) > 0;
	PQclear(result);
	free(sql);
	free(condition);
	return result != NULL;
}

/*
 * Which keys are null, or of several rows: the user has said which column is the key.  *unclear is
 * null if there are none.
 */
bool
dumpcolumn_check_key(Session *session, const DumpColumn *column, const char *extension,
					 int64_t longer, char **unclear, Failure *failure)
{
	const char *key = column->rows[column->keys[0]].quoted;
	const char *only = column->partitioned || column->distributed ? "" : "ONLY ";
	char	   *condition = longer_than(column, extension, longer);
	char	   *sql = text_make("SELECT pg_catalog.count(*),"
								"  pg_catalog.min(pg_catalog.left(d.k, 100))"
								" FROM (SELECT %s::pg_catalog.text COLLATE pg_catalog.\"C\""
								"  FROM %s%s%s GROUP BY 1"
								"  HAVING pg_catalog.count(*) OPERATOR(pg_catalog.>) 1 OR"
								"   (%s::pg_catalog.text COLLATE pg_catalog.\"C\") IS NULL) d (k)",
								key, only, column->quoted_table, condition, key);
	PGresult   *result = session_rows(session, failure, 2, sql, 0, NULL);

	*unclear = NULL;
	if (PQntuples(result) == 1 && strcmp(PQgetvalue(result, 0, 0), "0") != 0)
		*unclear = text_make("keys that are null, or of several rows: %s%s%s\n"
							 "Hint: restore cannot tell these rows apart. Say with -k another column.",
							 PQgetvalue(result, 0, 0), PQgetisnull(result, 0, 1) ? "" : ", as ",
							 PQgetvalue(result, 0, 1));
	PQclear(result);
	free(sql);
	free(condition);
	return result != NULL;
}

/*
 * The tags of the parts of a file.  The functions of a distributed table's columns would have to
 * be called where its rows are.
 */
static char *
tags_of(const DumpColumn *column, const char *extension, const char *typed, const char *only,
		const char *condition, int64_t granule)
{
	if (column->distributed)
		return NULL;
	return text_make("SELECT e.start, e.length, pg_catalog.encode(e.tag, 'hex')"
					 " FROM (SELECT %s FROM %s%s WHERE %s) f (file)"
					 " CROSS JOIN LATERAL %s.securefile_extents(f.file, %lld) e",
					 typed, only, column->quoted_table, condition, extension,
					 (long long) granule);
}

bool
dumpcolumn_statements(Session *session, DumpColumn *column, const char *extension, bool verify,
					  int64_t longer, int64_t granule, Failure *failure)
{
	const char *file = column->quoted_column;
	const char *only = column->partitioned || column->distributed ? "" : "ONLY ";
	char	   *condition = condition_of(session, column, failure);
	char	   *typed = text_make("%s::%s.securefile", file, extension);
	char	   *hash = hash_of(column, extension, typed);
	char	   *values = list_of(column);
	char	   *where = longer_than(column, extension, longer);

	if (condition == NULL)
		return false;
	column->list = text_make("COPY (SELECT %s, pg_catalog.length(%s), %s%s"
							 " FROM %s%s%s) TO STDOUT",
							 column->distributed ? "NULL, NULL" : "tableoid, ctid", file,
							 verify ? "NULL" : hash, values, only, column->quoted_table, where);
	column->file = text_make("SELECT %s FROM %s%s WHERE %s", file, only, column->quoted_table,
							 condition);
	column->digests = text_make("SELECT pg_catalog.encode(%s.securefile_kept_digest(%s), 'hex'),"
								" pg_catalog.encode(%s.securefile_digest(%s, 'sha256'), 'hex')"
								" FROM %s%s WHERE %s", extension, typed, extension, typed, only,
								column->quoted_table, condition);
	column->tags = tags_of(column, extension, typed, only, condition, granule);
	free(where);
	free(values);
	free(hash);
	free(typed);
	free(condition);
	return true;
}

/* ---- describing ---- */

json_t *
dumpcolumn_describe(const DumpColumn *column)
{
	json_t	   *rows = json_array();
	json_t	   *keys = json_array();

	for (int i = 0; i < column->nrows; i++)
		json_array_append_new(rows, json_pack("{s:s, s:s, s:b}", "name", column->rows[i].name,
											  "type", column->rows[i].type,
											  "not_null", (int) column->rows[i].not_null));
	for (int i = 0; i < column->nkeys; i++)
		json_array_append_new(keys, json_integer(column->keys[i]));
	return json_pack("{s:s, s:s, s:s, s:s, s:o, s:o}", "schema", column->schema,
					 "table", column->table, "column", column->column, "type", column->type,
					 "row", rows, "key", keys);
}
