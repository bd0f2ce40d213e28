/*-------------------------------------------------------------------------
 *
 * convert.c
 *	  ALTER COLUMN TYPE from another type: values go to the segment on the way.
 *
 * PostgreSQL rewrites the table by an expression: the old value, or what USING
 * says, cast to the new type.  No trigger sees these rows.  So the expression is
 * transformed here, as ALTER TABLE would do it next, and securefile_convert()
 * put around it.  That function stores what the expression yields.  Each value
 * is read once, and written once.
 *
 * The table is known only when the function is called: one command rewrites
 * all children of a table, whose columns have the same name but not the same number.
 * Event triggers run between here and there, and may have given names to other columns.
 * So when core has found the columns, they must be those that the expression was made for.
 * The segment is made when the first value comes; sync finds it there.
 *
 * The command fails if there is something on the column that a securefile cannot
 * have, such as an index on md5() of it.  The errors are PostgreSQL's; a hint is added.
 *
 *-------------------------------------------------------------------------
 */
#include "base/base.h"

#include "access/relation.h"
#include "access/sysattr.h"
#include "access/table.h"
#include "catalog/namespace.h"
#include "catalog/pg_class.h"
#include "catalog/pg_inherits.h"
#include "catalog/pg_type.h"
#include "commands/tablecmds.h"
#include "ddl/command.h"
#include "ddl/table_rows.h"
#include "fmgr.h"
#include "nodes/makefuncs.h"
#include "nodes/nodeFuncs.h"
#include "optimizer/optimizer.h"
#include "parser/parse_coerce.h"
#include "parser/parse_collate.h"
#include "parser/parse_expr.h"
#include "parser/parse_relation.h"
#include "parser/parse_type.h"
#include "storage/lmgr.h"
#include "utils/lsyscache.h"
#include "utils/memutils.h"
#include "utils/rel.h"
#include "utils/syscache.h"

PG_FUNCTION_INFO_V1(securefile_convert);

/* What an expression was made for; lives as long as the command. */
struct SfConvert
{
	Oid			table_oid;		/* the table that the command names */
	AttrNumber	attnum;			/* the column */
	const char *name;
	Oid			type;			/* which it has before */
	int			natts;
	const char **taken;			/* names of columns that the expression takes,
								 * else NULL */
};

/* The second argument of securefile_convert(). */
typedef struct ConvertCall
{
	const SfConvert *convert;
	bool		announces;		/* the first argument is the ctid of the row */
} ConvertCall;

/* ---- before the command ---- */

static bool
becomes_securefile(ColumnDef *def)
{
	int32		typmod = -1;

	return sfi_ddl_is_securefile(LookupTypeNameOid(NULL, def->typeName, true), &typmod);
}

static bool
has_foreign_children(Oid relid)
{
	ListCell   *lc;

	foreach(lc, find_all_inheritors(relid, NoLock, NULL))
	{
		if (get_rel_relkind(lfirst_oid(lc)) == RELKIND_FOREIGN_TABLE)
			return true;
	}
	return false;
}

/*
 * Is it a column of another type?  What ALTER TABLE refuses is left to it.  So
 * is a table with foreign children, which it alters only without an expression.
 */
static bool
is_convertible(Relation rel, AttrNumber attnum, ColumnDef *def, bool from_securefile)
{
	Form_pg_attribute att;
	int32		typmod = -1;

	if (attnum <= 0 || (rel->rd_rel->relkind != RELKIND_RELATION &&
						rel->rd_rel->relkind != RELKIND_PARTITIONED_TABLE))
		return false;
	att = TupleDescAttr(RelationGetDescr(rel), attnum - 1);
	if (att->attgenerated != '\0' ||
		sfi_ddl_is_securefile(att->atttypid, &typmod) != from_securefile)
		return false;
	return def->raw_default != NULL || !has_foreign_children(RelationGetRelid(rel));
}

