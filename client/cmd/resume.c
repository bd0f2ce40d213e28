/*-------------------------------------------------------------------------
 *
 * resume.c
 *	  A long file that is stored in parts: securefile put --resume.
 *
 * The parts are appended to one row, which has a reserved name (reserved.h), each in a transaction
 * of its own.  The last transaction gives the row its name; or if there is a row of that name, it
 * gives that one the file, and deletes the other.  The reserved name has the size and time of the
 * file, so that another run finds out whether the file has changed; and before it goes on, it
 * compares what is stored with the beginning of the file.
 *
 *-------------------------------------------------------------------------
 */
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "copied.h"
#include "list.h"
#include "local.h"
#include "output.h"
#include "reserved.h"
#include "resume.h"
#include "source.h"
#include "statement.h"
#include "text.h"

#define PART_UNIT	(INT64_C(1024) * 1024)

typedef struct Resume
{
	Session    *session;
	const Options *options;
	const char *name;
	char	   *part;			/* the reserved name */
	bool		row_exists;		/* of the reserved name */
	int64_t		stored;			/* bytes, in transactions that are committed */
	Source		source;
	int64_t		hole;			/* zeros that come next, of a hole that began
								 * in another part */
} Resume;

static bool
check_possible(const Session *session, const Source *source, Failure *failure)
{
	const Target *target = session->target;

	if (!S_ISREG(source->file.before.st_mode) ||
		sparse_length_is_unknown(&source->file.before))
		return failure_say(failure, "only a regular file can be stored in parts\n"
						   "Hint: Leave --resume out.");
	if (target->dist_key != NULL && strcmp(target->dist_key, target->key) == 0)
		return failure_say(failure, "%s is the distribution column of %s: a file that is stored in "
						   "parts has another name at first, and that column cannot be changed\n"
						   "Hint: Leave --resume out.", target->key, target->table);
	if (target->distributed)
		return failure_say(failure, "%s is a table of Citus, where a file cannot be stored in parts"
						   "\nHint: Leave --resume out.", target->table);
	return true;
}

/* ---- what is there ---- */

/* Find the row of an earlier run, whose file must not have changed. */
static bool
find_part(Resume *resume, Failure *failure)
{
	FoundList	list = {NULL, 0, 0, 0};

	if (!list_names(resume->session, NULL, RESERVED_PREFIX, &list, failure))
		return false;
	for (size_t i = 0; i < list.count; i++)
	{
		const Found *found = &list.files[i];
		int64_t		size;
		const char *final = reserved_final(found->path, &size);

		if (final == NULL || strcmp(final, resume->name) != 0)
			continue;
		if (strcmp(found->path, resume->part) != 0)
			return failure_say(failure, "the file has changed since a part of it was stored\n"
							   "Hint: \"securefile rm --unfinished\" deletes what is stored of that name.");
		resume->row_exists = true;
		resume->stored = found->length;
	}
	return true;
}

/* Is what is stored the beginning of the file? */
static bool
compare_part(Resume *resume, Failure *failure)
{
	uint64_t	there;
	uint64_t	here;

	if (resume->stored == 0)
		return true;
	if (!transfer_hash(resume->session, resume->part, &there, failure) ||
		!local_hash_start(resume->source.file.fd, resume->stored, &here, failure))
		return false;
	return here == there ||
		failure_say(failure, "what is stored of the file is not its beginning\n"
					"Hint: \"securefile rm --unfinished\" deletes what is stored of that name.");
}

/* ---- a part ---- */

