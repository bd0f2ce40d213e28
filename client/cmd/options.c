/*-------------------------------------------------------------------------
 *
 * options.c
 *	  The command line: one table of options, one of verbs.  The help and the completion
 *	  of shells are made from them.
 *
 * Options may stand before the verb too, so that an alias can hold a connection.  So the
 * line is parsed twice: up to the verb with all options, and behind it with the options
 * that the verb takes.  An option that it does not take is an error on either side: a
 * user who writes --dry-run before rm does not want anything removed.
 *
 *-------------------------------------------------------------------------
 */
#include <argp.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <pgsecurefile.h>

#include "help.h"
#include "number.h"
#include "optionvalue.h"
#include "output.h"
#include "reserved.h"
#include "verbs.h"

#define DEFAULT_PART	256
#define DEFAULT_JOBS	4
#define DEFAULT_TIMEOUT	60
#define DEFAULT_RETRIES	3
#define DEFAULT_BATCH	500
#define DEFAULT_DELTA_FROM	(64 * 1024 * 1024)
#define DEFAULT_GRANULE		(8 * 1024 * 1024)

/* headings of --help */
enum
{
	GROUP_WORK = 1,
	GROUP_FILES,
	GROUP_CONNECTION,
	GROUP_OUTPUT
};

/* How parse_option() handles an option. */
typedef enum Effect
{
	SPECIAL,					/* by a function */
	SETS_TEXT,					/* its argument is stored in the field */
	SETS_FLAG					/* the field becomes true */
} Effect;

typedef struct OptionRow
{
	int			verbs;
	struct argp_option option;
	Effect		effect;
	size_t		field;			/* offset in Options */
} OptionRow;

#define TEXT(field)		SETS_TEXT, offsetof(Options, field)
#define FLAG(field)		SETS_FLAG, offsetof(Options, field)
#define BY_FUNCTION		SPECIAL, 0

