/*-------------------------------------------------------------------------
 *
 * record.c
 *	  Are the records that redo gets such as we write them?
 *
 * Their checksum says so, as a rule.  But redo writes to shared buffers and to
 * files by what they say, with nobody to ask, so each length, kind and range is
 * looked at before anything is done; a record that cannot be right ends recovery
 * with an error, to which the server adds where in WAL it lies.  A plausible but wrong
 * value (another sector number) cannot be detected here.
 *
 * The looks go from what all records have to what few have, and each relies on those
 * before it:
 *
 *	 main data		opcode known; as long as its struct; version		data_problem()
 *	 its fields		segment, size, database; then those of one kind		held_problem()
 *	 blocks			as many as the kind may have, numbered from 0		count_problem()
 *	 each block		of one segment, no page twice						block_problem()
 *	 a new page		the header of the same record knows it				a new page's problem
 *
 * The last one keeps a wrong page number from extending the relation by gigabytes of
 * zeros: redo of a page that is made new extends the relation up to it.
 *
 * Why not trust the checksum?  It tells that a record is as it was written.  It does not
 * tell that this extension wrote it, in this version: the number of a resource manager is
 * not reserved, and a record of another extension would end here.
 *
 * The changes of a page are looked at where that is read, see page_change.c.
 *
 *-------------------------------------------------------------------------
 */
#include "base/base.h"

#include "space/pages.h"
#include "space/record.h"

/* ---- main data ---- */

bool
sfi_record_is_readable(XLogReaderState *record, const SfRecordKind *kind)
{
	return kind->name != NULL && XLogRecGetDataLen(record) >= kind->size &&
		*(uint8 *) XLogRecGetData(record) == SF_WAL_VERSION;
}

/* The segment that the main data names; NULL where it names none. */
static const SfStorage *
named_storage(XLogReaderState *record, const SfRecordKind *kind)
{
	xl_sf_storage *rec = (xl_sf_storage *) XLogRecGetData(record);

	SF_ASSERT(kind->size >= sizeof(xl_sf_storage) || (kind->holds & SF_HOLDS_STORAGE) == 0);
	return (kind->holds & SF_HOLDS_STORAGE) != 0 ? &rec->storage : NULL;
}

/* What is wrong with what many kinds hold; NULL: nothing. */
static const char *
held_problem(XLogReaderState *record, const SfRecordKind *kind)
{
	void	   *rec = XLogRecGetData(record);
	const SfStorage *storage = named_storage(record, kind);

	SF_ASSERT(sfi_record_is_readable(record, kind));
	if (storage != NULL &&
		(SfStorageSpc(*storage) == InvalidOid ||
		 SfStorageDb(*storage) == InvalidOid ||
		 SfStorageRel(*storage) == 0))
		return "it names no segment";
	if ((kind->holds & SF_HOLDS_SIZE) != 0)
	{
		uint64		total = ((xl_sf_size *) rec)->total_sectors;

		if (total > SF_MAX_SECTORS || total % SF_BLOCK_SECTORS != 0)
			return "it has an impossible size of a segment";
	}
	if ((kind->holds & SF_HOLDS_DB) != 0 && !OidIsValid(((xl_sf_db *) rec)->db))
		return "it names no database";
	return NULL;
}

/* What is wrong with the main data; NULL: nothing. */
static const char *
data_problem(XLogReaderState *record, const SfRecordKind *kind)
{
	Size		len = XLogRecGetDataLen(record);
	const char *problem;

	if (!sfi_record_is_readable(record, kind))
		return "it is too short, of an unknown kind or an unknown version";
	if ((kind->holds & SF_HOLDS_BYTES) == 0 && len != kind->size)
		return "it is too long";
	problem = held_problem(record, kind);
	if (problem == NULL && kind->problem != NULL)
		problem = kind->problem(XLogRecGetData(record), len);
	return problem;
}

/* ---- pages ---- */

/* May a kind of record have pages, must it? */
static const char *
count_problem(const SfRecordKind *kind, int npages)
{
	SF_ASSERT(npages >= 0 && kind->min_pages <= kind->max_pages &&
			  kind->max_pages <= SF_CHANGE_MAX);
	if (npages < kind->min_pages)
		return "it has no pages";
	if (npages > kind->max_pages)
		return kind->max_pages == 0 ? "it has pages" : "it has too many pages";
	return NULL;
}

/*
 * The header page as it is after a record, from its block of page 0; false when that
 * is not one.  The block is a full-page image, or one operation that has all of the
 * header: the whole header is logged whenever a field of it changes, which makes the
 * record say by itself which pages there may be.
 */
