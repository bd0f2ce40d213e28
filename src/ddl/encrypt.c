/*-------------------------------------------------------------------------
 *
 * encrypt.c
 *	  Columns that encrypt: what they refuse, so that no plain byte of a value gets
 *	  to disk past the trigger "store", which encrypts.
 *
 *	 temporary and unlogged tables	keep all values in their rows, as they are
 *	 a hash index on the column		has hashes of contents, which confirm a guess
 *	 a partition key with the column	chooses partitions by contents, and shows them in
 *									the error of a row that has none
 *	 a trigger of a user that fires
 *	 after "store"					could put a plain value into the row
 *	 ADD COLUMN .. DEFAULT, and
 *	 ALTER TYPE .. USING			write rows without triggers; convert.c encrypts what
 *									it can put its function around
 *	 CREATE TABLE AS, SELECT INTO	write rows without triggers.  Encrypted values of other
 *									columns pass, and are stored when the command is done.
 *									A NOTICE names columns that do not encrypt, where
 *									the query reads one that does
 *
 * What remains is seen by "account" (row_triggers.c), when the row is written already.
 *
 * A foreign table has its values elsewhere, in a column that may encrypt or not; it gets a
 * WARNING.
 *
 * A column gets the option only while there is a master key, so that the first value does
 * not fail for one.
 *
 *-------------------------------------------------------------------------
 */
#include "base/base.h"

#include "access/detoast.h"
#include "access/genam.h"
#include "access/relation.h"
#include "catalog/namespace.h"
#include "catalog/pg_am.h"
#include "catalog/pg_class.h"
#include "catalog/pg_trigger.h"
#include "catalog/pg_type.h"
#include "ddl/command.h"
#include "ddl/table_rows.h"
#include "keys/keys.h"
#include "optimizer/optimizer.h"
#include "parser/parse_type.h"
#include "read/read.h"
#include "utils/builtins.h"
#include "utils/lsyscache.h"
#include "utils/partcache.h"
#include "utils/rel.h"
#include "utils/syscache.h"

/* Does a column of that type encrypt? */
static bool
type_encrypts(Oid typid, int32 typmod)
{
	return sfi_ddl_is_securefile(typid, &typmod) && sf_config_options(typmod).encrypt;
}

bool
sfi_ddl_is_plain(Datum value)
{
	struct varlena *stored = sfi_ddl_stored(value);
	SfUnfilled	unfilled;
	uint8		form;

	if (sf_read_unfilled(value, &unfilled))
		return unfilled.has_hash;
	if (stored == NULL)
		return toast_raw_datum_size(value) > VARHDRSZ + 1;
	form = sf_read_form(stored);
	return form != SF_FORM_STORED && form != SF_FORM_SEALED;
}

/* ---- the table of a column ---- */

static void
refuse_persistence(Relation rel, const char *column)
{
	bool		temporary = rel->rd_rel->relpersistence == RELPERSISTENCE_TEMP;

	SF_ASSERT(temporary || rel->rd_rel->relpersistence == RELPERSISTENCE_UNLOGGED);
	ereport(ERROR,
			(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
			 errmsg("column \"%s\" of %s table \"%s\" cannot be encrypted",
					column, temporary ? "temporary" : "unlogged", RelationGetRelationName(rel)),
			 errdetail("Such a table keeps all values in its rows, and does not encrypt them."),
			 temporary ? errhint("Take the option away by a cast, as in SELECT %s::securefile.",
								 quote_identifier(column)) :
			 errhint("Use the type securefile without the option encrypt.")));
}

void
sfi_ddl_warn_foreign(Relation rel)
{
	TupleDesc	desc = RelationGetDescr(rel);

	SF_ASSERT(rel->rd_rel->relkind == RELKIND_FOREIGN_TABLE);
	for (int i = 0; i < desc->natts; i++)
	{
		Form_pg_attribute att = TupleDescAttr(desc, i);

		if (!att->attisdropped && type_encrypts(att->atttypid, att->atttypmod))
			ereport(WARNING,
					(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
					 errmsg("option encrypt of column \"%s\" of foreign table \"%s\" does nothing here",
							NameStr(att->attname), RelationGetRelationName(rel)),
					 errdetail("This server does not store the values.  They are encrypted if the column of the other server has the option.")));
	}
}

