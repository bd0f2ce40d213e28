/*-------------------------------------------------------------------------
 *
 * reference.c
 *	  Locators of shared objects: from that of an object to its share record, and
 *	  from the record to the locator of a row that refers to it.
 *
 * A row's locator has the whole map, so that reading a shared value costs nothing more.
 * It differs from that of another row by its reference id only.
 *
 *-------------------------------------------------------------------------
 */
#include "base/base.h"

#include "keys/keys.h"
#include "object/object_internal.h"
#include "space/share_records.h"
#include "transform/transform.h"

void
sfi_object_put_tag(SfSegment *seg, uint16 key_id, uint8 *data, Size len)
{
	uint8		tag[SF_LOCATOR_TAG_SIZE];

	SF_ASSERT(key_id != 0 && len > SF_LOCATOR_HEADER + SF_LOCATOR_TAG_SIZE);
	sf_transform_locator_tag(sf_keys_of(seg, key_id),
							 (SfBytes) {data, sf_locator_tag_offset(len)}, tag);
	sf_format_locator_set_tag(data, len, tag, &seg->secret);
}

bool
sf_object_share_record(const SfLocator *loc, SfShareCopy *copy)
{
	SfShareRecord *record = &copy->record;
	bool		pieced = (loc->flags & SF_LOC_PIECED) != 0;
	size_t		len = pieced ? 0 : sf_format_share_locator(record->locator, loc);
	uint64		nsectors;

	SF_ASSERT(loc->generation > 0);
	if (len == 0)
		return false;
	memset(record, 0, sizeof(*record));
	record->object_id = loc->object_id;
	record->state = SF_SHARE_RESERVED;
	record->key_id = loc->key_id;
	record->length_bytes = loc->unit_space_bytes;
	record->locator_bytes = len;

	/*
	 * Of a map in inode pages as many as it would be as it is: the number is
	 * for statistics.
	 */
	nsectors = loc->flags & SF_LOC_INODE ? sf_bytes_to_sectors(loc->unit_space_bytes)
		: sf_object_flat_sectors(loc);
	record->stored_blocks = Min(sf_blocks_of(nsectors), PG_UINT32_MAX);
	return true;
}

SfValue
sf_object_reference(SfSegment *seg, const SfShareRecord *record, SfShareId id,
					uint64 reference_id, const SfLocator *object)
{
	SfValue		value = {.form = SF_FORM_STORED};
	struct varlena *datum = palloc(VARHDRSZ + SF_LOCATOR_MAX_SIZE);
	uint8	   *data = (uint8 *) VARDATA(datum);
	Size		len = sf_format_reference(data, record, id, reference_id, &seg->secret);

	SF_ASSERT(len > SF_LOCATOR_HEADER && len <= SF_LOCATOR_MAX_SIZE && reference_id > 0);
	if (record->key_id != 0)
		sfi_object_put_tag(seg, record->key_id, data, len);
	SET_VARSIZE(datum, VARHDRSZ + len);
	value.datum = datum;
	if (object == NULL)
		value.loc = sf_object_locator(datum);
	else
	{
		value.loc = *object;
		sf_format_locator_encoded(data, len, &value.loc);
	}
	SF_ASSERT(sfi_object_is_as_decoded(&value));
	return value;
}

/* Report that a share record does not say what it must. */
SF_NORETURN static void
report_damaged(uint64 object_id, const char *problem)
{
	sf_base_report_damage(psprintf("share record of object " UINT64_FORMAT " is damaged", object_id),
						  psprintf("The %s.", problem));
}

/* The locator of a record has neither tag nor hash, so one of a reference is made of it. */
void
sf_object_share_version(SfSegment *seg, const SfShareRecord *record, SfShareVersion *version)
{
	/* whichever: it is not looked at */
	const SfShareId any = {2, 0, 0};
	size_t		len = sf_format_reference(version->encoded, record, any, 1, &seg->secret);
	const char *problem = sf_format_locator_decode(version->encoded, len, &version->loc);

	if (problem == NULL && (version->loc.object_id != record->object_id ||
							version->loc.incarnation != seg->incarnation))
		problem = "locator is that of another object";
	if (problem != NULL)
		report_damaged(record->object_id, problem);
	SF_ASSERT(version->loc.unit_space_bytes > 0);
}

void
sf_object_shared_base(SfSegment *seg, const SfLocator *loc, SfShareVersion *version)
{
	SfShareCopy copy;

	SF_ASSERT((loc->flags & SF_LOC_SHARED) && (loc->share.flags & SF_SHARE_BASED));
	if (!sf_space_share_read(seg, sf_share_id_of(loc), &copy) ||
		copy.record.object_id != loc->object_id)
		report_damaged(loc->object_id, "record is not where values refer to it");
	sf_object_share_version(seg, &copy.record, version);
	SF_ASSERT(version->loc.object_id == loc->object_id);
}

SfOwned
sf_object_of_share(SfSegment *seg, const SfShareRecord *record)
{
	SfShareVersion version;

	sf_object_share_version(seg, record, &version);
	return sf_object_difference(seg, &version.loc, NULL, NULL);
}
