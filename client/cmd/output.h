/*-------------------------------------------------------------------------
 *
 * output.h
 *	  What the user sees: results on standard output, as text or as JSON Lines,
 *	  messages and progress on standard error.  All of it may be called by several
 *	  threads.
 *
 *-------------------------------------------------------------------------
 */
#ifndef SECUREFILE_OUTPUT_H
#define SECUREFILE_OUTPUT_H

#include <stdint.h>

#include <jansson.h>

#include "failure.h"
#include "options.h"

/* What became of a file; the names are in output.c. */
typedef enum Action
{
	ACTION_PUT,
	ACTION_REPLACED,
	ACTION_GOT,
	ACTION_SAME,
	ACTION_SOUND,
	ACTION_REMOVED,
	ACTION_FAILED,
	NUM_ACTIONS
} Action;

extern void output_begin(const Options *options, const Verb *verb);
extern void output_lock(void);
extern void output_unlock(void);

/* ---- results ---- */

extern void output_file(const char *name, Action action, int64_t bytes);
extern void output_failed(const char *name, const Failure *failure);
extern void output_record(json_t *record);
extern void output_line(const char *format, ...) __attribute__((format(printf, 1, 2)));
extern json_t *output_json_name(const char *name);
extern const char *output_quoted(const char *name);
extern void output_message(const Failure *failure);
extern void output_notice(void *arg, const char *message);
extern void output_sound(const char *column, const char *table);
extern void output_check(void);
extern void output_broken(void) __attribute__((noreturn));
extern void output_stop(const char *why);
extern int	output_status(int status);
extern int	output_end(int status);

/* ---- progress.c ---- */

extern void progress_begin(int64_t files, int64_t bytes);
extern void progress_bytes(int64_t bytes);
extern void progress_file(void);
extern void progress_hide(void);
extern void progress_end(void);
extern const char *progress_size(int64_t bytes, char *buffer, size_t size);

#endif							/* SECUREFILE_OUTPUT_H */
