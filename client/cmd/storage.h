/*-------------------------------------------------------------------------
 *
 * storage.h
 *	  What is stored of a file: how many bytes, and how well that is compressed.
 *
 *-------------------------------------------------------------------------
 */
#ifndef SECUREFILE_STORAGE_H
#define SECUREFILE_STORAGE_H

#include <stdbool.h>
#include <stdint.h>

#include <jansson.h>
#include <libpq-fe.h>

/* Stored bytes of a file that is stored nowhere: a view has made it. */
#define STORED_NOWHERE		(-1)

/* Stored bytes from a field of a result. */
extern int64_t storage_field(const PGresult *result, int column);

/*
 * Stored bytes, and the ratio of the length to them, as text; "-" if there are none.  human: with a
 * unit.  Both return buffer.
 */
extern const char *storage_bytes(int64_t stored, bool human, char *buffer, size_t size);
extern const char *storage_ratio(int64_t length, int64_t stored, char *buffer, size_t size);

/* Add both to an object; null if there are none. */
extern void storage_json(json_t *record, int64_t length, int64_t stored);

/* Of several files. */
typedef struct Totals
{
	int64_t		files;
	int64_t		bytes;
	int64_t		stored;
} Totals;

extern void totals_add(Totals *totals, int64_t length, int64_t stored);

/* Print them as an object; stored: with the stored bytes, and the ratio. */
extern void totals_json(const Totals *totals, const char *verb, bool stored);

#endif							/* SECUREFILE_STORAGE_H */
