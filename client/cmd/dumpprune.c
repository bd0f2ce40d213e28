/*-------------------------------------------------------------------------
 *
 * dumpprune.c
 *	  securefile dump --prune DIR --keep N
 *
 * A dump stays if it is one of the newest N of one of its columns.  The rest is removed, and then
 * all objects that no manifest names, and temporary files: nobody else works in the directory, so
 * these are left over.  A manifest that cannot be read may name any object, so none is removed
 * then.
 *
 * In memory is the SHA-256 of each object that stays, in 32 bytes.
 *
 *-------------------------------------------------------------------------
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "dump.h"
#include "dumptags.h"
#include "output.h"
#include "text.h"

#define FANS			256
#define DIGEST_BYTES	32

typedef struct Digest
{
	unsigned char bytes[DIGEST_BYTES];
} Digest;

/* The objects that stay; in the end they are sorted, each once. */
typedef struct Named
{
	Digest	   *digests;
	size_t		count;
	size_t		space;
} Named;

/* ---- objects that are named ---- */

static Digest
digest_of(const char *sha256)
{
	Digest		digest;

	for (int i = 0; i < DIGEST_BYTES; i++)
	{
		char		byte[3] = {sha256[2 * i], sha256[2 * i + 1], '\0'};

		digest.bytes[i] = (unsigned char) strtol(byte, NULL, 16);
	}
	return digest;
}

static int
compare_digests(const void *a, const void *b)
{
	return memcmp(a, b, sizeof(Digest));
}

static void
sort_named(Named *named)
{
	size_t		kept = 0;

	if (named->count > 0)
		qsort(named->digests, named->count, sizeof(Digest), compare_digests);
	for (size_t i = 0; i < named->count; i++)
		if (kept == 0 || compare_digests(&named->digests[kept - 1], &named->digests[i]) != 0)
			named->digests[kept++] = named->digests[i];
	named->count = kept;
}

static void
add_named(Named *named, const char *sha256)
{
	if (named->count == named->space)
		sort_named(named);
	if (named->count * 2 >= named->space)
	{
		named->space = named->space * 2 + 1024;
		named->digests = realloc(named->digests, named->space * sizeof(Digest));
		if (named->digests == NULL)
			abort();
	}
	named->digests[named->count++] = digest_of(sha256);
}

static bool
is_named(const Named *named, const char *sha256)
{
	Digest		digest = digest_of(sha256);

	return named->count > 0 &&
		bsearch(&digest, named->digests, named->count, sizeof(Digest), compare_digests) != NULL;
}

/* ---- manifests ---- */

/* Count one more dump of each column; is it one of the newest of any of them? */
static bool
is_new(json_t *counts, const ManifestReader *reader, int keep)
{
	bool		new = false;

	for (size_t i = 0; i < json_array_size(reader->columns); i++)
	{
		char	   *name = manifest_column_name(json_array_get(reader->columns, i));
		json_int_t	before = json_integer_value(json_object_get(counts, name));

		new = new || before < keep;
		json_object_set_new(counts, name, json_integer(before + 1));
		free(name);
	}
	return new;
}

/* Add the objects of a manifest. */
static bool
name_objects(ManifestReader *reader, Named *named, Failure *failure)
{
	ManifestRow row = {0};
	int			rc;

	while ((rc = manifest_next(reader, &row, failure)) > 0)
		if (row.file.sha256 != NULL)
			add_named(named, row.file.sha256);
	return rc == 0;
}

static bool
remove_manifest(const Options *options, DumpDir *dir, const char *name, Failure *failure)
{
	char	   *path = text_make("%s" MANIFEST_SUFFIX, name);
	bool		good = options->dry_run || unlinkat(dumpdir_manifests(dir), path, 0) == 0 ||
		failure_errno(failure, "could not remove the manifest");

	free(path);
	if (good)
		output_file(name, ACTION_REMOVED, 0);
	return good;
}

