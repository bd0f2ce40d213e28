/*-------------------------------------------------------------------------
 *
 * output.c
 *	  Results, messages, the summary.
 *
 * Under one lock, so that lines of several threads and the progress line do not
 * mix, and so that an interrupt can wait for the end of a line (interrupt.c).
 *
 *-------------------------------------------------------------------------
 */
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "interrupt.h"
#include "output.h"
#include "utf8.h"

#define REAL_DIGITS		15		/* a decimal number comes out as it went in */

static const char *const action_names[] = {
	[ACTION_PUT] = "put",
	[ACTION_REPLACED] = "replaced",
	[ACTION_GOT] = "got",
	[ACTION_SAME] = "same",
	[ACTION_SOUND] = "sound",
	[ACTION_REMOVED] = "removed",
	[ACTION_FAILED] = "failed",
};

_Static_assert(sizeof(action_names) / sizeof(action_names[0]) == NUM_ACTIONS,
			   "every action has a name");

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

static struct
{
	const Options *options;
	const Verb *verb;
	struct timespec start;
	int64_t		counts[NUM_ACTIONS];
	int64_t		bytes;			/* of files put, replaced, got or verified */
}			told;

void
output_begin(const Options *options, const Verb *verb)
{
	told.options = options;
	told.verb = verb;
	clock_gettime(CLOCK_MONOTONIC, &told.start);
}

void
output_lock(void)
{
	pthread_mutex_lock(&lock);
}

void
output_unlock(void)
{
	pthread_mutex_unlock(&lock);
}

/*
 * Standard output failed, and so nothing more makes sense.  Who closed a pipe wants
 * to hear nothing.
 */
void
output_broken(void)
{
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

/*
 * At exit, for what has its output written elsewhere: --help and --version, which
 * say nothing of a full disk.
 */
void
output_check(void)
{
	if (ferror(stdout) == 0)
		check_stdout();
	else
		output_broken();
}

/*
 * The text with what would upset a terminal written in octal.  A name is one line
 * besides, and can be read back; a message may have several.
 */
static char *
quote(const char *text, bool is_name)
{
	static const char special[] = "\\\n\t";
	const unsigned char *in = (const unsigned char *) text;
	char	   *quoted = malloc(strlen(text) * 4 + 1);
	char	   *out = quoted;

	if (quoted == NULL)
		abort();
	while (*in)
	{
		int			length = utf8_length(in);
		int			bytes = length > 0 ? length : 1;
		const char *found = strchr(special, *in);

		if (found != NULL && is_name)
			out += sprintf(out, "\\%c", "\\nt"[found - special]);
		else if (found == NULL && (length == 0 || utf8_control(in)))
			for (int i = 0; i < bytes; i++)
				out += sprintf(out, "\\%03o", in[i]);
		else
			out = mempcpy(out, in, bytes);
		in += bytes;
	}
	*out = '\0';
	return quoted;
}

/* A name, quoted.  Belongs to the thread, until its next call. */
const char *
output_quoted(const char *name)
{
	static _Thread_local char *buffer = NULL;

	free(buffer);
	buffer = quote(name, true);
	return buffer;
}

/* A message; what the server says can hold anybody's names.  The caller has the lock. */
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
	quoted = quote(text, false);
	progress_hide();
	fprintf(stderr, "%s\n", quoted);
	free(quoted);
	free(text);
}

/* A name in JSON; bytes that are no UTF-8 become U+FFFD. */
json_t *
output_json_name(const char *name)
{
	json_t	   *json = json_string(name);
	const unsigned char *in = (const unsigned char *) name;
	char	   *text,
			   *out;

	if (json != NULL)
		return json;
	text = out = malloc(strlen(name) * 3 + 1);
	if (text == NULL)
		abort();
	while (*in)
	{
		int			length = utf8_length(in);

		memcpy(out, length > 0 ? (const char *) in : "\357\277\275", length > 0 ? length : 3);
		out += length > 0 ? length : 3;
		in += length > 0 ? length : 1;
	}
	*out = '\0';
	json = json_string(text);
	free(text);
	return json;
}

