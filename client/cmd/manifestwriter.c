/*-------------------------------------------------------------------------
 *
 * manifestwriter.c
 *	  Writing the list of a dump.
 *
 * The lines are put together by hand: a second dump of a column whose files are unchanged does
 * little else.
 *
 *-------------------------------------------------------------------------
 */
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "manifest.h"
#include "sum.h"
#include "text.h"
#include "utf8.h"

#define MANIFEST_MODE	0600
#define BUFFER_BYTES	(256 * 1024)

struct ManifestWriter
{
	DumpDir    *dir;
	TempFile   *temp;
	FILE	   *file;
	pthread_mutex_t lock;		/* of the rest */
	Text		line;
	Sha256	   *sum;
	ManifestTotals totals;
};

/* ---- text ---- */

void
text_add(Text *text, const char *bytes, size_t length)
{
	if (text->length + length + 1 > text->space)
	{
		text->space = (text->length + length + 1) * 2;
		text->bytes = realloc(text->bytes, text->space);
		if (text->bytes == NULL)
			abort();
	}
	memcpy(text->bytes + text->length, bytes, length);
	text->length += length;
	text->bytes[text->length] = '\0';
}

static void
add_hex(Text *text, const char *value, size_t length)
{
	static const char digits[] = "0123456789abcdef";

	text_add(text, "{\"hex\":\"", 8);
	for (size_t i = 0; i < length; i++)
	{
		unsigned char byte = value[i];
		char		hex[2] = {digits[byte >> 4], digits[byte & 15]};

		text_add(text, hex, 2);
	}
	text_add(text, "\"}", 2);
}

/* Must that byte be escaped in a JSON string? */
static inline bool
is_special(unsigned char byte)
{
	return byte < ' ' || byte == '"' || byte == '\\';
}

void
text_add_json(Text *text, const char *value, size_t length)
{
	size_t		begin = 0;

	if (value == NULL)
	{
		text_add(text, "null", 4);
		return;
	}
	if (!utf8_valid(value))
	{
		add_hex(text, value, length);
		return;
	}
	text_add(text, "\"", 1);
	for (size_t i = 0; i < length; i++)
	{
		char		escaped[7];

		if (!is_special(value[i]))
			continue;
		text_add(text, value + begin, i - begin);
		text_add(text, escaped, snprintf(escaped, sizeof(escaped), "\\u%04x", value[i]));
		begin = i + 1;
	}
	text_add(text, value + begin, length - begin);
	text_add(text, "\"", 1);
}

/* ---- lines ---- */

static bool
write_bytes(ManifestWriter *writer, const char *bytes, size_t length, Failure *failure)
{
	if (!sha256_add(writer->sum, bytes, length))
		return failure_say(failure, "could not compute SHA-256");
	return fwrite(bytes, 1, length, writer->file) == length ||
		failure_errno(failure, "could not write the manifest");
}

static bool
write_header(ManifestWriter *writer, const json_t *header, Failure *failure)
{
	char	   *text = json_dumps(header, JSON_COMPACT | JSON_PRESERVE_ORDER);
	bool		good;

	if (text == NULL)
		return failure_say(failure, "could not write the first line of the manifest");
	good = write_bytes(writer, text, strlen(text), failure) &&
		write_bytes(writer, "\n", 1, failure);
	free(text);
	return good;
}

ManifestWriter *
manifest_begin(DumpDir *dir, const json_t *header, Failure *failure)
{
	TempFile   *temp = tempfile_open(dumpdir_manifests(dir), MANIFEST_MODE, failure);
	ManifestWriter *writer;

	if (temp == NULL)
		return NULL;
	writer = calloc(1, sizeof(ManifestWriter));
	if (writer == NULL)
		abort();
	writer->file = tempfile_stream(temp);
	setvbuf(writer->file, NULL, _IOFBF, BUFFER_BYTES);
	writer->dir = dir;
	writer->temp = temp;
	writer->sum = sha256_begin();
	pthread_mutex_init(&writer->lock, NULL);
	if (write_header(writer, header, failure))
		return writer;
	manifest_give_up(writer);
	return NULL;
}

static void
count(ManifestTotals *totals, const ManifestFile *file)
{
	totals->rows++;
	totals->failed += file->failed;
	if (file->sha256 == NULL)
		return;
	totals->files++;
	totals->bytes = sum_of(totals->bytes, file->length);
}

