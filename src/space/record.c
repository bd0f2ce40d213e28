/*-------------------------------------------------------------------------
 *
 * record.c
 *	  Are the records that redo gets such as we write them?
 *
 * Their checksum says so, as a rule.  But redo writes to shared buffers and to
 * files by what they say, with nobody to ask, so each length, kind and range is
 * looked at before anything is done; a record that cannot be right ends recovery
 * with an error, to which the server adds where in WAL it lies.  What is possible
 * and wrong all the same (another number of a sector) is not to be told.
 *
 * The changes of a page are looked at where that is read, see change.c.
 *
 *-------------------------------------------------------------------------
 */
#include "base/base.h"

#include "access/xlogutils.h"
#include "space/space_internal.h"
#include "storage/bufmgr.h"

/* ---- main data ---- */

/* Length of the main data of a kind of record, that of DATA without the bytes; 0: unknown. */
static Size
data_size(uint8 kind)
{
	switch (kind)
	{
		case XLOG_SF_CREATE:
		case XLOG_SF_UNLINK:
			return sizeof(xl_sf_node);
		case XLOG_SF_GROW:
		case XLOG_SF_TRUNCATE:
			return sizeof(xl_sf_size);
		case XLOG_SF_ENTRIES:
			return sizeof(xl_sf_entries);
		case XLOG_SF_RESOLVE:
			return sizeof(xl_sf_resolve);
		case XLOG_SF_QUEUE:
		case XLOG_SF_INODE:
		case XLOG_SF_HEADER:
		case XLOG_SF_REPAIR:
			return sizeof(xl_sf_plain);
		case XLOG_SF_DATA:
			return sizeof(xl_sf_data);
		case XLOG_SF_DROP_DB:
		case XLOG_SF_OWN:
			return sizeof(xl_sf_db);
	}
	return 0;
}

bool
sf_record_is_readable(XLogReaderState *record)
{
	Size		want = data_size(sf_record_kind(record));

	return want > 0 && XLogRecGetDataLen(record) >= want &&
		*(uint8 *) XLogRecGetData(record) == SF_WAL_VERSION;
}

/* The segment that the main data names; NULL where it names none. */
static const SfNode *
node_of_data(XLogReaderState *record)
{
	void	   *rec = XLogRecGetData(record);

	switch (sf_record_kind(record))
	{
		case XLOG_SF_CREATE:
		case XLOG_SF_UNLINK:
			return &((xl_sf_node *) rec)->node;
		case XLOG_SF_GROW:
		case XLOG_SF_TRUNCATE:
			return &((xl_sf_size *) rec)->node;
		case XLOG_SF_RESOLVE:
			return &((xl_sf_resolve *) rec)->node;
		case XLOG_SF_DATA:
			return &((xl_sf_data *) rec)->node;
	}
	return NULL;
}

static const char *
size_problem(uint64 total_sectors)
{
	return total_sectors > SF_MAX_SECTORS || total_sectors % SF_BLOCK_SECTORS != 0 ?
		"it has an impossible size of a segment" : NULL;
}

static const char *
bytes_problem(const xl_sf_data *rec, Size len)
{
	if (rec->nsectors == 0 || rec->nsectors > SF_DATA_RECORD_SECTORS ||
		len != sizeof(*rec) + (Size) rec->nsectors * SF_SECTOR_SIZE)
		return "it has another number of bytes than it says";
	if (rec->start_sector > SF_MAX_SECTORS - rec->nsectors)
		return "its bytes have an impossible place";
	return NULL;
}

