/*-------------------------------------------------------------------------
 *
 * dumpcolumn.h
 *	  The securefile columns that a dump takes, and the statements that read them.
 *
 *-------------------------------------------------------------------------
 */
#ifndef SECUREFILE_DUMPCOLUMN_H
#define SECUREFILE_DUMPCOLUMN_H

#include <jansson.h>

#include "session.h"

/* A column of the row. */
typedef struct RowColumn
{
	char	   *name;			/* as in the catalog */
	char	   *quoted;
	char	   *type;			/* with its modifier */
	char	   *type_oid;
	bool		not_null;
	bool		generated;
	int			key;			/* its place in the key, from 1 on; 0: none */
} RowColumn;

typedef struct DumpColumn
{
	char	   *schema;			/* as in the catalog, these three */
	char	   *table;
	char	   *column;
	char	   *quoted_table;	/* with its schema */
	char	   *quoted_column;
	char	   *type;			/* with its options */
	char	   *table_oid;
	bool		partitioned;
	bool		distributed;	/* a table of Citus */
	bool		readable;		/* by the role */
	char	   *left_out;		/* why it cannot be dumped; else null */

	RowColumn  *rows;			/* columns of the row without securefile ones */
	int			nrows;
	int		   *keys;			/* numbers of those in rows */
	int			nkeys;

	/* statements */
	char	   *list;			/* a COPY of all rows, see
								 * dumpcolumn_statements() */
	char	   *file;			/* SELECT of a file */
	char	   *digests;		/* SELECT of its SHA-256, kept and computed */
	char	   *tags;			/* SELECT of the tags of its parts; null: it
								 * has none */
} DumpColumn;

typedef struct DumpColumns
{
	DumpColumn *columns;
	int			count;
} DumpColumns;

/*
 * Find the columns that the options name: of --table, or all of the database.  Those that the role
 * may not read, or whose rows cannot be told apart, have left_out; the others have columns and
 * keys.
 */
extern bool dumpcolumns_find(Session *session, const Options *options, DumpColumns *found,
							 Failure *failure);

/*
 * Make the statements.  A row of list begins with tableoid, ctid, length and SHA-256 (null: it has
 * to be read); the values of rows follow.  The parameters of the others are tableoid and ctid, or
 * for a distributed table the key.  verify: no kept hash is trusted.  longer: only files that are
 * longer, or were not restored; -1: all rows.  granule: bytes of a part that has a tag.
 */
extern bool dumpcolumn_statements(Session *session, DumpColumn *column, const char *extension,
								  bool verify, int64_t longer, int64_t granule,
								  Failure *failure);

/* Has it files that are longer, or were not restored?  False after a failure. */
extern bool dumpcolumn_has_longer(Session *session, const DumpColumn *column,
								  const char *extension, int64_t longer, bool *has,
								  Failure *failure);

/* Tell which keys restore could not find: why, or null.  False after a failure. */
extern bool dumpcolumn_check_key(Session *session, const DumpColumn *column,
								 const char *extension, int64_t longer, char **unclear,
								 Failure *failure);

/* Is a name one of a list with commas? */
extern bool dumpcolumn_is_listed(const char *list, const char *name);

/* What a manifest says of it. */
extern json_t *dumpcolumn_describe(const DumpColumn *column);

#endif							/* SECUREFILE_DUMPCOLUMN_H */