static const OptionRow option_rows[] = {
	{VERB_PUT | VERB_GET | VERB_IMPORT | VERB_EXPORT | VERB_RESTORE | VERB_MV | VERB_CP |
		VERB_UNDELETE,
		{"replace", KEY_REPLACE, NULL, 0, "Replace what exists already", GROUP_WORK}, FLAG(replace)},
	{VERB_PUT | VERB_IMPORT | VERB_SYNC,
		{"set", KEY_SET, "COLUMN=VALUE", 0,
			"Value of another column of the row; may be repeated", GROUP_WORK}, BY_FUNCTION},
	{VERB_PUT | VERB_IMPORT | VERB_SYNC,
		{"set-null", KEY_SET_NULL, "COLUMN", 0,
			"Make another column of the row null; may be repeated", GROUP_WORK}, BY_FUNCTION},
	{VERB_TREES | VERB_MIGRATE,
		{"prefix", KEY_PREFIX, "TEXT", 0,
			"Prefix of the names, usually \"dir/\": import adds it, the others remove it",
			GROUP_WORK}, BY_FUNCTION},
	{VERB_LS | VERB_RM,
		{"prefix", KEY_PREFIX, "TEXT", 0, "Only names that begin so, usually \"dir/\"", GROUP_WORK},
		BY_FUNCTION},
	{VERB_MV | VERB_CP,
		{"prefix", KEY_PREFIX, "OLD", 0,
			"All names that begin with OLD, which becomes NEW; usually \"dir/\"", GROUP_WORK},
		BY_FUNCTION},
	{VERB_TREES | VERB_MIGRATE | VERB_DUMP | VERB_RESTORE,
		{"jobs", 'j', "N", 0, "Connections at a time (4)", GROUP_WORK}, BY_FUNCTION},
	{VERB_DUMP | VERB_RESTORE,
		{"all", KEY_ALL, NULL, 0,
			"All securefile columns: dump those of the database, restore those of the dump", GROUP_WORK}, FLAG(all)},
	{VERB_DUMP,
		{"list", KEY_LIST, NULL, 0, "Only list the dumps in DIR", GROUP_WORK}, FLAG(list)},
	{VERB_DUMP,
		{"prune", KEY_PRUNE, NULL, 0,
			"Only remove old dumps from DIR, and what no dump needs any more", GROUP_WORK}, FLAG(prune)},
	{VERB_DUMP,
		{"keep", KEY_KEEP, "N", 0,
			"With --prune: so many dumps of each column stay", GROUP_WORK}, BY_FUNCTION},
	{VERB_DUMP,
		{"check", KEY_CHECK, NULL, 0, "Only read all of DIR, and check it", GROUP_WORK}, FLAG(check)},
	{VERB_DUMP | VERB_RESTORE,
		{"set-columns", KEY_SET_COLUMNS, "A,B", 0,
			"Other columns of the rows, besides the key (all)", GROUP_WORK}, TEXT(set_columns)},
	{VERB_DUMP,
		{"delta", KEY_DELTA, NULL, 0,
			"Of long files fetch only the parts that have changed since the last dump with --delta", GROUP_WORK}, FLAG(delta)},
	{VERB_DUMP,
		{"delta-from", KEY_DELTA_FROM, "BYTES", 0,
			"With --delta: files of so many bytes are long (67108864); with kB, MB, GB or TB", GROUP_WORK}, BY_FUNCTION},
	{VERB_DUMP,
		{"granule", KEY_GRANULE, "BYTES", 0,
			"With --delta: bytes of a part, a multiple of 131072 (8388608)", GROUP_WORK}, BY_FUNCTION},
	{VERB_DUMP,
		{"no-verify", KEY_NO_VERIFY, NULL, 0,
			"With --delta: where no hash is kept, the server does not read the files for one", GROUP_WORK}, FLAG(no_verify)},
	{VERB_RESTORE,
		{"at", KEY_AT, "NAME", 0, "Name of the dump (the newest)", GROUP_WORK}, TEXT(at)},
	{VERB_IMPORT | VERB_SYNC | VERB_RESTORE,
		{"batch", KEY_BATCH, "N", 0,
			"Small files in one transaction, all or none of which a crash leaves (500); 1: each has its own", GROUP_WORK}, BY_FUNCTION},
	{VERB_PUT | VERB_GET | VERB_IMPORT | VERB_EXPORT | VERB_SYNC | VERB_INIT,
		{"meta", KEY_META, NULL, 0,
			"Keep times of modification, modes and link targets; init: make the columns for them", GROUP_WORK}, FLAG(meta)},
	{VERB_IMPORT | VERB_EXPORT | VERB_SYNC,
		{"quick", KEY_QUICK, NULL, 0,
			"Skip files of the same length and time of modification; implies --meta", GROUP_WORK}, FLAG(quick)},
	{VERB_GET | VERB_EXPORT | VERB_SYNC,
		{"setuid", KEY_SETUID, NULL, 0,
			"With --meta: modes with setuid, setgid and sticky bits", GROUP_WORK}, FLAG(setuid)},
	{VERB_INIT,
		{"with", KEY_WITH, "OPTION,...", 0,
			"Options of the securefile column, as \"compress,hash\"", GROUP_WORK}, TEXT(with)},
	{VERB_IMPORT | VERB_EXPORT | VERB_SYNC | VERB_MIGRATE | VERB_DUMP | VERB_RESTORE |
		VERB_RM | VERB_MV | VERB_CP | VERB_UNDELETE | VERB_PURGE,
		{"dry-run", 'n', NULL, 0, "Only say what would be done", GROUP_WORK}, FLAG(dry_run)},
	{VERB_VERIFY,
		{"against", KEY_AGAINST, "DIR", 0,
			"Compare with the files below DIR", GROUP_WORK}, TEXT(against)},
	{VERB_TREES | VERB_LS,
		{"exclude", KEY_EXCLUDE, "PATTERN", 0,
			"Leave out files and directories, as a line of .gitignore does; may be repeated", GROUP_WORK}, BY_FUNCTION},
	{VERB_TREES | VERB_LS,
		{"include", KEY_INCLUDE, "PATTERN", 0,
			"Take them nevertheless; the last pattern that matches decides", GROUP_WORK}, BY_FUNCTION},
	{VERB_TREES | VERB_LS,
		{"exclude-from", KEY_EXCLUDE_FROM, "FILE", 0,
			"Patterns from a file, written as .gitignore", GROUP_WORK}, BY_FUNCTION},
	{VERB_IMPORT | VERB_VERIFY | VERB_SYNC | VERB_MIGRATE,
		{"links", KEY_LINKS, "HOW", 0,
			"Symbolic links: skip (the default), follow, keep or error", GROUP_WORK}, BY_FUNCTION},
	{VERB_SYNC,
		{"to-table", KEY_TO_TABLE, NULL, 0, "Make the table equal to DIR", GROUP_WORK}, FLAG(to_table)},
	{VERB_SYNC,
		{"to-tree", KEY_TO_TREE, NULL, 0, "Make DIR equal to the table", GROUP_WORK}, FLAG(to_tree)},
	{VERB_SYNC,
		{"delete", KEY_DELETE, NULL, 0,
			"Delete what the other side has not, last, and only if all files could be copied", GROUP_WORK}, FLAG(delete)},
	{VERB_SYNC,
		{"force", KEY_FORCE, NULL, 0,
			"Delete also when the other side is empty, missing, or could not be read completely", GROUP_WORK}, FLAG(force)},
	{VERB_SYNC,
		{"max-delete", KEY_MAX_DELETE, "N", 0,
			"Delete nothing if it would be more than N files", GROUP_WORK}, BY_FUNCTION},
	{VERB_LS,
		{"long", 'l', NULL, 0,
			"Show how many bytes are stored, and the ratio", GROUP_WORK}, FLAG(details)},
	{VERB_REMOVED,
		{"long", 'l', NULL, 0, "Show the transaction, too", GROUP_WORK}, FLAG(details)},
	{VERB_LS | VERB_STAT | VERB_REMOVED,
		{"human", KEY_HUMAN, NULL, 0, "Show bytes as kB, MB, GB", GROUP_WORK}, FLAG(human)},
	{VERB_LS | VERB_STAT | VERB_REMOVED,
		{"total", KEY_TOTAL, NULL, 0, "Show the number of files and their bytes, too", GROUP_WORK},
		FLAG(total)},
	{VERB_PUT,
		{"resume", KEY_RESUME, NULL, 0,
			"Store the file in parts, and go on where the same command was interrupted", GROUP_WORK},
		FLAG(resume)},
	{VERB_PUT,
		{"part-size", KEY_PART_SIZE, "N", 0,
			"With --resume: megabytes (of 1,048,576 bytes) of a part (256)", GROUP_WORK}, BY_FUNCTION},
	{VERB_LS | VERB_RM,
		{"unfinished", KEY_UNFINISHED, NULL, 0,
			"Files whose \"put --resume\" has not come to its end", GROUP_WORK}, FLAG(unfinished)},
	{VERB_LS | VERB_STAT,
		{"hash", KEY_HASH, NULL, 0,
			"Show a hash: ls the SHA-256, kept or computed, stat the XXH3-64, computed", GROUP_WORK}, FLAG(hash)},
	{VERB_KEY,
		{"append", KEY_APPEND, NULL, 0,
			"Append to an existing file of keys", GROUP_WORK}, FLAG(append)},

	{VERB_MIGRATE | VERB_RESTORE,
		{"from", KEY_FROM, "NAME", 0,
			"Column of the paths or URLs; of restore: table in the dump", GROUP_WORK}, TEXT(from)},
	{VERB_MIGRATE,
		{"root", KEY_ROOT, "DIR", 0, "Below which directory the paths are", GROUP_WORK}, TEXT(root)},
	{VERB_MIGRATE | VERB_DUMP,
		{"verify", KEY_VERIFY, NULL, 0,
			"Compare all files with what is stored; of dump: with their kept hashes", GROUP_WORK}, FLAG(verify)},
	{VERB_MIGRATE,
		{"max-size", KEY_MAX_SIZE, "BYTES", 0,
			"Refuse longer files; with kB, MB, GB or TB", GROUP_WORK}, BY_FUNCTION},
	{VERB_MIGRATE,
		{"timeout", KEY_TIMEOUT, "SECONDS", 0,
			"Give a download up when nothing arrives for so long (60)", GROUP_WORK}, BY_FUNCTION},
	{VERB_MIGRATE,
		{"retries", KEY_RETRIES, "N", 0,
			"Further attempts at a download that is cut or gets a status of 5xx (3)", GROUP_WORK}, BY_FUNCTION},

	{VERB_SHRINK,
		{"estimate", KEY_ESTIMATE, NULL, 0, "Only say what could be given back", GROUP_WORK},
		FLAG(estimate)},
	{VERB_SHRINK,
		{"move", KEY_MOVE, NULL, 0,
			"Before that move values from the end of the files to the front, and cut the files", GROUP_WORK}, FLAG(move)},
	{VERB_SHRINK,
		{"force", KEY_FORCE, NULL, 0,
			"With --move: also where that makes backups and standbys lack the values", GROUP_WORK}, FLAG(force)},
	{VERB_SHRINK,
		{"allow-decoding", KEY_ALLOW_DECODING, NULL, 0,
			"With --move: also where logical replication sends the values again", GROUP_WORK}, FLAG(allow_decoding)},
	{VERB_SHRINK,
		{"rate", KEY_RATE, "BYTES", 0,
			"No more than so many in a second, with kB, MB, GB or TB", GROUP_WORK}, BY_FUNCTION},

	{VERB_REMOVED,
		{"since", KEY_SINCE, "TIME", 0,
			"Only what was removed at that time or later, as \"yesterday\"", GROUP_WORK}, TEXT(since)},
	{VERB_UNDELETE,
		{"at", KEY_AT, "TIME", 0,
			"What the row had at that time: the value that was removed next (the newest)", GROUP_WORK}, TEXT(at)},
	{VERB_UNDELETE,
		{"xid", KEY_XID, "XID", 0,
			"What that transaction removed, as \"removed --long\" shows it", GROUP_WORK}, TEXT(xid)},
	{VERB_UNDELETE,
		{"to", KEY_TO, "FILE", 0,
			"Write the value to FILE (-: standard output), and leave the table as it is", GROUP_WORK}, TEXT(to)},
	{VERB_UNDELETE,
		{"force", KEY_FORCE, NULL, 0, "The same as --replace", GROUP_WORK}, FLAG(force)},
	{VERB_PURGE,
		{"older-than", KEY_OLDER_THAN, "INTERVAL", 0,
			"Only what was removed longer ago, as \"1 day\" (all)", GROUP_WORK}, TEXT(older_than)},

	{VERB_FILES, {NULL, 0, NULL, 0, "Where the files are:", GROUP_FILES}, BY_FUNCTION},
	{VERB_FILES,
		{"table", 't', "TABLE", 0, "Table, written as in SQL", GROUP_FILES}, TEXT(table)},
	{VERB_FILES,
		{"column", 'c', "COLUMN", 0,
			"Column of the files (the only securefile column)", GROUP_FILES}, TEXT(column)},
	{VERB_FILES & ~VERB_COLUMNS,
		{"key", 'k', "COLUMN", 0, "Column of the names (the primary key)", GROUP_FILES}, TEXT(key)},

	{VERB_FILES, {NULL, 0, NULL, 0, "Connection, as for psql:", GROUP_CONNECTION}, BY_FUNCTION},
	{VERB_FILES,
		{"dbname", 'd', "DBNAME", 0,
			"Database, or a connection string or URI", GROUP_CONNECTION}, TEXT(dbname)},
	{VERB_FILES,
		{"host", 'h', "HOST", 0, "Server, or directory of its socket", GROUP_CONNECTION}, TEXT(host)},
	{VERB_FILES,
		{"port", 'p', "PORT", 0, "Port of the server", GROUP_CONNECTION}, TEXT(port)},
	{VERB_FILES,
		{"username", 'U', "USER", 0, "Role to connect as", GROUP_CONNECTION}, TEXT(user)},
	{VERB_FILES,
		{"no-password", 'w', NULL, 0, "Never ask for a password", GROUP_CONNECTION}, BY_FUNCTION},
	{VERB_FILES,
		{"password", 'W', NULL, 0, "Ask for a password first", GROUP_CONNECTION}, BY_FUNCTION},

	{VERB_FILES, {NULL, 0, NULL, 0, "Output:", GROUP_OUTPUT}, BY_FUNCTION},
	{VERB_FILES,
		{"json", KEY_JSON, NULL, 0,
			"One JSON object a line on standard output", GROUP_OUTPUT}, FLAG(json)},
	{VERB_FILES,
		{"quiet", 'q', NULL, 0, "No progress and no summary", GROUP_OUTPUT}, FLAG(quiet)},
	{VERB_FILES & ~(VERB_SHRINK | VERB_REMOVED | VERB_PURGE),
		{"verbose", 'v', NULL, 0, "A line for each file", GROUP_OUTPUT}, FLAG(verbose)},
	/* for the completion of shells */
	{VERB_ALL, {"completions", KEY_COMPLETIONS, NULL, OPTION_HIDDEN, NULL, 0}, BY_FUNCTION},
};

