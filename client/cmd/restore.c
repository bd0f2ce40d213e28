/*-------------------------------------------------------------------------
 *
 * restore.c
 *	  securefile restore DIR [PATTERN]
 *
 *-------------------------------------------------------------------------
 */
#include <stdlib.h>
#include <string.h>

#include "batch.h"
#include "dump.h"
#include "list.h"
#include "output.h"
#include "restore.h"
#include "text.h"
#include "verbs.h"

/* Of a statement, in the protocol. */
#define MOST_PARAMETERS	65535

/* The rows of a batch without files. */
#define MOST_ROW_BYTES	(4 * 1024 * 1024)

/* ---- which dump ---- */

/* Is it the column of that table?  "schema.table", or with the column. */
static bool
is_of(const json_t *column, const char *name)
{
	char	   *full = manifest_column_name(column);
	size_t		length = strlen(name);
	bool		same = strcmp(full, name) == 0 ||
		(strncmp(full, name, length) == 0 && full[length] == '.' &&
		 strcmp(full + length + 1, json_string_value(json_object_get(column, "column"))) == 0);

	free(full);
	return same;
}

/* The number of the column to restore; -1: there is none, -2: several. */
static int
find_in(const ManifestReader *reader, const char *name, const char *column)
{
	int			found = -1;

	for (size_t i = 0; i < json_array_size(reader->columns); i++)
	{
		const json_t *one = json_array_get(reader->columns, i);
		const char *its = json_string_value(json_object_get(one, "column"));

		if (is_of(one, name) && (column == NULL || strcmp(its, column) == 0))
			found = found == -1 ? (int) i : -2;
	}
	return found;
}

/* What to look for in a dump; name NULL: anything. */
typedef struct Wanted
{
	const char *name;
	const char *column;
} Wanted;

/* Say in front of a failure which dump it is about. */
static bool
say_dump(const char *name, const char *hint, Failure *failure)
{
	char	   *reason = text_make("dump %s: %s\nHint: %s", name, failure->text, hint);

	failure_say(failure, "%s", reason);
	free(reason);
	return false;
}

/* Open the newest dump that has what is wanted. */
static bool
open_newest(DumpDir *dir, const Wanted *wanted, ManifestReader *reader, char **name,
			Failure *failure)
{
	FoundList	list;
	bool		good = false;

	if (!dumpdir_list(dir, &list, failure))
		return false;
	failure_say(failure, list.count == 0 ? "there is no dump" : "no dump has %s\n"
				"Hint: dump --list shows what there is; --from names a table in it.", wanted->name);
	for (size_t i = list.count; !good && i > 0; i--)
	{
		if (!manifest_open(reader, dir, list.files[i - 1].path, failure))
		{
			say_dump(list.files[i - 1].path, "--at names another one.", failure);
			break;
		}
		good = wanted->name == NULL || find_in(reader, wanted->name, wanted->column) != -1;
		if (good)
			*name = text_make("%s", list.files[i - 1].path);
		else
			manifest_close(reader);
	}
	dumpdir_free_list(&list);
	return good;
}

static bool
open_dump(const Options *options, DumpDir *dir, const Wanted *wanted, ManifestReader *reader,
		  Failure *failure)
{
	char	   *name = NULL;
	bool		good;

	if (options->at != NULL)
		return manifest_open(reader, dir, options->at, failure) ||
			say_dump(options->at, "dump --list shows which there are.", failure);
	good = open_newest(dir, wanted, reader, &name, failure);
	if (good && !options->quiet)
	{
		char	   *message = text_make("restore of dump %s%s", name, manifest_is_oversize(reader) ?
										", which only has what pg_dump has left out" : "");

		output_notice(NULL, message);
		free(message);
	}
	free(name);
	return good;
}

/* ---- which tables ---- */

