/*-------------------------------------------------------------------------
 *
 * dumpearlier.c
 *	  The objects of an earlier dump, found by the keys of their rows.
 *
 * In memory are some 80 bytes for each long file.  Of the key there is a hash: two rows of the
 * same one cost time, since the tags of a file of another row differ.
 *
 *-------------------------------------------------------------------------
 */
#include <stdlib.h>
#include <string.h>

#include <xxhash.h>

#include "dumpearlier.h"
#include "manifest.h"

/* ---- keys ---- */

/* The hash of the key of a row: names and values of its columns. */
static uint64_t
hash_key(const json_t *column, const json_t *values)
{
	const json_t *numbers = json_object_get(column, "key");
	json_t	   *key = json_array();
	uint64_t	hash;
	char	   *text;

	for (size_t i = 0; i < json_array_size(numbers); i++)
	{
		json_int_t	number = json_integer_value(json_array_get(numbers, i));
		const json_t *row = json_array_get(json_object_get(column, "row"), number);

		json_array_append(key, json_object_get(row, "name"));
		json_array_append(key, json_array_get(values, number));
	}
	text = json_dumps(key, JSON_COMPACT);
	if (text == NULL)
		abort();
	hash = XXH3_64bits(text, strlen(text));
	free(text);
	json_decref(key);
	return hash;
}

/* ---- reading a manifest ---- */

static void
add_file(Earlier *earlier, const json_t *column, const ManifestRow *row)
{
	EarlierFile *file;

	if (earlier->count == earlier->space)
	{
		earlier->space = earlier->space * 2 + 64;
		earlier->files = realloc(earlier->files, earlier->space * sizeof(EarlierFile));
		if (earlier->files == NULL)
			abort();
	}
	file = &earlier->files[earlier->count++];
	file->row = hash_key(column, row->values);
	file->length = row->file.length;
	memcpy(file->sha256, row->file.sha256, SHA256_HEX_SIZE);
}

/* The number of a column in a manifest; -1: it has another ones. */
static int
find_column(const ManifestReader *reader, const char *wanted)
{
	int			found = -1;

	for (size_t i = 0; found < 0 && i < json_array_size(reader->columns); i++)
	{
		char	   *name = manifest_column_name(json_array_get(reader->columns, i));

		if (strcmp(name, wanted) == 0)
			found = (int) i;
		free(name);
	}
	return found;
}

/* Read the rows of a manifest, if it has the column. */
static bool
read_manifest(Earlier *earlier, DumpDir *dir, const char *name, const char *wanted, int64_t least)
{
	ManifestReader reader;
	ManifestRow row = {0};
	Failure		ignored;
	int			number;

	if (!manifest_open(&reader, dir, name, &ignored))
		return false;
	number = find_column(&reader, wanted);
	while (number >= 0 && manifest_next(&reader, &row, &ignored) > 0)
		if (row.file.column == number && row.file.sha256 != NULL && row.file.length >= least)
			add_file(earlier, json_array_get(reader.columns, number), &row);
	manifest_close(&reader);
	return number >= 0;
}

static int
compare_rows(const void *a, const void *b)
{
	uint64_t	one = ((const EarlierFile *) a)->row;
	uint64_t	other = ((const EarlierFile *) b)->row;

	return (one > other) - (one < other);
}

/* Read the newest manifest that has the column. */
static void
read_newest(Earlier *earlier, DumpDir *dir, const char *wanted, int64_t least)
{
	FoundList	list;
	Failure		ignored;
	bool		found = !dumpdir_list(dir, &list, &ignored);

	for (size_t i = list.count; i > 0 && !found; i--)
		found = read_manifest(earlier, dir, list.files[i - 1].path, wanted, least);
	dumpdir_free_list(&list);
	if (earlier->count > 0)
		qsort(earlier->files, earlier->count, sizeof(EarlierFile), compare_rows);
}

const EarlierFile *
earlier_find(Earlier *earlier, DumpDir *dir, const DumpColumn *column, const char *values,
			 int64_t least)
{
	json_t	   *description = dumpcolumn_describe(column);
	json_t	   *row = json_loads(values, 0, NULL);
	EarlierFile wanted = {.row = hash_key(description, row)};
	char	   *name = manifest_column_name(description);

	if (!earlier->read)
		read_newest(earlier, dir, name, least);
	earlier->read = true;
	free(name);
	json_decref(row);
	json_decref(description);
	if (earlier->count == 0)
		return NULL;
	return bsearch(&wanted, earlier->files, earlier->count, sizeof(EarlierFile), compare_rows);
}
