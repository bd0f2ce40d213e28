/*-------------------------------------------------------------------------
 *
 * type.c
 *	  Input, output, type modifier and casts of the type.
 *
 * Text and binary forms are bytea's.  What comes in is always INLINE: a
 * locator can neither be written down by a client nor be told to one.
 *
 * One other text comes in and goes out: the marker (format/unfilled.h) of a value that is too long
 * for a dump.  It goes out where securefile.dump_oversize asks for it, and makes an UNFILLED value.
 * A text that begins with it was an error before, as it is for bytea.  What a marker says counts
 * for nothing but the length, so a client that makes one up gets a row that nobody can read.
 *
 *-------------------------------------------------------------------------
 */
#include "base/base.h"

#include "catalog/pg_type.h"
#include "config/config.h"
#include "fmgr.h"
#include "libpq/pqformat.h"
#include "object/object.h"
#include "read/read.h"
#include "sql/content.h"
#include "sql/sql.h"
#include "utils/array.h"
#include "utils/builtins.h"
#include "utils/bytea.h"
#include "utils/lsyscache.h"
#include "utils/memutils.h"
#include "utils/snapmgr.h"

PG_FUNCTION_INFO_V1(securefile_in);
PG_FUNCTION_INFO_V1(securefile_out);
PG_FUNCTION_INFO_V1(securefile_recv);
PG_FUNCTION_INFO_V1(securefile_send);
PG_FUNCTION_INFO_V1(securefile_typmod_in);
PG_FUNCTION_INFO_V1(securefile_typmod_out);
PG_FUNCTION_INFO_V1(securefile_from_bytea);
PG_FUNCTION_INFO_V1(securefile_to_bytea);

/* An argument of type securefile, detoasted. */
static struct varlena *
argument(Datum value)
{
	return PG_DETOAST_DATUM_PACKED(sf_object_given(value));
}

/* All bytes of a value, for the caller of a function. */
static bytea *
hand_out(struct varlena *datum)
{
	SfValue		value;
	bytea	   *bytes;

	sf_read_look(datum, &value);
	bytes = sf_read_value_bytea(&value);
	sfi_sql_count(&value, 0, VARSIZE(bytes) - VARHDRSZ, SF_SQL_RETURNED);
	return bytes;
}

/* An INLINE value of the bytes of a bytea. */
static struct varlena *
inline_from_bytea(bytea *bytes)
{
	char	   *data;
	struct varlena *value = sf_read_new_inline(VARSIZE_ANY_EXHDR(bytes), &data);

	memcpy(data, VARDATA_ANY(bytes), VARSIZE_ANY_EXHDR(bytes));
	return value;
}

/* The UNFILLED value of a marker; NULL: an error was noted. */
static struct varlena *
read_marker(const char *text, fmNodePtr context)
{
	SfUnfilled	unfilled;
	const char *problem = sf_format_marker_read(text, &unfilled);

	if (problem == NULL)
		return sf_read_new_unfilled(&unfilled);
	sf_compat_input_error(context,
						  errcode(ERRCODE_INVALID_TEXT_REPRESENTATION),
						  errmsg("invalid marker in the place of a securefile value"),
						  errdetail_internal("The %s.", problem));
	return NULL;
}

Datum
securefile_in(PG_FUNCTION_ARGS)
{
	const char *text = PG_GETARG_CSTRING(0);
	Datum		bytes;
	struct varlena *value;

	if (sf_format_is_marker(text))
	{
		value = read_marker(text, fcinfo->context);
		if (value == NULL)
			PG_RETURN_NULL();
		PG_RETURN_POINTER(value);
	}
	if (!sf_compat_bytea_in(unconstify(char *, text), fcinfo->context, &bytes))
		PG_RETURN_NULL();
	value = inline_from_bytea(DatumGetByteaPP(bytes));
	pfree(DatumGetPointer(bytes));
	PG_RETURN_POINTER(value);
}

/* Bytes of the text form that byteaout() will make. */
static Size
text_form_size(const bytea *bytes)
{
	const unsigned char *data = (const unsigned char *) VARDATA_ANY(bytes);
	Size		size = 0;

	if (bytea_output == BYTEA_OUTPUT_HEX)
		return (Size) VARSIZE_ANY_EXHDR(bytes) * 2 + 3;
	for (const unsigned char *end = data + VARSIZE_ANY_EXHDR(bytes); data < end; data++)
		size += *data == '\\' ? 2 : *data < 0x20 || *data > 0x7e ? 4 : 1;
	return size + 1;
}

