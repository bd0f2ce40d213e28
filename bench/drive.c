/*-------------------------------------------------------------------------
 *
 * drive.c
 *	  One measurement of one engine: clients that write or read objects of one size for some
 *	  seconds.  Prints one JSON object.
 *
 *	  drive ENGINE make CONNINFO
 *	  drive ENGINE write|read|read_new [options] CONNINFO
 *
 *		--size N			bytes of an object (10240)
 *		--clients N			each with a connection and a thread (1)
 *		--seconds S			how long (3)
 *		--per-commit N		writes a transaction (1)
 *		--objects N			read: of those that each client has written before (100)
 *		--first N			number of the first object that a client writes (0)
 *		--directory DIR		of files
 *
 * read_new writes an object and reads it at once; only the reads are timed.  Numbers of
 * objects are those of the client and of the object, so clients never share one.
 *
 *-------------------------------------------------------------------------
 */
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

#include "common.h"
#include "engines.h"

#define MAX_CLIENTS		128
#define MAX_TIMES		(1 << 20)	/* of a client; later ones are not in the
									 * percentiles */

typedef struct Settings
{
	const char *operation;
	const char *conninfo;
	size_t		size;
	int			clients;
	double		seconds;
	int			per_commit;
	int64_t		objects;
	int64_t		first;
} Settings;

typedef struct Worker
{
	pthread_t	thread;
	const Settings *settings;
	Client		client;
	int64_t		done;			/* objects */
	double		busy;			/* seconds in the operations that count */
	double		end;
	float	   *times;			/* seconds of each */
} Worker;

static pthread_barrier_t start_line;

static int64_t
object_id(const Worker *worker, int64_t number)
{
	return (int64_t) worker->client.number * 1000000000 + number;
}

/* One operation that counts; begun: when. */
static void
count(Worker *worker, double begun)
{
	double		seconds = now() - begun;

	if (worker->done < MAX_TIMES)
		worker->times[worker->done] = (float) seconds;
	worker->busy += seconds;
	worker->done++;
}

static void
write_some(Worker *worker)
{
	const Settings *settings = worker->settings;
	bool		many = settings->per_commit > 1;
	double		begun = now();

	if (many)
		client_run(&worker->client, "BEGIN");
	for (int i = 0; i < settings->per_commit; i++)
	{
		write_object(&worker->client, object_id(worker, settings->first + worker->done));
		if (i + 1 < settings->per_commit)
		{
			count(worker, begun);
			begun = now();
		}
	}
	if (many)
		client_run(&worker->client, "COMMIT");
	count(worker, begun);
}

static void
read_one(Worker *worker, unsigned *seed)
{
	int64_t		number = rand_r(seed) % worker->settings->objects;
	double		begun = now();

	read_object(&worker->client, object_id(worker, worker->settings->first + number));
	count(worker, begun);
}

static void
read_one_new(Worker *worker)
{
	int64_t		id = object_id(worker, worker->settings->first + worker->done);
	double		begun;

	write_object(&worker->client, id);
	begun = now();
	read_object(&worker->client, id);
	count(worker, begun);
}

static void *
work(void *arg)
{
	Worker	   *worker = arg;
	unsigned	seed = (unsigned) worker->client.number + 1;
	double		end;

	pthread_barrier_wait(&start_line);
	end = now() + worker->settings->seconds;
	while (now() < end)
	{
		if (strcmp(worker->settings->operation, "write") == 0)
			write_some(worker);
		else if (strcmp(worker->settings->operation, "read") == 0)
			read_one(worker, &seed);
		else
			read_one_new(worker);
	}
	worker->end = now();
	return NULL;
}

static int
by_size(const void *a, const void *b)
{
	float		x = *(const float *) a;
	float		y = *(const float *) b;

	return (x > y) - (x < y);
}

/* The times of all clients, sorted; returns how many. */
static size_t
sort_all(const Worker *workers, int n, float *all)
{
	size_t		total = 0;

	for (int i = 0; i < n; i++)
	{
		size_t		kept = (size_t) (workers[i].done < MAX_TIMES ? workers[i].done : MAX_TIMES);

		memcpy(all + total, workers[i].times, kept * sizeof(float));
		total += kept;
	}
	qsort(all, total, sizeof(float), by_size);
	return total;
}

