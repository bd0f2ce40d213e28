/*-------------------------------------------------------------------------
 *
 * utf8.c
 *	  Checks of UTF-8.  Names of files are bytes and names in a database are text: these
 *	  functions tell which names can be both.
 *
 *-------------------------------------------------------------------------
 */
#include <stddef.h>

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

/*
 * Characters that a terminal obeys, or that show nothing, or that change the order in which others
 * are shown: controls, separators of lines, what Unicode calls format characters, and those that
 * it says to ignore where they are not known (tags and selectors of variants among them).
 */
static const struct
{
	uint32_t	first;
	uint32_t	last;
}			unseen[] =

{
	{0x0000, 0x001f}, {0x007f, 0x009f}, {0x00ad, 0x00ad}, {0x034f, 0x034f}, {0x0600, 0x0605},
	{0x061c, 0x061c}, {0x06dd, 0x06dd}, {0x070f, 0x070f}, {0x0890, 0x0891}, {0x08e2, 0x08e2},
	{0x115f, 0x1160}, {0x17b4, 0x17b5}, {0x180b, 0x180f}, {0x200b, 0x200f}, {0x2028, 0x202e},
	{0x2060, 0x206f}, {0x3164, 0x3164}, {0xfe00, 0xfe0f}, {0xfeff, 0xfeff}, {0xffa0, 0xffa0},
	{0xfff0, 0xfffb}, {0xfffe, 0xffff}, {0x110bd, 0x110bd}, {0x110cd, 0x110cd},
	{0x13430, 0x1343f}, {0x1bca0, 0x1bca3}, {0x1d173, 0x1d17a}, {0xe0000, 0xe0fff}
};

uint32_t
utf8_code(const unsigned char *text)
{
	int			length = utf8_length(text);
	uint32_t	code = length > 1 ? text[0] & (0x7f >> length) : text[0];

	for (int i = 1; i < length; i++)
		code = code << 6 | (text[i] & 0x3f);
	return code;
}

bool
utf8_unseen(const unsigned char *text)
{
	uint32_t	code = utf8_code(text);

	for (size_t i = 0; i < sizeof(unseen) / sizeof(unseen[0]); i++)
		if (code >= unseen[i].first && code <= unseen[i].last)
			return true;
	return false;
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
