/*-------------------------------------------------------------------------
 *
 * corpora.c
 *	  Data to compress: from files, generated, random.
 *
 *-------------------------------------------------------------------------
 */
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "common.h"
#include "corpora.h"

#define LEAST			((size_t) 4 * 1024 * 1024)
#define MADE			((size_t) 32 * 1024 * 1024) /* of JSON and of random
													 * bytes */
#define RECORD_MAX		2048

Corpus		corpora[KINDS] = {
	{.name = "prose"}, {.name = "JSON lines"}, {.name = "C headers"}, {.name = "programs"},
	{.name = "random"},
};

/* ---- files ---- */

static void
load_file(Kind kind, const char *directory, const char *name)
{
	char		path[1024];
	FILE	   *file;
	long		size;

	snprintf(path, sizeof(path), "%s/%s", directory, name);
	file = fopen(path, "rb");
	if (file == NULL || fseek(file, 0, SEEK_END) != 0 || (size = ftell(file)) < (long) LEAST)
	{
		fprintf(stderr, "bench: %s: less than 4 MB of %s on this machine\n", path,
				corpora[kind].name);
		exit(1);
	}
	rewind(file);
	corpora[kind].size = (size_t) size;
	corpora[kind].bytes = malloc((size_t) size);
	if (fread(corpora[kind].bytes, 1, (size_t) size, file) != (size_t) size)
	{
		perror(path);
		exit(1);
	}
	fclose(file);
}

/* ---- JSON ---- */

static uint64_t state = 88172645463325252u;

/* A number from 0 to n - 1, the same ones in each run. */
static unsigned
pick(unsigned n)
{
	state ^= state << 13;
	state ^= state >> 7;
	state ^= state << 17;
	return (unsigned) (state >> 33) % n;
}

#define PICK(words) ((words)[pick(sizeof(words) / sizeof((words)[0]))])

static const char *const first_names[] = {
	"Anna", "Ben", "Carla", "David", "Elena", "Farid", "Grace", "Hugo", "Ines", "Jonas",
	"Kirsten", "Liam", "Maria", "Nora", "Omar", "Paula", "Quentin", "Rosa", "Samuel",
	"Tessa", "Ulrich", "Vera", "William", "Yasmin"
};
static const char *const last_names[] = {
	"Adams", "Baker", "Carter", "Dubois", "Evans", "Fischer", "Garcia", "Hoffmann",
	"Ivanova", "Jensen", "Keller", "Lopez", "Miller", "Nowak", "Olsen", "Petrov", "Rossi",
	"Schmidt", "Tanaka", "Vogel", "Weber", "Young", "Zhang", "Okafor"
};
static const char *const cities[] = {
	"Amsterdam", "Berlin", "Chicago", "Dublin", "Edinburgh", "Florence", "Geneva",
	"Helsinki", "Istanbul", "Kyoto", "Lisbon", "Madrid", "Nairobi", "Oslo", "Prague",
	"Santiago", "Toronto", "Vienna", "Warsaw", "Zurich"
};
static const char *const services[] = {
	"orders", "billing", "inventory", "shipping", "accounts", "search", "reports", "media"
};
static const char *const levels[] = {"info", "info", "info", "info", "debug", "warning", "error"};
static const char *const methods[] = {"GET", "GET", "GET", "POST", "PUT", "DELETE"};
static const char *const roles[] = {"reader", "editor", "admin", "auditor", "guest"};
static const char *const agents[] = {
	"Mozilla/5.0 (X11; Linux x86_64) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/126.0",
	"Mozilla/5.0 (Windows NT 10.0; Win64; x64; rv:127.0) Gecko/20100101 Firefox/127.0",
	"Mozilla/5.0 (iPhone; CPU iPhone OS 17_5 like Mac OS X) Mobile/15E148 Safari/604.1",
	"curl/8.5.0", "python-requests/2.31.0"
};
static const char *const words[] = {
	"please", "deliver", "before", "noon", "call", "the", "customer", "gift", "wrapped",
	"fragile", "leave", "at", "door", "second", "floor", "invoice", "by", "mail", "urgent",
	"returned", "partly", "no", "signature", "required", "ask", "for", "reception"
};

/* A text that grows at its end. */
typedef struct Text
{
	char	   *next;
	char	   *end;
} Text;

static void
			add(Text *text, const char *format, ...) __attribute__((format(printf, 2, 3)));

static void
add(Text *text, const char *format, ...)
{
	va_list		args;

	va_start(args, format);
	text->next += vsnprintf(text->next, (size_t) (text->end - text->next), format, args);
	va_end(args);
}

