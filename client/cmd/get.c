/*-------------------------------------------------------------------------
 *
 * get.c
 *	  securefile get NAME [FILE]
 *
 *-------------------------------------------------------------------------
 */
#include <unistd.h>

#include "meta.h"
#include "output.h"
#include "place.h"
#include "tempfile.h"
#include "transfer.h"
#include "verbs.h"

/* Write the file, under a temporary name until it is complete.  Returns its length, or -1. */
static int64_t
get_one(Session *session, const Options *options, const Place *place, const Meta *meta,
		Failure *failure)
{
	const char *name = options->args[0];
	TempFile   *file;
	int64_t		bytes;

	if (place->fd >= 0)
		return transfer_get(session, name, place->fd, failure);
	if (meta->link != NULL)
		file = tempfile_link(place->directory, meta->link, failure);
	else
		file = tempfile_open(place->directory, 0666, failure);
	if (file == NULL)
		return -1;
	bytes = meta->link != NULL ? 0 : transfer_get(session, name, tempfile_fd(file), failure);
	if (bytes >= 0 && meta->link == NULL && options->meta &&
		!meta_apply(options, tempfile_fd(file), meta, failure))
		bytes = -1;
	if (bytes < 0)
		tempfile_discard(file);
	else if (!tempfile_finish(file, place->name, options->replace, failure))
		bytes = -1;
	return bytes;
}

int
verb_get(const Options *options)
{
	const char *name = options->args[0];
	Target		target;
	Session    *session;
	Place		place;
	Failure		failure;
	Stored		stored;
	Meta		meta = meta_unknown;
	int64_t		bytes = -1;

	if (!place_find(options, name, options->nargs > 1 ? options->args[1] : NULL, &place,
					&failure))
	{
		output_failed(name, &failure);
		return EXIT_SOME;
	}
	session = session_first(options, &target);
	if (session == NULL)
		return EXIT_SETUP;
	if (transfer_look(session, name, &stored, &failure) &&
		(!options->meta || meta_look(session, name, &meta, &failure)))
	{
		/*
		 * the progress line and the contents of the file would mix on a
		 * terminal
		 */
		if (!options->quiet && place.fd < 0)
			progress_begin(0, stored.length);
		bytes = get_one(session, options, &place, &meta, &failure);
		progress_end();
	}
	if (bytes < 0)
		output_failed(name, &failure);
	else if (place.fd != STDOUT_FILENO)
		output_file(name, ACTION_GOT, bytes);
	return session_leave(session, bytes >= 0);
}
