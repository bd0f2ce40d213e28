/*-------------------------------------------------------------------------
 *
 * config.h
 *	  Settings (GUCs) and column options.
 *
 * guc.c		settings
 * options.c	column options: the words of the type modifier
 * max_size.c	the limit of a column, one of these words
 * retention.c	how long a column keeps what was removed, another one
 *
 *-------------------------------------------------------------------------
 */
#ifndef SF_CONFIG_H
#define SF_CONFIG_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef enum SfIoMethod
{
	SF_IO_METHOD_SYNC,
	SF_IO_METHOD_LIBAIO,
	SF_IO_METHOD_IO_URING,
} SfIoMethod;

#define SF_IO_METHODS			3

typedef enum SfCipherSetting
{
	SF_CIPHER_SETTING_AUTO,		/* by the processor */
	SF_CIPHER_SETTING_AES,
	SF_CIPHER_SETTING_CHACHA20,
} SfCipherSetting;

typedef enum SfDescribeAs
{
	SF_DESCRIBE_AS_BYTEA,
	SF_DESCRIBE_AS_SECUREFILE,
} SfDescribeAs;

typedef enum SfDumpOversize
{
	SF_DUMP_OVERSIZE_ERROR,
	SF_DUMP_OVERSIZE_MARKER,
} SfDumpOversize;

extern int	sf_io_method;		/* securefile.io_method, an SfIoMethod */
extern bool sf_direct_io;		/* securefile.direct_io */
extern int	sf_io_concurrency;	/* securefile.io_concurrency, requests */
extern int	sf_write_gather_size_kb;	/* securefile.write_gather_size */
extern bool sf_syncer;			/* securefile.syncer */
extern int	sf_cached_write_size_kb;	/* securefile.cached_write_size */
extern int	sf_procedure_retention_ms;	/* securefile.procedure_retention */
extern int	sf_transaction_memory_kb;	/* securefile.transaction_memory */
extern int	sf_monitor_naptime_s;	/* securefile.monitor_naptime */
extern bool sf_monitor_enabled; /* securefile.monitor */
extern int	sf_release_threshold;	/* securefile.release_threshold, percent */
extern int	sf_describe_as;		/* securefile.describe_as, an SfDescribeAs */
extern int	sf_dump_oversize;	/* securefile.dump_oversize, an SfDumpOversize */
extern int	sf_dump_oversize_limit_kb;	/* securefile.dump_oversize_limit */
extern int	sf_max_columns;		/* securefile.max_columns: statistics slots */
extern bool sf_keep_memory;		/* securefile.keep_memory */
extern int	sf_kept_memory_total_kb;	/* securefile.kept_memory_total */
extern int	sf_kept_memory_timeout_ms;	/* securefile.kept_memory_timeout */
extern char *sf_key_command;	/* securefile.key_command; "": none */
extern char *sf_master_key;		/* securefile.master_key; "": none is named */
extern int	sf_key_timeout_s;	/* securefile.key_timeout */
extern int	sf_cipher;			/* securefile.cipher, an SfCipherSetting */
extern char *sf_fetch_from;		/* securefile.fetch_from; "": nothing is
								 * fetched */
extern int	sf_fetch_rate_kb;
extern int	sf_shrink_rate_kb;	/* securefile.fetch_rate; 0: no limit */

/* Define all GUCs, and act on those that act at once; called from _PG_init. */
extern void sf_config_define(void);

/* Longest name of a master key, in bytes. */
#define SF_KEY_NAME_MAX			31

/*
 * May a master key have this name: 1 to SF_KEY_NAME_MAX bytes, each an ASCII letter, a
 * digit, or one of "_.:-"?  Never throws.
 */
extern bool sf_config_is_key_name(const char *name, size_t len_bytes);

/* Largest setting of securefile.write_gather_size. */
#define SF_WRITE_GATHER_MAX_BYTES	(16 * 1024 * 1024)

/* Bytes of one gather buffer. */
#define sf_write_gather_bytes()	((uint64_t) sf_write_gather_size_kb * 1024)
#define sf_cached_write_bytes()	((uint64_t) sf_cached_write_size_kb * 1024)

/* Longest value that securefile.dump_oversize leaves alone, in bytes. */
#define sf_dump_oversize_limit_bytes()	((int64_t) sf_dump_oversize_limit_kb * 1024)

/*
 * Column options: the type modifier.  -1 is "all defaults"; otherwise the low
 * bits below.  A stored modifier is never 0 and never negative.
 *
 *	 bit 0		filesystem_like_logging (else logging)
 *	 bits 1-2	cache mode: 0 default, 1 nocache, 2 cache_reads, 3 cache
 *	 bit 3		disable_storage_in_row (else enable_storage_in_row)
 *	 bits 4-5	compression: an SfCompression
 *	 bit 6		deduplicate (else keep_duplicates)
 *	 bit 7		encrypt (else decrypt)
 *	 bits 8-9	retention: a unit, 0 minutes, 1 hours, 2 days, 3 weeks
 *	 bits 10-11 reserved, 0
 *	 bit 12		hash (else no_hash)
 *	 bits 13-19 max_size: a number, 1 to 127; 0: no limit
 *	 bits 20-23 max_size: that many MB times two to the power of this
 *	 bits 24-29 retention: that many of the unit, 1 to 63; 0: nothing is kept
 *	 bit 30		reserved, 0
 */
