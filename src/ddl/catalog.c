/*-------------------------------------------------------------------------
 *
 * catalog.c
 *	  What the extension consists of in this database, and which types have
 *	  to do with it.
 *
 * Objects are found by membership in the extension, never by name alone: a
 * hostile search_path or a user's own type "securefile" means nothing here.
 *
 *-------------------------------------------------------------------------
 */
#include "base/base.h"

#include "access/genam.h"
#include "access/htup_details.h"
#include "access/table.h"
#include "access/transam.h"
#include "access/xact.h"
#include "catalog/dependency.h"
#include "catalog/pg_am.h"
#include "catalog/pg_depend.h"
#include "catalog/pg_extension.h"
#include "catalog/pg_proc.h"
#include "catalog/pg_type.h"
#include "commands/extension.h"
#include "ddl/ddl.h"
#include "ddl/objects.h"
#include "miscadmin.h"
#include "utils/builtins.h"
#include "utils/fmgroids.h"
#include "utils/inval.h"
#include "utils/lsyscache.h"
#include "utils/rel.h"
#include "utils/syscache.h"
#include "utils/typcache.h"

HeapTuple
sf_ddl_catalog_row(Relation catalog, Oid index, AttrNumber oid_attnum, Oid oid, Snapshot snapshot)
{
	ScanKeyData key;
	SysScanDesc scan;
	HeapTuple	tuple;

	SF_ASSERT(OidIsValid(oid) && IsTransactionState());
	ScanKeyInit(&key, oid_attnum, BTEqualStrategyNumber, F_OIDEQ, ObjectIdGetDatum(oid));
	scan = systable_beginscan(catalog, index, true, snapshot, 1, &key);
	tuple = heap_copytuple(systable_getnext(scan));
	systable_endscan(scan);
	return tuple;
}

static uint64 am_changes = 0;

/* A SyscacheCallbackFunction: some access method came, changed or went. */
static void
am_changed(Datum arg, int cache_id, uint32 hash_value)
{
	am_changes++;
}

/* It is asked for in each statement and each transaction that writes. */
Oid
sfi_ddl_am_oid(void)
{
	static bool watching = false;
	static bool known = false;
	static uint64 known_since;
	static Oid	am;

	if (known && known_since == am_changes)
		return am;
	if (!watching)
		CacheRegisterSyscacheCallback(AMNAME, am_changed, (Datum) 0);
	watching = true;
	/* the look-up itself may learn of a change */
	known_since = am_changes;
	am = GetSysCacheOid1(AMNAME, Anum_pg_am_oid, CStringGetDatum(SF_SEGMENT_AM_NAME));
	known = true;
	return am;
}

/*
 * Types and functions are told by the C function behind them: they may have
 * been renamed.
 */
static bool
is_c_function(Oid function, const char *symbol)
{
	HeapTuple	tuple = SearchSysCache1(PROCOID, ObjectIdGetDatum(function));
	bool		isnull;
	Datum		source;
	bool		same;

	if (!HeapTupleIsValid(tuple))
		return false;
	source = SysCacheGetAttr(PROCOID, tuple, Anum_pg_proc_prosrc, &isnull);
	same = !isnull && strcmp(TextDatumGetCString(source), symbol) == 0;
	ReleaseSysCache(tuple);
	return same;
}

bool
sfi_ddl_edits(Oid function)
{
	static const char *const symbols[] = {
		"securefile_concat", "securefile_concat_bytea", "securefile_prepend",
		"securefile_overlay", "securefile_overlay_all",
		"securefile_overlay_big", "securefile_overlay_all_big",
		"securefile_overlay_value", "securefile_truncate_value",
		"securefile_part", "securefile_erase_value", "securefile_insert_value",
		"securefile_delete_value", "securefile_move_value"
	};
	const SfDdlObjects *objects = sfi_ddl_objects();

	if (objects == NULL || get_func_rettype(function) != objects->type)
		return false;
	for (int i = 0; i < (int) lengthof(symbols); i++)
		if (is_c_function(function, symbols[i]))
			return true;
	return false;
}

/* Is it the type, whether the extension has it or not? */
static bool
is_our_type(Oid typid)
{
	Oid			input;
	Oid			ioparam;

	if (typid < FirstNormalObjectId || get_typtype(typid) != TYPTYPE_BASE)
		return false;
	getTypeInputInfo(typid, &input, &ioparam);
	return is_c_function(input, "securefile_in");
}

/* Keep a member of the extension if it is one of the functions that this room calls. */
static void
note_function(SfDdlObjects *objects, Oid oid)
{
	if (is_c_function(oid, "securefile_convert"))
		objects->convert_fn = oid;
	if (get_func_rettype(oid) != TRIGGEROID)
		return;
	if (is_c_function(oid, "securefile_store"))
		objects->store_fn = oid;
	else if (is_c_function(oid, "securefile_account"))
		objects->account_fn = oid;
	else if (is_c_function(oid, "securefile_truncate"))
		objects->truncate_fn = oid;
}

