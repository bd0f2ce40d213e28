/*-------------------------------------------------------------------------
 *
 * restoretable.c
 *	  A column of a dump, and the column that it is restored to.
 *
 * All names of a manifest are data: the server, or libpq, puts them into quotes.
 *
 *-------------------------------------------------------------------------
 */
#include <stdlib.h>
#include <string.h>

#include "output.h"
#include "restore.h"
#include "text.h"

/* Add to a text that is allocated. */
static char *
joined(char *text, const char *between, const char *more)
{
	char	   *all = text == NULL ? text_make("%s", more) :
		text_make("%s%s%s", text, between, more);

	free(text);
	return all;
}

static const char *
text_in(const json_t *object, const char *name)
{
	return json_string_value(json_object_get(object, name));
}

/* ---- the column ---- */

/* The name of the table in the dump, in quotes. */
static char *
quoted_name(Session *session, const json_t *dumped)
{
	const char *schema = text_in(dumped, "schema");
	const char *table = text_in(dumped, "table");
	char	   *one = PQescapeIdentifier(session->conn, schema, strlen(schema));
	char	   *other = PQescapeIdentifier(session->conn, table, strlen(table));
	char	   *name = one == NULL || other == NULL ? NULL : text_make("%s.%s", one, other);

	PQfreemem(one);
	PQfreemem(other);
	return name;
}

/* Of several securefile columns that of the same name; of one, that one. */
static bool
choose_column(const DumpColumns *found, const json_t *dumped, RestoreTable *table,
			  Failure *failure)
{
	int			chosen = found->count == 1 ? 0 : -1;

	for (int i = 0; i < found->count; i++)
		if (strcmp(found->columns[i].column, text_in(dumped, "column")) == 0)
			chosen = i;
	if (chosen < 0)
		return failure_say(failure, "%s has several securefile columns\n"
						   "Hint: Say with -c which one.",
						   found->columns[0].quoted_table);
	table->target = found->columns[chosen];
	return true;
}

static bool
find_target(Session *session, const Options *options, const json_t *dumped, RestoreTable *table,
			Failure *failure)
{
	Options		here = *options;
	char	   *name = options->table == NULL ? quoted_name(session, dumped) : NULL;
	DumpColumns found = {0};
	Target		target = {0};
	bool		good;

	if (options->table == NULL)
	{
		here.table = name;
		here.column = text_in(dumped, "column");
	}
	here.key = here.set_columns = NULL;
	good = (here.table != NULL || failure_say(failure, "a name in the dump cannot be one")) &&
		dumpcolumns_find(session, &here, &found, failure) &&
		choose_column(&found, dumped, table, failure) &&
		target_find_table(session, &here, &target, failure) &&
		target_find_extension(session, &target, failure);
	free(name);
	if (!good)
		return false;
	table->store_table = target.store_table;
	table->extension = target.extension;
	return true;
}

/* ---- the columns of its rows ---- */

/* The name of a column of the dump's rows. */
static const char *
name_at(const RestoreTable *table, int number)
{
	return text_in(json_array_get(json_object_get(table->dumped, "row"), number), "name");
}

/* The column of the table that has the name of a column of the dump; NULL: there is none. */
static const RowColumn *
column_of(const RestoreTable *table, int number)
{
	const char *name = name_at(table, number);

	for (int i = 0; i < table->target.nrows; i++)
		if (strcmp(table->target.rows[i].name, name) == 0)
			return &table->target.rows[i];
	return NULL;
}

static bool
say_no_column(const RestoreTable *table, int number, Failure *failure)
{
	const char *name = name_at(table, number);

	return failure_say(failure, "%s has no column \"%s\", which the dump has\n"
					   "Hint: Say with --set-columns which columns to restore.",
					   table->target.quoted_table, name);
}

/* One more column of the key. */
static bool
add_key(Session *session, RestoreTable *table, int number, Failure *failure)
{
	const RowColumn *column = column_of(table, number);
	int			n = table->nkeys;
	char	   *listed;
	char	   *given;
	KeyComparison to_listed;
	KeyComparison to_given;
	bool		good;

	if (column == NULL)
		return say_no_column(table, number, failure);
	listed = text_make("w.k%d", n + 1);
	given = text_make("$%d", n + 1);
	good = key_compare(session, column->type_oid, column->quoted, listed, &to_listed, failure) &&
		key_compare(session, column->type_oid, column->quoted, given, &to_given, failure);
	free(listed);
	free(given);
	if (!good)
		return false;
	table->keys[n] = number;
	table->key_types[n] = to_listed.type;
	table->key_is_listed = joined(table->key_is_listed, " AND ", to_listed.condition);
	table->key_is_given = joined(table->key_is_given, " AND ", to_given.condition);
	table->nkeys++;
	return true;
}

static bool
find_keys(Session *session, RestoreTable *table, Failure *failure)
{
	const json_t *keys = json_object_get(table->dumped, "key");
	size_t		count = json_array_size(keys);
	bool		good = true;

	table->keys = calloc(count, sizeof(int));
	table->key_types = calloc(count, sizeof(char *));
	if (table->keys == NULL || table->key_types == NULL)
		abort();
	for (size_t i = 0; good && i < count; i++)
		good = add_key(session, table, (int) json_integer_value(json_array_get(keys, i)), failure);
	return good;
}

static bool
is_key(const RestoreTable *table, int number)
{
	for (int i = 0; i < table->nkeys; i++)
		if (table->keys[i] == number)
			return true;
	return false;
}

/* Which columns a new row gets, and the statement up to the file. */
static bool
find_values(const Options *options, RestoreTable *table, Failure *failure)
{
	const json_t *dumped = json_object_get(table->dumped, "row");
	char	   *columns = NULL;
	char	   *parameters = NULL;

	table->values = calloc(json_array_size(dumped) + 1, sizeof(int));
	if (table->values == NULL)
		abort();
	for (size_t i = 0; i < json_array_size(dumped); i++)
	{
		const RowColumn *column = column_of(table, (int) i);
		char	   *parameter;

		if (!is_key(table, (int) i) && options->set_columns != NULL &&
			!dumpcolumn_is_listed(options->set_columns, name_at(table, (int) i)))
			continue;
		if (column == NULL)
			return say_no_column(table, (int) i, failure);
		if (column->generated)
			continue;
		table->values[table->nvalues++] = (int) i;
		parameter = text_make("$%d", table->nvalues);
		columns = joined(columns, ", ", column->quoted);
		parameters = joined(parameters, ", ", parameter);
		free(parameter);
	}
	table->insert = text_make("INSERT INTO %s (%s%s%s) OVERRIDING SYSTEM VALUE VALUES (%s%s",
							  table->target.quoted_table, columns == NULL ? "" : columns,
							  columns == NULL ? "" : ", ", table->target.quoted_column,
							  parameters == NULL ? "" : parameters, columns == NULL ? "" : ", ");
	free(columns);
	free(parameters);
	return true;
}

bool
restoretable_find(Session *session, const Options *options, const json_t *dumped, int number,
				  RestoreTable *table, Failure *failure)
{
	memset(table, 0, sizeof(*table));
	table->number = number;
	table->dumped = dumped;
	return find_target(session, options, dumped, table, failure) &&
		find_keys(session, table, failure) && find_values(options, table, failure);
}
