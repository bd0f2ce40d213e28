/*-------------------------------------------------------------------------
 *
 * transforms.c
 *	  A WARNING for functions of PL/Python that get or return values as text.
 *
 * Without the clause TRANSFORM FOR TYPE securefile, PL/Python stores the text of an object
 * in place of its bytes.  When a value comes, that text is one like any other: nobody can
 * tell.  So it is said when the function is made, as far as its signature shows it; what a
 * trigger function or a plan does is not known then.
 *
 *-------------------------------------------------------------------------
 */
#include "base/base.h"

#include "access/htup_details.h"
#include "access/table.h"
#include "catalog/pg_proc.h"
#include "commands/proclang.h"
#include "ddl/ddl.h"
#include "ddl/objects.h"
#include "funcapi.h"
#include "utils/snapmgr.h"

/* Does an argument or the result of a function, of any direction, hold securefile values? */
static bool
passes_values(HeapTuple tuple)
{
	Form_pg_proc form = (Form_pg_proc) GETSTRUCT(tuple);
	Oid		   *types;
	char	  **names;
	char	   *modes;
	int			count = get_func_arg_info(tuple, &types, &names, &modes);

	for (int i = 0; i < count; i++)
	{
		if (sfi_ddl_contains_securefile(types[i]))
			return true;
	}
	return sfi_ddl_contains_securefile(form->prorettype);
}

/* Does the function have the clause? */
static bool
has_transform(HeapTuple tuple)
{
	Oid		   *types;
	int			count = get_func_trftypes(tuple, &types);

	for (int i = 0; i < count; i++)
	{
		if (types[i] == sfi_ddl_objects()->type)
			return true;
	}
	return false;
}

static void
warn_of_text(HeapTuple tuple)
{
	Oid			language = get_language_oid("plpython3u", true);
	Form_pg_proc form = (Form_pg_proc) GETSTRUCT(tuple);

	if (!OidIsValid(language) || form->prolang != language ||
		!passes_values(tuple) || has_transform(tuple))
		return;
	ereport(WARNING,
			(errcode(ERRCODE_WARNING),
			 errmsg("function \"%s\" gets and returns securefile values as text, not as bytes",
					NameStr(form->proname)),
			 errdetail("PL/Python would store the text of a bytes object, such as b'abc'."),
			 errhint("Make the function with TRANSFORM FOR TYPE securefile, of extension securefile_plpython3u, or let it take and return bytea.")));
}

/* The function may be so new that caches do not have it. */
void
sfi_ddl_warn_of_text(Oid function_oid)
{
	Relation	rel;
	HeapTuple	tuple;

	if (sfi_ddl_objects() == NULL)
		return;
	rel = table_open(ProcedureRelationId, AccessShareLock);
	tuple = sf_ddl_catalog_row(rel, ProcedureOidIndexId, Anum_pg_proc_oid, function_oid,
							   SnapshotSelf);
	if (HeapTupleIsValid(tuple))
		warn_of_text(tuple);
	table_close(rel, AccessShareLock);
}
