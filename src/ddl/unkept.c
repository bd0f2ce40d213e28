/*-------------------------------------------------------------------------
 *
 * unkept.c
 *	  A NOTICE when a column gets a retention that its rows do not have.
 *
 * A retention keeps what lay in the segment.  A value in a row goes with the row, and VACUUM
 * takes both.  Nobody sees that in the option, so the command that gives it to the column says
 * so: CREATE TABLE, ADD COLUMN, and an ALTER TYPE that changes the retention or lets values
 * into rows.  A child says nothing, since its parent has.  Nor does a temporary table, which is
 * often a copy of another one.
 *
 *-------------------------------------------------------------------------
 */
#include "base/base.h"

#include "catalog/pg_class.h"
#include "ddl/command.h"
#include "utils/rel.h"

/* Are there values of a column with a retention that it does not keep? */
static bool
loses_values(const SfColumn *column, const SfOptions *options)
{
	return options->retention_us > 0 && (options->in_row || !column->permanent);
}

/* What ALTER TYPE has found of a column; NULL: the command does not change the type. */
static const SfAltered *
find_altered(const SfColumn *column)
{
	ListCell   *lc;

	foreach(lc, sfi_ddl_command.alter == NULL ? NIL : sfi_ddl_command.alter->retyped)
	{
		const SfAltered *altered = lfirst(lc);

		if (altered->table_oid == column->table_oid && altered->attnum == column->attnum)
			return altered;
	}
	return NULL;
}

/* Does the command bring it about that the column loses values before that time? */
static bool
newly_loses(const SfColumn *column, const SfDirtyTable *dirty)
{
	const SfAltered *altered = find_altered(column);

	SF_ASSERT(dirty->relid == column->table_oid);
	if (dirty->created || sfi_ddl_is_added(dirty, column->attnum))
		return true;
	return altered != NULL && !(loses_values(column, &altered->before) &&
								altered->before.retention_us == column->options.retention_us);
}

static void
tell(Relation rel, const SfColumn *column)
{
	ereport(NOTICE,
			(errmsg("values of column \"%s\" of table \"%s\" that lie in rows are not kept after their removal",
					sfi_ddl_column_name(rel, column->attnum), RelationGetRelationName(rel)),
			 column->permanent ?
			 errdetail("Values of up to %d bytes are stored in rows, and with compression longer ones, too.",
					   SF_IN_ROW_MAX) :
			 errdetail("An unlogged table stores all values in rows."),
			 column->permanent ?
			 errhint("With the option disable_storage_in_row all values are kept.") : 0));
}

void
sfi_ddl_tell_unkept(Relation rel, const SfDirtyTable *dirty)
{
	ListCell   *lc;

	SF_ASSERT(dirty->relid == RelationGetRelid(rel));
	if ((rel->rd_rel->relkind != RELKIND_RELATION &&
		 rel->rd_rel->relkind != RELKIND_PARTITIONED_TABLE) ||
		rel->rd_rel->relpersistence == RELPERSISTENCE_TEMP)
		return;
	foreach(lc, sfi_ddl_columns_of(rel))
	{
		SfColumn	column = sfi_ddl_column(rel, lfirst_int(lc));
		bool		inherited =
			TupleDescAttr(RelationGetDescr(rel), column.attnum - 1)->attinhcount > 0;

		if (!inherited && loses_values(&column, &column.options) && newly_loses(&column, dirty))
			tell(rel, &column);
	}
}
