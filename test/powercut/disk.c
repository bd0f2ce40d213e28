/*-------------------------------------------------------------------------
 *
 * disk.c
 *	  Disks with a volatile write cache, whose power can be cut: a small file
 *	  system (FUSE) of a few files of fixed size, each the image of one disk.
 *
 *		disk [FUSE options] MOUNTPOINT IMAGE...
 *
 * File N (0, 1, ...) in MOUNTPOINT is a disk over image file N.  A loop device
 * on it turns a flush of the disk into an fsync of the file.  Bytes written since the
 * last fsync are in the cache only: they are read back, but a cut keeps any part of
 * them.  Each disk has its own cache, and a cut hits all disks at once.
 *
 * A file system may discard sectors that it does not use any more, when a hole was punched, say.
 * To this disk that is a write of zeros, in the cache like others: so a file system that discards
 * too early loses bytes.
 *
 * A disk has three layers; a sector is read from the uppermost layer that has it:
 *
 *		now		all writes since the state began
 *		kept	those that have been flushed, and those that the cut before kept
 *		base	the image, durable when the state began
 *
 * Commands are written to the file "control":
 *
 *		cut			power off: from here on every access to a disk is an I/O error
 *		cut write N	power off after N more writes
 *		cut flush N	power off when the Nth flush comes that has anything to do
 *		cut behind N	power off after a flush of one disk that leaves another one
 *					with N writes or more that are not flushed
 *		fix			the flushed writes become part of the image; states choose from
 *					the unflushed ones
 *		state SEED	power on again, with a choice by that seed
 *
 * So one cut gives any number of states to try, and each state may be loaded, cut and
 * fixed in turn.  Reading "control" gives the answer of the last command.
 *
 * A state keeps any subset of the unflushed writes (choose()), in any order, torn between
 * any two sectors.  A disk promises no more: it may write back its cache sector by sector
 * and as often as it likes.
 *
 * FUSE calls this program in one thread ("-s").  So the order of calls is the order in
 * which they count, and a flush covers all writes that were answered before it came.
 *
 *-------------------------------------------------------------------------
 */
#define FUSE_USE_VERSION 31

#include <errno.h>
#include <fcntl.h>
#include <fuse.h>
#include <linux/falloc.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#define SECTOR		512
#define MAX_DISKS	8
#define MAX_WRITE	(1024 * 1024)

/* layers above base that have a sector */
#define IN_KEPT		1
#define IN_NOW		2

typedef struct CachedWrite
{
	uint64_t	start;			/* sector */
	uint32_t	nsectors;
	char	   *data;			/* NULL: zeros */
} CachedWrite;

/* Writes in the order in which they came. */
typedef struct WriteList
{
	CachedWrite *items;
	size_t		n;
	size_t		size;
} WriteList;

typedef struct Disk
{
	uint64_t	nsectors;
	char	   *base;
	char	   *kept;
	char	   *now;
	unsigned char *layers;		/* for each sector */
	WriteList	unflushed;		/* since the last flush */
	WriteList	at_cut;			/* what states choose from */
	uint64_t	writes;			/* discards, too */
	uint64_t	discards;
	uint64_t	flushes;
} Disk;

static Disk disks[MAX_DISKS];
static int	ndisks;
static bool power = true;
static uint64_t cut_in_writes = 0;	/* 0: not armed */
static uint64_t cut_in_flushes = 0;
static uint64_t cut_when_behind = 0;
static char answer[1024] = "";

/* ---- what cannot be done ---- */

static void
give_up(const char *what)
{
	perror(what);
	exit(1);
}

static void *
allocate(void *old, size_t size)
{
	void	   *mem = realloc(old, size);

	if (mem == NULL)
		give_up("memory");
	return mem;
}

/* ---- chance ---- */

/* The next number of a sequence (splitmix64). */
static uint64_t
draw(uint64_t *state)
{
	uint64_t	z = *state += 0x9e3779b97f4a7c15;

	z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9;
	z = (z ^ (z >> 27)) * 0x94d049bb133111eb;
	return z ^ (z >> 31);
}

/* 0 .. n - 1 */
static uint64_t
draw_below(uint64_t *state, uint64_t n)
{
	return n == 0 ? 0 : draw(state) % n;
}

