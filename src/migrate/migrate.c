/*-------------------------------------------------------------------------
 *
 * migrate.c
 *	  securefile_migrate(): the order of the steps of a migration.
 *
 *	 begin		the report; the new column, triggers and constraints, in one transaction
 *	 bring		all rows, a batch in each transaction, until no row is left
 *	 validate	constraints; build indexes
 *	 verify		both sides of all rows, by SHA-256
 *	 swap		under the lock: what came since, and then the names
 *	 finish		remove large objects, the last ones under the lock; the old column, and the note
 *
 * Each step leaves the catalogs and rows so that a call finds where it has to go on, whatever
 * has ended the one before.
 *
 *-------------------------------------------------------------------------
 */
#include "base/base.h"

#include "access/xact.h"
#include "catalog/pg_class.h"
#include "executor/spi.h"
#include "fmgr.h"
#include "migrate/migrate_internal.h"
#include "miscadmin.h"
#include "storage/lock.h"
#include "utils/builtins.h"
#include "utils/hsearch.h"
#include "utils/lsyscache.h"

PG_FUNCTION_INFO_V1(securefile_migrate);

/* Passes over what others have changed meanwhile, before a lock is tried nevertheless. */
#define MOST_PASSES		5

/* Between two passes that had to pass over rows which others have locked. */
#define PAUSE_MS		200

/* Removing a large object takes a lock of its own until the commit. */
#define MOST_UNLINKS	500

/* Distinguishes the lock of a session that migrates from those on columns; no column has it. */
#define SF_MIGRATE_LOCK	0xfffe

enum Argument
{
	ARG_TABLE, ARG_COLUMN, ARG_TO_TYPE, ARG_BATCH_ROWS, ARG_BATCH_BYTES, ARG_DRY_RUN, ARG_VERIFY,
	ARG_UNLINK, ARG_KEEP_OLD, ARG_MISSING, ARG_PUBLISHED, ARG_LOCK_TIMEOUT, ARG_LOCK_TRIES,
	ARG_ABORT
};

/* ---- arguments ---- */

static int64
positive(FunctionCallInfo fcinfo, int number, const char *name)
{
	int64		value = PG_ARGISNULL(number) ? 0 : PG_GETARG_INT64(number);

	if (value <= 0)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("%s must be at least 1", name)));
	return value;
}

static bool
is_true(FunctionCallInfo fcinfo, int number)
{
	return !PG_ARGISNULL(number) && PG_GETARG_BOOL(number);
}

static char *
text_argument(FunctionCallInfo fcinfo, int number)
{
	return PG_ARGISNULL(number) ? NULL : text_to_cstring(PG_GETARG_TEXT_PP(number));
}

static SfMigration *
find(FunctionCallInfo fcinfo, const char *to_type)
{
	return sfi_migrate_find(PG_GETARG_OID(ARG_TABLE), NameStr(*PG_GETARG_NAME(ARG_COLUMN)),
							to_type, fcinfo->flinfo->fn_oid);
}

/* What was asked for once, and is in the triggers, holds for a call that goes on, too. */
static void
take_options(FunctionCallInfo fcinfo, SfMigration *m)
{
	SfMigrateOptions *options = &m->options;
	char	   *missing = text_argument(fcinfo, ARG_MISSING);

	options->batch_rows = positive(fcinfo, ARG_BATCH_ROWS, "batch_rows");
	options->batch_bytes = positive(fcinfo, ARG_BATCH_BYTES, "batch_bytes");
	options->lock_timeout_ms = Min(positive(fcinfo, ARG_LOCK_TIMEOUT, "lock_timeout"),
								   PG_INT32_MAX);
	options->lock_tries = Min(positive(fcinfo, ARG_LOCK_TRIES, "lock_tries"), PG_INT32_MAX);
	options->verify = is_true(fcinfo, ARG_VERIFY);
	options->unlink |= is_true(fcinfo, ARG_UNLINK);
	options->keep_old |= is_true(fcinfo, ARG_KEEP_OLD);
	options->published = is_true(fcinfo, ARG_PUBLISHED);
	options->missing_null = missing != NULL && sfi_migrate_missing(missing);
}

