/*-------------------------------------------------------------------------
 *
 * restorerows.c
 *	  A batch of rows: which are there, and what is to be stored.
 *
 * One statement looks for all rows of the batch.  What is missing or differs is stored: short files
 * in one transaction, and, if that fails, each in its own, so that only a row that cannot be
 * stored is left out; each long file in a transaction of its own.
 *
 *-------------------------------------------------------------------------
 */
#include <stdlib.h>
#include <string.h>

#include "dump.h"
#include "output.h"
#include "restore.h"
#include "text.h"

/* What becomes of a row. */
typedef struct Fate
{
	bool		pending;		/* it is to be stored */
	bool		exists;
	Action		action;
} Fate;

/* ---- names ---- */

char *
restore_name(const RestoreTable *table, const ManifestRow *row)
{
	char	   *name = NULL;

	for (int i = 0; i < table->nkeys; i++)
	{
		const json_t *value = json_array_get(row->values, table->keys[i]);
		const char *text = json_string_value(value);
		char	   *more;

		if (text == NULL)
			text = json_string_value(json_object_get(value, "hex"));
		more = text_make("%s%s%.1000s", name == NULL ? "" : name, name == NULL ? "" : "/",
						 text == NULL ? "" : text);
		free(name);
		name = more;
	}
	return name;
}

static void
fail_row(const RestoreTable *table, const ManifestRow *row, const Failure *failure)
{
	char	   *name = restore_name(table, row);

	output_failed(name, failure);
	progress_file();
	free(name);
}

static void
tell_row(const RestoreTable *table, const ManifestRow *row, Action action)
{
	char	   *name = restore_name(table, row);

	output_file(name, action, row->file.length);
	progress_file();
	free(name);
}

/* ---- looking ---- */

/*
 * What is asked of a row that is there; length: of the dump's file.  A file that pg_dump has left
 * out is as good as none.
 */
static char *
answers(const RestoreTable *table, const char *length)
{
	const char *file = table->target.quoted_column;
	char	   *typed = text_make("%s::%s.securefile", file, table->extension);
	char	   *unfilled = text_make("%s.securefile_unfilled(%s)", table->extension, typed);
	char	   *asked = text_make("%s IS NULL OR %s, pg_catalog.length(%s),"
								  " CASE WHEN NOT %s AND pg_catalog.length(%s)"
								  " OPERATOR(pg_catalog.=) %s"
								  " THEN pg_catalog.encode(%s.securefile_digest(%s), 'hex') END",
								  file, unfilled, file, unfilled, file, length, table->extension,
								  typed);

	free(unfilled);
	free(typed);
	return asked;
}

/* One row of VALUES: number, length, key. */
static void
add_listed(Text *sql, const Batch *batch, int number)
{
	const RestoreTable *table = batch->table;
	char	   *text = text_make("%s(%d, %lld::pg_catalog.int8", number > 0 ? ", " : "", number,
								 (long long) batch->rows[number].file.length);

	text_add(sql, text, strlen(text));
	free(text);
	for (int i = 0; i < table->nkeys; i++)
	{
		text = text_make(", $%d::%s", number * table->nkeys + i + 1, table->key_types[i]);
		text_add(sql, text, strlen(text));
		free(text);
	}
	text_add(sql, ")", 1);
}

/* The statement that looks for a row of a distributed table. */
static char *
look_for_one(const Batch *batch)
{
	const RestoreTable *table = batch->table;
	char	   *length = text_make("%lld", (long long) batch->rows[0].file.length);
	char	   *asked = answers(table, length);
	char	   *sql = text_make("SELECT 0, %s FROM %s WHERE %s LIMIT 2", asked,
								table->target.quoted_table, table->key_is_given);

	free(asked);
	free(length);
	return sql;
}

