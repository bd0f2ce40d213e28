/*-------------------------------------------------------------------------
 *
 * files.c
 *	  zstd without a database: compressed in memory, written to files.
 *
 * The units are those of securefile, 128 KB, so that it compresses neither better nor
 * worse.  The compressed bytes of an object are written by one call.
 *
 *-------------------------------------------------------------------------
 */
#include <fcntl.h>
#include <stdlib.h>
#include <unistd.h>

#include <zstd.h>

#include "common.h"
#include "transforms.h"

static size_t plain_bytes;
static size_t stored_bytes;

/* Compress an object unit by unit; how many bytes that makes. */
static size_t
compress_object(ZSTD_CCtx * context, const char *bytes, size_t size, char *dst, size_t room)
{
	size_t		len = 0;

	for (size_t done = 0; done < size; done += UNIT_SIZE)
	{
		size_t		n = size - done < UNIT_SIZE ? size - done : UNIT_SIZE;
		size_t		got = ZSTD_compressCCtx(context, dst + len, room - len, bytes + done, n, 1);

		if (ZSTD_isError(got))
		{
			fprintf(stderr, "bench: zstd: %s\n", ZSTD_getErrorName(got));
			exit(1);
		}
		len += got;
	}
	return len;
}

/* Write a file from its beginning, and flush it. */
static void
write_file(const char *path, const char *bytes, size_t len)
{
	int			fd = open(path, O_WRONLY | O_CREAT, 0600);

	if (fd < 0 || write(fd, bytes, len) != (ssize_t) len || fsync(fd) != 0 || close(fd) != 0)
	{
		perror(path);
		exit(1);
	}
}

double
write_files(const char *directory, const Load *load)
{
	size_t		size = (size_t) load->size_bytes;
	size_t		room = (size / UNIT_SIZE + 1) * ZSTD_compressBound(UNIT_SIZE);
	char	   *dst = malloc(room);
	ZSTD_CCtx  *context = ZSTD_createCCtx();
	double		start = now();

	plain_bytes = stored_bytes = 0;
	for (int i = 0; i < load->objects; i++)
	{
		char		path[1024];
		size_t		len = compress_object(context, load->bytes(load, i), size, dst, room);

		snprintf(path, sizeof(path), "%s/object_%d", directory, i);
		write_file(path, dst, len);
		plain_bytes += size;
		stored_bytes += len;
	}
	ZSTD_freeCCtx(context);
	free(dst);
	return now() - start;
}

double
stored_in_files(void)
{
	return (double) stored_bytes / (double) plain_bytes;
}
