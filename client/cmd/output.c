/*-------------------------------------------------------------------------
 *
 * output.c
 *	  Results, messages, the summary.  All under the lock of lock.c.
 *
 *-------------------------------------------------------------------------
 */
#include <errno.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "interrupt.h"
#include "output.h"
#include "sum.h"

#define REAL_DIGITS		15		/* so many digits of a double are exact */

static const char *const action_names[] = {
	[ACTION_PUT] = "put",
	[ACTION_REPLACED] = "replaced",
	[ACTION_GOT] = "got",
	[ACTION_SAME] = "same",
	[ACTION_TOUCHED] = "touched",
	[ACTION_SOUND] = "sound",
	[ACTION_REMOVED] = "removed",
	[ACTION_SKIPPED] = "skipped",
	[ACTION_MOVED] = "moved",
	[ACTION_COPIED] = "copied",
	[ACTION_FAILED] = "failed",
};

_Static_assert(sizeof(action_names) / sizeof(action_names[0]) == NUM_ACTIONS,
			   "every action has a name");

static struct
{
	const Options *options;
	const Verb *verb;
	struct timespec start;
	int64_t		counts[NUM_ACTIONS];
	int64_t		bytes;			/* of files put, replaced, got or verified */
	bool		stopped;		/* by a failure that holds for all files */
}			told;

void
output_begin(const Options *options, const Verb *verb)
{
	told.options = options;
	told.verb = verb;
	clock_gettime(CLOCK_MONOTONIC, &told.start);
}

void
output_broken(void)
{
	/* a user who closed the pipe wants no message: head(1), for one */
	if (errno == EPIPE)
		interrupt_leave(128 + SIGPIPE);
	fprintf(stderr, "securefile: standard output: %s\n", strerror(errno));
	interrupt_leave(EXIT_SOME);
}

static void
check_stdout(void)
{
	if (fflush(stdout) == 0)
		return;
	output_broken();
}

void
output_check(void)
{
	if (ferror(stdout) == 0)
		check_stdout();
	else
		output_broken();
}

/* Print a message, quoted; the caller has the lock. */
static void
say(const char *format, ...)
{
	va_list		args;
	char	   *text,
			   *quoted;

	va_start(args, format);
	if (vasprintf(&text, format, args) < 0)
		abort();
	va_end(args);
	quoted = quote_text(text, false, quote_all(STDERR_FILENO));
	progress_hide();
	fprintf(stderr, "%s\n", quoted);
	free(quoted);
	free(text);
}

void
output_record(json_t *record)
{
	char	   *json = json_dumps(record, JSON_COMPACT | JSON_PRESERVE_ORDER |
								  JSON_REAL_PRECISION(REAL_DIGITS));
	char	   *quoted;

	if (json == NULL)
		abort();
	quoted = quote_json(json, quote_all(STDOUT_FILENO));
	output_lock();
	progress_hide();
	puts(quoted);
	check_stdout();
	output_unlock();
	free(quoted);
	free(json);
	json_decref(record);
}

void
output_line(const char *format, ...)
{
	va_list		args;

	output_lock();
	progress_hide();
	va_start(args, format);
	vprintf(format, args);
	va_end(args);
	putchar('\n');
	check_stdout();
	output_unlock();
}

void
output_message(const Failure *failure)
{
	output_lock();
	say("securefile: %s", failure->text);
	output_unlock();
}

void
output_notice(void *arg, const char *message)
{
	int			length = (int) strlen(message);

	(void) arg;
	if (length > 0 && message[length - 1] == '\n')
		length--;
	output_lock();
	say("securefile: %.*s", length, message);
	output_unlock();
}

void
output_sound(const char *column, const char *table)
{
	output_lock();
	say("securefile: verify: nothing wrong in column %s of %s", column, table);
	output_unlock();
}

/* Count a file, and its bytes if they were transferred or read. */
static void
count(Action action, int64_t bytes)
{
	output_lock();
	told.counts[action]++;
	if (action == ACTION_PUT || action == ACTION_REPLACED || action == ACTION_GOT ||
		told.verb->bit == VERB_VERIFY)
		told.bytes = sum_of(told.bytes, bytes);
	output_unlock();
}

/* What stays as it is has no line, unless the user wants one for each file. */
static bool
is_change(Action action)
{
	return action != ACTION_SKIPPED && (action != ACTION_SAME || told.verb->bit == VERB_VERIFY);
}

