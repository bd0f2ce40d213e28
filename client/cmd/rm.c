/*-------------------------------------------------------------------------
 *
 * rm.c
 *	  securefile rm NAME...
 *
 *-------------------------------------------------------------------------
 */
#include <stdlib.h>
#include <string.h>

#include "names.h"
#include "output.h"
#include "text.h"
#include "transfer.h"
#include "verbs.h"

/* Delete the row of a name; several rows of that name are a failure. */
static bool
remove_one(Session *session, const Options *options, const char *name, Failure *failure)
{
	const Target *target = session->target;
	const char *const values[] = {name};
	char	   *sql;
	PGresult   *result;
	Stored		stored;
	bool		good;

	(void) options;
	if (!transfer_look(session, name, &stored, failure))
		return false;
	sql = text_make("DELETE FROM %s WHERE %s", target->table, target->key_is_name);
	result = session_query(session, failure, sql, 1, values);
	good = result != NULL;
	if (good && strcmp(PQcmdTuples(result), "0") == 0)
		good = failure_say(failure, "no file of that name");
	PQclear(result);
	free(sql);
	if (good)
		output_file(name, ACTION_REMOVED, stored.length);
	return good;
}

int
verb_rm(const Options *options)
{
	return names_each(options, remove_one);
}