static bool
draw_percent(uint64_t *state, int percent)
{
	return (int) draw_below(state, 100) < percent;
}

/* ---- lists of writes ---- */

/* Add a copy of a write to a list; data: NULL for zeros. */
static void
remember(WriteList *list, uint64_t start, uint32_t nsectors, const char *data)
{
	CachedWrite *item;

	if (list->n == list->size)
	{
		list->size = list->size * 2 + 64;
		list->items = allocate(list->items, list->size * sizeof(CachedWrite));
	}
	item = &list->items[list->n++];
	item->start = start;
	item->nsectors = nsectors;
	item->data = NULL;
	if (data == NULL)
		return;
	item->data = allocate(NULL, (size_t) nsectors * SECTOR);
	memcpy(item->data, data, (size_t) nsectors * SECTOR);
}

static void
forget(WriteList *list)
{
	for (size_t i = 0; i < list->n; i++)
		free(list->items[i].data);
	list->n = 0;
}

/* ---- layers ---- */

static void
put(Disk *disk, int layer, uint64_t start, uint64_t nsectors, const char *data)
{
	char	   *to = layer == IN_KEPT ? disk->kept : disk->now;

	if (data == NULL)
		memset(to + start * SECTOR, 0, nsectors * SECTOR);
	else
		memcpy(to + start * SECTOR, data, nsectors * SECTOR);
	for (uint64_t s = start; s < start + nsectors; s++)
		disk->layers[s] |= layer;
}

static void
get(const Disk *disk, uint64_t start, uint64_t nsectors, char *data)
{
	for (uint64_t s = start; s < start + nsectors; s++, data += SECTOR)
	{
		const char *from = (disk->layers[s] & IN_NOW) ? disk->now
			: (disk->layers[s] & IN_KEPT) ? disk->kept : disk->base;

		memcpy(data, from + s * SECTOR, SECTOR);
	}
}

/* Empty the layers; their memory takes no more space then, where that can be had. */
static void
empty_layers(Disk *disk)
{
	memset(disk->layers, 0, disk->nsectors);
	(void) madvise(disk->kept, disk->nsectors * SECTOR, MADV_REMOVE);
	(void) madvise(disk->now, disk->nsectors * SECTOR, MADV_REMOVE);
}

/* Write the kept layer into the image. */
static void
merge(Disk *disk)
{
	for (uint64_t s = 0; s < disk->nsectors; s++)
		if (disk->layers[s] & IN_KEPT)
			memcpy(disk->base + s * SECTOR, disk->kept + s * SECTOR, SECTOR);
	empty_layers(disk);
}

/* Write the cache to the disk. */
static void
flush_cache(Disk *disk)
{
	for (size_t i = 0; i < disk->unflushed.n; i++)
	{
		CachedWrite *item = &disk->unflushed.items[i];

		put(disk, IN_KEPT, item->start, item->nsectors, item->data);
	}
	forget(&disk->unflushed);
	disk->flushes++;
}

/* ---- the writes that survive a cut ---- */

/* A random order of 0 .. n - 1. */
static size_t *
shuffled(size_t n, uint64_t *rng)
{
	size_t	   *order = allocate(NULL, (n + 1) * sizeof(size_t));

	for (size_t i = 0; i < n; i++)
	{
		size_t		j = draw_below(rng, i + 1);

		order[i] = order[j];
		order[j] = i;
	}
	return order;
}

/* Keep each sector of one write with that chance; returns how many. */
static uint64_t
keep_sectors(Disk *disk, const CachedWrite *item, int percent, uint64_t *rng)
{
	uint64_t	kept = 0;

	for (uint32_t i = 0; i < item->nsectors; i++)
	{
		if (!draw_percent(rng, percent))
			continue;
		put(disk, IN_KEPT, item->start + i, 1,
			item->data == NULL ? NULL : item->data + (size_t) i * SECTOR);
		kept++;
	}
	return kept;
}