void
output_file(const char *name, Action action, int64_t bytes)
{
	const Options *options = told.options;
	bool		shown = options->verbose || is_change(action);

	count(action, bytes);
	if (!shown)
		return;
	if (options->json)
		output_record(json_pack("{s:o, s:s, s:I}", "name", output_json_name(name),
								"action", action_names[action], "length", (json_int_t) bytes));
	else if (options->verbose || options->dry_run ||
			 (told.verb->bit == VERB_SYNC && !options->quiet))
		output_line("%s %s", action_names[action], output_quoted(name));
}

void
output_failed(const char *name, const Failure *failure)
{
	if (failure->vanished)
	{
		output_file(name, ACTION_SKIPPED, 0);
		return;
	}
	count(ACTION_FAILED, 0);
	output_lock();
	if (!failure->systemic || !told.stopped)
		say("securefile: %s: %s", output_quoted(name), failure->text);
	told.stopped = told.stopped || failure->systemic;
	output_unlock();
	if (told.options->json)
		output_record(json_pack("{s:o, s:s, s:o, s:o}", "name", output_json_name(name),
								"action", action_names[ACTION_FAILED],
								"message", output_json_name(failure->text),
								"sqlstate", output_json_name(failure->sqlstate)));
}

bool
output_stopped(void)
{
	bool		stopped;

	output_lock();
	stopped = told.stopped;
	output_unlock();
	return stopped;
}

int64_t
output_failures(void)
{
	int64_t		failures;

	output_lock();
	failures = told.counts[ACTION_FAILED];
	output_unlock();
	return failures;
}

void
output_passed(const char *path, const Failure *failure)
{
	if (failure == NULL)
		output_file(path, ACTION_SKIPPED, 0);
	else
		output_failed(path, failure);
}

static double
seconds_passed(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (double) (now.tv_sec - told.start.tv_sec) +
		(double) (now.tv_nsec - told.start.tv_nsec) / 1e9;
}

/* The summary as an object; seconds to the millisecond. */
static void
summary_json(double seconds)
{
	json_t	   *record = json_pack("{s:s}", "summary", told.verb->name);
	double		rounded = (double) (int64_t) (seconds * 1000 + 0.5) / 1000;

	for (int i = 0; i < NUM_ACTIONS; i++)
		json_object_set_new(record, action_names[i], json_integer(told.counts[i]));
	json_object_set_new(record, "bytes", json_integer(told.bytes));
	json_object_set_new(record, "seconds", json_real(rounded));
	if (told.options->dry_run)
		json_object_set_new(record, "dry_run", json_true());
	output_record(record);
}

/* The summary as a line: how many files of each outcome, and are left; bytes, rate, time. */
static void
summary_text(double seconds, int64_t left)
{
	char		text[256];
	char		size[32],
				rate[32],
				moved[96] = "";
	int			used = 0;

	for (int i = 0; i < NUM_ACTIONS; i++)
		if (told.counts[i] > 0)
			used += snprintf(text + used, sizeof(text) - used, "%s%lld %s", used > 0 ? ", " : "",
							 (long long) told.counts[i], action_names[i]);
	if (left > 0)
		used += snprintf(text + used, sizeof(text) - used, "%s%lld not done", used > 0 ? ", " : "",
						 (long long) left);
	if (told.bytes > 0 && seconds > 0)
		snprintf(moved, sizeof(moved), "; %s, %s/s", progress_size(told.bytes, size, sizeof(size)),
				 progress_size((int64_t) ((double) told.bytes / seconds), rate, sizeof(rate)));
	fprintf(stderr, "securefile: %s%s: %s%s in %.1f s\n", told.verb->name,
			told.options->dry_run ? " (dry run)" : "", used > 0 ? text : "no files", moved,
			seconds);
}

int
output_status(int status)
{
	return status == EXIT_DONE && told.counts[ACTION_FAILED] > 0 ? EXIT_SOME : status;
}

void
output_interrupted(void)
{
	int64_t		left = progress_left();
	bool		many = left > 0;

	progress_hide();
	fprintf(stderr, "securefile: interrupted\n");
	for (int i = 0; i < NUM_ACTIONS; i++)
		many |= told.counts[i] > 0;
	if (many && !told.options->quiet)
		summary_text(seconds_passed(), left);
}

int
output_end(int status)
{
	double		seconds = seconds_passed();

	progress_end();
	if (told.options->json)
		summary_json(seconds);
	else if (!told.options->quiet)
		summary_text(seconds, 0);
	return output_status(status);
}
