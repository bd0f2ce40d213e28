/*-------------------------------------------------------------------------
 *
 * helpers.c
 *	  What a migration puts beside the column: the new column, its triggers and constraints;
 *	  and taking them away.
 *
 *-------------------------------------------------------------------------
 */
#include "base/base.h"

#include "commands/defrem.h"
#include "migrate/migrate_internal.h"
#include "utils/builtins.h"
#include "utils/lsyscache.h"

char *
sfi_migrate_check_name(const SfMigration *m, const char *what)
{
	return makeObjectName(m->column, "migrate", what);
}

/* The arguments of a trigger, which tell the migration. */
static char *
trigger_call(const SfMigration *m, const char *phase)
{
	const char *then = m->options.unlink ? (m->options.keep_old ? "unlink, keep" : "unlink") :
		(m->options.keep_old ? "keep" : "");

	return psprintf("%s(%s, %s, %s, %s)",
					quote_qualified_identifier(get_namespace_name(get_func_namespace(m->follow_fn)),
											   get_func_name(m->follow_fn)),
					quote_literal_cstr(phase), quote_literal_cstr(m->column),
					quote_literal_cstr(m->beside), quote_literal_cstr(then));
}

/* A trigger that fires for every writer, or never. */
static void
add_trigger(const SfMigration *m, const char *what, const char *events, const char *phase,
			const char *enable)
{
	const char *name = quote_identifier(sfi_migrate_name(m, what));

	sfi_migrate_run(m, "CREATE TRIGGER %s %s EXECUTE FUNCTION %s", name,
					psprintf(events, m->table), trigger_call(m, phase));
	sfi_migrate_run(m, "ALTER TABLE %s %s TRIGGER %s", m->table, enable, name);
}

/* The new column has a value where the old one has: so it is known without a look at the rows. */
static void
add_checks(const SfMigration *m)
{
	const char *old = quote_identifier(m->column);
	const char *new = quote_identifier(m->beside);

	if (sfi_migrate_is_lazy(m))
		return;
	sfi_migrate_run(m, "ALTER TABLE %s ADD CONSTRAINT %s"
					" CHECK ((%s IS NULL) = (%s IS NULL)) NOT VALID", m->table,
					quote_identifier(sfi_migrate_check_name(m, "same")), old, new);
	if (m->not_null)
		sfi_migrate_run(m, "ALTER TABLE %s ADD CONSTRAINT %s CHECK (%s IS NOT NULL) NOT VALID",
						m->table, quote_identifier(sfi_migrate_check_name(m, "not_null")), new);
}

void
sfi_migrate_add_helpers(SfMigration *m)
{
	const char *always = "ENABLE ALWAYS";

	sfi_migrate_run(m, "ALTER TABLE %s ADD COLUMN %s %s", m->table, quote_identifier(m->beside),
					m->to_sql);
	m->phase = SF_MIGRATE_MOVING;
	add_checks(m);
	add_trigger(m, "follow", "BEFORE INSERT OR UPDATE ON %s FOR EACH ROW", "moving", always);
	if (m->to != SF_CONTENT_OBJECT)
		return;
	add_trigger(m, "gone", "AFTER UPDATE OR DELETE ON %s FOR EACH ROW", "moving", always);
	add_trigger(m, "truncate", "BEFORE TRUNCATE ON %s FOR EACH STATEMENT", "moving", always);
}

void
sfi_migrate_validate_helpers(const SfMigration *m)
{
	if (sfi_migrate_is_lazy(m))
		return;
	sfi_migrate_run(m, "ALTER TABLE %s VALIDATE CONSTRAINT %s", m->table,
					quote_identifier(sfi_migrate_check_name(m, "same")));
	if (m->not_null)
		sfi_migrate_run(m, "ALTER TABLE %s VALIDATE CONSTRAINT %s", m->table,
						quote_identifier(sfi_migrate_check_name(m, "not_null")));
}

void
sfi_migrate_drop_helpers(const SfMigration *m)
{
	static const char *const triggers[] = {"follow", "gone", "truncate", "note"};
	static const char *const checks[] = {"same", "not_null"};

	for (int i = 0; i < lengthof(triggers); i++)
		sfi_migrate_run(m, "DROP TRIGGER IF EXISTS %s ON %s",
						quote_identifier(sfi_migrate_name(m, triggers[i])), m->table);
	for (int i = 0; i < lengthof(checks); i++)
		sfi_migrate_run(m, "ALTER TABLE %s DROP CONSTRAINT IF EXISTS %s", m->table,
						quote_identifier(sfi_migrate_check_name(m, checks[i])));
}

void
sfi_migrate_note(const SfMigration *m)
{
	SF_ASSERT(m->phase == SF_MIGRATE_SWAPPED);
	add_trigger(m, "note", "AFTER TRUNCATE ON %s FOR EACH STATEMENT", "swapped", "DISABLE");
}
