/*-------------------------------------------------------------------------
 *
 * pool.c
 *	  Threads that take one file after the other from lists.
 *
 * A lost connection is made again once.  If that fails, its thread ends, and the other
 * threads do the rest.  A failure that would come for each other file ends them all.
 *
 *-------------------------------------------------------------------------
 */
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>

#include "output.h"
#include "pool.h"

/* Files of one node, in the order of the list. */
typedef struct Queue
{
	size_t	   *files;
	size_t		count;
	atomic_size_t next;
} Queue;

typedef struct Pool
{
	const Options *options;
	const Target *target;
	size_t		count;			/* of files, or of groups */
	PoolWork	work;
	void	   *arg;
	const Queues *files;
	Queue	   *queues;
	int			nqueues;
	atomic_size_t begun;		/* files */
	atomic_int	lost;			/* connections; the user is told of one */
} Pool;

typedef struct Worker
{
	Pool	   *pool;
	int			queue;			/* where it takes files first */
	Session    *session;		/* null: the thread makes its own */
	pthread_t	thread;
} Worker;

/* ---- queues ---- */

static void
make_queues(Pool *pool, const Queues *queues)
{
	pool->nqueues = queues == NULL ? 1 : queues->count;
	pool->queues = calloc(pool->nqueues, sizeof(Queue));
	if (pool->queues == NULL)
		abort();
	for (int i = 0; i < pool->nqueues; i++)
	{
		pool->queues[i].files = calloc(pool->count + 1, sizeof(size_t));
		if (pool->queues[i].files == NULL)
			abort();
	}
	for (size_t number = 0; number < pool->count; number++)
	{
		bool		is_one = queues == NULL || queues->of == NULL;
		Queue	   *queue = &pool->queues[is_one ? 0 : queues->of[number]];

		queue->files[queue->count++] = number;
	}
}

static void
free_queues(Pool *pool)
{
	for (int i = 0; i < pool->nqueues; i++)
		free(pool->queues[i].files);
	free(pool->queues);
}

/* The files of a group; a file alone is one. */
static size_t
size_of(const Pool *pool, size_t number)
{
	return pool->files == NULL || pool->files->sizes == NULL ? 1 : pool->files->sizes[number];
}

static size_t
count_files(const Pool *pool)
{
	size_t		files = 0;

	for (size_t number = 0; number < pool->count; number++)
		files += size_of(pool, number);
	return files;
}

/* The next one of that queue, or when it is empty, of another one.  False: there is none. */
static bool
take(Pool *pool, int first, size_t *number)
{
	for (int i = 0; i < pool->nqueues; i++)
	{
		Queue	   *queue = &pool->queues[(first + i) % pool->nqueues];
		size_t		n = atomic_fetch_add(&queue->next, 1);

		if (n >= queue->count)
			continue;
		*number = queue->files[n];
		atomic_fetch_add(&pool->begun, size_of(pool, *number));
		return true;
	}
	return false;
}

/* ---- threads ---- */

/* Take files until there are none, or the connection is lost for good. */
static void
work_off(Pool *pool, int queue, Session *session)
{
	Failure		failure;
	size_t		number;

	while (!session->lost && !output_stopped() && take(pool, queue, &number))
	{
		bool		good;

		session->shard = queues_shard(pool->files, number);
		good = pool->work(session, pool->arg, number);
		progress_files((int64_t) (size_of(pool, number) - session->not_begun));
		atomic_fetch_sub(&pool->begun, session->not_begun);
		session->not_begun = 0;
		if (!good && !session_recover(session, &failure) &&
			atomic_fetch_add(&pool->lost, 1) == 0)
			output_message(&failure);
	}
	session->shard = NULL;
	session_let_go(session);
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
		work_off(pool, worker->queue, session);
	else if (atomic_load(&pool->begun) < count_files(pool))
	{
		session = session_more(pool->options, pool->target, &failure);
		if (session == NULL)
			output_message(&failure);
		else
		{
			work_off(pool, worker->queue, session);
			session_end(session);
		}
	}
	return NULL;
}

/* Do all parts of a pool, over connections that include the first. */
static void
run_pool(Pool *pool, Session *first)
{
	size_t		jobs = (size_t) pool->options->jobs;
	Worker	   *workers;
	size_t		begun;

	if (jobs > pool->count)
		jobs = pool->count;
	workers = calloc(jobs + 1, sizeof(Worker));
	if (workers == NULL)
		abort();
	make_queues(pool, pool->files);
	for (begun = 0; begun < jobs; begun++)
	{
		workers[begun].pool = pool;
		workers[begun].queue = (int) (begun % (size_t) pool->nqueues);
		workers[begun].session = begun == 0 ? first : NULL;
		if (pthread_create(&workers[begun].thread, NULL, run_worker, &workers[begun]) != 0)
			break;
	}
	for (size_t i = 0; i < begun; i++)
		pthread_join(workers[i].thread, NULL);
	free(workers);
	free_queues(pool);
}

/* Have so many of all files been begun?  Else the user is told. */
static bool
all_begun(size_t begun, size_t count)
{
	Failure		failure;

	if (begun >= count)
		return true;
	failure_say(&failure, "%s: %zu of %zu files were not begun",
				output_stopped() ? "stopped, since no file can be done" : "no connection is left",
				count - begun, count);
	output_message(&failure);
	return false;
}

bool
pool_run(const Options *options, const Target *target, Session *first,
		 size_t count, const Queues *queues, PoolWork work, void *arg)
{
	Pool		pool = {options, target, count, work, arg, queues, NULL, 0, 0, 0};

	run_pool(&pool, first);
	return all_begun(atomic_load(&pool.begun), count_files(&pool));
}

bool
pool_run_parts(const Options *options, const Target *target, Session *first,
			   size_t count, size_t each, PoolWork work, void *arg)
{
	Pool		pool = {options, target, (count + each - 1) / each, work, arg, NULL, NULL, 0, 0, 0};

	run_pool(&pool, first);
	return all_begun(atomic_load(&pool.begun) * each, count);
}
