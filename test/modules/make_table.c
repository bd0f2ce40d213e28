/*-------------------------------------------------------------------------
 *
 * make_table.c
 *	  make_table(name): an extension that makes a table in its own way.
 *
 * Not by a utility command, so no hook for these hears of it; column d is of
 * type securefile.  For test/t/ddl/114_followed.pl.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/xact.h"
#include "catalog/pg_class.h"
#include "commands/tablecmds.h"
#include "fmgr.h"
#include "miscadmin.h"
#include "nodes/makefuncs.h"
#include "parser/parse_type.h"
#include "utils/builtins.h"

PG_MODULE_MAGIC;

PG_FUNCTION_INFO_V1(make_table);

Datum
make_table(PG_FUNCTION_ARGS)
{
	CreateStmt *stmt = makeNode(CreateStmt);
	Oid			type = typenameTypeId(NULL, makeTypeName("securefile"));

	stmt->relation = makeRangeVar("public", text_to_cstring(PG_GETARG_TEXT_PP(0)), -1);
	stmt->tableElts = list_make1(makeColumnDef("d", type, -1, InvalidOid));
	stmt->oncommit = ONCOMMIT_NOOP;
	DefineRelation(stmt, RELKIND_RELATION, GetUserId(), NULL, NULL);
	CommandCounterIncrement();
	PG_RETURN_VOID();
}
