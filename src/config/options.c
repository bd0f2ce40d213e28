/*-------------------------------------------------------------------------
 *
 * options.c
 *	  Column options: the words of the type modifier.
 *
 * One table has them all but retention and max_size, in the order in which they are shown.  A word
 * that says the default is accepted and leaves no trace, so that a column with all
 * defaults has no modifier, whichever way it was written.
 *
 * A word that can be used is accepted here whatever the table is and whether a
 * master key is loaded: a cast has neither.  Room ddl asks for both, when a
 * column gets the word.
 *
 *-------------------------------------------------------------------------
 */
#include "base/base.h"

#include "config/config.h"
#include "lib/stringinfo.h"

/* Words of one group exclude each other. */
typedef enum OptionGroup
{
	GROUP_COMPRESSION,
	GROUP_DEDUPLICATION,
	GROUP_ENCRYPTION,
	GROUP_HASH,
	GROUP_LOGGING,
	GROUP_CACHE,
	GROUP_IN_ROW,
	GROUP_RETENTION,
} OptionGroup;

#define NGROUPS (GROUP_RETENTION + 1)

/* May a word be used? */
typedef enum Support
{
	SUPPORTED,
	LACKS_LZ4,					/* a build with the library has it */
	LACKS_ZSTD,
} Support;

typedef struct OptionWord
{
	const char *word;
	OptionGroup group;
	Support		support;
	int32_t		bits;			/* in the modifier; 0: nothing to note */
} OptionWord;

#define CACHE_BITS(mode) \
	((mode) == SF_CACHE_MODE_DEFAULT ? 0 : (mode) << SF_OPT_CACHE_SHIFT)

#define COMPRESSION_BITS(level)	((level) << SF_OPT_COMPRESSION_SHIFT)

/* Words that need a library are refused by a build without it. */
#ifdef SF_LZ4
#define WITH_LZ4	SUPPORTED
#else
#define WITH_LZ4	LACKS_LZ4
#endif
#ifdef SF_ZSTD
#define WITH_ZSTD	SUPPORTED
#else
#define WITH_ZSTD	LACKS_ZSTD
#endif

/* Of two words with the same bits, the first one is shown. */
static const OptionWord option_words[] = {
	{"compress_low", GROUP_COMPRESSION, WITH_LZ4, COMPRESSION_BITS(SF_COMPRESSION_LOW)},
	{"compress_medium", GROUP_COMPRESSION, WITH_ZSTD, COMPRESSION_BITS(SF_COMPRESSION_MEDIUM)},
	{"compress_high", GROUP_COMPRESSION, WITH_ZSTD, COMPRESSION_BITS(SF_COMPRESSION_HIGH)},
	{"compress", GROUP_COMPRESSION, WITH_ZSTD, COMPRESSION_BITS(SF_COMPRESSION_MEDIUM)},
	{"nocompress", GROUP_COMPRESSION, SUPPORTED, 0},
	{"deduplicate", GROUP_DEDUPLICATION, SUPPORTED, SF_OPT_DEDUPLICATE},
	{"keep_duplicates", GROUP_DEDUPLICATION, SUPPORTED, 0},
	{"encrypt", GROUP_ENCRYPTION, SUPPORTED, SF_OPT_ENCRYPT},
	{"decrypt", GROUP_ENCRYPTION, SUPPORTED, 0},
	{"hash", GROUP_HASH, SUPPORTED, SF_OPT_HASH},
	{"no_hash", GROUP_HASH, SUPPORTED, 0},
	{"logging", GROUP_LOGGING, SUPPORTED, 0},
	{"filesystem_like_logging", GROUP_LOGGING, SUPPORTED, SF_OPT_FS_LIKE_LOGGING},
	{"cache", GROUP_CACHE, SUPPORTED, CACHE_BITS(SF_CACHE_FULL)},
	{"cache_reads", GROUP_CACHE, SUPPORTED, CACHE_BITS(SF_CACHE_READS)},
	{"nocache", GROUP_CACHE, SUPPORTED, CACHE_BITS(SF_CACHE_NOCACHE)},
	{"enable_storage_in_row", GROUP_IN_ROW, SUPPORTED, 0},
	{"disable_storage_in_row", GROUP_IN_ROW, SUPPORTED, SF_OPT_DISABLE_IN_ROW},
	{"retention_none", GROUP_RETENTION, SUPPORTED, 0},
};

/* Bits that say something in each group. */
static int32_t
group_mask(OptionGroup group)
{
	int32_t		mask = 0;

	for (int i = 0; i < lengthof(option_words); i++)
	{
		if (option_words[i].group == group)
			mask |= option_words[i].bits;
	}
	return mask;
}

/* Hint that lists the words that can be used. */
static int
hint_valid_words(void)
{
	StringInfoData list;

	initStringInfo(&list);
	for (int i = 0; i < lengthof(option_words); i++)
	{
		if (option_words[i].support == SUPPORTED)
			appendStringInfo(&list, "%s%s", list.len > 0 ? ", " : "", option_words[i].word);
	}
	return errhint("Valid options are: %s, a time such as 'retention 7 days', "
				   "and a limit such as 'max_size 96 GB'.", list.data);
}

/* ERROR: the word is known, and cannot be used. */
SF_NORETURN static void
refuse_word(const OptionWord *word)
{
	ereport(ERROR,
			(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
			 errmsg("securefile option \"%s\" is not supported by this build", word->word),
			 errdetail("This build of securefile has no %s.",
					   word->support == LACKS_LZ4 ? "LZ4" : "zstd"),
			 hint_valid_words()));
}

