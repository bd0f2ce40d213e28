/*-------------------------------------------------------------------------
 *
 * unfinished.c
 *	  A database whose upgrade by pg_upgrade is not finished: what it refuses,
 *	  and how that ends.  The upgrade itself is in upgrade.c.
 *
 * After pg_upgrade a database has tables with columns of the type, and data files, but
 * no segment relations.  Any use of such a column must be an error that says so, and
 * nothing of the files may be removed as belonging to nobody.  Both follow from one mark
 * of a database, "own" (io/own.c): it is missing in an upgraded cluster until
 * securefile_upgrade_finish() has committed.
 *
 *-------------------------------------------------------------------------
 */
#include "base/base.h"

#include "access/xlog.h"
#include "access/xloginsert.h"
#include "miscadmin.h"
#include "space/record.h"
#include "space/storage.h"
#include "space/upgrade.h"
#include "utils/lsyscache.h"

/* Has securefile_upgrade_finish() run in this transaction? */
static bool finished = false;

/* certain: else the database may be without a segment because it is new */
SF_NORETURN static void
report_no_segment(Oid table_oid, AttrNumber attnum, bool certain)
{
	char	   *column = get_attname(table_oid, attnum, true);

	ereport(ERROR,
			(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
			 errmsg("column \"%s\" of table \"%s\" has no segment yet",
					column ? column : "?", get_rel_name(table_oid)),
			 certain ? errdetail("The upgrade of this database by pg_upgrade is not finished.") :
			 errdetail("The command that makes the column is not through yet, or the upgrade of this database by pg_upgrade is not finished."),
			 certain ? errhint("Run securefile_upgrade_finish() in this database.") :
			 errhint("Use the column after that command. In a database that was upgraded, run securefile_upgrade_finish().")));
}

void
sf_space_refuse_unfinished(Oid table_oid, AttrNumber attnum, bool known)
{
	if (known)
		report_no_segment(table_oid, attnum, true);
	if (!sf_io_database_is_own(MyDatabaseId, ERROR))
		report_no_segment(table_oid, attnum, sf_io_database_has_files(MyDatabaseId, ERROR));
}

void
sf_space_upgrade_finished(void)
{
	SF_ASSERT(OidIsValid(MyDatabaseId));
	finished = true;
}

bool
sfi_upgrade_is_finishing(void)
{
	return finished;
}

/*
 * From here on, what the catalog does not know may go.  If a crash comes before,
 * it takes another call of securefile_upgrade_finish().
 */
bool
sfi_upgrade_at_end(bool commit)
{
	xl_sf_db	rec = {SF_WAL_VERSION, MyDatabaseId};
	bool		done = finished && commit;

	SF_ASSERT(!done || !RecoveryInProgress());
	if (done)
	{
		XLogBeginInsert();
		XLogRegisterData((char *) &rec, sizeof(rec));
		(void) XLogInsert(SF_RMGR_ID, XLOG_SF_OWN);
		sf_io_database_set_own(MyDatabaseId, WARNING);
	}
	finished = false;
	return done;
}
