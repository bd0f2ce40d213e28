/*-------------------------------------------------------------------------
 *
 * progress.c
 *	  Progress on standard error: a line that is overwritten on a terminal, else a
 *	  line every few seconds.
 *
 *-------------------------------------------------------------------------
 */
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <time.h>
#include <unistd.h>

#include "output.h"
#include "sum.h"

#define TERMINAL_SECONDS	0.2
#define PLAIN_SECONDS		5.0

/* A file takes the time of so many bytes, besides its own: looking for its name, a commit. */
#define BYTES_OF_FILE	100000

#define BAR_WIDTH			20
#define NARROWEST			40
#define WIDEST				200

/* The state, under output_lock(). */
static struct
{
	bool		shown;			/* between progress_begin and progress_end */
	bool		terminal;
	bool		on_line;		/* the cursor is behind the progress line */
	int64_t		files,
				files_done;		/* files 0: one file, whose number is not
								 * shown */
	int64_t		bytes,
				bytes_done;		/* bytes -1: the total is not known */
	const char *what;			/* is done; null: files, or bytes */
	double		start,
				last;
}			at;

static double
now(void)
{
	struct timespec time;

	clock_gettime(CLOCK_MONOTONIC, &time);
	return (double) time.tv_sec + (double) time.tv_nsec / 1e9;
}

void
progress_begin(int64_t files, int64_t bytes)
{
	output_lock();
	memset(&at, 0, sizeof(at));
	at.shown = true;
	at.terminal = isatty(STDERR_FILENO);
	at.files = files;
	at.bytes = bytes;
	at.start = at.last = now();
	output_unlock();
}

const char *
progress_size(int64_t bytes, char *buffer, size_t size)
{
	static const char *const units[] = {"bytes", "kB", "MB", "GB", "TB", "PB", "EB"};
	double		value = (double) bytes;
	int			unit = 0;

	while (value >= 999.95)
	{
		value /= 1000;
		unit++;
	}
	snprintf(buffer, size, unit == 0 ? "%.0f %s" : "%.1f %s", value, units[unit]);
	return buffer;
}

/* A bar of # and dots, and the number. */
static void
describe_bar(char *text, size_t size, int percent)
{
	char		bar[BAR_WIDTH + 1];

	for (int i = 0; i < BAR_WIDTH; i++)
		bar[i] = percent * BAR_WIDTH / 100 > i ? '#' : '.';
	bar[BAR_WIDTH] = '\0';
	snprintf(text, size, "[%s] %3d %%  ", bar, percent);
}

/* The work of files and bytes. */
static double
work_of(int64_t files, int64_t bytes)
{
	return (double) files * BYTES_OF_FILE + (double) bytes;
}

/* The time that is left, if what is to come is as fast as what is done. */
static void
describe_left(char *text, size_t size, double seconds)
{
	double		done = work_of(at.files_done, at.bytes_done);
	double		left = work_of(at.files, at.bytes) - done;
	double		eta = done > 0 && left > 0 ? seconds * left / done : 0;

	/* longer than 100 hours is no estimate, and too wide */
	if (done > 0 && eta < 360000)
		snprintf(text, size, ", %d:%02d left", (int) eta / 60, (int) eta % 60);
}

int64_t
progress_left(void)
{
	return at.shown ? at.files - at.files_done : 0;
}

/* The line of work that is no bytes: how much of it, and the time that is left. */
static void
describe_share(char *text, size_t size)
{
	char		bar[BAR_WIDTH + 16] = "",
				left[64] = "";

	if (at.bytes > 0)
	{
		describe_bar(bar, sizeof(bar), (int) ((double) at.bytes_done * 100 / (double) at.bytes));
		describe_left(left, sizeof(left), now() - at.start);
	}
	snprintf(text, size, "%s%s%s", bar, at.what, left);
}

/* The line: done and total, rate, the time that is left. */
static void
describe(char *text, size_t size)
{
	double		seconds = now() - at.start;
	double		rate = seconds > 0 ? (double) at.bytes_done / seconds : 0;
	char		done[32],
				all[32],
				speed[32],
				files[64] = "",
				bar[BAR_WIDTH + 16] = "",
				left[64] = "";
	bool		known = at.bytes > 0 && at.bytes_done <= at.bytes;

	if (at.files > 0)
		snprintf(files, sizeof(files), "%lld of %lld files, ",
				 (long long) at.files_done, (long long) at.files);
	if (known)
		describe_bar(bar, sizeof(bar), (int) ((double) at.bytes_done * 100 / (double) at.bytes));
	if (known)
		describe_left(left, sizeof(left), seconds);
	snprintf(text, size, "%s%s%s%s%s, %s/s%s", bar, files,
			 progress_size(at.bytes_done, done, sizeof(done)), known ? " of " : "",
			 known ? progress_size(at.bytes, all, sizeof(all)) : "",
			 progress_size((int64_t) rate, speed, sizeof(speed)), left);
}

static int
terminal_width(void)
{
	struct winsize size;

	if (ioctl(STDERR_FILENO, TIOCGWINSZ, &size) != 0 || size.ws_col == 0)
		return 80;
	return size.ws_col < NARROWEST ? NARROWEST : size.ws_col > WIDEST ? WIDEST : size.ws_col;
}

/* Print the line now. */
static void
show(void)
{
	char		text[256];

	if (at.what != NULL)
		describe_share(text, sizeof(text));
	else
		describe(text, sizeof(text));
	if (at.terminal)
	{
		/*
		 * leave the last column free: some terminals go to the next line
		 * behind it
		 */
		fprintf(stderr, "\r%.*s\033[K", terminal_width() - 1, text);
		at.on_line = true;
	}
	else
		fprintf(stderr, "securefile: %s\n", text);
	fflush(stderr);
}

/* Print the line if the last one is old enough; the caller has the lock. */
static void
show_if_due(void)
{
	double		time;

	if (!at.shown)
		return;
	time = now();
	if (time - at.last < (at.terminal ? TERMINAL_SECONDS : PLAIN_SECONDS))
		return;
	at.last = time;
	show();
}

void
progress_share(const char *what, int64_t done, int64_t total)
{
	output_lock();
	/* other work: the time that it takes is another one */
	if (at.what != what || at.bytes != total)
		at.start = now();
	at.what = what;
	at.bytes = total;
	at.bytes_done = done < total ? done : total;
	show_if_due();
	output_unlock();
}

void
progress_bytes(int64_t bytes)
{
	output_lock();
	at.bytes_done = sum_of(at.bytes_done, bytes);
	show_if_due();
	output_unlock();
}

void
progress_files(int64_t files)
{
	output_lock();
	at.files_done += files;
	show_if_due();
	output_unlock();
}

void
progress_file(void)
{
	progress_files(1);
}

void
progress_hide(void)
{
	if (at.on_line)
		fputs("\r\033[K", stderr);
	at.on_line = false;
	fflush(stderr);
}

void
progress_end(void)
{
	output_lock();
	progress_hide();
	at.shown = false;
	output_unlock();
}