/* ---- the steps ---- */

/* What the migration takes along, but for the position of the column, which it always does. */
static void
tell_lost(SfMigration *m, List *findings)
{
	ListCell   *lc;

	foreach(lc, findings)
	{
		SfFinding  *finding = lfirst(lc);

		if (strcmp(finding->action, SF_ACTION_LOST) == 0 &&
			strcmp(finding->object, "position") != 0)
			ereport(NOTICE,
					(errmsg("the migration of column \"%s\" drops %s", m->column, finding->object),
					 errdetail_internal("%s", finding->detail)));
	}
}

static void
begin(SfMigration *m)
{
	List	   *findings;

	findings = sfi_migrate_report(m, true);
	sfi_migrate_refuse(m, findings);
	tell_lost(m, findings);
	SPI_commit();
	SF_FAULT(migrate_begin);
	sfi_migrate_lock(m);
	findings = sfi_migrate_report(m, false);
	sfi_migrate_refuse(m, findings);
	sfi_migrate_add_helpers(m);
	sfi_rename_add_checks(m, findings);
	SF_FAULT(migrate_helpers);
	SPI_commit();
}

/* Until there is no row that was not brought over, but for what others are changing now. */
static void
bring_all(SfMigration *m)
{
	for (int i = 1;; i++)
	{
		SfPass		pass = sfi_pass_run(m, sfi_bring_row, NULL);

		if (pass.skipped == 0 && (pass.rows <= m->options.batch_rows || i >= MOST_PASSES))
			return;
		if (pass.skipped > 0)
			sfi_migrate_pause(PAUSE_MS);
	}
}

/* Constraints that others have added meanwhile are made for the new column, too. */
static void
validate(SfMigration *m)
{
	if (sfi_rename_lacks_checks(m, sfi_migrate_dependents(m)))
	{
		sfi_migrate_lock(m);
		sfi_rename_add_checks(m, sfi_migrate_dependents(m));
		SPI_commit();
	}
	sfi_migrate_validate_helpers(m);
	sfi_rename_validate(m, sfi_migrate_dependents(m));
	SF_FAULT(migrate_validated);
	SPI_commit();
	sfi_build_indexes(m, sfi_migrate_report(m, false));
	SPI_commit();
}

/*
 * Visit what came since an earlier pass, until next to nothing comes; returns when the last pass
 * began.
 */
static const SfSince *
follow_up(SfMigration *m, SfPassVisit visit, const SfSince *since)
{
	for (int i = 1;; i++)
	{
		const SfSince *now = sfi_pass_since();
		SfPass		pass = sfi_pass_run(m, visit, since);

		if (pass.skipped == 0)
			since = now;
		else
			sfi_migrate_pause(PAUSE_MS);
		if (pass.skipped == 0 && (pass.rows == 0 || i >= MOST_PASSES))
			return since;
	}
}

/*
 * What came since the last pass is looked at under the lock, as long as it is no more than a
 * batch; else the lock is given up once more.
 */
static bool
catch_up(SfMigration *m, const SfSince *since)
{
	if (m->options.verify)
		return sfi_pass_run_at_once(m, sfi_bring_compare, since);
	return !sfi_migrate_is_lazy(m) || sfi_pass_run_at_once(m, sfi_bring_row, NULL);
}

static void
swap(SfMigration *m)
{
	const SfSince *since = NULL;

	for (;;)
	{
		List	   *dependents;

		if (m->options.verify)
			since = follow_up(m, sfi_bring_compare, since);
		sfi_migrate_lock(m);
		SF_FAULT(migrate_locked);
		if (catch_up(m, since))
		{
			dependents = sfi_migrate_report(m, false);
			sfi_migrate_refuse(m, dependents);
			if (!sfi_rename_lacks_twins(m, dependents))
			{
				sfi_swap_columns(m, dependents);
				SF_FAULT(migrate_swapped);
				SPI_commit();
				return;
			}
		}
		SPI_commit();
		bring_all(m);
		validate(m);
	}
}

