/*-------------------------------------------------------------------------
 *
 * peers.c
 *	  Engines that keep the bytes beside the database: as files, and in an HTTP server that
 *	  takes them with PUT (WebDAV).  The row has the path.
 *
 * The bytes are durable before the row is committed: a file is written and flushed.  The
 * HTTP server flushes nothing, so the client flushes the server's file after the PUT, as a
 * file server would that promises durability.  The engine http_no_flush leaves that out.
 *
 *-------------------------------------------------------------------------
 */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <curl/curl.h>

#include "common.h"
#include "engines.h"

/* The socket of the server lies beside the directory of its files. */
#define SOCKET			"../socket"
#define CURL_BUFFER		(512L * 1024)

/* A part of memory that is sent, or filled. */
typedef struct Bytes
{
	char	   *data;
	size_t		size;
	size_t		done;
} Bytes;

static void
file_path(const Client * client, int64_t id, char *path, size_t size)
{
	snprintf(path, size, "%s/%lld", client->directory, (long long) id);
}

static void
write_row(Client * client, int64_t id, const char *path)
{
	PQclear(client_execute(client, "write", id, path, (int) strlen(path)));
}

static void
read_row(Client * client, int64_t id, char *path, size_t size)
{
	char		size_bytes[4] = {0};
	PGresult   *result = client_execute(client, "read", id, size_bytes, 4);

	if (PQntuples(result) != 1 || PQgetlength(result, 0, 0) >= (int) size)
		client_fail(client, "a row is missing");
	snprintf(path, size, "%.*s", PQgetlength(result, 0, 0), PQgetvalue(result, 0, 0));
	PQclear(result);
}

/* ---- files ---- */

void
write_file(Client * client, int64_t id)
{
	char		path[1024];
	int			fd;
	size_t		done = 0;

	file_path(client, id, path, sizeof(path));
	fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
	while (fd >= 0 && done < client->size)
	{
		ssize_t		n = write(fd, client->data + done, client->size - done);

		if (n <= 0)
			break;
		done += (size_t) n;
	}
	if (fd < 0 || done < client->size || fdatasync(fd) != 0 || close(fd) != 0)
		client_fail(client, path);
	write_row(client, id, path);
}

void
read_file(Client * client, int64_t id)
{
	char		path[1024];
	char	   *bytes = malloc(client->size);
	size_t		done = 0;
	ssize_t		n = 1;
	int			fd;

	read_row(client, id, path, sizeof(path));
	fd = open(path, O_RDONLY | O_CLOEXEC);
	while (fd >= 0 && n > 0 && done < client->size)
	{
		n = read(fd, bytes + done, client->size - done);
		done += n > 0 ? (size_t) n : 0;
	}
	if (fd < 0 || close(fd) != 0)
		client_fail(client, path);
	client_compare(client, id, bytes, done);
	free(bytes);
}

/* ---- HTTP ---- */

static size_t
send_bytes(char *to, size_t size, size_t n, void *arg)
{
	Bytes	   *bytes = arg;
	size_t		part = bytes->size - bytes->done;

	part = part < size * n ? part : size * n;
	memcpy(to, bytes->data + bytes->done, part);
	bytes->done += part;
	return part;
}

static size_t
receive_bytes(char *from, size_t size, size_t n, void *arg)
{
	Bytes	   *bytes = arg;

	/* anything but the number of bytes makes the request fail */
	if (size * n > bytes->size - bytes->done)
		return 0;
	memcpy(bytes->data + bytes->done, from, size * n);
	bytes->done += size * n;
	return size * n;
}

/* One connection for each client, which stays open. */
static CURL *
http_connection(Client * client)
{
	char		path[1024];
	struct curl_slist *headers = NULL;
	CURL	   *http = client->http != NULL ? client->http : curl_easy_init();

	if (client->http != NULL)
		return http;
	if (http == NULL)
		client_fail(client, "curl_easy_init");
	snprintf(path, sizeof(path), "%s/" SOCKET, client->directory);
	/* do not ask before sending: that is a message more */
	headers = curl_slist_append(headers, "Expect:");
	curl_easy_setopt(http, CURLOPT_UNIX_SOCKET_PATH, path);
	curl_easy_setopt(http, CURLOPT_HTTPHEADER, headers);
	curl_easy_setopt(http, CURLOPT_FAILONERROR, 1L);
	curl_easy_setopt(http, CURLOPT_NOSIGNAL, 1L);
	curl_easy_setopt(http, CURLOPT_BUFFERSIZE, CURL_BUFFER);
	curl_easy_setopt(http, CURLOPT_UPLOAD_BUFFERSIZE, CURL_BUFFER);
	curl_easy_setopt(http, CURLOPT_READFUNCTION, send_bytes);
	curl_easy_setopt(http, CURLOPT_WRITEFUNCTION, receive_bytes);
	client->http = http;
	return http;
}

/* PUT or GET the object that the path names. */
static void
request(Client * client, bool put, const char *path, Bytes *bytes)
{
	CURL	   *http = http_connection(client);
	char		url[1100];
	CURLcode	code;

	snprintf(url, sizeof(url), "http://localhost/%s", path);
	curl_easy_setopt(http, CURLOPT_URL, url);
	if (put)
		curl_easy_setopt(http, CURLOPT_UPLOAD, 1L);
	else
		curl_easy_setopt(http, CURLOPT_HTTPGET, 1L);
	curl_easy_setopt(http, CURLOPT_INFILESIZE_LARGE, (curl_off_t) bytes->size);
	curl_easy_setopt(http, CURLOPT_READDATA, bytes);
	curl_easy_setopt(http, CURLOPT_WRITEDATA, bytes);
	code = curl_easy_perform(http);
	if (code != CURLE_OK)
	{
		fprintf(stderr, "%s: %s\n", url, curl_easy_strerror(code));
		exit(1);
	}
}

static void
put_object(Client * client, int64_t id, char *name, size_t size)
{
	Bytes		bytes = {client->data, client->size, 0};

	snprintf(name, size, "%lld", (long long) id);
	request(client, true, name, &bytes);
}

void
write_http(Client * client, int64_t id)
{
	char		name[32];

	put_object(client, id, name, sizeof(name));
	write_row(client, id, name);
}

/*
 * The server has renamed the file.  With fsync(), the usual file systems flush the new name,
 * too, since the inode has changed; fdatasync() would leave it out.
 */
void
write_http_flush(Client * client, int64_t id)
{
	char		name[32];
	char		path[1024];
	int			fd;

	put_object(client, id, name, sizeof(name));
	file_path(client, id, path, sizeof(path));
	fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0 || fsync(fd) != 0 || close(fd) != 0)
		client_fail(client, path);
	write_row(client, id, name);
}

void
read_http(Client * client, int64_t id)
{
	char		name[32];
	Bytes		bytes = {malloc(client->size), client->size, 0};

	read_row(client, id, name, sizeof(name));
	request(client, false, name, &bytes);
	client_compare(client, id, bytes.data, bytes.done);
	free(bytes.data);
}
