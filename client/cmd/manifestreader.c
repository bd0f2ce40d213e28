/*-------------------------------------------------------------------------
 *
 * manifestreader.c
 *	  Reading the list of a dump.
 *
 * A manifest is data: somebody else may have written it.  Each line is looked at before it is
 * used; a name in it never is a path.
 *
 *-------------------------------------------------------------------------
 */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "local.h"
#include "manifest.h"
#include "text.h"

/* The last line has no more bytes. */
#define LAST_BYTES		1024

/* ---- the last line ---- */

static bool
take_count(const json_t *line, const char *name, int64_t *count)
{
	const json_t *number = json_object_get(line, name);

	*count = json_integer_value(number);
	return json_is_integer(number) && *count >= 0;
}

/* Read the last line of a file of that length; NULL: it has none. */
static json_t *
read_last(int fd, int64_t length, int64_t *begin)
{
	char		text[LAST_BYTES];
	int64_t		want = length < LAST_BYTES ? length : LAST_BYTES;
	ssize_t		got = pread(fd, text, want, length - want);
	char	   *newline;

	if (got != want || want < 2 || text[want - 1] != '\n')
		return NULL;
	newline = memrchr(text, '\n', want - 1);
	if (newline == NULL)
		return NULL;
	*begin = length - want + (newline + 1 - text);
	return json_loadb(newline + 1, text + want - (newline + 1), JSON_REJECT_DUPLICATES, NULL);
}

/* SHA-256 of the first bytes of a file. */
static bool
sum_bytes(int fd, int64_t length, char *hex, Failure *failure)
{
	static const size_t part = 256 * 1024;
	char	   *buffer = local_buffer(part);
	Sha256	   *sum = sha256_begin();
	int64_t		got = 1;

	for (int64_t at = 0; at < length && got > 0; at += got)
	{
		got = pread(fd, buffer, length - at < (int64_t) part ? (size_t) (length - at) : part, at);
		if (got > 0)
			(void) sha256_add(sum, buffer, got);
	}
	free(buffer);
	if (got > 0)
		return sha256_end(sum, hex) || failure_say(failure, "could not compute SHA-256");
	sha256_free(sum);
	return failure_errno(failure, "could not read the manifest");
}

/* Is it a dump: has it a last line, and is all before that as it was written? */
static bool
check_last(int fd, int64_t length, ManifestTotals *totals, Failure *failure)
{
	int64_t		begin;
	json_t	   *last = read_last(fd, length, &begin);
	const char *sha256 = json_string_value(json_object_get(last, "sha256"));
	char		hex[SHA256_HEX_SIZE];
	bool		good = sha256 != NULL && take_count(last, "rows", &totals->rows) &&
		take_count(last, "files", &totals->files) && take_count(last, "bytes", &totals->bytes) &&
		take_count(last, "failed", &totals->failed);

	if (!good)
		failure_say(failure, "the manifest has no last line: it is not complete");
	else
	{
		good = sum_bytes(fd, begin, hex, failure);
		if (good && strcmp(hex, sha256) != 0)
			good = failure_say(failure, "the manifest is damaged: its SHA-256 is another one");
	}
	json_decref(last);
	return good;
}

/* ---- the first line ---- */

static bool
is_text_in(const json_t *object, const char *name)
{
	return json_is_string(json_object_get(object, name));
}

bool
manifest_column_valid(const json_t *column)
{
	const json_t *row = json_object_get(column, "row");
	const json_t *key = json_object_get(column, "key");
	bool		good = is_text_in(column, "schema") && is_text_in(column, "table") &&
		is_text_in(column, "column") && json_array_size(row) > 0 && json_array_size(key) > 0;

	for (size_t i = 0; good && i < json_array_size(row); i++)
		good = is_text_in(json_array_get(row, i), "name") &&
			is_text_in(json_array_get(row, i), "type");
	for (size_t i = 0; good && i < json_array_size(key); i++)
	{
		const json_t *number = json_array_get(key, i);

		good = json_is_integer(number) && json_integer_value(number) >= 0 &&
			json_integer_value(number) < (json_int_t) json_array_size(row);
	}
	return good;
}

char *
manifest_column_name(const json_t *column)
{
	return text_make("%s.%s.%s", json_string_value(json_object_get(column, "schema")),
					 json_string_value(json_object_get(column, "table")),
					 json_string_value(json_object_get(column, "column")));
}

