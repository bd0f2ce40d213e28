/*-------------------------------------------------------------------------
 *
 * carry.c
 *	  Values that other rooms bring into a column of rows that are there already.
 *
 * migrate/ fills a new column beside an old one, and either of them may be of another type.  The
 * rows of the table can have securefile values in other columns as well, which the new version
 * of a row takes along.  table_rows.c knows how; this is its door.
 *
 *-------------------------------------------------------------------------
 */
#include "base/base.h"

#include "ddl/ddl.h"
#include "ddl/table_rows.h"

struct SfCarrier
{
	SfRowWriter writer;
	AttrNumber	attnum;
};

SfCarrier *
sf_ddl_carrier_begin(Relation rel, AttrNumber attnum)
{
	SfCarrier  *carrier = palloc(sizeof(*carrier));

	SF_ASSERT(attnum > 0 && attnum <= RelationGetNumberOfAttributes(rel));
	carrier->writer = sfi_ddl_writer_begin(rel);
	carrier->attnum = attnum;
	return carrier;
}

Snapshot
sf_ddl_carrier_snapshot(const SfCarrier *carrier)
{
	return carrier->writer.snapshot;
}

void
sf_ddl_carrier_end(SfCarrier *carrier)
{
	sfi_ddl_writer_end(&carrier->writer);
	pfree(carrier);
}

bool
sf_ddl_carrier_lock(SfCarrier *carrier, TupleTableSlot *slot)
{
	return sfi_ddl_writer_lock(&carrier->writer, slot);
}

void
sf_ddl_carrier_put(SfCarrier *carrier, TupleTableSlot *slot, NullableDatum value)
{
	sfi_ddl_writer_put(&carrier->writer, slot, carrier->attnum, value);
}
