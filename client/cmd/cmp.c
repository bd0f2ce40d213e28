/*-------------------------------------------------------------------------
 *
 * cmp.c
 *	  securefile cmp NAME NAME
 *
 * The server compares, so that no byte of the files comes here.  It only says which of two ranges
 * is the greater one.  So ranges of growing length are compared until two differ, and that one is
 * halved until one byte is left: what lies before the first difference is read about twice, and
 * hardly anything behind it.
 *
 *-------------------------------------------------------------------------
 */
#include <stdlib.h>
#include <string.h>

#include "output.h"
#include "reserved.h"
#include "text.h"
#include "transfer.h"
#include "verbs.h"

#define FIRST_BYTES		(1024 * 1024)

/* Two files, and how they are compared. */
typedef struct Cmp
{
	const char *names[2];
	int64_t		lengths[2];
	char	   *sql;
} Cmp;

/* Look a file up; false if there is none. */
static bool
find_file(Session *session, const char *name, int64_t *length, Failure *failure)
{
	Stored		stored;

	if (!reserved_refuse(name, failure) || !transfer_look(session, name, &stored, failure))
		return false;
	*length = stored.length;
	return stored.file || failure_say(failure, "no file of that name");
}

/* Expression: the file whose name is that parameter. */
static char *
file_of(const Target *target, int parameter)
{
	return text_make("(SELECT %s::%s.securefile FROM"
					 " pg_catalog.unnest(ARRAY[$%d]::%s[]) WITH ORDINALITY"
					 " securefile_asked (securefile_name, securefile_number) JOIN %s ON %s)",
					 target->column, target->extension, parameter, target->key_type,
					 target->table, target->key_is_asked);
}

/* The statement that compares count bytes, parameter 3, from a position on, parameter 4. */
static char *
make_statement(const Target *target)
{
	char	   *first = file_of(target, 1);
	char	   *second = file_of(target, 2);
	char	   *sql = text_make("SELECT %s.securefile_compare(%s, %s, $3::pg_catalog.int8,"
								" $4::pg_catalog.int8, $4::pg_catalog.int8)",
								target->extension, first, second);

	free(first);
	free(second);
	return sql;
}

/* Are so many bytes from an offset on the same? */
static bool
same_range(Session *session, const Cmp *cmp, int64_t offset, int64_t count, bool *same,
		   Failure *failure)
{
	char	   *counted = text_make("%lld", (long long) count);
	char	   *start = text_make("%lld", (long long) offset + 1);
	const char *const values[] = {cmp->names[0], cmp->names[1], counted, start};
	PGresult   *result = session_rows(session, failure, 1, cmp->sql, 4, values);
	bool		good = result != NULL;

	if (good && (PQntuples(result) != 1 || PQgetisnull(result, 0, 0)))
		good = failure_say(failure, "the server sent an answer of another form");
	*same = good && strcmp(PQgetvalue(result, 0, 0), "0") == 0;
	PQclear(result);
	free(counted);
	free(start);
	return good;
}

/* Set *offset to the first byte that differs, or that one of the files does not have. */
static bool
find_difference(Session *session, const Cmp *cmp, int64_t *offset, Failure *failure)
{
	int64_t		common = cmp->lengths[0] < cmp->lengths[1] ? cmp->lengths[0] : cmp->lengths[1];
	int64_t		step = FIRST_BYTES;
	int64_t		from = 0;
	int64_t		count = 0;
	bool		same = true;

	while (same && from < common)
	{
		count = common - from < step ? common - from : step;
		if (!same_range(session, cmp, from, count, &same, failure))
			return false;
		from += same ? count : 0;
		step = step > INT64_MAX / 2 ? INT64_MAX : step * 2;
	}
	while (!same && count > 1)
	{
		bool		first_half;

		if (!same_range(session, cmp, from, count / 2, &first_half, failure))
			return false;
		from += first_half ? count / 2 : 0;
		count = first_half ? count - count / 2 : count / 2;
	}
	*offset = from;
	return true;
}

/* Bytes are counted from 1, as cmp(1) counts them. */
static void
show(const Options *options, const Cmp *cmp, bool same, int64_t offset)
{
	int			shorter = cmp->lengths[0] <= cmp->lengths[1] ? 0 : 1;
	bool		ends = offset == cmp->lengths[shorter];
	char	   *first;

	if (options->json)
	{
		json_t	   *record = json_pack("{s:o, s:o, s:b}", "name", output_json_name(cmp->names[0]),
									   "other", output_json_name(cmp->names[1]), "same", same);

		if (!same)
			json_object_set_new(record, "byte", json_integer((json_int_t) offset + 1));
		output_record(record);
		return;
	}
	if (same)
		return;
	first = text_make("%s", output_quoted(cmp->names[0]));
	output_line("%s %s differ: byte %lld%s", first, output_quoted(cmp->names[1]),
				(long long) offset + 1, !ends ? "" : shorter == 0 ?
				", where the first has ended" : ", where the second has ended");
	free(first);
}

/* All statements see one snapshot. */
static bool
compare(Session *session, const Options *options, Cmp *cmp, bool *same, Failure *failure)
{
	int64_t		offset;
	const Target *target = session->target;

	if (target->distributed)
		return failure_say(failure, "%s is a distributed table: its files may lie on several nodes",
						   target->table);
	if (!session_do(session, failure, "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY"))
		return false;
	for (int i = 0; i < 2; i++)
		if (!find_file(session, cmp->names[i], &cmp->lengths[i], failure))
		{
			cmp->names[0] = cmp->names[i];
			return false;
		}
	cmp->sql = make_statement(target);
	if (!find_difference(session, cmp, &offset, failure) ||
		!session_do(session, failure, "COMMIT"))
		return false;
	*same = cmp->lengths[0] == cmp->lengths[1] && offset == cmp->lengths[0];
	show(options, cmp, *same, offset);
	return true;
}

/* A comparison that could not be made is EXIT_SETUP: EXIT_SOME says that the files differ. */
int
verb_cmp(const Options *options)
{
	Cmp			cmp = {.names = {options->args[0], options->args[1]}};
	Target		target;
	Session    *session = session_first(options, &target);
	Failure		failure;
	bool		same = false;
	bool		compared;
	int			status;

	if (session == NULL)
		return EXIT_SETUP;
	compared = compare(session, options, &cmp, &same, &failure);
	if (!compared)
		output_failed(cmp.names[0], &failure);
	free(cmp.sql);
	status = session_leave(session, same);
	return compared ? status : EXIT_SETUP;
}
