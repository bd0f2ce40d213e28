/*-------------------------------------------------------------------------
 *
 * dumppatch.h
 *	  Making an object out of an earlier one and the parts that differ.
 *
 *-------------------------------------------------------------------------
 */
#ifndef SECUREFILE_DUMPPATCH_H
#define SECUREFILE_DUMPPATCH_H

#include "dump.h"
#include "dumptags.h"

typedef struct Patch
{
	Session    *session;
	const char *sql;			/* the SELECT of the file */
	const pgsf_params *params;
	int64_t		length;			/* of it */
	TagReader	now;			/* its tags */
	int			earlier;		/* the object of an earlier dump */
	int64_t		earlier_length;
	TagReader	before;			/* and its tags */
	int			to;				/* where the new object goes; empty */
	int64_t		kept;			/* bytes that were taken from the earlier one */
} Patch;

typedef enum PatchResult
{
	PATCH_MADE,
	PATCH_UNFIT,				/* the earlier object is not usable */
	PATCH_FAILED
} PatchResult;

/*
 * Write the object, and tell its SHA-256.  *broken: it could not be written.  The failure is that
 * of PATCH_FAILED.
 */
extern PatchResult patch_make(Patch *patch, char *sha256, bool *broken, Failure *failure);

#endif							/* SECUREFILE_DUMPPATCH_H */
