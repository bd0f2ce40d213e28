/*-------------------------------------------------------------------------
 *
 * objects_version.c
 *	  The version of the SQL objects in this database, and whether the library works with them.
 *
 * The two are changed one after the other: the library at a restart of the server, the objects
 * by ALTER EXTENSION UPDATE in each database.
 *
 *	 objects are later		refused.  The library has not the functions that they name, and
 *							fills fewer columns than they have.  Most likely new files were
 *							installed, and the server still runs the old library, so the
 *							update itself is refused, too.
 *	 objects are earlier	works back to SF_OBJECTS_SINCE, so that a new library can be
 *							installed under a database in use.
 *
 * That is asked wherever preload is (sf_base_require_preload()), which is before a segment is
 * opened.  Values in rows and the catalogs stay readable.
 *
 *-------------------------------------------------------------------------
 */
#include "base/base.h"

#include "access/htup_details.h"
#include "access/table.h"
#include "access/xact.h"
#include "catalog/dependency.h"
#include "catalog/pg_am.h"
#include "catalog/pg_extension.h"
#include "commands/extension.h"
#include "ddl/command.h"
#include "ddl/ddl.h"
#include "miscadmin.h"
#include "utils/builtins.h"
#include "utils/inval.h"
#include "utils/rel.h"
#include "utils/snapmgr.h"
#include "utils/syscache.h"

/* The oldest SQL objects that this library works with. */
#define SF_OBJECTS_SINCE	"1.0"

static uint64 changes = 0;
static uint64 fit_since = 0;	/* changes + 1 when the objects were looked at */

/* A SyscacheCallbackFunction: some function came, changed or went, as with each update. */
static void
functions_changed(Datum arg, int cache_id, uint32 hash_value)
{
	changes++;
}

char *
sf_ddl_objects_version(void)
{
	Oid			am = sfi_ddl_am_oid();
	Oid			extension = OidIsValid(am) ?
		getExtensionOfObject(AccessMethodRelationId, am) : InvalidOid;
	Relation	catalog;
	HeapTuple	tuple;
	char	   *version = NULL;

	if (!OidIsValid(extension))
		return NULL;
	catalog = table_open(ExtensionRelationId, AccessShareLock);
	tuple = sf_ddl_catalog_row(catalog, ExtensionOidIndexId, Anum_pg_extension_oid, extension,
							   NULL);
	if (HeapTupleIsValid(tuple))
	{
		bool		isnull;
		Datum		datum = heap_getattr(tuple, Anum_pg_extension_extversion,
										 RelationGetDescr(catalog), &isnull);

		SF_ASSERT(!isnull);
		version = TextDatumGetCString(datum);
	}
	table_close(catalog, AccessShareLock);
	return version;
}

/* A version such as 1.0 or 1.0.2 as a number; 0: it is none such. */
static int
number_of(const char *version)
{
	int			major = 0;
	int			minor = 0;
	int			patch = 0;

	if (sscanf(version, "%d.%d.%d", &major, &minor, &patch) < 2)
		return 0;
	return major * 10000 + minor * 100 + patch;
}

/* ERROR if objects of that version are later than the library, or, with both, too early. */
static void
require_fit(const char *version, bool both)
{
	int			number = number_of(version);

	SF_ASSERT(number_of(SF_OBJECTS_SINCE) > 0 &&
			  number_of(SF_VERSION) >= number_of(SF_OBJECTS_SINCE));
	if (number > number_of(SF_VERSION))
		ereport(ERROR,
				(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
				 errmsg("the library of securefile is older than its SQL objects"),
				 errdetail("Library %s is loaded, and extension securefile has version %s in this database.",
						   SF_VERSION, version),
				 errhint("Install the library of version %s, and restart the server.", version)));
	if (both && number > 0 && number < number_of(SF_OBJECTS_SINCE))
		ereport(ERROR,
				(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
				 errmsg("the SQL objects of securefile are too old for its library"),
				 errdetail("Library %s is loaded, and extension securefile has version %s in this database.",
						   SF_VERSION, version),
				 errhint("Run ALTER EXTENSION securefile UPDATE in this database.")));
}

/* Asked each time that a segment is opened, so it costs nothing while no function changes. */
static void
require_fit_here(void)
{
	static bool watching = false;
	uint64		now;
	char	   *version;

	if (fit_since == changes + 1 || creating_extension || IsBinaryUpgrade ||
		!IsTransactionState() || HistoricSnapshotActive() || CritSectionCount > 0)
		return;
	if (!watching)
		CacheRegisterSyscacheCallback(PROCOID, functions_changed, (Datum) 0);
	watching = true;
	/* the look-up itself may learn of a change */
	now = changes;
	version = sf_ddl_objects_version();
	if (version != NULL)
	{
		require_fit(version, true);
		pfree(version);
	}
	fit_since = now + 1;
}

void
sf_ddl_watch_version(void)
{
	sf_base_set_require_fit(require_fit_here);
}

void
sfi_ddl_require_version(void)
{
	char	   *version = sf_ddl_objects_version();

	if (version == NULL)
		return;
	changes++;
	require_fit(version, false);
	pfree(version);
}

bool
sfi_ddl_changes_version(Node *stmt)
{
	const char *name = IsA(stmt, CreateExtensionStmt) ? ((CreateExtensionStmt *) stmt)->extname :
		IsA(stmt, AlterExtensionStmt) ? ((AlterExtensionStmt *) stmt)->extname : NULL;

	return name != NULL && strcmp(name, "securefile") == 0;
}

/*
 * The script of a later version comes to a function that this library does not have before
 * the version can be looked at.
 */
void
sfi_ddl_version_hint(void)
{
	if (geterrcode() != ERRCODE_UNDEFINED_FUNCTION)
		return;
	errdetail("Library %s of securefile is loaded.", SF_VERSION);
	errhint("If a later version was installed, restart the server first, so that it loads the later library.");
}
