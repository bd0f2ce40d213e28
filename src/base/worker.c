/*-------------------------------------------------------------------------
 *
 * worker.c
 *	  Start and beginning of background workers.
 *
 *-------------------------------------------------------------------------
 */
#include "base/base.h"

#include "base/worker.h"
#include "miscadmin.h"
#include "postmaster/interrupt.h"
#include "utils/guc.h"

static BackgroundWorker
describe(const SfWorker *worker, Oid db)
{
	BackgroundWorker described = {0};

	described.bgw_flags = BGWORKER_SHMEM_ACCESS | BGWORKER_BACKEND_DATABASE_CONNECTION;
	described.bgw_start_time = worker->start;
	described.bgw_restart_time = worker->restart_s;
	described.bgw_main_arg = ObjectIdGetDatum(db);
	strlcpy(described.bgw_library_name, "securefile", sizeof(described.bgw_library_name));
	strlcpy(described.bgw_function_name, worker->function, sizeof(described.bgw_function_name));
	strlcpy(described.bgw_name, worker->name, sizeof(described.bgw_name));
	strlcpy(described.bgw_type, worker->name, sizeof(described.bgw_type));
	SF_ASSERT(worker->extra_bytes <= SF_WORKER_EXTRA);
	if (worker->extra != NULL)
		memcpy(described.bgw_extra, worker->extra, worker->extra_bytes);
	return described;
}

void
sf_base_worker_register(const SfWorker *worker)
{
	BackgroundWorker described = describe(worker, InvalidOid);

	SF_ASSERT(process_shared_preload_libraries_in_progress);
	RegisterBackgroundWorker(&described);
}

BackgroundWorkerHandle *
sf_base_worker_start(const SfWorker *worker, Oid db)
{
	BackgroundWorker described = describe(worker, db);
	BackgroundWorkerHandle *handle;

	SF_ASSERT(OidIsValid(db));
	described.bgw_notify_pid = MyProcPid;
	return RegisterDynamicBackgroundWorker(&described, &handle) ? handle : NULL;
}

void
sf_base_worker_begin(Oid db, void (*on_sigterm) (SIGNAL_ARGS))
{
	pqsignal(SIGHUP, SignalHandlerForConfigReload);
	pqsignal(SIGTERM, on_sigterm);
	BackgroundWorkerUnblockSignals();
	BackgroundWorkerInitializeConnectionByOid(db, InvalidOid, 0);
}

bool
sf_base_worker_reloads(void)
{
	if (!ConfigReloadPending)
		return false;
	ConfigReloadPending = false;
	ProcessConfigFile(PGC_SIGHUP);
	return true;
}
