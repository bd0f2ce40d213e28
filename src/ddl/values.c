/*-------------------------------------------------------------------------
 *
 * values.c
 *	  One value of a column: which form it has, where it lies, and how it is
 *	  put where the column wants it.
 *
 * Shared by the row triggers and by what walks over whole tables (table_rows.c), so
 * that both follow the same rules.
 *
 *-------------------------------------------------------------------------
 */
#include "base/base.h"

#include "access/detoast.h"
#include "ddl/table_rows.h"
#include "space/dictionary_pages.h"
#include "stream/stream.h"
#include "transform/transform.h"
#include "write/write.h"

/*
 * The form is in the first byte, for which a large value that the toaster has
 * moved out is not fetched whole.  What is not in the row is small, or in memory.
 */
struct varlena *
sfi_ddl_stored(Datum value)
{
	struct varlena *head;

	if (toast_raw_datum_size(value) > SF_LOCATOR_MAX_SIZE + VARHDRSZ)
	{
		head = PG_DETOAST_DATUM_SLICE(value, 0, 1);
		if (sf_read_is_in_row(head))
			return NULL;
	}
	head = PG_DETOAST_DATUM_PACKED(value);
	return sf_read_is_in_row(head) ? NULL : head;
}

struct varlena *
sfi_ddl_located(Datum value)
{
	struct varlena *stored = sfi_ddl_stored(value);

	return stored != NULL && !sf_read_is_homed(stored) ? stored : NULL;
}

/*
 * Does the segment of this table and column have the dictionary or the key of a value?  Not
 * if it was truncated or rewritten since: what is confirmed by a locator's tag elsewhere
 * has to be found out here.
 */
static bool
is_at_home(struct varlena *homed, Oid table_oid, AttrNumber attnum)
{
	SfHome		home = sf_read_home(homed);
	SfSegment  *seg;

	if (home.table_oid != table_oid || home.attnum != attnum)
		return false;
	seg = sf_space_open(table_oid, attnum, AccessShareLock, true);
	return seg != NULL && seg->incarnation == home.incarnation;
}

bool
sfi_ddl_is_own(struct varlena *stored, Oid table_oid, AttrNumber attnum)
{
	uint8		form = sf_read_form(stored);
	SfLocator	loc;

	SF_ASSERT(OidIsValid(table_oid) && attnum > 0);
	if (form == SF_FORM_EDITED)
		return false;
	if (sf_read_is_homed(stored))
		return is_at_home(stored, table_oid, attnum);
	loc = sf_object_locator(stored);
	return loc.table_oid == table_oid && loc.attnum == attnum;
}

static bool
raw_equal(struct varlena *a, struct varlena *b)
{
	return VARSIZE_ANY(a) == VARSIZE_ANY(b) &&
		memcmp(a, b, VARSIZE_ANY(a)) == 0;
}

/*
 * Two datums are compared as they are; only if both can be locators are they
 * detoasted, since the toaster may have changed the looks of one of them.
 */
bool
sfi_ddl_same_value(Datum a, Datum b)
{
	struct varlena *stored_a;
	struct varlena *stored_b;

	if (raw_equal((struct varlena *) DatumGetPointer(a),
				  (struct varlena *) DatumGetPointer(b)))
		return true;
	stored_a = sfi_ddl_stored(a);
	stored_b = stored_a != NULL ? sfi_ddl_stored(b) : NULL;
	return stored_b != NULL && sf_object_same(stored_a, stored_b);
}

/* Bytes that an INLINE or PACKED value takes behind its form, told without detoasting it. */
static Size
bytes_in_row(Datum value)
{
	Size		raw = toast_raw_datum_size(value);

	return raw > VARHDRSZ ? raw - VARHDRSZ - 1 : 0;
}

/* Does a value of that length stay in the row? */
static bool
fits_row(const SfColumn *column, Size length)
{
	if (!column->permanent || length == 0)
		return true;
	return column->options.in_row && length <= SF_IN_ROW_MAX;
}

/*
 * An UNFILLED value stays in any row.  A column that encrypts does not keep its hash, which would
 * confirm a guess.
 */
