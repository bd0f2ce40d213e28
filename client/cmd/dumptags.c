/*-------------------------------------------------------------------------
 *
 * dumptags.c
 *	  Files with the tags of objects.
 *
 * They are data: somebody else may have written them.  Nothing in them becomes a path.
 *
 *-------------------------------------------------------------------------
 */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <jansson.h>

#include "dumptags.h"
#include "text.h"

#define TAGS_SUFFIX		".tags"
#define TAGS_VERSION	1
#define TAGS_MODE		0600

/* In hexadecimal: the version of the server's tags, and how many digits one has. */
#define TAG_VERSION		"01"
#define TAG_DIGITS		34

struct TagWriter
{
	DumpDir    *dir;
	TempFile   *temp;
	FILE	   *file;
	int64_t		length;
};

/* ---- parts ---- */

bool
tag_known(const char *tag)
{
	return strncmp(tag, TAG_VERSION, strlen(TAG_VERSION)) == 0 &&
		strspn(tag, "0123456789abcdef") == TAG_DIGITS && tag[TAG_DIGITS] == '\0';
}

bool
extent_same(const Extent *a, const Extent *b)
{
	return a->start == b->start && a->length == b->length && tag_known(a->tag) &&
		strcmp(a->tag, b->tag) == 0;
}

bool
extent_next(const Extent *extent, int64_t length, int64_t *end)
{
	if (extent->start < *end || extent->start > length || extent->length < 1 ||
		extent->length > length - extent->start)
		return false;
	*end = extent->start + extent->length;
	return true;
}

/* ---- names ---- */

/* The path of the tags of an object, below the directory of objects; the caller frees it. */
static char *
path_of(const char *sha256)
{
	return text_make("%.2s/%s" TAGS_SUFFIX, sha256, sha256 + 2);
}

/* The directory of the object. */
static int
fan_of(DumpDir *dir, const char *sha256, bool make)
{
	char		byte[3] = {sha256[0], sha256[1], '\0'};

	return object_fan(dir, (int) strtol(byte, NULL, 16), make);
}

bool
tags_exist(DumpDir *dir, const char *sha256)
{
	int			fan = fan_of(dir, sha256, false);
	char	   *path = path_of(sha256);
	struct stat st;
	bool		found = fan >= 0 && fstatat(fan, path + 3, &st, AT_SYMLINK_NOFOLLOW) == 0 &&
		S_ISREG(st.st_mode);

	free(path);
	return found;
}

bool
tags_strip(char *name)
{
	size_t		length = strlen(name);
	size_t		suffix = strlen(TAGS_SUFFIX);

	if (length <= suffix || strcmp(name + length - suffix, TAGS_SUFFIX) != 0)
		return false;
	name[length - suffix] = '\0';
	return true;
}

/* ---- writing ---- */

/* The first line; it has the same length for every object. */
static bool
write_head(TagWriter *writer, const char *sha256)
{
	return fprintf(writer->file, "{\"securefile_tags\":%d,\"length\":%lld,\"object\":\"%s\"}\n",
				   TAGS_VERSION, (long long) writer->length, sha256) > 0;
}

TagWriter *
tags_begin(DumpDir *dir, int64_t length, Failure *failure)
{
	char		nothing[SHA256_HEX_SIZE];
	TempFile   *temp = tempfile_open(dumpdir_objects(dir), TAGS_MODE, failure);
	TagWriter  *writer;

	if (temp == NULL)
		return NULL;
	writer = calloc(1, sizeof(TagWriter));
	if (writer == NULL)
		abort();
	writer->file = tempfile_stream(temp);
	writer->dir = dir;
	writer->temp = temp;
	writer->length = length;
	memset(nothing, '0', sizeof(nothing) - 1);
	nothing[sizeof(nothing) - 1] = '\0';
	if (write_head(writer, nothing))
		return writer;
	failure_errno(failure, "could not write the tags");
	tags_discard(writer);
	return NULL;
}

