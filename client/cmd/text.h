/*-------------------------------------------------------------------------
 *
 * text.h
 *	  Text of any length: statements, paths, names.
 *
 *-------------------------------------------------------------------------
 */
#ifndef SECUREFILE_TEXT_H
#define SECUREFILE_TEXT_H

extern char *text_make(const char *format, ...) __attribute__((format(printf, 1, 2)));

#endif							/* SECUREFILE_TEXT_H */