/* Find the types and functions among the members of the extension. */
static void
collect_members(SfDdlObjects *objects, Oid extension)
{
	Relation	depend = table_open(DependRelationId, AccessShareLock);
	ScanKeyData key[2];
	SysScanDesc scan;
	HeapTuple	tuple;

	ScanKeyInit(&key[0], Anum_pg_depend_refclassid, BTEqualStrategyNumber,
				F_OIDEQ, ObjectIdGetDatum(ExtensionRelationId));
	ScanKeyInit(&key[1], Anum_pg_depend_refobjid, BTEqualStrategyNumber,
				F_OIDEQ, ObjectIdGetDatum(extension));
	scan = systable_beginscan(depend, DependReferenceIndexId, true, NULL, 2, key);
	while (HeapTupleIsValid(tuple = systable_getnext(scan)))
	{
		Form_pg_depend form = (Form_pg_depend) GETSTRUCT(tuple);

		if (form->deptype != DEPENDENCY_EXTENSION)
			continue;
		if (form->classid == TypeRelationId && is_our_type(form->objid))
			objects->type = form->objid;
		else if (form->classid == ProcedureRelationId)
			note_function(objects, form->objid);
	}
	systable_endscan(scan);
	table_close(depend, AccessShareLock);
}

/* Find the objects of the extension; false if it is not installed here. */
static bool
find_objects(Oid am, SfDdlObjects *found)
{
	Oid			extension = OidIsValid(am) ?
		getExtensionOfObject(AccessMethodRelationId, am) : InvalidOid;

	memset(found, 0, sizeof(*found));
	if (OidIsValid(extension))
	{
		found->am = am;
		collect_members(found, extension);
	}
	return OidIsValid(extension);
}

/*
 * The object that the extension lacks, or NULL.  It lacks one while CREATE or DROP
 * EXTENSION runs, or if somebody has taken one out of it.
 */
static const char *
missing_object(const SfDdlObjects *found)
{
	if (!OidIsValid(found->am))
		return "access method securefile_segment";
	if (!OidIsValid(found->type))
		return "type securefile";
	if (!OidIsValid(found->store_fn))
		return "function securefile_store()";
	if (!OidIsValid(found->account_fn))
		return "function securefile_account()";
	if (!OidIsValid(found->truncate_fn))
		return "function securefile_truncate()";
	if (!OidIsValid(found->convert_fn))
		return "function securefile_convert()";
	return NULL;
}

/*
 * The access method is the key of the cache: its name is unique in a database, and all objects
 * come and go together.
 */
const SfDdlObjects *
sfi_ddl_objects(void)
{
	static SfDdlObjects cached;
	SfDdlObjects found;
	Oid			am = sfi_ddl_am_oid();

	if (!OidIsValid(am))
		return NULL;
	if (cached.am == am)
		return &cached;
	if (!find_objects(am, &found) || missing_object(&found) != NULL)
		return NULL;
	cached = found;
	return &cached;
}

void
sfi_ddl_require_whole(Relation rel)
{
	SfDdlObjects found;

	if (creating_extension || sfi_ddl_objects() != NULL || !OidIsValid(sfi_ddl_am_oid()))
		return;
	(void) find_objects(sfi_ddl_am_oid(), &found);
	for (int i = 0; i < RelationGetNumberOfAttributes(rel); i++)
	{
		Form_pg_attribute att = TupleDescAttr(RelationGetDescr(rel), i);

		if (!att->attisdropped && is_our_type(getBaseType(att->atttypid)))
			ereport(ERROR,
					(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
					 errmsg("extension securefile lacks its %s in this database", missing_object(&found)),
					 errdetail("Without it table \"%s\", which has securefile columns, cannot be changed safely.",
							   RelationGetRelationName(rel)),
					 errhint("Add it to the extension again (ALTER EXTENSION securefile ADD), or dump the database, and restore it where the extension is whole.")));
	}
}

bool
sfi_ddl_is_securefile(Oid typid, int32 *typmod)
{
	const SfDdlObjects *objects = sfi_ddl_objects();
	int32		base_typmod = *typmod;

	if (objects == NULL || !OidIsValid(typid))
		return false;
	if (getBaseTypeAndTypmod(typid, &base_typmod) != objects->type)
		return false;
	*typmod = base_typmod;
	return true;
}

/* As getBaseType(), but not an error when somebody has just dropped the type. */
static Oid
base_type(Oid typid)
{
	return get_typtype(typid) == TYPTYPE_DOMAIN ? getBaseType(typid) : typid;
}

Oid
sf_ddl_described_type(Oid typid)
{
	const SfDdlObjects *objects = sfi_ddl_objects();
	Oid			base;

	if (objects == NULL)
		return typid;
	base = base_type(typid);
	if (base == objects->type)
		return BYTEAOID;
	if (base_type(get_element_type(base)) == objects->type)
		return BYTEAARRAYOID;
	return typid;
}

/* Has a composite type an attribute that contains securefile values? */
static bool
composite_contains(Oid typid)
{
	TupleDesc	desc = lookup_rowtype_tupdesc_copy(typid, -1);

	for (int i = 0; i < desc->natts; i++)
	{
		Form_pg_attribute att = TupleDescAttr(desc, i);

		if (!att->attisdropped && sfi_ddl_contains_securefile(att->atttypid))
			return true;
	}
	return false;
}

bool
sfi_ddl_contains_securefile(Oid typid)
{
	const SfDdlObjects *objects = sfi_ddl_objects();

	check_stack_depth();

	if (objects == NULL)
		return false;
	typid = getBaseType(typid);
	if (typid == objects->type)
		return true;
	if (OidIsValid(get_element_type(typid)))
		return sfi_ddl_contains_securefile(get_element_type(typid));

	switch (get_typtype(typid))
	{
		case TYPTYPE_COMPOSITE:
			return composite_contains(typid);
		case TYPTYPE_RANGE:
			return sfi_ddl_contains_securefile(get_range_subtype(typid));
		case TYPTYPE_MULTIRANGE:
			return sfi_ddl_contains_securefile(get_multirange_range(typid));
		default:
			return false;
	}
}
