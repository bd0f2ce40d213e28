/*-------------------------------------------------------------------------
 *
 * password.c
 *	  Asking for a password on the terminal.
 *
 *-------------------------------------------------------------------------
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <termios.h>
#include <unistd.h>

#include "interrupt.h"
#include "password.h"

/* The terminal shows nothing of the password; an interrupt puts its settings back. */
char *
password_ask(void)
{
	struct termios before,
				silent;
	FILE	   *terminal = fopen("/dev/tty", "w+");
	FILE	   *in = terminal != NULL ? terminal : stdin;
	bool		hide = tcgetattr(fileno(in), &before) == 0;
	char	   *line = NULL;
	size_t		size = 0;

	fputs("Password: ", terminal != NULL ? terminal : stderr);
	fflush(terminal != NULL ? terminal : stderr);
	if (hide)
	{
		interrupt_keep_terminal(&before);
		silent = before;
		silent.c_lflag &= ~ECHO;
		tcsetattr(fileno(in), TCSAFLUSH, &silent);
	}
	if (getline(&line, &size, in) < 0)
	{
		free(line);
		line = strdup("");
	}
	if (hide)
	{
		tcsetattr(fileno(in), TCSAFLUSH, &before);
		interrupt_keep_terminal(NULL);
		fputs("\n", terminal != NULL ? terminal : stderr);
	}
	if (terminal != NULL)
		fclose(terminal);
	if (line == NULL)
		abort();
	line[strcspn(line, "\r\n")] = '\0';
	return line;
}
