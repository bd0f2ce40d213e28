/*-------------------------------------------------------------------------
 *
 * generate.c
 *	  securefile key generate FILE [NAME]
 *
 * Makes a master key, and writes it as a line that the server takes from the command in
 * securefile.key_command.  What the server would refuse is refused here, before the key is
 * in use: a name that is not allowed, one that the file has already, a file of other lines.
 *
 * Bytes of keys are in buffers of this file only, which are wiped: stdio has buffers of its
 * own, so it does not see them.
 *
 *-------------------------------------------------------------------------
 */
#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "local.h"
#include "output.h"
#include "tempfile.h"
#include "verbs.h"

#define KEY_BYTES		32
#define HEX_DIGITS		(2 * KEY_BYTES)
#define MAX_NAME		31
#define MAX_LINES		24000	/* bytes of output that the server reads */

#define KEY_FILE_MODE	0600
#define MODE_OF_OTHERS	077

/* The lines of a file of keys. */
typedef struct KeyLines
{
	char		text[MAX_LINES + 1];
	size_t		length;
} KeyLines;

static bool
is_blank(char c)
{
	return c == ' ' || c == '\t';
}

/* As many bytes as these may be the name of a key. */
static bool
is_key_name(const char *name, size_t length)
{
	static const char signs[] = {'_', '.', ':', '-'};

	for (size_t i = 0; i < length; i++)
		if (!isascii(name[i]) ||
			(!isalnum(name[i]) && memchr(signs, name[i], sizeof(signs)) == NULL))
			return false;
	return length > 0 && length <= MAX_NAME;
}

static bool
is_hex_key(const char *text, size_t length)
{
	for (size_t i = 0; i < length; i++)
		if (!isascii(text[i]) || !isxdigit(text[i]))
			return false;
	return length == HEX_DIGITS;
}

/* ---- the file as it is ---- */

/* Is this a line that the server takes or passes over, and not a key of that name? */
static bool
check_line(const char *text, size_t length, int number, const char *name, Failure *failure)
{
	size_t		name_length = 0;
	size_t		key_at;

	while (length > 0 && is_blank(text[length - 1]))
		length--;
	if (length == 0 || text[0] == '#')
		return true;
	while (name_length < length && !is_blank(text[name_length]))
		name_length++;
	key_at = name_length;
	while (key_at < length && is_blank(text[key_at]))
		key_at++;
	if (!is_key_name(text, name_length) || !is_hex_key(text + key_at, length - key_at))
		return failure_say(failure,
						   "line %d is not the name of a key, a blank, and %d hexadecimal digits",
						   number, HEX_DIGITS);
	if (name_length == strlen(name) && memcmp(text, name, name_length) == 0)
		return failure_say(failure,
						   "the file has a key \"%s\" already\nHint: Give another name.", name);
	return true;
}

static bool
check_lines(const KeyLines *lines, const char *name, Failure *failure)
{
	const char *end = lines->text + lines->length;
	int			number = 1;

	for (const char *line = lines->text; line < end; number++)
	{
		const char *line_end = memchr(line, '\n', end - line);

		if (line_end == NULL)
			line_end = end;
		if (!check_line(line, line_end - line, number, name, failure))
			return false;
		line = line_end + 1;
	}
	return true;
}

/* Read an open file of keys, which must be for its owner only. */
static bool
read_lines(int fd, KeyLines *lines, struct stat *old, Failure *failure)
{
	int64_t		got;

	if (fstat(fd, old) != 0)
		return failure_errno(failure, "could not look at the file");
	if (old->st_mode & MODE_OF_OTHERS)
		return failure_say(failure,
						   "others than its owner have rights on the file (mode %03o)\nHint: chmod 600 takes them away. A user who has read the file has its keys.",
						   (unsigned) old->st_mode & 0777);
	got = local_read(fd, lines->text, sizeof(lines->text));
	if (got < 0)
		return failure_errno(failure, "could not read the file");
	if (got > MAX_LINES)
		return failure_say(failure,
						   "the file is longer than %d bytes, and the server reads no more", MAX_LINES);
	lines->length = got;
	if (got > 0 && got < MAX_LINES && lines->text[got - 1] != '\n')
		lines->text[lines->length++] = '\n';
	return true;
}

/* Read the file that the key is to be added to, while no other process adds one. */
static bool
read_old(int directory, const char *file, const char *name, KeyLines *lines, struct stat *old,
		 Failure *failure)
{
	int64_t		length;
	int			fd;
	bool		good;

	/* not of the file, which is another one afterwards */
	if (flock(directory, LOCK_EX) != 0)
		return failure_errno(failure, "could not lock the directory");
	fd = local_open_file(directory, file, &length, failure);
	if (fd < 0)
		return false;
	good = read_lines(fd, lines, old, failure) && check_lines(lines, name, failure);
	close(fd);
	return good;
}

