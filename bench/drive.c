/*-------------------------------------------------------------------------
 *
 * drive.c
 *	  One measurement of one engine: clients that write or read objects of one size for some
 *	  seconds.  Prints one JSON object.
 *
 *	  drive ENGINE make CONNINFO
 *	  drive ENGINE write|rewrite|upsert|ignore|reject|read|read_new|read_cold [options]
 *		CONNINFO
 *
 *		--size N			bytes of an object (10240)
 *		--clients N			each with a connection and a thread (1)
 *		--seconds S			how long (3)
 *		--per-commit N		writes a transaction (1)
 *		--objects N			of each client: those it reads have been written before (100)
 *		--first N			number of the first object that a client writes (0)
 *		--directory DIR		of files
 *
 * upsert, ignore: INSERT .. ON CONFLICT, for an object that is there.  reject: INSERT, which
 * violates a constraint.
 *
 * read_new writes an object and reads it at once; only the reads are timed.  rewrite ends
 * after as many objects as --objects says, if the time does not end before.  read_cold, too:
 * it reads each object once, in any order, after one more that is not timed: with it the
 * session learns what it has to know of the table.  Numbers of objects are those of the
 * client and of the object, so clients never share one.
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
	unsigned	seed;
	int64_t    *order;			/* read_cold: of the objects */
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
read_number(Worker *worker, int64_t number)
{
	double		begun = now();

	read_object(&worker->client, object_id(worker, worker->settings->first + number));
	count(worker, begun);
}

static void
read_one(Worker *worker)
{
	read_number(worker, rand_r(&worker->seed) % worker->settings->objects);
}

/* The numbers of all objects and one more, shuffled: each is read once. */
static void
shuffle(Worker *worker)
{
	int64_t		n = worker->settings->objects + 1;

	worker->order = malloc((size_t) n * sizeof(int64_t));
	for (int64_t i = 0; i < n; i++)
	{
		int64_t		j = rand_r(&worker->seed) % (i + 1);

		worker->order[i] = worker->order[j];
		worker->order[j] = i;
	}
}

static void
read_next(Worker *worker)
{
	read_number(worker, worker->order[worker->done + 1]);
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

/* Something is done, in turn, with the objects that are there. */
static void
write_again(Worker *worker, void (*operation) (Client * client, int64_t id))
{
	int64_t		number = worker->settings->first + worker->done % worker->settings->objects;
	double		begun = now();

	operation(&worker->client, object_id(worker, number));
	count(worker, begun);
}

static void
upsert_one(Worker *worker)
{
	write_again(worker, upsert_object);
}

static void
ignore_one(Worker *worker)
{
	write_again(worker, ignore_object);
}

static void
reject_one(Worker *worker)
{
	write_again(worker, reject_object);
}

/* The operations; once: on each object once, and no more than there are. */
static const struct Operation
{
	const char *name;
	void		(*step) (Worker *worker);
	bool		once;
}			operations[] = {
	{"write", write_some, false},
	{"rewrite", write_some, true},
	{"upsert", upsert_one, false},
	{"ignore", ignore_one, false},
	{"reject", reject_one, false},
	{"read", read_one, false},
	{"read_new", read_one_new, false},
	{"read_cold", read_next, true},
};

static const struct Operation *
find_operation(const char *name)
{
	for (size_t i = 0; i < sizeof(operations) / sizeof(operations[0]); i++)
		if (strcmp(operations[i].name, name) == 0)
			return &operations[i];
	return NULL;
}

static void *
work(void *arg)
{
	Worker	   *worker = arg;
	const struct Operation *operation = find_operation(worker->settings->operation);
	bool		cold = operation->step == read_next;
	int64_t		most = operation->once ? worker->settings->objects : INT64_MAX;
	double		end;

	if (cold)
	{
		shuffle(worker);
		read_object(&worker->client,
					object_id(worker, worker->settings->first + worker->order[0]));
	}
	pthread_barrier_wait(&start_line);
	end = now() + worker->settings->seconds;
	do
		operation->step(worker);
	while (now() < end && worker->done < most);
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
	const		Client client = {.engine = engine, .size = settings->size, .directory = directory};
	double		begun;

	pthread_barrier_init(&start_line, NULL, (unsigned) settings->clients + 1);
	for (int i = 0; i < settings->clients; i++)
	{
		workers[i].settings = settings;
		workers[i].seed = (unsigned) i + 1;
		workers[i].client = client;
		workers[i].client.number = i;
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
	fprintf(stderr, "usage: drive ENGINE make|OPERATION [options] CONNINFO\noperations:");
	for (size_t i = 0; i < sizeof(operations) / sizeof(operations[0]); i++)
		fprintf(stderr, " %s", operations[i].name);
	fprintf(stderr, "\nengines:");
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
	else if (find_operation(settings.operation) == NULL)
		usage();
	else
		measure(engine, &settings, directory);
	return 0;
}
