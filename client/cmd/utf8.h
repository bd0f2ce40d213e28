/*-------------------------------------------------------------------------
 *
 * utf8.h
 *	  Is it UTF-8?
 *
 *-------------------------------------------------------------------------
 */
#ifndef SECUREFILE_UTF8_H
#define SECUREFILE_UTF8_H

#include <stdbool.h>

extern int	utf8_length(const unsigned char *text);
extern bool utf8_control(const unsigned char *text);
extern bool utf8_valid(const char *text);

#endif							/* SECUREFILE_UTF8_H */
