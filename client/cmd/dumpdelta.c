/*-------------------------------------------------------------------------
 *
 * dumpdelta.c
 *	  securefile dump --delta: of a long file only the parts are fetched that have changed.
 *
 * The server has a tag for each part of a file.  They are kept beside the object, and the next
 * dump compares them with those of the file now.  The new object is the earlier one of the same
 * row, copied as the file system can, with the parts whose tags differ.
 *
 * While it is made its SHA-256 is computed, and compared with that of the server, kept or digested.
 * If it is another one, the file is fetched whole.  That happens if the object is damaged, or if
 * a tag of 64 bits is the same by chance.  With --no-verify there may be nothing to compare
 * it with; the earlier object is read first then.
 *
 * If the server cannot be asked for tags, the file is fetched whole.
 *
 *-------------------------------------------------------------------------
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "answer.h"
#include "dumpdelta.h"
#include "dumppatch.h"
#include "number.h"
#include "output.h"
#include "text.h"

/* Is it a file that has tags? */
static bool
is_wanted(const Dump *dump, int column, int64_t length)
{
	return dump->options->delta && length >= dump->options->delta_from &&
		dump->columns.columns[column].tags != NULL;
}

bool
delta_lacks_tags(const Dump *dump, int column, const char *sha256, int64_t length)
{
	return is_wanted(dump, column, length) && !tags_exist(dump->dir, sha256);
}

bool
delta_trusts(const Dump *dump, const Delta *delta)
{
	return dump->options->no_verify && is_wanted(dump, delta->column, delta->length);
}

/* Say why more is fetched than has changed. */
static void
say(const Delta *delta, const char *reason)
{
	char	   *text = text_make("%s: all of the file is fetched: %s", delta->name, reason);

	output_notice(NULL, text);
	free(text);
}

/* ---- tags ---- */

/* The rows of securefile_extents() that came: there are 131072 of them for 1 TB. */
typedef struct TakenExtents
{
	Delta	   *delta;
	int64_t		end;			/* of the last one */
} TakenExtents;

/* A row of them: start from 1, length, tag. */
static bool
take_extent(void *arg, const PGresult *result, Failure *failure)
{
	TakenExtents *taken = arg;
	Delta	   *delta = taken->delta;
	const char *tag = PQgetvalue(result, 0, 2);
	Extent		extent;
	bool		good = answer_has(result, 3, failure) &&
		(number_parse(PQgetvalue(result, 0, 0), 1, INT64_MAX, &extent.start) &&
		 number_parse(PQgetvalue(result, 0, 1), 1, INT64_MAX, &extent.length));

	if (good)
	{
		extent.start--;
		good = extent_next(&extent, delta->length, &taken->end);
	}
	if (!good)
		return failure_say(failure, "the server sent parts of another form");
	/* one that is not known here is kept as none */
	snprintf(extent.tag, sizeof(extent.tag), "%s", tag_known(tag) ? tag : "-");
	return tags_add(delta->tags, &extent, failure);
}

static bool
ask_extents(Session *session, const Dump *dump, Delta *delta, Failure *failure)
{
	const DumpColumn *column = &dump->columns.columns[delta->column];
	TakenExtents taken = {delta, 0};

	delta->tags = tags_begin(dump->dir, delta->length, failure);
	if (delta->tags == NULL)
		return false;
	if (!PQsendQueryParams(session->conn, column->tags, delta->params.count, NULL,
						   delta->params.values, NULL, NULL, 0) ||
		!PQsetSingleRowMode(session->conn))
		return failure_sql(failure, session->conn, NULL);
	return answer_each_row(session->conn, take_extent, &taken, failure);
}

/*
 * Ask the server for the tags, once.  Without them the file is fetched whole.  False: the session
 * does not have the snapshot any more.
 */
static bool
ask(Session *session, const Dump *dump, Delta *delta, Failure *failure)
{
	if (delta->asked || !is_wanted(dump, delta->column, delta->length))
		return true;
	delta->asked = true;
	if (ask_extents(session, dump, delta, failure))
		return true;
	delta_end(delta);
	if (PQstatus(session->conn) != CONNECTION_OK)
		return false;
	say(delta, failure->text);
	return session_do(session, failure, "ROLLBACK") && dump_see(session, dump, failure);
}

bool
delta_keep(Session *session, Dump *dump, Delta *delta, const char *sha256, Failure *failure)
{
	TagWriter  *tags;
	Failure		reason;

	if (!ask(session, dump, delta, failure))
		return false;
	tags = delta->tags;
	delta->tags = NULL;
	/* without them the next dump fetches more */
	if (tags != NULL && !tags_finish(tags, sha256, &reason))
		output_message(&reason);
	return true;
}

void
delta_end(Delta *delta)
{
	if (delta->tags != NULL)
		tags_discard(delta->tags);
	delta->tags = NULL;
}

/* ---- the earlier object ---- */

