/*-------------------------------------------------------------------------
 *
 * url.h
 *	  Files of web servers, by http and https.
 *
 *-------------------------------------------------------------------------
 */
#ifndef SECUREFILE_URL_H
#define SECUREFILE_URL_H

#include <stdint.h>

#include "failure.h"

/* What a download may take. */
typedef struct UrlLimits
{
	int64_t		max_bytes;		/* 0: any number */
	int			timeout_seconds;	/* so long may nothing arrive */
	int			retries;
} UrlLimits;

/* Does a text begin with a scheme, such as http://? */
extern bool url_is_one(const char *text);

/* Can it be fetched at all?  Asks no server; false with the reason. */
extern bool url_check(const char *url, Failure *failure);

/* To be called once, before there are threads and when they have ended. */
extern void url_begin(void);
extern void url_end(void);

/*
 * Fetch the file of a URL into a temporary file without a name.  Returns its descriptor, at its
 * beginning, and the length; -1 with the reason, and with errno, if no other file could be
 * fetched either (no space, no memory), else errno 0.  Waits before it tries again.
 */
extern int	url_fetch(const char *url, const UrlLimits *limits, int64_t *length, Failure *failure);

#endif							/* SECUREFILE_URL_H */
