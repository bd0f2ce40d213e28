/*-------------------------------------------------------------------------
 *
 * main.c
 *	  The command securefile: files in and out of securefile columns.
 *
 *		options.c, optionvalue.c, help.c	the command line: table of options, table of verbs; help
 *		init.c			the verb that makes a table
 *		put.c, get.c, cat.c, ls.c, stat.c, rm.c, mv.c, cmp.c, import.c, export.c,
 *		verify.c		the verbs
 *		sync.c, surplus_rows.c, surplus_files.c, found.c	the verb that deletes what one
 *						side has not; lists compared
 *		migrate.c		files that rows name by a path or URL (migrate.h has the map)
 *		shrink.c		the verb that gives free space back
 *		removed.c, undelete.c, purge.c	what a retention keeps of removed values
 *		generate.c		the verb that needs no server: a master key
 *		dump.c, restore.c	dumps; dump.c has the map of their parts
 *		names.c, pool.c	one name after the other; many files over several connections
 *		place.c			where a file that is fetched goes
 *		transfer.c, source.c	one file to or from the database; its bytes, and whether it changes
 *		resume.c, reserved.c	a file that is stored in parts; its name until it is complete
 *		statement.c		the statements that store a file
 *		groups.c, look.c, batch.c	which files are stored together; looking them up, storing them
 *		quick.c			files that are the same by length and time
 *		list.c			names and lengths of the stored files
 *		storage.c		what is stored of a file
 *		session.c, password.c	connections
 *		target.c, key.c	table and columns; names as text, and how they are compared
 *		query.c			statements
 *		local.c, sha256.c, walk.c, tempfile.c	files, hashes, trees, files that are being written
 *		meta.c			times, modes and link targets, and their columns
 *		filter.c, follow.c	which files of a tree; links that are followed
 *		interrupt.c		leaving early
 *		output.c, quote.c, failure.c	results and messages
 *		progress.c, lock.c	progress; the lock of everything that is printed
 *		url.c			files of web servers
 *		text.c, utf8.c, number.c	text
 *
 * The command uses plain SQL, and libpgsecurefile for files that do not fit one statement.
 *
 *-------------------------------------------------------------------------
 */
#include <fcntl.h>
#include <stdlib.h>
#include <unistd.h>

#include "interrupt.h"
#include "output.h"
#include "verbs.h"

/*
 * Put something in the place of standard input, output and error that are closed.  Else a
 * connection would get the number, and results would be sent to the server.  Reading from such
 * an input and writing to such an output fail, as with a closed one.
 */
static void
fill_standard_files(void)
{
	for (int fd = STDIN_FILENO; fd <= STDERR_FILENO; fd++)
	{
		int			flags = fd == STDIN_FILENO ? O_WRONLY : O_RDONLY;

		/* the lowest free number, which is fd */
		if (fcntl(fd, F_GETFD) < 0 && open("/dev/null", flags) != fd)
			_exit(EXIT_SETUP);
	}
}

int
main(int argc, char **argv)
{
	Options		options;
	const Verb *verb;

	fill_standard_files();
	atexit(output_check);
	verb = options_parse(argc, argv, &options);
	interrupt_begin();
	output_begin(&options, verb);
	return verb->run(&options);
}
