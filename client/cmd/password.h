/*-------------------------------------------------------------------------
 *
 * password.h
 *	  Asking for a password on the terminal.
 *
 *-------------------------------------------------------------------------
 */
#ifndef SECUREFILE_PASSWORD_H
#define SECUREFILE_PASSWORD_H

#include <stdbool.h>

/*
 * Ask on the terminal, or read a line of standard input if there is no terminal.  The
 * caller owns the text, which has no newline.
 */
extern char *password_ask(void);

#endif							/* SECUREFILE_PASSWORD_H */
