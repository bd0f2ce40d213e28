/*-------------------------------------------------------------------------
 *
 * dumpearlier.h
 *	  The objects of an earlier dump, found by the keys of their rows.
 *
 *-------------------------------------------------------------------------
 */
#ifndef SECUREFILE_DUMPEARLIER_H
#define SECUREFILE_DUMPEARLIER_H

#include "dumpcolumn.h"
#include "dumpdir.h"

/* A long file of an earlier dump. */
typedef struct EarlierFile
{
	uint64_t	row;			/* hash of the key */
	int64_t		length;
	char		sha256[SHA256_HEX_SIZE];
} EarlierFile;

/* The long files of the newest dump of a column; read when the first is looked for. */
typedef struct Earlier
{
	bool		read;
	EarlierFile *files;			/* sorted by row */
	size_t		count;
	size_t		space;
} Earlier;

/*
 * The file that a row of the column had in the newest dump of it; values are those of the row, as
 * JSON.  Only files of at least that length are kept in mind.  Null: there is none.
 */
extern const EarlierFile *earlier_find(Earlier *earlier, DumpDir *dir, const DumpColumn *column,
									   const char *values, int64_t least);

#endif							/* SECUREFILE_DUMPEARLIER_H */
