/*-------------------------------------------------------------------------
 *
 * list.h
 *	  Names and lengths of the stored files.
 *
 *-------------------------------------------------------------------------
 */
#ifndef SECUREFILE_LIST_H
#define SECUREFILE_LIST_H

#include "local.h"
#include "session.h"

/* A stored file. */
typedef struct Listed
{
	const char *name;			/* valid during the call only */
	int64_t		length;
	int64_t		stored;			/* bytes, if they were asked for; see
								 * storage.h */
	const char *sha256;			/* in hexadecimal, likewise; as long as name */
	Meta		meta;			/* its link as long as name */
} Listed;

/* Called for each file. */
typedef void (*ListEach) (void *arg, const Listed *file);

/*
 * Hand each file whose name matches the pattern (NULL: all) and begins with the prefix to a
 * function, in the order of the names, in constant memory.  Files that are not complete are left
 * out, unless the prefix is RESERVED_PREFIX (reserved.h).  stored: with the stored bytes,
 * for which the server looks at the maps of all these files.
 * hash: with the SHA-256, for which the server reads the files that it is not kept with.
 */
extern bool list_each(Session *session, const char *pattern, const char *prefix, bool stored,
					  bool hash, ListEach each, void *arg, Failure *failure);

/* Add them all to a list, whose paths are the names. */
extern bool list_names(Session *session, const char *pattern, const char *prefix,
					   FoundList *list, Failure *failure);

/*
 * Add those that the options take, by --prefix and patterns, to a list, whose paths are the
 * names.
 */
extern bool list_all(Session *session, const char *pattern, const Options *options,
					 FoundList *list, Failure *failure);

/* Delete the rows of these files, in one statement, and add them to a list. */
extern bool list_delete(Session *session, const char *pattern, const char *prefix,
						FoundList *list, Failure *failure);

/*
 * The condition that a name, an expression, begins with a parameter, which is the prefix, and is
 * that of a complete file unless the prefix is RESERVED_PREFIX.  The caller frees it.
 */
extern char *list_begins(const char *name, const char *parameter, const char *prefix);

/*
 * A pattern of * and ?, which a backslash makes ordinary characters, as a pattern of LIKE.  The
 * caller frees it.
 */
extern char *list_like(const char *pattern);

/* Is that a pattern, and not only a name? */
extern bool list_is_pattern(const char *text);

/* Does a name match a pattern of * and ?, which a backslash makes ordinary characters? */
extern bool list_matches(const char *pattern, const char *name);

#endif							/* SECUREFILE_LIST_H */
