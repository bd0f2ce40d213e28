/*-------------------------------------------------------------------------
 *
 * url.c
 *	  Files of web servers, by libcurl.
 *
 * A file is fetched whole before any of it is stored.  So a slow server keeps no transaction
 * open, and a download that is cut begins again without the database knowing.  The bytes lie in
 * a file without a name, which is gone with the process, whatever ends it.
 *
 * A URL comes out of a table, and the person who wrote it may be another than the one who runs
 * the command.  Nothing but http and https is spoken, also where a server redirects to.
 *
 *-------------------------------------------------------------------------
 */
#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <time.h>
#include <unistd.h>

#ifdef SF_CURL
#include <curl/curl.h>
#endif

#include "local.h"
#include "text.h"
#include "url.h"

bool
url_is_one(const char *text)
{
	const char *c = text;

	while (isascii(*c) && (isalnum(*c) || strchr("+.-", *c) != NULL) && *c != '\0')
		c++;
	return c > text && isalpha(*text) && strncmp(c, "://", 3) == 0;
}

#ifdef SF_CURL

#define MAX_REDIRECTS	5
#define CONNECT_SECONDS	30
#define MAX_IDLE		64		/* as many as there can be connections */
#define FIRST_PAUSE_MS	250

/* Handles that no thread uses now; each keeps its connections to servers. */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static CURL * idle[MAX_IDLE];
static int	nidle = 0;

/* A download. */
typedef struct Fetch
{
	const UrlLimits *limits;
	int			fd;
	int64_t		length;
	int			write_errno;	/* of a write that failed */
	bool		too_long;
} Fetch;

static bool
is_web(const char *url)
{
	return strncasecmp(url, "http://", 7) == 0 || strncasecmp(url, "https://", 8) == 0;
}

bool
url_check(const char *url, Failure *failure)
{
	return is_web(url) ||
		failure_say(failure, "only URLs of http and https are fetched, not of %.*s",
					(int) strcspn(url, ":"), url);
}

void
url_begin(void)
{
	if (curl_global_init(CURL_GLOBAL_DEFAULT) != 0)
		abort();
}

void
url_end(void)
{
	while (nidle > 0)
		curl_easy_cleanup(idle[--nidle]);
	curl_global_cleanup();
}

static CURL *
take_handle(void)
{
	CURL	   *curl = NULL;

	pthread_mutex_lock(&lock);
	if (nidle > 0)
		curl = idle[--nidle];
	pthread_mutex_unlock(&lock);
	return curl != NULL ? curl : curl_easy_init();
}

static void
give_back(CURL * curl)
{
	pthread_mutex_lock(&lock);
	if (nidle < MAX_IDLE)
	{
		idle[nidle++] = curl;
		curl = NULL;
	}
	pthread_mutex_unlock(&lock);
	curl_easy_cleanup(curl);
}

/* A write callback of libcurl: another number than that of the bytes ends the download. */
static size_t
take_bytes(char *bytes, size_t size, size_t count, void *arg)
{
	Fetch	   *fetch = arg;
	int64_t		most = fetch->limits->max_bytes;

	size *= count;
	fetch->too_long = most > 0 && (int64_t) size > most - fetch->length;
	if (fetch->too_long)
		return size + 1;
	if (!local_write(fetch->fd, bytes, size))
	{
		fetch->write_errno = errno;
		return size + 1;
	}
	fetch->length += size;
	return size;
}

static void
set_options(CURL * curl, const char *url, Fetch *fetch, char *message)
{
	curl_easy_reset(curl);
	curl_easy_setopt(curl, CURLOPT_URL, url);
#if LIBCURL_VERSION_NUM >= 0x075500
	curl_easy_setopt(curl, CURLOPT_PROTOCOLS_STR, "http,https");
	curl_easy_setopt(curl, CURLOPT_REDIR_PROTOCOLS_STR, "http,https");
#else
	curl_easy_setopt(curl, CURLOPT_PROTOCOLS, (long) (CURLPROTO_HTTP | CURLPROTO_HTTPS));
	curl_easy_setopt(curl, CURLOPT_REDIR_PROTOCOLS, (long) (CURLPROTO_HTTP | CURLPROTO_HTTPS));
#endif
	curl_easy_setopt(curl, CURLOPT_FOLLOWLOCATION, 1L);
	curl_easy_setopt(curl, CURLOPT_MAXREDIRS, (long) MAX_REDIRECTS);
	curl_easy_setopt(curl, CURLOPT_NOSIGNAL, 1L);
	curl_easy_setopt(curl, CURLOPT_CONNECTTIMEOUT, (long) CONNECT_SECONDS);
	curl_easy_setopt(curl, CURLOPT_LOW_SPEED_LIMIT, 1L);
	curl_easy_setopt(curl, CURLOPT_LOW_SPEED_TIME, (long) fetch->limits->timeout_seconds);
	curl_easy_setopt(curl, CURLOPT_USERAGENT, "securefile/" PGSF_VERSION);
	curl_easy_setopt(curl, CURLOPT_WRITEFUNCTION, take_bytes);
	curl_easy_setopt(curl, CURLOPT_WRITEDATA, fetch);
	curl_easy_setopt(curl, CURLOPT_ERRORBUFFER, message);
	/* what an error answers is no file, and is not kept */
	curl_easy_setopt(curl, CURLOPT_FAILONERROR, 1L);
}