/* Print an object on a line of its own and free it. */
void
output_record(json_t *record)
{
	output_lock();
	progress_hide();
	if (json_dumpf(record, stdout, JSON_COMPACT | JSON_PRESERVE_ORDER | JSON_REAL_PRECISION(REAL_DIGITS)) != 0)
	{
		fprintf(stderr, "securefile: could not write JSON\n");
		interrupt_leave(EXIT_SOME);
	}
	putchar('\n');
	check_stdout();
	output_unlock();
	json_decref(record);
}

/* A line of text on standard output; the newline is added. */
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

/* A message that is not about one file. */
void
output_message(const Failure *failure)
{
	output_lock();
	say("securefile: %s", failure->text);
	output_unlock();
}

/* What the server says besides results: PQnoticeProcessor. */
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

/* verify found a whole column as it should be. */
void
output_sound(const char *column, const char *table)
{
	output_lock();
	say("securefile: verify: nothing wrong in column %s of %s", column, table);
	output_unlock();
}

/*
 * Say why we end here and let nobody else say anything.  Who writes to somebody
 * that does not read may hold the lock for ever.
 */
void
output_stop(const char *why)
{
	struct timespec until;

	clock_gettime(CLOCK_REALTIME, &until);
	until.tv_sec++;
	if (pthread_mutex_timedlock(&lock, &until) != 0)
		return;
	progress_hide();
	fprintf(stderr, "securefile: %s\n", why);
}

static void
count(Action action, int64_t bytes)
{
	output_lock();
	told.counts[action]++;
	if (action == ACTION_PUT || action == ACTION_REPLACED || action == ACTION_GOT ||
		told.verb->bit == VERB_VERIFY)
		told.bytes += bytes;
	output_unlock();
}

/* A file is done. */
void
output_file(const char *name, Action action, int64_t bytes)
{
	const Options *options = told.options;

	count(action, bytes);
	if (options->json)
		output_record(json_pack("{s:o, s:s, s:I}", "name", output_json_name(name),
								"action", action_names[action], "length", (json_int_t) bytes));
	else if (options->verbose || options->dry_run)
		output_line("%s %s", action_names[action], output_quoted(name));
}

/* A file could not be done. */
void
output_failed(const char *name, const Failure *failure)
{
	count(ACTION_FAILED, 0);
	output_lock();
	say("securefile: %s: %s", output_quoted(name), failure->text);
	output_unlock();
	if (told.options->json)
		output_record(json_pack("{s:o, s:s, s:o, s:s}", "name", output_json_name(name),
								"action", action_names[ACTION_FAILED],
								"message", output_json_name(failure->text),
								"sqlstate", failure->sqlstate));
}

static double
seconds_passed(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (double) (now.tv_sec - told.start.tv_sec) + (double) (now.tv_nsec - told.start.tv_nsec) / 1e9;
}

static void
summary_json(double seconds)
{
	json_t	   *record = json_pack("{s:s}", "summary", told.verb->name);

	for (int i = 0; i < NUM_ACTIONS; i++)
		json_object_set_new(record, action_names[i], json_integer(told.counts[i]));
	json_object_set_new(record, "bytes", json_integer(told.bytes));
	json_object_set_new(record, "seconds", json_real((double) (int64_t) (seconds * 1000 + 0.5) / 1000));
	if (told.options->dry_run)
		json_object_set_new(record, "dry_run", json_true());
	output_record(record);
}

static void
summary_text(double seconds)
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
	if (told.bytes > 0 && seconds > 0)
		snprintf(moved, sizeof(moved), "; %s, %s/s", progress_size(told.bytes, size, sizeof(size)),
				 progress_size((int64_t) ((double) told.bytes / seconds), rate, sizeof(rate)));
	fprintf(stderr, "securefile: %s%s: %s%s in %.1f s\n", told.verb->name,
			told.options->dry_run ? " (dry run)" : "", used > 0 ? text : "no files", moved, seconds);
}

/* The exit status: that given, or EXIT_SOME if a file failed. */
int
output_status(int status)
{
	return status == EXIT_DONE && told.counts[ACTION_FAILED] > 0 ? EXIT_SOME : status;
}

/* The summary of a verb that works on many files, and its exit status. */
int
output_end(int status)
{
	double		seconds = seconds_passed();

	progress_end();
	if (told.options->json)
		summary_json(seconds);
	else if (!told.options->quiet)
		summary_text(seconds);
	return output_status(status);
}
