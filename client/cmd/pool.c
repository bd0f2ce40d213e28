/*-------------------------------------------------------------------------
 *
 * pool.c
 *	  Threads that take one file after the other from a list.
 *
 * A lost connection is made again once.  If that fails, its thread ends, and the other
 * threads do the rest.
 *
 *-------------------------------------------------------------------------
 */
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>

#include "output.h"
#include "pool.h"

typedef struct Pool
{
	const Options *options;
	const Target *target;
	size_t		count;
	PoolWork	work;
	void	   *arg;
	atomic_size_t next;
} Pool;

typedef struct Worker
{
	Pool	   *pool;
	Session    *session;		/* null: the thread makes its own */
	pthread_t	thread;
} Worker;

/* Take files from the list until it is empty or the connection is lost for good. */
static void
work_off(Pool *pool, Session *session)
{
	Failure		failure;
	size_t		number;

	while (!session->lost && (number = atomic_fetch_add(&pool->next, 1)) < pool->count)
	{
		bool		good = pool->work(session, pool->arg, number);

		progress_file();
		if (!good && !session_recover(session, &failure))
			output_message(&failure);
	}
}

/* A thread: works with the session it was given, or makes one if there is work left. */
static void *
run_worker(void *arg)
{
	Worker	   *worker = arg;
	Pool	   *pool = worker->pool;
	Session    *session = worker->session;
	Failure		failure;

	if (session != NULL)
		work_off(pool, session);
	else if (atomic_load(&pool->next) < pool->count)
	{
		session = session_more(pool->options, pool->target, &failure);
		if (session == NULL)
			output_message(&failure);
		else
		{
			work_off(pool, session);
			session_end(session);
		}
	}
	return NULL;
}

bool
pool_run(const Options *options, const Target *target, Session *first,
		 size_t count, PoolWork work, void *arg)
{
	Pool		pool = {options, target, count, work, arg, 0};
	size_t		jobs = (size_t) options->jobs < count ? (size_t) options->jobs : count;
	Worker	   *workers = calloc(jobs + 1, sizeof(Worker));
	size_t		begun;
	Failure		failure;

	if (workers == NULL)
		abort();
	for (begun = 0; begun < jobs; begun++)
	{
		workers[begun].pool = &pool;
		workers[begun].session = begun == 0 ? first : NULL;
		if (pthread_create(&workers[begun].thread, NULL, run_worker, &workers[begun]) != 0)
			break;
	}
	for (size_t i = 0; i < begun; i++)
		pthread_join(workers[i].thread, NULL);
	free(workers);
	if (atomic_load(&pool.next) >= count)
		return true;
	failure_say(&failure, "no connection is left: %zu of %zu files were not begun",
				count - atomic_load(&pool.next), count);
	output_message(&failure);
	return false;
}