#define NUM_OPTIONS		((int) (sizeof(option_rows) / sizeof(option_rows[0])))

static const Verb verbs[] = {
	{"put", VERB_PUT, "FILE [NAME]",
		"store a file, or standard input",
		"Stores a file (-: standard input) under a name, by default its own.",
		1, 2, verb_put},
	{"get", VERB_GET, "NAME [FILE]",
		"write a stored file to a file, or to standard output",
		"Writes a stored file to FILE (-: standard output), by default to the last part of its name here.",
		1, 2, verb_get},
	{"cat", VERB_CAT, "NAME...",
		"write stored files to standard output",
		"Writes stored files to standard output.",
		1, -1, verb_cat},
	{"ls", VERB_LS, "[PATTERN]",
		"list stored files",
		"Lists lengths and names. In PATTERN * stands for any characters, ? for one.",
		0, 1, verb_ls},
	{"stat", VERB_STAT, "NAME...",
		"show what is known of stored files",
		"Shows what is known of stored files.",
		1, -1, verb_stat},
	{"rm", VERB_RM, "[NAME|PATTERN...]",
		"delete stored files",
		"Deletes the rows of stored files: of that name, or if there is none, all that match it as a pattern of ls.",
		1, -1, verb_rm},
	{"mv", VERB_MV, "[OLD] NEW",
		"rename stored files",
		"Renames a stored file, or with --prefix OLD all whose names begin with OLD.",
		2, 2, verb_mv},
	{"cp", VERB_CP, "[OLD] NEW",
		"copy stored files, on the server",
		"Copies a stored file, or with --prefix OLD all whose names begin with OLD. The bytes stay on the server.",
		2, 2, verb_cp},
	{"cmp", VERB_CMP, "NAME NAME",
		"compare two stored files, on the server",
		"Says where two stored files differ first; bytes are counted from 1. The bytes stay on the server.",
		2, 2, verb_cmp},
	{"import", VERB_IMPORT, "DIR",
		"store all files below a directory",
		"Stores all files below DIR under their paths there. What is stored already is skipped, so a second run goes on where the first one stopped.",
		1, 1, verb_import},
	{"export", VERB_EXPORT, "DIR [PATTERN]",
		"write stored files below a directory",
		"Writes stored files below DIR, their names being the paths. What is there already is skipped.",
		1, 2, verb_export},
	{"sync", VERB_SYNC, "DIR",
		"make the table equal to a directory, or a directory equal to the table",
		"Makes the table equal to the tree DIR (--to-table), or the tree equal to the table (--to-tree). What differs is replaced; with --delete, what the other side has not is deleted.",
		1, 1, verb_sync},
	{"verify", VERB_VERIFY, "[NAME...]",
		"check stored files, or compare them with a directory",
		"Reads everything and checks it: the whole column with securefile_check(), or the files named.",
		0, -1, verb_verify},
	{"migrate", VERB_MIGRATE, "",
		"store the files that rows name by a path or URL",
		"Stores the files that rows name by a path or URL in the same rows. Rows that have a file are skipped, so a second run goes on where the first one stopped.",
		0, 0, verb_migrate},
	{"dump", VERB_DUMP, "DIR [-- pg_dump ARG...]",
		"copy columns to a directory that keeps many versions",
		"Makes a dump below DIR, which only takes what DIR does not have yet, and is a full restore point. With pg_dump that runs beside it, with the same snapshot.",
		1, -1, verb_dump},
	{"restore", VERB_RESTORE, "DIR [PATTERN]",
		"store files of a dump again",
		"Stores the files of a dump again, and the rows that are missing. What is there already is skipped.",
		1, 2, verb_restore},
	{"shrink", VERB_SHRINK, "",
		"give free space of a column back to the file system",
		"Gives free space of a column back to the file system, as holes of its data files, and shows how far that is. With --move the files become shorter, too.",
		0, 0, verb_shrink},
	{"removed", VERB_REMOVED, "[PATTERN]",
		"list what was removed and is kept for a time",
		"Lists values that rows have lost and that the column's retention still keeps, the newest last: time, what was done, length, and the key of the row.",
		0, 1, verb_removed},
	{"undelete", VERB_UNDELETE, "KEY|PATTERN...",
		"bring removed values back",
		"Stores the newest removed value of the row with that primary key again: in the row, if it has no file, or in a new one. The other columns of a deleted row get their defaults.",
		1, -1, verb_undelete},
	{"purge", VERB_PURGE, "",
		"end what is kept of removed values, and free its space",
		"Ends what the column's retention keeps of removed values, at once and for good, and says how many bytes became free.",
		0, 0, verb_purge},
	{"init", VERB_INIT, "",
		"make the table for files",
		"Makes the table, with a column for names and one for files, if it does not exist.",
		0, 0, verb_init},
	{"key", VERB_KEY, "generate FILE [NAME]",
		"make a master key for encrypted columns",
		"Makes a master key for encrypted columns, and writes it to a new FILE (-: standard output). NAME is by default key- and the date.",
		2, 3, verb_key},
};

