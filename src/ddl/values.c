/*-------------------------------------------------------------------------
 *
 * values.c
 *	  One value of a column: which form it has, where it lies, and how it is
 *	  put where the column wants it.
 *
 * Shared by the row triggers and by what walks over whole tables (rows.c), so
 * that both follow the same rules.
 *
 *-------------------------------------------------------------------------
 */
#include "base/base.h"

#include "access/detoast.h"
#include "ddl/rows.h"
#include "stream/stream.h"
#include "utils/builtins.h"

/*
 * The form is in the first byte, for which a large value that the toaster has
 * moved out is not fetched whole.  What is not INLINE is small, or in memory.
 */
struct varlena *
sfi_ddl_stored(Datum value)
{
	struct varlena *head;

	if (toast_raw_datum_size(value) > SF_LOCATOR_MAX_SIZE + VARHDRSZ)
	{
		head = PG_DETOAST_DATUM_SLICE(value, 0, 1);
		if (sf_read_is_inline(head))
			return NULL;
	}
	head = PG_DETOAST_DATUM_PACKED(value);
	return sf_read_is_inline(head) ? NULL : head;
}

bool
sfi_ddl_is_own(struct varlena *stored, Oid table_oid, AttrNumber attnum)
{
	SfLocator	loc;

	if (sf_read_form(stored) == SF_FORM_EDITED)
		return false;
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

/* Length of an INLINE value in bytes, told without detoasting it. */
static Size
inline_length(Datum value)
{
	Size		raw = toast_raw_datum_size(value);

	return raw > VARHDRSZ ? raw - VARHDRSZ - 1 : 0;
}

bool
sfi_ddl_may_stay_inline(const SfColumn *column, Datum value)
{
	Size		length = inline_length(value);

	if (!column->permanent || length == 0)
		return true;
	return column->options.in_row && length <= SF_IN_ROW_MAX;
}

static SfSegment *
open_to_write(const SfColumn *column)
{
	return sf_space_open(column->table_oid, column->attnum, RowExclusiveLock, false);
}

/* Write the bytes of an INLINE value to the column's segment. */
static Datum
write_inline(const SfColumn *column, struct varlena *value)
{
	return PointerGetDatum(sf_write_value(open_to_write(column), VARDATA_ANY(value) + 1,
										  VARSIZE_ANY_EXHDR(value) - 1));
}

bool
sfi_ddl_store_value(const SfColumn *column, Datum value, Datum old, Datum *result)
{
	struct varlena *stored = sfi_ddl_stored(value);
	struct varlena *whole;

	SF_ASSERT(OidIsValid(column->table_oid) && column->attnum > 0);

	if (stored == NULL)
	{
		if (sfi_ddl_may_stay_inline(column, value))
			return false;
		*result = write_inline(column, PG_DETOAST_DATUM_PACKED(value));
		return true;
	}
	if (column->permanent && sf_read_length(stored) > SF_IN_ROW_MAX)
	{
		*result = PointerGetDatum(sf_stream_store(open_to_write(column), stored,
												  old == (Datum) 0 ? NULL : sfi_ddl_stored(old)));
		return true;
	}
	whole = sf_read_inline(stored);
	*result = sfi_ddl_may_stay_inline(column, PointerGetDatum(whole)) ? PointerGetDatum(whole)
		: write_inline(column, whole);
	return true;
}

bool
sfi_ddl_put_value(const SfColumn *column, Datum value, Datum *result)
{
	struct varlena *stored;

	if (!sfi_ddl_store_value(column, value, (Datum) 0, result))
		return false;
	stored = sfi_ddl_stored(*result);
	SF_ASSERT(stored == NULL || sfi_ddl_is_own(stored, column->table_oid, column->attnum));
	if (stored != NULL)
		sf_write_confirm(column->table_oid, column->attnum, stored, NULL);
	return true;
}
