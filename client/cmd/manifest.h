/*-------------------------------------------------------------------------
 *
 * manifest.h
 *	  The list of a dump: JSON Lines, written once and in constant memory.
 *
 *		first line	{"securefile_dump":1,"started":..,"encoding":..,"columns":[..]}
 *		a row		{"c":0,"sha256":"..","length":123,"row":["key","other",null]}
 *		last line	{"rows":..,"files":..,"bytes":..,"failed":..,"sha256":".."}
 *
 * An element of "columns" is a securefile column of a table: where it is, the columns of its
 * rows with their types, and which of them are the key.  "c" is its number.  sha256 is null for a
 * row whose file is null, and for one whose file could not be read, which has "failed":true.  A
 * text that is no UTF-8 is {"hex":".."}.  The SHA-256 of the last line is that of all bytes
 * before it.
 *
 *-------------------------------------------------------------------------
 */
#ifndef SECUREFILE_MANIFEST_H
#define SECUREFILE_MANIFEST_H

#include <jansson.h>

#include "dumpdir.h"

#define MANIFEST_VERSION	1

/* What there is of a row; sha256 NULL: no file. */
typedef struct ManifestFile
{
	int			column;
	const char *sha256;
	int64_t		length;
	bool		failed;
} ManifestFile;

typedef struct ManifestTotals
{
	int64_t		rows;
	int64_t		files;			/* those that are not null, and did not fail */
	int64_t		bytes;
	int64_t		failed;
} ManifestTotals;

/* ---- manifestwriter.c ---- */

typedef struct ManifestWriter ManifestWriter;

/* Begin a manifest with that first line; NULL after a failure. */
extern ManifestWriter *manifest_begin(DumpDir *dir, const json_t *header, Failure *failure);

/* Add a row, whose values are the text of a JSON array.  May be called by several threads. */
extern bool manifest_add(ManifestWriter *writer, const ManifestFile *file, const char *row,
						 Failure *failure);

/*
 * End it: look that all its objects are there, and give it the name.  Frees the writer, as does
 * giving up.
 */
extern bool manifest_end(ManifestWriter *writer, const char *name, ManifestTotals *totals,
						 Failure *failure);
extern void manifest_give_up(ManifestWriter *writer);

/* A text that grows. */
typedef struct Text
{
	char	   *bytes;			/* with a zero byte behind them */
	size_t		length;
	size_t		space;
} Text;

extern void text_add(Text *text, const char *bytes, size_t length);

/* Add a value as JSON; NULL is null. */
extern void text_add_json(Text *text, const char *value, size_t length);

/* ---- manifestreader.c ---- */

/* A manifest that is complete and unchanged. */
typedef struct ManifestReader
{
	FILE	   *file;
	json_t	   *header;
	json_t	   *columns;		/* of it */
	ManifestTotals totals;
	int64_t		row;			/* number of the last row that was read */
} ManifestReader;

/* Open it: compares the SHA-256 of the last line, and reads the first one. */
extern bool manifest_open(ManifestReader *reader, const DumpDir *dir, const char *name,
						  Failure *failure);
extern void manifest_close(ManifestReader *reader);

/* Let the next row be the first one again. */
extern void manifest_rewind(ManifestReader *reader);

/* Has it only the files that pg_dump, beside it, has left out? */
extern bool manifest_is_oversize(const ManifestReader *reader);

/* A row of it; all belongs to the next call. */
typedef struct ManifestRow
{
	ManifestFile file;
	json_t	   *line;
	json_t	   *values;			/* of it: an array */
	size_t		bytes;			/* of the line */
} ManifestRow;

/* Read a row, and free the one before.  1: there is one; 0: the end; -1: failure. */
extern int	manifest_next(ManifestReader *reader, ManifestRow *row, Failure *failure);

/* "public.docs.document": what a column of the header is called; the caller frees it. */
extern char *manifest_column_name(const json_t *column);

/*
 * Check that a column of the header has what a reader needs: texts in "schema", "table",
 * "column", names and types in "row", numbers of these in "key".
 */
extern bool manifest_column_valid(const json_t *column);

#endif							/* SECUREFILE_MANIFEST_H */
