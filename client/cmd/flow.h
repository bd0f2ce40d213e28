/*-------------------------------------------------------------------------
 *
 * flow.h
 *	  Items of a list that is never in memory as a whole, done over several connections.
 *
 *-------------------------------------------------------------------------
 */
#ifndef SECUREFILE_FLOW_H
#define SECUREFILE_FLOW_H

#include <stddef.h>

#include "session.h"

/* An item begins with this; it is allocated, with so many bytes in all. */
typedef struct FlowItem
{
	struct FlowItem *next;
	size_t		bytes;
} FlowItem;

/*
 * Do an item, and tell the user.  False after a failure: the flow then calls session_recover().
 * Called by several threads at a time.
 */
typedef bool (*FlowWork) (Session *session, void *arg, FlowItem *item);

typedef void (*FlowFree) (FlowItem *item);

typedef struct Flow Flow;

/* Begin, with as many threads as --jobs says; each makes its connection with its first item. */
extern Flow *flow_begin(const Options *options, FlowWork work, FlowFree free_item, void *arg);

/* Hand over an item, and wait while too many wait.  False: no connection is left. */
extern bool flow_push(Flow *flow, FlowItem *item);

/* Do no more of the items that wait. */
extern void flow_stop(Flow *flow);

/* Wait until all is done, and free the flow.  False: not all was done. */
extern bool flow_end(Flow *flow);

#endif							/* SECUREFILE_FLOW_H */
