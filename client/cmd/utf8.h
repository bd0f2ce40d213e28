/*-------------------------------------------------------------------------
 *
 * utf8.h
 *	  Checks of UTF-8.
 *
 *-------------------------------------------------------------------------
 */
#ifndef SECUREFILE_UTF8_H
#define SECUREFILE_UTF8_H

#include <stdbool.h>

/*
 * The bytes of the character that begins there; 0 if none does, because it is cut short,
 * longer than needed, a surrogate, or above U+10FFFF.  Reads no further than a zero byte.
 */
extern int	utf8_length(const unsigned char *text);

/*
 * Is the character that begins there a control character, or a separator of lines or
 * paragraphs?  U+0080 to U+009F are among them: a terminal takes U+009B for the start of a
 * command.
 */
extern bool utf8_control(const unsigned char *text);

/* Is the whole text valid? */
extern bool utf8_valid(const char *text);

#endif							/* SECUREFILE_UTF8_H */