/* Look at one manifest: it stays, with its objects, or goes. */
static bool
judge(const Options *options, DumpDir *dir, const char *name, json_t *counts, Named *named,
	  Failure *failure)
{
	ManifestReader reader;
	bool		good;

	if (!manifest_open(&reader, dir, name, failure))
		return false;
	if (is_new(counts, &reader, options->keep))
		good = name_objects(&reader, named, failure);
	else
		good = remove_manifest(options, dir, name, failure);
	manifest_close(&reader);
	return good;
}

/* All manifests, from the newest to the oldest.  False: one could not be read. */
static bool
judge_all(const Options *options, DumpDir *dir, Named *named)
{
	json_t	   *counts = json_object();
	Failure		failure;
	FoundList	list;
	bool		all = dumpdir_list(dir, &list, &failure);

	if (!all)
		output_message(&failure);
	for (size_t i = list.count; i > 0; i--)
		if (!judge(options, dir, list.files[i - 1].path, counts, named, &failure))
		{
			output_failed(list.files[i - 1].path, &failure);
			all = false;
		}
	dumpdir_free_list(&list);
	json_decref(counts);
	sort_named(named);
	if (fsync(dumpdir_manifests(dir)) != 0)
	{
		failure_errno(&failure, "could not write the directory of the dumps to the disk");
		output_message(&failure);
		all = false;
	}
	return all;
}

/* ---- files ---- */

typedef struct Sweep
{
	const Options *options;
	int64_t		objects;
	int64_t		temporary;
	int64_t		bytes;
} Sweep;

static bool
is_temporary(const char *name)
{
	size_t		length = strlen(name);

	return strncmp(name, ".securefile-", 12) == 0 && length > 16 &&
		strcmp(name + length - 4, ".tmp") == 0;
}

/* Remove from a directory what goes: temporary files, and objects that begin with that byte. */
static void
sweep(Sweep *at, int directory, int byte, const Named *named)
{
	int			fd = openat(directory, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	DIR		   *entries = fd < 0 ? NULL : fdopendir(fd);

	if (entries == NULL)
		return;
	for (struct dirent *entry = readdir(entries); entry != NULL; entry = readdir(entries))
	{
		char	   *sha256 = text_make("%02x%s", byte < 0 ? 0 : byte, entry->d_name);
		bool		tags = tags_strip(sha256);
		bool		object = byte >= 0 && object_name_valid(sha256);
		struct stat st;

		if ((object ? !is_named(named, sha256) : is_temporary(entry->d_name)) &&
			fstatat(directory, entry->d_name, &st, AT_SYMLINK_NOFOLLOW) == 0 &&
			(at->options->dry_run || unlinkat(directory, entry->d_name, 0) == 0))
		{
			at->objects += object && !tags;
			at->temporary += !object;
			at->bytes += st.st_blocks * 512;
		}
		free(sha256);
	}
	closedir(entries);
}

int
dump_prune(const Options *options)
{
	Failure		failure;
	Named		named = {0};
	Sweep		at = {options, 0, 0, 0};
	DumpDir    *dir = dumpdir_open(options->args[0], DUMPDIR_PRUNE, &failure);
	bool		all;
	char		size[32];

	if (dir == NULL)
	{
		output_message(&failure);
		return EXIT_SETUP;
	}
	all = judge_all(options, dir, &named);
	sweep(&at, dumpdir_manifests(dir), -1, &named);
	sweep(&at, dumpdir_objects(dir), -1, &named);
	for (int i = 0; all && i < FANS; i++)
		if (object_fan(dir, i, false) >= 0)
			sweep(&at, object_fan(dir, i, false), i, &named);
	free(named.digests);
	dumpdir_close(dir);
	if (!all)
	{
		failure_say(&failure, "no object was removed: a manifest that cannot be read may name it\n"
					"Hint: Remove that manifest, if nothing is to be restored from it.");
		output_message(&failure);
	}
	if (options->json)
		output_record(json_pack("{s:I, s:I, s:I}", "objects", (json_int_t) at.objects,
								"temporary", (json_int_t) at.temporary,
								"bytes", (json_int_t) at.bytes));
	else if (!options->quiet)
		output_line("%lld objects and %lld temporary files removed, %s",
					(long long) at.objects, (long long) at.temporary,
					progress_size(at.bytes, size, sizeof(size)));
	return output_end(all ? EXIT_DONE : EXIT_SOME);
}
