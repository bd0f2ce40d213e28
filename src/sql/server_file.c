/*-------------------------------------------------------------------------
 *
 * server_file.c
 *	  Files of the server that users read and write: the privileges, and the errors.
 *
 *-------------------------------------------------------------------------
 */
#include "sql/server_file.h"

#include "miscadmin.h"
#include "utils/acl.h"
#include "utils/guc.h"

/* Sessions in which a node of Citus does its part of a query have a name that begins so. */
#define PART_OF_A_QUERY		"citus_internal"

void
sfi_sql_require_server_role(Oid role, const char *name, const char *function)
{
	if (!has_privs_of_role(GetUserId(), role))
		ereport(ERROR,
				(errcode(ERRCODE_INSUFFICIENT_PRIVILEGE),
				 errmsg("permission denied to call %s", function),
				 errdetail("Only roles with the privileges of \"%s\" may call it.", name)));
	if (sf_base_has_shells() && application_name != NULL &&
		strncmp(application_name, PART_OF_A_QUERY, strlen(PART_OF_A_QUERY)) == 0)
		ereport(ERROR,
				(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
				 errmsg("%s cannot be called for rows of a distributed table", function),
				 errdetail("The file would be one of the node that has the row."),
				 errhint("Copy the value to a local table first, or use the client.")));
}

/* The SQLSTATE of an errno that errcode_for_file_access() does not know; 0 of others. */
static int
sqlstate_of(int error)
{
	switch (error)
	{
		case EDQUOT:
			return ERRCODE_DISK_FULL;
		case EFBIG:
			return ERRCODE_PROGRAM_LIMIT_EXCEEDED;
		case ENAMETOOLONG:
			return ERRCODE_NAME_TOO_LONG;
		case ELOOP:
			return ERRCODE_WRONG_OBJECT_TYPE;
		default:
			return 0;
	}
}

void
sfi_sql_report_file(const char *action, const char *path, int error)
{
	int			sqlstate = sqlstate_of(error);

	errno = error;
	ereport(ERROR,
			(sqlstate != 0 ? errcode(sqlstate) : errcode_for_file_access(),
			 errmsg("could not %s server file \"%s\": %m", action, path),
			 error == ENOSPC || error == EDQUOT ? errhint("Check free disk space.") : 0));
	pg_unreachable();
}

void
sfi_sql_report_irregular(const char *path)
{
	ereport(ERROR,
			(errcode(ERRCODE_WRONG_OBJECT_TYPE),
			 errmsg("\"%s\" is not a regular file", path)));
	pg_unreachable();
}
