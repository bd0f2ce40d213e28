/*-------------------------------------------------------------------------
 *
 * dumpoptions.c
 *	  Which options of dump and restore go together.
 *
 *-------------------------------------------------------------------------
 */
#include <string.h>

#include "verbs.h"

/* The options of what works on the directory alone. */
static const char *
wrong_locally(const Options *options)
{
	if (options->table != NULL || options->all || options->nargs > 1)
		return "--list, --prune and --check want DIR only";
	if (options->delta || options->no_verify)
		return "--list, --prune and --check make no dump: no --delta";
	if (options->prune != (options->keep > 0))
		return "--prune and --keep belong together";
	return NULL;
}

/* Its name, or a path to it. */
static bool
is_pg_dump(const char *program)
{
	const char *slash = strrchr(program, '/');

	return strcmp(slash == NULL ? program : slash + 1, "pg_dump") == 0;
}

const char *
dump_options_wrong(const Options *options, const Verb *verb)
{
	bool		with_pg_dump = verb->bit == VERB_DUMP && options->nargs > 1;

	if (options->list + options->prune + options->check > 1)
		return "--list, --prune and --check exclude each other";
	if (options->list || options->prune || options->check)
		return wrong_locally(options);
	if (options->keep > 0)
		return "--prune and --keep belong together";
	if (options->no_verify && (!options->delta || options->verify))
		return "--no-verify wants --delta, and no --verify";
	if (options->table != NULL && options->all)
		return "--table and --all exclude each other";
	if (options->table == NULL && !options->all && !with_pg_dump)
		return "say with -t which table, or --all";
	if (with_pg_dump && !is_pg_dump(options->args[1]))
		return "behind DIR comes only pg_dump with its options";
	if (verb->bit == VERB_DUMP && options->dry_run)
		return "--dry-run of dump goes with --prune only";
	return NULL;
}
