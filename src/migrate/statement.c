/*-------------------------------------------------------------------------
 *
 * statement.c
 *	  Statements that a migration runs, and the lock of its table.
 *
 * Statements run as the owner of the table, with every caller of the procedure: expressions of the
 * table, which are the owner's code, get no other rights by it.  Indexes are made, and get
 * their names, with the rights of the caller, since that asks for a right on the schema.
 *
 * A transaction that waits for an exclusive lock makes all wait that come after it.  So each try
 * waits for a short time only, and between two tries everybody else has their turn.
 *
 *-------------------------------------------------------------------------
 */
#include "base/base.h"

#include "access/xact.h"
#include "executor/spi.h"
#include "migrate/migrate_internal.h"
#include "miscadmin.h"
#include "pgstat.h"
#include "storage/latch.h"
#include "storage/lmgr.h"
#include "tcop/dest.h"
#include "tcop/utility.h"
#include "utils/guc.h"
#include "utils/memutils.h"
#include "utils/resowner.h"
#include "utils/snapmgr.h"

/* The pause between two tries gets longer up to this. */
#define MOST_PAUSE_MS	2000

static uint32 wait_event = 0;

static void
set_local(const char *name, const char *value)
{
	(void) set_config_option(name, value, PGC_USERSET, PGC_S_SESSION, GUC_ACTION_SAVE, true, 0,
							 false);
}

/* Rights and search_path for a while; an error gives them back, too. */
typedef struct Acting
{
	Oid			save_userid;
	int			save_sec_context;
	int			nest_level;
} Acting;

static Acting
act_as(Oid role)
{
	Acting		acting;

	GetUserIdAndSecContext(&acting.save_userid, &acting.save_sec_context);
	SetUserIdAndSecContext(role, acting.save_sec_context | SECURITY_LOCAL_USERID_CHANGE);
	acting.nest_level = NewGUCNestLevel();
	set_local("search_path", "pg_catalog, pg_temp");
	/* that a column is dropped with its values needs no WARNING here */
	set_local("client_min_messages", "error");
	return acting;
}

static void
end_acting(const Acting *acting)
{
	AtEOXact_GUC(false, acting->nest_level);
	SetUserIdAndSecContext(acting->save_userid, acting->save_sec_context);
}

static void
run_as(Oid role, const char *statement)
{
	Acting		acting = act_as(role);
	int			rc = SPI_execute(statement, false, 0);

	if (rc < 0)
		elog(ERROR, "statement of a migration failed: %s", SPI_result_code_string(rc));
	end_acting(&acting);
}

void
sfi_migrate_run_tree(Oid role, Node *tree, const char *text)
{
	PlannedStmt *stmt = makeNode(PlannedStmt);
	Acting		acting = act_as(role);

	stmt->commandType = CMD_UTILITY;
	stmt->canSetTag = true;
	stmt->utilityStmt = tree;
	PushActiveSnapshot(GetTransactionSnapshot());
	ProcessUtility(stmt, text, false, PROCESS_UTILITY_QUERY, NULL, NULL, None_Receiver, NULL);
	PopActiveSnapshot();
	CommandCounterIncrement();
	end_acting(&acting);
}

/* Long statements are cut nowhere: psprintf() would do the same, were it not for the list. */
static char *formatted(const char *format, va_list args) pg_attribute_printf(1, 0);

static char *
formatted(const char *format, va_list args)
{
	Size		size = 1024;

	for (;;)
	{
		char	   *text = palloc(size);
		va_list		copy;
		Size		needed;

		va_copy(copy, args);
		needed = pvsnprintf(text, size, format, copy);
		va_end(copy);
		if (needed < size)
			return text;
		pfree(text);
		size = needed;
	}
}

void
sfi_migrate_run(const SfMigration *m, const char *format, ...)
{
	va_list		args;

	va_start(args, format);
	run_as(m->owner, formatted(format, args));
	va_end(args);
}

void
sfi_migrate_run_as_caller(const char *format, ...)
{
	va_list		args;

	va_start(args, format);
	run_as(GetUserId(), formatted(format, args));
	va_end(args);
}

void
sfi_migrate_pause(long ms)
{
	SF_WAIT_EVENT_DEFINE(wait_event, "SecurefileMigrate");
	(void) WaitLatch(MyLatch, WL_LATCH_SET | WL_TIMEOUT | WL_EXIT_ON_PM_DEATH, ms, wait_event);
	ResetLatch(MyLatch);
	CHECK_FOR_INTERRUPTS();
}

/* One try, in a subtransaction: an error that is no lack of a lock is thrown on. */
static bool
try_lock(const SfMigration *m)
{
	MemoryContext context = CurrentMemoryContext;
	ResourceOwner owner = CurrentResourceOwner;
	volatile bool locked = false;

	BeginInternalSubTransaction(NULL);
	MemoryContextSwitchTo(context);
	PG_TRY();
	{
		int			nest_level = NewGUCNestLevel();
		char		timeout[16];

		snprintf(timeout, sizeof(timeout), "%d", m->options.lock_timeout_ms);
		set_local("lock_timeout", timeout);
		LockRelationOid(m->table_oid, AccessExclusiveLock);
		AtEOXact_GUC(false, nest_level);
		ReleaseCurrentSubTransaction();
		locked = true;
	}
	PG_CATCH();
	{
		ErrorData  *error;

		MemoryContextSwitchTo(context);
		error = CopyErrorData();
		if (error->sqlerrcode != ERRCODE_LOCK_NOT_AVAILABLE &&
			error->sqlerrcode != ERRCODE_T_R_DEADLOCK_DETECTED)
			PG_RE_THROW();
		FlushErrorState();
		RollbackAndReleaseCurrentSubTransaction();
		FreeErrorData(error);
	}
	PG_END_TRY();
	MemoryContextSwitchTo(context);
	CurrentResourceOwner = owner;
	return locked;
}

void
sfi_migrate_lock(const SfMigration *m)
{
	for (int i = 1; !try_lock(m); i++)
	{
		SPI_commit();
		if (i >= m->options.lock_tries)
			ereport(ERROR,
					(errcode(ERRCODE_LOCK_NOT_AVAILABLE),
					 errmsg("could not lock table %s exclusively for a moment, in %d tries",
							m->table, i),
					 errdetail("All that was brought over stays."),
					 errhint("Call securefile_migrate() again to go on when no long transaction uses the table, or with a longer lock_timeout.")));
		sfi_migrate_pause(Min(MOST_PAUSE_MS, 20L * i));
	}
}
