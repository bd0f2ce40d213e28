/*-------------------------------------------------------------------------
 *
 * removal.c
 *	  How a row has lost a value, in a column that keeps it: by what, and the key of the row.
 *
 * The key is that of the table's primary key, as JSON, {"id": 7}.  It is made in the trigger that
 * sees the row, and only where all of its columns have types of the server itself: an output
 * function of a user's type would run here with the rights of the role that deletes the row.
 *
 * Texts of dates, numbers and the like do not depend on the settings of the session.
 *
 * What is asked of the catalogs is kept with the trigger for as long as its statement runs.
 *
 *-------------------------------------------------------------------------
 */
#include "base/base.h"

#include "access/htup_details.h"
#include "access/transam.h"
#include "catalog/pg_index.h"
#include "catalog/pg_type.h"
#include "commands/trigger.h"
#include "ddl/command.h"
#include "ddl/table_rows.h"
#include "fmgr.h"
#include "lib/stringinfo.h"
#include "miscadmin.h"
#include "pgtime.h"
#include "utils/builtins.h"
#include "utils/bytea.h"
#include "utils/float.h"
#include "utils/json.h"
#include "utils/lsyscache.h"
#include "utils/rel.h"
#include "utils/relcache.h"
#include "utils/syscache.h"
#include "write/write.h"

/* A column of the key. */
typedef struct KeyColumn
{
	AttrNumber	attnum;
	char	   *name;			/* as JSON, with what stands around it */
	int			name_len;
	bool		quoted;			/* its text is no JSON by itself */
	FmgrInfo	out;
} KeyColumn;

/* What is known of a table while a statement runs. */
typedef struct Known
{
	Oid			table_oid;
	bool		keeps;			/* does the column keep what it loses? */
	int			ncolumns;		/* of the key; 0: there is none to be had */
	KeyColumn	columns[INDEX_MAX_KEYS];
	StringInfoData key;
	SfRemoval	removal;
} Known;

/* Does the text of a type stand in JSON as it is?  NaN and infinity do not. */
static bool
is_number(Oid type)
{
	return type == INT2OID || type == INT4OID || type == INT8OID || type == OIDOID;
}

/* Fill in a column of the key; false: its type is none of the server's. */
static bool
know_column(KeyColumn *column, TupleDesc desc, AttrNumber attnum, bool first)
{
	Form_pg_attribute attribute = TupleDescAttr(desc, attnum - 1);
	Oid			type = getBaseType(attribute->atttypid);
	StringInfoData name;
	Oid			out;
	bool		is_varlena;

	if (type >= FirstNormalObjectId || get_typtype(type) != TYPTYPE_BASE)
		return false;
	getTypeOutputInfo(type, &out, &is_varlena);
	SF_ASSERT(out < FirstNormalObjectId);
	initStringInfo(&name);
	appendStringInfoString(&name, first ? "{" : ", ");
	escape_json(&name, NameStr(attribute->attname));
	appendStringInfoString(&name, ": ");
	column->attnum = attnum;
	column->name = name.data;
	column->name_len = name.len;
	column->quoted = !is_number(type);
	fmgr_info_cxt(out, &column->out, CurrentMemoryContext);
	return true;
}

/* Fill in the columns of the primary key. */
static void
know_key(Known *known, Relation rel)
{
	Oid			index_oid;
	HeapTuple	tuple;
	Form_pg_index index;

	known->ncolumns = 0;
	list_free(RelationGetIndexList(rel));
	index_oid = rel->rd_pkindex;
	tuple = OidIsValid(index_oid) ? SearchSysCache1(INDEXRELID, ObjectIdGetDatum(index_oid)) : NULL;
	if (!HeapTupleIsValid(tuple))
		return;
	index = (Form_pg_index) GETSTRUCT(tuple);
	for (int i = 0; i < index->indnkeyatts; i++)
	{
		if (!know_column(&known->columns[i], RelationGetDescr(rel), index->indkey.values[i],
						 i == 0))
			break;
		known->ncolumns = i + 1;
	}
	if (known->ncolumns < index->indnkeyatts)
		known->ncolumns = 0;
	ReleaseSysCache(tuple);
}