/* Find a word; ERROR when it is unknown or cannot be used. */
static const OptionWord *
find_word(const char *word)
{
	for (int i = 0; i < lengthof(option_words); i++)
	{
		if (strcmp(word, option_words[i].word) != 0)
			continue;
		if (option_words[i].support != SUPPORTED)
			refuse_word(&option_words[i]);
		return &option_words[i];
	}
	ereport(ERROR,
			(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
			 errmsg("unrecognized securefile option \"%s\"", word),
			 hint_valid_words()));
	return NULL;				/* silence stupider compilers */
}

/* ERROR when two words of one group were given. */
static void
refuse_two(const OptionWord *first, const OptionWord *second)
{
	if (first == second)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("securefile option \"%s\" given twice", first->word),
				 hint_valid_words()));
	if (first->bits == second->bits)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("securefile option \"%s\" given twice", first->word),
				 errdetail("\"%s\" is another word for it.", second->word),
				 hint_valid_words()));
	ereport(ERROR,
			(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
			 errmsg("securefile options \"%s\" and \"%s\" contradict each other",
					first->word, second->word),
			 hint_valid_words()));
}

/* The bits of max_size; 0: it is not among the words.  ERROR when it is there twice. */
static int32_t
parse_max_size(char **words, int nwords)
{
	int32_t		typmod = -1;
	bool		seen = false;

	for (int i = 0; i < nwords; i++)
	{
		const char *size = sf_config_max_size_word(words[i]);

		if (size == NULL)
			continue;
		if (seen)
			ereport(ERROR,
					(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
					 errmsg("securefile option \"max_size\" given twice"),
					 hint_valid_words()));
		typmod = sf_config_with_max_size(-1, size);
		seen = true;
	}
	return typmod < 0 ? 0 : typmod;
}

/*
 * Find a word, which may be one of retention: then *retention becomes it.  ERROR as of
 * find_word(), and for a time that has no bits.
 */
static const OptionWord *
read_word(const char *word, OptionWord *retention)
{
	const char *text = sf_config_retention_word(word);

	if (text == NULL)
		return find_word(word);
	retention->bits = sf_config_retention_bits(text);
	/* given twice, it may be two times */
	retention->word = retention->bits == 0 && retention->word == NULL ? "retention none" :
		"retention";
	return retention;
}

int32_t
sf_config_parse_options(char **words, int nwords)
{
	const OptionWord *seen[NGROUPS] = {NULL};
	OptionWord	retention = {.group = GROUP_RETENTION};
	int32_t		typmod = parse_max_size(words, nwords);

	for (int i = 0; i < nwords; i++)
	{
		const OptionWord *word;

		if (sf_config_max_size_word(words[i]) != NULL)
			continue;
		word = read_word(words[i], &retention);
		if (seen[word->group] != NULL)
			refuse_two(seen[word->group], word);
		seen[word->group] = word;
		typmod |= word->bits;
	}
	SF_ASSERT(typmod >= 0);
	sf_config_require_limit(typmod);
	return typmod == 0 ? -1 : typmod;
}

/*
 * Bits that mean nothing are left out rather than refused: \d must be able to
 * show any column.
 */
char *
sf_config_print_options(int32_t typmod)
{
	StringInfoData out;
	bool		shown[NGROUPS] = {false};

	initStringInfo(&out);
	if (typmod < 0)
		return out.data;
	for (int i = 0; i < lengthof(option_words); i++)
	{
		const OptionWord *word = &option_words[i];

		if (word->bits == 0 || shown[word->group] ||
			(typmod & group_mask(word->group)) != word->bits)
			continue;
		shown[word->group] = true;
		appendStringInfo(&out, "%s%s", out.len > 0 ? ", " : "(", word->word);
	}
	if (sf_config_retention_us(typmod) > 0)
		appendStringInfo(&out, "%s'retention %s'", out.len > 0 ? ", " : "(",
						 sf_config_retention_text(typmod));
	if (sf_config_max_bytes(typmod) > 0)
		appendStringInfo(&out, "%s'max_size %s'", out.len > 0 ? ", " : "(",
						 sf_config_size_text(sf_config_max_bytes(typmod)));
	if (out.len > 0)
		appendStringInfoChar(&out, ')');
	return out.data;
}

SfOptions
sf_config_options(int32_t typmod)
{
	int32_t		bits = typmod < 0 ? 0 : typmod;
	SfOptions	options;

	options.fs_like_logging = (bits & SF_OPT_FS_LIKE_LOGGING) != 0;
	options.in_row = (bits & SF_OPT_DISABLE_IN_ROW) == 0;
	options.cache = (SfCacheMode) ((bits & SF_OPT_CACHE_MASK) >> SF_OPT_CACHE_SHIFT);
	options.compression = (SfCompression) ((bits & SF_OPT_COMPRESSION_MASK) >>
										   SF_OPT_COMPRESSION_SHIFT);
	options.encrypt = (bits & SF_OPT_ENCRYPT) != 0;
	options.deduplicate = (bits & SF_OPT_DEDUPLICATE) != 0;
	options.hash = (bits & SF_OPT_HASH) != 0;
	options.max_bytes = sf_config_max_bytes(typmod);
	options.retention_us = sf_config_retention_us(typmod);
	if (options.cache == SF_CACHE_DEFAULT)
		options.cache = SF_CACHE_MODE_DEFAULT;
	return options;
}
