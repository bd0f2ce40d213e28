/*-------------------------------------------------------------------------
 *
 * state.c
 *	  Which migration there is of a column, as the catalogs tell it.
 *
 * The trigger is the state.  It belongs to the owner of the table, comes and goes with the
 * transactions that move the work on, and is dumped with the table.  A role that may create
 * triggers on a table may run code as each of its writers: arguments give it no more.
 *
 *-------------------------------------------------------------------------
 */
#include "base/base.h"

#include "access/relation.h"
#include "catalog/catalog.h"
#include "catalog/pg_class.h"
#include "catalog/pg_inherits.h"
#include "catalog/pg_namespace.h"
#include "catalog/pg_type.h"
#include "commands/trigger.h"
#include "commands/defrem.h"
#include "ddl/ddl.h"
#include "migrate/migrate_internal.h"
#include "miscadmin.h"
#include "nodes/value.h"
#include "parser/parse_func.h"
#include "parser/parse_type.h"
#include "storage/lmgr.h"
#include "utils/builtins.h"
#include "utils/lsyscache.h"
#include "utils/syscache.h"

static const char *const phases[] = {"", "moving", "swapped"};

/* ---- types ---- */

Oid
sfi_migrate_type(Oid fn_oid)
{
	Oid			schema = get_func_namespace(fn_oid);

	return GetSysCacheOid2(TYPENAMENSP, Anum_pg_type_oid, CStringGetDatum("securefile"),
						   ObjectIdGetDatum(schema));
}

SfContentKind
sfi_migrate_kind(Oid type_oid, Oid securefile_oid)
{
	Oid			base = getBaseType(type_oid);

	if (base == securefile_oid)
		return SF_CONTENT_SECUREFILE;
	if (base == BYTEAOID)
		return SF_CONTENT_BYTEA;
	return base == OIDOID ? SF_CONTENT_OBJECT : SF_CONTENT_OTHER;
}

/* Set the target of a migration to a type, which has to be one that values can become. */
static void
set_target(SfMigration *m, Oid type_oid, int32 typmod)
{
	m->to = sfi_migrate_kind(type_oid, m->type_oid);
	m->to_sql = format_type_extended(type_oid, typmod,
									 FORMAT_TYPE_TYPEMOD_GIVEN | FORMAT_TYPE_FORCE_QUALIFY);
}

/* The target that the caller asks for. */
static void
parse_target(SfMigration *m, const char *to_type)
{
	Oid			type_oid = m->type_oid;
	int32		typmod = -1;

	if (to_type != NULL)
		sf_compat_parse_type(to_type, &type_oid, &typmod);
	set_target(m, type_oid, typmod);
}

/* ---- tables ---- */

/* ERROR for a kind of relation whose columns cannot be migrated; what: an indefinite noun. */
static void
refuse_relation(Relation rel, const char *what, const char *hint)
{
	ereport(ERROR,
			(errcode(ERRCODE_WRONG_OBJECT_TYPE),
			 errmsg("\"%s\" is %s, whose columns securefile_migrate() does not change",
					RelationGetRelationName(rel), what),
			 errhint("%s", hint)));
}

static void
require_table(Relation rel)
{
	const char *alter =
		"Use ALTER TABLE .. ALTER COLUMN .. TYPE, which keeps others out while it runs.";
	const char *by_hand =
		"Use ALTER TABLE .. ALTER COLUMN .. TYPE for the whole, which keeps others out while it runs, or the statements of doc/migrating.md, which do not.";

	if (rel->rd_rel->relkind == RELKIND_PARTITIONED_TABLE)
		refuse_relation(rel, "a partitioned table", by_hand);
	if (rel->rd_rel->relkind != RELKIND_RELATION)
		ereport(ERROR,
				(errcode(ERRCODE_WRONG_OBJECT_TYPE),
				 errmsg("\"%s\" is not a table", RelationGetRelationName(rel)),
				 errhint("Call securefile_migrate() for the table that has the rows.")));
	if (IsCatalogRelation(rel))
		refuse_relation(rel, "a system catalog", "Choose a table of your own.");
	sf_ddl_require_owner(RelationGetRelid(rel));
	sf_base_refuse_other_temp(RelationGetRelid(rel));
	sf_base_refuse_shell(RelationGetRelid(rel));
	if (rel->rd_rel->relispartition)
		refuse_relation(rel, "a partition", by_hand);
	if (rel->rd_rel->relpersistence == RELPERSISTENCE_TEMP)
		refuse_relation(rel, "a temporary table", alter);
	if (OidIsValid(rel->rd_rel->reloftype))
		refuse_relation(rel, "a typed table", "Use ALTER TABLE .. NOT OF first.");
	if (has_superclass(RelationGetRelid(rel)) || has_subclass(RelationGetRelid(rel)))
		refuse_relation(rel, "part of an inheritance tree", by_hand);
}