static const char *
data_problem(XLogReaderState *record)
{
	void	   *rec = XLogRecGetData(record);
	uint8		kind = sf_record_kind(record);
	const SfNode *node;

	if (!sf_record_is_readable(record))
		return "it is too short, of an unknown kind or an unknown version";
	if (kind != XLOG_SF_DATA && XLogRecGetDataLen(record) != data_size(kind))
		return "it is too long";
	node = node_of_data(record);
	if (node != NULL && (SfNodeSpc(*node) == InvalidOid || SfNodeDb(*node) == InvalidOid ||
						 SfNodeRel(*node) == 0))
		return "it names no segment";
	switch (kind)
	{
		case XLOG_SF_GROW:
		case XLOG_SF_TRUNCATE:
			return size_problem(((xl_sf_size *) rec)->total_sectors);
		case XLOG_SF_DATA:
			return bytes_problem(rec, XLogRecGetDataLen(record));
		case XLOG_SF_DROP_DB:
		case XLOG_SF_OWN:
			return OidIsValid(((xl_sf_db *) rec)->db) ? NULL : "it names no database";
	}
	return NULL;
}

/* ---- pages ---- */

/* May a kind of record have pages, must it? */
static const char *
count_problem(uint8 kind, int npages)
{
	switch (kind)
	{
		case XLOG_SF_GROW:		/* of a move: none */
			break;
		case XLOG_SF_UNLINK:
		case XLOG_SF_DATA:
		case XLOG_SF_DROP_DB:
		case XLOG_SF_OWN:
			return npages == 0 ? NULL : "it has pages";
		default:
			if (npages == 0)
				return "it has no pages";
	}
	return npages <= SF_CHANGE_MAX ? NULL : "it has too many pages";
}

/* The header page as it is after a record, from its block of page 0. */
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
			sf_page_type(image.data) != SF_PAGE_HEADER)
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

/* May a page be made new by a record with that header?  Redo extends up to it. */
static const char *
new_page_problem(BlockNumber page, const SfHeader *header)
{
	uint64		nmaps;

	if (page == 0)
		return NULL;
	if (header == NULL)
		return "it has a new page, and no header that knows it";
	nmaps = (header->total_sectors + SF_MAP_SECTORS - 1) / SF_MAP_SECTORS;
	/* a repair also makes anew what lies among the pages that there are */
	if (page < header->next_page || (SF_IS_MAP_PAGE(page) && (page - 1) / SF_MAP_STRIDE < nmaps))
		return NULL;
	return "it has a new page that its header does not know";
}

static const char *
page_problem(XLogReaderState *record, int block, const SfHeader *header)
{
	SfNode		first;
	SfNode		node;
	ForkNumber	fork;
	BlockNumber page;
	const SfNode *named = node_of_data(record);

	if (!XLogRecHasBlockRef(record, block))
		return "its pages are not numbered one after the other";
	XLogRecGetBlockTag(record, 0, &first, NULL, NULL);
	XLogRecGetBlockTag(record, block, &node, &fork, &page);
	if (fork != MAIN_FORKNUM || !SfNodeEquals(node, first) ||
		(named != NULL && !SfNodeEquals(node, *named)))
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
		return new_page_problem(page, header);
	return NULL;
}

static const char *
pages_problem(XLogReaderState *record)
{
	uint8		kind = sf_record_kind(record);
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
	if (has_header && (kind == XLOG_SF_GROW || kind == XLOG_SF_TRUNCATE) &&
		header.total_sectors != ((xl_sf_size *) XLogRecGetData(record))->total_sectors)
		return "it has two sizes of a segment";
	for (int i = 0; i < n && problem == NULL; i++)
		problem = page_problem(record, i, has_header ? &header : NULL);
	return problem;
}

/* ---- all of it ---- */

void
sf_record_report(const char *problem)
{
	ereport(ERROR,
			(errcode(ERRCODE_DATA_CORRUPTED),
			 errmsg("WAL record of a securefile segment is damaged"),
			 errdetail_internal("Of the record: %s.", problem)));
}

void
sf_record_check(XLogReaderState *record)
{
	const char *problem = data_problem(record);

	if (problem == NULL)
		problem = pages_problem(record);
	if (problem != NULL)
		sf_record_report(problem);
}
