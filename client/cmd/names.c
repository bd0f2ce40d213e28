/*-------------------------------------------------------------------------
 *
 * names.c
 *	  The loop of verbs that do one name after the other.
 *
 *-------------------------------------------------------------------------
 */
#include <string.h>

#include "names.h"
#include "output.h"

int
names_each(const Options *options, NameWork work)
{
	Target		target;
	Session    *session = session_first(options, &target);
	Failure		failure;
	int			status = EXIT_DONE;

	if (session == NULL)
		return EXIT_SETUP;
	for (int i = 0; i < options->nargs && !session->lost; i++)
	{
		if (work(session, options, options->args[i], &failure))
			continue;
		output_failed(options->args[i], &failure);
		status = EXIT_SOME;
		if (!session_recover(session, &failure))
			output_message(&failure);
	}
	if (session->lost)
		status = EXIT_SETUP;
	session_end(session);
	return status;
}

void
names_say_prefix(const Options *options)
{
	const char *prefix = options->prefix;
	Failure		notice;

	if (*prefix == '\0' || prefix[strlen(prefix) - 1] == '/' || options->quiet)
		return;
	failure_say(&notice, "--prefix %s has no slash at its end: a.txt and %sa.txt belong together",
				prefix, prefix);
	output_notice(NULL, notice.text);
}
