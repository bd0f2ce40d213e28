/*-------------------------------------------------------------------------
 *
 * rename.c
 *	  CHECK constraints and indexes of the old column, made again for the new one.
 *
 * The definition of each is parsed, the column is replaced by the new one in the tree of the
 * parser, and the statement is run with another name for the object, its twin.  So functions and
 * operators are those that the new type has.  Constraints are added without a look at the rows
 * and validated later; indexes are built CONCURRENTLY (build.c).
 *
 *-------------------------------------------------------------------------
 */
#include "base/base.h"

#include "catalog/pg_class.h"
#include "catalog/pg_constraint.h"
#include "commands/comment.h"
#include "commands/defrem.h"
#include "executor/spi.h"
#include "migrate/migrate_internal.h"
#include "miscadmin.h"
#include "nodes/nodeFuncs.h"
#include "parser/parser.h"
#include "utils/builtins.h"
#include "utils/lsyscache.h"

/* ---- the tree of a statement ---- */

typedef struct Renaming
{
	const char *from;
	const char *to;
} Renaming;

static bool
rename_columns(Node *node, void *arg)
{
	Renaming   *renaming = arg;

	if (node == NULL)
		return false;
	if (IsA(node, ColumnRef))
	{
		ColumnRef  *ref = (ColumnRef *) node;

		if (list_length(ref->fields) == 1 && IsA(linitial(ref->fields), String) &&
			strcmp(strVal(linitial(ref->fields)), renaming->from) == 0)
			ref->fields = list_make1(makeString(pstrdup(renaming->to)));
		return false;
	}
	return raw_expression_tree_walker(node, rename_columns, arg);
}

static Node *
parse_one(const char *statement)
{
	return linitial_node(RawStmt, raw_parser(statement, RAW_PARSE_DEFAULT))->stmt;
}

static void
rename_elements(List *elements, Renaming *renaming)
{
	ListCell   *lc;

	foreach(lc, elements)
	{
		IndexElem  *element = lfirst_node(IndexElem, lc);

		if (element->name != NULL && strcmp(element->name, renaming->from) == 0)
			element->name = pstrdup(renaming->to);
		(void) rename_columns(element->expr, renaming);
	}
}

Node *
sfi_rename_index_statement(const char *definition, const char *from, const char *to,
						   const char *name)
{
	IndexStmt  *stmt = castNode(IndexStmt, parse_one(definition));
	Renaming	renaming = {from, to};

	rename_elements(stmt->indexParams, &renaming);
	rename_elements(stmt->indexIncludingParams, &renaming);
	(void) rename_columns(stmt->whereClause, &renaming);
	stmt->idxname = pstrdup(name);
	return (Node *) stmt;
}

/* ---- constraints ---- */

char *
sfi_rename_twin(const char *name)
{
	return makeObjectName(name, NULL, "migrating");
}

static bool
is_rebuilt(const SfFinding *finding, SfDepends what)
{
	return finding->what == what && strcmp(finding->action, SF_ACTION_REBUILT) == 0;
}

/* Is the twin of a constraint there?  One that others have made is none, and is in the way. */
static bool
has_twin_check(const SfMigration *m, const SfFinding *finding)
{
	return OidIsValid(get_relation_constraint_oid(m->table_oid, sfi_rename_twin(finding->name),
												  true));
}

static void
add_check(SfMigration *m, const SfFinding *finding)
{
	char	   *text = psprintf("ALTER TABLE %s ADD CONSTRAINT %s %s", m->table,
								quote_identifier(sfi_rename_twin(finding->name)), finding->detail);
	AlterTableStmt *stmt = castNode(AlterTableStmt, parse_one(text));
	Constraint *check = castNode(Constraint, linitial_node(AlterTableCmd, stmt->cmds)->def);
	Renaming	renaming = {m->column, m->beside};

	(void) rename_columns(check->raw_expr, &renaming);
	check->skip_validation = true;
	check->initially_valid = false;
	sfi_migrate_run_tree(m->owner, (Node *) stmt, text);
}

void
sfi_rename_add_checks(SfMigration *m, List *dependents)
{
	ListCell   *lc;

	foreach(lc, dependents)
	{
		if (is_rebuilt(lfirst(lc), SF_DEPENDS_CHECK) && !has_twin_check(m, lfirst(lc)))
			add_check(m, lfirst(lc));
	}
}

void
sfi_rename_validate(SfMigration *m, List *dependents)
{
	ListCell   *lc;

	foreach(lc, dependents)
	{
		SfFinding  *finding = lfirst(lc);

		if (is_rebuilt(finding, SF_DEPENDS_CHECK) && finding->is_valid)
			sfi_migrate_run(m, "ALTER TABLE %s VALIDATE CONSTRAINT %s", m->table,
							quote_identifier(sfi_rename_twin(finding->name)));
	}
}

