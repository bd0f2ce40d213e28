/*-------------------------------------------------------------------------
 *
 * source.c
 *	  The connection to the server that has the data.
 *
 * It is that of logical replication's workers, by the server's own libpqwalreceiver: nothing
 * else needs to be linked, waits can be cancelled, and the role that connects has
 * REPLICATION.
 *
 *-------------------------------------------------------------------------
 */
#include "base/base.h"

#include "access/htup_details.h"
#include "catalog/pg_am.h"
#include "catalog/pg_authid.h"
#include "catalog/pg_type.h"
#include "commands/dbcommands.h"
#include "config/config.h"
#include "executor/tuptable.h"
#include "fetch/fetch_internal.h"
#include "lib/stringinfo.h"
#include "miscadmin.h"
#include "replication/walreceiver.h"
#include "utils/acl.h"
#include "utils/builtins.h"
#include "utils/lsyscache.h"
#include "utils/syscache.h"
#include "utils/timeout.h"
#include "utils/tuplestore.h"

struct SfFetchSource
{
	MemoryContext context;		/* of the connection */
	char	   *conninfo;
	int			patience_ms;	/* for an answer; 0: no limit */
	WalReceiverConn *conn;		/* NULL: not connected */
};

/* The extension's schema, quoted: that of its handler.  It is the same on both servers. */
static const char *
extension_schema(void)
{
	HeapTuple	tuple = SearchSysCache1(AMNAME, CStringGetDatum(SF_SEGMENT_AM_NAME));
	Oid			handler;

	if (!HeapTupleIsValid(tuple))
		elog(ERROR, "access method %s does not exist", SF_SEGMENT_AM_NAME);
	handler = ((Form_pg_am) GETSTRUCT(tuple))->amhandler;
	ReleaseSysCache(tuple);
	return quote_identifier(get_namespace_name(get_func_namespace(handler)));
}

/* As of two settings the later one counts, ours comes first. */
static char *
with_database(const char *conninfo)
{
	StringInfoData buf;

	if (strncmp(conninfo, "postgresql://", 13) == 0 || strncmp(conninfo, "postgres://", 11) == 0)
		return pstrdup(conninfo);
	initStringInfo(&buf);
	appendStringInfoString(&buf, "dbname='");
	for (const char *c = get_database_name(MyDatabaseId); *c != '\0'; c++)
	{
		if (*c == '\'' || *c == '\\')
			appendStringInfoChar(&buf, '\\');
		appendStringInfoChar(&buf, *c);
	}
	appendStringInfo(&buf, "' %s", conninfo);
	return buf.data;
}

const char *
sfi_fetch_choose(const char *conninfo)
{
	if (conninfo == NULL)
		return NULL;
	if (conninfo[0] != '\0' && !superuser())
		ereport(ERROR,
				(errcode(ERRCODE_INSUFFICIENT_PRIVILEGE),
				 errmsg("must be superuser to name the server that has the data"),
				 errdetail("This server connects to it with its own passwords and certificates."),
				 errhint("An empty connection string stands for securefile.fetch_from.")));
	if (conninfo[0] == '\0' && sf_fetch_from[0] == '\0')
		ereport(ERROR,
				(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
				 errmsg("securefile.fetch_from is not set"),
				 errhint("Set it to a connection string for the server that has the data.")));
	return conninfo[0] == '\0' ? sf_fetch_from : conninfo;
}

/* May the caller see what libpq, or the other server, says?  It may name that server. */
static bool
may_see_answers(void)
{
	return has_privs_of_role(GetUserId(), ROLE_PG_READ_ALL_SETTINGS);
}

SfFetchSource *
sfi_fetch_source(const char *conninfo, int patience_ms)
{
	SfFetchSource *source = palloc0(sizeof(SfFetchSource));

	source->context = CurrentMemoryContext;
	source->conninfo = pstrdup(conninfo);
	source->patience_ms = patience_ms;
	return source;
}

/* The time for an answer begins; when it is over, what waits for it is cancelled. */
static void
begin_patience(const SfFetchSource *source)
{
	if (source->patience_ms > 0)
		enable_timeout_after(STATEMENT_TIMEOUT, source->patience_ms);
}

static void
end_patience(const SfFetchSource *source)
{
	if (source->patience_ms > 0)
		disable_timeout(STATEMENT_TIMEOUT, false);
}

