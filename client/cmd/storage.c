/*-------------------------------------------------------------------------
 *
 * storage.c
 *	  What is stored of a file, as text and as JSON.
 *
 * A file that is nothing but a gap takes no bytes, so that it has no ratio.
 *
 *-------------------------------------------------------------------------
 */
#include <stdio.h>
#include <stdlib.h>

#include "output.h"
#include "storage.h"
#include "sum.h"

int64_t
storage_field(const PGresult *result, int column)
{
	if (PQgetisnull(result, 0, column))
		return STORED_NOWHERE;
	return strtoll(PQgetvalue(result, 0, column), NULL, 10);
}

const char *
storage_bytes(int64_t stored, bool human, char *buffer, size_t size)
{
	if (stored == STORED_NOWHERE)
		snprintf(buffer, size, "-");
	else if (human)
		progress_size(stored, buffer, size);
	else
		snprintf(buffer, size, "%lld", (long long) stored);
	return buffer;
}

const char *
storage_ratio(int64_t length, int64_t stored, char *buffer, size_t size)
{
	if (stored <= 0)
		snprintf(buffer, size, "-");
	else
		snprintf(buffer, size, "%.2f", (double) length / (double) stored);
	return buffer;
}

/* The ratio has three digits behind the point, as many as are of use. */
void
storage_json(json_t *record, int64_t length, int64_t stored)
{
	double		ratio = stored > 0 ? (double) length / (double) stored : 0;
	double		rounded = ratio < 1e15 ? (double) (int64_t) (ratio * 1000 + 0.5) / 1000 : ratio;

	json_object_set_new(record, "stored", stored == STORED_NOWHERE ? json_null() :
						json_integer(stored));
	json_object_set_new(record, "ratio", stored <= 0 ? json_null() :
						json_real(rounded));
}

void
totals_add(Totals *totals, int64_t length, int64_t stored)
{
	totals->files++;
	totals->bytes = sum_of(totals->bytes, length);
	totals->stored = sum_of(totals->stored, stored < 0 ? 0 : stored);
}

void
totals_json(const Totals *totals, const char *verb, bool stored)
{
	json_t	   *record = json_pack("{s:s, s:I, s:I}", "summary", verb, "files",
								   (json_int_t) totals->files, "bytes", (json_int_t) totals->bytes);

	if (stored)
		storage_json(record, totals->bytes, totals->stored);
	output_record(record);
}
