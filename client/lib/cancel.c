/*-------------------------------------------------------------------------
 *
 * cancel.c
 *	  Cancel requests, and the progress callback, which can be one.
 *
 * A request is a flag and an eventfd.  The flag is what a call looks at between two
 * pieces; the eventfd wakes a call that waits (wait.c).  Both can be set in a signal
 * handler.
 *
 *-------------------------------------------------------------------------
 */
#include <errno.h>

#include <unistd.h>

#include "internal.h"

void
pgsf_set_progress(pgsf *h, pgsf_progress progress, void *arg)
{
	if (h == NULL)
		return;
	h->progress = progress;
	h->progress_arg = arg;
}

int
pgsfi_report(pgsf *h, int64_t done, int64_t total)
{
	if (h->progress != NULL && h->progress(h->progress_arg, done, total) != 0)
		return pgsfi_fail(h, PGSF_ERROR_CANCELLED, "cancelled by the progress callback");
	return pgsfi_check_cancel(h);
}

/* Signal handlers call this: only calls that are safe there, and errno as it was. */
void
pgsf_cancel(pgsf *h)
{
	int			saved = errno;
	uint64_t	one = 1;

	if (h == NULL)
		return;
	atomic_store(&h->cancel_wanted, 1);

	/*
	 * a write fails only if the counter is full, and a full counter wakes the
	 * waiter too
	 */
	if (write(h->cancel_event, &one, sizeof(one)) < 0)
		errno = saved;
	errno = saved;
}

void
pgsfi_forget_cancel(pgsf *h)
{
	uint64_t	count;

	atomic_store(&h->cancel_wanted, 0);
	h->cancel_sent = false;
	h->unanswered_since_ms = 0;
	while (read(h->cancel_event, &count, sizeof(count)) < 0 && errno == EINTR)
		;
}

int
pgsfi_check_cancel(pgsf *h)
{
	if (h->cancel_masked || !atomic_load(&h->cancel_wanted))
		return 0;
	return pgsfi_fail(h, PGSF_ERROR_CANCELLED, "cancelled by pgsf_cancel");
}