/* Keep the first writes, and the next one up to some sector; returns how many sectors. */
static uint64_t
keep_prefix(Disk *disk, uint64_t *rng)
{
	WriteList  *list = &disk->at_cut;
	size_t		whole = draw_below(rng, list->n + 1);
	uint64_t	kept = 0;

	for (size_t i = 0; i < whole; i++)
		kept += keep_sectors(disk, &list->items[i], 100, rng);
	if (whole < list->n)
	{
		CachedWrite *torn = &list->items[whole];
		uint64_t	n = draw_below(rng, torn->nsectors);

		put(disk, IN_KEPT, torn->start, n, torn->data);
		kept += n;
	}
	return kept;
}

/*
 * Keep each write with a chance, in any order, so that any of several writes to one place
 * may be the last; some of the kept writes lose sectors.  Returns how many sectors.
 */
static uint64_t
keep_some(Disk *disk, int percent, int torn_percent, uint64_t *rng)
{
	WriteList  *list = &disk->at_cut;
	size_t	   *order = shuffled(list->n, rng);
	uint64_t	kept = 0;

	for (size_t i = 0; i < list->n; i++)
	{
		bool		torn;

		if (!draw_percent(rng, percent))
			continue;
		torn = draw_percent(rng, torn_percent);
		kept += keep_sectors(disk, &list->items[order[i]], torn ? 50 : 100, rng);
	}
	free(order);
	return kept;
}

/* Choose the writes that one disk keeps, and add that to the answer. */
static void
choose(Disk *disk, uint64_t *rng)
{
	static const int chances[] = {5, 30, 50, 70, 95};
	int			percent = chances[draw_below(rng, 5)];
	int			kind = (int) draw_below(rng, 100);
	size_t		total = 0;
	uint64_t	kept = 0;
	const char *name;

	for (size_t i = 0; i < disk->at_cut.n; i++)
		total += disk->at_cut.items[i].nsectors;
	if (kind < 20)
		name = "nothing";
	else if (kind < 25)
	{
		name = "all";
		kept = keep_some(disk, 100, 0, rng);
	}
	else if (kind < 45)
	{
		name = "a prefix";
		kept = keep_prefix(disk, rng);
	}
	else if (kind < 70)
	{
		name = "some writes";
		kept = keep_some(disk, percent, 0, rng);
	}
	else
	{
		name = "some sectors";
		kept = keep_some(disk, percent, 60, rng);
	}
	snprintf(answer + strlen(answer), sizeof(answer) - strlen(answer),
			 "%s%s (%llu of %zu sectors of %zu writes)", answer[0] ? ", " : "", name,
			 (unsigned long long) kept, total, disk->at_cut.n);
}

/* ---- commands ---- */

/* The power goes off.  The answer tells how much each disk had done. */
static void
cut(void)
{
	power = false;
	cut_in_writes = cut_in_flushes = cut_when_behind = 0;
	answer[0] = '\0';
	for (int i = 0; i < ndisks; i++)
		snprintf(answer + strlen(answer), sizeof(answer) - strlen(answer),
				 "%sdisk %d: %llu writes, %llu of them discards, %llu flushes, %zu writes not flushed",
				 i ? "; " : "", i, (unsigned long long) disks[i].writes,
				 (unsigned long long) disks[i].discards, (unsigned long long) disks[i].flushes,
				 disks[i].unflushed.n);
}

/* Count down to a cut; true when it comes. */
static bool
cut_is_due(uint64_t *counter)
{
	if (*counter == 0 || --*counter > 0)
		return false;
	cut();
	return true;
}

/* Cut if a flush has left another disk that far behind. */
static void
cut_if_behind(const Disk *flushed)
{
	for (int i = 0; i < ndisks; i++)
	{
		if (cut_when_behind > 0 && &disks[i] != flushed &&
			disks[i].unflushed.n >= cut_when_behind)
			cut();
	}
}

/*
 * The kept writes become part of the images, and the unflushed ones those that states choose from.
 */
static void
fix(void)
{
	for (int i = 0; i < ndisks; i++)
	{
		Disk	   *disk = &disks[i];
		WriteList	old = disk->at_cut;

		merge(disk);
		forget(&old);
		disk->at_cut = disk->unflushed;
		disk->unflushed = old;
		disk->writes = disk->discards = disk->flushes = 0;
	}
	answer[0] = '\0';
}

