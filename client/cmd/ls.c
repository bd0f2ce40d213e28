/*-------------------------------------------------------------------------
 *
 * ls.c
 *	  securefile ls [--long] [--hash] [--human] [--total] [--prefix TEXT] [--unfinished] [PATTERN]
 *
 *-------------------------------------------------------------------------
 */
#include <stdio.h>
#include <string.h>

#include "filter.h"
#include "list.h"
#include "output.h"
#include "reserved.h"
#include "storage.h"
#include "verbs.h"

/* What is shown of each file, and what was shown. */
typedef struct Show
{
	const Options *options;
	Totals		totals;
} Show;

static void
show_json(const Options *options, const Listed *file)
{
	json_t	   *record = json_pack("{s:o, s:I}", "name", output_json_name(file->name),
								   "length", (json_int_t) file->length);

	if (options->details)
		storage_json(record, file->length, file->stored);
	if (options->hash)
		json_object_set_new(record, "sha256", output_json_name(file->sha256));
	output_record(record);
}

static void
show_text(const Options *options, const Listed *file)
{
	const char *hash = options->hash ? file->sha256 : "";
	const char *gap = options->hash ? "  " : "";
	char		length[32],
				stored[32],
				ratio[32];

	storage_bytes(file->length, options->human, length, sizeof(length));
	if (options->details)
		output_line("%14s  %14s  %8s  %s%s%s", length,
					storage_bytes(file->stored, options->human, stored, sizeof(stored)),
					storage_ratio(file->length, file->stored, ratio, sizeof(ratio)),
					hash, gap, output_quoted(file->name));
	else
		output_line("%14s  %s%s%s", length, hash, gap, output_quoted(file->name));
}

/* A ListEach: prints the file. */
static void
show_file(void *arg, const Listed *file)
{
	Show	   *show = arg;

	if (filter_excludes_file(show->options->filter, file->name + strlen(show->options->prefix)))
		return;
	totals_add(&show->totals, file->length, file->stored);
	(show->options->json ? show_json : show_text) (show->options, file);
}

/* A ListEach: prints how much is stored of a file that is not complete, its size, and its name. */
static void
show_unfinished(void *arg, const Listed *file)
{
	Show	   *show = arg;
	const Options *options = show->options;
	int64_t		size;
	const char *name = reserved_final(file->name, &size);
	char		stored[32],
				all[32];

	if (name == NULL || (options->nargs > 0 && !list_matches(options->args[0], name)) ||
		strncmp(name, options->prefix, strlen(options->prefix)) != 0)
		return;
	totals_add(&show->totals, file->length, STORED_NOWHERE);
	if (options->json)
		output_record(json_pack("{s:o, s:I, s:I}", "name", output_json_name(name),
								"length", (json_int_t) file->length, "size", (json_int_t) size));
	else
		output_line("%14s  %14s  %s",
					storage_bytes(file->length, options->human, stored, sizeof(stored)),
					storage_bytes(size, options->human, all, sizeof(all)), output_quoted(name));
}

static void
show_totals(const Options *options, const Totals *totals)
{
	Listed		all = {.length = totals->bytes, .stored = totals->stored, .sha256 = ""};
	Options		plain = *options;
	char		name[64];

	if (options->json)
	{
		totals_json(totals, "ls", options->details);
		return;
	}
	snprintf(name, sizeof(name), "total of %lld files", (long long) totals->files);
	all.name = name;
	plain.hash = false;
	show_text(&plain, &all);
}

int
verb_ls(const Options *options)
{
	Target		target;
	Session    *session = session_first(options, &target);
	Failure		failure;
	Show		show = {.options = options};
	const char *pattern = options->nargs > 0 ? options->args[0] : NULL;
	bool		good;

	if (session == NULL)
		return EXIT_SETUP;
	good = options->unfinished ?
		list_each(session, NULL, RESERVED_PREFIX, false, false, show_unfinished, &show, &failure) :
		list_each(session, pattern, options->prefix, options->details, options->hash, show_file,
				  &show, &failure);
	if (!good)
		output_message(&failure);
	else if (options->total)
		show_totals(options, &show.totals);
	session_end(session);
	return good ? EXIT_DONE : EXIT_SETUP;
}
