/*-------------------------------------------------------------------------
 *
 * download.c
 *	  A stored file that is written to a local one.
 *
 *-------------------------------------------------------------------------
 */
#include <errno.h>
#include <string.h>
#include <unistd.h>

#include "download.h"
#include "output.h"

/* A pgsf_progress. */
static int
show_progress(void *arg, int64_t done, int64_t total)
{
	Download   *to = arg;

	(void) total;
	progress_bytes(done - to->done);
	to->done = done;
	return 0;
}

int64_t
download(Download *to, pgsf *handle, const char *sql, const pgsf_params *params, Failure *failure)
{
	int64_t		bytes;

	pgsf_set_progress(handle, show_progress, to);
	bytes = pgsf_get_fd(handle, to->fd, 0, -1, sql, params);
	pgsf_set_progress(handle, NULL, NULL);
	if (bytes >= 0)
		return bytes;
	failure_pgsf(failure, handle);
	if (strcmp(failure->sqlstate, PGSF_ERROR_FILE) != 0)
		return bytes;
	errno = pgsf_errno(handle);
	if (to->fd == STDOUT_FILENO)
		output_broken();
	failure_errno(failure, "could not write the file");
	return bytes;
}
