/*-------------------------------------------------------------------------
 *
 * segment_relation.c
 *	  Making, dropping and emptying segment relations.
 *
 * The form was tried against everything that walks over relations: kind 't'
 * in pg_toast (no DML, DROP or ALTER by users; not dumped, published,
 * rewritten), owned by the bootstrap superuser (so that OWNER TO, REASSIGN
 * OWNED and DROP ROLE have nothing to do with it), and AUTO dependencies on
 * the table and on the access method (DROP TABLE and DROP EXTENSION CASCADE
 * take it along; an INTERNAL one would make DROP ACCESS METHOD drop the table,
 * one on the column would break ALTER COLUMN TYPE).
 *
 *-------------------------------------------------------------------------
 */
#include "base/base.h"

#include "access/genam.h"
#include "access/htup_details.h"
#include "access/relation.h"
#include "access/table.h"
#include "access/xact.h"
#include "catalog/dependency.h"
#include "catalog/heap.h"
#include "catalog/namespace.h"
#include "catalog/objectaddress.h"
#include "catalog/pg_am.h"
#include "catalog/pg_authid.h"
#include "catalog/pg_class.h"
#include "catalog/pg_depend.h"
#include "catalog/pg_namespace.h"
#include "catalog/pg_type.h"
#include "ddl/command.h"
#include "miscadmin.h"
#include "space/dictionary_pages.h"
#include "space/upgrade.h"
#include "storage/lmgr.h"
#include "utils/fmgroids.h"
#include "utils/syscache.h"

const SfSegmentBirth *sfi_ddl_segment_birth = NULL;

/*
 * Before the first segment of a database.  While the database waits for
 * securefile_upgrade_finish(), this cluster would own the data files, and those
 * that are brought later would be removed.
 */
static void
require_upgrade_finished(void)
{
	if (!sf_io_database_is_own(MyDatabaseId, ERROR) && sfi_ddl_triggers_unfinished())
		ereport(ERROR,
				(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
				 errmsg("the upgrade of this database by pg_upgrade is not finished"),
				 errhint("Run securefile_upgrade_finish() in this database.")));
}

/* A relation must have a column; nobody ever reads this one. */
static TupleDesc
segment_descriptor(void)
{
	TupleDesc	desc = CreateTemplateTupleDesc(1);

	TupleDescInitEntry(desc, 1, "page", BYTEAOID, -1, 0);
	TupleDescAttr(desc, 0)->attstorage = TYPSTORAGE_PLAIN;
	return desc;
}

/*
 * A relation with an OID that is given gets it as its file number, too: so
 * storage that pg_upgrade has left keeps its place.
 */
static Oid
create_relation(const SfSegmentBirth *birth, Oid am)
{
	char		name[NAMEDATALEN];
	const SfStorage *adopt = birth->adopt;
	Oid			relid = adopt ? SfStorageRel(*adopt) : InvalidOid;
	Oid			tablespace = adopt ? SfStorageSpc(*adopt) : birth->tablespace;

	if (tablespace == MyDatabaseTableSpace)
		tablespace = InvalidOid;
	if (adopt != NULL)
		sf_space_adopt_begin(*adopt);
	sf_space_segment_name(name, birth->table_oid, birth->attnum);
	return heap_create_with_catalog(name,
									PG_TOAST_NAMESPACE,
									tablespace,
									relid, InvalidOid, InvalidOid,
									BOOTSTRAP_SUPERUSERID,
									am,
									segment_descriptor(),
									NIL,
									RELKIND_TOASTVALUE,
									RELPERSISTENCE_PERMANENT,
									false,	/* not shared */
									false,	/* not mapped */
									ONCOMMIT_NOOP,
									(Datum) 0,
									false,	/* no default privileges */
									true,	/* pg_toast is allowed */
									true,	/* internal */
									InvalidOid,
									NULL);
}

/* Let the segment depend on its table and on the access method. */
static void
hang_on(Oid segrelid, Oid table_oid, Oid am)
{
	ObjectAddress segment;
	ObjectAddress owner;

	ObjectAddressSet(segment, RelationRelationId, segrelid);
	ObjectAddressSet(owner, RelationRelationId, table_oid);
	recordDependencyOn(&segment, &owner, DEPENDENCY_AUTO);
	ObjectAddressSet(owner, AccessMethodRelationId, am);
	recordDependencyOn(&segment, &owner, DEPENDENCY_AUTO);
}

Oid
sfi_ddl_segment_create(const SfSegmentBirth *birth)
{
	Oid			am = sfi_ddl_am_oid();
	Oid			segrelid;

	sf_base_require_preload();
	if (birth->adopt == NULL)
		require_upgrade_finished();
	LockRelationOid(birth->table_oid, ShareRowExclusiveLock);

	SF_ASSERT(birth->attnum > 0 && OidIsValid(am));
	SF_ASSERT(birth->adopt != NULL || birth->next_object_id >= 1);
	SF_ASSERT(sfi_ddl_segment_birth == NULL);
	sfi_ddl_segment_birth = birth;
	PG_TRY();
	{
		segrelid = create_relation(birth, am);
	}
	PG_FINALLY();
	{
		sfi_ddl_segment_birth = NULL;
	}
	PG_END_TRY();

	hang_on(segrelid, birth->table_oid, am);
	CommandCounterIncrement();
	return segrelid;
}