/*
 * Remove the large objects, and lock the table in the end.  An UPDATE moves a row past the walk; so
 * what came since the last pass has its turn under the lock, as before the swap.
 */
static void
unlink_old(SfMigration *m)
{
	const SfSince *since = NULL;

	m->options.batch_rows = Min(m->options.batch_rows, MOST_UNLINKS);
	m->kept = sf_base_table("securefile large objects that stay", sizeof(Oid), sizeof(Oid),
							CurrentMemoryContext);
	for (;;)
	{
		since = follow_up(m, sfi_bring_unlink_old, since);
		SF_FAULT(migrate_finish);
		sfi_migrate_lock(m);
		if (sfi_pass_run_at_once(m, sfi_bring_unlink_old, since))
			return;
		SPI_commit();
	}
}

static void
tell_unlinked(const SfMigration *m)
{
	int64		kept = hash_get_num_entries(m->kept);

	ereport(NOTICE,
			(errmsg(INT64_FORMAT " large objects were removed", m->removed)));
	if (kept > 0)
		ereport(WARNING,
				(errmsg(INT64_FORMAT " large objects were not removed", kept),
				 errdetail("Their bytes are not those of the row: it was changed since, or the object was. Their numbers are in column \"%s\".",
						   m->beside),
				 errhint("Look at them, and drop the column and the objects by hand.")));
}

static void
finish(SfMigration *m)
{
	bool		has_objects = m->options.unlink && m->from == SF_CONTENT_OBJECT;

	if (has_objects)
		unlink_old(m);
	else
		sfi_migrate_lock(m);
	sfi_migrate_drop_helpers(m);
	if (!m->options.keep_old && (!has_objects || hash_get_num_entries(m->kept) == 0))
		sfi_migrate_run(m, "ALTER TABLE %s DROP COLUMN %s", m->table, quote_identifier(m->beside));
	SPI_commit();
	if (has_objects)
		tell_unlinked(m);
}

/* What is left for somebody to do. */
static void
tell_rest(const SfMigration *m)
{
	if (m->from == SF_CONTENT_BYTEA && !m->options.keep_old)
	{
		sfi_migrate_run(m, "SELECT pg_size_pretty(pg_relation_size(reltoastrelid)) FROM pg_class"
						" WHERE oid = %u AND pg_relation_size(reltoastrelid) > 0", m->table_oid);
		if (SPI_processed > 0)
			ereport(NOTICE,
					(errmsg("the TOAST table of %s has %s, which old values of the column take now", m->table,
							SPI_getvalue(SPI_tuptable->vals[0], SPI_tuptable->tupdesc, 1)),
					 errhint("VACUUM FULL, or a rewrite by another tool, gives it back to the file system.")));
	}
	if (m->from == SF_CONTENT_OBJECT && !m->options.unlink)
		ereport(NOTICE,
				(errmsg("the large objects were not removed"),
				 errhint("vacuumlo removes those that no column names any more.")));
}

static void
require_moving(const SfMigration *m)
{
	if (m->phase == SF_MIGRATE_NONE)
		ereport(ERROR,
				(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
				 errmsg("column \"%s\" of table %s is not being migrated", m->column, m->table)));
	if (m->phase == SF_MIGRATE_SWAPPED)
		ereport(ERROR,
				(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
				 errmsg("the migration of column \"%s\" of table %s cannot be taken back",
						m->column, m->table),
				 errdetail("The columns are swapped."),
				 errhint("Let the migration come to its end, and migrate back.")));
}

/* Remove the large objects that were made, but for those of rows that others are changing now. */
static void
unlink_new(SfMigration *m)
{
	m->options.batch_rows = Min(m->options.batch_rows, MOST_UNLINKS);
	for (int i = 1; sfi_pass_run(m, sfi_bring_unlink_new, NULL).skipped > 0 && i < MOST_PASSES; i++)
		sfi_migrate_pause(PAUSE_MS);
}

