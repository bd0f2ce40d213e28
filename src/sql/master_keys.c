/*-------------------------------------------------------------------------
 *
 * master_keys.c
 *	  SQL functions over the keyring.  Neither shows a byte of a key.
 *
 *-------------------------------------------------------------------------
 */
#include "base/base.h"

#include "fmgr.h"
#include "funcapi.h"
#include "keys/keys.h"
#include "utils/builtins.h"

PG_FUNCTION_INFO_V1(securefile_load_keys);
PG_FUNCTION_INFO_V1(securefile_master_keys);

static void
require_keyring_rights(const char *what)
{
	sf_base_require_superuser(what);
	sf_base_require_preload();
}

/* securefile_load_keys() returns integer */
Datum
securefile_load_keys(PG_FUNCTION_ARGS)
{
	require_keyring_rights("load master keys");
	PG_RETURN_INT32(sf_keys_load());
}

/* securefile_master_keys() returns setof (name text, is_current boolean) */
Datum
securefile_master_keys(PG_FUNCTION_ARGS)
{
	SfKeyListed *keys;
	int			n;

	require_keyring_rights("list master keys");
	InitMaterializedSRF(fcinfo, 0);
	n = sf_keys_list(&keys);
	for (int i = 0; i < n; i++)
	{
		Datum		values[] = {CStringGetTextDatum(keys[i].name), BoolGetDatum(keys[i].current)};

		sf_base_put_row(fcinfo, values, NULL);
	}
	PG_RETURN_NULL();
}