static bool
unfilled_may_stay(const SfColumn *column, const SfUnfilled *unfilled)
{
	SF_ASSERT(unfilled->length_bytes > 0);
	return !unfilled->has_hash || !sf_config_encrypts(column);
}

bool
sfi_ddl_may_stay_inline(const SfColumn *column, Datum value)
{
	Size		length = bytes_in_row(value);
	SfUnfilled	unfilled;

	if (sf_read_unfilled(value, &unfilled))
		return unfilled_may_stay(column, &unfilled);
	return fits_row(column, length) && (length == 0 || !sf_config_encrypts(column));
}

bool
sfi_ddl_leaves_row(const SfColumn *column, Datum value)
{
	struct varlena *stored = sfi_ddl_stored(value);
	SfUnfilled	unfilled;

	return column->permanent && !sf_read_unfilled(value, &unfilled) &&
		(stored != NULL ? sf_read_length(stored) > SF_IN_ROW_MAX
		 : !fits_row(column, bytes_in_row(value)));
}

/* ---- compressed in the row ---- */

/* The datum, detoasted, if it is PACKED; else NULL.  Large values are not fetched. */
static struct varlena *
packed_value(Datum value)
{
	struct varlena *datum = sf_base_detoast_short(value, SF_IN_ROW_MAX);

	return datum != NULL && sf_read_form(datum) == SF_FORM_PACKED ? datum : NULL;
}

/* Would a value be compressed with a dictionary? */
static bool
has_dictionary(const SfColumn *column)
{
	SfHome		home;

	return sf_transform_is_trainable(column->options.compression) &&
		sf_space_trained(column->table_oid, column->attnum, RowExclusiveLock, &home) != NULL;
}

/*
 * Is a PACKED value compressed as its column asks for it now?  Where there is no segment
 * nothing is compressed, but what comes compressed from elsewhere stays so.  A value does not
 * tell the level of its codec, so for the highest one it is always compressed anew.
 */
static bool
is_packed_right(const SfColumn *column, struct varlena *packed)
{
	const SfCodecOps *codec = sf_transform_codec(column->options.compression);

	return !column->permanent ||
		(column->options.in_row && codec != NULL && !column->options.encrypt &&
		 column->options.compression < SF_COMPRESSION_HIGH &&
		 codec->id == sf_read_packed_unit(packed).flags && !has_dictionary(column));
}

bool
sfi_ddl_wants_packing(const SfColumn *column, Datum value)
{
	struct varlena *packed;
	SfUnfilled	unfilled;

	if (sf_read_unfilled(value, &unfilled))
		return false;
	packed = packed_value(value);
	return packed != NULL ? !is_packed_right(column, packed)
		: sf_write_packs(column, bytes_in_row(value));
}

bool
sfi_ddl_is_coded_otherwise(const SfColumn *column, Datum value)
{
	struct varlena *stored = sfi_ddl_stored(value);
	struct varlena *packed;
	const SfCodecOps *codec = sf_transform_codec(column->options.compression);
	SfUnfilled	unfilled;
	uint32		id;

	SF_ASSERT(stored == NULL || sf_read_is_homed(stored));
	if (sf_read_unfilled(value, &unfilled))
		return false;
	packed = stored != NULL ? stored : packed_value(value);
	if (packed == NULL)
		return sf_write_packs(column, bytes_in_row(value));
	if (!column->options.in_row)
		return true;
	id = sf_read_packed_unit(packed).flags;
	if (id == SF_CODEC_TRAINED)
		id = SF_CODEC_ZSTD;
	return id != SF_CODEC_RAW && (codec == NULL || codec->id != id);
}

static SfSegment *
open_to_write(const SfColumn *column)
{
	SF_ASSERT(column->permanent);
	return sf_space_open(column->table_oid, column->attnum, RowExclusiveLock, false);
}