static void
add_user(Text *text)
{
	const char *first = PICK(first_names);
	const char *last = PICK(last_names);

	add(text, "\"user\":{\"id\":%u,\"name\":\"%s %s\",\"email\":\"%c.%s%u@example.org\",",
		10000 + pick(90000), first, last, first[0] | 0x20, last, pick(100));
	add(text, "\"roles\":[\"%s\",\"%s\"],\"address\":{\"city\":\"%s\",\"street\":\"%s street %u\",",
		PICK(roles), PICK(roles), PICK(cities), PICK(last_names), 1 + pick(200));
	add(text, "\"postcode\":\"%05u\",\"location\":[%.5f,%.5f]}},", pick(100000),
		pick(18000000) / 1e5 - 90, pick(36000000) / 1e5 - 180);
}

static void
add_items(Text *text)
{
	int			n = 1 + (int) pick(4);

	add(text, "\"items\":[");
	for (int i = 0; i < n; i++)
		add(text, "%s{\"sku\":\"%c%c-%05u\",\"count\":%u,\"price\":%u.%02u,\"in_stock\":%s}",
			i > 0 ? "," : "", 'A' + (int) pick(26), 'A' + (int) pick(26), pick(100000), 1 + pick(9),
			1 + pick(400), pick(100), pick(5) > 0 ? "true" : "false");
	add(text, "],\"note\":");
	n = (int) pick(12);
	if (n == 0)
		add(text, "null");
	for (int i = 0; i < n; i++)
		add(text, "%s%s%s", i > 0 ? " " : "\"", PICK(words), i == n - 1 ? "\"" : "");
}

/* One line: what a service notes of a request. */
static void
add_record(Text *text, unsigned number)
{
	const char *service = PICK(services);
	unsigned	ms = number * 137;

	add(text, "{\"id\":\"%08x%08x\",\"time\":\"2026-03-%02uT%02u:%02u:%02u.%03uZ\",",
		pick(UINT32_MAX), pick(UINT32_MAX), 1 + ms / 86400000 % 28, ms / 3600000 % 24,
		ms / 60000 % 60, ms / 1000 % 60, ms % 1000);
	add(text, "\"level\":\"%s\",\"service\":\"%s\",\"host\":\"%s-%02u.example.org\",",
		PICK(levels), service, service, 1 + pick(12));
	add_user(text);
	add(text, "\"request\":{\"method\":\"%s\",\"path\":\"/api/v2/%s/%u\",",
		PICK(methods), service, pick(1000000));
	add(text, "\"status\":%u,", pick(20) > 0 ? 200 : 400 + pick(5));
	add(text, "\"bytes\":%u,\"duration_ms\":%u.%03u,\"agent\":\"%s\"},", pick(100000), pick(300),
		pick(1000), PICK(agents));
	add_items(text);
	add(text, "}\n");
}

static void
make_json(void)
{
	char	   *bytes = malloc(MADE);
	Text		text = {bytes, bytes + MADE};

	for (unsigned number = 0; text.end - text.next >= RECORD_MAX; number++)
		add_record(&text, number);
	corpora[JSON].bytes = bytes;
	corpora[JSON].size = (size_t) (text.next - bytes);
}

/* ---- all of it ---- */

void
load_corpora(const char *directory)
{
	load_file(PROSE, directory, "prose");
	load_file(HEADERS, directory, "headers");
	load_file(PROGRAMS, directory, "programs");
	make_json();
	corpora[RANDOM].bytes = malloc(MADE);
	corpora[RANDOM].size = MADE;
	fill(corpora[RANDOM].bytes, MADE, 1);
}

const char *
part_of_corpus(const Load *load, int i)
{
	const		Corpus *from = load->source;
	size_t		distance = (from->size - (size_t) load->size_bytes) / (size_t) load->objects;

	return from->bytes + (size_t) i * distance;
}

int64_t
give_long_value(void *arg, void *buf, size_t len)
{
	LongValue  *value = arg;
	const		Corpus *prose = &corpora[PROSE];
	size_t		unit_no = (size_t) (value->at / UNIT_SIZE);
	size_t		in_unit = (size_t) (value->at % UNIT_SIZE);
	char		number[16 + 1];
	size_t		n = UNIT_SIZE - in_unit;

	if (n > len)
		n = len;
	if ((int64_t) n > value->size - value->at)
		n = (size_t) (value->size - value->at);
	memcpy(buf, prose->bytes + unit_no % (prose->size / UNIT_SIZE) * UNIT_SIZE + in_unit, n);
	snprintf(number, sizeof(number), "%015zu\n", unit_no);
	if (in_unit < 16)
		memcpy(buf, number + in_unit, n < 16 - in_unit ? n : 16 - in_unit);
	value->at += (int64_t) n;
	return (int64_t) n;
}
