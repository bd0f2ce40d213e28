/*-------------------------------------------------------------------------
 *
 * dump.c
 *	  securefile dump DIR
 *
 *		dumprun.c		a dump: the list, and the threads that fetch
 *		dumpcolumn.c	the columns, and the statements that read them
 *		dumpobject.c	one object
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
#include "verbs.h"

/* Tell of tables whose rows cannot be told apart; with --all the others are dumped. */
static bool
check_keys(Dump *dump, Failure *failure)
{
	DumpColumns *found = &dump->columns;
	int			kept = 0;

	for (int i = 0; i < found->count; i++)
	{
		DumpColumn *column = &found->columns[i];

		if (column->no_key == NULL)
			found->columns[kept++] = *column;
		else
		{
			failure_say(failure, "%s", column->no_key);
			if (dump->options->table != NULL)
				return false;
			output_failed(column->quoted_table, failure);
		}
	}
	found->count = kept;
	return kept > 0 || failure_say(failure, "no column is left to dump");
}

/* Find the columns, and make their statements. */
static bool
prepare(Session *session, Dump *dump, Failure *failure)
{
	const Options *options = dump->options;
	Target		target = {0};
	bool		good = dump_snapshot(session, dump, failure) &&
		dumpcolumns_find(session, options, &dump->columns, failure) &&
		check_keys(dump, failure) && target_find_extension(session, &target, failure);

	for (int i = 0; good && i < dump->columns.count; i++)
	{
		DumpColumn *column = &dump->columns.columns[i];

		good = dumpcolumn_statements(session, column, target.extension, options->verify,
									 dump->more, failure);
		if (good && column->distributed && !options->quiet)
			output_notice(NULL, "the files of a distributed table are not of one moment: "
						  "there is no snapshot of all its nodes");
	}
	free(target.extension);
	return good;
}

/* Print what became of the dump. */
static void
tell(const Dump *dump, const ManifestTotals *totals)
{
	if (dump->options->json)
		output_record(json_pack("{s:s, s:I, s:I, s:I, s:I}", "dump", dump->name,
								"rows", (json_int_t) totals->rows,
								"files", (json_int_t) totals->files,
								"bytes", (json_int_t) totals->bytes,
								"failed", (json_int_t) totals->failed));
	else
		output_line("%s", dump->name);
}

/* Make a dump; returns the exit status. */
static int
make_dump(const Options *options)
{
	Dump		dump = {.options = options};
	ManifestTotals totals;
	Failure		failure;
	Session    *session;
	bool		good;

	dump.dir = dumpdir_open(options->args[0], DUMPDIR_WRITE, &failure);
	session = dump.dir == NULL ? NULL : session_more(options, NULL, &failure);
	good = session != NULL && prepare(session, &dump, &failure);
	if (good)
	{
		if (!options->quiet)
			progress_begin(0, -1);
		good = dump_run(session, &dump, &totals, &failure);
	}
	if (!good)
		output_message(&failure);
	if (session != NULL)
		session_end(session);
	if (dump.dir != NULL)
		dumpdir_close(dump.dir);
	if (good)
		tell(&dump, &totals);
	return output_end(good ? EXIT_DONE : EXIT_SETUP);
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