/* The value that the column is to get, before any cast: USING, or the column itself. */
static Node *
bare_expression(ParseState *pstate, Relation rel, AttrNumber attnum, AlterTableCmd *cmd,
				const char *query)
{
	Form_pg_attribute att = TupleDescAttr(RelationGetDescr(rel), attnum - 1);
	Node	   *using = castNode(ColumnDef, cmd->def)->raw_default;

	/* what the expression means must not change before the command runs */
	SF_ASSERT(CheckRelationLockedByMe(rel, AccessShareLock, true));
	pstate->p_sourcetext = query;
	addNSItemToQuery(pstate,
					 addRangeTableEntryForRelation(pstate, rel, AccessShareLock, NULL, false, true),
					 false, true, true);
	if (using != NULL)
		return transformExpr(pstate, copyObject(using), EXPR_KIND_ALTER_COL_TRANSFORM);
	return (Node *) makeVar(1, attnum, att->atttypid, att->atttypmod, att->attcollation, 0);
}

/*
 * The value that the column is to get: as a securefile, NULL if there is no cast to that; or
 * from a securefile, and then core will cast it to the new type.  NULL: a literal of no type
 * yet, which reads no row; only core can give it the new type.
 */
static Node *
value_expression(Relation rel, AttrNumber attnum, AlterTableCmd *cmd, const char *query,
				 bool from_securefile)
{
	ParseState *pstate = make_parsestate(NULL);
	Node	   *value = bare_expression(pstate, rel, attnum, cmd, query);

	if (!from_securefile)
		value = coerce_to_target_type(pstate, value, exprType(value), sfi_ddl_objects()->type,
									  -1, COERCION_ASSIGNMENT, COERCE_IMPLICIT_CAST, -1);
	else if (exprType(value) == UNKNOWNOID)
		value = NULL;
	if (value != NULL)
		assign_expr_collations(pstate, value);
	free_parsestate(pstate);
	return value;
}

/*
 * Does ALTER COLUMN TYPE read the values of a column that is a securefile now?  Not
 * if it only changes options; and a cast that does not exist is left to core, whose
 * error says that USING is missing.  Takes no lock: only a hint, and the caller looks
 * again.
 */
static bool
reads_securefile(const AlterTableStmt *stmt, const AlterTableCmd *cmd)
{
	ColumnDef  *def = castNode(ColumnDef, cmd->def);
	Oid			relid = RangeVarGetRelid(stmt->relation, NoLock, true);
	Oid			old_type = OidIsValid(relid) ?
		get_atttype(relid, get_attnum(relid, cmd->name)) : InvalidOid;
	Oid			new_type;
	int32		typmod = -1;

	if (!OidIsValid(old_type) || !sfi_ddl_is_securefile(old_type, &typmod))
		return false;
	if (def->raw_default != NULL)
		return true;
	new_type = LookupTypeNameOid(NULL, def->typeName, true);
	return OidIsValid(new_type) && !sfi_ddl_is_securefile(new_type, &typmod) &&
		can_coerce_type(1, &old_type, &new_type, COERCION_ASSIGNMENT);
}

static SfConvert *
describe_conversion(Relation rel, AttrNumber attnum, const char *name, Node *value)
{
	TupleDesc	desc = RelationGetDescr(rel);
	SfConvert  *convert = palloc(sizeof(SfConvert));
	Bitmapset  *taken = NULL;

	convert->table_oid = RelationGetRelid(rel);
	convert->attnum = attnum;
	convert->name = pstrdup(name);
	convert->type = TupleDescAttr(desc, attnum - 1)->atttypid;
	convert->natts = desc->natts;
	convert->taken = palloc0(desc->natts * sizeof(char *));
	pull_varattnos(value, 1, &taken);
	for (int i = 0; i < desc->natts; i++)
	{
		if (sfi_ddl_takes(taken, i + 1))
			convert->taken[i] = pstrdup(NameStr(TupleDescAttr(desc, i)->attname));
	}
	bms_free(taken);
	return convert;
}

