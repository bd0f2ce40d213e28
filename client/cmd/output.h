/*-------------------------------------------------------------------------
 *
 * output.h
 *	  Everything that the user sees: results on standard output, as text or as JSON
 *	  Lines, messages and progress on standard error.  All functions may be called by
 *	  several threads.
 *
 *-------------------------------------------------------------------------
 */
#ifndef SECUREFILE_OUTPUT_H
#define SECUREFILE_OUTPUT_H

#include <stdint.h>

#include <jansson.h>

#include "failure.h"
#include "options.h"

/* The outcome of a file; the names are in output.c. */
typedef enum Action
{
	ACTION_PUT,
	ACTION_REPLACED,
	ACTION_GOT,
	ACTION_SAME,
	ACTION_TOUCHED,				/* the same bytes; time or mode was another */
	ACTION_SOUND,
	ACTION_REMOVED,
	ACTION_SKIPPED,
	ACTION_MOVED,
	ACTION_COPIED,
	ACTION_FAILED,
	NUM_ACTIONS
} Action;

/* ---- output.c ---- */

/* To be called once, before the others. */
extern void output_begin(const Options *options, const Verb *verb);

/* A file is done: count it, and print its line if the user wants one. */
extern void output_file(const char *name, Action action, int64_t bytes);

/*
 * A file failed: count it and print the reason.  A reason that holds for all files is printed
 * once, and the run stops.
 */
extern void output_failed(const char *name, const Failure *failure);

/* Has a file failed for a reason that holds for all files? */
extern bool output_stopped(void);

/* Files that have failed so far. */
extern int64_t output_failures(void);

/*
 * A WalkPassed: a path of a tree that failed, or with a null failure a link or special file that
 * is skipped.
 */
extern void output_passed(const char *path, const Failure *failure);

/* Print an object on a line of its own, and free it. */
extern void output_record(json_t *record);

/* Print a line of text; the newline is added. */
extern void output_line(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* A message that is not about one file. */
extern void output_message(const Failure *failure);

/* A PQnoticeProcessor: prints what the server says besides results. */
extern void output_notice(void *arg, const char *message);

/* verify found nothing wrong in a whole column. */
extern void output_sound(const char *column, const char *table);

/*
 * For atexit(): fail if standard output failed.  The text of --help and --version is
 * printed by argp, which does not report a full disk.
 */
extern void output_check(void);

/* Standard output failed, with errno set: the rest of the run is useless.  Ends the process. */
extern void output_broken(void) __attribute__((noreturn));

/* The exit status: the given one, or EXIT_SOME if a file failed. */
extern int	output_status(int status);

/*
 * Say that the process ends by a signal, and what was done before; the caller has the lock, and no
 * thread prints anything afterwards.
 */
extern void output_interrupted(void);

/* Print the summary of a verb that works on many files; returns the exit status. */
extern int	output_end(int status);

/* ---- quote.c ---- */

/* A name for a terminal, quoted.  The text belongs to the thread until its next call. */
extern const char *output_quoted(const char *name);

/* A name as a JSON string; bytes that are not UTF-8 become U+FFFD. */
extern json_t *output_json_name(const char *name);

/* Is that a terminal whose locale is not UTF-8, which is shown nothing but ASCII? */
extern bool quote_all(int fd);

/*
 * The text with everything that could upset a terminal written in octal; all: and with everything
 * but ASCII.  A name becomes one line, and can be read back; a message may have several lines.
 * The caller frees it.
 */
extern char *quote_text(const char *text, bool is_name, bool all);

/* The same of a JSON text, which means the same afterwards. */
extern char *quote_json(const char *json, bool all);

/* ---- lock.c ---- */

/*
 * The lock of everything that is printed.  Lines of several threads do not mix, and an
 * interrupt can wait for the end of a line.
 */
extern void output_lock(void);
extern void output_unlock(void);

/* Wait for the lock for some seconds; false if another thread still has it. */
extern bool output_lock_within(int seconds);

/* ---- progress.c ---- */

/* Begin to show progress; files 0: of one file, bytes -1: the total is not known. */
extern void progress_begin(int64_t files, int64_t bytes);

/*
 * Of work that is neither files nor bytes: what it is (a constant), how much is done, and of
 * how much, 0 if that is not known.
 */
extern void progress_share(const char *what, int64_t done, int64_t total);

/* So many more bytes, so many more files, one more file is done. */
extern void progress_bytes(int64_t bytes);
extern void progress_files(int64_t files);
extern void progress_file(void);

/* The number of files that are not done; the caller has the lock. */
extern int64_t progress_left(void);

/* Remove the progress line, because a message follows; the caller has the lock. */
extern void progress_hide(void);

/* Remove the progress line and show no progress any more. */
extern void progress_end(void);

/* "12.3 MB": powers of ten, as disks are sold.  Returns buffer. */
extern const char *progress_size(int64_t bytes, char *buffer, size_t size);

#endif							/* SECUREFILE_OUTPUT_H */
