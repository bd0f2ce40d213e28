/*-------------------------------------------------------------------------
 *
 * filter.c
 *	  Which paths of a tree are taken: the patterns of --include and --exclude.
 *
 * The rules are those of .gitignore.  The last pattern that matches a path decides.  A
 * directory that is left out is not walked, so no pattern takes what is below it.  A pattern
 * is compared part by part: the parts between slashes by fnmatch(), and "**" stands for any
 * number of parts.
 *
 *-------------------------------------------------------------------------
 */
#include <errno.h>
#include <fnmatch.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "filter.h"

/* Text that is cut at its slashes. */
typedef struct Parts
{
	char	   *text;
	char	  **parts;
	size_t		count;
} Parts;

typedef struct Pattern
{
	Parts		parts;
	bool		include;
	bool		anchored;		/* begins at the top of the tree */
	bool		directories;	/* matches nothing else */
} Pattern;

struct Filter
{
	Pattern    *patterns;
	size_t		count;
};

static Parts
split(const char *text)
{
	Parts		split = {strdup(text), NULL, 1};
	char	   *rest;

	if (split.text == NULL)
		abort();
	for (const char *c = text; *c != '\0'; c++)
		split.count += *c == '/';
	split.parts = malloc(split.count * sizeof(char *));
	if (split.parts == NULL)
		abort();
	rest = split.text;
	for (size_t i = 0; i < split.count; i++)
		split.parts[i] = strsep(&rest, "/");
	return split;
}

static void
free_parts(Parts *parts)
{
	free(parts->parts);
	free(parts->text);
}

void
filter_add(Filter **filter, const char *pattern, bool include)
{
	Pattern		added = {.include = include};
	char	   *text = strdup(pattern);
	size_t		length = strlen(pattern);

	if (text == NULL)
		abort();
	if (length > 0 && text[length - 1] == '/')
	{
		added.directories = true;
		text[--length] = '\0';
	}
	added.anchored = strchr(text, '/') != NULL;
	added.parts = split(*text == '/' ? text + 1 : text);
	free(text);

	if (*filter == NULL)
		*filter = calloc(1, sizeof(Filter));
	if (*filter == NULL)
		abort();
	(*filter)->patterns = realloc((*filter)->patterns, ((*filter)->count + 1) * sizeof(Pattern));
	if ((*filter)->patterns == NULL)
		abort();
	(*filter)->patterns[(*filter)->count++] = added;
}

/* Cut the end of the line, and spaces before it that no backslash keeps. */
static void
trim(char *line)
{
	size_t		length = strcspn(line, "\r\n");

	while (length > 0 && line[length - 1] == ' ' && (length < 2 || line[length - 2] != '\\'))
		length--;
	line[length] = '\0';
}

bool
filter_add_file(Filter **filter, const char *path, Failure *failure)
{
	FILE	   *file = fopen(path, "re");
	char	   *line = NULL;
	size_t		space = 0;
	int			error;

	if (file == NULL)
		return failure_say(failure, "could not open \"%s\": %s", path, strerror(errno));
	errno = 0;
	while (getline(&line, &space, file) >= 0)
	{
		bool		include = line[0] == '!';

		trim(line);
		if (line[include] != '\0' && line[0] != '#')
			filter_add(filter, line + include, include);
	}
	error = ferror(file) ? errno : 0;
	free(line);
	fclose(file);
	return error == 0 || failure_say(failure, "could not read \"%s\": %s", path, strerror(error));
}

/* Do the parts of a pattern, from one of them on, match those of a path? */
static bool
parts_match(const Parts *pattern, size_t at, const Parts *path, size_t from)
{
	for (; at < pattern->count; at++, from++)
	{
		if (strcmp(pattern->parts[at], "**") == 0)
		{
			/*
			 * in front it stands for no directory, too, but at the end for
			 * what is inside
			 */
			if (at + 1 == pattern->count)
				return from < path->count;
			for (; from < path->count; from++)
				if (parts_match(pattern, at + 1, path, from))
					return true;
			return false;
		}
		if (from == path->count || fnmatch(pattern->parts[at], path->parts[from], 0) != 0)
			return false;
	}
	return from == path->count;
}

static bool
matches(const Pattern *pattern, const Parts *path, bool is_directory)
{
	if (pattern->directories && !is_directory)
		return false;
	return parts_match(&pattern->parts, 0, path, pattern->anchored ? 0 : path->count - 1);
}

bool
filter_excludes(const Filter *filter, const char *path, bool is_directory)
{
	bool		excludes = false;
	Parts		parts;

	if (filter == NULL)
		return false;
	parts = split(path);
	for (size_t i = filter->count; i > 0; i--)
	{
		if (!matches(&filter->patterns[i - 1], &parts, is_directory))
			continue;
		excludes = !filter->patterns[i - 1].include;
		break;
	}
	free_parts(&parts);
	return excludes;
}

bool
filter_excludes_file(const Filter *filter, const char *path)
{
	bool		excludes = false;

	if (filter == NULL)
		return false;
	for (const char *slash = strchr(path, '/'); slash != NULL && !excludes;
		 slash = strchr(slash + 1, '/'))
	{
		char	   *directory = strndup(path, slash - path);

		if (directory == NULL)
			abort();
		excludes = filter_excludes(filter, directory, true);
		free(directory);
	}
	return excludes || filter_excludes(filter, path, false);
}