/* ---- output in logical decoding ---- */

/*
 * The column that a value is stored in.  A person who reads the error of a slot has not asked
 * for the value, and has to find the row.
 */
typedef struct Place
{
	ErrorContextCallback context;
	const char *schema;
	const char *table;
	const char *column;
} Place;

static void
name_place(void *arg)
{
	const Place *place = arg;

	errcontext("securefile value of column \"%s\" of table \"%s.%s\"", place->column, place->schema,
			   place->table);
}

/* Have errors name the column of a value, up to end_place(). */
static void
begin_place(Place *place, struct varlena *datum)
{
	SfLocator	loc;

	place->context = (ErrorContextCallback) {error_context_stack, name_place, place};
	if (!HistoricSnapshotActive() || sf_object_decode(datum, &loc) != NULL)
		return;
	place->schema = get_namespace_name(get_rel_namespace(loc.table_oid));
	place->table = get_rel_name(loc.table_oid);
	place->column = get_attname(loc.table_oid, loc.attnum, true);
	if (place->schema != NULL && place->table != NULL && place->column != NULL)
		error_context_stack = &place->context;
}

static void
end_place(const Place *place)
{
	SF_ASSERT(error_context_stack == &place->context ||
			  error_context_stack == place->context.previous);
	error_context_stack = place->context.previous;
}

/* The server's function fails with an internal error above 1 GB. */
static bool
is_possible_text(const bytea *bytes)
{
	return text_form_size(bytes) <= MaxAllocSize;
}

static void
require_possible_text(const bytea *bytes)
{
	if (is_possible_text(bytes))
		return;
	ereport(ERROR,
			(errcode(ERRCODE_PROGRAM_LIMIT_EXCEEDED),
			 errmsg("text form of a securefile value is too long"),
			 errdetail("The value has %zu bytes, its text form would have more than 1 GB.",
					   (Size) VARSIZE_ANY_EXHDR(bytes)),
			 HistoricSnapshotActive() ?
			 errhint("With pgoutput, use the option binary, or a publication with a list of columns. To give the change up, move the slot behind its transaction with pg_replication_slot_advance().") :
			 errhint("Read it in binary form, or in pieces, with substring() or securefile_chunks(). For a backup run \"securefile dump DIR -- pg_dump ..\": pg_dump alone leaves the value out, with PGOPTIONS=\"-c securefile.dump_oversize=marker\".")));
}

/* ---- markers ---- */

/* Does the session want markers?  Only a session that has asked for them gets any. */
static bool
wants_markers(void)
{
	return sf_dump_oversize == SF_DUMP_OVERSIZE_MARKER;
}

/* The hash that a value keeps, unless it is encrypted: then the hash is, too. */
static bool
plain_hash(struct varlena *datum, SfUnfilled *unfilled)
{
	SfContentHash hash;
	SfLocator	loc;

	if (sf_object_decode(datum, &loc) != NULL || (loc.flags & SF_LOC_KEYED) ||
		!sf_object_hash(&loc, &hash))
		return false;
	memcpy(unfilled->digest, hash.digest, sizeof(unfilled->digest));
	return true;
}

static char *
marker(const SfUnfilled *unfilled)
{
	char	   *text = palloc(SF_MARKER_SIZE);

	SF_ASSERT(wants_markers() && unfilled->length_bytes > 0);
	sf_format_marker_write(text, unfilled);
	return text;
}

/* The marker of a value that is too long, or has no bytes; NULL: its text form is wanted. */
static char *
marker_of(struct varlena *datum)
{
	SfUnfilled	unfilled;

	if (!wants_markers())
		return NULL;
	if (sf_read_unfilled(PointerGetDatum(datum), &unfilled))
		return marker(&unfilled);
	unfilled = (SfUnfilled) {.length_bytes = sf_read_length(datum)};
	if (unfilled.length_bytes <= sf_dump_oversize_limit_bytes())
		return NULL;
	unfilled.has_hash = plain_hash(datum, &unfilled);
	return marker(&unfilled);
}