void
sfi_fetch_connect(SfFetchSource *source)
{
	MemoryContext old;
	char	   *error = NULL;
	char	   *conninfo;

	if (source->conn != NULL)
		return;
	load_file("libpqwalreceiver", false);
	conninfo = with_database(source->conninfo);
	old = MemoryContextSwitchTo(source->context);
	begin_patience(source);
	source->conn = sf_compat_walrcv_connect(conninfo, "securefile", &error);
	end_patience(source);
	MemoryContextSwitchTo(old);
	if (source->conn == NULL)
		ereport(ERROR,
				(errcode(ERRCODE_CONNECTION_FAILURE),
				 may_see_answers() ?
				 errmsg("could not connect to the server that has the data: %s", error) :
				 errmsg("could not connect to the server that has the data"),
				 errdetail_log("%s", error)));
}

void
sfi_fetch_disconnect(SfFetchSource *source)
{
	end_patience(source);
	if (source->conn != NULL)
		walrcv_disconnect(source->conn);
	source->conn = NULL;
}

/* The question; its answer has a row for each part, in their order. */
static char *
question(const SfSegment *seg, const SfFetchPart *parts, int nparts)
{
	StringInfoData sql;

	initStringInfo(&sql);
	appendStringInfo(&sql, "SELECT p.n, %s.securefile_stored_bytes(%u, %d::pg_catalog.int2, "
					 INT64_FORMAT "::pg_catalog.int8, p.o, p.l)"
					 " FROM ROWS FROM (pg_catalog.unnest('{",
					 extension_schema(), seg->table_oid, seg->attnum, (int64) seg->incarnation);
	for (int i = 0; i < nparts; i++)
		appendStringInfo(&sql, "%s" UINT64_FORMAT, i > 0 ? "," : "", parts[i].offset);
	appendStringInfoString(&sql, "}'::pg_catalog.int8[]), pg_catalog.unnest('{");
	for (int i = 0; i < nparts; i++)
		appendStringInfo(&sql, "%s%u", i > 0 ? "," : "", parts[i].length);
	appendStringInfoString(&sql, "}'::pg_catalog.int4[])) WITH ORDINALITY p (o, l, n)");
	return sql.data;
}

static void
take_answer(WalRcvExecResult *result, const SfFetchPart *parts, int nparts,
			SfFetchGot got, void *arg)
{
	TupleTableSlot *slot = MakeSingleTupleTableSlot(result->tupledesc, &TTSOpsMinimalTuple);

	while (tuplestore_gettupleslot(result->tuplestore, true, false, slot))
	{
		bool		no_number;
		bool		no_bytes;
		int64		n = DatumGetInt64(slot_getattr(slot, 1, &no_number));
		Datum		value = slot_getattr(slot, 2, &no_bytes);

		if (!no_number && !no_bytes && n >= 1 && n <= nparts)
		{
			bytea	   *bytes = DatumGetByteaPP(value);

			if (VARSIZE_ANY_EXHDR(bytes) == parts[n - 1].length)
				got((int) n - 1, VARDATA_ANY(bytes), parts[n - 1].length, arg);
		}
		ExecClearTuple(slot);
	}
	ExecDropSingleTupleTableSlot(slot);
}

void
sfi_fetch_ask(SfFetchSource *source, const SfSegment *seg, const SfFetchPart *parts, int nparts,
			  SfFetchGot got, void *arg)
{
	const Oid	types[] = {INT8OID, BYTEAOID};
	char	   *sql = question(seg, parts, nparts);
	WalRcvExecResult *result;
	const char *said;

	SF_ASSERT(nparts > 0);
	sfi_fetch_connect(source);
	begin_patience(source);
	result = walrcv_exec(source->conn, sql, lengthof(types), types);
	end_patience(source);
	said = result->err != NULL ? result->err : "nothing";
	if (result->status != WALRCV_OK_TUPLES)
		ereport(ERROR,
				(errcode(result->sqlstate == 0 ? ERRCODE_CONNECTION_FAILURE :
						 ERRCODE_EXTERNAL_ROUTINE_EXCEPTION),
				 errmsg("could not fetch data of column %d of table \"%s\"",
						seg->attnum, get_rel_name(seg->table_oid)),
				 may_see_answers() ? errdetail("The other server says: %s", said) :
				 errdetail("The server log has what the other server says."),
				 errdetail_log("The other server says: %s", said)));
	take_answer(result, parts, nparts, got, arg);
	walrcv_clear_result(result);
	pfree(sql);
}
