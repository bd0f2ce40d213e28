/*-------------------------------------------------------------------------
 *
 * holes.c
 *	  Trials: values with holes, from and to files, memory and callbacks.
 *
 *-------------------------------------------------------------------------
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "trial.h"

#define HOLE	(40 * MB)
#define LENGTH	(2 * HOLE + 3)

/* What a value has: bytes at its beginning and behind a hole; a hole at its end. */
static char *
sparse_bytes(void)
{
	char	   *data = calloc(LENGTH, 1);

	memset(data, 'a', 7);
	memset(data + HOLE, 'b', 5000);
	return data;
}

/* A source of them: arg tells what comes next. */
static int64_t
sparse_source(void *arg, void *buf, size_t len, int64_t *hole)
{
	int		   *step = arg;

	(void) len;
	switch ((*step)++)
	{
		case 0:
			memset(buf, 'a', 7);
			return 7;
		case 1:
			*hole = HOLE - 7;
			return 0;
		case 2:
			memset(buf, 'b', 5000);
			return 5000;
		case 3:
			*hole = LENGTH - HOLE - 5000 - 1;
			return 0;
		case 4:
			*hole = 1;
			return 0;
		default:
			return 0;
	}
}

/* A source that gives bytes and a hole at the same time, or a hole below 0. */
static int64_t
wrong_source(void *arg, void *buf, size_t len, int64_t *hole)
{
	*hole = *(int *) arg;
	memset(buf, 'x', len);
	return *hole > 0 ? (int64_t) len : 0;
}

typedef struct Taken
{
	char	   *data;
	size_t		len;
} Taken;

static int
take(void *arg, const void *buf, size_t len)
{
	Taken	   *taken = arg;

	memcpy(taken->data + taken->len, buf, len);
	taken->len += len;
	return 0;
}

/* A progress callback: the numbers never fall, and the last one is all. */
static int
watch(void *arg, int64_t done, int64_t total)
{
	int64_t    *last = arg;

	if (done < *last || done > total)
		check(false, "progress: %lld of %lld", (long long) done, (long long) total);
	*last = done;
	return 0;
}

static int
new_file(void)
{
	char		name[] = "/tmp/securefile-trial-XXXXXX";
	int			fd = mkstemp(name);

	unlink(name);
	return fd;
}

/* The contents of a file from there on; most_space: that it may take on the disk, -1: any. */
static void
holds(int fd, int64_t from, const char *data, size_t len, int64_t most_space, const char *name)
{
	char	   *found = malloc(len + 1);
	ssize_t		got = pread(fd, found, len + 1, from);
	struct stat st;

	check(got == (ssize_t) len && memcmp(found, data, len) == 0,
		  "%s: contents, %zd bytes", name, got);
	fstat(fd, &st);
	check(most_space < 0 || (int64_t) st.st_blocks * 512 <= most_space,
		  "%s: space, %lld bytes", name,
		  (long long) st.st_blocks * 512);
	free(found);
}

static int64_t
get_fd(int fd, int64_t offset, int64_t length)
{
	return pgsf_get_fd(h, fd, offset, length, SELECT_ID, id_is(1));
}

/* From a file and to files: new ones, longer ones, and those that are appended to. */
static void
files(const char *data)
{
	int			from = new_file();
	int			to = new_file();
	int			all = new_file();
	int64_t		last = 0;
	char	   *old = bytes(LENGTH + MB, 5);

	if (pwrite(from, data, 7, 0) != 7 || pwrite(from, data + HOLE, 5000, HOLE) != 5000 ||
		ftruncate(from, LENGTH) != 0)
		check(false, "a file with holes");
	pgsf_set_progress(h, watch, &last);
	check(pgsf_put_fd(h, from, "t", "doc", INSERT_ID, id_is(1), NULL) == LENGTH, "put of a file");
	check(last == LENGTH, "all are told");
	last = 0;
	check(get_fd(to, 0, -1) == LENGTH && last == LENGTH, "get to a file");
	pgsf_set_progress(h, NULL, NULL);
	check(lseek(to, 0, SEEK_CUR) == LENGTH && lseek(from, 0, SEEK_CUR) == LENGTH,
		  "both are at their ends");
	holds(to, 0, data, LENGTH, MB, "a new file");

	/* over other bytes, of which some stay */
	if (pwrite(all, old, LENGTH + MB, 0) != LENGTH + MB || lseek(all, 100, SEEK_SET) != 100)
		check(false, "a long file");
	check(get_fd(all, 0, -1) == LENGTH, "get over other bytes");
	memcpy(old + 100, data, LENGTH);
	holds(all, 0, old, LENGTH + MB, -1, "all of the file");

	/* what is appended has no holes, wherever the position is */
	if (ftruncate(to, 0) != 0 || pwrite(to, "before", 6, 0) != 6 ||
		fcntl(to, F_SETFL, O_APPEND) != 0)
		check(false, "a file to append to");
	lseek(to, 3, SEEK_SET);
	check(get_fd(to, 0, -1) == LENGTH, "get behind other bytes");
	memcpy(old, "before", 6);
	memcpy(old + 6, data, LENGTH);
	holds(to, 0, old, LENGTH + 6, -1, "appended");
	fcntl(to, F_SETFL, 0);

	/* parts */
	for (int i = 0; i < 6; i++)
	{
		static const int64_t parts[][2] = {
			{0, 7}, {3, HOLE}, {100, MB}, {HOLE - 1, 2}, {HOLE + 4999, -1}, {LENGTH - 1, 10}
		};
		int64_t		left = LENGTH - parts[i][0];
		int64_t		len = parts[i][1] < 0 || parts[i][1] > left ? left : parts[i][1];

		if (ftruncate(to, 0) != 0 || lseek(to, 0, SEEK_SET) != 0)
			check(false, "an empty file");
		check(get_fd(to, parts[i][0], parts[i][1]) == len, "get of a part");
		holds(to, 0, data + parts[i][0], len, MB, "a part");
	}
	close(from);
	close(to);
	close(all);
	free(old);
}

void
trial_holes(void)
{
	char	   *data = sparse_bytes();
	Taken		taken = {malloc(LENGTH), 0};
	int			step = 0;
	int			wrong;

	files(data);
	value_is(1, data, LENGTH, "put from a file");
	works(pgsf_get_callback(h, take, &taken, 0, -1, SELECT_ID, id_is(1)), "get to a callback");
	check(taken.len == LENGTH && memcmp(taken.data, data, LENGTH) == 0, "gets the zeros");

	works(pgsf_put_sparse(h, sparse_source, &step, LENGTH, "t", "doc", INSERT_ID, id_is(2), NULL),
		  "put of a sparse source");
	value_is(2, data, LENGTH, "put of a sparse source");
	check(strcmp(sql("SELECT max(stored_bytes) < 500000 FROM t, securefile_storage(doc)"), "t") == 0,
		  "holes are not stored");
	wrong = 1;
	fails(pgsf_put_sparse(h, wrong_source, &wrong, -1, "t", "doc", INSERT_ID, id_is(3), NULL),
		  PGSF_ERROR_CALLBACK, "bytes and a hole");
	wrong = -1;
	fails(pgsf_put_sparse(h, wrong_source, &wrong, -1, "t", "doc", INSERT_ID, id_is(3), NULL),
		  PGSF_ERROR_CALLBACK, "a hole below 0");
	fails(pgsf_put_sparse(h, NULL, NULL, -1, "t", "doc", INSERT_ID, id_is(3), NULL),
		  PGSF_ERROR_ARGUMENT, "no source");
	rows_are(2, "holes");
	free(data);
	free(taken.data);
}
