/*-------------------------------------------------------------------------
 *
 * dumplease.c
 *	  Commands in a directory of dumps keep out of each other's way.
 *
 * A dump relies on objects that are there; --prune removes those that no manifest names, and the
 * manifest of the dump is not there yet.  So a dump, a restore and a check share a lock, which
 * --prune wants for itself.
 *
 * Some network file systems keep flock() to the machine.  So each command also has a file, its
 * lease, with its host and pid: first it makes that, and then it looks at those of others, so of
 * two commands at least one sees the other.  On this machine a lease counts as long as its
 * process holds a lock on it; of another machine as long as the file is touched, which a thread
 * does each minute.
 *
 *-------------------------------------------------------------------------
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <jansson.h>

#include "dumpdir.h"

#define LEASE_MODE		0600
#define LEASE_BYTES		4096
#define TOUCH_SECONDS	60
#define STALE_SECONDS	3600	/* many times as long */
#define EMPTY_SECONDS	10		/* a new lease is written at once */
#define WAIT_SECONDS	1

static void
host_name(char *name, size_t size)
{
	if (gethostname(name, size) != 0)
		snprintf(name, size, "unknown");
	name[size - 1] = '\0';
}

/* ---- one's own ---- */

/* A thread: the lease of this process is in use. */
static void *
keep_touching(void *arg)
{
	int			fd = (int) (intptr_t) arg;

	while (futimens(fd, NULL) == 0)
		sleep(TOUCH_SECONDS);
	close(fd);
	return NULL;
}

/* Write which process works here, and what for. */
static bool
write_lease(int fd, DumpUse use)
{
	char		host[256];
	json_t	   *lease;
	char	   *text;
	bool		good;

	host_name(host, sizeof(host));
	lease = json_pack("{s:s, s:I, s:b}", "host", host, "pid", (json_int_t) getpid(),
					  "prune", use == DUMPDIR_PRUNE);
	text = lease == NULL ? NULL : json_dumps(lease, JSON_COMPACT);
	if (text == NULL)
		abort();
	good = local_write(fd, text, strlen(text));
	free(text);
	json_decref(lease);
	return good;
}

static bool
make_lease(DumpLease *lease, int leases, DumpUse use, Failure *failure)
{
	pthread_t	thread;
	int			fd;

	lease->file = tempfile_open(leases, LEASE_MODE, failure);
	if (lease->file == NULL)
		return false;
	fd = tempfile_fd(lease->file);
	/* a file system without flock() has the time of the file */
	(void) flock(fd, LOCK_EX | LOCK_NB);
	if (!write_lease(fd, use))
		return failure_errno(failure, "could not write the lease");
	fd = fcntl(fd, F_DUPFD_CLOEXEC, 0);
	if (fd < 0 || pthread_create(&thread, NULL, keep_touching, (void *) (intptr_t) fd) != 0)
		return failure_say(failure, "could not start a thread");
	pthread_detach(thread);
	return true;
}

/* ---- those of others ---- */

typedef struct Other
{
	char		host[256];
	long long	pid;
	bool		prune;
	bool		empty;
} Other;

/* What a lease says; of one that is being written, or says nothing, the worst. */
static void
read_lease(int fd, Other *other)
{
	char		text[LEASE_BYTES];
	int64_t		got = local_read(fd, text, sizeof(text));
	json_t	   *lease = got > 0 ? json_loadb(text, got, 0, NULL) : NULL;
	const char *host = json_string_value(json_object_get(lease, "host"));

	snprintf(other->host, sizeof(other->host), "%s", host != NULL ? host : "");
	other->pid = json_integer_value(json_object_get(lease, "pid"));
	other->empty = lease == NULL;
	other->prune = lease == NULL || json_is_true(json_object_get(lease, "prune"));
	json_decref(lease);
}

