/*-------------------------------------------------------------------------
 *
 * dependents.c
 *	  What depends on a column, and what a migration makes of it.
 *
 * What a column has of its own is put back.  From PostgreSQL 18 on NOT NULL is a constraint with
 * a name, and no dependent here: swap.c carries it.  What names the column from elsewhere, such
 * as a view, is in the way: after the swap it would go on naming the old column.
 *
 *-------------------------------------------------------------------------
 */
#include "base/base.h"

#include "access/relation.h"
#include "executor/spi.h"
#include "migrate/migrate_internal.h"
#include "utils/builtins.h"
#include "utils/lsyscache.h"

/* Columns of the query: what it is, its description, definition, OID, name, is it valid. */
#define DEPENDENTS_QUERY \
	"SELECT DISTINCT" \
	" CASE WHEN k.relkind = 'i' THEN CASE WHEN i.indisreplident THEN 'replica identity' ELSE 'index' END" \
	" WHEN c.contype = 'c' THEN 'check' WHEN c.oid IS NOT NULL THEN 'constraint'" \
	" WHEN g.oid IS NOT NULL THEN CASE WHEN g.adrelid = d.refobjid AND g.adnum = d.refobjsubid THEN 'default' ELSE 'generated column' END" \
	" WHEN t.oid IS NOT NULL THEN 'trigger'" \
	" WHEN d.classid = 'pg_rewrite'::regclass THEN 'view or rule'" \
	" WHEN d.classid = 'pg_policy'::regclass THEN 'policy'" \
	" WHEN d.classid = 'pg_statistic_ext'::regclass THEN 'statistics'" \
	" WHEN d.classid = 'pg_publication_rel'::regclass THEN 'publication'" \
	" WHEN d.classid = 'pg_proc'::regclass THEN 'function' ELSE 'object' END," \
	" pg_describe_object(d.classid, d.objid, d.objsubid)," \
	" coalesce(pg_get_indexdef(i.indexrelid), pg_get_constraintdef(c.oid), pg_get_triggerdef(t.oid)," \
	" pg_get_expr(g.adbin, g.adrelid), pg_get_ruledef(r.oid), '')," \
	" d.objid, coalesce(k.relname, c.conname, t.tgname), coalesce(c.convalidated, true)" \
	" FROM pg_depend d" \
	" LEFT JOIN pg_class k ON d.classid = 'pg_class'::regclass AND k.oid = d.objid" \
	" LEFT JOIN pg_index i ON i.indexrelid = k.oid" \
	" LEFT JOIN pg_constraint c ON d.classid = 'pg_constraint'::regclass AND c.oid = d.objid" \
	" LEFT JOIN pg_trigger t ON d.classid = 'pg_trigger'::regclass AND t.oid = d.objid" \
	" LEFT JOIN pg_attrdef g ON d.classid = 'pg_attrdef'::regclass AND g.oid = d.objid" \
	" LEFT JOIN pg_rewrite r ON d.classid = 'pg_rewrite'::regclass AND r.oid = d.objid" \
	" WHERE d.refclassid = 'pg_class'::regclass AND d.refobjid = %u AND d.refobjsubid = %d" \
	" AND d.deptype <> 'i' AND c.contype IS DISTINCT FROM 'n' AND c.conname IS DISTINCT FROM %s AND c.conname IS DISTINCT FROM %s ORDER BY 1, 2"

/* Triggers that take the column for the number of an object, by their argument. */
#define LO_MANAGE_QUERY \
	"SELECT t.tgname, pg_get_triggerdef(t.oid) FROM pg_trigger t JOIN pg_proc p ON p.oid = t.tgfoid" \
	" WHERE t.tgrelid = %u AND p.prosrc = 'lo_manage' AND t.tgnargs = 1" \
	" AND t.tgargs = convert_to(%s, getdatabaseencoding()) || '\\x00'::bytea ORDER BY 1"

typedef struct Fate
{
	const char *kind;
	SfDepends	what;
	const char *action;
	const char *advice;			/* NULL: the definition is shown */
} Fate;

