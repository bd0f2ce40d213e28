/*-------------------------------------------------------------------------
 *
 * main.c
 *	  The command securefile: files in and out of securefile columns.
 *
 *		options.c		the command line: table of options, table of verbs
 *		put.c ... verify.c	the verbs, one each
 *		names.c, pool.c	one name after the other; many over several connections
 *		transfer.c		one file to or from the database
 *		list.c			what is stored
 *		session.c, target.c, password.c	connections; table and columns
 *		key.c			names as text, and how they are compared
 *		local.c, walk.c, tempfile.c	files, trees, files that are being written
 *		output.c, progress.c, failure.c	what the user sees
 *		text.c, utf8.c	text
 *		interrupt.c		leaving early
 *
 * All of it is plain SQL, and libpgsecurefile for what does not fit one statement.
 *
 *-------------------------------------------------------------------------
 */
#include <stdlib.h>

#include "interrupt.h"
#include "output.h"
#include "verbs.h"

int
main(int argc, char **argv)
{
	Options		options;
	const Verb *verb;

	atexit(output_check);
	verb = options_parse(argc, argv, &options);
	interrupt_begin();
	output_begin(&options, verb);
	return verb->run(&options);
}
