/*-------------------------------------------------------------------------
 *
 * row_triggers.c
 *	  The trigger functions: store, account, truncate.
 *
 * The BEFORE trigger places the bytes; the AFTER trigger records that the row
 * has them.  Between the two much can happen: another trigger returns NULL, ON
 * CONFLICT turns the INSERT into an UPDATE, the row moves to another partition,
 * an expression runs twice.  Hence "store" only places an object, and only "account", which sees
 * what really became of the row, makes it count; whatever was placed and not
 * confirmed is given back at transaction end by the write room.
 *
 * Which values store leaves alone: NULL; INLINE ones that may stay in the row; UNFILLED ones;
 * and in UPDATE the very value the row had before, if it was in the row.  Everything else STORED,
 * also a locator of this very column, is another row's value (or an older one
 * of this row) and is copied.
 *
 *-------------------------------------------------------------------------
 */
#include "base/base.h"

#include "access/htup_details.h"
#include "access/relation.h"
#include "commands/trigger.h"
#include "ddl/command.h"
#include "ddl/table_rows.h"
#include "fmgr.h"
#include "read/read.h"
#include "space/upgrade.h"
#include "utils/builtins.h"
#include "utils/datum.h"
#include "utils/lsyscache.h"
#include "utils/rel.h"
#include "write/write.h"

PG_FUNCTION_INFO_V1(securefile_store);
PG_FUNCTION_INFO_V1(securefile_account);
PG_FUNCTION_INFO_V1(securefile_truncate);

/*
 * The functions serve our internal triggers only.  In anyone else's hands
 * "account" could free what it should not.
 */
static TriggerData *
require_trigger(FunctionCallInfo fcinfo, TriggerEvent when, TriggerEvent level,
				AttrNumber *attnum)
{
	TriggerData *trigdata = (TriggerData *) fcinfo->context;

	if (!CALLED_AS_TRIGGER(fcinfo) ||
		!trigdata->tg_trigger->tgisinternal ||
		trigdata->tg_trigger->tgnargs < 1 ||
		(trigdata->tg_event & TRIGGER_EVENT_TIMINGMASK) != when ||
		(trigdata->tg_event & TRIGGER_EVENT_ROW) != level)
		ereport(ERROR,
				(errcode(ERRCODE_E_R_I_E_TRIGGER_PROTOCOL_VIOLATED),
				 errmsg("function \"%s\" serves the internal triggers of securefile columns only",
						get_func_name(fcinfo->flinfo->fn_oid)),
				 errhint("Columns of type securefile get their triggers by themselves.")));
	*attnum = pg_strtoint16(trigdata->tg_trigger->tgargs[0]);
	if (trigdata->tg_trigger->tgnargs > 1)
		sf_space_refuse_unfinished(RelationGetRelid(trigdata->tg_relation), *attnum, true);
	sfi_ddl_refuse_rewritten(trigdata->tg_relation);
	return trigdata;
}

/* Value of the column in a tuple; false when it is null. */
static bool
column_value(TriggerData *trigdata, HeapTuple tuple, AttrNumber attnum, Datum *value)
{
	bool		isnull;

	*value = heap_getattr(tuple, attnum,
						  RelationGetDescr(trigdata->tg_relation), &isnull);
	return !isnull;
}

/* Is the column newer than the row, so that its value is a default in the catalog? */
static bool
is_newer_than_row(HeapTuple tuple, AttrNumber attnum)
{
	return HeapTupleHeaderGetNatts(tuple->t_data) < attnum;
}

/*
 * BEFORE INSERT OR UPDATE: put the value where the column wants it.
 */
Datum
securefile_store(PG_FUNCTION_ARGS)
{
	AttrNumber	attnum;
	TriggerData *trigdata = require_trigger(fcinfo, TRIGGER_EVENT_BEFORE,
											TRIGGER_EVENT_ROW, &attnum);
	bool		truncated = sfi_ddl_follow_truncation(trigdata->tg_relation);
	bool		update = TRIGGER_FIRED_BY_UPDATE(trigdata->tg_event);
	HeapTuple	tuple = update ? trigdata->tg_newtuple : trigdata->tg_trigtuple;
	SfColumn	column;
	Datum		given;
	Datum		value;
	Datum		old;
	Datum		replacement;
	SfValue		stored;
	int			replaced = attnum;
	bool		isnull = false;

	/*
	 * there is no AFTER trigger to count the row, which may not come after
	 * all
	 */
	if (trigdata->tg_relation->rd_rel->relpersistence != RELPERSISTENCE_PERMANENT)
		sfi_ddl_see(RelationGetRelid(trigdata->tg_relation), attnum, 1, 0);
	if (!column_value(trigdata, tuple, attnum, &given))
		return PointerGetDatum(tuple);
	value = sf_object_given(given);

	if (!update || !column_value(trigdata, trigdata->tg_trigtuple, attnum, &old))
		old = (Datum) 0;
	else if (sfi_ddl_same_value(value, old) && !is_newer_than_row(trigdata->tg_trigtuple, attnum))
		return PointerGetDatum(tuple);
	sfi_ddl_refuse_published_unfilled(trigdata->tg_relation, attnum, value);

	column = sfi_ddl_column(trigdata->tg_relation, attnum);
	if (truncated || !sfi_ddl_defer(trigdata, &column, value, value != given, old, &replacement))
	{
		if (!sfi_ddl_store_value(&column, value, old, false, &stored))
		{
			if (value == given)
				return PointerGetDatum(tuple);
			replacement = value;
		}
		else
		{
			if (truncated && !sf_read_is_in_row(stored.datum))
				sfi_ddl_refuse_truncated(trigdata->tg_relation);
			sfi_ddl_refuse_unpublishable(trigdata->tg_relation, attnum, &stored);
			replacement = PointerGetDatum(stored.datum);
		}
	}

	return PointerGetDatum(heap_modify_tuple_by_cols(tuple,
													 RelationGetDescr(trigdata->tg_relation),
													 1, &replaced, &replacement, &isnull));
}