/* What is known of the table of a trigger, asked when its first row comes. */
static Known *
know(FmgrInfo *flinfo, Relation rel, AttrNumber attnum)
{
	Known	   *known = flinfo->fn_extra;
	MemoryContext old;

	if (known != NULL && known->table_oid == RelationGetRelid(rel))
		return known;
	old = MemoryContextSwitchTo(flinfo->fn_mcxt);
	known = palloc0(sizeof(Known));
	known->table_oid = RelationGetRelid(rel);
	known->keeps = sfi_ddl_column(rel, attnum).options.retention_us > 0;
	initStringInfo(&known->key);
	if (known->keeps)
		know_key(known, rel);
	flinfo->fn_extra = known;
	MemoryContextSwitchTo(old);
	return known;
}

/* Settings that output functions go by. */
typedef struct OutputStyle
{
	int			date_style;
	int			date_order;
	int			interval_style;
	int			float_digits;
	int			bytea_style;
	pg_tz	   *time_zone;
} OutputStyle;

/* Set them; returns what they were. */
static OutputStyle
set_style(OutputStyle style)
{
	OutputStyle before;

	before.date_style = DateStyle;
	before.date_order = DateOrder;
	before.interval_style = IntervalStyle;
	before.float_digits = extra_float_digits;
	before.bytea_style = bytea_output;
	before.time_zone = session_timezone;
	DateStyle = style.date_style;
	DateOrder = style.date_order;
	IntervalStyle = style.interval_style;
	extra_float_digits = style.float_digits;
	bytea_output = style.bytea_style;
	session_timezone = style.time_zone;
	return before;
}

/* Append a column and its value; false: there is nothing that can be kept. */
static bool
add_column(StringInfo key, KeyColumn *column, HeapTuple tuple, TupleDesc desc)
{
	bool		isnull;
	Datum		value = heap_getattr(tuple, column->attnum, desc, &isnull);
	char	   *text;

	if (isnull)
		return false;
	text = OutputFunctionCall(&column->out, value);
	appendBinaryStringInfo(key, column->name, column->name_len);
	if (column->quoted)
		escape_json(key, text);
	else
		appendStringInfoString(key, text);
	pfree(text);
	return key->len < SF_REMOVED_KEY_MAX;
}

/* Make the key of a row, which is empty where it has none that can be kept. */
static void
add_columns(Known *known, HeapTuple tuple, TupleDesc desc)
{
	StringInfo	key = &known->key;

	resetStringInfo(key);
	for (int i = 0; i < known->ncolumns; i++)
	{
		if (!add_column(key, &known->columns[i], tuple, desc))
		{
			resetStringInfo(key);
			return;
		}
	}
	if (known->ncolumns > 0)
		appendStringInfoChar(key, '}');
}

/* The same, by settings under which the input functions of the columns take all. */
static void
make_key(Known *known, HeapTuple tuple, TupleDesc desc)
{
	static OutputStyle fixed = {
		USE_ISO_DATES, DATEORDER_YMD, INTSTYLE_POSTGRES, 1, BYTEA_OUTPUT_HEX
	};
	OutputStyle before;

	if (fixed.time_zone == NULL)
		fixed.time_zone = pg_tzset("GMT");
	before = set_style(fixed);
	PG_TRY();
	{
		add_columns(known, tuple, desc);
	}
	PG_FINALLY();
	{
		(void) set_style(before);
	}
	PG_END_TRY();
}

/* By an UPDATE, a DELETE, or the DELETE of an UPDATE that moves the row to another partition. */
static SfRemovedKind
kind_of(const TriggerData *trigdata)
{
	if (TRIGGER_FIRED_BY_UPDATE(trigdata->tg_event))
		return SF_REMOVED_REPLACED;
	return HeapTupleHeaderIndicatesMovedPartitions(trigdata->tg_trigtuple->t_data) ?
		SF_REMOVED_MOVED : SF_REMOVED_DELETED;
}

const SfRemoval *
sfi_ddl_removal(FmgrInfo *flinfo, TriggerData *trigdata, AttrNumber attnum)
{
	Known	   *known = know(flinfo, trigdata->tg_relation, attnum);

	if (!known->keeps)
		return NULL;
	known->removal = (SfRemoval) {.kind = kind_of(trigdata)};
	make_key(known, trigdata->tg_trigtuple, RelationGetDescr(trigdata->tg_relation));
	if (known->key.len > 0)
	{
		known->removal.key = known->key.data;
		known->removal.key_bytes = known->key.len;
	}
	return &known->removal;
}
