/*-------------------------------------------------------------------------
 *
 * help.c
 *	  What --help says of all verbs, and what the completion of shells asks for.
 *
 * Both are made from the tables of options.c, so that they cannot differ from what the command
 * takes.
 *
 *-------------------------------------------------------------------------
 */
#include <stdio.h>
#include <stdlib.h>

#include "help.h"
#include "text.h"

const char *
help_verbs(const Verb *verbs, int count)
{
	char	   *text = text_make("Files in securefile columns of PostgreSQL tables.\n\n"
								 "Verbs (\"securefile VERB --help\" shows the options of one):\n");

	for (int i = 0; i < count; i++)
	{
		char	   *more = text_make("%s  %-8s  %s\n", text, verbs[i].name, verbs[i].brief);

		free(text);
		text = more;
	}
	return text_make("%s\vExit status: 0 done; 1 some files failed or differ; 2 wrong usage; "
					 "3 no connection, or no such table or column; 130 interrupted.", text);
}

struct argp_option *
help_hide(struct argp_option *options)
{
	struct argp_option *kept = options;

	for (const struct argp_option *option = options; option->name != NULL || option->doc != NULL;
		 option++)
	{
		/* a heading would stay */
		if (option->name == NULL)
			continue;
		*kept = *option;
		kept++->flags |= OPTION_HIDDEN;
	}
	*kept = (struct argp_option)
	{
		0
	};
	return options;
}

void
help_complete_verbs(const Verb *verbs, int count)
{
	for (int i = 0; i < count; i++)
		printf("%s\t%s\n", verbs[i].name, verbs[i].brief);
}

void
help_complete_options(const struct argp_option *options)
{
	for (; options->name != NULL || options->doc != NULL; options++)
		if (options->name != NULL && (options->flags & OPTION_HIDDEN) == 0)
			printf("--%s%s\t%s\n", options->name, options->arg == NULL ? "" : "=", options->doc);
	puts("--help\tGive help");
}
