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

extern char *password_ask(void);

#endif							/* SECUREFILE_PASSWORD_H */
