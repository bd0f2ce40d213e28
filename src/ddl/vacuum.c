/*-------------------------------------------------------------------------
 *
 * vacuum.c
 *	  VACUUM of a table, or of the database, takes the segments along.
 *
 * Core knows that a table has a TOAST table, not that it has segments.  Without
 * this only autovacuum, which looks for relations of kind 't', would advance
 * their relfrozenxid, and in single-user mode, where the server sends people
 * near wraparound, nobody would.
 *
 * The segments follow when the statement is through, each in a transaction of
 * its own, as core does it for each relation.  Core's vacuum() is not called
 * for them: it would ask for the rights of their owner, the bootstrap
 * superuser, and to become that one over several transactions is not safe.
 * What counts is the right to vacuum the table.  No code of a user's runs here.
 *
 *-------------------------------------------------------------------------
 */
#include "base/base.h"

#include "access/heapam.h"
#include "access/relation.h"
#include "access/tableam.h"
#include "access/xact.h"
#include "base/server.h"
#include "catalog/namespace.h"
#include "catalog/pg_class.h"
#include "catalog/pg_inherits.h"
#include "commands/defrem.h"
#include "commands/vacuum.h"
#include "ddl/command.h"
#include "miscadmin.h"
#include "utils/lsyscache.h"
#include "utils/memutils.h"
#include "utils/snapmgr.h"
#include "utils/syscache.h"

/* ---- what the statement says ---- */

bool
sfi_ddl_vacuum_option(const VacuumStmt *stmt, const char *name, bool otherwise)
{
	bool		value = otherwise;
	ListCell   *cell;

	foreach(cell, stmt->options)
	{
		DefElem    *option = lfirst(cell);

		if (strcmp(option->defname, name) == 0)
			value = defGetBoolean(option);
	}
	return value;
}

/* A statement that leaves TOAST tables out leaves segments out, which are alike. */
static bool
wants_segments(const VacuumStmt *stmt)
{
	return stmt->is_vacuumcmd && sfi_ddl_vacuum_option(stmt, "process_toast", true) &&
		!sfi_ddl_vacuum_option(stmt, "only_database_stats", false);
}

/* ---- which segments ---- */

/*
 * May the caller vacuum the table that a segment hangs on?  False as well when
 * either is gone.  Takes no lock on them: a role without the privilege must not be
 * able to queue for one, either.
 */
static bool
may_vacuum(Oid segrelid)
{
	char	   *name = get_rel_name(segrelid);
	Oid			table_oid;
	AttrNumber	attnum;

	return name != NULL && sf_space_segment_column(name, &table_oid, &attnum) &&
		SearchSysCacheExists1(RELOID, ObjectIdGetDatum(table_oid)) &&
		(sf_compat_may_maintain(table_oid, GetUserId()) ||
		 sf_compat_owns_database(MyDatabaseId, GetUserId()));
}

/*
 * The tables that the statement names, with the partitions of partitioned ones.
 * Core has found them all; what is gone since does not matter.
 */
static List *
named_tables(const VacuumStmt *stmt)
{
	List	   *tables = NIL;
	ListCell   *cell;

	foreach(cell, stmt->rels)
	{
		VacuumRelation *named = lfirst_node(VacuumRelation, cell);
		Oid			relid = named->oid;

		if (!OidIsValid(relid))
			relid = RangeVarGetRelid(named->relation, NoLock, true);
		if (get_rel_relkind(relid) == RELKIND_PARTITIONED_TABLE && named->relation->inh)
			tables = list_concat(tables, find_all_inheritors(relid, NoLock, NULL));
		else if (OidIsValid(relid))
			tables = lappend_oid(tables, relid);
	}
	return tables;
}