#define SF_OPT_FS_LIKE_LOGGING	0x0001
#define SF_OPT_CACHE_SHIFT		1
#define SF_OPT_CACHE_MASK		0x0006
#define SF_OPT_DISABLE_IN_ROW	0x0008
#define SF_OPT_COMPRESSION_SHIFT	4
#define SF_OPT_COMPRESSION_MASK		0x0030
#define SF_OPT_DEDUPLICATE		0x0040
#define SF_OPT_ENCRYPT			0x0080
#define SF_OPT_HASH				0x1000
#define SF_OPT_MAX_SIZE_NUMBER_SHIFT	13
#define SF_OPT_MAX_SIZE_NUMBER_MASK		0x7F
#define SF_OPT_MAX_SIZE_POWER_SHIFT		20
#define SF_OPT_MAX_SIZE_POWER_MASK		0xF
#define SF_OPT_MAX_SIZE_BITS	0x00FFE000
#define SF_OPT_RETENTION_UNIT_SHIFT		8
#define SF_OPT_RETENTION_UNIT_MASK		0x3
#define SF_OPT_RETENTION_NUMBER_SHIFT	24
#define SF_OPT_RETENTION_NUMBER_MASK	0x3F
#define SF_OPT_RETENTION_BITS	0x3F000300

typedef enum SfCacheMode
{
	SF_CACHE_DEFAULT = 0,
	SF_CACHE_NOCACHE,
	SF_CACHE_READS,
	SF_CACHE_FULL,
} SfCacheMode;

/* How hard a column tries to compress; which codec that is, transform/ says. */
typedef enum SfCompression
{
	SF_COMPRESSION_NONE = 0,
	SF_COMPRESSION_LOW,
	SF_COMPRESSION_MEDIUM,
	SF_COMPRESSION_HIGH,
} SfCompression;

/* Options of a column, decoded from its type modifier. */
typedef struct SfOptions
{
	bool		fs_like_logging;
	bool		in_row;			/* values up to SF_IN_ROW_MAX stay in the row */
	SfCacheMode cache;			/* never SF_CACHE_DEFAULT */
	SfCompression compression;	/* of what is written from now on */
	bool		encrypt;		/* likewise */
	bool		deduplicate;	/* likewise */
	bool		hash;			/* the SHA-256 of it is kept; likewise */
	uint64_t	max_bytes;		/* the segment grows no further; 0: no limit */
	int64_t		retention_us;	/* how long what was removed is kept; 0: it is
								 * not */
} SfOptions;

#define SF_IN_ROW_MAX			4000

/*
 * A column of type securefile: its table and number, and how its values are stored.
 * ddl/ makes it, since only ddl/ reads the catalog; all other rooms are given it.
 */
typedef struct SfColumn
{
	uint32_t	table_oid;
	int16_t		attnum;
	bool		permanent;		/* else: no segment, all values INLINE */
	SfOptions	options;
} SfColumn;

/* Is what is written to a column now encrypted? */
static inline bool
sf_config_encrypts(const SfColumn *column)
{
	return column->permanent && column->options.encrypt;
}

/* Does a column keep each content once, of what is written now? */
static inline bool
sf_config_deduplicates(const SfColumn *column)
{
	return column->permanent && column->options.deduplicate;
}

/* the mode that SF_CACHE_DEFAULT stands for: repeated reads are fastest with it */
#define SF_CACHE_MODE_DEFAULT	SF_CACHE_READS

/* Decode a type modifier; bits that mean nothing are ignored.  Never throws. */
extern SfOptions sf_config_options(int32_t typmod);

/* Bytes of max_size in a type modifier; 0: no limit.  Never throws. */
extern uint64_t sf_config_max_bytes(int32_t typmod);

/*
 * The same type modifier with another max_size: "96 GB", say, or "none".  ERROR for a text
 * that is no size, for a size that a modifier cannot say exactly, and for "none" where the
 * modifier has a retention.
 */
extern int32_t sf_config_with_max_size(int32_t typmod, const char *text);

/* The size in an option word such as "max_size 96 GB"; NULL: it is another word. */
extern const char *sf_config_max_size_word(const char *word);

/* A size, a whole number of MB, as it stands in such a word; palloc'd. */
extern char *sf_config_size_text(uint64_t bytes);

/*
 * Microseconds of the retention in a type modifier; 0: there is none.  A modifier without
 * max_size has none, whatever its bits are.  Never throws.
 */
extern int64_t sf_config_retention_us(int32_t typmod);

/* The retention of a type modifier that has one, as it stands in an option word; palloc'd. */
extern char *sf_config_retention_text(int32_t typmod);

/* The time in an option word such as "retention 7 days"; NULL: it is another word. */
extern const char *sf_config_retention_word(const char *word);

/*
 * Bits of the type modifier for a time such as "7 days"; 0 for "none".  ERROR for a text that is
 * no time, and for a time that a modifier cannot say exactly.
 */
extern int32_t sf_config_retention_bits(const char *text);

/* ERROR if a type modifier has a retention and no max_size. */
extern void sf_config_require_limit(int32_t typmod);

/*
 * Type modifier for option words, in any order.  ERROR for an unknown,
 * repeated, contradicting or unsupported word.
 */
extern int32_t sf_config_parse_options(char **words, int nwords);

/*
 * Its text as format_type() shows it, "(word, word)", or "" when all is at its
 * default; palloc'd.  sf_config_parse_options() of these words gives typmod.
 */
extern char *sf_config_print_options(int32_t typmod);

#endif							/* SF_CONFIG_H */