#define DROP_FIRST	"Drop it first, and create it again when the migration is done: "

static const Fate fates[] = {
	{"check", SF_DEPENDS_CHECK, SF_ACTION_REBUILT, NULL},
	{"index", SF_DEPENDS_INDEX, SF_ACTION_REBUILT, NULL},
	{"default", SF_DEPENDS_OTHER, SF_ACTION_KEPT, NULL},
	{"generated column", SF_DEPENDS_OTHER, SF_ACTION_REFUSES, DROP_FIRST},
	{"replica identity", SF_DEPENDS_OTHER, SF_ACTION_REFUSES,
		"Choose another replica identity by ALTER TABLE .. REPLICA IDENTITY first: "},
	{"constraint", SF_DEPENDS_OTHER, SF_ACTION_REFUSES,
		"Drop it first. What has to be unique or a reference can be a digest of the column: "},
	{"statistics", SF_DEPENDS_OTHER, SF_ACTION_REFUSES, "Drop it first: "},
	{"", SF_DEPENDS_OTHER, SF_ACTION_REFUSES, DROP_FIRST},	/* all others */
};

static const Fate *
fate_of(const char *kind)
{
	int			i = 0;

	while (fates[i].kind[0] != '\0' && strcmp(fates[i].kind, kind) != 0)
		i++;
	return &fates[i];
}

SfFinding *
sfi_migrate_finding(const char *kind, const char *object, const char *action, const char *detail)
{
	SfFinding  *finding = palloc0(sizeof(*finding));

	finding->kind = kind;
	finding->object = object;
	finding->action = action;
	finding->detail = detail;
	return finding;
}

/* A column of a result as a text, in a context that the caller keeps. */
static char *
result_text(uint64 row, int column)
{
	char	   *text = SPI_getvalue(SPI_tuptable->vals[row], SPI_tuptable->tupdesc, column);

	return text != NULL ? text : "";
}

static SfFinding *
read_dependent(const SfMigration *m, uint64 row)
{
	const char *kind = result_text(row, 1);
	const Fate *fate = fate_of(kind);
	const char *definition = result_text(row, 3);
	SfFinding  *finding = sfi_migrate_finding(kind, result_text(row, 2), fate->action,
											  fate->advice == NULL ? definition
											  : psprintf("%s%s", fate->advice, definition));

	finding->what = fate->what;

	/*
	 * the number of a large object says nothing of its bytes, and the other
	 * way round
	 */
	if (sfi_migrate_is_lazy(m) && strcmp(fate->action, SF_ACTION_REFUSES) != 0)
		finding->action = SF_ACTION_LOST;
	finding->oid = (Oid) strtoul(result_text(row, 4), NULL, 10);
	finding->name = result_text(row, 5);
	finding->is_valid = result_text(row, 6)[0] == 't';
	return finding;
}

static List *
read_lo_manage(const SfMigration *m, List *findings)
{
	sfi_migrate_run(m, LO_MANAGE_QUERY, m->table_oid, quote_literal_cstr(m->column));
	for (uint64 i = 0; i < SPI_processed; i++)
	{
		char	   *object = psprintf("trigger %s", result_text(i, 1));
		SfFinding  *finding = sfi_migrate_finding("trigger", object, SF_ACTION_LOST,
												  result_text(i, 2));

		finding->what = SF_DEPENDS_LO_MANAGE;
		finding->name = result_text(i, 1);
		findings = lappend(findings, finding);
	}
	return findings;
}

List *
sfi_migrate_dependents(SfMigration *m)
{
	List	   *findings = NIL;

	sfi_migrate_run(m, DEPENDENTS_QUERY, m->table_oid, get_attnum(m->table_oid, m->column),
					quote_literal_cstr(sfi_migrate_check_name(m, "same")),
					quote_literal_cstr(sfi_migrate_check_name(m, "not_null")));
	for (uint64 i = 0; i < SPI_processed; i++)
		findings = lappend(findings, read_dependent(m, i));
	return m->from == SF_CONTENT_OBJECT ? read_lo_manage(m, findings) : findings;
}