/* The segments of these tables, each once. */
static List *
segments_of_tables(const List *tables)
{
	List	   *segments = NIL;
	const ListCell *table;
	ListCell   *cell;

	foreach(table, tables)
	{
		foreach(cell, sfi_ddl_segments_of(lfirst_oid(table)))
		{
			SfTableSegment *segment = lfirst(cell);

			segments = lappend_oid(segments, segment->relid);
		}
	}
	list_sort(segments, list_oid_cmp);
	list_deduplicate_oid(segments);
	return segments;
}

/* The segments the caller may vacuum, in a memory context that outlives transactions. */
static List *
choose_segments(const VacuumStmt *stmt, MemoryContext context)
{
	List	   *segments = stmt->rels == NIL ? sf_space_list_segments(CurrentMemoryContext, NULL) :
		segments_of_tables(named_tables(stmt));
	List	   *chosen = NIL;
	ListCell   *cell;

	foreach(cell, segments)
	{
		MemoryContext old;

		if (!may_vacuum(lfirst_oid(cell)))
			continue;
		old = MemoryContextSwitchTo(context);
		chosen = lappend_oid(chosen, lfirst_oid(cell));
		MemoryContextSwitchTo(old);
	}
	return chosen;
}

/* ---- one segment ---- */

/*
 * Vacuum one segment in a transaction of its own.  What is gone, or locked when
 * the statement says SKIP_LOCKED, is left out without a word, as TOAST tables are.
 */
static bool
vacuum_segment(Oid segrelid, VacuumParams *params)
{
	Relation	rel;
	bool		permitted = false;

	/* its lock ends with its transaction, before the next one is locked */
	SF_ASSERT(!IsTransactionState());
	StartTransactionCommand();
	sf_server_begin_vacuum();
	PushActiveSnapshot(GetTransactionSnapshot());
	CHECK_FOR_INTERRUPTS();

	rel = vacuum_open_relation(segrelid, NULL, params->options, false,
							   ShareUpdateExclusiveLock);
	if (rel != NULL)
	{
		/* the table may have got another owner while we waited */
		SF_ASSERT(rel->rd_rel->relkind == RELKIND_TOASTVALUE);
		permitted = may_vacuum(segrelid);
		if (permitted)
			table_relation_vacuum(rel, params, NULL);
		relation_close(rel, NoLock);
	}
	PopActiveSnapshot();
	CommitTransactionCommand();
	return permitted;
}

/* Vacuum these segments, one after the other; returns whether any was vacuumed. */
static bool
vacuum_segments(const VacuumStmt *stmt, const List *segments)
{
	VacuumParams params = {0};
	bool		any = false;
	const ListCell *cell;

	params.options = VACOPT_VACUUM |
		(sfi_ddl_vacuum_option(stmt, "verbose", false) ? VACOPT_VERBOSE : 0) |
		(sfi_ddl_vacuum_option(stmt, "skip_locked", false) ? VACOPT_SKIP_LOCKED : 0);
	foreach(cell, segments)
		any |= vacuum_segment(lfirst_oid(cell), &params);
	return any;
}

void
sfi_ddl_vacuum_segments(const VacuumStmt *stmt, bool top_level)
{
	MemoryContext context;
	List	   *segments;
	bool		vacuumed;

	/* never in a transaction block: core has refused that already */
	if (!wants_segments(stmt) || !OidIsValid(sfi_ddl_am_oid()) ||
		IsInTransactionBlock(top_level))
		return;

	context = AllocSetContextCreate(PortalContext, "securefile vacuum",
									ALLOCSET_SMALL_SIZES);
	segments = choose_segments(stmt, context);
	if (segments != NIL)
	{
		/* core has popped it, but another hook may have done the work */
		if (ActiveSnapshotSet())
			PopActiveSnapshot();
		CommitTransactionCommand();
		vacuumed = vacuum_segments(stmt, segments);
		StartTransactionCommand();
		/* core has done it before the segments were through */
		if (vacuumed && !sfi_ddl_vacuum_option(stmt, "skip_database_stats", false))
			vac_update_datfrozenxid();
	}
	SF_ASSERT(IsTransactionState());
	MemoryContextDelete(context);
}
