/*-------------------------------------------------------------------------
 *
 * dumpcheck.c
 *	  securefile dump --check DIR
 *
 * First all manifests, and whether their objects are there; then all objects, by several threads
 * that read them.
 *
 *-------------------------------------------------------------------------
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "dump.h"
#include "output.h"
#include "text.h"

#define FANS		256

typedef struct Check
{
	DumpDir    *dir;
	atomic_int	next;			/* directory of objects */
} Check;

/* ---- manifests ---- */

/* Are the objects of all rows there? */
static bool
check_rows(DumpDir *dir, const char *name, ManifestReader *reader, Failure *failure)
{
	ManifestRow row = {0};
	int			rc;

	while ((rc = manifest_next(reader, &row, failure)) > 0)
	{
		char	   *object;

		if (row.file.sha256 == NULL || object_exists(dir, row.file.sha256, row.file.length))
			continue;
		object = text_make("%s: object %s", name, row.file.sha256);
		failure_say(failure, "missing, or not %lld bytes long\n"
					"Hint: If the table still has the file, the next dump stores it again.",
					(long long) row.file.length);
		output_failed(object, failure);
		free(object);
	}
	return rc == 0;
}

static void
check_manifest(DumpDir *dir, const char *name)
{
	ManifestReader reader;
	Failure		failure;

	if (!manifest_open(&reader, dir, name, &failure))
	{
		output_failed(name, &failure);
		return;
	}
	if (check_rows(dir, name, &reader, &failure))
		output_file(name, ACTION_SOUND, 0);
	else
		output_failed(name, &failure);
	manifest_close(&reader);
}

/* ---- objects ---- */

/* Read an object; does it have the bytes that its name says? */
static void
check_object(DumpDir *dir, const char *sha256)
{
	Failure		failure;
	char		found[SHA256_HEX_SIZE];
	int64_t		length;
	int			fd = object_open(dir, sha256, &length, &failure);
	char	   *name = text_make("object %s", sha256);
	bool		good = fd >= 0 && local_sha256(fd, found, &failure);

	if (fd >= 0)
		close(fd);
	if (good && strcmp(found, sha256) != 0)
		good = failure_say(&failure, "damaged: its SHA-256 is %s\n"
						   "Hint: Remove objects/%.2s/%s. If the table still has the file, the next dump stores it again.",
						   found, sha256, sha256 + 2);
	if (good)
	{
		progress_bytes(length);
		output_file(name, ACTION_SOUND, length);
	}
	else
		output_failed(name, &failure);
	free(name);
}

/* All objects whose names begin with that byte. */
static void
check_fan(DumpDir *dir, int byte)
{
	int			fan = object_fan(dir, byte, false);
	int			fd = fan < 0 ? -1 : openat(fan, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	DIR		   *entries = fd < 0 ? NULL : fdopendir(fd);
	Failure		failure;

	if (entries == NULL)
	{
		char		name[16];

		snprintf(name, sizeof(name), "objects/%02x", byte);
		if (errno != ENOENT && !failure_errno(&failure, "could not read the directory"))
			output_failed(name, &failure);
		return;
	}
	for (struct dirent *entry = readdir(entries); entry != NULL; entry = readdir(entries))
	{
		char	   *sha256 = text_make("%02x%s", byte, entry->d_name);

		if (object_name_valid(sha256))
			check_object(dir, sha256);
		free(sha256);
	}
	closedir(entries);
}

/* A thread. */
static void *
check_objects(void *arg)
{
	Check	   *check = arg;
	int			byte;

	while ((byte = atomic_fetch_add(&check->next, 1)) < FANS)
		check_fan(check->dir, byte);
	return NULL;
}

static void
check_all_objects(const Options *options, DumpDir *dir)
{
	Check		check = {dir, 0};
	pthread_t	threads[MOST_FLIGHTS];
	int			begun = 0;

	for (int i = 1; i < options->jobs; i++)
		if (pthread_create(&threads[begun], NULL, check_objects, &check) == 0)
			begun++;
	check_objects(&check);
	for (int i = 0; i < begun; i++)
		pthread_join(threads[i], NULL);
}

int
dump_check(const Options *options)
{
	Failure		failure;
	FoundList	list;
	DumpDir    *dir = dumpdir_open(options->args[0], DUMPDIR_READ, &failure);

	if (dir == NULL || !dumpdir_list(dir, &list, &failure))
	{
		output_message(&failure);
		return EXIT_SETUP;
	}
	if (!options->quiet)
		progress_begin(0, -1);
	for (size_t i = 0; i < list.count; i++)
		check_manifest(dir, list.files[i].path);
	dumpdir_free_list(&list);
	check_all_objects(options, dir);
	dumpdir_close(dir);
	return output_end(EXIT_DONE);
}
