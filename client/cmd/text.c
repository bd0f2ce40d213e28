/*-------------------------------------------------------------------------
 *
 * text.c
 *	  Text of any length: statements, paths, names.
 *
 *-------------------------------------------------------------------------
 */
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include "text.h"

char *
text_make(const char *format, ...)
{
	va_list		args;
	char	   *text;
	int			length;

	va_start(args, format);
	length = vasprintf(&text, format, args);
	va_end(args);
	if (length < 0)
		abort();
	return text;
}