/* A call of securefile_convert() with some argument. */
static Expr *
call(Node *argument, Oid result_type, const SfConvert *convert, bool announces)
{
	ConvertCall *how = palloc(sizeof(ConvertCall));
	Const	   *target = makeConst(INTERNALOID, -1, InvalidOid, sizeof(Datum),
								   PointerGetDatum(how), false, true);

	SF_ASSERT(!announces || exprType(argument) == TIDOID);
	how->convert = convert;
	how->announces = announces;
	return (Expr *) makeFuncExpr(sfi_ddl_objects()->convert_fn, result_type,
								 list_make2(argument, target),
								 InvalidOid, InvalidOid, COERCE_EXPLICIT_CALL);
}

/*
 * CASE WHEN securefile_convert(ctid, ..) THEN value END: announces the row before
 * the value is computed.  The executor does not compare the types of arguments
 * with those that the catalog has for the function.
 */
static Node *
announced(Node *value, const SfConvert *convert)
{
	CaseExpr   *choice = makeNode(CaseExpr);
	CaseWhen   *when = makeNode(CaseWhen);
	Var		   *ctid = makeVar(1, SelfItemPointerAttributeNumber, TIDOID, -1, InvalidOid, 0);

	/* nobody resolves the type of a literal any more */
	SF_ASSERT(exprType(value) != UNKNOWNOID);
	when->expr = call((Node *) ctid, BOOLOID, convert, true);
	when->result = (Expr *) value;
	when->location = -1;
	choice->casetype = exprType(value);
	choice->casecollid = exprCollation(value);
	choice->args = list_make1(when);
	choice->defresult = (Expr *) makeNullConst(choice->casetype, exprTypmod(value),
											   choice->casecollid);
	choice->location = -1;
	return (Node *) choice;
}

/*
 * The table of an ALTER TABLE, locked as core locks it next; asks for the owner, too.
 * NULL: IF EXISTS, and there is none.
 */
static Relation
open_altered(AlterTableStmt *stmt)
{
	Oid			relid = AlterTableLookupRelation(stmt, AlterTableGetLockLevel(stmt->cmds));

	return OidIsValid(relid) ? relation_open(relid, NoLock) : NULL;
}

/* Put another expression into this part of the statement; NULL: it stays as it is. */
static SfConvert *
replace_expression(AlterTableStmt *stmt, AlterTableCmd *cmd, const char *query,
				   bool from_securefile)
{
	ColumnDef  *def = castNode(ColumnDef, cmd->def);
	SfConvert  *convert = NULL;
	Node	   *value = NULL;
	Relation	rel = open_altered(stmt);
	AttrNumber	attnum;

	if (rel == NULL)
		return NULL;
	attnum = get_attnum(RelationGetRelid(rel), cmd->name);
	if (is_convertible(rel, attnum, def, from_securefile))
		value = value_expression(rel, attnum, cmd, query, from_securefile);
	if (value != NULL)
	{
		convert = describe_conversion(rel, attnum, cmd->name, value);
		def->raw_default = NULL;
		def->cooked_default = announced(value, convert);
		if (!from_securefile)
			def->cooked_default = (Node *) call(def->cooked_default, sfi_ddl_objects()->type,
												convert, false);
	}
	relation_close(rel, NoLock);
	return convert;
}

SfConvert *
sfi_ddl_convert(AlterTableStmt *stmt, AlterTableCmd *cmd, const char *query)
{
	if (stmt->objtype != OBJECT_TABLE || sfi_ddl_objects() == NULL ||
		!becomes_securefile(castNode(ColumnDef, cmd->def)))
		return NULL;
	return replace_expression(stmt, cmd, query, false);
}

SfConvert *
sfi_ddl_convert_from(AlterTableStmt *stmt, AlterTableCmd *cmd, const char *query)
{
	if (stmt->objtype != OBJECT_TABLE || sfi_ddl_objects() == NULL || !reads_securefile(stmt, cmd))
		return NULL;
	return replace_expression(stmt, cmd, query, true);
}

/* ---- when core has found the columns ---- */