#define NUM_VERBS		((int) (sizeof(verbs) / sizeof(verbs[0])))

const char *argp_program_version = "securefile " PGSF_VERSION;

/* The state of a parse. */
typedef struct Parse
{
	Options    *options;
	const Verb *verb;			/* null: not found yet */
	int			verb_at;		/* its index in argv; 0 in the second parse */
	bool		before[NUM_OPTIONS];	/* options that stood before it */
} Parse;

/* Is the last word of the line an -h without the name of a host? */
static bool
ends_in_h(const struct argp_state *state)
{
	for (int i = 1; i < state->argc - 1; i++)
		if (strcmp(state->argv[i], "--") == 0)
			return false;
	return state->argc > 1 && strcmp(state->argv[state->argc - 1], "-h") == 0;
}

/* An -h without a host means something else. */
static void
refuse_bare_h(struct argp_state *state)
{
	argp_error(state, "-h HOST is the server, as for psql; sizes for people: --human; "
			   "help: --help");
}

/* The verb of that name; an error of usage if there is none. */
static const Verb *
find_verb(const char *name, struct argp_state *state)
{
	for (int i = 0; i < NUM_VERBS; i++)
		if (strcmp(verbs[i].name, name) == 0)
			return &verbs[i];
	argp_error(state, "there is no verb \"%s\"", output_quoted(name));
	return NULL;
}