/* Put an INLINE value, detoasted, where its column wants it; the value itself if it stays. */
static SfValue
store_inline(const SfColumn *column, struct varlena *value)
{
	const char *data = (char *) VARDATA_ANY(value) + 1;
	Size		len = VARSIZE_ANY_EXHDR(value) - 1;
	SfEncoded	encoded = {NULL};
	struct varlena *packed;
	SfValue		stored;

	SF_ASSERT(!VARATT_IS_EXTERNAL(value) && !VARATT_IS_COMPRESSED(value));
	SF_ASSERT(sf_read_form(value) == SF_FORM_INLINE);
	if (sf_write_packs(column, len) &&
		(packed = sf_write_pack(column, data, len, &encoded)) != NULL)
		sf_read_look(packed, &stored);
	else if (fits_row(column, len))
		sf_read_look(len > 0 && sf_config_encrypts(column) ? sf_write_seal(column, data, len)
					 : value, &stored);
	else
		stored = sf_stream_put(open_to_write(column), data, len, &encoded);
	return stored;
}

/* The same for a value that is in the datum, in either form; false if it stays. */
static bool
store_in_row(const SfColumn *column, Datum value, SfValue *result)
{
	struct varlena *packed = packed_value(value);
	struct varlena *datum;
	struct varlena *whole;

	if (packed != NULL)
	{
		/* also where it stays as it is: a damaged value goes no further */
		whole = sf_read_unpacked(packed);
		if (is_packed_right(column, packed))
			return false;
		*result = store_inline(column, whole);
		return true;
	}
	if (!sf_write_packs(column, bytes_in_row(value)) && sfi_ddl_may_stay_inline(column, value))
		return false;
	datum = PG_DETOAST_DATUM_PACKED(value);
	/* a PACKED one is never made so long: it is damaged, or was smuggled in */
	*result = store_inline(column, sf_read_unpacked(datum));
	return result->datum != datum;
}

/*
 * Has a row had a STORED value, to be edited in place?  Not one that came past the triggers and
 * is another row's.
 */
static bool
has_own_version(const SfColumn *column, Datum old, SfValue *version)
{
	struct varlena *located = old == (Datum) 0 ? NULL : sfi_ddl_located(old);

	if (located == NULL)
		return false;
	sf_read_look(located, version);
	return version->form == SF_FORM_STORED && version->loc.table_oid == column->table_oid &&
		version->loc.attnum == column->attnum;
}

/* Put a value that is longer than a row takes, in its segment. */
static SfValue
store_in_segment(const SfColumn *column, const SfValue *value, Datum old, bool anew)
{
	SfValue		version;
	bool		has_version = has_own_version(column, old, &version);

	return sf_stream_store(open_to_write(column), value, has_version ? &version : NULL, anew);
}

/* An UNFILLED value for a row of the column; false: the value itself. */
static bool
store_unfilled(const SfColumn *column, SfUnfilled *unfilled, SfValue *result)
{
	if (unfilled_may_stay(column, unfilled))
		return false;
	unfilled->has_hash = false;
	*result = (SfValue) {sf_read_new_unfilled(unfilled), SF_FORM_UNFILLED};
	return true;
}

/*
 * A TRAINED or SEALED value is always made anew, since it may be another column's, or of
 * before a TRUNCATE.
 */
bool
sfi_ddl_store_value(const SfColumn *column, Datum value, Datum old, bool anew, SfValue *result)
{
	struct varlena *stored = sfi_ddl_stored(value);
	SfUnfilled	unfilled;
	SfValue		look;

	SF_ASSERT(OidIsValid(column->table_oid) && column->attnum > 0);

	if (sf_read_unfilled(value, &unfilled))
		return store_unfilled(column, &unfilled, result);
	if (stored == NULL)
		return store_in_row(column, value, result);
	if (sf_read_is_homed(stored))
		*result = store_inline(column, sf_read_unpacked(stored));
	else if (column->permanent && sf_read_length(stored) > SF_IN_ROW_MAX)
	{
		sf_read_look(stored, &look);
		*result = store_in_segment(column, &look, old, anew);
	}
	else
		*result = store_inline(column, sf_read_inline(stored));
	return true;
}

bool
sfi_ddl_put_value(const SfColumn *column, Datum value, SfValue *result)
{
	if (!sfi_ddl_store_value(column, value, (Datum) 0, true, result))
		return false;
	if (result->form == SF_FORM_STORED)
	{
		SF_ASSERT(result->loc.table_oid == column->table_oid &&
				  result->loc.attnum == column->attnum);
		sf_write_confirm(column->table_oid, column->attnum, result->datum, NULL);
	}
	return true;
}
