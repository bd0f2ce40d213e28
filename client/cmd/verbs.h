/*-------------------------------------------------------------------------
 *
 * verbs.h
 *	  The verbs of the command, a file each.  They tell the user everything and return
 *	  the exit status (options.h).
 *
 *-------------------------------------------------------------------------
 */
#ifndef SECUREFILE_VERBS_H
#define SECUREFILE_VERBS_H

#include "options.h"

extern int	verb_put(const Options *options);
extern int	verb_get(const Options *options);
extern int	verb_cat(const Options *options);
extern int	verb_ls(const Options *options);
extern int	verb_stat(const Options *options);
extern int	verb_rm(const Options *options);
extern int	verb_mv(const Options *options);
extern int	verb_cp(const Options *options);
extern int	verb_cmp(const Options *options);
extern int	verb_import(const Options *options);
extern int	verb_export(const Options *options);
extern int	verb_sync(const Options *options);
extern int	verb_verify(const Options *options);
extern int	verb_migrate(const Options *options);
extern int	verb_dump(const Options *options);
extern int	verb_restore(const Options *options);
extern int	verb_shrink(const Options *options);
extern int	verb_removed(const Options *options);
extern int	verb_undelete(const Options *options);
extern int	verb_purge(const Options *options);
extern int	verb_init(const Options *options);
extern int	verb_key(const Options *options);

/* What is wrong with the options of dump and restore, or NULL. */
extern const char *dump_options_wrong(const Options *options, const Verb *verb);

#endif							/* SECUREFILE_VERBS_H */