/* The power comes back, with a choice of the unflushed writes that the seed decides. */
static void
begin_state(uint64_t seed)
{
	answer[0] = '\0';
	for (int i = 0; i < ndisks; i++)
	{
		Disk	   *disk = &disks[i];

		forget(&disk->unflushed);
		empty_layers(disk);
		disk->writes = disk->discards = disk->flushes = 0;
		choose(disk, &seed);
	}
	power = true;
}

/* A command, written to "control".  Returns the length, or a negative errno. */
static int
obey(const char *text, size_t len)
{
	char		line[64];
	unsigned long long number;

	snprintf(line, sizeof(line), "%.*s", (int) len, text);
	line[strcspn(line, "\n")] = '\0';
	if (strcmp(line, "cut") == 0)
	{
		if (power)
			cut();
	}
	else if (power && sscanf(line, "cut write %llu", &number) == 1)
		cut_in_writes = number;
	else if (power && sscanf(line, "cut flush %llu", &number) == 1)
		cut_in_flushes = number;
	else if (power && sscanf(line, "cut behind %llu", &number) == 1)
		cut_when_behind = number;
	else if (power)
		return -EBUSY;
	else if (strcmp(line, "fix") == 0)
		fix();
	else if (sscanf(line, "state %llu", &number) == 1)
		begin_state(number);
	else
		return -EINVAL;
	return (int) len;
}

/* ---- the file system ---- */

static bool
is_control(const char *path)
{
	return strcmp(path, "/control") == 0;
}

static Disk *
find_disk(const char *path)
{
	int			i = path[1] - '0';

	return (i >= 0 && i < ndisks && path[2] == '\0') ? &disks[i] : NULL;
}

/* Each disk is a regular file with the size of its image. */
static int
disk_getattr(const char *path, struct stat *st, struct fuse_file_info *fi)
{
	Disk	   *disk = find_disk(path);

	(void) fi;
	memset(st, 0, sizeof(*st));
	st->st_nlink = 1;
	st->st_mode = S_IFREG | 0600;
	if (strcmp(path, "/") == 0)
		st->st_mode = S_IFDIR | 0700;
	else if (disk != NULL)
		st->st_size = (off_t) (disk->nsectors * SECTOR);
	else if (!is_control(path))
		return -ENOENT;
	return 0;
}

/* direct_io: the kernel caches nothing, so that each access comes here, in order. */
static int
disk_open(const char *path, struct fuse_file_info *fi)
{
	(void) path;
	fi->direct_io = 1;
	return 0;
}

static int
disk_truncate(const char *path, off_t size, struct fuse_file_info *fi)
{
	(void) size;
	(void) fi;
	return is_control(path) ? 0 : -EPERM;
}

static bool
is_within(const Disk *disk, size_t len, off_t offset)
{
	return len % SECTOR == 0 && offset % SECTOR == 0 &&
		(uint64_t) offset / SECTOR + len / SECTOR <= disk->nsectors;
}

/* Reads the answer of the last command, or sectors of a disk. */
static int
disk_read(const char *path, char *buf, size_t len, off_t offset, struct fuse_file_info *fi)
{
	Disk	   *disk = find_disk(path);
	size_t		have = strlen(answer);
	uint64_t	size = disk == NULL ? 0 : disk->nsectors * SECTOR;

	(void) fi;
	if (disk == NULL)
	{
		if ((size_t) offset >= have)
			return 0;
		len = len < have - (size_t) offset ? len : have - (size_t) offset;
		memcpy(buf, answer + offset, len);
		return (int) len;
	}
	/* some programs read until there is nothing more */
	if (power && (uint64_t) offset <= size && len > size - (uint64_t) offset)
		len = size - (uint64_t) offset;
	if (!power || !is_within(disk, len, offset))
		return -EIO;
	get(disk, (uint64_t) offset / SECTOR, len / SECTOR, buf);
	return (int) len;
}

/* Write to the cache; data: NULL for zeros. */
static void
write_cache(Disk *disk, uint64_t start, uint32_t nsectors, const char *data)
{
	put(disk, IN_NOW, start, nsectors, data);
	remember(&disk->unflushed, start, nsectors, data);
	disk->writes++;
	(void) cut_is_due(&cut_in_writes);
}

