/*-------------------------------------------------------------------------
 *
 * flow.c
 *	  Threads that take items from a queue that another thread fills.
 *
 * The queue has a limit in bytes, and takes one item whatever its size.  As in pool.c, a lost
 * connection is made again once; if that fails its thread ends, and the others do the rest.
 *
 *-------------------------------------------------------------------------
 */
#include <pthread.h>
#include <stdlib.h>

#include "flow.h"
#include "output.h"

#define MOST_BYTES		(8 * 1024 * 1024)

struct Flow
{
	const Options *options;
	FlowWork	work;
	FlowFree	free_item;
	void	   *arg;
	pthread_t  *threads;
	int			nthreads;
	pthread_mutex_t lock;		/* of the rest */
	pthread_cond_t changed;
	FlowItem   *first;
	FlowItem   *last;
	size_t		bytes;			/* of those that wait */
	int			working;		/* threads that have not ended */
	bool		ended;			/* no more will come */
	bool		stopped;
};

/* The next item, or NULL at the end. */
static FlowItem *
take(Flow *flow)
{
	FlowItem   *item;

	pthread_mutex_lock(&flow->lock);
	while (flow->first == NULL && !flow->ended && !flow->stopped)
		pthread_cond_wait(&flow->changed, &flow->lock);
	item = flow->stopped ? NULL : flow->first;
	if (item != NULL)
	{
		flow->first = item->next;
		flow->bytes -= item->bytes;
		pthread_cond_broadcast(&flow->changed);
	}
	pthread_mutex_unlock(&flow->lock);
	return item;
}

/* Put back an item that was taken, because there is no connection for it. */
static void
put_back(Flow *flow, FlowItem *item)
{
	pthread_mutex_lock(&flow->lock);
	item->next = flow->first;
	if (flow->first == NULL)
		flow->last = item;
	flow->first = item;
	flow->bytes += item->bytes;
	pthread_mutex_unlock(&flow->lock);
}

/* Do items until there are none, or the connection is lost for good. */
static void
work_off(Flow *flow, FlowItem *item)
{
	Failure		failure;
	Session    *session = session_more(flow->options, NULL, &failure);

	if (session == NULL)
	{
		output_message(&failure);
		put_back(flow, item);
		return;
	}
	while (item != NULL)
	{
		bool		good = flow->work(session, flow->arg, item);

		flow->free_item(item);
		if (!good && !session_recover(session, &failure))
			output_message(&failure);
		item = session->lost ? NULL : take(flow);
	}
	session_end(session);
}

/* A thread. */
static void *
run_worker(void *arg)
{
	Flow	   *flow = arg;
	FlowItem   *item = take(flow);

	if (item != NULL)
		work_off(flow, item);
	pthread_mutex_lock(&flow->lock);
	flow->working--;
	pthread_cond_broadcast(&flow->changed);
	pthread_mutex_unlock(&flow->lock);
	return NULL;
}

Flow *
flow_begin(const Options *options, FlowWork work, FlowFree free_item, void *arg)
{
	Flow	   *flow = calloc(1, sizeof(Flow));

	if (flow == NULL || (flow->threads = calloc(options->jobs, sizeof(pthread_t))) == NULL)
		abort();
	flow->options = options;
	flow->work = work;
	flow->free_item = free_item;
	flow->arg = arg;
	pthread_mutex_init(&flow->lock, NULL);
	pthread_cond_init(&flow->changed, NULL);
	pthread_mutex_lock(&flow->lock);
	for (int i = 0; i < options->jobs; i++)
		if (pthread_create(&flow->threads[flow->nthreads], NULL, run_worker, flow) == 0)
			flow->nthreads++;
	flow->working = flow->nthreads;
	pthread_mutex_unlock(&flow->lock);
	return flow;
}

bool
flow_push(Flow *flow, FlowItem *item)
{
	bool		good;

	pthread_mutex_lock(&flow->lock);
	while (flow->working > 0 && !flow->stopped && flow->first != NULL &&
		   flow->bytes + item->bytes > MOST_BYTES)
		pthread_cond_wait(&flow->changed, &flow->lock);
	good = flow->working > 0 && !flow->stopped;
	if (good)
	{
		item->next = NULL;
		if (flow->first == NULL)
			flow->first = item;
		else
			flow->last->next = item;
		flow->last = item;
		flow->bytes += item->bytes;
		pthread_cond_broadcast(&flow->changed);
	}
	pthread_mutex_unlock(&flow->lock);
	if (!good)
		flow->free_item(item);
	return good;
}

void
flow_stop(Flow *flow)
{
	pthread_mutex_lock(&flow->lock);
	flow->stopped = true;
	pthread_cond_broadcast(&flow->changed);
	pthread_mutex_unlock(&flow->lock);
}

bool
flow_end(Flow *flow)
{
	bool		all;

	pthread_mutex_lock(&flow->lock);
	flow->ended = true;
	pthread_cond_broadcast(&flow->changed);
	pthread_mutex_unlock(&flow->lock);
	for (int i = 0; i < flow->nthreads; i++)
		pthread_join(flow->threads[i], NULL);
	all = flow->first == NULL && !flow->stopped;
	for (FlowItem *item = flow->first; item != NULL;)
	{
		FlowItem   *next = item->next;

		flow->free_item(item);
		item = next;
	}
	pthread_cond_destroy(&flow->changed);
	pthread_mutex_destroy(&flow->lock);
	free(flow->threads);
	free(flow);
	return all;
}
