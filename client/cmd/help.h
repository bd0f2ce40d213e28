/*-------------------------------------------------------------------------
 *
 * help.h
 *	  What --help says of all verbs, and what the completion of shells asks for.
 *
 *-------------------------------------------------------------------------
 */
#ifndef SECUREFILE_HELP_H
#define SECUREFILE_HELP_H

#include <argp.h>

#include "options.h"

/* The text of --help without a verb: each verb on a line, and the exit statuses. */
extern const char *help_verbs(const Verb *verbs, int count);

/* Leave options out of that text, since "securefile VERB --help" shows them.  Returns them. */
extern struct argp_option *help_hide(struct argp_option *options);

/*
 * Print words that may come next, a line each, with what they are for behind a tab.  A word that
 * ends in "=" has an argument.
 */
extern void help_complete_verbs(const Verb *verbs, int count);
extern void help_complete_options(const struct argp_option *options);

#endif							/* SECUREFILE_HELP_H */
