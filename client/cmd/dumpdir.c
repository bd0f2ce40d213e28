/*-------------------------------------------------------------------------
 *
 * dumpdir.c
 *	  The directory of dumps: its parts, and the objects in it.
 *
 * Below the directory that the user named no symbolic link is followed.  The names of objects
 * come out of manifests, and are looked at before they become a path.
 *
 *-------------------------------------------------------------------------
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "dumpdir.h"
#include "text.h"

#define FANS			256
#define DIRECTORY_MODE	0700
#define OBJECT_MODE		0600
#define SHORT_BYTES		(1024 * 1024)
#define MOST_WAITING	128		/* files that are open */
#define COARSE_SECONDS	3		/* more than any file system's clock is coarse */

/* An object that is complete, and perhaps not on the disk. */
typedef struct Waiting
{
	TempFile   *file;
	char		sha256[SHA256_HEX_SIZE];
} Waiting;

struct DumpDir
{
	int			top;
	int			objects;
	int			manifests;
	int			leases;
	DumpLease	lease;
	pthread_mutex_t lock;		/* of the rest */
	int			fans[FANS];		/* -1: not open */
	struct stat found[FANS];	/* each as it was when it was opened */
	bool		quiet[FANS];	/* it was the same at the end */
	bool		touched[FANS];	/* not synced yet */
	pthread_mutex_t waiting_lock;	/* of the rest; taken first */
	Waiting		waiting[MOST_WAITING];
	int			nwaiting;
};

/* ---- the directory ---- */

