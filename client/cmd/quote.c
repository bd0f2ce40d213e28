/*-------------------------------------------------------------------------
 *
 * quote.c
 *	  Names and messages as a terminal and JSON can take them.
 *
 * A name is any sequence of bytes, and a message of the server can hold names of other
 * users: a terminal would obey the control characters in them, and show others so that one name
 * looks like another one (utf8.c).
 *
 * A terminal whose locale is not UTF-8 may take single bytes of a character for controls.  There
 * nothing but ASCII is shown.  What goes to files and pipes does not depend on the locale.
 *
 *-------------------------------------------------------------------------
 */
#include <langinfo.h>
#include <locale.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "output.h"
#include "utf8.h"

bool
quote_all(int fd)
{
	static atomic_int is_utf8 = -1;
	int			known = atomic_load(&is_utf8);

	if (!isatty(fd))
		return false;
	if (known < 0)
	{
		locale_t	locale = newlocale(LC_CTYPE_MASK, "", (locale_t) 0);

		known = locale != (locale_t) 0 && strcmp(nl_langinfo_l(CODESET, locale), "UTF-8") == 0;
		if (locale != (locale_t) 0)
			freelocale(locale);
		atomic_store(&is_utf8, known);
	}
	return known == 0;
}

char *
quote_text(const char *text, bool is_name, bool all)
{
	static const char special[] = "\\\n\t";
	const unsigned char *in = (const unsigned char *) text;
	char	   *quoted = malloc(strlen(text) * 4 + 1);
	char	   *out = quoted;

	if (quoted == NULL)
		abort();
	while (*in)
	{
		int			length = utf8_length(in);
		int			bytes = length > 0 ? length : 1;
		const char *found = strchr(special, *in);

		if (found != NULL && is_name)
			out += sprintf(out, "\\%c", "\\nt"[found - special]);
		else if (found == NULL && (length == 0 || utf8_unseen(in) || (all && length > 1)))
			for (int i = 0; i < bytes; i++)
				out += sprintf(out, "\\%03o", in[i]);
		else
			out = mempcpy(out, in, bytes);
		in += bytes;
	}
	*out = '\0';
	return quoted;
}

const char *
output_quoted(const char *name)
{
	static _Thread_local char *buffer = NULL;

	free(buffer);
	buffer = quote_text(name, true, quote_all(STDOUT_FILENO));
	return buffer;
}

json_t *
output_json_name(const char *name)
{
	json_t	   *json = json_string(name);
	const unsigned char *in = (const unsigned char *) name;
	char	   *text,
			   *out;

	if (json != NULL)
		return json;
	text = out = malloc(strlen(name) * 3 + 1);
	if (text == NULL)
		abort();
	while (*in)
	{
		int			length = utf8_length(in);

		memcpy(out, length > 0 ? (const char *) in : "\357\277\275", length > 0 ? length : 3);
		out += length > 0 ? length : 3;
		in += length > 0 ? length : 1;
	}
	*out = '\0';
	json = json_string(text);
	free(text);
	return json;
}

/* As "\\u" and four digits, or two of these. */
static char *
escape_code(char *out, uint32_t code)
{
	if (code < 0x10000)
		return out + sprintf(out, "\\u%04x", code);
	code -= 0x10000;
	return out + sprintf(out, "\\u%04x\\u%04x", 0xd800 + (code >> 10), 0xdc00 + (code & 0x3ff));
}

char *
quote_json(const char *json, bool all)
{
	const unsigned char *in = (const unsigned char *) json;
	char	   *text = malloc(strlen(json) * 6 + 1);
	char	   *out = text;

	if (text == NULL)
		abort();
	while (*in)
	{
		int			length = utf8_length(in);

		if (length > 0 && (utf8_unseen(in) || (all && length > 1)))
			out = escape_code(out, utf8_code(in));
		else
			out = mempcpy(out, in, length > 0 ? length : 1);
		in += length > 0 ? length : 1;
	}
	*out = '\0';
	return text;
}
