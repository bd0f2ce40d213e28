/*-------------------------------------------------------------------------
 *
 * options.h
 *	  The command line: its options, and the verbs that it can name.
 *
 *-------------------------------------------------------------------------
 */
#ifndef SECUREFILE_OPTIONS_H
#define SECUREFILE_OPTIONS_H

#include <stdbool.h>
#include <stdint.h>

/* exit statuses; after a signal it is 128 and the signal's number, as in a shell */
#define EXIT_DONE		0
#define EXIT_SOME		1		/* some files failed, or differ */
#define EXIT_USAGE		2
#define EXIT_SETUP		3		/* no connection, table or column to work with */

typedef enum PasswordMode
{
	PASSWORD_IF_ASKED,
	PASSWORD_ALWAYS,
	PASSWORD_NEVER
} PasswordMode;

/* What is done with symbolic links and special files of a tree. */
typedef enum LinkMode
{
	LINKS_SKIP,					/* counted, and not a failure */
	LINKS_FOLLOW,				/* links to files and directories of the tree
								 * are followed */
	LINKS_KEEP,					/* links are stored as links */
	LINKS_ERROR					/* each is a failure */
} LinkMode;

/* --set column=value, --set-null column */
typedef struct Assignment
{
	const char *column;
	const char *value;			/* null: so is the column */
} Assignment;

typedef struct Options
{
	/* connection, as in psql; null: libpq's default */
	const char *host;
	const char *port;
	const char *user;
	const char *dbname;
	PasswordMode password;

	/* the place of the files */
	const char *table;
	const char *column;			/* null: the only securefile column */
	const char *key;			/* null: the primary key */

	/* the work */
	Assignment *sets;
	int			nsets;
	bool		replace;
	bool		dry_run;
	bool		hash;
	bool		details;		/* --long */
	bool		human;
	bool		total;
	bool		unfinished;
	bool		resume;
	int			part_size;		/* of put --resume, in MiB */
	bool		append;
	bool		meta;			/* also with --quick */
	bool		quick;
	bool		setuid;
	int			batch;			/* files in one transaction */
	const char *with;			/* null: no column options */
	int			jobs;
	const char *prefix;			/* never null */
	bool		has_prefix;		/* --prefix was given */
	const char *against;
	struct Filter *filter;		/* null: all files */
	LinkMode	links;
	bool		to_table;
	bool		to_tree;
	bool		delete;
	bool		force;
	int64_t		max_delete;		/* -1: any number */

	/* migrate */
	const char *from;			/* column; restore: table in the dump */
	const char *root;			/* null: there are no paths */
	bool		verify;			/* dump, too */
	int64_t		max_size;		/* 0: any */
	int			timeout;		/* seconds */
	int			retries;

	/* dump and restore */
	bool		all;
	bool		list;
	bool		prune;
	bool		check;
	int			keep;			/* 0: not said */
	const char *set_columns;	/* names with commas; null: all */
	const char *at;				/* name of a dump; null: the newest. undelete:
								 * a time */
	bool		delta;
	int64_t		delta_from;		/* of files that have so many bytes */
	int64_t		delta_granule;	/* bytes of a part */
	bool		no_verify;

	/* shrink */
	bool		estimate;
	bool		move;
	bool		allow_decoding;
	int64_t		rate;			/* bytes a second; 0: the server's */

	/* removed values; null: not said */
	const char *since;			/* a time */
	const char *xid;
	const char *to;				/* a local file */
	const char *older_than;		/* an interval */

	/* output */
	bool		quiet;
	bool		verbose;
	bool		json;

	char	  **args;
	int			nargs;
} Options;

/* a verb's bit in the table of options says which options it takes */
#define VERB_PUT		0x001
#define VERB_GET		0x002
#define VERB_CAT		0x004
#define VERB_LS			0x008
#define VERB_STAT		0x010
#define VERB_RM			0x020
#define VERB_IMPORT		0x040
#define VERB_EXPORT		0x080
#define VERB_VERIFY		0x100
#define VERB_KEY		0x200
#define VERB_DUMP		0x400
#define VERB_RESTORE	0x800
#define VERB_MV			0x2000
#define VERB_CP			0x4000
#define VERB_CMP		0x8000
#define VERB_SYNC		0x1000
#define VERB_MIGRATE	0x20000
#define VERB_INIT		0x40000
#define VERB_SHRINK		0x80000
#define VERB_REMOVED	0x10000
#define VERB_UNDELETE	0x100000
#define VERB_PURGE		0x200000
#define VERB_TREES		(VERB_IMPORT | VERB_EXPORT | VERB_VERIFY | VERB_SYNC)
#define VERB_ALL		0x3fffff
#define VERB_FILES		(VERB_ALL & ~VERB_KEY)	/* those that work on files in
												 * a table */

/* those that want no column of names */
#define VERB_COLUMNS	(VERB_SHRINK | VERB_REMOVED | VERB_UNDELETE | VERB_PURGE)

typedef struct Verb
{
	const char *name;
	int			bit;
	const char *arguments;		/* for the usage line */
	const char *brief;			/* for the list of verbs, 60 characters */
	const char *purpose;
	int			min_args;
	int			max_args;		/* -1: any number */
	int			(*run) (const Options *options);
} Verb;

/*
 * Parse the command line into options, which point into argv; returns the verb.  Ends the
 * process after --help, --version and wrong usage.  To be called once.
 */
extern const Verb *options_parse(int argc, char **argv, Options *options);

#endif							/* SECUREFILE_OPTIONS_H */
