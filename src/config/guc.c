/*-------------------------------------------------------------------------
 *
 * guc.c
 *	  Settings: one definition each, described in doc/reference.md.
 *
 * Contexts: a setting that costs only the session that sets it is USERSET.  The
 * choice of a kernel interface is the administrator's (SUSET).  A setting that must
 * be the same for all processes comes from the configuration file (SIGHUP), and one
 * that sizes shared memory or prepares the postmaster is fixed at start.
 *
 *-------------------------------------------------------------------------
 */
#include "base/base.h"

#include <limits.h>

#include "config/config.h"
#include "miscadmin.h"
#include "utils/guc.h"

#define GATHER_MIN_KB		64
#define GATHER_MAX_KB		(SF_WRITE_GATHER_MAX_BYTES / 1024)
#define GATHER_DEFAULT_KB	(4 * 1024)
#define GATHER_STEP_KB		4

#define CACHED_WRITE_DEFAULT_KB	256

#define TRANSACTION_MIN_KB		0
#define TRANSACTION_MAX_KB		(64 * 1024 * 1024)
#define TRANSACTION_DEFAULT_KB	(64 * 1024)

#define RETENTION_DEFAULT_MS	(60 * 60 * 1000)

/*
 * a second: half of what an ordinary disk takes beside others, and WAL of a segment in half a
 * second
 */
#define SHRINK_DEFAULT_KB	(32 * 1024)

/* the memory that a dozen sessions keep which move values of some MB */
#define KEPT_DEFAULT_KB		(512 * 1024)
#define KEPT_TIMEOUT_MS		10000

/*
 * The text of a row has at most 1 GB, twice the bytes of its values, so that a value of the
 * highest limit can pass; the default leaves the rest to the other columns of the row
 */
#define DUMP_LIMIT_MAX_KB		(512 * 1024 - 1)
#define DUMP_LIMIT_DEFAULT_KB	(511 * 1024)

int			sf_io_method = SF_IO_METHOD_LIBAIO;
bool		sf_direct_io = true;
int			sf_io_concurrency = 8;
int			sf_write_gather_size_kb = GATHER_DEFAULT_KB;
bool		sf_syncer = true;
int			sf_cached_write_size_kb = CACHED_WRITE_DEFAULT_KB;
int			sf_procedure_retention_ms = RETENTION_DEFAULT_MS;
int			sf_transaction_memory_kb = TRANSACTION_DEFAULT_KB;
int			sf_monitor_naptime_s = 10;
bool		sf_monitor_enabled = true;
int			sf_release_threshold = 0;
int			sf_describe_as = SF_DESCRIBE_AS_BYTEA;
int			sf_dump_oversize = SF_DUMP_OVERSIZE_ERROR;
int			sf_dump_oversize_limit_kb = DUMP_LIMIT_DEFAULT_KB;
int			sf_max_columns = 1024;
bool		sf_keep_memory = true;
int			sf_kept_memory_total_kb = KEPT_DEFAULT_KB;
int			sf_kept_memory_timeout_ms = KEPT_TIMEOUT_MS;
char	   *sf_key_command = NULL;
char	   *sf_master_key = NULL;
int			sf_key_timeout_s = 30;
int			sf_cipher = SF_CIPHER_SETTING_AUTO;
char	   *sf_fetch_from = NULL;
int			sf_fetch_rate_kb = 0;
int			sf_shrink_rate_kb = SHRINK_DEFAULT_KB;

static const struct config_enum_entry io_methods[] = {
	{"sync", SF_IO_METHOD_SYNC, false},
	{"libaio", SF_IO_METHOD_LIBAIO, false},
	{"io_uring", SF_IO_METHOD_IO_URING, false},
	{NULL, 0, false}
};

StaticAssertDecl(lengthof(io_methods) == SF_IO_METHODS + 1, "a name for every method");

static const struct config_enum_entry describe_as[] = {
	{"bytea", SF_DESCRIBE_AS_BYTEA, false},
	{"securefile", SF_DESCRIBE_AS_SECUREFILE, false},
	{NULL, 0, false}
};

