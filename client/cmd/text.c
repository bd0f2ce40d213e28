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
#include <string.h>

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

char *
text_add_name(char *array, size_t *length, const char *prefix, const char *path)
{
	const char *parts[] = {prefix, path};

	array = realloc(array, *length + 2 * (strlen(prefix) + strlen(path)) + 5);
	if (array == NULL)
		abort();
	if (*length == 0)
		array[(*length)++] = '{';
	else
		array[*length - 1] = ',';
	array[(*length)++] = '"';
	for (int i = 0; i < 2; i++)
		for (const char *c = parts[i]; *c != '\0'; c++)
		{
			if (*c == '"' || *c == '\\')
				array[(*length)++] = '\\';
			array[(*length)++] = *c;
		}
	array[(*length)++] = '"';
	array[(*length)++] = '}';
	array[*length] = '\0';
	return array;
}
