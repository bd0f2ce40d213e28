/*-------------------------------------------------------------------------
 *
 * progress.c
 *	  What long commands of all sessions have done so far.
 *
 * PostgreSQL's own progress reports know the commands of the server only.  Here each
 * session that runs such a command has a slot in shared memory, found by its process id.
 * A session that finds no free slot is not shown; nothing else depends on it.
 *
 *-------------------------------------------------------------------------
 */
#include "base/base.h"

#include "miscadmin.h"
#include "stats/stats.h"
#include "storage/lwlock.h"
#include "storage/procarray.h"

#define SLOTS	64

typedef struct Slots
{
	LWLock		lock;
	SfProgress	slots[SLOTS];
} Slots;

static Slots *table = NULL;
static SfProgress *mine = NULL; /* the slot of this process */

const SfSharedArea sf_stats_progress_area = {
	.name = "securefile progress", .at = (void **) &table,
	.bytes = sizeof(Slots), .lock = "securefile_progress"
};

/* Is the slot free, or of a session that ended between two transactions? */
static bool
is_free(const SfProgress *slot)
{
	return slot->pid == 0 || slot->pid == MyProcPid || BackendPidGetProc(slot->pid) == NULL;
}

void
sf_stats_progress(const SfProgress *progress)
{
	if (table == NULL)
		return;
	LWLockAcquire(&table->lock, LW_EXCLUSIVE);
	for (int i = 0; mine == NULL && i < SLOTS; i++)
		if (is_free(&table->slots[i]))
			mine = &table->slots[i];
	if (mine != NULL)
	{
		*mine = *progress;
		mine->pid = MyProcPid;
		mine->database = MyDatabaseId;
	}
	LWLockRelease(&table->lock);
}

void
sf_stats_progress_end(void)
{
	if (mine == NULL)
		return;
	SF_ASSERT(mine >= table->slots && mine < table->slots + SLOTS);
	LWLockAcquire(&table->lock, LW_EXCLUSIVE);
	if (mine->pid == MyProcPid)
		mine->pid = 0;
	LWLockRelease(&table->lock);
	mine = NULL;
}

const char *
sf_stats_operation_name(SfOperation operation)
{
	static const char *const names[] = {
		[SF_OPERATION_REWRITE] = "rewrite",
		[SF_OPERATION_MIGRATE] = "migrate",
		[SF_OPERATION_RELEASE] = "release",
		[SF_OPERATION_MOVE] = "move",
	};

	SF_ASSERT((size_t) operation < lengthof(names));
	return names[operation];
}

int
sf_stats_progress_list(SfProgress **list)
{
	int			n = 0;

	*list = palloc(SLOTS * sizeof(SfProgress));
	if (table == NULL)
		return 0;
	LWLockAcquire(&table->lock, LW_SHARED);
	for (int i = 0; i < SLOTS; i++)
		if (table->slots[i].pid != 0 && BackendPidGetProc(table->slots[i].pid) != NULL)
			(*list)[n++] = table->slots[i];
	LWLockRelease(&table->lock);
	SF_ASSERT(n <= SLOTS);
	return n;
}
