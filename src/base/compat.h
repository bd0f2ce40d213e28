/*-------------------------------------------------------------------------
 *
 * compat.h
 *	  Every difference between the PostgreSQL versions that securefile is built for.
 *
 * No other file tests PG_VERSION_NUM.  Insides of the server that do not differ
 * between versions are in server.h.
 *
 *-------------------------------------------------------------------------
 */
#ifndef SF_COMPAT_H
#define SF_COMPAT_H

#include "storage/smgr.h"
#include "utils/rel.h"

#if PG_VERSION_NUM < 150000
#error "securefile needs PostgreSQL 15 or later: custom WAL resource managers"
#endif

/* 18 has C11's place for noreturn, in front, and C99's formats */
#if PG_VERSION_NUM >= 180000
#define SF_NORETURN		pg_noreturn
#define SF_HEX64_FORMAT "%016" PRIx64
#else
#define SF_NORETURN		pg_attribute_noreturn()
#define SF_HEX64_FORMAT "%016" INT64_MODIFIER "x"
#endif

/* 16 moved the access to varlena values out of postgres.h */
#if PG_VERSION_NUM >= 160000
#include "varatt.h"
#endif

/*
 * 16 renamed filenode to filelocator, and its number to relfilenumber.
 * sf_compat_storage_replaced(): did this transaction replace the storage of a relation that
 * existed before it?
 */
#if PG_VERSION_NUM >= 160000
#include "storage/relfilelocator.h"
#include "utils/relfilenumbermap.h"
typedef RelFileLocator SfStorage;
#define SfStorageSpc(n)	((n).spcOid)
#define SfStorageDb(n)		((n).dbOid)
#define SfStorageRel(n)	((n).relNumber)
#define SfRelStorage(rel)	((rel)->rd_locator)
#define SfStorageEquals(a, b) RelFileLocatorEquals(a, b)
#define SF_AM_SET_NEW_STORAGE	relation_set_new_filelocator
#define sf_compat_set_new_relfilenode(rel, persistence) \
	RelationSetNewRelfilenumber(rel, persistence)
#define sf_compat_relid_of_storage(spc, number) RelidByRelfilenumber(spc, number)
#define sf_compat_skips_wal(storage)	RelFileLocatorSkippingWAL(storage)
#define sf_compat_new_number(spc, persistence) GetNewRelFileNumber(spc, NULL, persistence)
#define sf_compat_assume_new_storage(rel) RelationAssumeNewRelfilelocator(rel)
#define SfNewStorageSubid(rel) ((rel)->rd_newRelfilelocatorSubid)
#define sf_compat_storage_replaced(rel) \
	((rel)->rd_firstRelfilelocatorSubid != InvalidSubTransactionId)
#else
#include "storage/relfilenode.h"
#include "utils/relfilenodemap.h"
typedef RelFileNode SfStorage;
#define SfStorageSpc(n)	((n).spcNode)
#define SfStorageDb(n)		((n).dbNode)
#define SfStorageRel(n)	((n).relNode)
#define SfRelStorage(rel)	((rel)->rd_node)
#define SfStorageEquals(a, b) RelFileNodeEquals(a, b)
#define SF_AM_SET_NEW_STORAGE	relation_set_new_filenode
#define sf_compat_set_new_relfilenode(rel, persistence) \
	RelationSetNewRelfilenode(rel, persistence)
#define sf_compat_relid_of_storage(spc, number) RelidByRelfilenode(spc, number)
#define sf_compat_skips_wal(storage)	RelFileNodeSkippingWAL(storage)
#define sf_compat_new_number(spc, persistence) GetNewRelFileNode(spc, NULL, persistence)
#define sf_compat_assume_new_storage(rel) RelationAssumeNewRelfilenode(rel)
#define SfNewStorageSubid(rel) ((rel)->rd_newRelfilenodeSubid)
#define sf_compat_storage_replaced(rel) \
	((rel)->rd_firstRelfilenodeSubid != InvalidSubTransactionId)
#endif

/* 16 has errors of input functions that are noted in the context of the call; false: one was */
#if PG_VERSION_NUM >= 160000
#define sf_compat_bytea_in(text, context, result) \
	DirectInputFunctionCallSafe(byteain, text, BYTEAOID, -1, context, result)