static const struct config_enum_entry dump_oversize[] = {
	{"error", SF_DUMP_OVERSIZE_ERROR, false},
	{"marker", SF_DUMP_OVERSIZE_MARKER, false},
	{NULL, 0, false}
};

static const struct config_enum_entry ciphers[] = {
	{"auto", SF_CIPHER_SETTING_AUTO, false},
	{"aes", SF_CIPHER_SETTING_AES, false},
	{"chacha20", SF_CIPHER_SETTING_CHACHA20, false},
	{NULL, 0, false}
};

/*
 * A build without OpenSSL has one cipher only.  It says so as for an option word that it
 * does not support, and not that there were no such cipher.
 */
static bool
check_cipher(int *newval, void **extra, GucSource source)
{
#ifndef SF_OPENSSL
	if (*newval == SF_CIPHER_SETTING_AES)
	{
		GUC_check_errcode(ERRCODE_FEATURE_NOT_SUPPORTED);
		GUC_check_errmsg("cipher \"aes\" is not supported by this build");
		GUC_check_errdetail("This build of securefile has no OpenSSL.");
		GUC_check_errhint("Use auto or chacha20.");
		return false;
	}
#endif
	return true;
}

/*
 * A session that has asked for markers knows what they are.  An application has not asked, for
 * which somebody has set them: it could take the text of a marker for a value.
 */
static bool
check_dump_oversize(int *newval, void **extra, GucSource source)
{
	if (*newval == SF_DUMP_OVERSIZE_ERROR || source == PGC_S_CLIENT || source == PGC_S_OVERRIDE ||
		source == PGC_S_INTERACTIVE || source == PGC_S_SESSION)
		return true;
	GUC_check_errmsg("\"securefile.dump_oversize\" cannot be set to \"marker\" for other sessions");
	GUC_check_errhint("Set it for the session of a dump: PGOPTIONS=\"-c securefile.dump_oversize=marker\" pg_dump ..");
	return false;
}

/* Gather buffers are whole allocation blocks. */
static bool
round_gather_size(int *newval, void **extra, GucSource source)
{
	*newval -= *newval % GATHER_STEP_KB;
	return true;
}

