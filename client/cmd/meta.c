/*-------------------------------------------------------------------------
 *
 * meta.c
 *	  Times of modification, modes and link targets of files, and the columns for them.
 *
 * Times are compared in microseconds, which is what PostgreSQL keeps of them.
 *
 *-------------------------------------------------------------------------
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "meta.h"
#include "text.h"

#define MODE_BITS		07777
#define PERMISSION_BITS	0777
#define MICROSECONDS	INT64_C(1000000)

const Meta	meta_unknown = {NO_MTIME, NO_MODE, NULL};

Meta
meta_of(const struct stat *st)
{
	return (Meta)
	{
		st->st_mtim.tv_sec * MICROSECONDS + st->st_mtim.tv_nsec / 1000,
			(int) (st->st_mode & MODE_BITS), NULL
	};
}

/* ---- the columns ---- */

/* The names and types of the columns, whether there is one of that name, and of that type. */
static const char find_columns[] =
	"SELECT w.name, w.type, a.attname IS NOT NULL,"
	" COALESCE(a.atttypid OPERATOR(pg_catalog.=) w.type::pg_catalog.regtype::pg_catalog.oid, false)"
	" FROM (VALUES (1, 'mtime'::pg_catalog.text, 'timestamptz'::pg_catalog.text),"
	"  (2, 'mode', 'integer'), (3, 'link_target', 'text')) w (number, name, type)"
	" LEFT JOIN pg_catalog.pg_attribute a"
	"  ON a.attrelid OPERATOR(pg_catalog.=) $1::pg_catalog.regclass"
	"  AND a.attname::pg_catalog.text OPERATOR(pg_catalog.=) w.name"
	"  AND a.attnum OPERATOR(pg_catalog.>) 0 AND NOT a.attisdropped"
	" ORDER BY w.number";

/* Add the definition of a column to what is missing. */
static char *
add_missing(char *missing, const PGresult *result, int row)
{
	char	   *more = text_make("%s%s ADD COLUMN %s %s", missing == NULL ? "" : missing,
								 missing == NULL ? "" : ",", PQgetvalue(result, row, 0),
								 PQgetvalue(result, row, 1));

	free(missing);
	return more;
}

bool
meta_find(Session *session, const Options *options, Target *target, Failure *failure)
{
	const char *const values[] = {target->table};
	PGresult   *result = session_rows(session, failure, 4, find_columns, 1, values);
	char	   *missing = NULL;
	bool		good = result != NULL;

	target->has_meta = good && PQntuples(result) == META_COLUMNS;
	for (int i = 0; i < PQntuples(result); i++)
	{
		bool		there = PQgetvalue(result, i, 2)[0] == 't';

		if (PQgetvalue(result, i, 3)[0] == 't')
			continue;
		target->has_meta = false;
		if (!there)
			missing = add_missing(missing, result, i);
		else if (options->meta)
			good = failure_say(failure, "column %s of %s is not of type %s, which --meta wants",
							   PQgetvalue(result, i, 0), target->table, PQgetvalue(result, i, 1));
	}
	if (good && options->meta && missing != NULL)
		good = failure_say(failure, "%s does not have the columns in which %s keeps times and modes"
						   "\nHint: ALTER TABLE %s%s; a new table gets them by \"securefile init -t TABLE --meta\".",
						   target->table, options->quick ? "--quick" : "--meta", target->table,
						   missing);
	free(missing);
	PQclear(result);
	return good;
}

const char *
meta_expressions(const Target *target)
{
	return target->has_meta ?
		"CASE WHEN pg_catalog.isfinite(mtime) THEN (EXTRACT(epoch FROM mtime)"
		" OPERATOR(pg_catalog.*) 1000000::pg_catalog.numeric)::pg_catalog.int8 END,"
		" mode, link_target" : "NULL, NULL, NULL";
}

Meta
meta_take(const PGresult *result, int row, int column)
{
	Meta		meta = meta_unknown;

	if (!PQgetisnull(result, row, column))
		meta.mtime = strtoll(PQgetvalue(result, row, column), NULL, 10);
	if (!PQgetisnull(result, row, column + 1))
		meta.mode = (int) (strtol(PQgetvalue(result, row, column + 1), NULL, 10) & MODE_BITS);
	if (!PQgetisnull(result, row, column + 2))
		meta.link = PQgetvalue(result, row, column + 2);
	return meta;
}

bool
meta_look(Session *session, const char *name, Meta *meta, Failure *failure)
{
	const Target *target = session->target;
	const char *const values[] = {name};
	char	   *sql = text_make("SELECT %s FROM %s WHERE %s LIMIT 1", meta_expressions(target),
								target->table, target->key_is_name);
	PGresult   *result = session_rows(session, failure, META_COLUMNS, sql, 1, values);

	free(sql);
	*meta = meta_unknown;
	if (PQntuples(result) == 1)
		*meta = meta_take(result, 0, 0);
	if (meta->link != NULL)
		meta->link = text_make("%s", meta->link);
	PQclear(result);
	return result != NULL;
}