/* Remember an option that stands before the verb, which may turn out not to take it. */
static void
note_before(Parse *parse, int key)
{
	for (int i = 0; i < NUM_OPTIONS; i++)
		if (key != 0 && option_rows[i].option.key == key)
			parse->before[i] = true;
}

/* An option may have a row for some verbs, and another one for others. */
static bool
takes(const Verb *verb, int key)
{
	for (int i = 0; i < NUM_OPTIONS; i++)
		if (option_rows[i].option.key == key && (option_rows[i].verbs & verb->bit) != 0)
			return true;
	return false;
}

static void
check_before(const Parse *parse, struct argp_state *state)
{
	for (int i = 0; i < NUM_OPTIONS; i++)
		if (parse->before[i] && !takes(parse->verb, option_rows[i].option.key))
			argp_error(state, "%s does not take --%s",
					   parse->verb->name, option_rows[i].option.name);
}

/* Which side is changed has to be said, since the other one would lose files. */
static void
check_sync(Options *options, struct argp_state *state)
{
	if (options->to_table == options->to_tree)
		argp_error(state, "say which side is changed: --to-table, so that the table becomes equal "
				   "to DIR, or --to-tree, so that DIR becomes equal to the table");
	if ((options->force || options->max_delete >= 0) && !options->delete)
		argp_error(state, "--force and --max-delete need --delete");
	options->replace = true;
}

