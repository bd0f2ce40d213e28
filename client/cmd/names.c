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
names_each_of(Session *session, const Options *options, NameWork work)
{
	Failure		failure;
	int			status = EXIT_DONE;
	int			done;

	for (done = 0; done < options->nargs && !session->lost && !output_stopped(); done++)
	{
		if (work(session, options, options->args[done], &failure))
			continue;
		output_failed(options->args[done], &failure);
		status = EXIT_SOME;
		if (!session_recover(session, &failure))
			output_message(&failure);
	}
	if (session->lost || done < options->nargs)
		status = EXIT_SETUP;
	session_end(session);
	return status;
}

int
names_each(const Options *options, NameWork work)
{
	Target		target;
	Session    *session = session_first(options, &target);

	return session == NULL ? EXIT_SETUP : names_each_of(session, options, work);
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
