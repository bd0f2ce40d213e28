/*-------------------------------------------------------------------------
 *
 * options.c
 *	  Column options: the words of the type modifier.
 *
 * One table has them all, in the order in which they are shown.  A word that
 * says the default is accepted and leaves no trace, so that a column with all
 * defaults has no modifier, whichever way it was written.
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
	GROUP_LOGGING,
	GROUP_CACHE,
	GROUP_IN_ROW,
	GROUP_RETENTION,
} OptionGroup;

#define NGROUPS (GROUP_RETENTION + 1)

typedef struct OptionWord
{
	const char *word;
	OptionGroup group;
	bool		supported;
	int32_t		bits;			/* in the modifier; 0: nothing to note */
} OptionWord;

#define CACHE_BITS(mode) \
	((mode) == SF_CACHE_MODE_DEFAULT ? 0 : (mode) << SF_OPT_CACHE_SHIFT)

static const OptionWord option_words[] = {
	{"compress", GROUP_COMPRESSION, false, 0},
	{"compress_low", GROUP_COMPRESSION, false, 0},
	{"compress_medium", GROUP_COMPRESSION, false, 0},
	{"compress_high", GROUP_COMPRESSION, false, 0},
	{"nocompress", GROUP_COMPRESSION, true, 0},
	{"deduplicate", GROUP_DEDUPLICATION, false, 0},
	{"keep_duplicates", GROUP_DEDUPLICATION, true, 0},
	{"encrypt", GROUP_ENCRYPTION, false, 0},
	{"decrypt", GROUP_ENCRYPTION, true, 0},
	{"logging", GROUP_LOGGING, true, 0},
	{"filesystem_like_logging", GROUP_LOGGING, true, SF_OPT_FS_LIKE_LOGGING},
	{"cache", GROUP_CACHE, true, CACHE_BITS(SF_CACHE_FULL)},
	{"cache_reads", GROUP_CACHE, true, CACHE_BITS(SF_CACHE_READS)},
	{"nocache", GROUP_CACHE, true, CACHE_BITS(SF_CACHE_NOCACHE)},
	{"enable_storage_in_row", GROUP_IN_ROW, true, 0},
	{"disable_storage_in_row", GROUP_IN_ROW, true, SF_OPT_DISABLE_IN_ROW},
	{"retention_none", GROUP_RETENTION, true, 0},
	{"retention_auto", GROUP_RETENTION, false, 0},
	{"retention_min", GROUP_RETENTION, false, 0},
	{"retention_max", GROUP_RETENTION, false, 0},
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
		if (option_words[i].supported)
			appendStringInfo(&list, "%s%s", list.len > 0 ? ", " : "", option_words[i].word);
	}
	return errhint("Valid options are: %s.", list.data);
}

/* Find a word; ERROR when it is unknown or belongs to later work. */
static const OptionWord *
find_word(const char *word)
{
	for (int i = 0; i < lengthof(option_words); i++)
	{
		if (strcmp(word, option_words[i].word) != 0)
			continue;
		if (!option_words[i].supported)
			ereport(ERROR,
					(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
					 errmsg("securefile option \"%s\" is not supported yet", word),
					 hint_valid_words()));
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
	ereport(ERROR,
			(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
			 errmsg("securefile options \"%s\" and \"%s\" contradict each other",
					first->word, second->word),
			 hint_valid_words()));
}

int32_t
sf_config_parse_options(char **words, int nwords)
{
	const OptionWord *seen[NGROUPS] = {NULL};
	int32_t		typmod = 0;

	for (int i = 0; i < nwords; i++)
	{
		const OptionWord *word = find_word(words[i]);

		if (seen[word->group] != NULL)
			refuse_two(seen[word->group], word);
		seen[word->group] = word;
		typmod |= word->bits;
	}
	SF_ASSERT(typmod >= 0);
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

	initStringInfo(&out);
	if (typmod < 0)
		return out.data;
	for (int i = 0; i < lengthof(option_words); i++)
	{
		const OptionWord *word = &option_words[i];

		if (word->bits != 0 && (typmod & group_mask(word->group)) == word->bits)
			appendStringInfo(&out, "%s%s", out.len > 0 ? ", " : "(", word->word);
	}
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
	options.codec = 0;
	if (options.cache == SF_CACHE_DEFAULT)
		options.cache = SF_CACHE_MODE_DEFAULT;
	return options;
}
