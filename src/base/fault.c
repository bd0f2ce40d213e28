/*-------------------------------------------------------------------------
 *
 * fault.c
 *	  The table of armed fault points in shared memory, and the SQL functions
 *	  that arm them.
 *
 * The SQL functions exist in every build, so that the extension script is one
 * and the same; without SF_FAULTS they only say what is missing.
 *
 * Invariants:
 *	 F1	a point fires only when skip has counted down to 0, and times times
 *		(negative: always);
 *	 F2	a spinlock covers the decision only, never the action;
 *	 F3	a pass of an I/O point that does not act is one of io_any, too.
 *
 * F1 is asserted.  F2 and F3 are not: both are one look at the code, at take()
 * and at sf_fault_io(), and an assertion would repeat that code.
 *
 *-------------------------------------------------------------------------
 */
#include "base/base.h"

#include <signal.h>
#include <unistd.h>

#include "base/shared.h"
#include "fmgr.h"
#include "miscadmin.h"
#include "pgstat.h"
#include "storage/latch.h"
#include "storage/spin.h"
#include "utils/builtins.h"

PG_FUNCTION_INFO_V1(securefile_fault);
PG_FUNCTION_INFO_V1(securefile_fault_fired);
PG_FUNCTION_INFO_V1(securefile_fault_reset);

#ifdef SF_FAULTS

#define WAIT_POLL_MS	10
#define SHORT_BLOCK		4096	/* direct I/O goes on at its borders */

typedef struct FaultSlot
{
	slock_t		lock;
	SfFaultAction action;
	int			skip;			/* passes to let through first */
	int			times;			/* firings left; negative: no end */
	int			pid;			/* only this process; 0: every one */
	uint32		arming;			/* counts securefile_fault() calls */
	uint64		fired;
} FaultSlot;

static FaultSlot *slots = NULL;

static const char *const point_names[] = {
#define SF_FAULT_POINT(name, doc) #name,
#include "base/fault_points.h"
#undef SF_FAULT_POINT
};

static const char *const action_names[] = {
	[SF_FAULT_NONE] = "none",
	[SF_FAULT_PASS] = "pass",
	[SF_FAULT_ERROR] = "error",
	[SF_FAULT_ENOSPC] = "enospc",
	[SF_FAULT_ENOMEM] = "enomem",
	[SF_FAULT_EINTR] = "eintr",
	[SF_FAULT_EAGAIN] = "eagain",
	[SF_FAULT_ENOTSUP] = "enotsup",
	[SF_FAULT_SHORT] = "short",
	[SF_FAULT_PANIC] = "panic",
	[SF_FAULT_KILL] = "kill",
	[SF_FAULT_WAIT] = "wait",
	[SF_FAULT_SKIP] = "skip",
};

StaticAssertDecl(lengthof(point_names) == SF_FAULT_COUNT, "a name for every point");
StaticAssertDecl(lengthof(action_names) == SF_FAULT_SKIP + 1, "a name for every action");

/* Index of a name in a list; ERROR when it is not there. */
static int
find_name(const char *what, const char *name, const char *const *names, int n)
{
	for (int i = 0; i < n; i++)
	{
		if (strcmp(name, names[i]) == 0)
			return i;
	}
	ereport(ERROR,
			(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
			 errmsg("unrecognized fault %s \"%s\"", what, name)));
}

static FaultSlot *
find_point(const char *name)
{
	return &slots[find_name("point", name, point_names, lengthof(point_names))];
}

static SfFaultAction
find_action(const char *name)
{
	return find_name("action", name, action_names, lengthof(action_names));
}

/* Arm a slot; action NONE disarms it.  Wakes the processes that wait in it. */
static void
arm(FaultSlot *slot, SfFaultAction action, int skip, int times, int pid)
{
	SpinLockAcquire(&slot->lock);
	slot->action = action;
	slot->skip = skip;
	slot->times = times;
	slot->pid = pid;
	slot->arming++;
	SpinLockRelease(&slot->lock);
}

/*
 * Arm points from SECUREFILE_FAULT=point:action[:skip[:times]], or several with commas
 * between.  An error in it stops the start of the server.
 */
