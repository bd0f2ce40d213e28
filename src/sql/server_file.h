/*-------------------------------------------------------------------------
 *
 * server_file.h
 *	  Files of the server that users read and write: what load_file.c and
 *	  save_file.c share.
 *
 *-------------------------------------------------------------------------
 */
#ifndef SF_SQL_SERVER_FILE_H
#define SF_SQL_SERVER_FILE_H

#include "base/base.h"

/*
 * ERROR INSUFFICIENT_PRIVILEGE unless the current user has the privileges of a role, whose name is
 * given as well; FEATURE_NOT_SUPPORTED in a session that runs a part of a query of Citus.  function
 * is named in the message.  To be asked before a path is looked at.
 */
extern void sfi_sql_require_server_role(Oid role, const char *name, const char *function);

/* ERROR of a system call on a file that has failed: "could not <action> server file <path>". */
SF_NORETURN extern void sfi_sql_report_file(const char *action, const char *path, int error);

/* ERROR WRONG_OBJECT_TYPE of a path that leads to no regular file. */
SF_NORETURN extern void sfi_sql_report_irregular(const char *path);

#endif							/* SF_SQL_SERVER_FILE_H */