bool
manifest_add(ManifestWriter *writer, const ManifestFile *file, const char *row, Failure *failure)
{
	char		head[160];
	const char *quote = file->sha256 == NULL ? "" : "\"";
	int			length = snprintf(head, sizeof(head),
								  "{\"c\":%d,\"sha256\":%s%s%s,\"length\":%lld,%s\"row\":",
								  file->column, quote, file->sha256 == NULL ? "null" : file->sha256,
								  quote, (long long) file->length,
								  file->failed ? "\"failed\":true," : "");
	bool		good;

	pthread_mutex_lock(&writer->lock);
	count(&writer->totals, file);
	writer->line.length = 0;
	text_add(&writer->line, head, length);
	text_add(&writer->line, row, strlen(row));
	text_add(&writer->line, "}\n", 2);
	good = write_bytes(writer, writer->line.bytes, writer->line.length, failure);
	pthread_mutex_unlock(&writer->lock);
	return good;
}

/* ---- the end ---- */

/* The last line, which is no part of its own SHA-256. */
static bool
write_totals(ManifestWriter *writer, Failure *failure)
{
	const ManifestTotals *totals = &writer->totals;
	char		hex[SHA256_HEX_SIZE];
	bool		good = sha256_end(writer->sum, hex);

	writer->sum = NULL;
	if (!good)
		return failure_say(failure, "could not compute SHA-256");
	if (fprintf(writer->file, "{\"rows\":%lld,\"files\":%lld,\"bytes\":%lld,\"failed\":%lld,"
				"\"sha256\":\"%s\"}\n",
				(long long) totals->rows, (long long) totals->files, (long long) totals->bytes,
				(long long) totals->failed, hex) < 0 ||
		fflush(writer->file) != 0 || fsync(fileno(writer->file)) != 0)
		return failure_errno(failure, "could not write the manifest");
	return true;
}

/*
 * Are all objects there that the manifest names?  Another command, which did not see the lock, may
 * have removed some; that is seen in their directories.
 */
static bool
check_objects(ManifestWriter *writer, const char *path, Failure *failure)
{
	bool		quiet = objects_quiet(writer->dir);
	int			fd = quiet ? -1 : openat(dumpdir_manifests(writer->dir), path,
										 O_RDONLY | O_NOFOLLOW | O_CLOEXEC);
	FILE	   *file = fd < 0 ? NULL : fdopen(fd, "r");
	char	   *line = NULL;
	size_t		space = 0;
	bool		good = file != NULL;

	if (quiet)
		return true;
	if (!good)
		failure_errno(failure, "could not read the manifest");
	while (good && getline(&line, &space, file) > 0)
	{
		char		sha256[SHA256_HEX_SIZE];
		long long	length;

		if (sscanf(line, "{\"c\":%*d,\"sha256\":\"%64[0-9a-f]\",\"length\":%lld", sha256,
				   &length) == 2 &&
			!object_stays(writer->dir, sha256, length))
			good = failure_say(failure, "object %s has gone while the dump ran\n"
							   "Hint: Run the dump again, and no --prune beside it.", sha256);
	}
	free(line);
	if (file != NULL)
		fclose(file);
	return good;
}

bool
manifest_end(ManifestWriter *writer, const char *name, ManifestTotals *totals, Failure *failure)
{
	char	   *path = text_make("%s" MANIFEST_SUFFIX, name);
	bool		good = objects_name(writer->dir, failure) && write_totals(writer, failure) &&
		check_objects(writer, tempfile_name(writer->temp), failure) &&
		objects_sync(writer->dir, failure);

	*totals = writer->totals;
	if (good)
	{
		good = tempfile_finish(writer->temp, path, false, failure);
		writer->temp = NULL;
	}
	if (good && fsync(dumpdir_manifests(writer->dir)) != 0)
		good = failure_errno(failure, "could not write the directory of the dumps to the disk");
	free(path);
	manifest_give_up(writer);
	return good;
}

void
manifest_give_up(ManifestWriter *writer)
{
	sha256_free(writer->sum);
	fclose(writer->file);
	if (writer->temp != NULL)
		tempfile_discard(writer->temp);
	pthread_mutex_destroy(&writer->lock);
	free(writer->line.bytes);
	free(writer);
}