/* ERROR: the expression would read other columns than the command means. */
static void
refuse_changed(const SfConvert *convert)
{
	ereport(ERROR,
			(errcode(ERRCODE_OBJECT_IN_USE),
			 errmsg("columns of table \"%s\" were changed by an event trigger of the command",
					get_rel_name(convert->table_oid)),
			 errdetail("The values for column \"%s\" would come from other columns than those that the command means.",
					   convert->name),
			 errhint("Run the command again without the event trigger.")));
}

/*
 * Has the column got another name?  A dropped column counts as not renamed: the
 * command itself may drop it and still reads it.
 */
static bool
is_renamed(Oid table_oid, AttrNumber attnum, const char *before)
{
	HeapTuple	tuple = SearchSysCache2(ATTNUM, ObjectIdGetDatum(table_oid),
										Int16GetDatum(attnum));
	Form_pg_attribute att;
	bool		renamed;

	if (!HeapTupleIsValid(tuple))
		return false;
	att = (Form_pg_attribute) GETSTRUCT(tuple);
	renamed = !att->attisdropped && strcmp(NameStr(att->attname), before) != 0;
	ReleaseSysCache(tuple);
	return renamed;
}

/* Core has not made its change of the type visible yet. */
void
sfi_ddl_convert_verify(const SfConvert *convert, Oid table_oid, AttrNumber attnum,
					   const char *name)
{
	if (convert == NULL || convert->table_oid != table_oid || strcmp(convert->name, name) != 0)
		return;
	if (convert->attnum != attnum || convert->type != get_atttype(table_oid, attnum))
		refuse_changed(convert);
	for (int i = 0; i < convert->natts; i++)
	{
		if (convert->taken[i] != NULL && is_renamed(table_oid, i + 1, convert->taken[i]))
			refuse_changed(convert);
	}
}

/* ---- in the course of it ---- */

/* The number of the column in a table that the command rewrites. */
static AttrNumber
column_to_fill(const SfConvert *convert, Oid table_oid)
{
	AttrNumber	attnum = sfi_ddl_altered_column(table_oid, convert->name);

	/* the command may have found another table of that name */
	if (attnum == InvalidAttrNumber ||
		sfi_ddl_altered_column(convert->table_oid, convert->name) != convert->attnum)
		refuse_changed(convert);
	return attnum;
}

/*
 * The column, with a segment if it has one to be.  The new storage says where
 * the table will lie and whether it will be permanent.
 */
static SfColumn *
column_being_rewritten(FunctionCallInfo fcinfo)
{
	const SfConvert *convert = ((const ConvertCall *) PG_GETARG_POINTER(1))->convert;
	SfColumn   *column = MemoryContextAlloc(fcinfo->flinfo->fn_mcxt, sizeof(SfColumn));
	Oid			transient_oid;
	Oid			table_oid = sfi_ddl_rewritten_table(&transient_oid);
	Relation	rel = table_open(table_oid, NoLock);
	Relation	transient = table_open(transient_oid, NoLock);

	*column = sfi_ddl_column(rel, column_to_fill(convert, table_oid));
	column->permanent = transient->rd_rel->relpersistence == RELPERSISTENCE_PERMANENT;
	if (column->permanent &&
		!OidIsValid(sf_space_segment_relid(table_oid, column->attnum)))
		(void) sfi_ddl_segment_make(column, transient->rd_rel->reltablespace);
	SF_ASSERT(!column->permanent ||
			  OidIsValid(sf_space_segment_relid(table_oid, column->attnum)));
	table_close(transient, NoLock);
	table_close(rel, NoLock);
	return column;
}