/* Open a value to which bytes are appended: that of the row, if nobody else has appended to it. */
static bool
open_value(const Resume *resume, Failure *failure)
{
	const Target *target = resume->session->target;
	pgsf	   *handle = resume->session->handle;
	char	   *length = text_make("%lld", (long long) resume->stored);
	const char *const values[] = {resume->part, length};
	pgsf_params params = {2, NULL, values, NULL, NULL};
	char	   *sql = text_make("SELECT %s FROM %s WHERE %s AND pg_catalog.length(%s)"
								" OPERATOR(pg_catalog.=) $2::pg_catalog.int8 FOR UPDATE",
								target->column, target->table, target->key_is_name,
								target->column);
	bool		good = resume->row_exists ?
		pgsf_open(handle, PGSF_READ_WRITE, sql, &params) == 0 &&
		pgsf_seek(handle, 0, SEEK_END) >= 0 :
		pgsf_create(handle, target->store_table, target->plain_column) == 0;

	free(sql);
	free(length);
	if (good)
		return true;
	failure_pgsf(failure, handle);
	if (strcmp(failure->sqlstate, PGSF_ERROR_NOT_FOUND) == 0)
		failure_say(failure, "another session stores this file, or has deleted what is stored "
					"of it");
	return false;
}

/* Append zeros, which take no space. */
static bool
append_hole(Resume *resume, int64_t room, int64_t *added)
{
	pgsf	   *handle = resume->session->handle;

	*added = resume->hole < room ? resume->hole : room;
	resume->hole -= *added;
	return pgsf_truncate(handle, pgsf_length(handle) + *added) == 0 &&
		pgsf_seek(handle, 0, SEEK_END) >= 0;
}

/* Append as many bytes of the file as there is room for to the open value; returns their number. */
static int64_t
append_bytes(Resume *resume, int64_t room, Failure *failure)
{
	Session    *session = resume->session;
	int64_t		done = 0;

	while (done < room)
	{
		int64_t		got = 0;
		bool		good = true;

		if (resume->hole == 0)
			got = source_next_sparse(&resume->source, session->buffer,
									 room - done < BUFFER_SIZE ? room - done : BUFFER_SIZE,
									 &resume->hole);
		if (got < 0)
			return -1;
		if (got == 0 && resume->hole == 0)
			break;
		good = got > 0 ? pgsf_write(session->handle, session->buffer, got) == 0 :
			append_hole(resume, room - done, &got);
		if (!good)
		{
			failure_pgsf(failure, session->handle);
			return -1;
		}
		done += got;
	}
	return done;
}

/* Store the open value in the row. */
static bool
store_value(const Resume *resume, Failure *failure)
{
	const Target *target = resume->session->target;
	char	   *sql = resume->row_exists ?
		text_make("UPDATE %s SET %s = " PGSF_VALUE " WHERE %s", target->table, target->column,
				  target->key_is_name) :
		statement_put(resume->session, resume->options, false, PGSF_VALUE);
	const char **values = statement_values(resume->options, resume->part);
	pgsf_params params = {resume->row_exists ? 1 : resume->options->nsets + 1, NULL, values, NULL,
		NULL};
	bool		good = pgsf_store(resume->session->handle, sql, &params, NULL) == 0;

	if (!good)
		failure_pgsf(failure, resume->session->handle);
	free(values);
	free(sql);
	return good;
}

/* Store the next part, in a transaction. */
static bool
put_part(Resume *resume, Failure *failure)
{
	int64_t		added;

	session_let_go(resume->session);
	if (!open_value(resume, failure))
		return false;
	added = append_bytes(resume, resume->options->part_size * PART_UNIT, failure);
	if (added < 0 || !source_is_same(&resume->source) ||
		!store_value(resume, failure))
	{
		pgsf_close(resume->session->handle);
		return false;
	}
	resume->row_exists = true;
	resume->stored += added;
	return true;
}

/* ---- the end ---- */

/* Give the row its name. */
static bool
rename_part(const Resume *resume, Failure *failure)
{
	const Target *target = resume->session->target;
	const char *const values[] = {resume->part, resume->name};
	char	   *sql = text_make("UPDATE %s SET %s = $2 WHERE %s", target->table, target->key,
								target->key_is_name);
	PGresult   *result = session_query(resume->session, failure, sql, 2, values);
	bool		good = result != NULL && strcmp(PQcmdTuples(result), "1") == 0;

	if (result != NULL && !good)
		failure_say(failure, "another session has deleted what is stored of the file");
	PQclear(result);
	free(sql);
	return good;
}