Oid
sfi_ddl_segment_make(const SfColumn *column, Oid tablespace)
{
	const SfSegmentBirth birth = {
		.table_oid = column->table_oid,
		.attnum = column->attnum,
		.logged_data = !column->options.fs_like_logging,
		.next_object_id = 1,
		.tablespace = tablespace
	};

	SF_ASSERT(column->permanent &&
			  !OidIsValid(sf_space_segment_relid(column->table_oid, column->attnum)));
	return sfi_ddl_segment_create(&birth);
}

/*
 * Throw the present error on.  If it says that something depends on a segment,
 * its hint was for a command that drops just that.
 */
SF_NORETURN static void
explain_dependents(MemoryContext context)
{
	ErrorData  *error;

	MemoryContextSwitchTo(context);
	error = CopyErrorData();
	FlushErrorState();
	if (error->sqlerrcode == ERRCODE_DEPENDENT_OBJECTS_STILL_EXIST)
		error->hint =
			pstrdup("It holds the values of a securefile column and cannot be read otherwise. Drop what depends on it first, or use DROP COLUMN ... CASCADE.");
	ReThrowError(error);
}

/*
 * Nobody can be kept from making things that depend on a segment, as on any
 * relation: a constant of type regclass in a default takes no right on it.  So
 * they are treated as what depends on the column.
 */
void
sfi_ddl_segment_drop(Oid segrelid)
{
	MemoryContext context = CurrentMemoryContext;
	bool		cascade = sfi_ddl_command.alter != NULL && sfi_ddl_command.alter->drops_cascade;
	ObjectAddress segment;

	ObjectAddressSet(segment, RelationRelationId, segrelid);
	PG_TRY();
	{
		performDeletion(&segment, cascade ? DROP_CASCADE : DROP_RESTRICT,
						PERFORM_DELETION_INTERNAL);
	}
	PG_CATCH();
	{
		explain_dependents(context);
	}
	PG_END_TRY();
	CommandCounterIncrement();
}

/* The dictionary goes along, for the values to come are like those that were there. */
void
sfi_ddl_segment_renew(Relation segrel, bool logged_data)
{
	SfSegment  *old = sf_space_open_rel(segrel);
	SfDictionaryBytes *dictionary = sf_space_fetch_dictionary(old);
	const SfSegmentBirth birth = {
		.table_oid = old->table_oid,
		.attnum = old->attnum,
		.logged_data = logged_data,
		.next_object_id = sf_space_read_header(old).next_object_id
	};

	SF_ASSERT(CheckRelationLockedByMe(segrel, AccessExclusiveLock, false));
	SF_ASSERT(birth.next_object_id >= 1);
	SF_ASSERT(sfi_ddl_segment_birth == NULL);
	sfi_ddl_segment_birth = &birth;
	PG_TRY();
	{
		sf_compat_set_new_relfilenode(segrel, RELPERSISTENCE_PERMANENT);
	}
	PG_FINALLY();
	{
		sfi_ddl_segment_birth = NULL;
	}
	PG_END_TRY();
	(void) sf_space_add_dictionary(sf_space_open_rel(segrel), dictionary);
}

/*
 * Is the relation a segment of this table?  *attnum: its column, which the name of the
 * segment has.
 */
static bool
segment_attnum(Oid relid, Oid am, Oid table_oid, AttrNumber *attnum)
{
	HeapTuple	tuple = SearchSysCache1(RELOID, ObjectIdGetDatum(relid));
	Form_pg_class form;
	Oid			named_table;
	bool		found;

	if (!HeapTupleIsValid(tuple))
		return false;
	form = (Form_pg_class) GETSTRUCT(tuple);
	found = form->relam == am && form->relkind == RELKIND_TOASTVALUE &&
		sf_space_segment_column(NameStr(form->relname), &named_table, attnum) &&
		named_table == table_oid;
	ReleaseSysCache(tuple);
	return found;
}

/*
 * Segments are found by their dependency on the table, not by name, so that
 * those of dropped columns are found too.
 */
List *
sfi_ddl_segments_of(Oid table_oid)
{
	Oid			am = sfi_ddl_am_oid();
	Relation	depend = table_open(DependRelationId, AccessShareLock);
	List	   *segments = NIL;
	ScanKeyData key[2];
	SysScanDesc scan;
	HeapTuple	tuple;

	/* without it, any TOAST table of that name would be one */
	SF_ASSERT(OidIsValid(am));
	ScanKeyInit(&key[0], Anum_pg_depend_refclassid, BTEqualStrategyNumber,
				F_OIDEQ, ObjectIdGetDatum(RelationRelationId));
	ScanKeyInit(&key[1], Anum_pg_depend_refobjid, BTEqualStrategyNumber,
				F_OIDEQ, ObjectIdGetDatum(table_oid));
	scan = systable_beginscan(depend, DependReferenceIndexId, true, NULL, 2, key);
	while (HeapTupleIsValid(tuple = systable_getnext(scan)))
	{
		Form_pg_depend form = (Form_pg_depend) GETSTRUCT(tuple);
		AttrNumber	attnum;

		if (form->classid == RelationRelationId &&
			form->deptype == DEPENDENCY_AUTO &&
			segment_attnum(form->objid, am, table_oid, &attnum))
		{
			SfTableSegment *segment = palloc(sizeof(SfTableSegment));

			segment->relid = form->objid;
			segment->attnum = attnum;
			segments = lappend(segments, segment);
		}
	}
	systable_endscan(scan);
	table_close(depend, AccessShareLock);
	return segments;
}