static bool
is_new(int directory, const char *file, Failure *failure)
{
	if (faccessat(directory, file, F_OK, AT_SYMLINK_NOFOLLOW) != 0)
		return true;
	return failure_say(failure,
					   "the file is there already\nHint: --append adds the key to a file of keys.");
}

/* ---- the key ---- */

/* Make a key, and add its line. */
static bool
add_key(KeyLines *lines, const char *name, Failure *failure)
{
	static const char digits[] = "0123456789abcdef";
	uint8_t		key[KEY_BYTES];
	size_t		name_length = strlen(name);
	char	   *out;
	ssize_t		got;

	if (lines->length + name_length + 1 + HEX_DIGITS + 1 > MAX_LINES)
		return failure_say(failure,
						   "with the key the file would be longer than %d bytes, and the server reads no more",
						   MAX_LINES);
	do
		got = getrandom(key, sizeof(key), 0);
	while (got < 0 && errno == EINTR);
	if (got < 0)
		return failure_errno(failure, "could not get random bytes");
	if (got != sizeof(key))
		return failure_say(failure, "could not get random bytes: got %zd of %zu", got, sizeof(key));
	out = mempcpy(lines->text + lines->length, name, name_length);
	*out++ = ' ';
	for (int i = 0; i < KEY_BYTES; i++)
	{
		*out++ = digits[key[i] >> 4];
		*out++ = digits[key[i] & 15];
	}
	*out++ = '\n';
	lines->length = out - lines->text;
	explicit_bzero(key, sizeof(key));
	return true;
}

/* ---- the file as it is to be ---- */

/* Write the lines, and have the disk keep them; old: of the file that is replaced. */
static bool
fill_file(int fd, const KeyLines *lines, const struct stat *old, Failure *failure)
{
	if (old != NULL && fchown(fd, old->st_uid, old->st_gid) != 0)
		return failure_errno(failure, "could not give the new file the owner of the old one");
	if (fchmod(fd, old != NULL ? old->st_mode & 07777 : KEY_FILE_MODE) != 0)
		return failure_errno(failure, "could not set the mode of the file");
	if (!local_write(fd, lines->text, lines->length) || fsync(fd) != 0)
		return failure_errno(failure, "could not write the file");
	return true;
}

/* Put the lines into a file, which is there whole or not at all; old null: a new one. */
static bool
put_file(int directory, const char *name, const KeyLines *lines, const struct stat *old,
		 Failure *failure)
{
	TempFile   *file = tempfile_open(directory, KEY_FILE_MODE, failure);

	if (file == NULL)
		return false;
	if (!fill_file(tempfile_fd(file), lines, old, failure))
	{
		tempfile_discard(file);
		return false;
	}
	if (!tempfile_finish(file, name, old != NULL, failure))
		return false;
	return fsync(directory) == 0 || failure_errno(failure, "could not flush the directory");
}

/* Make the key in a file. */
static bool
generate_file(const Options *options, const char *name, KeyLines *lines, Failure *failure)
{
	struct stat old;
	const char *file;
	int			directory = local_open_above(options->args[1], &file, failure);
	bool		good;

	if (directory < 0)
		return false;
	good = local_check_path(file, failure) &&
		(options->append ? read_old(directory, file, name, lines, &old, failure)
		 : is_new(directory, file, failure)) &&
		add_key(lines, name, failure) &&
		put_file(directory, file, lines, options->append ? &old : NULL, failure);
	close(directory);
	return good;
}

/* Make the key on standard output. */
static bool
generate_output(const char *name, KeyLines *lines, Failure *failure)
{
	if (!add_key(lines, name, failure))
		return false;
	if (!local_write(STDOUT_FILENO, lines->text, lines->length))
		output_broken();
	return true;
}

/* "key-2026-11-25" */
static void
name_of_today(char *name, size_t size)
{
	time_t		now = time(NULL);
	struct tm	today;

	localtime_r(&now, &today);
	strftime(name, size, "key-%Y-%m-%d", &today);
}

int
verb_key(const Options *options)
{
	bool		to_output = strcmp(options->args[1], "-") == 0;
	char		today[MAX_NAME + 1];
	const char *name = options->nargs > 2 ? options->args[2] : today;
	KeyLines	lines = {.length = 0};
	Failure		failure;
	bool		good;

	name_of_today(today, sizeof(today));
	if (!is_key_name(name, strlen(name)))
	{
		failure_say(&failure,
					"the name of a key has at most %d bytes, and no other characters than A-Z, a-z, 0-9, \"_\", \".\", \":\" and \"-\"",
					MAX_NAME);
		output_message(&failure);
		return EXIT_USAGE;
	}
	good = to_output ? generate_output(name, &lines, &failure) :
		generate_file(options, name, &lines, &failure);
	explicit_bzero(&lines, sizeof(lines));
	if (!good)
		output_failed(options->args[1], &failure);
	else if (!to_output)
		output_line("%s", name);
	return good ? EXIT_DONE : EXIT_SOME;
}