bool
sfi_ddl_fires_late(int16 type, const char *name)
{
	return TRIGGER_FOR_ROW(type) && TRIGGER_FOR_BEFORE(type) &&
		(TRIGGER_FOR_INSERT(type) || TRIGGER_FOR_UPDATE(type)) &&
		strcmp(name, SF_TRIGGER_PREFIX) > 0;
}

static void
require_no_late_trigger(Relation rel, const char *column)
{
	for (int i = 0; rel->trigdesc != NULL && i < rel->trigdesc->numtriggers; i++)
	{
		const Trigger *trigger = &rel->trigdesc->triggers[i];

		if (!trigger->tgisinternal && sfi_ddl_fires_late(trigger->tgtype, trigger->tgname))
			ereport(ERROR,
					(errcode(ERRCODE_INVALID_OBJECT_DEFINITION),
					 errmsg("trigger \"%s\" cannot fire after encrypted column \"%s\" of table \"%s\" is stored",
							trigger->tgname, column, RelationGetRelationName(rel)),
					 errdetail("A value that it puts into a row would not be encrypted. Triggers fire in the order of their names."),
					 errhint("Give the trigger a name that sorts before \"%s\".", SF_TRIGGER_PREFIX)));
	}
}

static void
refuse_hash_index(Relation index, Relation rel, AttrNumber attnum)
{
	ereport(ERROR,
			(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
			 errmsg("encrypted column \"%s\" of table \"%s\" cannot have hash index \"%s\"",
					sfi_ddl_column_name(rel, attnum), RelationGetRelationName(rel),
					RelationGetRelationName(index)),
			 errdetail("The index has hashes of contents, by which a guess can be confirmed without the key."),
			 errhint("Use a column with a keyed digest of the contents, set by a trigger.")));
}

/* The command that makes the index, or alters the column, has locked the table. */
void
sfi_ddl_refuse_hashed(Relation index)
{
	Relation	rel;

	SF_ASSERT(index->rd_index != NULL);
	if (index->rd_rel->relam != HASH_AM_OID)
		return;
	rel = relation_open(index->rd_index->indrelid, AccessShareLock);
	for (AttrNumber attnum = 1; attnum <= RelationGetNumberOfAttributes(rel); attnum++)
	{
		Form_pg_attribute att = TupleDescAttr(RelationGetDescr(rel), attnum - 1);

		if (!att->attisdropped && type_encrypts(att->atttypid, att->atttypmod) &&
			sfi_ddl_index_has_key(index, attnum))
			refuse_hash_index(index, rel, attnum);
	}
	relation_close(rel, NoLock);
}

/* Do the columns or the expressions of a partition key use a column? */
static bool
key_uses(PartitionKey key, AttrNumber attnum)
{
	Bitmapset  *used = NULL;

	for (int i = 0; i < key->partnatts; i++)
		if (key->partattrs[i] == attnum)
			return true;
	pull_varattnos((Node *) key->partexprs, 1, &used);
	return bms_is_member(attnum - FirstLowInvalidHeapAttributeNumber, used);
}

/* A column of a partition key cannot get the option later: its type cannot be changed. */
void
sfi_ddl_refuse_partition_key(Relation rel)
{
	TupleDesc	desc = RelationGetDescr(rel);
	PartitionKey key = RelationGetPartitionKey(rel);

	SF_ASSERT(rel->rd_rel->relkind == RELKIND_PARTITIONED_TABLE && key != NULL);
	for (int i = 0; i < desc->natts; i++)
	{
		Form_pg_attribute att = TupleDescAttr(desc, i);

		if (!att->attisdropped && type_encrypts(att->atttypid, att->atttypmod) &&
			key_uses(key, att->attnum))
			ereport(ERROR,
					(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
					 errmsg("encrypted column \"%s\" of table \"%s\" cannot be part of its partition key",
							NameStr(att->attname), RelationGetRelationName(rel)),
					 errdetail("The partition of a row would tell of the contents, and the error of a row without one would show them."),
					 errhint("Partition the table by another column.")));
	}
}

/* Is the column new, or is its type being changed? */
static bool
gets_option(const SfColumn *column, const char *name)
{
	return !OidIsValid(sf_space_segment_relid(column->table_oid, column->attnum)) ||
		sfi_ddl_altered_column(column->table_oid, name) == column->attnum;
}