/* The command is at a row of the table that it rewrites. */
static void
announce_row(FunctionCallInfo fcinfo, const SfConvert *convert)
{
	SfRowContext *row = &sfi_ddl_command.alter->row;

	/*
	 * the expression runs while the command that it was made for is the
	 * current one
	 */
	SF_ASSERT(sfi_ddl_command.alter != NULL);
	SF_ASSERT(list_member_ptr(sfi_ddl_command.alter->converts, convert));

	if (fcinfo->flinfo->fn_extra == NULL)
	{
		Oid			transient_oid;
		char	   *name = get_rel_name(sfi_ddl_rewritten_table(&transient_oid));

		/* as long-lived as the row context that refers to it */
		fcinfo->flinfo->fn_extra =
			MemoryContextStrdup(GetMemoryChunkContext(sfi_ddl_command.alter), name);
	}
	SF_ASSERT(ItemPointerIsValid((ItemPointer) PG_GETARG_POINTER(0)));
	row->table = fcinfo->flinfo->fn_extra;
	row->column = convert->name;
	row->tid = *(ItemPointer) PG_GETARG_POINTER(0);
}

/*
 * securefile_convert(value, ConvertCall): the value as the row is to hold it;
 * securefile_convert(ctid, ConvertCall): true, and errors name the row from now on.
 * Only the expressions above can call this, since SQL has no values of type internal.
 */
Datum
securefile_convert(PG_FUNCTION_ARGS)
{
	const ConvertCall *how = (const ConvertCall *) PG_GETARG_POINTER(1);
	SfColumn   *column = fcinfo->flinfo->fn_extra;
	Datum		value = PG_GETARG_DATUM(0);
	SfValue		stored;
	Relation	rel;

	if (how->announces)
	{
		announce_row(fcinfo, how->convert);
		PG_RETURN_BOOL(true);
	}
	/* an expression is initialized for each table */
	if (column == NULL)
		fcinfo->flinfo->fn_extra = column = column_being_rewritten(fcinfo);
	if (!sfi_ddl_put_value(column, value, &stored))
		PG_RETURN_DATUM(value);
	rel = table_open(column->table_oid, NoLock);
	sfi_ddl_refuse_unpublishable(rel, column->attnum, &stored);
	table_close(rel, NoLock);
	PG_RETURN_POINTER(stored.datum);
}

/* ---- when it fails ---- */

bool
sfi_ddl_converts(Node *stmt)
{
	ListCell   *lc;

	if (!IsA(stmt, AlterTableStmt) || castNode(AlterTableStmt, stmt)->objtype != OBJECT_TABLE ||
		sfi_ddl_objects() == NULL)
		return false;
	foreach(lc, castNode(AlterTableStmt, stmt)->cmds)
	{
		AlterTableCmd *cmd = lfirst_node(AlterTableCmd, lc);

		if (cmd->subtype == AT_AlterColumnType && becomes_securefile(castNode(ColumnDef, cmd->def)))
			return true;
	}
	return false;
}

/* Messages of PostgreSQL, untranslated, and the hints for them. */
static const struct
{
	const char *message_id;
	const char *hint;
}			hints[] = {

	{"functions in index expression must be marked IMMUTABLE",
		"Drop the index first: of the bytes of a securefile an index can have the digest only, securefile_digest() of the column."},
	{"functions in index predicate must be marked IMMUTABLE",
		"Drop the index first: its condition cannot read the bytes of a securefile."},
	{"data type %s has no default operator class for access method \"%s\"",
		"Drop the index or constraint first: a securefile can have hash indexes only, which find it by its content."},
	{"column \"%s\" cannot be used in statistics because its type %s has no default btree operator class",
		"Drop the statistics object first, or take the column out of it."},
	{"cannot alter type of a column used by a generated column",
		"Drop the generated column first. It can be computed from the length of a securefile and from securefile_digest() of it, and not from its bytes; a trigger can do that."},
};

void
sfi_ddl_convert_hint(void)
{
	MemoryContext old;
	ErrorData  *error;

	if (geterrcode() == ERRCODE_OUT_OF_MEMORY)
		return;
	old = MemoryContextSwitchTo(CurTransactionContext);
	error = CopyErrorData();
	for (int i = 0; i < lengthof(hints); i++)
		if (error->message_id != NULL && strcmp(error->message_id, hints[i].message_id) == 0)
			errhint("%s", hints[i].hint);
	FreeErrorData(error);
	MemoryContextSwitchTo(old);
}