/* Open a part of the directory, and make it if it may be made. */
static bool
open_part(int top, const char *name, bool make, int *fd, Failure *failure)
{
	if (make && mkdirat(top, name, DIRECTORY_MODE) != 0 && errno != EEXIST)
		return failure_say(failure, "could not make directory \"%s\": %s", name, strerror(errno));
	*fd = openat(top, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (*fd >= 0)
		return true;
	if (errno == ENOENT)
		return failure_say(failure, "this is no directory of dumps: it has no directory \"%s\"",
						   name);
	return failure_say(failure, "could not open directory \"%s\": %s", name, strerror(errno));
}

static bool
is_dot(const char *name)
{
	return strcmp(name, ".") == 0 || strcmp(name, "..") == 0;
}

/* May dumps be kept in it?  It has objects already, or nothing at all. */
static bool
check_use(int top, const char *path, Failure *failure)
{
	DIR		   *dir;
	bool		empty = true;

	if (faccessat(top, "objects", F_OK, AT_SYMLINK_NOFOLLOW) == 0)
		return true;
	dir = fdopendir(openat(top, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC));
	if (dir == NULL)
		return failure_say(failure, "could not read directory \"%s\": %s", path, strerror(errno));
	for (struct dirent *entry = readdir(dir); entry != NULL; entry = readdir(dir))
		empty = empty && (is_dot(entry->d_name) || strcmp(entry->d_name, "lost+found") == 0);
	closedir(dir);
	return empty || failure_say(failure, "directory \"%s\" has other files, and no dumps\n"
								"Hint: Name a directory that is empty, or does not exist.", path);
}

static bool
open_parts(DumpDir *dir, const char *path, DumpUse use, Failure *failure)
{
	bool		make = use == DUMPDIR_WRITE;

	if (make && mkdir(path, DIRECTORY_MODE) != 0 && errno != EEXIST)
		return failure_say(failure, "could not make directory \"%s\": %s", path, strerror(errno));
	dir->top = local_open_top(path, failure);
	return dir->top >= 0 && (!make || check_use(dir->top, path, failure)) &&
		open_part(dir->top, "objects", make, &dir->objects, failure) &&
		open_part(dir->top, "dumps", make, &dir->manifests, failure) &&
		open_part(dir->top, "leases", make, &dir->leases, failure) &&
		lease_take(&dir->lease, dir->top, dir->leases, use, failure);
}

DumpDir *
dumpdir_open(const char *path, DumpUse use, Failure *failure)
{
	DumpDir    *dir = calloc(1, sizeof(DumpDir));

	if (dir == NULL)
		abort();
	pthread_mutex_init(&dir->lock, NULL);
	pthread_mutex_init(&dir->waiting_lock, NULL);
	dir->top = dir->objects = dir->manifests = dir->leases = dir->lease.lock = -1;
	for (int i = 0; i < FANS; i++)
		dir->fans[i] = -1;
	if (open_parts(dir, path, use, failure))
		return dir;
	dumpdir_close(dir);
	return NULL;
}

void
dumpdir_close(DumpDir *dir)
{
	const int	parts[] = {dir->top, dir->objects, dir->manifests};

	lease_give_back(&dir->lease);
	for (int i = 0; i < dir->nwaiting; i++)
		tempfile_discard(dir->waiting[i].file);
	for (int i = 0; i < FANS; i++)
		if (dir->fans[i] >= 0)
			close(dir->fans[i]);
	for (int i = 0; i < 3; i++)
		if (parts[i] >= 0)
			close(parts[i]);
	if (dir->leases >= 0)
		close(dir->leases);
	pthread_mutex_destroy(&dir->waiting_lock);
	pthread_mutex_destroy(&dir->lock);
	free(dir);
}

int
dumpdir_manifests(const DumpDir *dir)
{
	return dir->manifests;
}

int
dumpdir_objects(const DumpDir *dir)
{
	return dir->objects;
}

static int
compare_names(const void *a, const void *b)
{
	return strcmp(((const Found *) a)->path, ((const Found *) b)->path);
}

bool
dumpdir_list(const DumpDir *dir, FoundList *list, Failure *failure)
{
	DIR		   *entries = fdopendir(openat(dir->manifests, ".",
										   O_RDONLY | O_DIRECTORY | O_CLOEXEC));

	memset(list, 0, sizeof(*list));
	if (entries == NULL)
		return failure_errno(failure, "could not read the directory of the dumps");
	for (struct dirent *entry = readdir(entries); entry != NULL; entry = readdir(entries))
	{
		size_t		length = strlen(entry->d_name);
		size_t		suffix = strlen(MANIFEST_SUFFIX);
		struct stat st;

		if (entry->d_name[0] == '.' || length <= suffix ||
			strcmp(entry->d_name + length - suffix, MANIFEST_SUFFIX) != 0 ||
			fstatat(dir->manifests, entry->d_name, &st, AT_SYMLINK_NOFOLLOW) != 0)
			continue;
		entry->d_name[length - suffix] = '\0';
		walk_add(list, entry->d_name, st.st_size, &meta_unknown);
	}
	closedir(entries);
	if (list->count > 0)
		qsort(list->files, list->count, sizeof(Found), compare_names);
	return true;
}

void
dumpdir_free_list(FoundList *list)
{
	for (size_t i = 0; i < list->count; i++)
		free(list->files[i].path);
	free(list->files);
	memset(list, 0, sizeof(*list));
}

/* ---- objects ---- */

bool
object_name_valid(const char *sha256)
{
	return strlen(sha256) == SHA256_HEX_SIZE - 1 &&
		strspn(sha256, "0123456789abcdef") == SHA256_HEX_SIZE - 1;
}

/* Open a directory of objects, and note what it is like. */
static int
open_fan(const DumpDir *dir, const char *name, struct stat *st)
{
	int			fd = openat(dir->objects, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);

	if (fd < 0 || fstat(fd, st) == 0)
		return fd;
	close(fd);
	return -1;
}

int
object_fan(DumpDir *dir, int byte, bool make)
{
	char		name[3];
	int			fd;

	snprintf(name, sizeof(name), "%02x", byte);
	pthread_mutex_lock(&dir->lock);
	if (dir->fans[byte] < 0 && make && mkdirat(dir->objects, name, DIRECTORY_MODE) != 0 &&
		errno != EEXIST)
		fd = -1;
	else
	{
		if (dir->fans[byte] < 0)
			dir->fans[byte] = open_fan(dir, name, &dir->found[byte]);
		fd = dir->fans[byte];
	}
	pthread_mutex_unlock(&dir->lock);
	return fd;
}

/* The directory of an object; *last: its name there. */
static int
fan_of(DumpDir *dir, const char *sha256, bool make, const char **last)
{
	char		byte[3] = {sha256[0], sha256[1], '\0'};

	*last = sha256 + 2;
	return object_fan(dir, (int) strtol(byte, NULL, 16), make);
}

/* Another command may have made the object, and not synced its directory yet. */
static void
touch(DumpDir *dir, const char *sha256)
{
	char		byte[3] = {sha256[0], sha256[1], '\0'};

	pthread_mutex_lock(&dir->lock);
	dir->touched[strtol(byte, NULL, 16)] = true;
	pthread_mutex_unlock(&dir->lock);
}

/* Does an object of that name wait?  What it has was hashed here. */
static bool
is_waiting(DumpDir *dir, const char *sha256)
{
	bool		found = false;

	pthread_mutex_lock(&dir->waiting_lock);
	for (int i = 0; i < dir->nwaiting && !found; i++)
		found = strcmp(dir->waiting[i].sha256, sha256) == 0;
	pthread_mutex_unlock(&dir->waiting_lock);
	return found;
}

bool
object_exists(DumpDir *dir, const char *sha256, int64_t length)
{
	const char *last;
	int			fan = fan_of(dir, sha256, false, &last);
	struct stat st;

	if (fan < 0 || fstatat(fan, last, &st, AT_SYMLINK_NOFOLLOW) != 0 ||
		!S_ISREG(st.st_mode) || st.st_size != length)
		return is_waiting(dir, sha256);
	touch(dir, sha256);
	return true;
}

static bool
is_same_time(const struct timespec *one, const struct timespec *other)
{
	return one->tv_sec == other->tv_sec && one->tv_nsec == other->tv_nsec;
}

/*
 * Has a directory of objects been as it is since it was opened?  Then nothing has gone from it, and
 * nothing was added.  It is opened once more: a network file system asks its server then.
 */
static bool
is_quiet(const DumpDir *dir, int byte)
{
	const struct stat *found = &dir->found[byte];
	char		name[3];
	struct stat st;
	int			fd;

	if (dir->fans[byte] < 0 || found->st_mtime >= dir->lease.since - COARSE_SECONDS)
		return false;
	snprintf(name, sizeof(name), "%02x", byte);
	fd = open_fan(dir, name, &st);
	if (fd < 0)
		return false;
	close(fd);
	return st.st_dev == found->st_dev && st.st_ino == found->st_ino &&
		is_same_time(&st.st_mtim, &found->st_mtim) && is_same_time(&st.st_ctim, &found->st_ctim);
}

bool
objects_quiet(DumpDir *dir)
{
	bool		all = true;

	for (int i = 0; i < FANS; i++)
	{
		dir->quiet[i] = is_quiet(dir, i);
		all = all && (dir->quiet[i] || dir->fans[i] < 0);
	}
	return all;
}

bool
object_stays(DumpDir *dir, const char *sha256, int64_t length)
{
	char		byte[3] = {sha256[0], sha256[1], '\0'};

	return dir->quiet[strtol(byte, NULL, 16)] || object_exists(dir, sha256, length);
}

int
object_open(DumpDir *dir, const char *sha256, int64_t *length, Failure *failure)
{
	const char *last;
	int			fan = fan_of(dir, sha256, false, &last);
	int			fd = -1;

	if (fan < 0 && errno != ENOENT)
		failure_errno(failure, "could not open the directory of the object");
	else if (fan >= 0)
		fd = local_open_file(fan, last, length, failure);
	if (fd < 0 && errno == ENOENT)
	{
		failure_say(failure, "object %s is missing", sha256);
		errno = ENOENT;
	}
	return fd;
}

TempFile *
object_begin(DumpDir *dir, Failure *failure)
{
	return tempfile_open(dir->objects, OBJECT_MODE, failure);
}

/* Give an object that is on the disk its name. */
static bool
give_name(DumpDir *dir, TempFile *file, const char *sha256, Failure *failure)
{
	const char *last;
	char	   *path;
	bool		good;

	if (fan_of(dir, sha256, true, &last) < 0)
	{
		failure_errno(failure, "could not open the directory of the object");
		tempfile_discard(file);
		return false;
	}
	path = text_make("%.2s/%s", sha256, last);
	good = tempfile_finish(file, path, true, failure);
	free(path);
	touch(dir, sha256);
	return good;
}

/* Name all objects that wait; one sync of the file system costs less than one for each. */
static bool
name_waiting(DumpDir *dir, Failure *failure)
{
	bool		good = dir->nwaiting == 0 || syncfs(dir->objects) == 0;

	if (!good)
		failure_errno(failure, "could not write objects to the disk");
	for (int i = 0; i < dir->nwaiting; i++)
	{
		Waiting    *waiting = &dir->waiting[i];

		if (good)
			good = give_name(dir, waiting->file, waiting->sha256, failure);
		else
			tempfile_discard(waiting->file);
	}
	dir->nwaiting = 0;
	return good;
}

bool
objects_name(DumpDir *dir, Failure *failure)
{
	bool		good;

	pthread_mutex_lock(&dir->waiting_lock);
	good = name_waiting(dir, failure);
	pthread_mutex_unlock(&dir->waiting_lock);
	return good;
}

bool
object_finish(DumpDir *dir, TempFile *file, const char *sha256, Failure *failure)
{
	struct stat st;
	bool		good = true;

	if (fstat(tempfile_fd(file), &st) != 0 || st.st_size > SHORT_BYTES)
	{
		if (fdatasync(tempfile_fd(file)) == 0)
			return give_name(dir, file, sha256, failure);
		failure_errno(failure, "could not write the object to the disk");
		tempfile_discard(file);
		return false;
	}
	pthread_mutex_lock(&dir->waiting_lock);
	dir->waiting[dir->nwaiting].file = file;
	memcpy(dir->waiting[dir->nwaiting++].sha256, sha256, SHA256_HEX_SIZE);
	if (dir->nwaiting == MOST_WAITING)
		good = name_waiting(dir, failure);
	pthread_mutex_unlock(&dir->waiting_lock);
	return good;
}

bool
objects_sync(DumpDir *dir, Failure *failure)
{
	bool		good = fsync(dir->objects) == 0 && fsync(dir->top) == 0;

	for (int i = 0; good && i < FANS; i++)
	{
		good = !dir->touched[i] || dir->fans[i] < 0 || fsync(dir->fans[i]) == 0;
		dir->touched[i] = false;
	}
	return good ||
		failure_errno(failure, "could not write the directories of the objects to the disk");
}