bool
tags_add(TagWriter *writer, const Extent *extent, Failure *failure)
{
	return fprintf(writer->file, "%lld %lld %s\n", (long long) extent->start,
				   (long long) extent->length, extent->tag) > 0 ||
		failure_errno(failure, "could not write the tags");
}

bool
tags_finish(TagWriter *writer, const char *sha256, Failure *failure)
{
	char	   *path = path_of(sha256);
	bool		good = fflush(writer->file) == 0 && fseek(writer->file, 0, SEEK_SET) == 0 &&
		write_head(writer, sha256) && fflush(writer->file) == 0 &&
		fdatasync(fileno(writer->file)) == 0 && fan_of(writer->dir, sha256, true) >= 0;

	if (!good)
		failure_errno(failure, "could not write the tags");
	else
	{
		good = tempfile_finish(writer->temp, path, true, failure);
		writer->temp = NULL;
	}
	free(path);
	tags_discard(writer);
	return good;
}

void
tags_discard(TagWriter *writer)
{
	fclose(writer->file);
	if (writer->temp != NULL)
		tempfile_discard(writer->temp);
	free(writer);
}

/* ---- reading ---- */

/* Is the first line that of tags of this object? */
static bool
check_head(const char *line, size_t bytes, const char *sha256, int64_t length)
{
	json_t	   *head = json_loadb(line, bytes, JSON_REJECT_DUPLICATES, NULL);
	const char *object = json_string_value(json_object_get(head, "object"));
	bool		good = object != NULL && strcmp(object, sha256) == 0 &&
		json_integer_value(json_object_get(head, "securefile_tags")) == TAGS_VERSION &&
		json_integer_value(json_object_get(head, "length")) == length;

	json_decref(head);
	return good;
}

/* Begin to read behind the first line, which has to be right if there is an object. */
static bool
begin_reading(TagReader *reader, int fd, const char *sha256)
{
	char	   *line = NULL;
	size_t		space = 0;
	ssize_t		bytes;
	bool		good;

	reader->file = fdopen(fd, "r");
	if (reader->file == NULL)
		abort();
	bytes = getline(&line, &space, reader->file);
	good = bytes > 0 && (sha256 == NULL || check_head(line, bytes, sha256, reader->length));
	free(line);
	if (!good)
		tags_close(reader);
	return good;
}

bool
tags_open(TagReader *reader, DumpDir *dir, const char *sha256, int64_t length)
{
	int			fan = fan_of(dir, sha256, false);
	char	   *path = path_of(sha256);
	Failure		ignored;
	int64_t		bytes;
	int			fd = fan < 0 ? -1 : local_open_file(fan, path + 3, &bytes, &ignored);

	free(path);
	*reader = (TagReader) {.length = length};
	return fd >= 0 && begin_reading(reader, fd, sha256);
}

bool
tags_open_new(TagReader *reader, TagWriter *writer, Failure *failure)
{
	int64_t		bytes;
	int			fd;

	*reader = (TagReader) {.length = writer->length};
	if (fflush(writer->file) != 0)
		return failure_errno(failure, "could not write the tags");
	fd = local_open_file(dumpdir_objects(writer->dir), tempfile_name(writer->temp), &bytes,
						 failure);
	return fd >= 0 && (begin_reading(reader, fd, NULL) ||
					   failure_say(failure, "could not read the tags"));
}

bool
tags_next(TagReader *reader, Extent *extent)
{
	char	   *line = NULL;
	size_t		space = 0;
	long long	start;
	long long	length;
	bool		good = getline(&line, &space, reader->file) > 0 &&
		sscanf(line, "%lld %lld %64s", &start, &length, extent->tag) == 3;

	free(line);
	if (!good)
		return false;
	extent->start = start;
	extent->length = length;
	return extent_next(extent, reader->length, &reader->end);
}

void
tags_close(TagReader *reader)
{
	fclose(reader->file);
	reader->file = NULL;
}