/* The statement that looks for all rows. */
static char *
look_statement(const Batch *batch)
{
	const RestoreTable *table = batch->table;
	Text		list = {0};
	Text		names = {0};
	char	   *asked;
	char	   *sql;

	if (table->target.distributed)
		return look_for_one(batch);
	for (int i = 0; i < batch->count; i++)
		add_listed(&list, batch, i);
	for (int i = 0; i < table->nkeys; i++)
	{
		char	   *name = text_make(", k%d", i + 1);

		text_add(&names, name, strlen(name));
		free(name);
	}
	asked = answers(table, "w.file_length");
	sql = text_make("SELECT w.n, f.* FROM (VALUES %s) w (n, file_length%s)"
					" CROSS JOIN LATERAL (SELECT %s FROM %s WHERE %s LIMIT 2) f",
					list.bytes, names.bytes, asked, table->target.quoted_table,
					table->key_is_listed);
	free(asked);
	free(names.bytes);
	free(list.bytes);
	return sql;
}

/* The keys of all rows; a row whose key is null, or no text, has failed. */
static void
take_keys(const Batch *batch, const char **values, char ***kept, Fate *fates)
{
	const RestoreTable *table = batch->table;

	for (int i = 0; i < batch->count; i++)
	{
		Failure		failure;
		bool		good;

		kept[i] = restore_values(&batch->rows[i], table->keys, table->nkeys, &failure);
		good = kept[i] != NULL;
		for (int j = 0; j < table->nkeys; j++)
		{
			values[i * table->nkeys + j] = kept[i] == NULL ? NULL : kept[i][j];
			if (good && kept[i][j] == NULL)
				good = failure_say(&failure, "the key is null: the row cannot be told from others");
		}
		fates[i] = (Fate) {good, false, ACTION_PUT};
		if (!good)
			fail_row(table, &batch->rows[i], &failure);
	}
}

/* Has the row the file already? */
static bool
is_same(const PGresult *result, int at, const ManifestFile *file)
{
	if (file->sha256 == NULL)
		return !file->failed && PQgetvalue(result, at, 1)[0] == 't';
	return strcmp(PQgetvalue(result, at, 3), file->sha256) == 0;
}

/* Decide what becomes of a row that is there; several: more than one has its key. */
static void
judge(const Restore *restore, const Batch *batch, const PGresult *result, int at, bool several,
	  Fate *fate, const ManifestRow *row)
{
	bool		is_null = PQgetvalue(result, at, 1)[0] == 't';
	Failure		failure;

	fate->exists = true;
	fate->action = is_null ? ACTION_PUT : ACTION_REPLACED;
	if (!several && is_same(result, at, &row->file))
	{
		progress_bytes(row->file.length);
		tell_row(batch->table, row, ACTION_SAME);
		fate->pending = false;
	}
	else if (several || (!is_null && !restore->options->replace && !row->file.failed))
	{
		failure_say(&failure, several ? "more than one row has that key" :
					"the row has another file already\nHint: --replace replaces it.");
		fail_row(batch->table, row, &failure);
		fate->pending = false;
	}
}

/* The row of the batch that a row of the answer is about; -1: none. */
static int
number_at(const PGresult *result, int at)
{
	return at >= PQntuples(result) ? -1 : (int) strtol(PQgetvalue(result, at, 0), NULL, 10);
}

/* Ask for all rows of the batch, and decide. */
static bool
look(Session *session, const Restore *restore, const Batch *batch, Fate *fates, Failure *failure)
{
	int			count = batch->count * batch->table->nkeys;
	const char **values = calloc(count + 1, sizeof(char *));
	char	 ***kept = calloc(batch->count + 1, sizeof(char **));
	char	   *sql = look_statement(batch);
	PGresult   *result;

	if (values == NULL || kept == NULL)
		abort();
	take_keys(batch, values, kept, fates);
	result = session_rows(session, failure, 4, sql, count, values);
	for (int i = 0; i < PQntuples(result); i++)
	{
		int			number = number_at(result, i);

		/* rows of one key come one after the other */
		if (number >= 0 && number < batch->count && fates[number].pending && !fates[number].exists)
			judge(restore, batch, result, i, number_at(result, i + 1) == number, &fates[number],
				  &batch->rows[number]);
	}
	for (int i = 0; i < batch->count; i++)
		restore_free_values(kept[i], batch->table->nkeys);
	free(kept);
	free(values);
	free(sql);
	PQclear(result);
	return result != NULL;
}

