/*-------------------------------------------------------------------------
 *
 * dumplist.c
 *	  securefile dump --list DIR
 *
 *-------------------------------------------------------------------------
 */
#include <stdlib.h>

#include "dump.h"
#include "output.h"

static json_t *
names_of(const json_t *columns)
{
	json_t	   *names = json_array();

	for (size_t i = 0; i < json_array_size(columns); i++)
	{
		char	   *name = manifest_column_name(json_array_get(columns, i));

		json_array_append_new(names, json_string(name));
		free(name);
	}
	return names;
}

/* "public.docs.document, public.pages.scan"; the caller frees it. */
static char *
join(const json_t *names)
{
	Text		text = {0};

	text_add(&text, "", 0);
	for (size_t i = 0; i < json_array_size(names); i++)
	{
		const char *name = json_string_value(json_array_get(names, i));

		text_add(&text, ", ", i > 0 ? 2 : 0);
		text_add(&text, name, json_string_length(json_array_get(names, i)));
	}
	return text.bytes;
}

static void
print(const Options *options, const char *name, const ManifestReader *reader)
{
	const ManifestTotals *totals = &reader->totals;
	json_t	   *names = names_of(reader->columns);
	bool		oversize = manifest_is_oversize(reader);
	char		size[32];

	if (options->json)
		output_record(json_pack("{s:s, s:s, s:I, s:I, s:I, s:I, s:O}", "dump", name,
								"only", oversize ? "oversize" : "all",
								"rows", (json_int_t) totals->rows,
								"files", (json_int_t) totals->files,
								"bytes", (json_int_t) totals->bytes,
								"failed", (json_int_t) totals->failed, "columns", names));
	else
	{
		char	   *list = join(names);

		output_line("%s  %lld rows, %lld files, %s%s%s  %s", name, (long long) totals->rows,
					(long long) totals->files,
					progress_size(totals->bytes, size, sizeof(size)),
					totals->failed > 0 ? ", some failed" : "",
					oversize ? ", only what pg_dump has left out" : "", output_quoted(list));
		free(list);
	}
	json_decref(names);
}

int
dump_list(const Options *options)
{
	Failure		failure;
	FoundList	list;
	DumpDir    *dir = dumpdir_open(options->args[0], DUMPDIR_READ, &failure);

	if (dir == NULL || !dumpdir_list(dir, &list, &failure))
	{
		output_message(&failure);
		return EXIT_SETUP;
	}
	for (size_t i = 0; i < list.count; i++)
	{
		ManifestReader reader;

		if (!manifest_open(&reader, dir, list.files[i].path, &failure))
		{
			output_failed(list.files[i].path, &failure);
			continue;
		}
		print(options, list.files[i].path, &reader);
		manifest_close(&reader);
	}
	dumpdir_free_list(&list);
	dumpdir_close(dir);
	return output_status(EXIT_DONE);
}