/* Give the file to the row that has the name, and delete the other one. */
static bool
replace_file(const Resume *resume, Failure *failure)
{
	const Target *target = resume->session->target;
	const char *const part[] = {resume->part};
	int			last = resume->options->nsets + 2;

	/* what was stored under the reserved name is that text */
	char	   *value = text_make("(SELECT %s FROM %s WHERE %s COLLATE pg_catalog.\"C\""
								  " OPERATOR(pg_catalog.=) $%d::pg_catalog.text)", target->column,
								  target->table, target->key_text, last);
	char	   *sql = statement_put(resume->session, resume->options, true, value);
	char	   *gone = text_make("DELETE FROM %s WHERE %s", target->table, target->key_is_name);
	const char **values = statement_values(resume->options, resume->name);
	PGresult   *result;
	bool		good;

	values[last - 1] = resume->part;
	result = session_query(resume->session, failure, sql, last, values);
	good = result != NULL;
	if (good && strcmp(PQcmdTuples(result), "1") != 0)
		good = failure_say(failure, "the row that was to be replaced is gone");
	PQclear(result);
	if (good)
	{
		result = session_query(resume->session, failure, gone, 1, part);
		good = result != NULL;
		PQclear(result);
	}
	free(values);
	free(gone);
	free(sql);
	free(value);
	return good;
}

static bool
finish(Resume *resume, bool replaces, Failure *failure)
{
	Session    *session = resume->session;

	return source_check_unchanged(&resume->source) &&
		session_do(session, failure, "BEGIN ISOLATION LEVEL READ COMMITTED") &&
		(replaces ? replace_file : rename_part) (resume, failure) &&
		session_do(session, failure, "COMMIT");
}

/* Say how much is stored, so that the user knows what another run has to do. */
static int64_t
fail(const Resume *resume, Failure *failure)
{
	char		stored[32],
				all[32];
	char	   *text = text_make("%s", failure->text);
	char		sqlstate[sizeof(failure->sqlstate)];

	memcpy(sqlstate, failure->sqlstate, sizeof(sqlstate));
	if (resume->stored > 0)
		failure_say(failure, "%s\nDetail: %s of %s are stored, where the same command goes on.",
					text,
					progress_size(resume->stored, stored, sizeof(stored)),
					progress_size(resume->source.file.before.st_size, all, sizeof(all)));
	memcpy(failure->sqlstate, sqlstate, sizeof(sqlstate));
	free(text);
	return -1;
}

/* Store what is not stored yet. */
static bool
put_rest(Resume *resume, bool replaces, Failure *failure)
{
	int64_t		size = resume->source.file.before.st_size;
	bool		good = lseek(resume->source.file.fd, resume->stored, SEEK_SET) == resume->stored ||
		failure_errno(failure, "could not read the file");

	good = good && source_begin(&resume->source, resume->source.file.fd, failure);
	progress_bytes(resume->stored);
	while (good && (resume->stored < size || !resume->row_exists))
		good = put_part(resume, failure);
	return good && finish(resume, replaces, failure);
}

int64_t
resume_put(Session *session, const Options *options, const char *name, const Stored *stored,
		   int fd, Failure *failure)
{
	Resume		resume = {.session = session, .options = options, .name = name};
	int64_t		size;
	bool		good;

	if (!source_begin(&resume.source, fd, failure) ||
		!check_possible(session, &resume.source, failure))
		return -1;
	size = resume.source.file.before.st_size;
	resume.part = reserved_make(name, &resume.source.file.before);
	good = find_part(&resume, failure);
	if (good && !resume.row_exists && size <= options->part_size * PART_UNIT)
	{
		free(resume.part);
		return transfer_put(session, options, name, stored->row, fd, failure);
	}
	good = good && compare_part(&resume, failure) && put_rest(&resume, stored->row, failure);
	if (!good)
		size = fail(&resume, failure);
	free(resume.part);
	return size;
}
