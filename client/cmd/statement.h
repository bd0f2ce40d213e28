/*-------------------------------------------------------------------------
 *
 * statement.h
 *	  The statements that store a file.
 *
 *-------------------------------------------------------------------------
 */
#ifndef SECUREFILE_STATEMENT_H
#define SECUREFILE_STATEMENT_H

#include "session.h"

/*
 * The statement that stores a value, in a new row or in the one that is there.  $1 is the name,
 * from $2 on are the values of --set.  The caller frees it.
 */
extern char *statement_put(const Session *session, const Options *options, bool row_exists,
						   const char *value);

/* The values of $1 and --set, and room for one more; the caller frees the array. */
extern const char **statement_values(const Options *options, const char *name);

/* A statement whose value is a parameter, the last one, and its parameters as libpq wants them. */
typedef struct WholeFile
{
	char	   *sql;
	int			count;
	Oid		   *types;
	const char **values;
	int		   *lengths;
	int		   *formats;
	bool		owns_texts;		/* the values before the file are freed, too */
} WholeFile;

/* Make one of a statement and the values before the file, which are a part of it then. */
extern WholeFile statement_with(char *sql, const char **values, int before, const char *bytes,
								size_t length);

extern WholeFile statement_whole(const Session *session, const Options *options,
								 const char *name, bool row_exists, const char *bytes,
								 size_t length);
extern void statement_free(WholeFile *whole);

/* Execute it; false with the failure if it stores no row. */
extern bool statement_execute(Session *session, const WholeFile *whole, bool row_exists,
							  Failure *failure);

/* Has the statement stored a row?  row_exists as above. */
extern bool statement_stored(const Session *session, const PGresult *result, bool row_exists,
							 Failure *failure);

#endif							/* SECUREFILE_STATEMENT_H */
