/*-------------------------------------------------------------------------
 *
 * swap.c
 *	  The moment in which the new column becomes the column.
 *
 * All of it is work on catalogs, in one transaction: no row is read.  That the new column has no
 * NULL is known from a constraint that was validated before.
 *
 *-------------------------------------------------------------------------
 */
#include "base/base.h"

#include "access/htup_details.h"
#include "access/relation.h"
#include "access/table.h"
#include "catalog/dependency.h"
#include "catalog/indexing.h"
#include "catalog/pg_attribute.h"
#include "catalog/pg_class.h"
#include "catalog/pg_namespace.h"
#include "commands/comment.h"
#include "commands/defrem.h"
#include "executor/spi.h"
#include "migrate/migrate_internal.h"
#include "utils/acl.h"
#include "utils/builtins.h"
#include "utils/inval.h"
#include "utils/lsyscache.h"
#include "utils/rel.h"
#include "utils/syscache.h"

/* ---- what a column has of its own ---- */

/* Privileges with their grantors, which no GRANT could say again. */
static void
carry_privileges(const SfMigration *m, AttrNumber from, AttrNumber to)
{
	Relation	catalog = table_open(AttributeRelationId, RowExclusiveLock);
	HeapTuple	old = SearchSysCache2(ATTNUM, ObjectIdGetDatum(m->table_oid), Int16GetDatum(from));
	HeapTuple	new = SearchSysCacheCopy2(ATTNUM, ObjectIdGetDatum(m->table_oid),
										  Int16GetDatum(to));
	bool		isnull;
	Datum		acl = SysCacheGetAttr(ATTNUM, old, Anum_pg_attribute_attacl, &isnull);

	if (!isnull)
	{
		Datum		values[Natts_pg_attribute] = {0};
		bool		nulls[Natts_pg_attribute] = {false};
		bool		replaces[Natts_pg_attribute] = {false};
		Oid		   *members;
		int			n = aclmembers(DatumGetAclP(acl), &members);
		HeapTuple	changed;

		values[Anum_pg_attribute_attacl - 1] = acl;
		replaces[Anum_pg_attribute_attacl - 1] = true;
		changed = heap_modify_tuple(new, RelationGetDescr(catalog), values, nulls, replaces);
		CatalogTupleUpdate(catalog, &changed->t_self, changed);
		updateAclDependencies(RelationRelationId, m->table_oid, to, m->owner, 0, NULL, n, members);
	}
	ReleaseSysCache(old);
	table_close(catalog, RowExclusiveLock);
	CommandCounterIncrement();
}

static void
carry_comment(const SfMigration *m, AttrNumber from, AttrNumber to)
{
	char	   *comment = GetComment(m->table_oid, RelationRelationId, from);

	if (comment == NULL)
		return;
	CreateComments(m->table_oid, RelationRelationId, to, comment);
	CreateComments(m->table_oid, RelationRelationId, from, NULL);
	CommandCounterIncrement();
}

/* Statistics target and options, such as n_distinct. */
static void
carry_statistics(const SfMigration *m, AttrNumber from)
{
	const char *new = quote_identifier(m->beside);
	char	   *target;
	char	   *options;

	sfi_migrate_run(m, "SELECT CASE WHEN attstattarget >= 0 THEN attstattarget END,"
					" (SELECT string_agg(quote_ident(option_name) || ' = ' || option_value, ', ')"
					" FROM pg_options_to_table(attoptions) WHERE option_name LIKE 'n\\_distinct%%')"
					" FROM pg_attribute WHERE attrelid = %u AND attnum = %d", m->table_oid, from);
	target = SPI_getvalue(SPI_tuptable->vals[0], SPI_tuptable->tupdesc, 1);
	options = SPI_getvalue(SPI_tuptable->vals[0], SPI_tuptable->tupdesc, 2);
	if (target != NULL)
		sfi_migrate_run(m, "ALTER TABLE %s ALTER %s SET STATISTICS %s", m->table, new, target);
	if (options != NULL)
		sfi_migrate_run(m, "ALTER TABLE %s ALTER %s SET (%s)", m->table, new, options);
}

/* A default that is no more than a literal is one of the new type, without a cast. */
static const char *
without_cast(const char *expression)
{
	const char *end = strrchr(expression, '\'');

	if (expression[0] != '\'' || end == NULL || strchr(expression + 1, '\'') != end)
		return expression;
	return pnstrdup(expression, end - expression + 1);
}