/* ---- storing ---- */

/* A dump has rows whose files could not be read then. */
static void
fail_failed(const Batch *batch, Fate *fates)
{
	Failure		failure;

	for (int i = 0; i < batch->count; i++)
		if (fates[i].pending && batch->rows[i].file.failed)
		{
			failure_say(&failure, "the file could not be read when the dump was made");
			fail_row(batch->table, &batch->rows[i], &failure);
			fates[i].pending = false;
		}
}

static void
done(const Batch *batch, Fate *fates, int number)
{
	const ManifestRow *row = &batch->rows[number];

	fates[number].pending = false;
	if (row->file.length < BUFFER_SIZE)
		progress_bytes(row->file.length);
	tell_row(batch->table, row, fates[number].action);
}

/* Store all short files in one transaction.  False: nothing is stored, and nothing told yet. */
static bool
store_together(Session *session, const Restore *restore, const Batch *batch, Fate *fates)
{
	Failure		ignored;
	int			first = -1;
	bool		good = true;

	for (int i = 0; good && i < batch->count; i++)
	{
		RestoreStore store = {batch->table, &batch->rows[i], fates[i].exists};

		if (!fates[i].pending || restore_is_long(&store))
			continue;
		if (first < 0)
			good = session_do(session, &ignored, "BEGIN");
		first = first < 0 ? i : first;
		good = good && restore_store(session, restore->dir, &store, &ignored);
	}
	if (first < 0)
		return true;
	if (!good || !session_do(session, &ignored, "COMMIT"))
		return false;
	for (int i = first; i < batch->count; i++)
	{
		RestoreStore store = {batch->table, &batch->rows[i], fates[i].exists};

		if (fates[i].pending && !restore_is_long(&store))
			done(batch, fates, i);
	}
	return true;
}

/* Store each row that is left in its own transaction. */
static bool
store_apart(Session *session, const Restore *restore, const Batch *batch, Fate *fates)
{
	Failure		failure;
	bool		all = true;

	for (int i = 0; i < batch->count; i++)
	{
		RestoreStore store = {batch->table, &batch->rows[i], fates[i].exists};

		if (!fates[i].pending)
			continue;
		if (restore_store(session, restore->dir, &store, &failure))
		{
			done(batch, fates, i);
			continue;
		}
		fail_row(batch->table, &batch->rows[i], &failure);
		if (!session_recover(session, &failure))
		{
			output_message(&failure);
			return false;
		}
		all = all && PQstatus(session->conn) == CONNECTION_OK;
	}
	return all;
}

static void
pretend(const Batch *batch, Fate *fates)
{
	for (int i = 0; i < batch->count; i++)
		if (fates[i].pending)
			done(batch, fates, i);
}

bool
restore_batch(Session *session, void *arg, FlowItem *item)
{
	const Restore *restore = arg;
	const Batch *batch = (const Batch *) item;
	Fate		fates[BATCH_ROWS];
	Failure		failure;

	if (!dump_settings(session, &failure) || !look(session, restore, batch, fates, &failure))
	{
		for (int i = 0; i < batch->count; i++)
			fail_row(batch->table, &batch->rows[i], &failure);
		return false;
	}
	fail_failed(batch, fates);
	if (restore->options->dry_run)
		pretend(batch, fates);
	else if (!store_together(session, restore, batch, fates) &&
			 !session_recover(session, &failure))
	{
		output_message(&failure);
		return false;
	}
	return store_apart(session, restore, batch, fates);
}

void
restore_free_batch(FlowItem *item)
{
	Batch	   *batch = (Batch *) item;

	for (int i = 0; i < batch->count; i++)
		json_decref(batch->rows[i].line);
	free(batch);
}
