/*-------------------------------------------------------------------------
 *
 * text.h
 *	  Text of any length: statements, paths, names.
 *
 *-------------------------------------------------------------------------
 */
#ifndef SECUREFILE_TEXT_H
#define SECUREFILE_TEXT_H

/* Like sprintf, but the text is allocated, and the caller frees it.  Aborts without memory. */
extern char *text_make(const char *format, ...) __attribute__((format(printf, 1, 2)));

#endif							/* SECUREFILE_TEXT_H */