#else
#define sf_compat_bytea_in(text, context, result) \
	(*(result) = DirectFunctionCall1(byteain, CStringGetDatum(text)), true)
#endif
#if PG_VERSION_NUM >= 160000
#define sf_compat_input_error(context, ...)	errsave(context, (__VA_ARGS__))
#else
#define sf_compat_input_error(context, ...)	ereport(ERROR, (__VA_ARGS__))
#endif

/* 16 can do direct I/O, and then wants the buffer of smgrread() aligned */
#if PG_VERSION_NUM >= 160000
typedef PGIOAlignedBlock SfIoBlock;
#else
typedef PGAlignedBlock SfIoBlock;
#endif

/*
 * 17 split backend ids from process numbers, of which each process has its own; before, its
 * place among all has one.  It has the two parts of a virtual transaction id in a struct, and
 * renamed ShmemVariableCache, whose user here holds XactTruncationLock.
 */
#if PG_VERSION_NUM >= 170000
#define sf_compat_smgropen(storage)	smgropen(storage, INVALID_PROC_NUMBER)
#define sf_compat_process_number()	MyProcNumber
#define SfProcLxid(proc)	((proc)->vxid.lxid)
#define sf_compat_oldest_clog_xid()	(TransamVariables->oldestClogXid)
#else
#define sf_compat_smgropen(storage)	smgropen(storage, InvalidBackendId)
#define sf_compat_process_number()	(MyProc->pgprocno)
#define SfProcLxid(proc)	((proc)->lxid)
#define sf_compat_oldest_clog_xid()	(ShmemVariableCache->oldestClogXid)
#endif

/*
 * Add a page to storage that nobody else knows yet, and lock it.  16 has a
 * function for that, and 17 crashes when it is done the old way.
 */
#if PG_VERSION_NUM >= 160000
#define sf_compat_first_page(storage) \
	ExtendBufferedRel(BMR_SMGR(sf_compat_smgropen(storage), RELPERSISTENCE_PERMANENT), \
					  MAIN_FORKNUM, NULL, \
					  EB_SKIP_EXTENSION_LOCK | EB_LOCK_FIRST)
#else
#define sf_compat_first_page(storage) \
	ReadBufferWithoutRelcache(storage, MAIN_FORKNUM, P_NEW, RBM_ZERO_AND_LOCK, NULL, true)
#endif

/* 16 knows updates that only summarizing indexes (BRIN) need to hear of */
#if PG_VERSION_NUM >= 160000
#include "access/tableam.h"
typedef TU_UpdateIndexes SfUpdateIndexes;
#define sf_compat_any_index(update)	((update) != TU_None)
#define sf_compat_insert_index_tuples(result_rel, slot, estate, update) \
	ExecInsertIndexTuples(result_rel, slot, estate, true, false, NULL, NIL, \
						  (update) == TU_Summarizing)
#else
typedef bool SfUpdateIndexes;
#define sf_compat_any_index(update)	(update)
#define sf_compat_insert_index_tuples(result_rel, slot, estate, update) \
	ExecInsertIndexTuples(result_rel, slot, estate, true, false, NULL, NIL)
#endif

/* 17 gives ANALYZE's blocks to a table access method as a stream */
#if PG_VERSION_NUM >= 170000
#define SF_ANALYZE_BLOCK_ARGS \
	TableScanDesc scan, struct ReadStream *stream
#else
#define SF_ANALYZE_BLOCK_ARGS \
	TableScanDesc scan, BlockNumber block, BufferAccessStrategy strategy
#endif

/* 17 keeps of a column's pg_attribute row only the target; may be assigned */
#if PG_VERSION_NUM >= 170000
#define sf_compat_stats_target(stats)	((stats)->attstattarget)
#else
#define sf_compat_stats_target(stats)	((stats)->attr->attstattarget)
#endif

/* 18 tells vacuum_delay_point() that ANALYZE calls */
#if PG_VERSION_NUM >= 180000
#define sf_compat_analyze_delay_point() vacuum_delay_point(true)
#else
#define sf_compat_analyze_delay_point() vacuum_delay_point()
#endif

