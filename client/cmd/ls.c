/*-------------------------------------------------------------------------
 *
 * ls.c
 *	  securefile ls [--long] [--hash] [PATTERN]
 *
 *-------------------------------------------------------------------------
 */
#include "filter.h"
#include "list.h"
#include "output.h"
#include "storage.h"
#include "verbs.h"

/* What is shown of each file. */
typedef struct Show
{
	bool		json;
	bool		stored;			/* bytes and ratio, too */
	bool		hash;
	const Filter *filter;
} Show;

static void
show_json(const Show *show, const Listed *file)
{
	json_t	   *record = json_pack("{s:o, s:I}", "name", output_json_name(file->name),
								   "length", (json_int_t) file->length);

	if (show->stored)
		storage_json(record, file->length, file->stored);
	if (show->hash)
		json_object_set_new(record, "sha256", output_json_name(file->sha256));
	output_record(record);
}

static void
show_text(const Show *show, const Listed *file)
{
	const char *hash = show->hash ? file->sha256 : "";
	const char *gap = show->hash ? "  " : "";
	char		stored[32],
				ratio[32];

	if (show->stored)
		output_line("%14lld  %14s  %8s  %s%s%s", (long long) file->length,
					storage_bytes(file->stored, stored, sizeof(stored)),
					storage_ratio(file->length, file->stored, ratio, sizeof(ratio)),
					hash, gap, output_quoted(file->name));
	else
		output_line("%14lld  %s%s%s", (long long) file->length, hash, gap,
					output_quoted(file->name));
}

/* A ListEach: prints the file. */
static void
show_file(void *arg, const Listed *file)
{
	const Show *show = arg;

	if (filter_excludes_file(show->filter, file->name))
		return;
	(show->json ? show_json : show_text) (show, file);
}

int
verb_ls(const Options *options)
{
	Target		target;
	Session    *session = session_first(options, &target);
	Failure		failure;
	Show		show = {.json = options->json, .hash = options->hash, .filter = options->filter};
	bool		good;

	if (session == NULL)
		return EXIT_SETUP;
	show.stored = options->details;
	good = list_each(session, options->nargs > 0 ? options->args[0] : NULL, "", show.stored,
					 show.hash, show_file, &show, &failure);
	if (!good)
		output_message(&failure);
	session_end(session);
	return good ? EXIT_DONE : EXIT_SETUP;
}