/* ---- the migration ---- */

/* Take over what a trigger says, if it is one of this column. */
static bool
take_trigger(SfMigration *m, const Trigger *trigger)
{
	if (trigger->tgfoid != m->follow_fn || trigger->tgnargs != SF_MIGRATE_ARGS ||
		strcmp(trigger->tgargs[SF_MIGRATE_ARG_COLUMN], m->column) != 0)
		return false;
	for (int i = SF_MIGRATE_MOVING; i < lengthof(phases); i++)
	{
		if (strcmp(trigger->tgargs[SF_MIGRATE_ARG_PHASE], phases[i]) == 0)
			m->phase = i;
	}
	m->beside = pstrdup(trigger->tgargs[SF_MIGRATE_ARG_BESIDE]);
	m->options.unlink = strstr(trigger->tgargs[SF_MIGRATE_ARG_THEN], "unlink") != NULL;
	m->options.keep_old = strstr(trigger->tgargs[SF_MIGRATE_ARG_THEN], "keep") != NULL;
	return m->phase != SF_MIGRATE_NONE;
}

/* A migration of a column that was renamed or dropped: until that is mended there is no other. */
static void
refuse_lost_migration(const SfMigration *m, Relation rel)
{
	TriggerDesc *triggers = rel->trigdesc;

	for (int i = 0; triggers != NULL && i < triggers->numtriggers; i++)
	{
		const Trigger *trigger = &triggers->triggers[i];

		if (trigger->tgfoid == m->follow_fn && trigger->tgnargs == SF_MIGRATE_ARGS &&
			get_attnum(m->table_oid, trigger->tgargs[SF_MIGRATE_ARG_COLUMN]) == InvalidAttrNumber)
			ereport(ERROR,
					(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
					 errmsg("column \"%s\" of table %s, which is being migrated, does not exist",
							trigger->tgargs[SF_MIGRATE_ARG_COLUMN], m->table),
					 errhint(SF_MIGRATE_RENAMED_HINT)));
	}
}

static void
look_for_trigger(SfMigration *m, Relation rel)
{
	TriggerDesc *triggers = rel->trigdesc;

	for (int i = 0; triggers != NULL && i < triggers->numtriggers; i++)
	{
		if (take_trigger(m, &triggers->triggers[i]))
			return;
	}
	refuse_lost_migration(m, rel);
	m->beside = makeObjectName(m->column, NULL, "migrating");
}

static Form_pg_attribute
column_of(const SfMigration *m, Relation rel, const char *name)
{
	TupleDesc	desc = RelationGetDescr(rel);

	for (int i = 0; i < desc->natts; i++)
	{
		Form_pg_attribute att = TupleDescAttr(desc, i);

		if (!att->attisdropped && strcmp(NameStr(att->attname), name) == 0)
			return att;
	}
	ereport(ERROR,
			(errcode(ERRCODE_UNDEFINED_COLUMN),
			 errmsg("column \"%s\" of relation \"%s\" does not exist", name,
					RelationGetRelationName(rel)),
			 m->phase == SF_MIGRATE_NONE ? 0 : errhint(SF_MIGRATE_RENAMED_HINT)));
}