/* May another attempt end better? */
static bool
is_worth_retrying(CURLcode code, long status)
{
	switch (code)
	{
		case CURLE_HTTP_RETURNED_ERROR:
			return status >= 500 || status == 408 || status == 429;
		case CURLE_COULDNT_CONNECT:
		case CURLE_OPERATION_TIMEDOUT:
		case CURLE_PARTIAL_FILE:
		case CURLE_GOT_NOTHING:
		case CURLE_SEND_ERROR:
		case CURLE_RECV_ERROR:
		case CURLE_HTTP2:
		case CURLE_HTTP2_STREAM:
			return true;
		default:
			return false;
	}
}

/* Say why an attempt failed; errno is set where no other file could be fetched either. */
static void
say_why(const Fetch *fetch, CURLcode code, long status, const char *message, Failure *failure)
{
	errno = 0;
	if (fetch->too_long)
		failure_say(failure, "the file is longer than the %lld bytes of --max-size",
					(long long) fetch->limits->max_bytes);
	else if (fetch->write_errno != 0)
	{
		errno = fetch->write_errno;
		failure_errno(failure, "could not write a temporary file");
		errno = fetch->write_errno;
	}
	else if (code == CURLE_HTTP_RETURNED_ERROR || code == CURLE_OK)
		failure_say(failure, "the web server answered with status %ld", status);
	else if (code == CURLE_UNSUPPORTED_PROTOCOL)
		failure_say(failure, "the web server redirects to a URL that is not of http or https");
	else
		failure_say(failure, "%s", *message ? message : curl_easy_strerror(code));
}

/* One attempt, into an empty file.  *again: another one may end better. */
static bool
fetch_once(CURL * curl, const char *url, Fetch *fetch, bool *again, Failure *failure)
{
	char		message[CURL_ERROR_SIZE] = "";
	long		status = 0;
	CURLcode	code;

	fetch->length = 0;
	set_options(curl, url, fetch, message);
	code = curl_easy_perform(curl);
	curl_easy_getinfo(curl, CURLINFO_RESPONSE_CODE, &status);
	if (code == CURLE_OK && status == 200)
		return true;
	*again = is_worth_retrying(code, status);
	say_why(fetch, code, status, message, failure);
	return false;
}

static void
pause_before(int attempt)
{
	int64_t		ms = (int64_t) FIRST_PAUSE_MS << (attempt < 8 ? attempt : 8);
	struct timespec rest = {ms / 1000, ms % 1000 * 1000000};

	(void) nanosleep(&rest, NULL);
}

/* A file without a name; -1 with errno set. */
static int
open_nameless(Failure *failure)
{
	const char *directory = getenv("TMPDIR");
	char	   *path = text_make("%s/securefile-XXXXXX",
								 directory == NULL || *directory == '\0' ? "/var/tmp" : directory);
	int			fd = mkostemp(path, O_CLOEXEC);
	int			saved = errno;

	if (fd < 0)
		failure_say(failure, "could not make temporary file \"%s\": %s", path, strerror(saved));
	else
		(void) unlink(path);
	free(path);
	errno = saved;
	return fd;
}

/* Attempts until one is good, or there shall be no more. */
static bool
fetch_often(CURL * curl, const char *url, Fetch *fetch, Failure *failure)
{
	bool		again = true;

	for (int attempt = 0; again; attempt++)
	{
		int			saved;

		if (ftruncate(fetch->fd, 0) != 0 || lseek(fetch->fd, 0, SEEK_SET) != 0)
			return failure_errno(failure, "could not write a temporary file");
		if (fetch_once(curl, url, fetch, &again, failure))
			return true;
		saved = errno;
		again = again && attempt < fetch->limits->retries;
		if (again)
			pause_before(attempt);
		errno = saved;
	}
	return false;
}

int
url_fetch(const char *url, const UrlLimits *limits, int64_t *length, Failure *failure)
{
	Fetch		fetch = {.limits = limits};
	CURL	   *curl;
	bool		good;
	int			saved;

	errno = 0;
	if (!url_check(url, failure))
		return -1;
	fetch.fd = open_nameless(failure);
	if (fetch.fd < 0)
		return -1;
	curl = take_handle();
	if (curl == NULL)
		abort();
	good = fetch_often(curl, url, &fetch, failure);
	saved = errno;
	give_back(curl);
	*length = fetch.length;
	if (good && lseek(fetch.fd, 0, SEEK_SET) == 0)
		return fetch.fd;
	close(fetch.fd);
	errno = saved;
	return -1;
}

#else							/* built with NO_CURL=1 */

bool
url_check(const char *url, Failure *failure)
{
	(void) url;
	return failure_say(failure, "this command was built without libcurl, and fetches no URLs");
}

void
url_begin(void)
{
}

void
url_end(void)
{
}

int
url_fetch(const char *url, const UrlLimits *limits, int64_t *length, Failure *failure)
{
	(void) limits;
	(void) length;
	errno = 0;
	(void) url_check(url, failure);
	return -1;
}

#endif
