/*-------------------------------------------------------------------------
 *
 * securefile.c
 *	  Module entry: settings, hooks, shared memory, and the one transaction
 *	  callback that calls the rooms in a written order.
 *
 * PostgreSQL puts a new callback at the head of its list, so rooms that
 * registered their own would run in an accidental order.  Here it is, top
 * down; each line may rely on the ones above it having run:
 *
 *	 pre-commit, pre-prepare	tables have all their triggers and segments, rows have
 *								their own values, handles are closed, gather buffers are
 *								flushed and durable, space entries are in WAL (may throw:
 *								the transaction then aborts)
 *	 commit, prepare, abort		nothing below may throw any more
 *		 abort only				I/O in flight is waited for, before its space
 *								can be given to another
 *		 read					forgets units that were read ahead
 *		 undo					forgets what savepoints would bring back
 *		 write					forgets its objects and buffers
 *		 space					gives back lent space that was not used
 *		 stats					hands local counters to shared memory
 *		 memory					counts the memory that the process keeps, or gives it back
 *
 *-------------------------------------------------------------------------
 */
#include "base/base.h"

#include "access/xact.h"
#include "base/shared.h"
#include "base/undo.h"
#include "config/config.h"
#include "ddl/ddl.h"
#include "fetch/fetch.h"
#include "fmgr.h"
#include "io/io.h"
#include "keys/keys.h"
#include "miscadmin.h"
#include "monitor/monitor.h"
#include "read/read.h"
#include "space/keep.h"
#include "space/lend.h"
#include "space/share_records.h"
#include "space/space.h"
#include "space/upgrade.h"
#include "sql/sql.h"
#include "stats/stats.h"
#include "storage/ipc.h"
#include "stream/stream.h"
#include "write/write.h"

PG_MODULE_MAGIC;

void		_PG_init(void);

static shmem_request_hook_type prev_shmem_request_hook;
static shmem_startup_hook_type prev_shmem_startup_hook;

/* The shared memory of all rooms. */
static const SfSharedArea *const areas[] = {
	&sf_base_area,
#ifdef SF_FAULTS
	&sf_fault_area,
#endif
	&sf_io_cuts_area,
	&sf_io_dirty_area,
	&sf_io_parts_area,
	&sf_io_watch_area,
	&sf_io_memory_area,
	&sf_io_notices_area,
	&sf_stats_area,
	&sf_stats_columns_area,
	&sf_stats_progress_area,
	&sf_stats_workers_area,
	&sf_stats_workers_columns_area,
	&sf_space_parked_area,
	&sf_space_dispenser_area,
	&sf_space_proved_area,
	&sf_space_keep_area,
	&sf_keys_area,
	&sf_monitor_area,
	&sf_fetch_area,
	&sf_fetch_columns_area,
};

static const SfSpaceAbove space_above = {
	.describe = sf_ddl_describe,
	.owned_of_share = sf_object_of_share,
	.keys_changed = sf_keys_raise_generation
};

static void
shmem_request(void)
{
	if (prev_shmem_request_hook)
		prev_shmem_request_hook();
	sf_base_shared_request(areas, lengthof(areas));
}

/* At server start, and again after a crash restart. */
static void
shmem_startup(void)
{
	if (prev_shmem_startup_hook)
		prev_shmem_startup_hook();
	sf_base_shared_make(areas, lengthof(areas));
	sf_io_note_restored();
	if (IsBinaryUpgrade)
		sf_space_upgrade_prepare();
	sf_keys_load_at_start();
}

/* What is only known in memory, and of this transaction alone, goes with it. */
static void
forget_transaction(void)
{
	sf_ddl_seen_at_end();
	sf_ddl_swapped_at_end();
	sf_ddl_notes_at_end();
	sf_ddl_replaced_at_end();
	sf_read_at_end();
	sf_sql_send_at_end();
	sf_undo_at_end();
}

/* End the transaction in write/, and wake the monitor if that left work to do. */
static void
end_writing(bool commit)
{
	if (sf_write_at_end(commit))
		sf_monitor_wake(MyDatabaseId);
}

/*
 * End of a transaction that committed.  An ERROR here would be a PANIC, so
 * the fault point only waits or kills.
 */
static void
at_commit(void)
{
	(void) SF_FAULT_IO(commit_done);
	if (sf_ddl_shells_at_end())
		sf_monitor_wake(MyDatabaseId);
	forget_transaction();
	end_writing(true);
	if (sf_space_at_end(SF_END_COMMITTED))
		sf_monitor_wake(MyDatabaseId);
	if (sf_keys_at_end())
		sf_monitor_wake(MyDatabaseId);
	sf_stats_flush();
	sf_io_memory_at_end();
}