static void
check_shrink(const Options *options, struct argp_state *state)
{
	if (options->estimate && (options->rate > 0 || options->move))
		argp_error(state, "--estimate changes nothing, and takes neither --rate nor --move");
	if ((options->force || options->allow_decoding) && !options->move)
		argp_error(state, "--force and --allow-decoding need --move");
}

/* A value that goes to a file leaves the table as it is, and there is one of them. */
static void
check_undelete(Options *options, struct argp_state *state)
{
	int64_t		xid;

	options->replace |= options->force;
	if (options->xid != NULL && !number_parse(options->xid, 1, INT64_MAX, &xid))
		argp_error(state, "--xid wants the number of a transaction, not \"%s\"",
				   output_quoted(options->xid));
	if (options->to != NULL && options->nargs > 1)
		argp_error(state, "--to wants one key");
	if (options->to != NULL && options->dry_run)
		argp_error(state, "--to changes nothing in the table, and takes no --dry-run");
	if (options->to != NULL && options->json && strcmp(options->to, "-") == 0)
		argp_error(state, "--json and the file cannot both go to standard output");
}

/* Checks that need the whole line. */
static void
check_whole(const Parse *parse, struct argp_state *state)
{
	Options    *options = parse->options;
	const Verb *verb = parse->verb;
	bool		moves = (verb->bit & (VERB_MV | VERB_CP)) != 0;

	/* the first argument, for which --prefix may stand */
	int			named = options->has_prefix && (moves || verb->bit == VERB_RM) ? 1 : 0;

	if (verb->bit == VERB_SYNC)
		check_sync(options, state);
	if (verb->bit == VERB_DUMP || verb->bit == VERB_RESTORE)
	{
		const char *wrong = options->nargs < 1 ? NULL : dump_options_wrong(options, verb);

		if (wrong != NULL)
			argp_error(state, "%s", wrong);
	}
	else if (options->table == NULL && verb->bit != VERB_KEY)
		argp_error(state, "say with -t which table");
	if (options->nargs < verb->min_args - named)
		argp_error(state, "%s wants %s", verb->name, verb->arguments);
	if (verb->max_args >= 0 && options->nargs > verb->max_args - (moves ? named : 0))
		argp_error(state, "too many arguments: %s wants %s", verb->name,
				   *verb->arguments == '\0' ? "options only" : verb->arguments);
	if (verb->bit == VERB_RM && options->has_prefix && *options->prefix == '\0')
		argp_error(state, "--prefix wants a text; all files are '*'");
	if (reserved_is(options->prefix))
		argp_error(state, "names that begin with \"%s\" are those of files that are not complete",
				   RESERVED_PREFIX);
	if (verb->bit == VERB_PUT && strcmp(options->args[0], "-") == 0 && options->nargs == 1)
		argp_error(state, "standard input has no name: give one");
	if (options->resume && strcmp(options->args[0], "-") == 0)
		argp_error(state, "--resume wants a file, not standard input");
	if (verb->bit == VERB_GET && options->json && options->nargs == 2 &&
		strcmp(options->args[1], "-") == 0)
		argp_error(state, "--json and the file cannot both go to standard output");
	if (verb->bit == VERB_CAT && options->json)
		argp_error(state, "--json and the file cannot both go to standard output");
	if (options->links == LINKS_KEEP && !options->meta && !options->quick &&
		verb->bit != VERB_VERIFY)
		argp_error(state, "--links=keep needs --meta");
	if (verb->bit == VERB_KEY && strcmp(options->args[0], "generate") != 0)
		argp_error(state, "key can only generate, not \"%s\"", output_quoted(options->args[0]));
	if (verb->bit == VERB_MIGRATE && options->from == NULL)
		argp_error(state, "say with --from which column has the paths or URLs");
	if (verb->bit == VERB_SHRINK)
		check_shrink(options, state);
	if (verb->bit == VERB_UNDELETE)
		check_undelete(options, state);
	if (verb->bit == VERB_KEY && options->append && strcmp(options->args[1], "-") == 0)
		argp_error(state, "--append wants a file, not standard output");
}