void
sfi_ddl_require_encryptable(Relation rel, const SfColumn *column)
{
	const char *name = sfi_ddl_column_name(rel, column->attnum);
	List	   *indexes;
	ListCell   *lc;

	SF_ASSERT(column->table_oid == RelationGetRelid(rel));
	if (!column->options.encrypt)
		return;
	if (!column->permanent)
		refuse_persistence(rel, name);
	require_no_late_trigger(rel, name);
	indexes = RelationGetIndexList(rel);
	foreach(lc, indexes)
	{
		Relation	index = index_open(lfirst_oid(lc), AccessShareLock);

		sfi_ddl_refuse_hashed(index);
		index_close(index, NoLock);
	}
	list_free(indexes);
	if (gets_option(column, name) && sf_keys_master_name() == NULL)
		sf_keys_refuse_no_master();
}

/* ---- ALTER TABLE ---- */

/* The type in a definition of a column, if a column of that type encrypts. */
static bool
definition_encrypts(const ColumnDef *def)
{
	int32		typmod;
	Type		type = LookupTypeName(NULL, def->typeName, &typmod, true);
	Oid			typid;

	if (type == NULL)
		return false;
	typid = typeTypeId(type);
	ReleaseSysCache(type);
	return type_encrypts(typid, typmod);
}

/* Does a new column get a value in the rows that there are? */
static bool
has_default(const ColumnDef *def)
{
	Oid			typid;
	int32		typmod;
	ListCell   *lc;

	foreach(lc, def->constraints)
	{
		Constraint *constraint = lfirst_node(Constraint, lc);

		if (constraint->contype == CONSTR_DEFAULT)
			return !IsA(constraint->raw_expr, A_Const) ||
				!castNode(A_Const, constraint->raw_expr)->isnull;
	}
	typenameTypeIdAndMod(NULL, def->typeName, &typid, &typmod);
	return get_typdefault(typid) != NULL;
}

void
sfi_ddl_refuse_plain_default(const AlterTableCmd *cmd)
{
	const ColumnDef *def = castNode(ColumnDef, cmd->def);

	if (sfi_ddl_objects() == NULL || !definition_encrypts(def) || !has_default(def))
		return;
	ereport(ERROR,
			(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
			 errmsg("encrypted column \"%s\" cannot be added with a default", def->colname),
			 errdetail("The default would be in the existing rows, or in the catalog, as it is."),
			 errhint("Add the column without a default, then use ALTER COLUMN .. SET DEFAULT and UPDATE.")));
}

void
sfi_ddl_refuse_plain_using(const AlterTableStmt *stmt, const AlterTableCmd *cmd, bool computes)
{
	const ColumnDef *def = castNode(ColumnDef, cmd->def);
	Oid			relid = RangeVarGetRelid(stmt->relation, NoLock, true);
	int32		typmod = -1;
	Oid			old_type = OidIsValid(relid) ?
		get_atttype(relid, get_attnum(relid, cmd->name)) : InvalidOid;

	if (sfi_ddl_objects() == NULL || !OidIsValid(old_type) || !definition_encrypts(def) ||
		(!computes && sfi_ddl_is_securefile(old_type, &typmod)))
		return;
	ereport(ERROR,
			(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
			 errmsg("the new values of encrypted column \"%s\" cannot be computed by ALTER TABLE", cmd->name),
			 errdetail("ALTER TABLE writes them into the rows as they are."),
			 errhint("Change the type without USING and use UPDATE, or add a column and fill it with UPDATE.")));
}

/* ---- CREATE TABLE AS, SELECT INTO ---- */

/* Passes rows on to another receiver, and looks at the values for encrypted columns. */
typedef struct SfWatch
{
	DestReceiver pub;
	DestReceiver *inner;
	PlannedStmt *query;
	Bitmapset  *columns;		/* their places in a row, from 0 */
} SfWatch;

/* An encrypted column among those that a query reads of a table, or InvalidAttrNumber. */
static AttrNumber
encrypted_column(Oid relid, const Bitmapset *selected)
{
	Relation	rel = relation_open(relid, NoLock);
	TupleDesc	desc = RelationGetDescr(rel);
	AttrNumber	found = InvalidAttrNumber;

	for (int i = 0; i < desc->natts && found == InvalidAttrNumber; i++)
	{
		Form_pg_attribute att = TupleDescAttr(desc, i);

		if (!att->attisdropped && type_encrypts(att->atttypid, att->atttypmod) &&
			sfi_ddl_takes(selected, att->attnum))
			found = att->attnum;
	}
	relation_close(rel, NoLock);
	return found;
}

