/*-------------------------------------------------------------------------
 *
 * digest.c
 *	  securefile_digest(): what sha256(), md5() and the like are for bytea, for
 *	  values of any length.
 *
 * With one argument it is the SHA-256 that a value of a column with the option hash keeps,
 * and no data is read.  Other values are read.  With an algorithm all are read: that is how
 * to find out whether a value still is what it was.
 *
 * SHA-2 and MD5 are the server's, hence OpenSSL's where the server was built with
 * it.  XXH3 is in its canonical form, big-endian.  What these functions return is
 * stored by users beside their values, so it must never change.
 *
 *-------------------------------------------------------------------------
 */
#include "base/base.h"

#include <sodium.h>
#define XXH_STATIC_LINKING_ONLY /* the state's size and alignment */
#include <xxhash.h>

#include "common/cryptohash.h"
#include "common/md5.h"
#include "common/sha2.h"
#include "fmgr.h"
#include "lib/stringinfo.h"
#include "read/read.h"
#include "sql/content.h"
#include "utils/builtins.h"

PG_FUNCTION_INFO_V1(securefile_digest);
PG_FUNCTION_INFO_V1(securefile_content_digest);
PG_FUNCTION_INFO_V1(securefile_kept_digest);

#define BLAKE2B_BYTES	crypto_generichash_blake2b_BYTES_MAX

typedef struct Algorithm Algorithm;

/* A digest in the making. */
typedef struct Digest
{
	const Algorithm *algorithm;
	union
	{
		pg_cryptohash_ctx *server;	/* an ERROR frees it, by way of the
									 * resource owner */
		crypto_generichash_blake2b_state *blake2b;
		XXH3_state_t *xxh3;
	};
} Digest;

struct Algorithm
{
	const char *name;
	Size		len_bytes;		/* of the result */
	pg_cryptohash_type type;	/* of the server's ones */
	void		(*begin) (Digest *digest);
	void		(*update) (Digest *digest, const char *bytes, Size len);
	void		(*finish) (Digest *digest, uint8 *result);
};

/* ---- the server's ---- */

static void
require_server(const Digest *digest, int rc)
{
	if (rc < 0)
		ereport(ERROR,
				(errcode(ERRCODE_EXTERNAL_ROUTINE_INVOCATION_EXCEPTION),
				 errmsg("could not compute %s digest: %s", digest->algorithm->name,
						pg_cryptohash_error(digest->server)),
				 digest->algorithm->type == PG_MD5
				 ? errhint("OpenSSL in FIPS mode does not allow MD5.") : 0));
}

static void
begin_server(Digest *digest)
{
	digest->server = pg_cryptohash_create(digest->algorithm->type);
	require_server(digest, pg_cryptohash_init(digest->server));
}

static void
update_server(Digest *digest, const char *bytes, Size len)
{
	require_server(digest, pg_cryptohash_update(digest->server, (const uint8 *) bytes, len));
}

static void
finish_server(Digest *digest, uint8 *result)
{
	require_server(digest, pg_cryptohash_final(digest->server, result,
											   digest->algorithm->len_bytes));
	pg_cryptohash_free(digest->server);
}

/* The states of libraries are aligned for the processor's widest registers. */
static void *
new_state(Size size, Size alignment)
{
	return (void *) TYPEALIGN(alignment, palloc(size + alignment));
}

/* ---- BLAKE2b, which does not fail ---- */

static void
begin_blake2b(Digest *digest)
{
	/*
	 * picks the fastest code that the processor has; done before, it does
	 * nothing
	 */
	if (sodium_init() < 0)
		elog(ERROR, "libsodium could not be initialized");
	digest->blake2b = new_state(sizeof(*digest->blake2b),
								_Alignof(crypto_generichash_blake2b_state));
	(void) crypto_generichash_blake2b_init(digest->blake2b, NULL, 0, BLAKE2B_BYTES);
}

static void
update_blake2b(Digest *digest, const char *bytes, Size len)
{
	(void) crypto_generichash_blake2b_update(digest->blake2b, (const uint8 *) bytes, len);
}

static void
finish_blake2b(Digest *digest, uint8 *result)
{
	(void) crypto_generichash_blake2b_final(digest->blake2b, result, BLAKE2B_BYTES);
}

/* ---- XXH3 ---- */

static void
begin_xxh3(Digest *digest)
{
	digest->xxh3 = new_state(sizeof(*digest->xxh3), _Alignof(XXH3_state_t));
	XXH3_64bits_reset(digest->xxh3);
}

