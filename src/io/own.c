/*-------------------------------------------------------------------------
 *
 * own.c
 *	  Which databases' data files are this cluster's own?
 *
 * What no catalog row names is removed by the sweeper, and what belongs to no
 * database by the monitor's launcher.  Both would be wrong about files that come
 * from another cluster: pg_upgrade has moved the tables and not yet the segments,
 * or somebody has put the directory into the wrong place.  So file
 * pg_securefile/database.<oid> holds the system identifier of the cluster that
 * knows all segments of that database, and only where it is ours anything is
 * removed.  It is made before a database's first segment, and when
 * securefile_upgrade_finish() has committed.
 *
 *-------------------------------------------------------------------------
 */
#include "base/base.h"

#include "access/xlog.h"
#include "access/xlogutils.h"
#include "io/io_internal.h"

static void
own_path(char *buf, Oid db)
{
	SF_ASSERT(OidIsValid(db));
	snprintf(buf, SF_IO_PATH_MAX, "%s/database.%u", SF_IO_ROOT, db);
}

/*
 * Where the file cannot be read, and that is no ERROR, the answer is no: then nothing is
 * removed, which can be made good later.
 */
bool
sf_io_database_is_own(Oid db, int elevel)
{
	char		path[SF_IO_PATH_MAX];
	uint64		identifier;

	own_path(path, db);
	return sfi_io_number_read(path, &identifier, elevel) &&
		identifier == GetSystemIdentifier();
}

void
sf_io_database_set_own(Oid db, int elevel)
{
	char		path[SF_IO_PATH_MAX];

	own_path(path, db);
	sfi_io_number_write(path, GetSystemIdentifier(), elevel);
}

/* The OID may be used again, by a database whose files come from elsewhere. */
void
sfi_io_database_forget_own(Oid db)
{
	char		path[SF_IO_PATH_MAX];

	own_path(path, db);
	(void) sfi_io_unlink(path, WARNING);
}

/*
 * The note is written under the root, which a segment without data has no other need of.
 * So the root is made only when the note is not there yet.
 */
void
sf_io_database_claim(Oid db)
{
	if (sf_io_database_is_own(db, InRecovery ? WARNING : ERROR))
		return;
	if (!sf_io_database_has_files(db, ERROR))
	{
		sfi_io_make_root();
		sf_io_database_set_own(db, ERROR);
	}
	else if (!InRecovery)
		ereport(ERROR,
				(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
				 errmsg("the securefile data files of this database come from another cluster"),
				 errhint("Run securefile_upgrade_finish() in this database first.")));
}