/* A default that is a number of a large object means nothing to the other type. */
static void
carry_default(const SfMigration *m, List *dependents)
{
	ListCell   *lc;

	foreach(lc, dependents)
	{
		SfFinding  *finding = lfirst(lc);

		if (strcmp(finding->kind, "default") != 0)
			continue;
		if (!sfi_migrate_is_lazy(m))
			sfi_migrate_run(m, "ALTER TABLE %s ALTER %s SET DEFAULT %s", m->table,
							quote_identifier(m->beside), without_cast(finding->detail));
		sfi_migrate_run(m, "ALTER TABLE %s ALTER %s DROP DEFAULT", m->table,
						quote_identifier(m->column));
	}
}

/* The name of the constraint NOT NULL of a column, or NULL: before PostgreSQL 18 there is none. */
static char *
not_null_name(const SfMigration *m, const char *column)
{
	sfi_migrate_run(m, "SELECT conname FROM pg_constraint WHERE conrelid = %u AND contype = 'n'"
					" AND conkey = ARRAY[%d::int2]", m->table_oid,
					get_attnum(m->table_oid, column));
	return SPI_processed == 0 ? NULL
		: SPI_getvalue(SPI_tuptable->vals[0], SPI_tuptable->tupdesc, 1);
}

static void
carry_not_null(const SfMigration *m)
{
	char	   *old_name;
	char	   *new_name;

	if (!m->not_null)
		return;
	old_name = not_null_name(m, m->column);
	sfi_migrate_run(m, "ALTER TABLE %s ALTER %s SET NOT NULL", m->table,
					quote_identifier(m->beside));
	sfi_migrate_run(m, "ALTER TABLE %s ALTER %s DROP NOT NULL", m->table,
					quote_identifier(m->column));
	new_name = not_null_name(m, m->beside);
	if (old_name != NULL && new_name != NULL && strcmp(old_name, new_name) != 0)
		sfi_migrate_run(m, "ALTER TABLE %s RENAME CONSTRAINT %s TO %s", m->table,
						quote_identifier(new_name), quote_identifier(old_name));
}

/* ---- the swap ---- */

/*
 * Have all sessions plan their statements again.  A statement of a PL/pgSQL trigger that names
 * NEW.document was planned for the old type; its plan does not depend on the table, and would
 * fail until its session ends.  The plan cache forgets all plans when a schema may have changed.
 */
static void
forget_plans(const SfMigration *m)
{
	Relation	catalog = table_open(NamespaceRelationId, AccessShareLock);
	HeapTuple	schema = SearchSysCacheCopy1(NAMESPACEOID,
											 ObjectIdGetDatum(get_rel_namespace(m->table_oid)));

	if (HeapTupleIsValid(schema))
		CacheInvalidateHeapTuple(catalog, schema, NULL);
	table_close(catalog, AccessShareLock);
}

static void
drop_followers(const SfMigration *m, List *dependents)
{
	ListCell   *lc;

	foreach(lc, dependents)
	{
		SfFinding  *finding = lfirst(lc);

		if (finding->what == SF_DEPENDS_LO_MANAGE)
			sfi_migrate_run(m, "DROP TRIGGER %s ON %s", quote_identifier(finding->name), m->table);
	}
	sfi_migrate_drop_helpers(m);
}

/* The old column goes at once, or stays with a note that says what is left to do. */
static void
leave_old(SfMigration *m)
{
	char	   *old = makeObjectName(m->column, NULL, "migrated");

	sfi_migrate_run(m, "ALTER TABLE %s RENAME COLUMN %s TO %s", m->table,
					quote_identifier(m->column), quote_identifier(old));
	sfi_migrate_run(m, "ALTER TABLE %s RENAME COLUMN %s TO %s", m->table,
					quote_identifier(m->beside), quote_identifier(m->column));
	m->beside = old;
	m->phase = SF_MIGRATE_SWAPPED;
	if (m->options.unlink && m->from == SF_CONTENT_OBJECT)
		sfi_migrate_note(m);
	else if (!m->options.keep_old)
		sfi_migrate_run(m, "ALTER TABLE %s DROP COLUMN %s", m->table, quote_identifier(old));
}

void
sfi_swap_columns(SfMigration *m, List *dependents)
{
	AttrNumber	from = get_attnum(m->table_oid, m->column);
	AttrNumber	to = get_attnum(m->table_oid, m->beside);

	SF_ASSERT(m->phase == SF_MIGRATE_MOVING && from > 0 && to > 0);
	carry_privileges(m, from, to);
	carry_comment(m, from, to);
	carry_statistics(m, from);
	carry_default(m, dependents);
	carry_not_null(m);
	drop_followers(m, dependents);
	sfi_rename_swap(m, dependents);
	leave_old(m);
	forget_plans(m);
}