static void
arm_from_environment(void)
{
	for (const char *setting = getenv("SECUREFILE_FAULT"); setting != NULL;
		 setting = strchr(setting, ','))
	{
		char		point[NAMEDATALEN];
		char		action[NAMEDATALEN];
		int			skip = 0;
		int			times = 1;

		setting += *setting == ',';
		if (sscanf(setting, "%63[^:,]:%63[^:,]:%d:%d", point, action, &skip, &times) < 2)
			elog(ERROR, "SECUREFILE_FAULT is not point:action[:skip[:times]]");
		arm(find_point(point), find_action(action), skip, times, 0);
	}
}

static void
init_slots(void)
{
	for (int i = 0; i < SF_FAULT_COUNT; i++)
		SpinLockInit(&slots[i].lock);
	arm_from_environment();
}

const SfSharedArea sf_fault_area = {
	.name = "securefile faults", .at = (void **) &slots,
	.bytes = SF_FAULT_COUNT * sizeof(FaultSlot), .init = init_slots
};

/*
 * Count a pass of a point, and return its action if the point fires.  *arming is then
 * the number of the securefile_fault() call that armed it.
 */
static SfFaultAction
take(FaultSlot *slot, uint32 *arming)
{
	SfFaultAction action = SF_FAULT_NONE;

	SpinLockAcquire(&slot->lock);
	if (slot->pid == 0 || slot->pid == MyProcPid)
	{
		/* break_f1 fires too early */
		if (slot->skip > 0 && slot != &slots[SF_FAULT_break_f1])
			slot->skip--;
		else if (slot->times != 0)
		{
			SF_INVARIANT(F1, slot->skip == 0);
			action = slot->action;
			*arming = slot->arming;
			slot->fired += action != SF_FAULT_NONE;
			if (slot->times > 0)
				slot->times--;
		}
	}
	SpinLockRelease(&slot->lock);
	return action;
}

/* Sleep until the point is armed anew or disarmed. */
static void
wait_for_change(FaultSlot *slot, uint32 arming)
{
	for (;;)
	{
		bool		changed;

		SpinLockAcquire(&slot->lock);
		changed = slot->arming != arming;
		SpinLockRelease(&slot->lock);
		if (changed)
			return;

		(void) WaitLatch(MyLatch, WL_LATCH_SET | WL_TIMEOUT | WL_EXIT_ON_PM_DEATH,
						 WAIT_POLL_MS, PG_WAIT_EXTENSION);
		ResetLatch(MyLatch);
		CHECK_FOR_INTERRUPTS();
	}
}

/*
 * Pass a point: waits, panics or dies here, if that is the action.  Returns any other
 * action, which the caller has to simulate.
 */
static SfFaultAction
pass(SfFaultPoint point)
{
	uint32		arming = 0;
	SfFaultAction action;

	/* the unlocked look keeps an unarmed point cheap on hot paths */
	if (slots == NULL || slots[point].action == SF_FAULT_NONE)
		return SF_FAULT_NONE;

	action = take(&slots[point], &arming);
	switch (action)
	{
		case SF_FAULT_PANIC:
			elog(PANIC, "fault point %s", point_names[point]);
			break;
		case SF_FAULT_KILL:
			kill(getpid(), SIGKILL);
			pause();
			break;
		case SF_FAULT_WAIT:
			wait_for_change(&slots[point], arming);
			return SF_FAULT_NONE;
		case SF_FAULT_PASS:
			return SF_FAULT_NONE;
		default:
			break;
	}
	return action;
}

SfFaultAction
sf_fault_io(SfFaultPoint point)
{
	SfFaultAction action = pass(point);

	/* system calls stand first in the list */
	if (action == SF_FAULT_NONE && point < SF_FAULT_io_any)
		action = pass(SF_FAULT_io_any);
	return action;
}

