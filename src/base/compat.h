/*-------------------------------------------------------------------------
 *
 * compat.h
 *	  Every difference between the PostgreSQL versions we build for.
 *
 * No other file tests PG_VERSION_NUM.
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

#if PG_VERSION_NUM >= 160000
#include "storage/relfilelocator.h"
typedef RelFileLocator SfNode;
#define SfNodeSpc(n)	((n).spcOid)
#define SfNodeDb(n)		((n).dbOid)
#define SfNodeRel(n)	((n).relNumber)
#define SfRelNode(rel)	((rel)->rd_locator)
#define SfNodeEquals(a, b) RelFileLocatorEquals(a, b)
#else
#include "storage/relfilenode.h"
typedef RelFileNode SfNode;
#define SfNodeSpc(n)	((n).spcNode)
#define SfNodeDb(n)		((n).dbNode)
#define SfNodeRel(n)	((n).relNode)
#define SfRelNode(rel)	((rel)->rd_node)
#define SfNodeEquals(a, b) RelFileNodeEquals(a, b)
#endif

/* 16 renamed new_filenode to new_filelocator throughout */
#if PG_VERSION_NUM >= 160000
#define sf_compat_set_new_relfilenode(rel, persistence) \
	RelationSetNewRelfilenumber(rel, persistence)
#else
#define sf_compat_set_new_relfilenode(rel, persistence) \
	RelationSetNewRelfilenode(rel, persistence)
#endif

/* 16 tells the conflict resolver whether the relation is a catalog */
#if PG_VERSION_NUM >= 160000
#define sf_compat_resolve_conflict(horizon, node) \
	ResolveRecoveryConflictWithSnapshot(horizon, false, node)
#else
#define sf_compat_resolve_conflict(horizon, node) \
	ResolveRecoveryConflictWithSnapshot(horizon, node)
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

/* 16 has one ownership check for objects of all classes */
#if PG_VERSION_NUM >= 160000
#include "catalog/pg_class.h"
#include "utils/acl.h"
#define sf_compat_owns_table(table_oid, role) \
	object_ownercheck(RelationRelationId, table_oid, role)
#else
#include "utils/acl.h"
#define sf_compat_owns_table(table_oid, role) \
	pg_class_ownercheck(table_oid, role)
#endif

/* Did this transaction give a relation that is older new storage? */
#if PG_VERSION_NUM >= 160000
#define sf_compat_storage_replaced(rel) \
	((rel)->rd_firstRelfilelocatorSubid != InvalidSubTransactionId)
#else
#define sf_compat_storage_replaced(rel) \
	((rel)->rd_firstRelfilenodeSubid != InvalidSubTransactionId)
#endif

#endif							/* SF_COMPAT_H */