/* The hex form of bytea, whatever bytea_output says. */
static char *
hex_form(const bytea *bytes)
{
	Size		len = VARSIZE_ANY_EXHDR(bytes);
	char	   *text = palloc(len * 2 + 3);

	text[0] = '\\';
	text[1] = 'x';
	text[2 + hex_encode(VARDATA_ANY(bytes), len, text + 2)] = '\0';
	return text;
}

/*
 * The text form of a value as bytea has it.  Each byte of the format "escape" may take four.  A
 * dump with markers is not to leave out a value that is no longer than the limit, so that such a
 * one gets the hex form, which fits: a program that keeps what is left out goes by the length.
 */
static char *
text_form(struct varlena *datum)
{
	bytea	   *bytes = hand_out(datum);
	char	   *text;

	if (wants_markers() && !is_possible_text(bytes))
	{
		SF_ASSERT(VARSIZE_ANY_EXHDR(bytes) <= sf_dump_oversize_limit_bytes());
		text = hex_form(bytes);
	}
	else
	{
		require_possible_text(bytes);
		text = DatumGetCString(DirectFunctionCall1(byteaout, PointerGetDatum(bytes)));
	}
	pfree(bytes);
	return text;
}

/* Like bytea. */
Datum
securefile_out(PG_FUNCTION_ARGS)
{
	struct varlena *datum = argument(PG_GETARG_DATUM(0));
	Place		place;
	char	   *text;

	begin_place(&place, datum);
	text = marker_of(datum);
	if (text == NULL)
		text = text_form(datum);
	end_place(&place);
	PG_RETURN_CSTRING(text);
}

Datum
securefile_recv(PG_FUNCTION_ARGS)
{
	StringInfo	buf = (StringInfo) PG_GETARG_POINTER(0);
	int			len = buf->len - buf->cursor;
	char	   *data;
	struct varlena *value = sf_read_new_inline(len, &data);

	pq_copymsgbytes(buf, data, len);
	PG_RETURN_POINTER(value);
}

/* A bytea is what a send function returns. */
Datum
securefile_send(PG_FUNCTION_ARGS)
{
	struct varlena *datum = argument(PG_GETARG_DATUM(0));
	Place		place;
	bytea	   *bytes;

	sf_sql_send_large();
	begin_place(&place, datum);
	bytes = hand_out(datum);
	end_place(&place);
	PG_RETURN_BYTEA_P(bytes);
}

Datum
securefile_from_bytea(PG_FUNCTION_ARGS)
{
	PG_RETURN_POINTER(inline_from_bytea(PG_GETARG_BYTEA_PP(0)));
}

Datum
securefile_to_bytea(PG_FUNCTION_ARGS)
{
	sf_sql_send_large();
	PG_RETURN_BYTEA_P(hand_out(argument(PG_GETARG_DATUM(0))));
}

/*
 * The result is -1 for "all defaults", which the parser takes as no modifier.
 * Callable by everyone, hence checks what the parser guarantees.
 */
Datum
securefile_typmod_in(PG_FUNCTION_ARGS)
{
	ArrayType  *array = PG_GETARG_ARRAYTYPE_P(0);
	Datum	   *elements;
	char	  **words;
	int			nwords;

	if (ARR_ELEMTYPE(array) != CSTRINGOID)
		ereport(ERROR,
				(errcode(ERRCODE_ARRAY_ELEMENT_ERROR),
				 errmsg("typmod array must be type cstring[]")));
	if (ARR_NDIM(array) != 1)
		ereport(ERROR,
				(errcode(ERRCODE_ARRAY_SUBSCRIPT_ERROR),
				 errmsg("typmod array must be one-dimensional")));
	if (array_contains_nulls(array))
		ereport(ERROR,
				(errcode(ERRCODE_NULL_VALUE_NOT_ALLOWED),
				 errmsg("typmod array must not contain nulls")));

	deconstruct_array(array, CSTRINGOID, -2, false, TYPALIGN_CHAR,
					  &elements, NULL, &nwords);
	words = palloc(nwords * sizeof(char *));
	for (int i = 0; i < nwords; i++)
		words[i] = DatumGetCString(elements[i]);
	PG_RETURN_INT32(sf_config_parse_options(words, nwords));
}

Datum
securefile_typmod_out(PG_FUNCTION_ARGS)
{
	PG_RETURN_CSTRING(sf_config_print_options(PG_GETARG_INT32(0)));
}