/* A command, or a write that goes into the cache of a disk. */
static int
disk_write(const char *path, const char *buf, size_t len, off_t offset,
		   struct fuse_file_info *fi)
{
	Disk	   *disk = find_disk(path);

	(void) fi;
	if (disk == NULL)
		return obey(buf, len);
	if (!power || !is_within(disk, len, offset))
		return -EIO;
	write_cache(disk, (uint64_t) offset / SECTOR, (uint32_t) (len / SECTOR), buf);
	return (int) len;
}

/* Sectors are discarded, or get zeros: that is what the loop device makes of either. */
static int
disk_fallocate(const char *path, int mode, off_t offset, off_t len, struct fuse_file_info *fi)
{
	Disk	   *disk = find_disk(path);

	(void) fi;
	if (disk == NULL || (mode & (FALLOC_FL_PUNCH_HOLE | FALLOC_FL_ZERO_RANGE)) == 0)
		return -EOPNOTSUPP;
	if (!power || !is_within(disk, (size_t) len, offset))
		return -EIO;
	disk->discards++;
	write_cache(disk, (uint64_t) offset / SECTOR, (uint32_t) (len / SECTOR), NULL);
	return 0;
}

/* A flush of the cache; one with nothing to do does not count. */
static int
disk_fsync(const char *path, int only_data, struct fuse_file_info *fi)
{
	Disk	   *disk = find_disk(path);
	bool		had_writes = disk != NULL && disk->unflushed.n > 0;

	(void) only_data;
	(void) fi;
	if (disk == NULL)
		return 0;
	if (!power || (had_writes && cut_is_due(&cut_in_flushes)))
		return -EIO;
	flush_cache(disk);
	if (had_writes)
		cut_if_behind(disk);
	return 0;
}

static void *
disk_init(struct fuse_conn_info *conn, struct fuse_config *config)
{
	conn->max_write = MAX_WRITE;
	config->kernel_cache = 0;
	return NULL;
}

static const struct fuse_operations operations = {
	.getattr = disk_getattr,
	.open = disk_open,
	.truncate = disk_truncate,
	.read = disk_read,
	.write = disk_write,
	.fallocate = disk_fallocate,
	.fsync = disk_fsync,
	.init = disk_init,
};

/* ---- start ---- */

/* Memory in an unnamed file beside the image: it takes space only where it is written. */
static char *
map_layer(const char *image, size_t size)
{
	char		path[4096];
	int			fd;
	void	   *mem;

	snprintf(path, sizeof(path), "%s.layer", image);
	fd = open(path, O_RDWR | O_CREAT | O_TRUNC, 0600);
	if (fd < 0 || unlink(path) != 0 || ftruncate(fd, (off_t) size) != 0)
		give_up(path);
	mem = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	if (mem == MAP_FAILED)
		give_up(path);
	close(fd);
	return mem;
}

/* Map the image, and make the layers above it. */
static void
open_disk(Disk *disk, const char *image)
{
	int			fd = open(image, O_RDWR);
	struct stat st;

	if (fd < 0 || fstat(fd, &st) != 0)
		give_up(image);
	disk->nsectors = (uint64_t) st.st_size / SECTOR;
	disk->base = mmap(NULL, (size_t) st.st_size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	if (disk->base == MAP_FAILED)
		give_up(image);
	close(fd);
	disk->kept = map_layer(image, (size_t) st.st_size);
	disk->now = map_layer(image, (size_t) st.st_size);
	disk->layers = calloc(disk->nsectors, 1);
	if (disk->layers == NULL)
		give_up("memory");
}

int
main(int argc, char **argv)
{
	int			first = 1;

	/* FUSE's options, the mount point, then images */
	while (first < argc && argv[first][0] == '-')
		first += strcmp(argv[first], "-o") == 0 ? 2 : 1;
	if (first + 1 >= argc || argc - first - 1 > MAX_DISKS)
	{
		fprintf(stderr, "usage: disk -s -f [-o OPTIONS] MOUNTPOINT IMAGE...\n");
		return 2;
	}
	for (int i = first + 1; i < argc; i++)
		open_disk(&disks[ndisks++], argv[i]);
	return fuse_main(first + 1, argv, &operations, NULL);
}