/* "schema.table" of the table that the user named, without quotes. */
static char *
plain_name(Session *session, const Options *options, Failure *failure)
{
	const char *const values[] = {options->table};
	PGresult   *result = session_rows(session, failure, 1,
									  "SELECT pg_catalog.format('%s.%s', n.nspname, c.relname)"
									  " FROM pg_catalog.pg_class c JOIN pg_catalog.pg_namespace n"
									  "  ON n.oid OPERATOR(pg_catalog.=) c.relnamespace"
									  " WHERE c.oid OPERATOR(pg_catalog.=) $1::pg_catalog.regclass",
									  1, values);
	char	   *name = NULL;

	if (PQntuples(result) == 1)
		name = text_make("%s", PQgetvalue(result, 0, 0));
	else if (result != NULL)
		failure_say(failure, "relation \"%s\" does not exist", options->table);
	PQclear(result);
	return name;
}

/*
 * Columns of one table are restored one after the other: the rows of a dump come in any order, and
 * a row that the one column makes is a row with a null file for the next one.
 */
static void
take_turn(Restore *restore, int number)
{
	RestoreTable *table = &restore->tables[number];

	for (int i = 0; i < number; i++)
		table->turn += strcmp(restore->tables[i].target.quoted_table,
							  table->target.quoted_table) == 0;
}

/* Find one table for each column of the dump that is restored. */
static bool
find_tables(Session *session, const Options *options, const Wanted *wanted,
			const ManifestReader *reader, Restore *restore, Failure *failure)
{
	size_t		count = json_array_size(reader->columns);
	int			only = wanted->name == NULL ? 0 : find_in(reader, wanted->name, wanted->column);

	restore->tables = calloc(count + 1, sizeof(RestoreTable));
	if (restore->tables == NULL)
		abort();
	if (only < 0)
		return failure_say(failure, only == -1 ? "the dump does not have %s\n"
						   "Hint: dump --list shows what it has; --from names a table in it." :
						   "the dump has several columns of %s\nHint: Say with --from TABLE.COLUMN which one.",
						   wanted->name);
	for (size_t i = 0; i < count; i++)
	{
		if (wanted->name != NULL && (int) i != only)
			continue;
		if (!restoretable_find(session, options, json_array_get(reader->columns, i), (int) i,
							   &restore->tables[restore->ntables], failure))
			return false;
		take_turn(restore, restore->ntables++);
	}
	return true;
}

/* ---- rows ---- */

/* The column of a row, if it is restored, and now. */
static const RestoreTable *
table_of(const Restore *restore, const ManifestRow *row)
{
	for (int i = 0; i < restore->ntables; i++)
		if (restore->tables[i].number == row->file.column)
			return restore->tables[i].turn == restore->turn ? &restore->tables[i] : NULL;
	return NULL;
}

static int
last_turn(const Restore *restore)
{
	int			last = 0;

	for (int i = 0; i < restore->ntables; i++)
		if (restore->tables[i].turn > last)
			last = restore->tables[i].turn;
	return last;
}

static bool
is_wanted(const Restore *restore, const RestoreTable *table, const ManifestRow *row)
{
	const Options *options = restore->options;
	char	   *name;
	bool		wanted;

	if (options->nargs < 2)
		return true;
	name = restore_name(table, row);
	wanted = list_matches(options->args[1], name);
	free(name);
	return wanted;
}

/* The rows of a batch of that table: each has its key among the parameters of one statement. */
static int
most_of(const Restore *restore, const RestoreTable *table)
{
	int			possible = MOST_PARAMETERS / table->nkeys;

	return table->target.distributed ? 1 : restore->most < possible ? restore->most : possible;
}

static Batch *
new_batch(const Restore *restore, const RestoreTable *table)
{
	size_t		bytes = sizeof(Batch) + most_of(restore, table) * sizeof(ManifestRow);
	Batch	   *batch = calloc(1, bytes);

	if (batch == NULL)
		abort();
	batch->table = table;
	batch->item.bytes = bytes;
	return batch;
}

/* Is there no room for that row? */
static bool
is_full(const Restore *restore, const Batch *batch, const RestoreTable *table,
		const ManifestRow *row)
{
	return batch->table != table || batch->count == most_of(restore, table) ||
		batch->length + row->file.length > BATCH_BYTES ||
		batch->item.bytes + row->bytes > MOST_ROW_BYTES;
}