/* Find a column that encrypts among those that a query reads, those of views included. */
static AttrNumber
reads_encrypted(PlannedStmt *query, Oid *relid)
{
	ListCell   *lc;

	foreach(lc, query->rtable)
	{
		RangeTblEntry *rte = lfirst(lc);
		AttrNumber	attnum;

		if (rte->rtekind != RTE_RELATION || rte->relkind == RELKIND_VIEW)
			continue;
		attnum = encrypted_column(rte->relid, sf_compat_selected_columns(query, rte));
		if (attnum == InvalidAttrNumber)
			continue;
		*relid = rte->relid;
		return attnum;
	}
	return InvalidAttrNumber;
}

/*
 * Tell of a new column for bytes that does not encrypt.  What an expression makes of a value
 * is not looked at: a part of it is as secret as the whole.
 */
static void
notice_plain(PlannedStmt *query, TupleDesc desc)
{
	Oid			relid;
	AttrNumber	attnum = reads_encrypted(query, &relid);

	if (attnum == InvalidAttrNumber)
		return;
	for (int i = 0; i < desc->natts; i++)
	{
		Form_pg_attribute att = TupleDescAttr(desc, i);
		int32		typmod = att->atttypmod;

		if (type_encrypts(att->atttypid, typmod) ||
			(!sfi_ddl_is_securefile(att->atttypid, &typmod) &&
			 getBaseType(att->atttypid) != BYTEAOID))
			continue;
		ereport(NOTICE,
				(errmsg("column \"%s\" of the new table does not encrypt", NameStr(att->attname)),
				 errdetail("The query reads column \"%s\" of table \"%s\", which does.",
						   get_attname(relid, attnum, false), get_rel_name(relid)),
				 errhint("To keep the option create the table first, and fill it with INSERT .. SELECT.")));
	}
}

static void
watch_startup(DestReceiver *self, int operation, TupleDesc desc)
{
	SfWatch    *watch = (SfWatch *) self;

	SF_ASSERT(watch->columns == NULL);
	notice_plain(watch->query, desc);
	for (int i = 0; i < desc->natts; i++)
		if (type_encrypts(TupleDescAttr(desc, i)->atttypid, TupleDescAttr(desc, i)->atttypmod))
			watch->columns = bms_add_member(watch->columns, i);
	watch->inner->rStartup(watch->inner, operation, desc);
}

static bool
watch_row(TupleTableSlot *slot, DestReceiver *self)
{
	SfWatch    *watch = (SfWatch *) self;
	int			i = -1;

	while ((i = bms_next_member(watch->columns, i)) >= 0)
	{
		bool		isnull;
		Datum		value = slot_getattr(slot, i + 1, &isnull);

		SF_ASSERT(i < slot->tts_tupleDescriptor->natts);
		if (!isnull && sfi_ddl_is_plain(value))
			ereport(ERROR,
					(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
					 errmsg("cannot create a table with plain values in encrypted column \"%s\"",
							NameStr(TupleDescAttr(slot->tts_tupleDescriptor, i)->attname)),
					 errdetail("CREATE TABLE AS and SELECT INTO write values of other encrypted columns only, for no trigger encrypts what they write."),
					 errhint("Create the table first, and fill it with INSERT .. SELECT.")));
	}
	return watch->inner->receiveSlot(slot, watch->inner);
}

static void
watch_shutdown(DestReceiver *self)
{
	DestReceiver *inner = ((SfWatch *) self)->inner;

	inner->rShutdown(inner);
}

/* The inner receiver is destroyed by its maker. */
static void
watch_destroy(DestReceiver *self)
{
	pfree(self);
}

DestReceiver *
sfi_ddl_watch_rows(DestReceiver *inner, PlannedStmt *query)
{
	SfWatch    *watch = palloc0(sizeof(SfWatch));

	watch->pub = (DestReceiver) {watch_row, watch_startup, watch_shutdown, watch_destroy,
										inner->mydest};
	watch->inner = inner;
	watch->query = query;
	return &watch->pub;
}
