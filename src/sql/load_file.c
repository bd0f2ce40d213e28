/*-------------------------------------------------------------------------
 *
 * load_file.c
 *	  securefile_load(): bytes of a file of the server into a handle (Oracle:
 *	  DBMS_LOB.LOADFROMFILE; PostgreSQL: lo_import).
 *
 * What the path leads to is asked of the open file, so that it cannot become something else in
 * between; and it is opened so that a FIFO without a writer does not keep the session waiting.
 *
 * The system tells where the file has data: what lies between becomes a gap of the value.
 *
 *-------------------------------------------------------------------------
 */
#include "base/base.h"

#include <fcntl.h>
#include <sodium.h>
#include <sys/stat.h>
#include <unistd.h>

#include "catalog/pg_authid.h"
#include "miscadmin.h"
#include "pgstat.h"
#include "sql/content.h"
#include "sql/server_file.h"
#include "storage/fd.h"
#include "utils/builtins.h"

PG_FUNCTION_INFO_V1(securefile_load);

/* As much as makes an extent that is worth a write of its own. */
#define BUFFER_BYTES		(4 * SF_UNIT_SIZE)

typedef struct Load
{
	const char *path;
	int			fd;
	SfHandle   *handle;
	int64		done;			/* bytes that the handle has got */
	int64		size;			/* of the file, when it was opened */
	int64		at;				/* place in the file */
	int64		end;			/* nothing is wanted from there on */
	int64		data_end;		/* from at to there, in between, is data */
	char	   *buffer;
} Load;

/* Bytes of a regular file; ERROR if it is none. */
static int64
size_of(const Load *load)
{
	struct stat st;

	if (SF_FAULT_FAILS(io_file_stat) || fstat(load->fd, &st) != 0)
		sfi_sql_report_file("stat", load->path, errno);
	if (!S_ISREG(st.st_mode))
		sfi_sql_report_irregular(load->path);
	return st.st_size;
}

/* A relative path is below the data directory. */
static void
open_file(Load *load)
{
	load->fd = SF_FAULT_FAILS(io_file_open) ? -1 :
		OpenTransientFile(load->path, O_RDONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC | PG_BINARY);
	/* of a socket, or a device that is not there */
	if (load->fd < 0 && (errno == ENXIO || errno == ENODEV))
		sfi_sql_report_irregular(load->path);
	if (load->fd < 0)
		sfi_sql_report_file("open", load->path, errno);
	load->size = size_of(load);
	(void) posix_fadvise(load->fd, 0, 0, POSIX_FADV_SEQUENTIAL);
}

/*
 * Where the next data begins, or, behind the last, the end of the file.  A file system that cannot
 * tell has data everywhere.
 */
static int64
look_for_data(Load *load)
{
	off_t		data = lseek(load->fd, load->at, SEEK_DATA);
	off_t		hole;

	if (data < 0 && errno == ENXIO)
	{
		load->data_end = load->at;
		return Max(load->at, Min(load->size, size_of(load)));
	}
	if (data < 0)
		data = load->at;
	hole = lseek(load->fd, data, SEEK_HOLE);
	load->data_end = hole > data ? hole : PG_INT64_MAX;
	return data;
}

/* Where in the value so many bytes go that come next: it must have room for them. */
static int64
next_place(Load *load, int64 len)
{
	int64		place = load->handle->position + load->done;

	SF_ASSERT(len > 0 && len <= load->end - load->at);
	SF_ASSERT(load->handle->stream != NULL && load->done >= 0);
	sf_stream_require_room(load->handle->stream, load->handle->position, load->done + len);
	load->done += len;
	load->at += len;
	return place;
}

/* Take the gap that begins here; false: here is data, or the end. */
static bool
load_gap(Load *load)
{
	int64		data = load->at < load->data_end ? load->at : look_for_data(load);
	int64		len = Min(data, load->end) - load->at;

	if (len > 0)
		sf_stream_zero(load->handle->stream, next_place(load, len), len);
	return len > 0;
}

/* Read what fits into the buffer, or less: how much, 0 at the end, or an errno that is negative. */
static int32
read_some(Load *load)
{
	int64		place = load->handle->position + load->done;
	int64		left = Min(load->end, load->data_end) - load->at;
	int32		len = SF_FAULT_BYTES(io_file_read,
									 Min(left, BUFFER_BYTES - place % SF_UNIT_SIZE));

	if (len <= 0)
		return len;
	pgstat_report_wait_start(WAIT_EVENT_COPY_FILE_READ);
	len = pg_pread(load->fd, load->buffer, len, load->at);
	pgstat_report_wait_end();
	return len < 0 ? -errno : len;
}

/* Take some data; false at the end of the file. */
static bool
load_data(Load *load)
{
	int32		len = read_some(load);

	if (len == -EINTR || len == -EAGAIN)
		return true;
	if (len < 0)
		sfi_sql_report_file("read", load->path, -len);
	if (len > 0)
		sf_stream_write(load->handle->stream, next_place(load, len), load->buffer, len);
	return len > 0;
}

/*
 * Up to the end that the file has now: what is appended meanwhile is not taken.  A file that says
 * that it is empty, as those of /proc do, is read until nothing comes; where its data is cannot be
 * asked, since some say that they have none.
 */
static void
load_range(Load *load, int64 start, int64 count)
{
	load->at = start;
	load->data_end = load->size > 0 ? start : PG_INT64_MAX;
	load->end = Min(count, PG_INT64_MAX - start) + start;
	if (load->size > 0)
		load->end = Min(load->end, Max(load->size, start));
	if (load->at == load->end)
		return;
	sf_stream_handle_note_write(load->handle);
	load->buffer = palloc(BUFFER_BYTES);
	do
		CHECK_FOR_INTERRUPTS();
	while (load->at < load->end && (load_gap(load) || load_data(load)));
	sodium_memzero(load->buffer, BUFFER_BYTES);
	pfree(load->buffer);
}

/* The position of the handle moves when all is there: an ERROR leaves it where it was. */
Datum
securefile_load(PG_FUNCTION_ARGS)
{
	Load		load = {.done = 0};
	int64		count = PG_ARGISNULL(3) ? PG_INT64_MAX : PG_GETARG_INT64(3);

	if (PG_ARGISNULL(0) || PG_ARGISNULL(1) || PG_ARGISNULL(2))
		PG_RETURN_NULL();
	sfi_sql_require_server_role(ROLE_PG_READ_SERVER_FILES, "pg_read_server_files",
								"securefile_load()");
	sf_base_require_writes("securefile_load()");
	load.handle = sfi_sql_handle_to_write(PG_GETARG_INT32(0));
	sfi_sql_require_count(count);
	if (PG_GETARG_INT64(2) < 0)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("position in a file cannot be negative")));
	load.path = text_to_cstring(PG_GETARG_TEXT_PP(1));
	open_file(&load);
	load_range(&load, PG_GETARG_INT64(2), count);
	CloseTransientFile(load.fd);
	load.handle->position += load.done;
	PG_RETURN_INT64(load.done);
}