bool
sf_config_is_key_name(const char *name, size_t len_bytes)
{
	static const char allowed[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
		"0123456789_.:-";

	StaticAssertStmt(sizeof(allowed) - 1 == 2 * 26 + 10 + 4, "each letter and digit is there");
	if (len_bytes < 1 || len_bytes > SF_KEY_NAME_MAX)
		return false;
	for (size_t i = 0; i < len_bytes; i++)
	{
		/* not strchr(), which would find the zero at the end of the list, too */
		if (memchr(allowed, name[i], sizeof(allowed) - 1) == NULL)
			return false;
	}
	return true;
}

/* Empty, or a name that a key can have. */
static bool
check_master_key(char **newval, void **extra, GucSource source)
{
	if (**newval == '\0' || sf_config_is_key_name(*newval, strlen(*newval)))
		return true;
	GUC_check_errdetail("The name of a key has at most %d bytes, and no other characters than A-Z, a-z, 0-9, \"_\", \".\", \":\" and \"-\".",
						SF_KEY_NAME_MAX);
	return false;
}

static void
define_io(void)
{
	DefineCustomEnumVariable("securefile.io_method",
							 "How data files are read and written.",
							 "Where the kernel refuses the method the synchronous one is used.",
							 &sf_io_method, SF_IO_METHOD_LIBAIO, io_methods,
							 PGC_SUSET, 0, NULL, NULL, NULL);
	DefineCustomBoolVariable("securefile.direct_io",
							 "Data files bypass the operating system's cache.",
							 "Reads of columns with a cache option use it in any case.",
							 &sf_direct_io, true,
							 PGC_SIGHUP, 0, NULL, NULL, NULL);
	DefineCustomIntVariable("securefile.io_concurrency",
							"Number of reads or writes a session keeps in flight.",
							NULL,
							&sf_io_concurrency, 8, 1, 64,
							PGC_USERSET, 0, NULL, NULL, NULL);
	DefineCustomIntVariable("securefile.write_gather_size",
							"Bytes gathered before they are written together.",
							"A session that writes uses two buffers of this size.",
							&sf_write_gather_size_kb, GATHER_DEFAULT_KB,
							GATHER_MIN_KB, GATHER_MAX_KB,
							PGC_USERSET, GUC_UNIT_KB, round_gather_size, NULL, NULL);
	DefineCustomBoolVariable("securefile.syncer",
							 "Leaves the flush of data that is in WAL to a background process.",
							 "Else each commit waits for a flush of its data files, too.",
							 &sf_syncer, true,
							 PGC_SIGHUP, 0, NULL, NULL, NULL);
	DefineCustomIntVariable("securefile.cached_write_size",
							"Writes up to this size go through the operating system's cache.",
							"Only those that are in WAL, and whose flush is left to the syncer.",
							&sf_cached_write_size_kb, CACHED_WRITE_DEFAULT_KB,
							0, GATHER_MAX_KB,
							PGC_USERSET, GUC_UNIT_KB, NULL, NULL, NULL);
	DefineCustomIntVariable("securefile.transaction_memory",
							"Memory for what a transaction has to note of space at its end.",
							"What is more is summed up, and then noted at once.",
							&sf_transaction_memory_kb, TRANSACTION_DEFAULT_KB,
							TRANSACTION_MIN_KB, TRANSACTION_MAX_KB,
							PGC_USERSET, GUC_UNIT_KB, NULL, NULL, NULL);

	/*
	 * a role that may call a procedure may also keep a transaction open,
	 * which holds up more
	 */
	DefineCustomIntVariable("securefile.procedure_retention",
							"Time that values which a procedure has read are kept for it when it commits.",
							"0: they are not kept; -1: until the procedure ends.",
							&sf_procedure_retention_ms, RETENTION_DEFAULT_MS, -1, INT_MAX,
							PGC_USERSET, GUC_UNIT_MS, NULL, NULL, NULL);
}

/* The processes in the background, and the memory that sessions keep meanwhile. */
static void
define_background(void)
{
	DefineCustomBoolVariable("securefile.monitor",
							 "Starts the background free-space monitor.",
							 NULL,
							 &sf_monitor_enabled, true,
							 PGC_SIGHUP, 0, NULL, NULL, NULL);
	DefineCustomIntVariable("securefile.monitor_naptime",
							"Time the free-space monitor sleeps between two passes.",
							NULL,
							&sf_monitor_naptime_s, 10, 1, 3600,
							PGC_SIGHUP, GUC_UNIT_S, NULL, NULL, NULL);
	DefineCustomIntVariable("securefile.release_threshold",
							"Percent of a column's files that is free and takes room, above which the monitor gives free space back to the file system.",
							"0: it does not.",
							&sf_release_threshold, 0, 0, 100,
							PGC_SIGHUP, 0, NULL, NULL, NULL);
	DefineCustomStringVariable("securefile.fetch_from",
							   "Connection string of the server that a standby fetches data from which is not in WAL.",
							   "Empty: none is fetched.",
							   &sf_fetch_from, "",
							   PGC_SIGHUP, GUC_SUPERUSER_ONLY, NULL, NULL, NULL);
	DefineCustomIntVariable("securefile.fetch_rate",
							"Most data that a standby fetches in a second.",
							"0: no limit.",
							&sf_fetch_rate_kb, 0, 0, INT_MAX,
							PGC_SIGHUP, GUC_UNIT_KB, NULL, NULL, NULL);
	DefineCustomIntVariable("securefile.shrink_rate",
							"Most data that securefile_shrink() moves in a second.",
							"0: no limit.",
							&sf_shrink_rate_kb, SHRINK_DEFAULT_KB, 0, INT_MAX,
							PGC_SUSET, GUC_UNIT_KB, NULL, NULL, NULL);
	DefineCustomIntVariable("securefile.kept_memory_total",
							"Memory that all sessions together keep between transactions.",
							"Above it sessions give theirs back when a transaction ends.",
							&sf_kept_memory_total_kb, KEPT_DEFAULT_KB, 0, INT_MAX,
							PGC_SIGHUP, GUC_UNIT_KB, NULL, NULL, NULL);
	DefineCustomIntVariable("securefile.kept_memory_timeout",
							"Time without large values after which a session gives back the memory it keeps.",
							"0: it keeps it.",
							&sf_kept_memory_timeout_ms, KEPT_TIMEOUT_MS, 0, INT_MAX,
							PGC_SIGHUP, GUC_UNIT_MS, NULL, NULL, NULL);
}

/* The command may have a password in it, so others are not shown it. */
static void
define_keys(void)
{
	DefineCustomStringVariable("securefile.key_command",
							   "Shell command that prints the master keys, a line \"name key\" each.",
							   "It is run at server start, and by securefile_load_keys().",
							   &sf_key_command, "",
							   PGC_SIGHUP, GUC_SUPERUSER_ONLY, NULL, NULL, NULL);
	DefineCustomIntVariable("securefile.key_timeout",
							"Time after which the command that prints the master keys is stopped.",
							NULL,
							&sf_key_timeout_s, 30, 1, 3600,
							PGC_SIGHUP, GUC_UNIT_S, NULL, NULL, NULL);
	DefineCustomStringVariable("securefile.master_key",
							   "Name of the master key that new data keys are wrapped with.",
							   "Empty: the only key that is loaded.",
							   &sf_master_key, "",
							   PGC_SIGHUP, 0, check_master_key, NULL, NULL);
	DefineCustomEnumVariable("securefile.cipher",
							 "Cipher that new data keys of encrypted columns are for.",
							 "auto: aes where the processor has it, else chacha20.",
							 &sf_cipher, SF_CIPHER_SETTING_AUTO, ciphers,
							 PGC_SUSET, 0, check_cipher, NULL, NULL);
}

static void
define_clients(void)
{
	DefineCustomEnumVariable("securefile.describe_as",
							 "The type that clients are told that securefile columns and parameters have.",
							 "Drivers know bytea.  Values have the same form in any case.",
							 &sf_describe_as, SF_DESCRIBE_AS_BYTEA, describe_as,
							 PGC_USERSET, 0, NULL, NULL, NULL);
	DefineCustomEnumVariable("securefile.dump_oversize",
							 "What the text form of a value is that is too long for a dump.",
							 "marker: a text that stands for the value until \"securefile restore\" fills the row.",
							 &sf_dump_oversize, SF_DUMP_OVERSIZE_ERROR, dump_oversize,
							 PGC_USERSET, 0, check_dump_oversize, NULL, NULL);
	DefineCustomIntVariable("securefile.dump_oversize_limit",
							"Length above which a value is too long for a dump.",
							NULL,
							&sf_dump_oversize_limit_kb, DUMP_LIMIT_DEFAULT_KB,
							0, DUMP_LIMIT_MAX_KB,
							PGC_USERSET, GUC_UNIT_KB, NULL, NULL, NULL);
}

/* The server refuses to define such variables later than at start. */
static void
define_startup(void)
{
	DefineCustomIntVariable("securefile.max_columns",
							"Number of columns whose statistics are kept.",
							NULL,
							&sf_max_columns, 1024, 16, 1024 * 1024,
							PGC_POSTMASTER, 0, NULL, NULL, NULL);
	DefineCustomBoolVariable("securefile.keep_memory",
							 "Sessions that move large values keep freed memory for the next one.",
							 "Up to 64 MB each; fresh memory costs more than moving the data.",
							 &sf_keep_memory, true,
							 PGC_POSTMASTER, 0, NULL, NULL, NULL);
}

/*
 * Without preload the prefix stays open: settings of postgresql.conf that are
 * defined at server start only are then no misspellings.
 */
void
sf_config_define(void)
{
	define_io();
	define_background();
	define_keys();
	define_clients();
	if (!process_shared_preload_libraries_in_progress)
		return;
	define_startup();
	MarkGUCPrefixReserved("securefile");
}
