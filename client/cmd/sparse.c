/*-------------------------------------------------------------------------
 *
 * sparse.c
 *	  Local files that are read without their holes.
 *
 *-------------------------------------------------------------------------
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <pgsecurefile.h>

#include "local.h"
#include "sparse.h"

#define PART_BYTES		(256 * 1024)
#define BLOCK_BYTES		512		/* of st_blocks */

bool
sparse_begin(SparseFile *file, int fd)
{
	memset(file, 0, sizeof(*file));
	file->fd = fd;
	if (fstat(fd, &file->before) != 0)
		return false;
	file->start = S_ISREG(file->before.st_mode) ? lseek(fd, 0, SEEK_CUR) : -1;
	file->seekable = file->start >= 0;
	if (!file->seekable)
		file->start = 0;
	file->position = file->start;
	return true;
}

int64_t
sparse_left(const SparseFile *file)
{
	int64_t		size = file->before.st_size;

	if (!file->seekable || size == 0)
		return -1;
	return file->position < size ? size - file->position : 0;
}

bool
sparse_length_is_unknown(const struct stat *st)
{
	return st->st_blocks == 0;
}

bool
sparse_has_holes(const SparseFile *file)
{
	int64_t		blocks = file->before.st_size / BLOCK_BYTES;

	return file->seekable && blocks - file->before.st_blocks >= PGSF_UNIT_BYTES / BLOCK_BYTES;
}

/* The bytes of the value from its start to there, up or down to whole units. */
static int64_t
whole_units(const SparseFile *file, int64_t offset, bool up)
{
	int64_t		bytes = offset - file->start;
	int64_t		rest = bytes % PGSF_UNIT_BYTES;

	if (up && rest > 0)
		bytes += PGSF_UNIT_BYTES;
	return bytes - rest;
}

/* Where the file system does not tell, the rest of the file is data. */
int64_t
sparse_hole(SparseFile *file)
{
	int64_t		size = file->before.st_size;
	int64_t		position = file->position;
	int64_t		data;
	int64_t		end;

	if (!file->seekable || position < file->data_end || position >= size)
		return 0;
	data = lseek(file->fd, position, SEEK_DATA);
	if (data < 0 && errno == ENXIO)
		data = size;
	end = data < 0 || data >= size ? data : lseek(file->fd, data, SEEK_HOLE);
	file->data_end = INT64_MAX;
	if (data < position || end < data || end > size)
		data = position;
	else if (data < size)
	{
		data = file->start + whole_units(file, data, false);
		if (end < size)
			file->data_end = file->start + whole_units(file, end, true);
	}
	file->position = data > position ? data : position;
	(void) lseek(file->fd, file->position, SEEK_SET);
	return file->position - position;
}

int64_t
sparse_read(SparseFile *file, void *buffer, size_t size)
{
	int64_t		got;

	if (file->position < file->data_end && (int64_t) size > file->data_end - file->position)
		size = file->data_end - file->position;
	got = local_read(file->fd, buffer, size);
	if (got > 0)
		file->position += got;
	return got;
}

/* Hand so many zeros to the function; buffer: for them. */
static bool
give_zeros(char *buffer, int64_t size, SparseTake take, void *arg)
{
	memset(buffer, 0, PART_BYTES);
	for (int64_t at = 0; at < size; at += PART_BYTES)
		if (!take(arg, buffer, size - at < PART_BYTES ? size - at : PART_BYTES))
			return false;
	return true;
}

int64_t
sparse_each(int fd, SparseTake take, void *arg)
{
	SparseFile	file;
	char	   *buffer = local_buffer(PART_BYTES);
	int64_t		total = 0;
	int64_t		got;

	got = sparse_begin(&file, fd) ? 1 : -1;
	while (got > 0)
	{
		int64_t		hole = sparse_hole(&file);

		got = hole > 0 ? hole : sparse_read(&file, buffer, PART_BYTES);
		if (got > 0 && !(hole > 0 ? give_zeros(buffer, hole, take, arg) : take(arg, buffer, got)))
		{
			got = -1;
			errno = 0;
		}
		total += got;
	}
	free(buffer);
	return got < 0 ? -1 : total;
}
