/*-------------------------------------------------------------------------
 *
 * quick.h
 *	  --quick: files that have the same length and time of modification on both sides.
 *
 *-------------------------------------------------------------------------
 */
#ifndef SECUREFILE_QUICK_H
#define SECUREFILE_QUICK_H

#include "local.h"
#include "session.h"

/*
 * Take the files that are the same out of a list, and tell the user of them; a mode that differs
 * is brought up to date.  Returns the others, in a list that shares their paths.
 *	- quick_import: files of a tree, compared with the stored ones
 *	- quick_export: stored files, compared with those below the directory top; -1: there is none
 */
extern FoundList *quick_import(Session *session, const Options *options, const FoundList *list);
extern FoundList *quick_export(const Options *options, int top, const FoundList *list);

#endif							/* SECUREFILE_QUICK_H */
