/*-------------------------------------------------------------------------
 *
 * ls.c
 *	  securefile ls [PATTERN]
 *
 *-------------------------------------------------------------------------
 */
#include "list.h"
#include "output.h"
#include "verbs.h"

/* A ListEach: prints the file. */
static void
show(void *arg, const char *name, int64_t length)
{
	const Options *options = arg;

	if (options->json)
		output_record(json_pack("{s:o, s:I}", "name", output_json_name(name),
								"length", (json_int_t) length));
	else
		output_line("%14lld  %s", (long long) length, output_quoted(name));
}

int
verb_ls(const Options *options)
{
	Target		target;
	Session    *session = session_first(options, &target);
	Failure		failure;
	bool		good;

	if (session == NULL)
		return EXIT_SETUP;
	good = list_each(session, options->nargs > 0 ? options->args[0] : NULL, "",
					 show, (void *) options, &failure);
	if (!good)
		output_message(&failure);
	session_end(session);
	return good ? EXIT_DONE : EXIT_SETUP;
}
