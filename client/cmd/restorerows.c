/*-------------------------------------------------------------------------
 *
 * restorerows.c
 *	  A batch of rows: which are there, and what is to be stored.
 *
 * One statement looks for all rows of the batch.  What is missing or differs is stored: short files
 * together (batch.c), each long one in a transaction of its own.  After a lost connection nobody
 * knows whether the last transaction was committed.  So what is left is looked for once more, and
 * stored row by row: if one of the rows costs the connection, it costs the others nothing.
 *
 *-------------------------------------------------------------------------
 */
#include <stdlib.h>
#include <string.h>

#include "batch.h"
#include "dump.h"
#include "output.h"
#include "restore.h"
#include "text.h"

/* What becomes of a row. */
typedef struct Fate
{
	bool		pending;		/* the user was not told of it */
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

/* Rows of a batch that are looked for together. */
typedef struct Looked
{
	int		   *numbers;
	int			count;
} Looked;

/* One row of VALUES: number, length, key. */
static void
add_listed(Text *sql, const Batch *batch, int number, int place)
{
	const RestoreTable *table = batch->table;
	char	   *text = text_make("%s(%d, %lld::pg_catalog.int8", place > 0 ? ", " : "", number,
								 (long long) batch->rows[number].file.length);

	text_add(sql, text, strlen(text));
	free(text);
	for (int i = 0; i < table->nkeys; i++)
	{
		text = text_make(", $%d::%s", place * table->nkeys + i + 1, table->key_types[i]);
		text_add(sql, text, strlen(text));
		free(text);
	}
	text_add(sql, ")", 1);
}

/* The statement that looks for a row of a distributed table. */
static char *
look_for_one(const Batch *batch, int number)
{
	const RestoreTable *table = batch->table;
	char	   *length = text_make("%lld", (long long) batch->rows[number].file.length);
	char	   *asked = answers(table, length);
	char	   *sql = text_make("SELECT %d, %s FROM %s WHERE %s LIMIT 2", number, asked,
								table->target.quoted_table, table->key_is_given);

	free(asked);
	free(length);
	return sql;
}

/* The statement that looks for them. */
static char *
look_statement(const Batch *batch, const Looked *looked)
{
	const RestoreTable *table = batch->table;
	Text		list = {0};
	Text		names = {0};
	char	   *asked;
	char	   *sql;

	if (table->target.distributed)
		return look_for_one(batch, looked->numbers[0]);
	for (int i = 0; i < looked->count; i++)
		add_listed(&list, batch, looked->numbers[i], i);
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

/* Can the row be told from others? */
static bool
check_key(char *const *key, int count, Failure *failure)
{
	for (int i = 0; i < count; i++)
		if (key[i] == NULL)
			return failure_say(failure, "the key is null: the row cannot be told from others");
	return true;
}

/* The rows that are pending; one whose key is null, or no text, has failed. */
static Looked
find_pending(const Batch *batch, Fate *fates)
{
	const RestoreTable *table = batch->table;
	Looked		looked = {calloc(batch->count + 1, sizeof(int)), 0};

	if (looked.numbers == NULL)
		abort();
	for (int i = 0; i < batch->count; i++)
	{
		const ManifestRow *row = &batch->rows[i];
		Failure		failure;
		char	  **key;

		if (!fates[i].pending)
			continue;
		key = restore_values(row, table->keys, table->nkeys, &failure);
		fates[i].pending = key != NULL && check_key(key, table->nkeys, &failure);
		fates[i].exists = false;
		fates[i].action = ACTION_PUT;
		restore_free_values(key, table->nkeys);
		if (fates[i].pending)
			looked.numbers[looked.count++] = i;
		else
			fail_row(table, row, &failure);
	}
	return looked;
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

/* Ask for rows; NULL after a failure. */
static PGresult *
ask(Session *session, const Batch *batch, const Looked *looked, Failure *failure)
{
	const RestoreTable *table = batch->table;
	const char **values = calloc(looked->count * table->nkeys + 1, sizeof(char *));
	char	 ***keys = calloc(looked->count + 1, sizeof(char **));
	char	   *sql = look_statement(batch, looked);
	PGresult   *result;

	if (values == NULL || keys == NULL)
		abort();
	for (int i = 0; i < looked->count; i++)
	{
		keys[i] = restore_values(&batch->rows[looked->numbers[i]], table->keys, table->nkeys,
								 failure);
		memcpy(values + i * table->nkeys, keys[i], table->nkeys * sizeof(char *));
	}
	result = session_rows(session, failure, 4, sql, looked->count * table->nkeys, values);
	for (int i = 0; i < looked->count; i++)
		restore_free_values(keys[i], table->nkeys);
	free(keys);
	free(values);
	free(sql);
	return result;
}

/* Look for rows, and decide. */
static bool
look_for(Session *session, const Restore *restore, const Batch *batch, const Looked *looked,
		 Fate *fates, Failure *failure)
{
	PGresult   *result = ask(session, batch, looked, failure);

	for (int i = 0; i < PQntuples(result); i++)
	{
		int			number = number_at(result, i);

		/* rows of one key come one after the other */
		if (number >= 0 && number < batch->count && fates[number].pending && !fates[number].exists)
			judge(restore, batch, result, i, number_at(result, i + 1) == number, &fates[number],
				  &batch->rows[number]);
	}
	PQclear(result);
	return result != NULL;
}

/* Look for each row alone: one has a key that is no value of its type, for example. */
static bool
look_apart(Session *session, const Restore *restore, const Batch *batch, const Looked *looked,
		   Fate *fates, Failure *failure)
{
	for (int i = 0; i < looked->count && PQstatus(session->conn) == CONNECTION_OK &&
		 !output_stopped(); i++)
	{
		int			number = looked->numbers[i];
		Looked		one = {&number, 1};

		if (look_for(session, restore, batch, &one, fates, failure) ||
			PQstatus(session->conn) != CONNECTION_OK)
			continue;
		fail_row(batch->table, &batch->rows[number], failure);
		fates[number].pending = false;
	}
	return PQstatus(session->conn) == CONNECTION_OK && !output_stopped();
}

/* Look for all that are pending, and decide; false: the connection is lost, or all stops. */
static bool
look(Session *session, const Restore *restore, const Batch *batch, Fate *fates, Failure *failure)
{
	Looked		looked = find_pending(batch, fates);
	bool		good = looked.count == 0 ||
		look_for(session, restore, batch, &looked, fates, failure) ||
		look_apart(session, restore, batch, &looked, fates, failure);

	free(looked.numbers);
	return good;
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

/* What the functions of a batch are called with. */
typedef struct Together
{
	const Restore *restore;
	const RestoreTable *table;
} Together;

/* Of a BatchWork: read the file of a row, and send it. */
static bool
send_row(Session *session, void *arg, BatchFile *file, bool prepare, Failure *failure)
{
	const Together *together = arg;
	RestoreStore store = {together->table, file->source, file->row_exists};
	WholeFile	whole;
	bool		sent;

	file->bytes = -1;
	if (!restore_whole(session, together->restore->dir, &store, &whole, failure))
		return true;
	file->bytes = store.row->file.length;
	file->sent = true;
	sent = batch_send(session, &whole, prepare);
	statement_free(&whole);
	return sent;
}

/* And: store it alone. */
static void
store_row(Session *session, void *arg, BatchFile *file, Failure *failure)
{
	const Together *together = arg;
	RestoreStore store = {together->table, file->source, file->row_exists};

	file->bytes = -1;
	if (!restore_store(session, together->restore->dir, &store, failure))
		return;
	file->bytes = store.row->file.length;
	progress_bytes(file->bytes);
}

/* Is the row to be stored with others? */
static bool
is_short(const Batch *batch, const Fate *fates, int number)
{
	RestoreStore store = {batch->table, &batch->rows[number], fates[number].exists};

	return fates[number].pending && !restore_is_long(&store);
}

/* Store all short files; false: the connection is lost, or all stops. */
static bool
store_together(Session *session, const Restore *restore, const Batch *batch, Fate *fates)
{
	static const BatchWork work = {send_row, store_row, false};
	Together	together = {restore, batch->table};
	BatchFile  *files = calloc(batch->count + 1, sizeof(BatchFile));
	size_t		count = 0;
	bool		good;

	if (files == NULL)
		abort();
	for (int i = 0; i < batch->count; i++)
		if (is_short(batch, fates, i))
			files[count++] = (BatchFile)
		{
			.source = &batch->rows[i], .name = restore_name(batch->table, &batch->rows[i]),
				.row_exists = fates[i].exists, .action = fates[i].action
		};
	good = batch_store(session, &work, &together, files, count);
	for (size_t i = 0; i < count; i++)
	{
		const ManifestRow *row = files[i].source;

		if (files[i].told)
		{
			fates[row - batch->rows].pending = false;
			progress_file();
		}
		free((char *) files[i].name);
	}
	free(files);
	return good;
}

/* Store each long file in its own transaction; false likewise, with the failure. */
static bool
store_apart(Session *session, const Restore *restore, const Batch *batch, Fate *fates,
			Failure *failure)
{
	Failure		ignored;

	for (int i = 0; i < batch->count && !output_stopped(); i++)
	{
		RestoreStore store = {batch->table, &batch->rows[i], fates[i].exists};
		bool		stored;

		if (!fates[i].pending)
			continue;
		stored = restore_store(session, restore->dir, &store, failure);
		if (!stored && PQstatus(session->conn) != CONNECTION_OK)
			return false;
		fates[i].pending = false;
		if (stored)
			tell_row(batch->table, store.row, fates[i].action);
		else
			fail_row(batch->table, store.row, failure);
		if (!stored && !session_recover(session, &ignored))
			return false;
	}
	return !output_stopped();
}

static void
pretend(const Batch *batch, Fate *fates)
{
	for (int i = 0; i < batch->count; i++)
		if (fates[i].pending)
		{
			fates[i].pending = false;
			progress_bytes(batch->rows[i].file.length);
			tell_row(batch->table, &batch->rows[i], fates[i].action);
		}
}

/* Do what is pending; false with the failure: the connection is lost.  False, too: all stops. */
static bool
do_pending(Session *session, const Restore *restore, const Batch *batch, Fate *fates,
		   Failure *failure)
{
	if (!dump_settings(session, failure) || !look(session, restore, batch, fates, failure))
		return false;
	fail_failed(batch, fates);
	if (restore->options->dry_run)
	{
		pretend(batch, fates);
		return true;
	}
	if (!store_together(session, restore, batch, fates))
	{
		failure_sql(failure, session->conn, NULL);
		return false;
	}
	return store_apart(session, restore, batch, fates, failure);
}

/* Do what a lost connection has left, row by row; false: there is no connection, or all stops. */
static bool
do_rest(Session *session, const Restore *restore, const Batch *batch, Fate *fates,
		Failure *failure)
{
	Fate	   *alone = calloc(batch->count, sizeof(Fate));
	bool		good = true;

	if (alone == NULL)
		abort();
	for (int i = 0; good && i < batch->count; i++)
	{
		if (!fates[i].pending)
			continue;
		good = !output_stopped() && session_recover(session, failure);
		if (!good)
			break;
		fates[i].pending = false;
		alone[i].pending = true;
		if (!do_pending(session, restore, batch, alone, failure) && alone[i].pending &&
			!output_stopped())
			fail_row(batch->table, &batch->rows[i], failure);
		alone[i].pending = false;
	}
	free(alone);
	return good;
}

bool
restore_batch(Session *session, void *arg, FlowItem *item)
{
	const Batch *batch = (const Batch *) item;
	Fate	   *fates = calloc(batch->count, sizeof(Fate));
	Failure		failure;
	bool		good;

	if (fates == NULL)
		abort();
	for (int i = 0; i < batch->count; i++)
		fates[i].pending = true;
	good = output_stopped() || do_pending(session, arg, batch, fates, &failure);
	if (!good && PQstatus(session->conn) != CONNECTION_OK)
		good = do_rest(session, arg, batch, fates, &failure);
	for (int i = 0; !good && !output_stopped() && i < batch->count; i++)
		if (fates[i].pending)
			fail_row(batch->table, &batch->rows[i], &failure);
	free(fates);
	return good;
}

void
restore_free_batch(FlowItem *item)
{
	Batch	   *batch = (Batch *) item;

	for (int i = 0; i < batch->count; i++)
		json_decref(batch->rows[i].line);
	free(batch);
}
