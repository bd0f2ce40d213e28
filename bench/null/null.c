/*-------------------------------------------------------------------------
 *
 * null.c
 *	  The null engine: what the disk and the connection allow, and nothing else.
 *
 *	  null_write(data bytea) -> int			one durable, direct write of the bytes
 *	  null_read(len int) -> bytea			one direct read of so many bytes
 *	  null_memory(len int) -> bytea			so many bytes, from nowhere
 *
 * Each process has a part of the file null.dat in the data directory, which has been
 * written before, and goes round in it.  Nothing finds the bytes again: no row, no index,
 * no checksum, no WAL.  So no engine that keeps anything can be faster on the same
 * connection, unless it does without the disk.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

#include "fmgr.h"
#include "miscadmin.h"
#include "storage/backendid.h"

PG_MODULE_MAGIC;

#define FILE_NAME	"null.dat"
#define BLOCK		4096

PG_FUNCTION_INFO_V1(null_write);
PG_FUNCTION_INFO_V1(null_read);
PG_FUNCTION_INFO_V1(null_memory);

/* The part of the file that is this process's, and memory that direct I/O takes. */
static struct
{
	int			fd;
	off_t		start;
	off_t		size;
	off_t		at;				/* of the next write or read, from start on */
	char	   *buffer;
	size_t		buffer_size;
} mine = {.fd = -1};

/* Parts are dealt out by process number: null.dat has to have room for them. */
#define PARTS		32

static void
open_part(void)
{
	struct stat st;

	if (mine.fd >= 0)
		return;
	mine.fd = open(FILE_NAME, O_RDWR | O_DIRECT | O_CLOEXEC);
	if (mine.fd < 0 || fstat(mine.fd, &st) != 0)
		ereport(ERROR, (errcode_for_file_access(), errmsg("could not open \"%s\": %m", FILE_NAME)));
	mine.size = st.st_size / PARTS / BLOCK * BLOCK;
	mine.start = MyProcPid % PARTS * mine.size;
}

/* The next so many bytes of the part, in whole blocks, and a buffer for them. */
static size_t
take(int len)
{
	size_t		padded = TYPEALIGN(BLOCK, len);

	open_part();
	if ((off_t) padded > mine.size)
		ereport(ERROR, (errmsg("\"%s\" is too small", FILE_NAME)));
	if (padded > mine.buffer_size)
	{
		mine.buffer = mmap(NULL, padded, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
		if (mine.buffer == MAP_FAILED)
			ereport(ERROR, (errcode(ERRCODE_OUT_OF_MEMORY), errmsg("out of memory")));
		mine.buffer_size = padded;
	}
	if (mine.at + (off_t) padded > mine.size)
		mine.at = 0;
	return padded;
}

static void
move(ssize_t done, size_t padded)
{
	if (done != (ssize_t) padded)
		ereport(ERROR, (errcode_for_file_access(), errmsg("could not access \"%s\": %m", FILE_NAME)));
	mine.at += padded;
}

Datum
null_write(PG_FUNCTION_ARGS)
{
	bytea	   *data = PG_GETARG_BYTEA_PP(0);
	size_t		padded = take(VARSIZE_ANY_EXHDR(data));
	struct iovec iov = {mine.buffer, padded};

	memcpy(mine.buffer, VARDATA_ANY(data), VARSIZE_ANY_EXHDR(data));
	move(pwritev2(mine.fd, &iov, 1, mine.start + mine.at, RWF_DSYNC), padded);
	PG_RETURN_INT32((int32) VARSIZE_ANY_EXHDR(data));
}

Datum
null_read(PG_FUNCTION_ARGS)
{
	int			len = PG_GETARG_INT32(0);
	size_t		padded = take(len);
	bytea	   *data = palloc(VARHDRSZ + len);

	move(pread(mine.fd, mine.buffer, padded, mine.start + mine.at), padded);
	SET_VARSIZE(data, VARHDRSZ + len);
	memcpy(VARDATA(data), mine.buffer, len);
	PG_RETURN_BYTEA_P(data);
}

Datum
null_memory(PG_FUNCTION_ARGS)
{
	int			len = PG_GETARG_INT32(0);
	bytea	   *data = palloc0(VARHDRSZ + len);

	SET_VARSIZE(data, VARHDRSZ + len);
	PG_RETURN_BYTEA_P(data);
}