/* 18 counts frozen pages too; a segment has no tuples and no such pages */
#if PG_VERSION_NUM >= 180000
#define sf_compat_update_relstats(rel, pages, frozen, multi, \
								  frozen_updated, multi_updated) \
	vac_update_relstats(rel, pages, 0, 0, 0, false, frozen, multi, \
						frozen_updated, multi_updated, false)
#else
#define sf_compat_update_relstats(rel, pages, frozen, multi, \
								  frozen_updated, multi_updated) \
	vac_update_relstats(rel, pages, 0, 0, false, frozen, multi, \
						frozen_updated, multi_updated, false)
#endif

/* 16 tells the conflict resolver whether the relation is a catalog */
#if PG_VERSION_NUM >= 160000
#define sf_compat_resolve_conflict(horizon, storage) \
	ResolveRecoveryConflictWithSnapshot(horizon, false, storage)
#else
#define sf_compat_resolve_conflict(horizon, storage) \
	ResolveRecoveryConflictWithSnapshot(horizon, storage)
#endif

/* 17 wants named wait events of extensions; before, one class for all */
#if PG_VERSION_NUM >= 170000
#include "utils/wait_event.h"
#define SF_WAIT_EVENT_DEFINE(var, name) \
	do { if ((var) == 0) (var) = WaitEventExtensionNew(name); } while (0)
#else
#define SF_WAIT_EVENT_DEFINE(var, name) \
	do { (void) (name); (var) = PG_WAIT_EXTENSION; } while (0)
#endif

/* 16 has one check of ownership, and one of privileges, for all classes */
#if PG_VERSION_NUM >= 160000
#include "catalog/pg_class.h"
#include "catalog/pg_database.h"
#include "catalog/pg_tablespace.h"
#include "utils/acl.h"
#define sf_compat_tablespace_aclcheck(tablespace, role, mode) \
	object_aclcheck(TableSpaceRelationId, tablespace, role, mode)
#define sf_compat_owns_table(table_oid, role) \
	object_ownercheck(RelationRelationId, table_oid, role)
#define sf_compat_owns_database(database, role) \
	object_ownercheck(DatabaseRelationId, database, role)
#else
#include "utils/acl.h"
#define sf_compat_tablespace_aclcheck(tablespace, role, mode) \
	pg_tablespace_aclcheck(tablespace, role, mode)
#define sf_compat_owns_table(table_oid, role) \
	pg_class_ownercheck(table_oid, role)
#define sf_compat_owns_database(database, role) \
	pg_database_ownercheck(database, role)
#endif

/* The type that a text names, with its modifier; 16 can be told not to throw. */
#include "parser/parse_type.h"
#if PG_VERSION_NUM >= 160000
#define sf_compat_parse_type(text, type, typmod) ((void) parseTypeString(text, type, typmod, NULL))
#else
#define sf_compat_parse_type(text, type, typmod) parseTypeString(text, type, typmod, false)
#endif

/* 17 has a privilege for VACUUM, which the owner has */
#if PG_VERSION_NUM >= 170000
#define sf_compat_may_maintain(table_oid, role) \
	(pg_class_aclcheck(table_oid, role, ACL_MAINTAIN) == ACLCHECK_OK)
#else
#define sf_compat_may_maintain(table_oid, role) sf_compat_owns_table(table_oid, role)
#endif

/* 17 asks whether a stronger lock will do */
#if PG_VERSION_NUM >= 170000
#define sf_compat_lock_held(tag, mode)	LockHeldByMe(tag, mode, false)
#else
#define sf_compat_lock_held(tag, mode)	LockHeldByMe(tag, mode)
#endif

/* 17 runs an owner's code under a search_path that no caller chooses */
#if PG_VERSION_NUM >= 170000
#define sf_compat_restrict_search_path()	RestrictSearchPath()
#else
#define sf_compat_restrict_search_path()	((void) 0)
#endif

/* 17 gives the socket large messages as they are */
#define SF_SERVER_SENDS_LARGE	(PG_VERSION_NUM >= 170000)

/* 18 returns paths of relations by value */
#if PG_VERSION_NUM >= 180000
#define sf_compat_rel_path(storage)	(relpathperm(storage, MAIN_FORKNUM).str)
#else
#define sf_compat_rel_path(storage)	relpathperm(storage, MAIN_FORKNUM)
#endif

