/*-------------------------------------------------------------------------
 *
 * dumpobject.c
 *	  Filling an object, and fetching no object twice.
 *
 *-------------------------------------------------------------------------
 */
#include <errno.h>
#include <string.h>
#include <unistd.h>

#include "dump.h"
#include "output.h"

/* ---- objects that are being fetched ---- */

void
flights_begin(Flights *flights)
{
	memset(flights, 0, sizeof(*flights));
	pthread_mutex_init(&flights->lock, NULL);
	pthread_cond_init(&flights->changed, NULL);
}

/* A free place, or -1: another thread fetches that object (or there is no place). */
static int
find_place(const Flights *flights, const char *sha256)
{
	int			place = -1;

	for (int i = 0; i < MOST_FLIGHTS; i++)
	{
		if (!flights->flights[i].used)
			place = i;
		else if (strcmp(flights->flights[i].sha256, sha256) == 0)
			return -1;
	}
	return place;
}

void
flight_begin(Flights *flights, const char *sha256)
{
	int			place;

	pthread_mutex_lock(&flights->lock);
	while ((place = find_place(flights, sha256)) < 0)
		pthread_cond_wait(&flights->changed, &flights->lock);
	flights->flights[place].used = true;
	flights->flights[place].thread = pthread_self();
	memcpy(flights->flights[place].sha256, sha256, SHA256_HEX_SIZE);
	pthread_mutex_unlock(&flights->lock);
}

void
flight_end(Flights *flights)
{
	pthread_mutex_lock(&flights->lock);
	for (int i = 0; i < MOST_FLIGHTS; i++)
		if (pthread_equal(flights->flights[i].thread, pthread_self()))
			flights->flights[i].used = false;
	pthread_cond_broadcast(&flights->changed);
	pthread_mutex_unlock(&flights->lock);
}

/* ---- filling ---- */

/* An object that is being written. */
typedef struct Filling
{
	int			fd;
	Sha256	   *sum;
	bool		broken;			/* with errno set */
} Filling;

static bool
is_zeros(const char *bytes, size_t length)
{
	return bytes[0] == '\0' && memcmp(bytes, bytes + 1, length - 1) == 0;
}

/* A pgsf_sink: long runs of zeros become holes. */
static int
take_piece(void *arg, const void *bytes, size_t length)
{
	Filling    *filling = arg;

	if (!sha256_add(filling->sum, bytes, length))
		return -1;
	progress_bytes(length);
	if (length >= PGSF_UNIT_BYTES && is_zeros(bytes, length))
		filling->broken = lseek(filling->fd, length, SEEK_CUR) < 0;
	else
		filling->broken = !local_write(filling->fd, bytes, length);
	return filling->broken ? -1 : 0;
}

int64_t
object_fill_part(Session *session, int fd, Sha256 *sum, int64_t start, int64_t length,
				 const char *sql, const pgsf_params *params, bool *broken, Failure *failure)
{
	Filling		filling = {fd, sum, false};
	int64_t		bytes = pgsf_get_callback(session->handle, take_piece, &filling, start, length,
										  sql, params);

	*broken = filling.broken;
	if (filling.broken)
	{
		errno = pgsf_errno(session->handle);
		failure_errno(failure, "could not write the object");
	}
	else if (bytes < 0)
		failure_pgsf(failure, session->handle);
	return bytes;
}

int64_t
object_fill(Session *session, TempFile *file, const char *sql, const pgsf_params *params,
			char *sha256, bool *broken, Failure *failure)
{
	int			fd = tempfile_fd(file);
	Sha256	   *sum = sha256_begin();
	int64_t		bytes = object_fill_part(session, fd, sum, 0, -1, sql, params, broken, failure);

	if (bytes >= 0 && ftruncate(fd, bytes) != 0)
	{
		*broken = true;
		failure_errno(failure, "could not write the object");
		bytes = -1;
	}
	if (bytes < 0)
		sha256_free(sum);
	else if (!sha256_end(sum, sha256))
	{
		failure_say(failure, "could not compute SHA-256");
		bytes = -1;
	}
	return bytes;
}