/* Take everything back.  Rows that moved during a pass have their turn under the lock. */
static void
take_back(SfMigration *m)
{
	bool		has_objects = m->to == SF_CONTENT_OBJECT;

	require_moving(m);
	if (has_objects)
		unlink_new(m);
	SF_FAULT(migrate_abort);
	sfi_migrate_lock(m);
	while (has_objects && !sfi_pass_run_at_once(m, sfi_bring_unlink_new, NULL))
	{
		SPI_commit();
		unlink_new(m);
		sfi_migrate_lock(m);
	}
	sfi_migrate_drop_helpers(m);
	sfi_migrate_run(m, "ALTER TABLE %s DROP COLUMN %s", m->table, quote_identifier(m->beside));
	SPI_commit();
}

/* ---- the procedure ---- */

static void
show_report(SfMigration *m)
{
	ListCell   *lc;

	foreach(lc, sfi_migrate_report(m, true))
	{
		SfFinding  *finding = lfirst(lc);

		ereport(NOTICE,
				(errmsg("%s: %s", finding->action, finding->object),
				 finding->detail[0] != '\0' ? errdetail_internal("%s", finding->detail) : 0));
	}
}

static void
run_steps(SfMigration *m)
{
	if (m->phase == SF_MIGRATE_NONE)
		begin(m);
	if (m->phase == SF_MIGRATE_MOVING)
	{
		bring_all(m);
		validate(m);
		swap(m);
		if (m->options.unlink && m->from == SF_CONTENT_OBJECT)
			finish(m);
	}
	else
		finish(m);
	tell_rest(m);
}

/* A call that comes after the end, as of one that lost its connection, has nothing to do. */
static bool
is_migrated(const SfMigration *m)
{
	if (m->from != m->to || m->from == SF_CONTENT_OTHER)
		return false;
	ereport(NOTICE,
			(errmsg("column \"%s\" of table %s is of that type already", m->column, m->table)));
	return true;
}

/* Do what was asked for, while no other session works on the table. */
static void
run_locked(FunctionCallInfo fcinfo)
{
	SfMigration *m = find(fcinfo, text_argument(fcinfo, ARG_TO_TYPE));

	take_options(fcinfo, m);
	if (is_true(fcinfo, ARG_ABORT))
	{
		take_back(m);
		return;
	}
	if (m->phase == SF_MIGRATE_NONE && is_migrated(m))
		return;
	sfi_migrate_require_pair(m);
	if (is_true(fcinfo, ARG_DRY_RUN))
		show_report(m);
	else
		run_steps(m);
}

/* A transaction that fails does not give up the lock of the session. */
static void
run_under_lock(FunctionCallInfo fcinfo, LOCKTAG *tag)
{
	if (LockAcquire(tag, ExclusiveLock, true, true) == LOCKACQUIRE_NOT_AVAIL)
		ereport(ERROR,
				(errcode(ERRCODE_OBJECT_IN_USE),
				 errmsg("another session is migrating a column of table \"%s\"",
						get_rel_name(PG_GETARG_OID(ARG_TABLE)))));
	PG_TRY();
	{
		run_locked(fcinfo);
	}
	PG_FINALLY();
	{
		(void) LockRelease(tag, ExclusiveLock, true);
	}
	PG_END_TRY();
}

/* securefile_migrate(..), a procedure: see securefile--1.0.sql for its arguments */
Datum
securefile_migrate(PG_FUNCTION_ARGS)
{
	LOCKTAG		tag;

	sf_base_refuse_nulls(fcinfo, ARG_TABLE, ARG_COLUMN, "table and column");
	sf_base_require_writes("securefile_migrate()");
	sf_base_require_preload();
	sf_base_require_commits(fcinfo, "securefile_migrate()",
							"securefile_migrate_report() can run there.");
	SPI_connect_ext(SPI_OPT_NONATOMIC);
	/* a role that may not change the table may not lock it either */
	(void) find(fcinfo, NULL);
	SET_LOCKTAG_OBJECT(tag, MyDatabaseId, RelationRelationId, PG_GETARG_OID(ARG_TABLE),
					   SF_MIGRATE_LOCK);
	run_under_lock(fcinfo, &tag);
	SPI_finish();
	PG_RETURN_VOID();
}
