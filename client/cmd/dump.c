/*-------------------------------------------------------------------------
 *
 * dump.c
 *	  securefile dump DIR
 *
 *		dumprun.c		a dump: the list, and the threads that fetch
 *		dumpcolumn.c	the columns, and the statements that read them
 *		dumpobject.c	one object
 *		dumpdelta.c		one of which a part is fetched
 *		dumptags.c, dumpearlier.c, dumppatch.c	by tags, out of an earlier one
 *		pgdump.c		pg_dump, which runs beside it
 *		dumplist.c, dumpprune.c, dumpcheck.c	what works on a directory alone
 *		dumpdir.c, dumplease.c	the directory, and which commands work in it
 *		manifestwriter.c, manifestreader.c	the list of a dump
 *		flow.c			items of a list over several connections
 *		restore.c, restorerows.c, restoretable.c	the way back
 *
 *-------------------------------------------------------------------------
 */
#include <stdlib.h>
#include <string.h>

#include "dump.h"
#include "output.h"
#include "text.h"
#include "verbs.h"

/* Does the dump run beside pg_dump? */
static bool
has_pg_dump(const Options *options)
{
	return options->nargs > 1;
}

/* The length above which pg_dump leaves a file out; only these are dumped if nothing is said. */
static bool
find_longer(Session *session, Dump *dump, Failure *failure)
{
	PGresult   *result;

	dump->longer = -1;
	if (!has_pg_dump(dump->options) || dump->options->table != NULL || dump->options->all)
		return true;
	result = session_rows(session, failure, 1,
						  "SELECT s.setting::pg_catalog.int8 OPERATOR(pg_catalog.*) 1024::pg_catalog.int8"
						  " FROM pg_catalog.pg_settings s"
						  " WHERE s.name OPERATOR(pg_catalog.=) 'securefile.dump_oversize_limit'", 0, NULL);
	if (PQntuples(result) == 1)
		dump->longer = strtoll(PQgetvalue(result, 0, 0), NULL, 10);
	else if (result != NULL)
		failure_say(failure, "the server cannot leave files out of pg_dump\n"
					"Hint: The library securefile has to be in shared_preload_libraries.");
	PQclear(result);
	return dump->longer >= 0;
}

/*
 * Is the column to be dumped?  If it is left out, the user is told, and it counts as failed; but
 * not if nothing of it was wanted.  What the role may read beside pg_dump is the matter of pg_dump.
 */
static bool
check_column(Session *session, const Dump *dump, const DumpColumn *column, const char *extension,
			 bool *kept, Failure *failure)
{
	bool		matters = true;

	*kept = column->left_out == NULL;
	if (*kept)
		return true;
	if (dump->longer >= 0 && !column->readable)
		matters = false;
	else if (dump->longer >= 0 &&
			 !dumpcolumn_has_longer(session, column, extension, dump->longer, &matters, failure))
		return false;
	failure_say(failure, "%s", column->left_out);
	if (matters && dump->options->table == NULL)
		output_failed(column->quoted_table, failure);
	return dump->options->table == NULL;
}

/* Tell if the column that is the key by -k does not tell all rows apart.  They are dumped. */
static bool
tell_unclear(Session *session, const Dump *dump, const DumpColumn *column, const char *extension,
			 Failure *failure)
{
	Failure		told;
	char	   *unclear;

	if (dump->options->key == NULL)
		return true;
	if (!dumpcolumn_check_key(session, column, extension, dump->longer, &unclear, failure))
		return false;
	if (unclear == NULL)
		return true;
	failure_say(&told, "%s", unclear);
	output_failed(column->quoted_table, &told);
	free(unclear);
	return true;
}

/* Leave out what cannot be dumped; the others are. */
static bool
check_columns(Session *session, Dump *dump, const char *extension, Failure *failure)
{
	DumpColumns *found = &dump->columns;
	int			count = 0;

	for (int i = 0; i < found->count; i++)
	{
		bool		kept;

		if (!check_column(session, dump, &found->columns[i], extension, &kept, failure))
			return false;
		if (!kept)
			continue;
		if (!tell_unclear(session, dump, &found->columns[i], extension, failure))
			return false;
		found->columns[count++] = found->columns[i];
	}
	found->count = count;
	return count > 0 || failure_say(failure, "no column is left to dump");
}