static void
update_xxh3(Digest *digest, const char *bytes, Size len)
{
	XXH3_64bits_update(digest->xxh3, bytes, len);
}

static void
finish_xxh3(Digest *digest, uint8 *result)
{
	XXH64_canonicalFromHash((XXH64_canonical_t *) result, XXH3_64bits_digest(digest->xxh3));
}

/* ---- which ---- */

#define SERVER_OWN		begin_server, update_server, finish_server

static const Algorithm algorithms[] = {
	{"sha256", PG_SHA256_DIGEST_LENGTH, PG_SHA256, SERVER_OWN},
	{"sha512", PG_SHA512_DIGEST_LENGTH, PG_SHA512, SERVER_OWN},
	{"blake2b", BLAKE2B_BYTES, 0, begin_blake2b, update_blake2b, finish_blake2b},
	{"xxh3", sizeof(XXH64_canonical_t), 0, begin_xxh3, update_xxh3, finish_xxh3},
	{"md5", MD5_DIGEST_LENGTH, PG_MD5, SERVER_OWN},
};

static int
list_algorithms(void)
{
	StringInfoData list;

	initStringInfo(&list);
	for (int i = 0; i < lengthof(algorithms); i++)
		appendStringInfo(&list, "%s%s", i > 0 ? ", " : "", algorithms[i].name);
	return errhint("Valid algorithms are: %s.", list.data);
}

static const Algorithm *
find_algorithm(const char *name)
{
	for (int i = 0; i < lengthof(algorithms); i++)
		if (pg_strcasecmp(algorithms[i].name, name) == 0)
			return &algorithms[i];
	ereport(ERROR,
			(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
			 errmsg("unrecognized digest algorithm \"%s\"", name),
			 list_algorithms()));
}

/* An SfSqlTake. */
static void
update(void *arg, const char *bytes, Size len)
{
	Digest	   *digest = arg;

	digest->algorithm->update(digest, bytes, len);
}

/* The digest of all bytes of a value, which are read. */
static bytea *
compute(Datum value, const Algorithm *algorithm)
{
	Digest		digest = {.algorithm = algorithm};
	bytea	   *result = sfi_sql_new_bytea(algorithm->len_bytes);

	algorithm->begin(&digest);
	sfi_sql_feed(value, update, &digest);
	algorithm->finish(&digest, (uint8 *) VARDATA(result));
	return result;
}

/* securefile_digest(document securefile, algorithm text) returns bytea */
Datum
securefile_digest(PG_FUNCTION_ARGS)
{
	PG_RETURN_BYTEA_P(compute(PG_GETARG_DATUM(0),
							  find_algorithm(text_to_cstring(PG_GETARG_TEXT_PP(1)))));
}

/* ---- the one that is kept ---- */

/*
 * The SHA-256 that a value keeps, or NULL.  What is larger than a locator is not fetched.  The
 * hash of a marker does not count: no bytes were hashed here.
 */
static bytea *
kept_digest(Datum value)
{
	SfContentHash hash;
	SfUnfilled	unfilled;
	struct varlena *datum;
	SfValue		look;
	bytea	   *result;

	value = sf_object_given(value);
	if (sf_object_rope_of(value) != NULL)
		return NULL;
	datum = sf_base_detoast_short(value, SF_LOCATOR_MAX_SIZE);
	if (datum == NULL || sf_read_unfilled(PointerGetDatum(datum), &unfilled))
		return NULL;
	sf_read_look(datum, &look);
	if (look.form != SF_FORM_STORED || !sf_object_hash(&look.loc, &hash))
		return NULL;
	sfi_sql_count(&look, 0, sf_locator_value_bytes(&look.loc), SF_SQL_SKIPPED);
	result = sfi_sql_new_bytea(sizeof(hash.digest));
	memcpy(VARDATA(result), hash.digest, sizeof(hash.digest));
	return result;
}

/* securefile_digest(document securefile) returns bytea */
Datum
securefile_content_digest(PG_FUNCTION_ARGS)
{
	bytea	   *result = kept_digest(PG_GETARG_DATUM(0));

	PG_RETURN_BYTEA_P(result != NULL ? result
					  : compute(PG_GETARG_DATUM(0), find_algorithm("sha256")));
}

/* securefile_kept_digest(document securefile) returns bytea */
Datum
securefile_kept_digest(PG_FUNCTION_ARGS)
{
	bytea	   *result = kept_digest(PG_GETARG_DATUM(0));

	if (result == NULL)
		PG_RETURN_NULL();
	PG_RETURN_BYTEA_P(result);
}
