/*-------------------------------------------------------------------------
 *
 * local.h
 *	  Files and directories of this machine.
 *
 *-------------------------------------------------------------------------
 */
#ifndef SECUREFILE_LOCAL_H
#define SECUREFILE_LOCAL_H

#include <stdint.h>
#include <sys/stat.h>
#include <sys/types.h>

#include "failure.h"
#include "options.h"

/* What a file is besides its bytes. */
typedef struct Meta
{
	int64_t		mtime;			/* microseconds since 1970, or NO_MTIME */
	int			mode;			/* permission bits, or NO_MODE */
	char	   *link;			/* of a symbolic link: its target; null: a
								 * regular file */
} Meta;

#define NO_MTIME	INT64_MIN
#define NO_MODE		(-1)

/* A file of a tree; its path is relative to the top. */
typedef struct Found
{
	char	   *path;
	int64_t		length;
	Meta		meta;
} Found;

typedef struct FoundList
{
	Found	   *files;
	size_t		count;
	size_t		space;
	int64_t		bytes;			/* sum of the lengths */
} FoundList;

/*
 * Called for each entry of a tree that cannot be looked at or walked; with a null failure for one
 * that is skipped, a link or a special file.
 */
typedef void (*WalkPassed) (const char *path, const Failure *failure);

/*
 * Memory to read a file into, for free(); size is a multiple of 4096.  It begins with a page,
 * so that it is filled fast (BUFFER_ALIGNMENT in lib/internal.h).
 */
extern char *local_buffer(size_t size);

/* Read size bytes, fewer only at the end; waits if fd is non-blocking.  -1 with errno set. */
extern int64_t local_read(int fd, void *buffer, size_t size);

/* Write size bytes; waits if fd is non-blocking.  False with errno set. */
extern bool local_write(int fd, const void *buffer, size_t size);

/*
 * XXH3-64 of a file from its beginning to its end, as securefile_hash_extended(.., 0)
 * computes it.
 */
extern bool local_hash(int fd, uint64_t *hash, Failure *failure);

/* The same of so many bytes at its beginning, or of all if there are fewer. */
extern bool local_hash_start(int fd, int64_t length, uint64_t *hash, Failure *failure);

/*
 * Open a regular file of a directory for reading, and tell its length; a symbolic link is
 * not followed.  -1 after a failure, with errno ENOENT if there is nothing of that name and
 * EISDIR if there is something else than a regular file.
 */
extern int	local_open_file(int directory, const char *path, int64_t *length, Failure *failure);

/*
 * The same of a file anywhere below the top of a tree, from which no link leads away.  Links are
 * followed if follow is true, as long as they stay below the top.
 */
extern int	local_open_below(int top, const char *path, bool follow, int64_t *length,
							 Failure *failure);

/* Open the top directory of a tree; links are followed, because the user named it.  -1: failure. */
extern int	local_open_top(const char *path, Failure *failure);

/* The target of a link, which the caller frees; NULL with errno set after a failure. */
extern char *local_read_link(int directory, const char *name, Failure *failure);

/*
 * Open the directory of a file that the user named, and find the last part of its path, which
 * may be empty.  -1 after a failure.
 */
extern int	local_open_above(const char *path, const char **last, Failure *failure);

/*
 * Is it a relative path that stays below its start?  Names come from a database, and the
 * person who wrote them may be another than the one who exports them.
 */
extern bool local_check_path(const char *path, Failure *failure);

/* Can export write a stored file of that name?  utf8: names are in that encoding. */
extern bool local_check_name(const char *name, bool utf8, Failure *failure);

/*
 * Open the directory that holds the last part of a path below top, through no symbolic
 * link; *last points to that part.  Missing directories are made if make is true.  -1 with
 * errno set after a failure.
 */
extern int	local_open_parent(int top, const char *path, bool make, const char **last,
							  Failure *failure);

/* ---- follow.c ---- */

/*
 * Open what a path below the top leads to with these flags, through links that stay below the
 * top.  -1 after a failure, as when one leads out of the tree.
 */
extern int	local_follow(int top, const char *path, int flags, Failure *failure);

/* ---- walk.c ---- */

/*
 * Add the regular files below a directory, which stays open, to a list: all but those that the
 * options leave out, whose directories are not walked.
 */
extern void walk_tree(int top, const Options *options, FoundList *list, WalkPassed passed);

/* Add one file to a list; path and link are copied. */
extern void walk_add(FoundList *list, const char *path, int64_t length, const Meta *meta);

/* ---- meta.c ---- */

/* Of a file of which nothing is known. */
extern const Meta meta_unknown;

/* What stat() says of a file; its link is null. */
extern Meta meta_of(const struct stat *st);

/* ---- sha256.c ---- */

#define SHA256_HEX_SIZE		65

/*
 * SHA-256 of bytes that come in parts; zeros need not be made.  sha256_add() is a SparseTake.
 * sha256_end() writes hexadecimal digits and frees, sha256_free() frees only.  False: the library
 * that computes has failed; sha256_begin() returns NULL then, which the others take, and fail.
 */
typedef struct Sha256 Sha256;

extern Sha256 *sha256_begin(void);
extern bool sha256_add(void *sha, const void *bytes, size_t size);
extern bool sha256_add_zeros(Sha256 *sha, int64_t size);
extern bool sha256_end(Sha256 *sha, char *hex);
extern void sha256_free(Sha256 *sha);

/* SHA-256 of a file from its beginning to its end, in hexadecimal. */
extern bool local_sha256(int fd, char *hex, Failure *failure);

#endif							/* SECUREFILE_LOCAL_H */
