/*-------------------------------------------------------------------------
 *
 * lines.c
 *	  What a key command prints: lines of a name, blanks, and 64 hexadecimal digits.
 *
 * Empty lines and lines that begin with # are passed over.  Everything else is refused,
 * since a key that was left out silently is missed much later, when data needs it.  The
 * text is read where it lies, and keys are decoded straight into their set.
 *
 *-------------------------------------------------------------------------
 */
#include "base/base.h"

#include <sodium.h>

#include "keys/keys_internal.h"

#define HEX_DIGITS		(2 * SF_KEY_BYTES)

/* the longest line with a single blank, and its end */
#define LINE_BYTES		(SF_KEY_NAME_MAX + 1 + HEX_DIGITS + 1)

StaticAssertDecl(SF_KEYS_MAX * LINE_BYTES <= SF_KEY_OUTPUT_MAX, "a full keyring can be printed");
StaticAssertDecl(crypto_auth_hmacsha256_KEYBYTES == SF_KEY_BYTES, "a master key is a key of HMAC");

static bool
is_blank(char c)
{
	return c == ' ' || c == '\t';
}

/* Decode a key; false if these are not 64 hexadecimal digits. */
static bool
decode_key(uint8 *key, const char *hex, size_t len_bytes)
{
	size_t		decoded = 0;
	const char *end = NULL;

	return len_bytes == HEX_DIGITS &&
		sodium_hex2bin(key, SF_KEY_BYTES, hex, HEX_DIGITS, NULL, &decoded, &end) == 0 &&
		decoded == SF_KEY_BYTES && end == hex + HEX_DIGITS;
}

/* The check value of a key: what can be shown of it, and tells another key of its name. */
static void
compute_check(SfKeyEntry *entry)
{
	static const unsigned char label[] = "check";
	uint8		hash[crypto_auth_hmacsha256_BYTES];

	crypto_auth_hmacsha256(hash, label, sizeof(label) - 1, entry->key);
	memcpy(entry->check, hash, SF_MASTER_CHECK_SIZE);
	sodium_memzero(hash, sizeof(hash));
}

/* Add the key of a line that is not passed over, without blanks at its end. */
static bool
parse_key(const char *text, size_t len, int line, SfKeySet *set, SfKeyFailure *failure)
{
	SfKeyEntry *entry = &set->entries[set->count];
	size_t		name_len = 0;
	size_t		key_at;

	SF_ASSERT(set->count >= 0 && set->count <= SF_KEYS_MAX);
	if (set->count == SF_KEYS_MAX)
		return sfi_keys_fail(failure, SF_KEY_TOO_MANY, SF_KEYS_MAX);
	while (name_len < len && !is_blank(text[name_len]))
		name_len++;
	key_at = name_len;
	while (key_at < len && is_blank(text[key_at]))
		key_at++;
	if (!decode_key(entry->key, text + key_at, len - key_at))
		return sfi_keys_fail(failure, SF_KEY_BAD_LINE, line);
	if (!sf_config_is_key_name(text, name_len))
		return sfi_keys_fail(failure, SF_KEY_BAD_NAME, line);
	memcpy(entry->name, text, name_len);
	if (sfi_keys_find(set, entry->name) != NULL)
		return sfi_keys_fail(failure, SF_KEY_TWICE, line);
	if (sodium_is_zero(entry->key, SF_KEY_BYTES))
		return sfi_keys_fail(failure, SF_KEY_ZEROS, line);
	compute_check(entry);
	set->count++;
	return true;
}

static bool
parse_line(const char *text, size_t len, int line, SfKeySet *set, SfKeyFailure *failure)
{
	while (len > 0 && is_blank(text[len - 1]))
		len--;
	if (len == 0 || text[0] == '#')
		return true;
	return parse_key(text, len, line, set, failure);
}

bool
sfi_keys_parse(const char *text, size_t len_bytes, SfKeySet *set, SfKeyFailure *failure)
{
	const char *end = text + len_bytes;

	SF_ASSERT(set->count == 0 && len_bytes <= SF_KEY_OUTPUT_MAX);
	for (int line = 1; text < end; line++)
	{
		const char *newline = memchr(text, '\n', end - text);
		const char *line_end = newline != NULL ? newline : end;

		if (!parse_line(text, line_end - text, line, set, failure))
			return false;
		text = line_end + 1;
	}
	return set->count > 0 || sfi_keys_fail(failure, SF_KEY_NONE, 0);
}
