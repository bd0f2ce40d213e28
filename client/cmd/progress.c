/*-------------------------------------------------------------------------
 *
 * progress.c
 *	  How far it is: a line that is written over on a terminal, else a line now and
 *	  then.
 *
 *-------------------------------------------------------------------------
 */
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <time.h>
#include <unistd.h>

#include "output.h"

#define TERMINAL_SECONDS	0.2
#define PLAIN_SECONDS		5.0
#define BAR_WIDTH			20
#define NARROWEST			40
#define WIDEST				200

/* All of it under output_lock(). */
static struct
{
	bool		shown;			/* wanted at all */
	bool		terminal;
	bool		on_line;		/* the cursor is behind the progress line */
	int64_t		files,
				files_done;		/* files: 0 if it is about one file */
	int64_t		bytes,
				bytes_done;		/* bytes: -1 if unknown */
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

/* Begin to show progress; files 0: of one file, bytes -1: nobody knows how many. */
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

/* "12.3 MB", powers of ten as disks are sold. */
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

static void
describe_bar(char *text, size_t size, int percent)
{
	char		bar[BAR_WIDTH + 1];

	for (int i = 0; i < BAR_WIDTH; i++)
		bar[i] = percent * BAR_WIDTH / 100 > i ? '#' : '.';
	bar[BAR_WIDTH] = '\0';
	snprintf(text, size, "[%s] %3d %%  ", bar, percent);
}

/* The line: how much of how much, rate, what is left. */
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
		snprintf(files, sizeof(files), "%lld of %lld files, ", (long long) at.files_done, (long long) at.files);
	if (known)
		describe_bar(bar, sizeof(bar), (int) ((double) at.bytes_done * 100 / (double) at.bytes));
	if (known && rate > 0)
	{
		double		eta = (double) (at.bytes - at.bytes_done) / rate;

		if (eta < 360000)
			snprintf(left, sizeof(left), ", %d:%02d left", (int) eta / 60, (int) eta % 60);
	}
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

static void
show(void)
{
	char		text[256];

	describe(text, sizeof(text));
	if (at.terminal)
	{
		/* not in the last column: some terminals go to the next line then */
		fprintf(stderr, "\r%.*s\033[K", terminal_width() - 1, text);
		at.on_line = true;
	}
	else
		fprintf(stderr, "securefile: %s\n", text);
	fflush(stderr);
}

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
progress_bytes(int64_t bytes)
{
	output_lock();
	at.bytes_done += bytes;
	show_if_due();
	output_unlock();
}

/* One more file is done, in whatever way. */
void
progress_file(void)
{
	output_lock();
	at.files_done++;
	show_if_due();
	output_unlock();
}

/* Free the line for a message; the caller has the lock. */
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
