/*-------------------------------------------------------------------------
 *
 * quote.c
 *	  Names and messages as a terminal and JSON can take them.
 *
 * A name is any sequence of bytes, and a message of the server can hold names of other
 * users: a terminal would obey the control characters in them.
 *
 *-------------------------------------------------------------------------
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "output.h"
#include "utf8.h"

char *
quote_text(const char *text, bool is_name)
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
		else if (found == NULL && (length == 0 || utf8_control(in)))
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
	buffer = quote_text(name, true);
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