/* Read a line as JSON; NULL with the failure if it is none. */
static json_t *
read_line(ManifestReader *reader, size_t *bytes, Failure *failure)
{
	char	   *text = NULL;
	size_t		space = 0;
	ssize_t		length = getline(&text, &space, reader->file);
	json_t	   *line = NULL;

	*bytes = length > 0 ? length : 0;
	if (length > 0)
		line = json_loadb(text, length, JSON_REJECT_DUPLICATES, NULL);
	free(text);
	if (line == NULL)
		failure_say(failure, "line %lld of the manifest cannot be read",
					(long long) reader->row + 1);
	return line;
}

static bool
read_header(ManifestReader *reader, Failure *failure)
{
	size_t		bytes;
	const json_t *version;
	bool		good = true;

	reader->header = read_line(reader, &bytes, failure);
	version = json_object_get(reader->header, "securefile_dump");
	reader->columns = json_object_get(reader->header, "columns");
	if (!json_is_integer(version) || !json_is_array(reader->columns))
		return failure_say(failure, "the manifest has no first line");
	if (json_integer_value(version) != MANIFEST_VERSION)
		return failure_say(failure, "the manifest has version %lld, which is unknown here",
						   (long long) json_integer_value(version));
	for (size_t i = 0; good && i < json_array_size(reader->columns); i++)
		good = manifest_column_valid(json_array_get(reader->columns, i));
	return good || failure_say(failure, "the first line of the manifest is wrong");
}

bool
manifest_open(ManifestReader *reader, const DumpDir *dir, const char *name, Failure *failure)
{
	char	   *path = text_make("%s" MANIFEST_SUFFIX, name);
	int64_t		length;
	int			fd = -1;
	bool		good;

	memset(reader, 0, sizeof(*reader));
	if (strchr(name, '/') != NULL)
		failure_say(failure, "the name of a dump has no slash");
	else
		fd = local_open_file(dumpdir_manifests(dir), path, &length, failure);
	free(path);
	if (fd < 0)
		return false;
	good = check_last(fd, length, &reader->totals, failure) && lseek(fd, 0, SEEK_SET) == 0;
	reader->file = fdopen(fd, "r");
	if (reader->file == NULL)
		abort();
	if (good && read_header(reader, failure))
		return true;
	manifest_close(reader);
	return false;
}

bool
manifest_is_oversize(const ManifestReader *reader)
{
	const char *only = json_string_value(json_object_get(reader->header, "only"));

	return only != NULL && strcmp(only, "oversize") == 0;
}

void
manifest_close(ManifestReader *reader)
{
	fclose(reader->file);
	json_decref(reader->header);
	reader->header = NULL;
}

/* ---- rows ---- */

void
manifest_rewind(ManifestReader *reader)
{
	Failure		ignored;
	size_t		bytes;

	rewind(reader->file);
	reader->row = 0;
	json_decref(read_line(reader, &bytes, &ignored));	/* the header, again */
}

static bool
take_row(const ManifestReader *reader, ManifestRow *row)
{
	const json_t *sha256 = json_object_get(row->line, "sha256");
	int64_t		column;
	const json_t *of;

	row->values = json_object_get(row->line, "row");
	row->file.sha256 = json_string_value(sha256);
	row->file.failed = json_is_true(json_object_get(row->line, "failed"));
	if (!take_count(row->line, "c", &column) ||
		!take_count(row->line, "length", &row->file.length) ||
		column >= (int64_t) json_array_size(reader->columns))
		return false;
	row->file.column = (int) column;
	of = json_object_get(json_array_get(reader->columns, column), "row");
	return json_is_array(row->values) && json_array_size(row->values) == json_array_size(of) &&
		(json_is_null(sha256) ||
		 (row->file.sha256 != NULL && object_name_valid(row->file.sha256)));
}

int
manifest_next(ManifestReader *reader, ManifestRow *row, Failure *failure)
{
	json_decref(row->line);
	memset(row, 0, sizeof(*row));
	if (reader->row == reader->totals.rows)
		return 0;
	reader->row++;
	row->line = read_line(reader, &row->bytes, failure);
	if (row->line == NULL)
		return -1;
	if (take_row(reader, row))
		return 1;
	failure_say(failure, "line %lld of the manifest is wrong", (long long) reader->row + 1);
	json_decref(row->line);
	row->line = NULL;
	return -1;
}
