/*-------------------------------------------------------------------------
 *
 * key_list.c
 *	  securefile_keys(): the data keys of a column, and how many values use each.
 *
 * All of it can be told without a key.  What is counted are the values that the statement
 * sees, so nobody has to wait.  Values that are stored without encryption are counted, too:
 * readers cannot know whether one was put in the place of an encrypted one.
 *
 *-------------------------------------------------------------------------
 */
#include "base/base.h"

#include "access/detoast.h"
#include "access/table.h"
#include "catalog/pg_class.h"
#include "funcapi.h"
#include "read/read.h"
#include "rows/rows.h"
#include "sql/data_keys.h"
#include "storage/lmgr.h"
#include "utils/builtins.h"
#include "utils/lsyscache.h"
#include "utils/rel.h"
#include "utils/snapmgr.h"
#include "utils/timestamp.h"

PG_FUNCTION_INFO_V1(securefile_keys);

#define LIST_COLUMNS	9

/* The key that a value is stored with; 0: none.  False if it has no byte. */
static bool
key_of_value(Datum value, uint16 *key_id)
{
	struct varlena *datum;

	*key_id = 0;
	/* what is longer is INLINE, and need not be fetched */
	if (toast_raw_datum_size(value) > VARHDRSZ + SF_IN_ROW_MAX + SF_SEALED_OVERHEAD)
		return true;
	datum = PG_DETOAST_DATUM_PACKED(value);
	if (sf_read_length(datum) == 0)
		return false;
	*key_id = sf_read_form(datum) == SF_FORM_STORED ? sf_object_locator(datum).key_id
		: sf_read_key_id(datum);
	return true;
}

static void
count_key_of(SfKeyCounts *counts, const SfCheckColumn *column, Datum value)
{
	uint16		key_id;

	if (!key_of_value(value, &key_id))
		return;
	if (key_id > SF_DATA_KEYS_MAX)
		ereport(ERROR,
				(errcode(ERRCODE_DATA_CORRUPTED),
				 errmsg("a value of column \"%s\" of table \"%s\" names the impossible data key %u",
						get_attname(column->table_oid, column->attnum, false),
						get_rel_name(column->table_oid), key_id),
				 errhint("Run securefile_check() on the column.")));
	counts->values[key_id]++;
}

void
sfi_sql_count_keys(const SfCheckColumn *column, Snapshot snapshot, SfKeyCounts *counts)
{
	Relation	rel = table_open(column->table_oid, NoLock);
	SfRows		rows = sf_rows_begin(rel, column->attnum, snapshot);

	while (sf_rows_next(&rows))
		count_key_of(counts, column, rows.value);
	sf_rows_end(&rows);
	table_close(rel, NoLock);
}

static const char *
state_word(const SfKeyShown *key)
{
	if (key->is_shredded && key->state != SF_KEY_DESTROYED)
		return "shredded";
	switch (key->state)
	{
		case SF_KEY_USABLE:
			return "usable";
		case SF_KEY_OLD:
			return "old";
		case SF_KEY_DISTRUSTED:
			return "distrusted";
		case SF_KEY_DESTROYED:
			return "destroyed";
	}
	pg_unreachable();
}

/* The row of a key; counts NULL: values were not counted. */
static void
put_key(ReturnSetInfo *rsinfo, const SfKeyShown *key, const SfKeyCounts *counts)
{
	Datum		values[LIST_COLUMNS];
	bool		nulls[LIST_COLUMNS] = {false};

	SF_ASSERT(key->key_id > 0 && key->key_id <= SF_DATA_KEYS_MAX);
	SF_ASSERT(strnlen(key->master, SF_MASTER_NAME_SIZE) < SF_MASTER_NAME_SIZE);
	values[0] = Int32GetDatum(key->key_id);
	values[1] = CStringGetTextDatum(key->purpose == SF_KEY_DATA ? "data" : "hash");
	values[2] = CStringGetTextDatum(state_word(key));
	values[3] = BoolGetDatum(key->is_current);
	values[4] = CStringGetTextDatum(key->cipher == SF_CIPHER_AES256 ? "aes" : "chacha20");
	values[5] = CStringGetTextDatum(key->master);
	nulls[5] = key->is_shredded;
	values[6] = BoolGetDatum(key->is_loaded);
	nulls[6] = key->is_shredded;
	values[7] = TimestampTzGetDatum(key->created);
	nulls[8] = counts == NULL;
	values[8] = Int64GetDatum(counts != NULL ? counts->values[key->key_id] : 0);
	tuplestore_putvalues(rsinfo->setResult, rsinfo->setDesc, values, nulls);
}

/* The row of the values that are not encrypted. */
static void
put_plain(ReturnSetInfo *rsinfo, const SfKeyCounts *counts)
{
	Datum		values[LIST_COLUMNS] = {0};
	bool		nulls[LIST_COLUMNS] = {true, false, true, true, true, true, true, true, false};

	values[1] = CStringGetTextDatum("plain");
	values[8] = Int64GetDatum(counts->values[0]);
	tuplestore_putvalues(rsinfo->setResult, rsinfo->setDesc, values, nulls);
}

/* Values whose keys the segment does not have cannot be read: that is damage. */
static void
require_known(const SfCheckColumn *column, const SfKeyCounts *counts, int nkeys)
{
	for (int key_id = nkeys + 1; key_id <= SF_DATA_KEYS_MAX; key_id++)
		if (counts->values[key_id] > 0)
			ereport(ERROR,
					(errcode(ERRCODE_DATA_CORRUPTED),
					 errmsg("column \"%s\" of table \"%s\" has no data key %d",
							get_attname(column->table_oid, column->attnum, false),
							get_rel_name(column->table_oid), key_id),
					 errdetail("Values name it: " INT64_FORMAT ".", counts->values[key_id]),
					 errhint("Run securefile_check() on the column.")));
}

/*
 * securefile_keys(table regclass, column name, scan boolean)
 * returns setof (key_id integer, purpose text, state text, is_current boolean, cipher text,
 *				  master_key text, is_loaded boolean, created timestamptz,
 *				  stored_values bigint)
 */
Datum
securefile_keys(PG_FUNCTION_ARGS)
{
	ReturnSetInfo *rsinfo = (ReturnSetInfo *) fcinfo->resultinfo;
	bool		scan = !PG_ARGISNULL(2) && PG_GETARG_BOOL(2);
	const SfCheckColumn *column;
	SfSegment  *seg;
	SfKeyShown *keys;
	SfKeyCounts counts = {0};
	List	   *locked;
	int			n;

	sf_base_require_preload();
	sf_check_require_arguments(fcinfo, false);
	sf_check_refuse_partitioned(fcinfo, "keys");
	InitMaterializedSRF(fcinfo, 0);
	column = linitial(sf_check_columns(fcinfo, AccessShareLock, false, &locked));
	sf_space_release(sf_check_open_segment(column, AccessShareLock));	/* it has one */
	if (scan)
		sfi_sql_count_keys(column, GetActiveSnapshot(), &counts);

	/* after the rows: whatever key they have is there now */
	seg = sf_check_open_segment(column, AccessShareLock);
	n = sf_keys_show(seg, &keys);
	SF_ASSERT(n <= SF_DATA_KEYS_MAX);
	sf_space_release(seg);
	if (scan)
		require_known(column, &counts, n);
	for (int i = 0; i < n; i++)
		put_key(rsinfo, &keys[i], scan ? &counts : NULL);
	if (scan)
		put_plain(rsinfo, &counts);
	sf_check_release(locked, AccessShareLock);
	return (Datum) 0;
}