/* The options that these verbs take, in argp's form. */
static struct argp_option *
options_of(int bits)
{
	struct argp_option *found = calloc(NUM_OPTIONS + 1, sizeof(struct argp_option));
	int			n = 0;

	if (found == NULL)
		abort();
	for (int i = 0; i < NUM_OPTIONS; i++)
		if (option_rows[i].verbs & bits)
			found[n++] = option_rows[i].option;
	return found;
}

/* What the completion of shells asks for: of a verb, or if that is null of what may precede one. */
static void
show_completions(const Verb *verb)
{
	if (verb == NULL)
		help_complete_verbs(verbs, NUM_VERBS);
	help_complete_options(options_of(verb == NULL ? VERB_ALL : verb->bit));
}

/* Set the field that the table names for an option; false if it names none. */
static bool
set_field(Options *options, int key, char *arg)
{
	for (int i = 0; i < NUM_OPTIONS; i++)
	{
		const OptionRow *row = &option_rows[i];
		char	   *field = (char *) options + row->field;

		if (row->option.key != key || row->effect == SPECIAL)
			continue;
		if (row->effect == SETS_TEXT)
			*(const char **) field = arg;
		else
			*(bool *) field = true;
		return true;
	}
	return false;
}

/* The first argument is the verb; the first parse ends there. */
static void
take_verb(Parse *parse, const char *name, struct argp_state *state)
{
	parse->verb_at = state->next - 1;
	parse->verb = find_verb(name, state);
	check_before(parse, state);
	state->next = state->argc;
}