static void
at_prepare(void)
{
	(void) SF_FAULT_IO(prepare_done);
	(void) sf_ddl_shells_at_end();
	forget_transaction();
	end_writing(true);
	(void) sf_space_at_end(SF_END_RUNNING);
	(void) sf_keys_at_end();
	sf_stats_flush();
	sf_io_memory_at_end();
}

static void
at_abort(void)
{
	(void) SF_FAULT_IO(abort_start);
	sf_io_reap_all();
	sf_stream_handle_forget_all();
	(void) sf_ddl_shells_at_end();
	forget_transaction();
	end_writing(false);
	(void) sf_space_at_end(SF_END_ABORTED);
	(void) sf_keys_at_end();
	sf_stats_progress_end();
	sf_stats_flush();
	sf_io_memory_at_end();
}

/* A parallel worker reads only: nothing to confirm or give back. */
static void
at_parallel_end(void)
{
	sf_io_reap_all();
	sf_read_at_end();
	sf_stats_flush();
	sf_io_memory_at_end();
}

static void
xact_callback(XactEvent event, void *arg)
{
	switch (event)
	{
		case XACT_EVENT_PRE_PREPARE:
			sf_keys_refuse_prepare();
			/* FALLTHROUGH */
		case XACT_EVENT_PRE_COMMIT:
			sf_ddl_require_followed();
			sf_ddl_bring_home_at_end();
			sf_stream_handle_close_all();
			sf_write_pre_commit();
			sf_space_pre_commit();
			break;
		case XACT_EVENT_COMMIT:
			at_commit();
			break;
		case XACT_EVENT_PREPARE:
			at_prepare();
			break;
		case XACT_EVENT_ABORT:
			at_abort();
			break;
		case XACT_EVENT_PARALLEL_COMMIT:
		case XACT_EVENT_PARALLEL_ABORT:
			at_parallel_end();
			break;
		case XACT_EVENT_PARALLEL_PRE_COMMIT:
			break;
	}
}

static void
subxact_callback(SubXactEvent event, SubTransactionId my_subid,
				 SubTransactionId parent_subid, void *arg)
{
	int			level = GetCurrentTransactionNestLevel();

	switch (event)
	{
		case SUBXACT_EVENT_COMMIT_SUB:
			sf_ddl_at_subcommit(level);
			sf_stream_handle_at_subcommit(level);
			sf_undo_at_subcommit(level);
			sf_write_at_subcommit(level);
			sf_space_at_subend(level, true);
			break;
		case SUBXACT_EVENT_ABORT_SUB:
			sf_io_reap_all();
			sf_ddl_at_subabort(level);
			sf_stream_handle_at_subabort(level);
			sf_undo_at_subabort(level);
			sf_write_at_subabort(level);
			sf_space_at_subend(level, false);
			break;
		case SUBXACT_EVENT_START_SUB:
		case SUBXACT_EVENT_PRE_COMMIT_SUB:
			break;
	}
}

/*
 * Without preload only INLINE values work: no hook, no callback, no shared
 * memory; everything else is refused by sf_base_require_preload().
 */
void
_PG_init(void)
{
	sf_config_define();

	if (!process_shared_preload_libraries_in_progress)
	{
		/* pg_upgrade loads the library, to see that it is there */
		if (IsBinaryUpgrade)
			sf_base_require_preload();
		return;
	}
	sf_base_preloaded = true;
	sf_base_clock_begin();

	sf_keys_map();
	sf_space_install(&space_above);
	sf_read_set_overlay(sf_write_overlay);
	sf_monitor_set_tidy(sf_ddl_tidy_shell);

	prev_shmem_request_hook = shmem_request_hook;
	shmem_request_hook = shmem_request;
	prev_shmem_startup_hook = shmem_startup_hook;
	shmem_startup_hook = shmem_startup;

	sf_ddl_install_hooks();
	sf_ddl_watch_version();
	sf_sql_wire_install();
	sf_sql_explain_install();
	if (!IsBinaryUpgrade)
	{
		/* if there is room for one only: writers can do without the syncer */
		sf_monitor_register();
		sf_io_register_syncer();
	}

	RegisterXactCallback(xact_callback, NULL);
	RegisterSubXactCallback(subxact_callback, NULL);
}