static bool
header_after(XLogReaderState *record, int block, SfHeader *header)
{
	Size		len;
	const uint8 *ops = (const uint8 *) XLogRecGetBlockData(record, block, &len);
	PGAlignedBlock image;
	SfOp		op;

	if (XLogRecHasBlockImage(record, block))
	{
		if (!RestoreBlockImage(record, block, image.data) ||
			sfi_page_type(image.data) != SF_PAGE_HEADER)
			return false;
		*header = *SfPageHeader(image.data);
		return true;
	}
	/* its only change; in a new page behind the type */
	if (ops == NULL || len < sizeof(SfOpHeader))
		return false;
	op = sf_format_op_next(&ops);
	if (op.len > len - sizeof(SfOpHeader) || op.len < sizeof(*header) ||
		(op.code != SF_OP_HEADER && op.code != SF_OP_INIT))
		return false;
	memcpy(header, op.payload + op.len - sizeof(*header), sizeof(*header));
	return true;
}

const char *
sfi_record_new_page_problem(BlockNumber page, const SfHeader *header)
{
	uint64		nmaps;

	/* a header page is made new by CREATE, and stands for itself */
	if (page == 0)
		return NULL;
	if (header == NULL)
		return "it has a new page, and no header that knows it";
	nmaps = sf_maps_of(header->total_sectors);
	/* a repair also makes anew what lies among the pages that there are */
	if (page < header->next_page || (SF_IS_MAP_PAGE(page) && (page - 1) / SF_MAP_STRIDE < nmaps))
		return NULL;
	return "it has a new page that its header does not know";
}

/* What is wrong with one block of a record, and with it beside those before it. */
static const char *
block_problem(XLogReaderState *record, int block, const SfStorage *named, const SfHeader *header)
{
	SfStorage	first;
	SfStorage	storage;
	ForkNumber	fork;
	BlockNumber page;

	SF_ASSERT(block >= 0 && block <= XLogRecMaxBlockId(record));
	if (!XLogRecHasBlockRef(record, block))
		return "its pages are not numbered one after the other";
	XLogRecGetBlockTag(record, 0, &first, NULL, NULL);
	XLogRecGetBlockTag(record, block, &storage, &fork, &page);
	if (fork != MAIN_FORKNUM || !SfStorageEquals(storage, first) ||
		(named != NULL && !SfStorageEquals(storage, *named)))
		return "it has pages of more than one segment";
	/* redo would wait for its own lock */
	for (int i = 0; i < block; i++)
	{
		BlockNumber other;

		XLogRecGetBlockTag(record, i, NULL, NULL, &other);
		if (other == page)
			return "it has a page twice";
	}
	if ((XLogRecGetBlock(record, block)->flags & BKPBLOCK_WILL_INIT) != 0)
		return sfi_record_new_page_problem(page, header);
	return NULL;
}

/*
 * What is wrong with the blocks of a record; NULL: nothing.  The header page comes first
 * in every record that has it, so that the other blocks can be held against it.
 */
static const char *
blocks_problem(XLogReaderState *record, const SfRecordKind *kind)
{
	int			n = XLogRecMaxBlockId(record) + 1;
	const char *problem = count_problem(kind, n);
	SfHeader	header;
	bool		has_header = false;
	BlockNumber page;

	if (problem != NULL || n == 0)
		return problem;
	if (XLogRecHasBlockRef(record, 0))
	{
		XLogRecGetBlockTag(record, 0, NULL, NULL, &page);
		has_header = page == 0 && header_after(record, 0, &header);
		if (page == 0 && !has_header)
			return "its header page is none";
	}
	if (has_header && (kind->holds & SF_HOLDS_SIZE) != 0 &&
		header.total_sectors != ((xl_sf_size *) XLogRecGetData(record))->total_sectors)
		return "it has two sizes of a segment";
	for (int i = 0; i < n && problem == NULL; i++)
		problem = block_problem(record, i, named_storage(record, kind),
								has_header ? &header : NULL);
	return problem;
}

/* ---- all of it ---- */

void
sfi_record_report(const char *problem)
{
	ereport(ERROR,
			(errcode(ERRCODE_DATA_CORRUPTED),
			 errmsg("WAL record of a securefile segment is damaged"),
			 errdetail_internal("Of the record: %s.", problem)));
}

void
sfi_record_check(XLogReaderState *record, const SfRecordKind *kind)
{
	const char *problem;

	if (XLogRecGetDataLen(record) > 0 && *(uint8 *) XLogRecGetData(record) > SF_WAL_VERSION)
		sf_base_report_later("WAL record of a securefile segment",
							 *(uint8 *) XLogRecGetData(record), SF_WAL_VERSION);
	problem = data_problem(record, kind);
	if (problem == NULL)
		problem = blocks_problem(record, kind);
	if (problem != NULL)
		sfi_record_report(problem);
}
