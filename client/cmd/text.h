/*-------------------------------------------------------------------------
 *
 * text.h
 *	  Text of any length: statements, paths, names.
 *
 *-------------------------------------------------------------------------
 */
#ifndef SECUREFILE_TEXT_H
#define SECUREFILE_TEXT_H

#include <stddef.h>

/* Like sprintf, but the text is allocated, and the caller frees it.  Aborts without memory. */
extern char *text_make(const char *format, ...) __attribute__((format(printf, 1, 2)));

/*
 * Add a name, of two parts, to the text of an array of the server, of that length; NULL and 0:
 * to an empty one.  The array may have moved.
 */
extern char *text_add_name(char *array, size_t *length, const char *prefix, const char *path);

#endif							/* SECUREFILE_TEXT_H */