/* argp calls this for each option, and with its own keys for arguments and the end. */
static error_t
parse_option(int key, char *arg, struct argp_state *state)
{
	Parse	   *parse = state->input;
	Options    *options = parse->options;

	if (parse->verb == NULL)
		note_before(parse, key);
	if (key == 'h' && arg[0] == '-')
		refuse_bare_h(state);
	if (set_field(options, key, arg) || optionvalue_take(options, key, arg, state))
		return 0;
	switch (key)
	{
		case KEY_COMPLETIONS:
			show_completions(parse->verb);
			exit(EXIT_DONE);
		case ARGP_KEY_INIT:
			if (ends_in_h(state))
			{
				/* which argp has not set yet */
				state->name = (char *) "securefile";
				refuse_bare_h(state);
			}
			break;
		case ARGP_KEY_ARG:

			/*
			 * behind the verb argp then hands over all arguments as
			 * ARGP_KEY_ARGS
			 */
			if (parse->verb != NULL)
				return ARGP_ERR_UNKNOWN;
			take_verb(parse, arg, state);
			break;
		case ARGP_KEY_ARGS:
			options->args = state->argv + state->next;
			options->nargs = state->argc - state->next;
			break;
		case ARGP_KEY_END:
			if (parse->verb == NULL)
				argp_error(state, "say what to do: \"securefile --help\" shows the verbs");
			if (parse->verb_at == 0)
				check_whole(parse, state);
			break;
		default:
			return ARGP_ERR_UNKNOWN;
	}
	return 0;
}

const Verb *
options_parse(int argc, char **argv, Options *options)
{
	static const char name_of[] = "securefile ";
	struct argp before = {.options = help_hide(options_of(VERB_ALL)), .parser = parse_option,
		.args_doc = "VERB [ARGUMENT...]", .doc = help_verbs(verbs, NUM_VERBS)};
	struct argp behind = {.parser = parse_option};
	Parse		parse = {.options = options};
	char	   *name;

	memset(options, 0, sizeof(*options));
	options->prefix = "";
	options->jobs = DEFAULT_JOBS;
	options->part_size = DEFAULT_PART;
	options->max_delete = -1;
	options->timeout = DEFAULT_TIMEOUT;
	options->retries = DEFAULT_RETRIES;
	options->batch = DEFAULT_BATCH;
	options->delta_from = DEFAULT_DELTA_FROM;
	options->delta_granule = DEFAULT_GRANULE;
	argp_err_exit_status = EXIT_USAGE;
	argp_parse(&before, argc, argv, ARGP_IN_ORDER, NULL, &parse);

	/*
	 * argp begins its messages with argv[0], which is "securefile put" for
	 * the second parse
	 */
	argc -= parse.verb_at;
	argv += parse.verb_at;
	parse.verb_at = 0;
	name = malloc(sizeof(name_of) + strlen(argv[0]));
	if (name == NULL)
		abort();
	strcat(strcpy(name, name_of), argv[0]);
	argv[0] = name;
	behind.options = options_of(parse.verb->bit);
	behind.args_doc = parse.verb->arguments;
	behind.doc = parse.verb->purpose;
	argp_parse(&behind, argc, argv, 0, NULL, &parse);
	options->meta = options->meta || options->quick;
	return parse.verb;
}