/* What the row has now, and what it had, if that is STORED, and how it lost that. */
static void
account(Oid table_oid, AttrNumber attnum, struct varlena *value, struct varlena *old,
		const SfRemoval *removal)
{
	if (value != NULL)
		sf_write_confirm(table_oid, attnum, value, old);
	if (old != NULL)
	{
		sf_base_require_preload();
		sf_write_free(table_oid, attnum, old, value, removal);
	}
}

/*
 * A row has got this value, which is no stored one, in a column that may encrypt.  old: what it
 * had, or 0.  A value of before the option may stay, and the toaster may have changed its looks.
 */
static void
require_encrypted(Relation rel, AttrNumber attnum, Datum value, Datum old)
{
	SfColumn	column = sfi_ddl_column(rel, attnum);

	if (sf_config_encrypts(&column) && sfi_ddl_is_plain(value) &&
		(old == (Datum) 0 || !datum_image_eq(value, old, false, -1)))
		ereport(ERROR,
				(errcode(ERRCODE_TRIGGERED_DATA_CHANGE_VIOLATION),
				 errmsg("a plain value was put into encrypted column \"%s\" of table \"%s\"",
						sfi_ddl_column_name(rel, attnum), RelationGetRelationName(rel)),
				 errdetail("Something has changed the row after the value was encrypted."),
				 errhint("A trigger whose name sorts after \"%s\" must not set the column.", SF_TRIGGER_PREFIX)));
}

/*
 * AFTER INSERT OR UPDATE OR DELETE: what the row now has is confirmed, what
 * it had is freed.
 */
Datum
securefile_account(PG_FUNCTION_ARGS)
{
	AttrNumber	attnum;
	TriggerData *trigdata = require_trigger(fcinfo, TRIGGER_EVENT_AFTER,
											TRIGGER_EVENT_ROW, &attnum);
	Oid			table_oid = RelationGetRelid(trigdata->tg_relation);
	TriggerEvent event = trigdata->tg_event;
	Datum		value;
	Datum		old;
	struct varlena *located = NULL;
	struct varlena *lost;
	bool		has_value = false;
	bool		has_old = false;

	if (TRIGGER_FIRED_BY_INSERT(event))
		has_value = column_value(trigdata, trigdata->tg_trigtuple, attnum, &value);
	else
		has_old = column_value(trigdata, trigdata->tg_trigtuple, attnum, &old);
	if (TRIGGER_FIRED_BY_UPDATE(event))
		has_value = column_value(trigdata, trigdata->tg_newtuple, attnum, &value);

	if (has_value && has_old && sfi_ddl_same_value(value, old))
	{
		sfi_ddl_see(table_oid, attnum, 1, 0);
		return PointerGetDatum(NULL);
	}
	if (has_value && (located = sfi_ddl_located(value)) == NULL)
		require_encrypted(trigdata->tg_relation, attnum, value, has_old ? old : (Datum) 0);
	lost = has_old ? sfi_ddl_located(old) : NULL;
	account(table_oid, attnum, located, lost,
			lost == NULL ? NULL : sfi_ddl_removal(fcinfo->flinfo, trigdata, attnum));
	sfi_ddl_see(table_oid, attnum, TRIGGER_FIRED_BY_DELETE(event) ? 0 : 1, lost != NULL);
	return PointerGetDatum(NULL);
}

/*
 * BEFORE TRUNCATE: new, empty storage.  The old one goes when this commits.
 */
Datum
securefile_truncate(PG_FUNCTION_ARGS)
{
	AttrNumber	attnum;
	TriggerData *trigdata = require_trigger(fcinfo, TRIGGER_EVENT_BEFORE, 0, &attnum);
	Oid			segrelid;
	Relation	segrel;

	segrelid = sf_space_segment_relid(RelationGetRelid(trigdata->tg_relation), attnum);
	if (OidIsValid(segrelid))
	{
		sf_base_require_preload();
		sfi_ddl_truncate_begins(trigdata->tg_relation);
		segrel = relation_open(segrelid, AccessExclusiveLock);
		sfi_ddl_segment_renew(segrel, sf_space_open_rel(segrel)->logged_data);
		relation_close(segrel, NoLock);
		sfi_ddl_see_truncated(RelationGetRelid(trigdata->tg_relation), attnum);
		/* with its rows, a shell has lost the reason for a segment */
		sfi_ddl_note_shell();
	}
	return PointerGetDatum(NULL);
}
