/*-------------------------------------------------------------------------
 *
 * utf8.c
 *	  Checks of UTF-8.  Names of files are bytes and names in a database are text: these
 *	  functions tell which names can be both.
 *
 *-------------------------------------------------------------------------
 */
#include "utf8.h"

int
utf8_length(const unsigned char *text)
{
	static const unsigned smallest[] = {0, 0, 0x80, 0x800, 0x10000};
	unsigned	first = text[0];
	unsigned	code;
	int			length;

	if (first < 0x80)
		return first != 0;
	if (first < 0xc2 || first > 0xf4)
		return 0;
	length = first < 0xe0 ? 2 : first < 0xf0 ? 3 : 4;
	code = first & (0x7f >> length);
	for (int i = 1; i < length; i++)
	{
		if ((text[i] & 0xc0) != 0x80)
			return 0;
		code = code << 6 | (text[i] & 0x3f);
	}
	if (code < smallest[length] || code > 0x10ffff || (code >= 0xd800 && code <= 0xdfff))
		return 0;
	return length;
}

bool
utf8_control(const unsigned char *text)
{
	return text[0] < ' ' || text[0] == 0x7f ||
		(text[0] == 0xc2 && text[1] < 0xa0) ||
		(text[0] == 0xe2 && text[1] == 0x80 && (text[2] == 0xa8 || text[2] == 0xa9));
}

bool
utf8_valid(const char *text)
{
	const unsigned char *at = (const unsigned char *) text;

	while (*at)
	{
		int			length = utf8_length(at);

		if (length == 0)
			return false;
		at += length;
	}
	return true;
}
