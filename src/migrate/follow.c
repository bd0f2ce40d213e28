/*-------------------------------------------------------------------------
 *
 * follow.c
 *	  The trigger function of a table that is being migrated: the new column follows the
 *	  old one, with every writer.
 *
 * Arguments: the phase, the column, the other column.  The same function stands in several
 * triggers, and their kind tells what is to be done:
 *
 *	 BEFORE INSERT OR UPDATE, row	the new value follows.  Where large objects take part it
 *									becomes NULL when the old one changes, and the procedure
 *									brings the row over, again
 *	 AFTER UPDATE OR DELETE, row	the large object that was made for a row goes with it
 *	 BEFORE TRUNCATE				refused where such objects would stay behind
 *
 * Triggers are ENABLE ALWAYS, so that they fire for what logical replication applies, too.  What
 * somebody writes to the new column is of no effect: it holds nothing but what was made for it,
 * which is why its large objects can be removed with the rights of the owner.
 *
 *-------------------------------------------------------------------------
 */
#include "base/base.h"

#include "access/htup_details.h"
#include "catalog/pg_type.h"
#include "commands/trigger.h"
#include "executor/spi.h"
#include "fmgr.h"
#include "migrate/migrate_internal.h"
#include "miscadmin.h"
#include "utils/datum.h"
#include "utils/lsyscache.h"

PG_FUNCTION_INFO_V1(securefile_migrate_follow);

typedef struct Follow
{
	TriggerData *data;
	Relation	rel;
	AttrNumber	from_att;
	AttrNumber	to_att;
	SfContentKind from;
	SfContentKind to;
} Follow;

static AttrNumber
column_number(Relation rel, const char *name)
{
	int			attnum = SPI_fnumber(RelationGetDescr(rel), name);

	if (attnum <= 0)
		ereport(ERROR,
				(errcode(ERRCODE_UNDEFINED_COLUMN),
				 errmsg("column \"%s\" of table \"%s\", which is being migrated, does not exist",
						name, RelationGetRelationName(rel)),
				 errhint(SF_MIGRATE_RENAMED_HINT)));
	return attnum;
}

/* What the function is called for.  Arguments and types may be anybody's. */
static Follow
look_at_call(FunctionCallInfo fcinfo)
{
	Follow		follow = {.data = (TriggerData *) fcinfo->context};
	Trigger    *trigger;
	Oid			type_oid = sfi_migrate_type(fcinfo->flinfo->fn_oid);
	TupleDesc	desc;

	if (!CALLED_AS_TRIGGER(fcinfo))
		ereport(ERROR,
				(errcode(ERRCODE_E_R_I_E_TRIGGER_PROTOCOL_VIOLATED),
				 errmsg("securefile_migrate_follow() was not called by the trigger manager")));
	trigger = follow.data->tg_trigger;
	follow.rel = follow.data->tg_relation;
	if (trigger->tgnargs != SF_MIGRATE_ARGS)
		ereport(ERROR,
				(errcode(ERRCODE_E_R_I_E_TRIGGER_PROTOCOL_VIOLATED),
				 errmsg("trigger \"%s\" was not made by securefile_migrate()", trigger->tgname)));
	if (!TRIGGER_FIRED_FOR_ROW(follow.data->tg_event))
		return follow;
	desc = RelationGetDescr(follow.rel);
	follow.from_att = column_number(follow.rel, trigger->tgargs[SF_MIGRATE_ARG_COLUMN]);
	follow.to_att = column_number(follow.rel, trigger->tgargs[SF_MIGRATE_ARG_BESIDE]);
	follow.from = sfi_migrate_kind(TupleDescAttr(desc, follow.from_att - 1)->atttypid, type_oid);
	follow.to = sfi_migrate_kind(TupleDescAttr(desc, follow.to_att - 1)->atttypid, type_oid);
	if (!sfi_migrate_is_pair(follow.from, follow.to))
		ereport(ERROR,
				(errcode(ERRCODE_DATATYPE_MISMATCH),
				 errmsg("columns \"%s\" and \"%s\" of table \"%s\" cannot follow each other",
						trigger->tgargs[SF_MIGRATE_ARG_COLUMN],
						trigger->tgargs[SF_MIGRATE_ARG_BESIDE],
						RelationGetRelationName(follow.rel))));
	return follow;
}