/* ---- twins ---- */

Oid
sfi_rename_twin_index(const SfMigration *m, const SfFinding *finding)
{
	char	   *twin = sfi_rename_twin(finding->name);
	Oid			oid = get_relname_relid(twin, get_rel_namespace(finding->oid));

	if (!OidIsValid(oid))
		return InvalidOid;
	sfi_migrate_run(m, "SELECT FROM pg_depend WHERE classid = 'pg_class'::regclass AND objid = %u"
					" AND refclassid = 'pg_class'::regclass AND refobjid = %u AND refobjsubid = %d",
					oid, m->table_oid, get_attnum(m->table_oid, m->beside));
	if (SPI_processed == 0)
		ereport(ERROR,
				(errcode(ERRCODE_DUPLICATE_TABLE),
				 errmsg("relation \"%s\" has the name that an index of column \"%s\" needs for a while",
						twin, m->beside),
				 errhint("Rename that relation, and call securefile_migrate() again.")));
	return oid;
}

bool
sfi_rename_lacks_checks(const SfMigration *m, List *dependents)
{
	ListCell   *lc;

	foreach(lc, dependents)
	{
		if (is_rebuilt(lfirst(lc), SF_DEPENDS_CHECK) && !has_twin_check(m, lfirst(lc)))
			return true;
	}
	return false;
}

bool
sfi_rename_lacks_twins(const SfMigration *m, List *dependents)
{
	ListCell   *lc;

	foreach(lc, dependents)
	{
		if (is_rebuilt(lfirst(lc), SF_DEPENDS_INDEX) &&
			!OidIsValid(sfi_rename_twin_index(m, lfirst(lc))))
			return true;
	}
	return sfi_rename_lacks_checks(m, dependents);
}

/* Before there is a new column, the name of a twin must be nobody's. */
bool
sfi_rename_is_taken(const SfMigration *m, const SfFinding *finding)
{
	if (is_rebuilt(finding, SF_DEPENDS_CHECK))
		return has_twin_check(m, finding);
	return is_rebuilt(finding, SF_DEPENDS_INDEX) &&
		OidIsValid(get_relname_relid(sfi_rename_twin(finding->name),
									 get_rel_namespace(finding->oid)));
}

/* ---- the swap ---- */

/* The old constraint goes; the new one takes its name and its comment. */
static void
swap_check(SfMigration *m, const SfFinding *finding)
{
	char	   *comment = GetComment(finding->oid, ConstraintRelationId, 0);
	const char *name = quote_identifier(finding->name);

	sfi_migrate_run(m, "ALTER TABLE %s DROP CONSTRAINT %s", m->table, name);
	if (!is_rebuilt(finding, SF_DEPENDS_CHECK))
		return;
	sfi_migrate_run(m, "ALTER TABLE %s RENAME CONSTRAINT %s TO %s", m->table,
					quote_identifier(sfi_rename_twin(finding->name)), name);
	if (comment != NULL)
		CreateComments(get_relation_constraint_oid(m->table_oid, finding->name, false),
					   ConstraintRelationId, 0, comment);
}

static const char *
in_schema(Oid schema, const char *name)
{
	return quote_qualified_identifier(get_namespace_name(schema), name);
}

/* The old index goes; the new one takes its name and its comment. */
static void
swap_index(const SfMigration *m, const SfFinding *finding)
{
	Oid			schema = get_rel_namespace(finding->oid);
	char	   *comment = GetComment(finding->oid, RelationRelationId, 0);
	char	   *twin = sfi_rename_twin(finding->name);
	bool		rebuilt = is_rebuilt(finding, SF_DEPENDS_INDEX);
	Oid			twin_oid = rebuilt ? sfi_rename_twin_index(m, finding) : InvalidOid;

	SF_ASSERT(!rebuilt || OidIsValid(twin_oid));
	sfi_migrate_run_as_caller("DROP INDEX %s", in_schema(schema, finding->name));
	if (!rebuilt)
		return;
	sfi_migrate_run_as_caller("ALTER INDEX %s RENAME TO %s", in_schema(schema, twin),
							  quote_identifier(finding->name));
	if (comment != NULL)
		CreateComments(twin_oid, RelationRelationId, 0, comment);
}

void
sfi_rename_swap(SfMigration *m, List *dependents)
{
	ListCell   *lc;

	foreach(lc, dependents)
	{
		SfFinding  *finding = lfirst(lc);

		if (finding->what == SF_DEPENDS_CHECK)
			swap_check(m, finding);
		else if (finding->what == SF_DEPENDS_INDEX)
			swap_index(m, finding);
	}
}