static void
print(const Settings *settings, const Worker *workers, double begun)
{
	float	   *all = malloc((size_t) settings->clients * MAX_TIMES * sizeof(float));
	size_t		n = sort_all(workers, settings->clients, all);
	bool		only_reads = strcmp(settings->operation, "read_new") == 0;
	int64_t		done = 0;
	double		rate = 0;

	for (int i = 0; i < settings->clients; i++)
	{
		done += workers[i].done;
		/* of read_new, the speed of a client while it reads */
		rate += (double) workers[i].done /
			(only_reads ? workers[i].busy : workers[i].end - begun);
	}
	printf("{\"engine\": \"%s\", \"operation\": \"%s\", \"size\": %zu, \"clients\": %d, "
		   "\"per_commit\": %d, \"objects\": %lld, \"per_second\": %.2f, \"mb_per_second\": %.3f, "
		   "\"p50_ms\": %.4f, \"p95_ms\": %.4f, \"p99_ms\": %.4f}\n",
		   workers[0].client.engine->name, settings->operation, settings->size, settings->clients,
		   settings->per_commit, (long long) done, rate, rate * (double) settings->size / 1e6,
		   1000 * all[n / 2], 1000 * all[n * 95 / 100], 1000 * all[n * 99 / 100]);
	free(all);
}

static void
measure(const Engine * engine, const Settings *settings, const char *directory)
{
	static Worker workers[MAX_CLIENTS];
	double		begun;

	pthread_barrier_init(&start_line, NULL, (unsigned) settings->clients + 1);
	for (int i = 0; i < settings->clients; i++)
	{
		workers[i].settings = settings;
		workers[i].client = (Client) {engine, NULL, i, NULL, settings->size, directory};
		workers[i].times = malloc(MAX_TIMES * sizeof(float));
		begin_client(&workers[i].client, settings->conninfo);
		pthread_create(&workers[i].thread, NULL, work, &workers[i]);
	}
	begun = now();
	pthread_barrier_wait(&start_line);
	for (int i = 0; i < settings->clients; i++)
		pthread_join(workers[i].thread, NULL);
	print(settings, workers, begun);
}

static void
usage(void)
{
	fprintf(stderr, "usage: drive ENGINE make|write|read|read_new [options] CONNINFO\nengines:");
	print_engines();
	exit(2);
}

int
main(int argc, char **argv)
{
	Settings	settings = {
		.size = 10240, .clients = 1, .seconds = 3, .per_commit = 1, .objects = 100
	};
	const char *directory = ".";
	const		Engine *engine = argc > 3 ? find_engine(argv[1]) : NULL;

	if (engine == NULL)
		usage();
	settings.operation = argv[2];
	settings.conninfo = argv[argc - 1];
	for (int i = 3; i + 1 < argc - 1; i += 2)
	{
		const char *value = argv[i + 1];

		if (strcmp(argv[i], "--size") == 0)
			settings.size = (size_t) atoll(value);
		else if (strcmp(argv[i], "--clients") == 0)
			settings.clients = atoi(value);
		else if (strcmp(argv[i], "--seconds") == 0)
			settings.seconds = atof(value);
		else if (strcmp(argv[i], "--per-commit") == 0)
			settings.per_commit = atoi(value);
		else if (strcmp(argv[i], "--objects") == 0)
			settings.objects = atoll(value);
		else if (strcmp(argv[i], "--first") == 0)
			settings.first = atoll(value);
		else if (strcmp(argv[i], "--directory") == 0)
			directory = value;
		else
			usage();
	}
	if (settings.clients < 1 || settings.clients > MAX_CLIENTS || settings.size < 8 ||
		settings.per_commit < 1 || settings.objects < 1)
		usage();
	if (strcmp(settings.operation, "make") == 0)
	{
		open_connection(settings.conninfo);
		make_engine(engine, conn);
	}
	else
		measure(engine, &settings, directory);
	return 0;
}