static int
errno_of(SfFaultAction action)
{
	switch (action)
	{
		case SF_FAULT_NONE:
		case SF_FAULT_SHORT:
			return 0;
		case SF_FAULT_ENOSPC:
			return ENOSPC;
		case SF_FAULT_ENOMEM:
			return ENOMEM;
		case SF_FAULT_EINTR:
			return EINTR;
		case SF_FAULT_EAGAIN:
			return EAGAIN;
		case SF_FAULT_ENOTSUP:
			return EOPNOTSUPP;
		default:
			return EIO;
	}
}

bool
sf_fault_fails(SfFaultPoint point)
{
	int			error = errno_of(sf_fault_io(point));

	if (error != 0)
		errno = error;
	return error != 0;
}

int32
sf_fault_bytes(SfFaultPoint point, uint32 len_bytes)
{
	SfFaultAction action = sf_fault_io(point);

	if (action == SF_FAULT_SHORT)
		return (int32) Min(len_bytes, Max(SHORT_BLOCK,
										  TYPEALIGN_DOWN(SHORT_BLOCK, len_bytes / 2)));
	return action == SF_FAULT_NONE ? (int32) len_bytes : -errno_of(action);
}

static void
fail(SfFaultPoint point)
{
	ereport(ERROR,
			(errcode(ERRCODE_INTERNAL_ERROR),
			 errmsg("fault point %s", point_names[point])));
}

void
sf_fault_run(SfFaultPoint point)
{
	if (sf_fault_io(point) != SF_FAULT_NONE)
		fail(point);
}

bool
sf_fault_skips(SfFaultPoint point)
{
	SfFaultAction action = sf_fault_io(point);

	if (action != SF_FAULT_NONE && action != SF_FAULT_SKIP)
		fail(point);
	return action == SF_FAULT_SKIP;
}

static void
require_faults(void)
{
	sf_base_require_superuser("use fault points");
	sf_base_require_preload();
}

/* securefile_fault(point text, action text, skip int, times int, pid int) */
Datum
securefile_fault(PG_FUNCTION_ARGS)
{
	FaultSlot  *slot;
	SfFaultAction action;

	require_faults();
	sf_base_refuse_nulls(fcinfo, 0, 3, "point, action, skip and times");
	slot = find_point(text_to_cstring(PG_GETARG_TEXT_PP(0)));
	action = find_action(text_to_cstring(PG_GETARG_TEXT_PP(1)));
	arm(slot, action, PG_GETARG_INT32(2), PG_GETARG_INT32(3),
		PG_ARGISNULL(4) ? 0 : PG_GETARG_INT32(4));
	PG_RETURN_VOID();
}

/* securefile_fault_fired(point text): how often since server start or reset */
Datum
securefile_fault_fired(PG_FUNCTION_ARGS)
{
	FaultSlot  *slot;
	uint64		fired;

	require_faults();
	slot = find_point(text_to_cstring(PG_GETARG_TEXT_PP(0)));
	(void) SF_BREAKS(f1);
	SpinLockAcquire(&slot->lock);
	fired = slot->fired;
	SpinLockRelease(&slot->lock);
	PG_RETURN_INT64((int64) fired);
}

/* securefile_fault_reset(): disarm all points and forget what fired */
Datum
securefile_fault_reset(PG_FUNCTION_ARGS)
{
	require_faults();
	for (int i = 0; i < SF_FAULT_COUNT; i++)
	{
		arm(&slots[i], SF_FAULT_NONE, 0, 0, 0);
		SpinLockAcquire(&slots[i].lock);
		slots[i].fired = 0;
		SpinLockRelease(&slots[i].lock);
	}
	PG_RETURN_VOID();
}

#else							/* not SF_FAULTS */

static void
refuse_faults(void)
{
	ereport(ERROR,
			(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
			 errmsg("securefile was not built with fault points"),
			 errhint("Build it for tests with \"make clean\" and \"make FAULTS=1\".")));
}

#define REFUSED(name) \
	Datum \
	name(PG_FUNCTION_ARGS) \
	{ \
		refuse_faults(); \
		PG_RETURN_NULL(); \
	} \
	extern Datum name(PG_FUNCTION_ARGS)

REFUSED(securefile_fault);
REFUSED(securefile_fault_fired);
REFUSED(securefile_fault_reset);

#endif							/* SF_FAULTS */