/* Find the columns, and make their statements. */
static bool
prepare(Session *session, Dump *dump, Failure *failure)
{
	const Options *options = dump->options;
	Target		target = {0};
	bool		good = dump_snapshot(session, dump, failure) &&
		find_longer(session, dump, failure) &&
		dumpcolumns_find(session, options, &dump->columns, failure) &&
		target_find_extension(session, &target, failure) &&
		check_columns(session, dump, target.extension, failure);

	for (int i = 0; good && i < dump->columns.count; i++)
	{
		DumpColumn *column = &dump->columns.columns[i];

		good = dumpcolumn_statements(session, column, target.extension, options->verify,
									 dump->longer, options->delta_granule, failure);
		if (good && column->distributed && !options->quiet)
			output_notice(NULL, "the files of a distributed table are not of one moment: "
						  "there is no snapshot of all its nodes");
	}
	free(target.extension);
	return good;
}

/* Tell how much did not have to be fetched. */
static void
tell_reused(int64_t bytes)
{
	char		size[32];
	char	   *text = text_make("dump: %s were taken from the objects of earlier dumps",
								 progress_size(bytes, size, sizeof(size)));

	output_notice(NULL, text);
	free(text);
}

/* Print what became of the dump. */
static void
tell(Dump *dump, const ManifestTotals *totals)
{
	int64_t		reused = atomic_load(&dump->reused);

	if (reused > 0 && !dump->options->quiet)
		tell_reused(reused);
	if (dump->options->json)
		output_record(json_pack("{s:s, s:I, s:I, s:I, s:I, s:I}", "dump", dump->name,
								"rows", (json_int_t) totals->rows,
								"files", (json_int_t) totals->files,
								"bytes", (json_int_t) totals->bytes,
								"failed", (json_int_t) totals->failed,
								"reused", (json_int_t) reused));
	else if (has_pg_dump(dump->options))
		output_notice(NULL, dump->name);	/* pg_dump may have written there */
	else
		output_line("%s", dump->name);
}

/* Dump, with pg_dump beside it; *part: pg_dump has failed. */
static bool
dump_both(Session *session, Dump *dump, ManifestTotals *totals, bool *part, Failure *failure)
{
	pid_t		process = 0;
	Failure		reason;
	bool		good;

	*part = false;
	if (has_pg_dump(dump->options) &&
		!pgdump_begin(dump->options, dump->snapshot, &process, failure))
		return false;
	if (!dump->options->quiet)
		progress_begin(0, -1);
	good = dump_run(session, dump, totals, failure);
	if (process > 0 && !pgdump_end(process, !good, &reason) && good)
	{
		output_message(&reason);
		*part = true;
	}
	return good;
}

/* Make a dump; returns the exit status. */
static int
make_dump(const Options *options)
{
	Dump		dump = {.options = options};
	ManifestTotals totals;
	Failure		failure;
	Session    *session;
	bool		begun;
	bool		good;
	bool		part = false;

	dump.dir = dumpdir_open(options->args[0], DUMPDIR_WRITE, &failure);
	session = dump.dir == NULL ? NULL : session_more(options, NULL, &failure);
	begun = session != NULL && prepare(session, &dump, &failure);
	good = begun && dump_both(session, &dump, &totals, &part, &failure);
	if (!good)
		output_message(&failure);
	if (session != NULL)
		session_end(session);
	if (dump.dir != NULL)
		dumpdir_close(dump.dir);
	if (good)
		tell(&dump, &totals);
	if (!begun)
		return EXIT_SETUP;
	return output_end(!good ? EXIT_SETUP : part ? EXIT_SOME : EXIT_DONE);
}

int
verb_dump(const Options *options)
{
	if (options->list)
		return dump_list(options);
	if (options->prune)
		return dump_prune(options);
	if (options->check)
		return dump_check(options);
	return make_dump(options);
}