bool
meta_same(const Meta *a, const Meta *b)
{
	if ((a->link == NULL) != (b->link == NULL))
		return false;
	if (a->link != NULL && strcmp(a->link, b->link) != 0)
		return false;
	return a->mtime == b->mtime && a->mode == b->mode;
}

/* ---- storing ---- */

const char *
meta_time(int64_t mtime, char *buffer, size_t size)
{
	int64_t		micro = mtime % MICROSECONDS;
	time_t		seconds;
	struct tm	tm;

	if (micro < 0)
		micro += MICROSECONDS;
	seconds = (mtime - micro) / MICROSECONDS;
	if (gmtime_r(&seconds, &tm) == NULL)
		return NULL;
	/* the year before 1 is 1 BC */
	snprintf(buffer, size, "%04d-%02d-%02d %02d:%02d:%02d.%06d+00%s",
			 tm.tm_year + 1900 > 0 ? tm.tm_year + 1900 : -(tm.tm_year + 1899),
			 tm.tm_mon + 1, tm.tm_mday, tm.tm_hour, tm.tm_min, tm.tm_sec, (int) micro,
			 tm.tm_year + 1900 > 0 ? "" : " BC");
	return buffer;
}

const Options *
meta_add(const Options *options, const Meta *meta, MetaSets *sets)
{
	Assignment *all;

	if (!options->meta)
		return options;
	all = calloc(options->nsets + META_COLUMNS, sizeof(Assignment));
	if (all == NULL)
		abort();
	if (options->nsets > 0)
		memcpy(all, options->sets, options->nsets * sizeof(Assignment));
	snprintf(sets->mode, sizeof(sets->mode), "%d", meta->mode);
	all[options->nsets] = (Assignment)
	{
		"mtime", meta->mtime == NO_MTIME ? NULL :
			meta_time(meta->mtime, sets->mtime, sizeof(sets->mtime))
	};
	all[options->nsets + 1] = (Assignment)
	{
		"mode", meta->mode == NO_MODE ? NULL : sets->mode
	};
	all[options->nsets + 2] = (Assignment)
	{
		"link_target", meta->link
	};
	sets->options = *options;
	sets->options.sets = all;
	sets->options.nsets += META_COLUMNS;
	return &sets->options;
}

void
meta_free(const Options *options, MetaSets *sets)
{
	if (options == &sets->options)
		free(sets->options.sets);
}

bool
meta_update(Session *session, const char *name, const Meta *meta, Failure *failure)
{
	const Target *target = session->target;
	Options		none = {.meta = true};
	MetaSets	sets;
	const Options *with = meta_add(&none, meta, &sets);
	const char *const values[] = {name, with->sets[0].value, with->sets[1].value,
		with->sets[2].value};
	char	   *sql = text_make("UPDATE %s SET mtime = $2, mode = $3, link_target = $4 WHERE %s",
								target->table, target->key_is_name);
	PGresult   *result = session_query(session, failure, sql, 4, values);

	free(sql);
	PQclear(result);
	meta_free(with, &sets);
	return result != NULL;
}

/* ---- files here ---- */

/* The mode that a file gets; -1: it keeps its own. */
static int
mode_here(const Options *options, const Meta *meta)
{
	if (meta->mode == NO_MODE)
		return -1;
	return meta->mode & (options->setuid ? MODE_BITS : PERMISSION_BITS);
}

bool
meta_apply(const Options *options, int fd, const Meta *meta, Failure *failure)
{
	int64_t		micro = meta->mtime % MICROSECONDS;
	struct timespec times[2] = {{0, UTIME_OMIT}, {0, UTIME_OMIT}};

	if (mode_here(options, meta) >= 0 && fchmod(fd, mode_here(options, meta)) != 0)
		return failure_errno(failure, "could not set the mode of the file");
	if (meta->mtime == NO_MTIME)
		return true;
	if (micro < 0)
		micro += MICROSECONDS;
	times[1] = (struct timespec)
	{
		(meta->mtime - micro) / MICROSECONDS, micro * 1000
	};
	return futimens(fd, times) == 0 ||
		failure_errno(failure, "could not set the time of the file");
}

bool
meta_differs(const Options *options, const struct stat *st, const Meta *meta)
{
	int			mode = mode_here(options, meta);
	Meta		here = meta_of(st);

	return (mode >= 0 && mode != here.mode) ||
		(meta->mtime != NO_MTIME && meta->mtime != here.mtime);
}