/* The file that the row had, if there are tags of both. */
static const EarlierFile *
find_earlier(Dump *dump, const Delta *delta)
{
	const EarlierFile *found;

	if (delta->tags == NULL)
		return NULL;
	pthread_mutex_lock(&dump->earlier_lock);
	found = earlier_find(&dump->earlier[delta->column], dump->dir,
						 &dump->columns.columns[delta->column], delta->row,
						 dump->options->delta_from);
	pthread_mutex_unlock(&dump->earlier_lock);
	return found;
}

/* Are all parts the same, and none is missing? */
static bool
same_parts(TagReader *now, TagReader *before)
{
	Extent		one;
	Extent		other;

	while (tags_next(now, &one))
		if (!tags_next(before, &other) || !extent_same(&one, &other))
			return false;
	return !tags_next(before, &other);
}

bool
delta_same(Session *session, Dump *dump, Delta *delta, char *sha256, Failure *failure)
{
	const EarlierFile *earlier;
	TagReader	now;
	TagReader	before;
	bool		same = false;

	sha256[0] = '\0';
	if (!ask(session, dump, delta, failure))
		return false;
	earlier = find_earlier(dump, delta);
	if (earlier == NULL || earlier->length != delta->length ||
		!object_exists(dump->dir, earlier->sha256, earlier->length) ||
		!tags_open(&before, dump->dir, earlier->sha256, earlier->length))
		return true;
	if (tags_open_new(&now, delta->tags, failure))
	{
		same = same_parts(&now, &before);
		tags_close(&now);
	}
	tags_close(&before);
	if (same)
		memcpy(sha256, earlier->sha256, SHA256_HEX_SIZE);
	return true;
}

/* Is the earlier object what its name says?  Its bytes get another name. */
static bool
is_sound(int fd, const EarlierFile *earlier)
{
	char		sha256[SHA256_HEX_SIZE];
	Failure		ignored;

	return local_sha256(fd, sha256, &ignored) && strcmp(sha256, earlier->sha256) == 0;
}

/* Open what a patch is made of. */
static bool
open_patch(Dump *dump, const Delta *delta, const EarlierFile *earlier, bool look, Patch *patch,
		   Failure *reason)
{
	int64_t		length;

	patch->earlier = object_open(dump->dir, earlier->sha256, &length, reason);
	if (patch->earlier < 0)
		return false;
	if (length != earlier->length || (look && !is_sound(patch->earlier, earlier)))
		failure_say(reason, "the object of the dump before is damaged");
	else if (!tags_open(&patch->before, dump->dir, earlier->sha256, earlier->length))
		failure_say(reason, "the object of the dump before has no tags");
	else if (tags_open_new(&patch->now, delta->tags, reason))
		return true;
	else
		tags_close(&patch->before);
	close(patch->earlier);
	return false;
}

static void
close_patch(Patch *patch)
{
	tags_close(&patch->now);
	tags_close(&patch->before);
	close(patch->earlier);
}

/*
 * Make the object out of the earlier one.  PATCH_UNFIT: that cannot be done, and the user knows
 * why, if it was to be expected.
 */
static PatchResult
patch_object(Session *session, Dump *dump, Delta *delta, TempFile *file, const char *wanted,
			 char *sha256, bool *broken, Failure *failure)
{
	Patch		patch = {.session = session, .sql = dump->columns.columns[delta->column].file,
		.params = &delta->params, .to = tempfile_fd(file), .length = delta->length};
	const EarlierFile *earlier = find_earlier(dump, delta);
	Failure		reason;
	PatchResult result;

	if (earlier == NULL || !tags_exist(dump->dir, earlier->sha256))
		return PATCH_UNFIT;
	patch.earlier_length = earlier->length;
	result = PATCH_UNFIT;
	if (open_patch(dump, delta, earlier, wanted[0] == '\0', &patch, &reason))
	{
		result = patch_make(&patch, sha256, broken, failure);
		close_patch(&patch);
		if (result == PATCH_MADE && wanted[0] != '\0' && strcmp(sha256, wanted) != 0)
			result = PATCH_UNFIT;
		failure_say(&reason, "the parts that are new do not fit to the object of the dump before");
	}
	if (result == PATCH_UNFIT)
		say(delta, reason.text);
	else if (result == PATCH_MADE)
		atomic_fetch_add(&dump->reused, patch.kept);
	return result;
}

int64_t
delta_fill(Session *session, Dump *dump, Delta *delta, TempFile *file, const char *wanted,
		   char *sha256, bool *broken, Failure *failure)
{
	int			fd = tempfile_fd(file);
	PatchResult result;

	*broken = false;
	if (!ask(session, dump, delta, failure))
		return -1;
	result = patch_object(session, dump, delta, file, wanted, sha256, broken, failure);
	if (result != PATCH_UNFIT)
		return result == PATCH_MADE ? delta->length : -1;
	if (ftruncate(fd, 0) != 0 || lseek(fd, 0, SEEK_SET) != 0)
	{
		*broken = true;
		failure_errno(failure, "could not write the object");
		return -1;
	}
	return object_fill(session, file, dump->columns.columns[delta->column].file, &delta->params,
					   sha256, broken, failure);
}
