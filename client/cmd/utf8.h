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
#include <stdint.h>

/*
 * The bytes of the character that begins there; 0 if none does, because it is cut short,
 * longer than needed, a surrogate, or above U+10FFFF.  Reads no further than a zero byte.
 */
extern int	utf8_length(const unsigned char *text);

/* The character that begins there, which is valid. */
extern uint32_t utf8_code(const unsigned char *text);

/*
 * Would a terminal obey the character that begins there, show nothing for it, or show others in
 * another order?  U+0080 to U+009F are among these: a terminal takes U+009B for the start of a
 * command.
 */
extern bool utf8_unseen(const unsigned char *text);

/* Is the whole text valid? */
extern bool utf8_valid(const char *text);

#endif							/* SECUREFILE_UTF8_H */
