/*-------------------------------------------------------------------------
 *
 * alter.c
 *	  The ALTER TABLE that is being run: what it may do to rows.
 *
 * The statement is looked at before the command, by names.  When core has found
 * the columns, the object access hook hears of them, by numbers.
 *
 *-------------------------------------------------------------------------
 */
#include "base/base.h"

#include "ddl/command.h"
#include "utils/lsyscache.h"
#include "utils/memutils.h"

/* Is the expression a bare reference to the column itself? */
static bool
is_self_reference(Node *expr, const char *column)
{
	ColumnRef  *ref = (ColumnRef *) expr;

	return IsA(expr, ColumnRef) && list_length(ref->fields) == 1 &&
		IsA(linitial(ref->fields), String) &&
		strcmp(strVal(linitial(ref->fields)), column) == 0;
}

SfAlter *
sfi_ddl_alter_analyze(AlterTableStmt *stmt, const char *query)
{
	SfAlter    *alter = palloc0(sizeof(SfAlter));
	ListCell   *lc;

	foreach(lc, stmt->cmds)
	{
		AlterTableCmd *cmd = castNode(AlterTableCmd, lfirst(lc));

		if (cmd->subtype == AT_DropColumn && cmd->behavior == DROP_CASCADE)
			alter->drops_cascade = true;
		if (cmd->subtype == AT_AddColumn || cmd->subtype == AT_AlterColumnType)
			alter->may_bring_values = true;
		if (cmd->subtype == AT_AddColumn)
			sfi_ddl_refuse_plain_default(cmd);
		if (cmd->subtype == AT_AlterColumnType)
		{
			ColumnDef  *def = castNode(ColumnDef, cmd->def);
			String	   *name = makeString(pstrdup(cmd->name));
			bool		computes = def->raw_default != NULL &&
				!is_self_reference(def->raw_default, cmd->name);
			SfConvert  *convert;

			alter->retyped_names = lappend(alter->retyped_names, name);
			convert = sfi_ddl_convert(stmt, cmd, query);

			/*
			 * one that sfi_ddl_convert() has changed stores what USING
			 * computes
			 */
			if (convert == NULL && computes)
				alter->using_names = lappend(alter->using_names, name);
			if (convert == NULL)
				sfi_ddl_refuse_plain_using(stmt, cmd, computes);
			if (convert == NULL)
				convert = sfi_ddl_convert_from(stmt, cmd, query);
			alter->converts = lappend(alter->converts, convert);
		}
	}
	SF_ASSERT(list_length(alter->retyped_names) == list_length(alter->converts));
	SF_ASSERT(list_length(alter->using_names) <= list_length(alter->retyped_names));
	return alter;
}

static bool
has_name(const List *names, const char *name)
{
	const ListCell *lc;

	foreach(lc, names)
	{
		if (strcmp(strVal(lfirst(lc)), name) == 0)
			return true;
	}
	return false;
}

/* The options of a column whose type is about to change; the defaults if it is of another type. */
static SfOptions
options_before(Oid table_oid, AttrNumber attnum)
{
	Oid			typid;
	int32		typmod;
	Oid			collation;

	get_atttypetypmodcoll(table_oid, attnum, &typid, &typmod, &collation);
	return sf_config_options(sfi_ddl_is_securefile(typid, &typmod) ? typmod : -1);
}

/* Core has just found the column by that name, and its expression runs later. */
void
sfi_ddl_alter_note(Oid table_oid, AttrNumber attnum)
{
	char	   *name = sfi_ddl_command.alter == NULL ? NULL : get_attname(table_oid, attnum, true);
	MemoryContext old;
	SfAltered  *altered;
	AttrNumber	known;
	ListCell   *lc;

	if (name == NULL || !has_name(sfi_ddl_command.alter->retyped_names, name))
		return;

	/* core changes the type of no system column */
	SF_ASSERT(attnum > 0);
	/* other parts of the command (SET NOT NULL) alter the column later, too */
	known = sfi_ddl_altered_column(table_oid, name);
	if (known == attnum)
		return;
	if (known == InvalidAttrNumber)
	{
		foreach(lc, sfi_ddl_command.alter->converts)
			sfi_ddl_convert_verify(lfirst(lc), table_oid, attnum, name);
	}
	sfi_ddl_taken_note(table_oid, attnum, false);
	old = MemoryContextSwitchTo(GetMemoryChunkContext(sfi_ddl_command.alter));
	altered = palloc(sizeof(SfAltered));
	*altered = (SfAltered) {table_oid, attnum, pstrdup(name),
								   has_name(sfi_ddl_command.alter->using_names, name),
								   options_before(table_oid, attnum)};
	sfi_ddl_command.alter->retyped = lappend(sfi_ddl_command.alter->retyped, altered);
	MemoryContextSwitchTo(old);
}