/* 18 tells of a failed checksum in another way */
#if PG_VERSION_NUM >= 180000
#define sf_compat_page_is_verified(page, n) \
	PageIsVerified(page, n, PIV_LOG_WARNING, NULL)
#else
#define sf_compat_page_is_verified(page, n) \
	PageIsVerifiedExtended(page, n, PIV_LOG_WARNING)
#endif

/* Set a signal handler; the one there was before, which 18 does not tell: the usual one. */
#if PG_VERSION_NUM >= 180000
#define sf_compat_set_handler(signo, func, usual)	(pqsignal(signo, func), (usual))
#else
#define sf_compat_set_handler(signo, func, usual)	pqsignal(signo, func)
#endif

/*
 * Give up the reads of pages that an error has ended.  16 and 17 do it with the resource owner
 * of a read; 18 has asynchronous I/O, too.
 */
#if PG_VERSION_NUM >= 180000
#include "storage/aio_subsys.h"
#define sf_compat_abort_buffer_io() pgaio_error_cleanup()
#elif PG_VERSION_NUM >= 160000
#define sf_compat_abort_buffer_io() ((void) 0)
#else
#include "storage/bufmgr.h"
#define sf_compat_abort_buffer_io() AbortBufferIO()
#endif

/* A connection to a database of another server; 16 and 17 have more arguments. */
#if PG_VERSION_NUM >= 170000
#define sf_compat_walrcv_connect(conninfo, appname, error) \
	walrcv_connect(conninfo, true, true, false, appname, error)
#elif PG_VERSION_NUM >= 160000
#define sf_compat_walrcv_connect(conninfo, appname, error) \
	walrcv_connect(conninfo, true, false, appname, error)
#else
#define sf_compat_walrcv_connect(conninfo, appname, error) \
	walrcv_connect(conninfo, true, appname, error)
#endif

/* The columns of a relation that a plan reads, by attribute number; 16 keeps them elsewhere. */
#if PG_VERSION_NUM >= 160000
#include "parser/parse_relation.h"
#define sf_compat_selected_columns(plan, rte) \
	((rte)->perminfoindex == 0 ? NULL : getRTEPermissionInfo((plan)->permInfos, rte)->selectedCols)
#else
#define sf_compat_selected_columns(plan, rte) ((rte)->selectedCols)
#endif

/* Whether a plan runs once only; 18 does not ask, and has already_executed decide alone. */
#if PG_VERSION_NUM >= 180000
#define SF_EXECUTOR_RUN_ARGS \
	QueryDesc *query, ScanDirection direction, uint64 count
#define sf_compat_executor_run(run, query, direction, count, once) \
	run(query, direction, count)
#else
#define SF_EXECUTOR_RUN_ARGS \
	QueryDesc *query, ScanDirection direction, uint64 count, bool execute_once
#define sf_compat_executor_run(run, query, direction, count, once) \
	run(query, direction, count, once)
#endif

/* 16 renamed the table of a counter */
#if PG_VERSION_NUM >= 160000
#define SfCountedTable(status)	((status)->id)
#else
#define SfCountedTable(status)	((status)->t_id)
#endif

/*
 * Times that a statement has waited for blocks: 17 tells shared blocks from local ones, and 16
 * has times in nanoseconds.  us: microseconds, below 2^53.
 */
#include "executor/instrument.h"
#if PG_VERSION_NUM >= 170000
#define SF_BLOCK_READ_TIME	pgBufferUsage.shared_blk_read_time
#define SF_BLOCK_WRITE_TIME pgBufferUsage.shared_blk_write_time
#else
#define SF_BLOCK_READ_TIME	pgBufferUsage.blk_read_time
#define SF_BLOCK_WRITE_TIME pgBufferUsage.blk_write_time
#endif
#if PG_VERSION_NUM >= 160000
#define sf_compat_time_of_us(us)	((instr_time) {.ticks = (int64) (us) * 1000})
#else
#define sf_compat_time_of_us(us) \
	((instr_time) {.tv_sec = (us) / 1000000, .tv_nsec = (us) % 1000000 * 1000})
#endif

/* 18 lets an extension add options to EXPLAIN */
#define SF_EXPLAIN_OPTIONS		(PG_VERSION_NUM >= 180000)

#endif							/* SF_COMPAT_H */