/* Is the process of a lease gone?  now: a time of the same file system. */
static bool
is_stale(int fd, const struct stat *st, const Other *other, time_t now)
{
	char		host[256];

	host_name(host, sizeof(host));
	if (strcmp(host, other->host) == 0 && flock(fd, LOCK_EX | LOCK_NB) == 0)
		return true;
	return now - st->st_mtime > (other->empty ? EMPTY_SECONDS : STALE_SECONDS);
}

/* Does that file belong to a command that this one must not meet?  A stale lease is removed. */
static bool
stands_in_the_way(int leases, const char *name, const struct stat *mine, DumpUse use, Other *other)
{
	struct stat st;
	int			fd = openat(leases, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
	bool		stands = false;

	if (fd < 0)
		return false;
	if (fstat(fd, &st) == 0 && S_ISREG(st.st_mode) &&
		!(st.st_ino == mine->st_ino && st.st_dev == mine->st_dev))
	{
		read_lease(fd, other);
		if (is_stale(fd, &st, other, mine->st_mtime))
			(void) unlinkat(leases, name, 0);
		else
			stands = use == DUMPDIR_PRUNE || other->prune;
	}
	close(fd);
	return stands;
}

/* Look at the leases of others; *found: one is in the way. */
static bool
look_at_others(DumpLease *lease, int leases, DumpUse use, bool *found, Other *other,
			   Failure *failure)
{
	int			fd = openat(leases, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	DIR		   *dir = fd < 0 ? NULL : fdopendir(fd);
	struct stat mine;

	*found = false;
	if (dir == NULL || futimens(tempfile_fd(lease->file), NULL) != 0 ||
		fstat(tempfile_fd(lease->file), &mine) != 0)
		return failure_errno(failure, "could not read the directory of the leases");
	lease->since = mine.st_mtime;
	for (struct dirent *entry = readdir(dir); entry != NULL && !*found; entry = readdir(dir))
		*found = strcmp(entry->d_name, ".") != 0 && strcmp(entry->d_name, "..") != 0 &&
			stands_in_the_way(leases, entry->d_name, &mine, use, other);
	closedir(dir);
	return true;
}

/* ---- both ---- */

static bool
take_lock(DumpLease *lease, int top, DumpUse use, Failure *failure)
{
	lease->lock = openat(top, "lock", O_RDWR | O_CREAT | O_NOFOLLOW | O_CLOEXEC, LEASE_MODE);
	if (lease->lock < 0)
		return failure_errno(failure, "could not open the lock of the directory");
	if (use != DUMPDIR_PRUNE)
	{
		while (flock(lease->lock, LOCK_SH) != 0)
			if (errno != EINTR)
				return failure_errno(failure, "could not lock the directory");
		return true;
	}
	if (flock(lease->lock, LOCK_EX | LOCK_NB) == 0)
		return true;
	if (errno != EWOULDBLOCK)
		return failure_errno(failure, "could not lock the directory");
	return failure_say(failure, "another command works in this directory\n"
					   "Hint: Prune when no dump, restore or check runs.");
}

bool
lease_take(DumpLease *lease, int top, int leases, DumpUse use, Failure *failure)
{
	Other		other;
	bool		found;

	/* a directory on a medium that cannot be written */
	if (use == DUMPDIR_READ && faccessat(leases, ".", W_OK, AT_EACCESS) != 0)
		return true;
	if (!take_lock(lease, top, use, failure) || !make_lease(lease, leases, use, failure))
		return false;
	while (look_at_others(lease, leases, use, &found, &other, failure))
	{
		if (!found)
			return true;
		if (use == DUMPDIR_PRUNE)
			return failure_say(failure, "process %lld of host \"%s\" works in this directory\n"
							   "Hint: Prune when no dump, restore or check runs.",
							   other.pid, other.host);
		sleep(WAIT_SECONDS);
	}
	return false;
}

void
lease_give_back(DumpLease *lease)
{
	if (lease->file != NULL)
		tempfile_discard(lease->file);
	if (lease->lock >= 0)
		close(lease->lock);
}
