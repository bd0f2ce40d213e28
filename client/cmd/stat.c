/*-------------------------------------------------------------------------
 *
 * stat.c
 *	  securefile stat [--hash] [--human] [--total] NAME...
 *
 *-------------------------------------------------------------------------
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "meta.h"
#include "names.h"
#include "output.h"
#include "reserved.h"
#include "storage.h"
#include "text.h"
#include "transfer.h"
#include "verbs.h"

/* The facts about a stored file; table is the row's own, which may be a partition. */
typedef struct Facts
{
	const char *name;
	const char *table;
	const char *column;
	int64_t		length;
	int64_t		in_row;
	int64_t		stored;
	const char *codec;			/* null: nothing is known of the storage */
	const char *sha256;			/* null: none is kept */
	Meta		meta;
	bool		hashed;
	char		hash[17];
} Facts;

/* Of the files that were shown. */
static Totals totals;

/* What --meta has kept. */
static void
show_meta(const Meta *meta)
{
	char		buffer[META_TIME_SIZE];

	if (meta->mtime != NO_MTIME)
		output_line("mtime:   %s", meta_time(meta->mtime, buffer, sizeof(buffer)));
	if (meta->mode != NO_MODE)
		output_line("mode:    %04o", meta->mode);
	if (meta->link != NULL)
		output_line("link:    %s", output_quoted(meta->link));
}

/* The same in an object. */
static void
add_meta(json_t *record, const Meta *meta)
{
	char		buffer[META_TIME_SIZE];

	if (meta->mtime != NO_MTIME)
		json_object_set_new(record, "mtime",
							json_string(meta_time(meta->mtime, buffer, sizeof(buffer))));
	if (meta->mode != NO_MODE)
	{
		snprintf(buffer, sizeof(buffer), "%04o", meta->mode);
		json_object_set_new(record, "mode", json_string(buffer));
	}
	if (meta->link != NULL)
		json_object_set_new(record, "link_target", output_json_name(meta->link));
}

/* Print the facts as lines; an empty line stands between two files. */
static void
show_text(const Facts *facts, bool human)
{
	char		buffer[32];

	if (totals.files > 0)
		output_line("%s", "");
	output_line("name:    %s", output_quoted(facts->name));
	output_line("table:   %s", output_quoted(facts->table));
	output_line("column:  %s", output_quoted(facts->column));
	output_line("length:  %s", storage_bytes(facts->length, human, buffer, sizeof(buffer)));
	output_line("in row:  %s", storage_bytes(facts->in_row, human, buffer, sizeof(buffer)));
	if (facts->codec != NULL)
	{
		output_line("stored:  %s", storage_bytes(facts->stored, human, buffer, sizeof(buffer)));
		output_line("ratio:   %s",
					storage_ratio(facts->length, facts->stored, buffer, sizeof(buffer)));
		output_line("codec:   %s", output_quoted(facts->codec));
	}
	if (facts->sha256 != NULL)
		output_line("sha256:  %s", output_quoted(facts->sha256));
	if (facts->hashed)
		output_line("xxh3:    %s", facts->hash);
	show_meta(&facts->meta);
}

/* Print the facts as an object. */
static void
show_json(const Facts *facts)
{
	json_t	   *record = json_pack("{s:o, s:o, s:o, s:I, s:I}",
								   "name", output_json_name(facts->name),
								   "table", output_json_name(facts->table),
								   "column", output_json_name(facts->column),
								   "length", (json_int_t) facts->length,
								   "in_row", (json_int_t) facts->in_row);

	if (facts->codec != NULL)
	{
		storage_json(record, facts->length, facts->stored);
		json_object_set_new(record, "codec", output_json_name(facts->codec));
	}
	if (facts->sha256 != NULL)
		json_object_set_new(record, "sha256", output_json_name(facts->sha256));
	if (facts->hashed)
		json_object_set_new(record, "xxh3", json_string(facts->hash));
	add_meta(record, &facts->meta);
	output_record(record);
}

/* Look up the facts of one name and print them. */
static bool
stat_one(Session *session, const Options *options, const char *name, Failure *failure)
{
	const Target *target = session->target;
	const char *const values[] = {name};

	/*
	 * LIMIT keeps the inner statement apart, so that the function is called
	 * once
	 */
	char	   *sql = text_make("SELECT f.length, f.in_row, f.place, (f.storage).stored_bytes,"
								" COALESCE((f.storage).codec, 'none'), f.sha256, f.mtime, f.mode, f.link FROM ("
								"SELECT pg_catalog.length(%s), pg_catalog.pg_column_size(%s),"
								" %s, %s, %s, %s FROM %s WHERE %s AND %s IS NOT NULL LIMIT 2"
								") f (length, in_row, place, storage, sha256, mtime, mode, link)",
								target->column, target->column,

	/* on another node the table has another OID */
								target->distributed ? "NULL" : "tableoid::pg_catalog.regclass",
								target->storage, target->kept_digest, meta_expressions(target),
								target->table,
								target->key_is_name, target->column);
	PGresult   *result = session_rows(session, failure, 6 + META_COLUMNS, sql, 1, values);
	int			rows = PQntuples(result);
	Facts		facts = {.name = name, .column = target->plain_column, .hashed = options->hash};
	uint64_t	hash = 0;
	bool		good = result != NULL && reserved_refuse(name, failure);

	free(sql);
	if (good && rows != 1)
		good = failure_say(failure, rows == 0 ?
						   "no file of that name" : "more than one row has that name");
	if (good && options->hash)
		good = transfer_hash(session, name, &hash, failure);
	if (good)
	{
		facts.length = strtoll(PQgetvalue(result, 0, 0), NULL, 10);
		facts.in_row = strtoll(PQgetvalue(result, 0, 1), NULL, 10);
		facts.table = target->distributed ? target->table : PQgetvalue(result, 0, 2);
		facts.stored = storage_field(result, 3);
		facts.codec = PQgetisnull(result, 0, 4) ? NULL : PQgetvalue(result, 0, 4);
		facts.sha256 = PQgetisnull(result, 0, 5) ? NULL : PQgetvalue(result, 0, 5);
		facts.meta = meta_take(result, 0, 6);
		snprintf(facts.hash, sizeof(facts.hash), "%016" PRIx64, hash);
		if (options->json)
			show_json(&facts);
		else
			show_text(&facts, options->human);
		totals_add(&totals, facts.length, facts.stored);
	}
	PQclear(result);
	return good;
}

static void
show_totals(const Options *options)
{
	char		buffer[32];

	if (options->json)
	{
		totals_json(&totals, "stat", true);
		return;
	}
	output_line("%s", "");
	output_line("files:   %lld", (long long) totals.files);
	output_line("length:  %s",
				storage_bytes(totals.bytes, options->human, buffer, sizeof(buffer)));
	output_line("stored:  %s",
				storage_bytes(totals.stored, options->human, buffer, sizeof(buffer)));
	output_line("ratio:   %s",
				storage_ratio(totals.bytes, totals.stored, buffer, sizeof(buffer)));
}

int
verb_stat(const Options *options)
{
	int			status = names_each(options, stat_one);

	if (options->total)
		show_totals(options);
	return status;
}