void
sfi_migrate_columns(const SfMigration *m, Relation rel, AttrNumber *from, AttrNumber *to)
{
	const char *old = m->phase == SF_MIGRATE_SWAPPED ? m->beside : m->column;
	const char *new = m->phase == SF_MIGRATE_SWAPPED ? m->column : m->beside;

	*from = column_of(m, rel, old)->attnum;
	*to = column_of(m, rel, new)->attnum;
	SF_ASSERT(*from != *to);
}

/* Where values come from and go to, by the columns that are there. */
static void
look_at_columns(SfMigration *m, Relation rel, const char *to_type)
{
	Form_pg_attribute column = column_of(m, rel, m->column);
	Form_pg_attribute beside;

	m->not_null = column->attnotnull;
	if (m->phase == SF_MIGRATE_NONE)
	{
		m->from = sfi_migrate_kind(column->atttypid, m->type_oid);
		parse_target(m, to_type);
		return;
	}
	beside = column_of(m, rel, m->beside);
	if (m->phase == SF_MIGRATE_MOVING)
	{
		m->from = sfi_migrate_kind(column->atttypid, m->type_oid);
		set_target(m, beside->atttypid, beside->atttypmod);
	}
	else
	{
		m->from = sfi_migrate_kind(beside->atttypid, m->type_oid);
		set_target(m, column->atttypid, column->atttypmod);
	}
}

/* A call that goes on must not ask for another target than the one that began. */
static void
require_same_target(const SfMigration *m, const char *to_type)
{
	SfMigration asked = *m;

	if (to_type == NULL || m->phase == SF_MIGRATE_NONE)
		return;
	parse_target(&asked, to_type);
	if (strcmp(asked.to_sql, m->to_sql) != 0)
		ereport(ERROR,
				(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
				 errmsg("column \"%s\" of table %s is being migrated to %s", m->column, m->table,
						m->to_sql),
				 errhint("Go on without to_type, or take the migration back with abort => true first.")));
}

static Oid
follow_function(Oid fn_oid)
{
	List	   *name = list_make2(makeString(get_namespace_name(get_func_namespace(fn_oid))),
								  makeString("securefile_migrate_follow"));

	return LookupFuncName(name, 0, NULL, false);
}

SfMigration *
sfi_migrate_find(Oid table_oid, const char *column, const char *to_type, Oid fn_oid)
{
	SfMigration *m = palloc0(sizeof(*m));
	Relation	rel = try_relation_open(table_oid, AccessShareLock);

	if (rel == NULL)
		ereport(ERROR,
				(errcode(ERRCODE_UNDEFINED_TABLE),
				 errmsg("table with OID %u does not exist", table_oid)));
	require_table(rel);
	m->table_oid = table_oid;
	m->owner = rel->rd_rel->relowner;
	m->type_oid = sfi_migrate_type(fn_oid);
	m->follow_fn = follow_function(fn_oid);
	m->table = quote_qualified_identifier(get_namespace_name(RelationGetNamespace(rel)),
										  RelationGetRelationName(rel));
	m->column = pstrdup(column);
	look_for_trigger(m, rel);
	look_at_columns(m, rel, to_type);
	relation_close(rel, AccessShareLock);
	require_same_target(m, to_type);
	return m;
}

char *
sfi_migrate_name(const SfMigration *m, const char *what)
{
	return makeObjectName("~securefile_migrate", m->column, what);
}

/* ---- what is asked for ---- */

bool
sfi_migrate_missing(const char *word)
{
	if (strcmp(word, "null") == 0)
		return true;
	if (strcmp(word, "error") != 0)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("invalid value for missing: \"%s\"", word),
				 errhint("Valid values are 'error' and 'null'.")));
	return false;
}

void
sfi_migrate_require_pair(const SfMigration *m)
{
	if (sfi_migrate_is_pair(m->from, m->to))
		return;
	ereport(ERROR,
			(errcode(ERRCODE_DATATYPE_MISMATCH),
			 errmsg("column \"%s\" of table %s cannot be migrated to type %s", m->column, m->table,
					m->to_sql),
			 errhint("A migration leads from bytea or oid to securefile, or from securefile to bytea or oid.")));
}
