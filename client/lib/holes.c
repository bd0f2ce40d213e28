/*-------------------------------------------------------------------------
 *
 * holes.c
 *	  Holes of local files: found where a file is read, made where one is written.
 *
 * The server knows holes of whole units.  So a hole that is found ends with units of the value, and
 * the data beside it may begin and end with zeros:
 *
 *		 file		| data |........................| data |
 *		 value		[   unit   ]....................[   unit   ]
 *
 * They become a part of the hole again when the value is written to a file: zeros behind a
 * hole join it as they come, and those that a piece ends with wait until it is known what
 * follows.  Zeros in the middle of data are written, since the file may have had them.
 *
 *-------------------------------------------------------------------------
 */
#include <errno.h>
#include <string.h>

#include <fcntl.h>
#include <unistd.h>

#include "internal.h"

/* What file systems can leave out, mostly. */
#define BLOCK_BYTES		4096

const char	pgsfi_zeros[ZEROS_BYTES];

/* ---- reading ---- */

static int64_t
round_down(int64_t offset)
{
	return offset - offset % UNIT_BYTES;
}

static int64_t
round_up(int64_t offset)
{
	return offset > INT64_MAX - UNIT_BYTES ? INT64_MAX : round_down(offset + UNIT_BYTES - 1);
}

/* Where the data begins that is at or behind the position, and where it ends; no data: the end. */
static bool
find_data(const LocalFile *file, int64_t *data, int64_t *end)
{
	*end = -1;
	*data = lseek(file->fd, file->position, SEEK_DATA);
	if (*data < 0 && errno == ENXIO)
		*data = *end = file->before.st_size;
	else if (*data >= 0)
		*end = lseek(file->fd, *data, SEEK_HOLE);
	return *data >= file->position && *end >= *data && *end <= file->before.st_size;
}

/*
 * Where the file system does not tell, or what it tells makes no sense, all of the file is
 * data.
 */
int64_t
pgsfi_holes_skip(LocalFile *file)
{
	int64_t		at = file->position - file->start;
	int64_t		data;
	int64_t		end;

	if (!file->regular || file->position < file->data_end ||
		file->position >= file->before.st_size)
		return 0;
	if (find_data(file, &data, &end))
	{
		/* in the value, from here on */
		data = data < file->before.st_size ? round_down(data - file->start) : data - file->start;
		data = data < at ? at : data;
		file->data_end = end == file->before.st_size ? INT64_MAX :
			file->start + round_up(end - file->start);
	}
	else
	{
		data = at;
		file->data_end = INT64_MAX;
	}
	PGSF_ASSERT(data == at || data % UNIT_BYTES == 0 || data == file->before.st_size - file->start);
	file->position = lseek(file->fd, file->start + data, SEEK_SET);
	return data - at;
}

/* ---- writing ---- */

void
pgsfi_holes_start(LocalSink *sink, int fd)
{
	struct stat st;
	int			flags = fcntl(fd, F_GETFL);

	memset(sink, 0, sizeof(LocalSink));
	sink->fd = fd;
	/* what is appended goes to the end, wherever the position is */
	sink->sparse = fstat(fd, &st) == 0 && S_ISREG(st.st_mode) && flags >= 0 &&
		!(flags & O_APPEND) && lseek(fd, 0, SEEK_CUR) >= 0;
}

static int
write_zeros(pgsf *h, const LocalSink *sink, int64_t len_bytes)
{
	while (len_bytes > 0)
	{
		int64_t		len = len_bytes < ZEROS_BYTES ? len_bytes : ZEROS_BYTES;

		if (pgsfi_local_write(h, sink->fd, pgsfi_zeros, len) < 0)
			return -1;
		len_bytes -= len;
	}
	return 0;
}

/*
 * Make the hole that waits, and move the position behind it.  What the file has there already
 * has to become zeros; if it ends there, it gets its length from what is written behind, or at
 * last.
 */
static int
make_hole(pgsf *h, LocalSink *sink)
{
	int64_t		from = lseek(sink->fd, 0, SEEK_CUR);
	int64_t		old;
	struct stat st;

	if (sink->hole == 0)
		return 0;
	if (from < 0 || fstat(sink->fd, &st) < 0)
		return pgsfi_fail_errno(h, PGSF_ERROR_FILE, errno, "could not seek in local file");
	if (sink->hole > INT64_MAX - from)
		return pgsfi_fail_errno(h, PGSF_ERROR_FILE, EFBIG, "could not write local file");
	old = st.st_size > from ? st.st_size - from : 0;
	old = old < sink->hole ? old : sink->hole;
	if (old > 0 &&
		fallocate(sink->fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, from, old) < 0 &&
		write_zeros(h, sink, old) < 0)
		return -1;
	if (lseek(sink->fd, from + sink->hole, SEEK_SET) < 0)
		return pgsfi_fail_errno(h, PGSF_ERROR_FILE, errno, "could not seek in local file");
	sink->hole = 0;
	return 0;
}

/* Zeros that waited have turned out to be data. */
static int
write_waiting(pgsf *h, LocalSink *sink)
{
	int64_t		len = sink->zeros;

	/* zeros behind a hole have joined it */
	PGSF_ASSERT(len == 0 || sink->hole == 0);
	sink->zeros = 0;
	return write_zeros(h, sink, len);
}

static bool
is_zero_block(const char *data)
{
	return memcmp(data, pgsfi_zeros, BLOCK_BYTES) == 0;
}

int
pgsfi_holes_write(pgsf *h, LocalSink *sink, const char *data, int64_t len_bytes)
{
	int64_t		zeros = 0;

	if (!sink->sparse)
		return pgsfi_local_write(h, sink->fd, data, len_bytes);
	if (write_waiting(h, sink) < 0)
		return -1;
	while (sink->hole > 0 && len_bytes >= BLOCK_BYTES && is_zero_block(data))
	{
		sink->hole += BLOCK_BYTES;
		data += BLOCK_BYTES;
		len_bytes -= BLOCK_BYTES;
	}
	if (len_bytes == 0)
		return 0;
	while (len_bytes - zeros >= BLOCK_BYTES &&
		   is_zero_block(data + len_bytes - zeros - BLOCK_BYTES))
		zeros += BLOCK_BYTES;
	sink->zeros = zeros;
	return make_hole(h, sink) < 0 ? -1 : pgsfi_local_write(h, sink->fd, data, len_bytes - zeros);
}

int
pgsfi_holes_make(pgsf *h, LocalSink *sink, int64_t len_bytes)
{
	if (!sink->sparse)
		return write_zeros(h, sink, len_bytes);
	if (len_bytes > INT64_MAX - sink->hole - sink->zeros)
		return pgsfi_fail_errno(h, PGSF_ERROR_FILE, EFBIG, "could not write local file");
	sink->hole += sink->zeros + len_bytes;
	sink->zeros = 0;
	return 0;
}

int
pgsfi_holes_finish(pgsf *h, LocalSink *sink)
{
	bool		ends_with_hole = sink->hole > 0;
	int64_t		end;
	struct stat st;

	if (write_waiting(h, sink) < 0 || make_hole(h, sink) < 0)
		return -1;
	if (!ends_with_hole)
		return 0;
	end = lseek(sink->fd, 0, SEEK_CUR);
	if (end < 0 || fstat(sink->fd, &st) < 0 ||
		(end > st.st_size && ftruncate(sink->fd, end) < 0))
		return pgsfi_fail_errno(h, PGSF_ERROR_FILE, errno, "could not write local file");
	return 0;
}