/* Hand all rows to the threads, in batches. */
static bool
push_rows(Restore *restore, ManifestReader *reader, Flow *flow, Failure *failure)
{
	ManifestRow row = {0};
	Batch	   *batch = NULL;
	int			rc = 0;
	bool		good = true;

	while (good && !output_stopped() && (rc = manifest_next(reader, &row, failure)) > 0)
	{
		const RestoreTable *table = table_of(restore, &row);

		if (table == NULL || !is_wanted(restore, table, &row))
			continue;
		if (batch != NULL && is_full(restore, batch, table, &row))
		{
			good = flow_push(flow, &batch->item);
			batch = NULL;
		}
		if (batch == NULL)
			batch = new_batch(restore, table);
		batch->rows[batch->count++] = row;
		batch->length += row.file.length;
		batch->item.bytes += row.bytes * 2;
		row.line = NULL;
	}
	if (batch != NULL && good)
		good = flow_push(flow, &batch->item);
	else if (batch != NULL)
		restore_free_batch(&batch->item);
	json_decref(row.line);
	return good && rc == 0;
}

/* Restore all rows of this turn; false if some were not tried. */
static bool
restore_turn(Restore *restore, ManifestReader *reader)
{
	Failure		failure;
	Flow	   *flow = flow_begin(restore->options, restore_batch, restore_free_batch, restore);
	bool		good;

	failure_say(&failure, "no connection is left: run it again");
	good = push_rows(restore, reader, flow, &failure);
	if (!flow_end(flow))
		good = false;
	if (!good && !output_stopped())
		output_message(&failure);
	return good && !output_stopped();
}

/* Restore all rows; false if some were not tried. */
static bool
restore_rows(const Options *options, Restore *restore, ManifestReader *reader)
{
	int64_t		each = (reader->totals.rows + options->jobs - 1) / options->jobs;
	int			last = last_turn(restore);
	bool		good;

	restore->most = each < 1 ? 1 : each < options->batch ? (int) each : options->batch;
	if (!options->quiet)
		progress_begin(restore->ntables == (int) json_array_size(reader->columns) &&
					   options->nargs < 2 ? reader->totals.rows : 0,
					   options->nargs < 2 ? reader->totals.bytes : -1);
	good = restore_turn(restore, reader);
	while (good && restore->turn < last)
	{
		restore->turn++;
		manifest_rewind(reader);
		good = restore_turn(restore, reader);
	}
	return good;
}

/* Find dump and tables. */
static bool
prepare(Session *session, const Options *options, Restore *restore, ManifestReader *reader,
		Failure *failure)
{
	char	   *name = options->table == NULL || options->from != NULL ? NULL :
		plain_name(session, options, failure);
	Wanted		wanted = {options->from != NULL ? options->from : name,
		options->from != NULL ? NULL : options->column};
	bool		good = dump_settings(session, failure) &&
		(options->table == NULL || wanted.name != NULL) &&
		open_dump(options, restore->dir, &wanted, reader, failure) &&
		find_tables(session, options, &wanted, reader, restore, failure);

	free(name);
	return good;
}

int
verb_restore(const Options *options)
{
	Restore		restore = {.options = options};
	ManifestReader reader = {0};
	Failure		failure;
	Session    *session = NULL;
	bool		good;

	restore.dir = dumpdir_open(options->args[0], DUMPDIR_READ, &failure);
	if (restore.dir != NULL)
		session = session_more(options, NULL, &failure);
	good = session != NULL && prepare(session, options, &restore, &reader, &failure);
	if (!good)
		output_message(&failure);
	if (session != NULL)
		session_end(session);
	if (!good)
		return EXIT_SETUP;
	good = restore_rows(options, &restore, &reader);
	manifest_close(&reader);
	dumpdir_close(restore.dir);
	return output_end(good ? EXIT_DONE : EXIT_SETUP);
}