static NullableDatum
value_of(const Follow *follow, HeapTuple row, AttrNumber attnum)
{
	NullableDatum value;

	value.value = heap_getattr(row, attnum, RelationGetDescr(follow->rel), &value.isnull);
	return value;
}

/*
 * Is a value the one that the row had?  A value that was not touched is the same to the bit, also
 * where it lies in TOAST or in a segment.
 */
static bool
is_same_value(const Follow *follow, AttrNumber attnum, NullableDatum one, NullableDatum other)
{
	Form_pg_attribute att = TupleDescAttr(RelationGetDescr(follow->rel), attnum - 1);

	if (one.isnull || other.isnull)
		return one.isnull && other.isnull;
	return datumIsEqual(one.value, other.value, att->attbyval, att->attlen);
}

static bool
is_same(const Follow *follow, AttrNumber attnum, HeapTuple a, HeapTuple b)
{
	return is_same_value(follow, attnum, value_of(follow, a, attnum), value_of(follow, b, attnum));
}

/* The new value that a row is to have, which is given its old one. */
static NullableDatum
value_to_have(const Follow *follow, HeapTuple before, HeapTuple row)
{
	NullableDatum from = value_of(follow, row, follow->from_att);
	NullableDatum had = {0, true};
	int64		length;

	if (from.isnull)
		return had;
	if (before != NULL && is_same(follow, follow->from_att, before, row))
		had = value_of(follow, before, follow->to_att);
	if (!had.isnull || follow->from == SF_CONTENT_OBJECT || follow->to == SF_CONTENT_OBJECT)
		return had;
	had.value = sfi_contents_convert(follow->from, from.value, follow->to, follow->rel,
									 follow->to_att, &length);
	had.isnull = false;
	return had;
}

static HeapTuple
follow_row(const Follow *follow)
{
	bool		is_update = TRIGGER_FIRED_BY_UPDATE(follow->data->tg_event);
	HeapTuple	before = is_update ? follow->data->tg_trigtuple : NULL;
	HeapTuple	row = is_update ? follow->data->tg_newtuple : follow->data->tg_trigtuple;
	int			attnum = follow->to_att;
	NullableDatum value = value_to_have(follow, before, row);

	if (is_same_value(follow, attnum, value, value_of(follow, row, attnum)))
		return row;
	return heap_modify_tuple_by_cols(row, RelationGetDescr(follow->rel), 1, &attnum, &value.value,
									 &value.isnull);
}

/* The object of a row that is gone, or that has another one: made with the owner's rights. */
static void
remove_object(const Follow *follow)
{
	NullableDatum object = value_of(follow, follow->data->tg_trigtuple, follow->to_att);
	Oid			save_userid;
	int			save_sec_context;

	if (object.isnull || follow->to != SF_CONTENT_OBJECT ||
		!sfi_contents_exists(DatumGetObjectId(object.value)))
		return;
	if (TRIGGER_FIRED_BY_UPDATE(follow->data->tg_event) &&
		is_same(follow, follow->to_att, follow->data->tg_trigtuple, follow->data->tg_newtuple))
		return;
	GetUserIdAndSecContext(&save_userid, &save_sec_context);
	SetUserIdAndSecContext(follow->rel->rd_rel->relowner,
						   save_sec_context | SECURITY_LOCAL_USERID_CHANGE);
	sfi_contents_unlink(DatumGetObjectId(object.value));
	SetUserIdAndSecContext(save_userid, save_sec_context);
}

/* A note of a migration whose columns are swapped is disabled, and never comes here. */
static void
refuse_truncate(const Follow *follow)
{
	ereport(ERROR,
			(errcode(ERRCODE_OBJECT_IN_USE),
			 errmsg("cannot truncate table \"%s\" while a column of it is migrated to large objects",
					RelationGetRelationName(follow->rel)),
			 errhint("Use DELETE, or take the migration back with CALL securefile_migrate(.., abort => true) first.")));
}

Datum
securefile_migrate_follow(PG_FUNCTION_ARGS)
{
	Follow		follow = look_at_call(fcinfo);

	if (!TRIGGER_FIRED_FOR_ROW(follow.data->tg_event))
		refuse_truncate(&follow);
	if (TRIGGER_FIRED_BEFORE(follow.data->tg_event))
		PG_RETURN_POINTER(follow_row(&follow));
	remove_object(&follow);
	PG_RETURN_POINTER(NULL);
}
