/*-------------------------------------------------------------------------
 *
 * advice.c
 *	  Advice on duplicates: where a content of that hash may be stored already.
 *
 * A hash index of share records, by extendible hashing.  Its pages, all of them buckets, are
 * described in format/share.h.
 *
 * It is never believed.  A search that finds something goes on to the share record and
 * compares the bytes.  So an entry may be too many, or lost, and nothing comes of it but a
 * look in vain, or a second copy of a content.  Therefore:
 *
 *	- entries come and go at once, whatever becomes of the transaction;
 *	- there are no overflow pages: a bucket that is full drops its oldest entry;
 *	- a page that is damaged reads as "nothing found", with one WARNING.  Nothing is added
 *	  there until a repair begins a new index.
 *
 * A content has one entry, in the bucket of the hash of its first unit, which both a search by
 * the first unit and one by all bytes know.  Many contents may have the same first unit, as
 * versions of a growing file.  Only the newest of them stay in that bucket, and the older ones
 * move to the bucket of the hash of all their bytes.  So a search by all bytes that comes to a
 * first unit of other contents goes on there.
 *
 * How a bucket is found.  It is the last one of a walk from bucket 0 along the bits of the key,
 * about half as many steps as its number has bits.  A process remembers in which pages buckets
 * are, and begins at the last one that it knows, nearly always the bucket itself.  A bucket
 * stays in its page, and says on the page which keys it has, so what is remembered is believed
 * only as far as the page confirms it; after splits by others the walk goes on from there.  So a
 * search pins and locks one page, and not even the header.  Nobody reads from disk under a lock:
 * a bucket on the way is let go before the next one is pinned, which does no harm, since a
 * bucket never goes away.
 *
 * The index grows by a bucket at a time: a bucket of three quarters is split.  A split is one
 * record of the header and the two buckets: a crash, or an error, finds it done or not begun.
 * It is a matter of that bucket alone, so others go on, or split theirs.  The index never gets
 * smaller.  Where entries are removed there is room for others (advice_sweep.c sweeps buckets),
 * and TRUNCATE or a rewrite begins a new segment.
 *
 * What it costs: an add is one record of 80 bytes, and 20 bytes for its share of splits; a
 * full page of a bucket in addition, for the first change of it after a checkpoint.  Hashes
 * are random, so each add meets a page that is in no cache of the processor.
 *
 * Invariants:
 *	 A1	an entry is in the bucket whose number its key has in the low bits, as many as the depth
 *		of the bucket;
 *	 A2	a bucket that is split and the new one have the same depth, and numbers that differ in
 *		the last bit of it only.
 *
 *-------------------------------------------------------------------------
 */
#include "base/base.h"

#include "space/pages.h"
#include "space/pending.h"
#include "space/reserve.h"
#include "space/share_records.h"
#include "storage/lmgr.h"

/* An add that leaves as many entries in its bucket has it split. */
#define SPLIT_AT		(SFI_ADVICE_SWEEP_AT + 1)

/* ---- damage ---- */

#define WARNED_MAX	32

/*
 * Tell of damage, with no page locked: once in a process for each index, as far as it
 * remembers.  It would be said for every value that is stored.
 */
static void
warn_damaged(const SfSegment *seg)
{
	static SfStorage warned[WARNED_MAX];
	static int	next;

	for (int i = 0; i < WARNED_MAX; i++)
		if (SfStorageEquals(warned[i], seg->storage))
			return;
	warned[next] = seg->storage;
	next = (next + 1) % WARNED_MAX;
	ereport(WARNING,
			(errcode(ERRCODE_DATA_CORRUPTED),
			 errmsg("advice on duplicates of column %d of table with OID %u is damaged",
					seg->attnum, seg->table_oid),
			 errdetail("Values that are there already may be stored once more.  Nothing is lost."),
			 errhint("Run securefile_repair() on the column.")));
}

/* ---- pages that a process remembers ---- */

/* Of so many buckets. */
#define KNOWN_MAX	4096

typedef struct KnownBucket
{
	SfStorage	storage;
	uint32		number;
	uint32		page;			/* 0: nothing is here */
} KnownBucket;

static KnownBucket known_buckets[KNOWN_MAX];

/* The bits that a number of those can have. */
static int	known_depth;

/* Where a bucket is remembered, if it is. */
static KnownBucket *
place_of_known(SfStorage storage, uint32 number)
{
	return &known_buckets[(number ^ SfStorageRel(storage) * 2654435761u) % KNOWN_MAX];
}

static void
remember(SfStorage storage, uint32 number, uint32 page)
{
	SF_ASSERT(page != 0 && !SF_IS_MAP_PAGE(page));
	*place_of_known(storage, number) = (KnownBucket) {storage, number, page};
	while ((uint64) number >> known_depth != 0)
		known_depth++;
}

/* The last bucket on the way of a key whose page is remembered; NULL: none is. */
static KnownBucket *
find_known(SfStorage storage, uint64 key)
{
	for (int depth = known_depth; depth >= 0; depth--)
	{
		uint32		number = sf_advice_number(key, depth);
		KnownBucket *known = place_of_known(storage, number);

		if (known->page != 0 && known->number == number && SfStorageEquals(known->storage, storage))
			return known;
	}
	return NULL;
}

/* ---- finding a bucket ---- */

/*
 * Lock a bucket; InvalidBuffer: it is damaged, or another one.  That it says its number keeps a
 * wrong link from leading to a bucket of other keys, or in a circle.
 */
static Buffer
lock_sound_bucket(Relation rel, uint32 page, uint32 number, int mode)
{
	Buffer		buf = sfi_page_pin(rel, page);

	SF_ASSERT(mode == BUFFER_LOCK_SHARE || mode == BUFFER_LOCK_EXCLUSIVE);
	if (!BufferIsValid(buf))
		return InvalidBuffer;
	if (sfi_page_lock_sound(rel, buf, SF_PAGE_ADVICE_BUCKET, mode))
	{
		if (SfPageAdviceBucket(BufferGetPage(buf))->number == number)
			return buf;
		LockBuffer(buf, BUFFER_LOCK_UNLOCK);
	}
	ReleaseBuffer(buf);
	return InvalidBuffer;
}

/* Lock the bucket of a key, from one on the way on; InvalidBuffer: a page on the way is damaged. */
static Buffer
walk(Relation rel, uint32 page, uint32 number, uint64 key, int mode)
{
	const SfStorage storage = SfRelStorage(rel);
	Buffer		buf;

	while (BufferIsValid(buf = lock_sound_bucket(rel, page, number, mode)))
	{
		const SfAdviceBucket *bucket = SfPageAdviceBucket(BufferGetPage(buf));
		int			bit = sf_format_advice_next(bucket, key);

		SF_ASSERT((key & number) == number);
		remember(storage, number, page);
		if (bit < 0)
			return buf;
		page = bucket->pages[bit];
		number |= (uint32) 1 << bit;
		UnlockReleaseBuffer(buf);
	}
	return InvalidBuffer;
}

/*
 * The index of a segment, for the time of one function.  What is damaged is noted here, and
 * told in the end: no function on the way there throws, and none has to know why it stops.
 */
typedef struct AdviceIndex
{
	SfSegment  *seg;
	Relation	rel;
	bool		missing;		/* there is no index */
	bool		damaged;		/* a page of it was found so */
} AdviceIndex;

static AdviceIndex
open_index(SfSegment *seg)
{
	SF_ASSERT(!seg->retained);
	return (AdviceIndex) {seg, sfi_segment_rel(seg)};
}

/* The counterpart; no page is locked, so that a WARNING may wait for the client. */
static void
close_index(AdviceIndex *index)
{
	if (index->damaged)
		warn_damaged(index->seg);
	sfi_segment_close(index->rel);
}

/*
 * Lock the bucket of a key; InvalidBuffer, and noted: there is no index, or a page on the way is
 * damaged.
 *
 * What a process remembers may be no page of the index any more, after a repair.  The header says
 * where the index begins.
 */
static Buffer
lock_bucket(AdviceIndex *index, uint64 key, int mode)
{
	KnownBucket *known = find_known(index->seg->storage, key);
	const KnownBucket from = known != NULL ? *known : (KnownBucket) {{0}};
	Buffer		buf = InvalidBuffer;
	uint32		root;

	SF_ASSERT(known == NULL || (key & from.number) == from.number);
	SF_FAULT(advice_look_up);
	index->missing = false;
	if (known != NULL)
	{
		buf = walk(index->rel, from.page, from.number, key, mode);
		if (BufferIsValid(buf))
			return buf;
		known->page = 0;
	}
	root = sfi_header(index->rel).advice_root;
	if (root != 0)
		buf = walk(index->rel, root, 0, key, mode);
	SF_ASSERT(!BufferIsValid(buf) ||
			  sfi_page_is_locked(buf, mode == BUFFER_LOCK_SHARE ? LW_SHARED : LW_EXCLUSIVE));
	index->missing = root == 0;
	index->damaged |= root != 0 && !BufferIsValid(buf);
	return buf;
}

/*
 * The entries are copied, and the bucket is let go: what they lead to, share pages, comes
 * before it in the order of locks.
 */
int
sf_space_advice_find(SfSegment *seg, uint64 key, SfAdviceKind kind, SfAdvice *found)
{
	AdviceIndex index = open_index(seg);
	Buffer		buf = lock_bucket(&index, key, BUFFER_LOCK_SHARE);
	int			n = 0;

	if (BufferIsValid(buf))
	{
		n = sf_format_advice_find(SfPageAdviceBucket(BufferGetPage(buf)), key, kind, found);
		UnlockReleaseBuffer(buf);
	}
	close_index(&index);
	SF_ASSERT(n >= 0 && n <= SF_ADVICE_SAME_MAX);
	return n;
}

bool
sfi_advice_copy(SfSegment *seg, uint64 key, SfAdviceBucket *copy)
{
	AdviceIndex index = open_index(seg);
	Buffer		buf = lock_bucket(&index, key, BUFFER_LOCK_SHARE);

	if (BufferIsValid(buf))
	{
		*copy = *SfPageAdviceBucket(BufferGetPage(buf));
		UnlockReleaseBuffer(buf);
	}
	close_index(&index);
	return BufferIsValid(buf);
}

/* ---- new buckets ---- */

/*
 * Have the page in memory that will be taken, or make one, before the header is locked: every
 * writer of the segment would wait for the disk.  It is a matter of time only; what others take
 * meanwhile is read, or made, when this process takes its own.
 */
static void
prepare_page(Relation rel)
{
	SfHeader	header = sfi_header(rel);
	Buffer		buf = sfi_page_pin(rel, header.free_head);

	SF_ASSERT(header.next_page >= 2);
	if (BufferIsValid(buf))
		ReleaseBuffer(buf);
	else
		sfi_page_extend(rel, header.next_page + SF_IS_MAP_PAGE(header.next_page));
}

/*
 * Take a page for a bucket, and begin the change that makes it.  The header is locked, and changed,
 * too; the caller finishes the change.
 */
static uint32
add_new_bucket(Relation rel, Buffer hbuf, SfHeader *h, const SfAdviceBucket *bucket)
{
	Buffer		buf = sfi_pending_take_page(rel, h);
	uint32		page = BufferGetBlockNumber(buf);

	SF_ASSERT(page != 0 && !SF_IS_MAP_PAGE(page));
	SF_ASSERT(bucket->nentries <= SF_ADVICE_BUCKET_MAX);
	SF_ASSERT(h->advice_root != 0 || bucket->depth == 0);
	if (h->advice_root == 0)
		h->advice_root = page;
	sfi_change_begin_header(hbuf, h);
	sfi_change_init(sfi_change_add(buf), SF_PAGE_ADVICE_BUCKET, bucket,
					sf_advice_bucket_size(bucket));
	return page;
}

/* Make an index with one bucket, unless another process has. */
static void
make_index(AdviceIndex *index)
{
	const SfAdviceBucket empty = {0};
	SfHeader	h;
	Buffer		hbuf;

	sfi_grow_first(index->seg, index->rel);
	prepare_page(index->rel);
	hbuf = sfi_header_lock(index->rel, &h);
	if (h.advice_root != 0)
	{
		UnlockReleaseBuffer(hbuf);
		return;
	}
	add_new_bucket(index->rel, hbuf, &h, &empty);
	SF_FAULT(advice_before_record);
	sfi_change_finish_pages(SF_PAGES_ADVICE, 0, 0);
}

/* A1: do all entries belong to the bucket that they are in? */
static bool
all_belong(const SfAdviceBucket *bucket)
{
	for (int i = 0; i < bucket->nentries; i++)
		if (sf_advice_number(bucket->entries[i].key, bucket->depth) != bucket->number)
			return false;
	return true;
}

/*
 * Is a bucket, which is locked, to be split, having so many entries? half: what will go to the
 * new one.  That may be nothing: keys that differ in their high bits only stay together.  For
 * them there is one split for each bit of a number, and no more.
 */
static bool
divide(const SfAdviceBucket *bucket, int nentries, SfAdviceBucket *half)
{
	if (bucket->nentries < nentries || bucket->depth == SF_ADVICE_DEPTH_MAX)
		return false;
	sf_format_advice_half(bucket, half);
	if (SF_BREAKS(a1))
		half->entries[0].key ^= (uint64) 1 << bucket->depth;
	if (SF_BREAKS(a2))
		half->depth++;
	SF_INVARIANT(A2, half->depth == bucket->depth + 1 &&
				 half->number == (bucket->number | (uint32) 1 << bucket->depth));
	/* damage may have put others there before */
	SF_INVARIANT(A1, !all_belong(bucket) || all_belong(half));
	return true;
}

/*
 * Write the split of a bucket that is pinned, and let it go; unless another process has split it
 * meanwhile.
 */
static void
write_split(AdviceIndex *index, Buffer buf, int nentries, SfAdviceBucket *half)
{
	SfHeader	h;
	Buffer		hbuf = sfi_header_lock(index->rel, &h);
	uint32		page;

	if (!sfi_page_lock_sound(index->rel, buf, SF_PAGE_ADVICE_BUCKET, BUFFER_LOCK_EXCLUSIVE))
	{
		index->damaged = true;
		ReleaseBuffer(buf);
		UnlockReleaseBuffer(hbuf);
		return;
	}
	if (!divide(SfPageAdviceBucket(BufferGetPage(buf)), nentries, half))
	{
		UnlockReleaseBuffer(buf);
		UnlockReleaseBuffer(hbuf);
		return;
	}
	page = add_new_bucket(index->rel, hbuf, &h, half);
	SF_ASSERT(page != BufferGetBlockNumber(buf));
	sfi_change_op(sfi_change_add(buf), SF_OP_ADVICE_SPLIT, &page, sizeof(page));
	SF_FAULT(advice_before_record);
	sfi_change_finish_pages(SF_PAGES_ADVICE, 0, 0);
}

/* An ERROR leaves the index as it was. */
static void
split(AdviceIndex *index, uint64 key, int nentries)
{
	Buffer		buf = lock_bucket(index, key, BUFFER_LOCK_SHARE);
	SfAdviceBucket *half;
	bool		is_due;

	if (!BufferIsValid(buf))
		return;
	half = palloc(sizeof(SfAdviceBucket));
	is_due = divide(SfPageAdviceBucket(BufferGetPage(buf)), nentries, half);
	LockBuffer(buf, BUFFER_LOCK_UNLOCK);
	if (is_due)
	{
		prepare_page(index->rel);
		SF_FAULT(advice_split);
		write_split(index, buf, nentries, half);
	}
	else
		ReleaseBuffer(buf);
	pfree(half);
}

void
sfi_advice_split(SfSegment *seg, uint64 key, int nentries)
{
	AdviceIndex index = open_index(seg);

	split(&index, key, nentries);
	close_index(&index);
}

/* ---- entries ---- */

/*
 * Change a bucket, which is locked, by an entry; it is let go.  The record names the entry and
 * no more: redo finds the same bucket, and drops from it what was dropped here.
 */
static void
change_bucket(Buffer buf, SfOpCode code, const SfAdvice *entry)
{
	SF_ASSERT(sfi_page_is_locked(buf, LW_EXCLUSIVE));
	SF_ASSERT(code == SF_OP_ADVICE_ADD || code == SF_OP_ADVICE_REMOVE);
	sfi_change_begin();
	sfi_change_op(sfi_change_add(buf), code, entry, sizeof(*entry));
	sfi_change_finish_pages(SF_PAGES_ADVICE, 0, 0);
}

/* Add an entry to its bucket; returns how many it has then, or 0 where nothing was added. */
static int
put_entry(AdviceIndex *index, const SfAdvice *entry, SfAdvice *dropped)
{
	Buffer		buf = lock_bucket(index, entry->key, BUFFER_LOCK_EXCLUSIVE);
	const SfAdviceBucket *bucket;
	int			nentries;

	if (!BufferIsValid(buf))
		return 0;
	bucket = SfPageAdviceBucket(BufferGetPage(buf));
	if (sf_format_advice_has(bucket, entry))
	{
		UnlockReleaseBuffer(buf);
		return 0;
	}
	nentries = bucket->nentries + !sf_format_advice_dropped(bucket, entry, dropped);
	SF_ASSERT(nentries > 0 && nentries <= SF_ADVICE_BUCKET_MAX);
	change_bucket(buf, SF_OP_ADVICE_ADD, entry);
	return nentries;
}

/*
 * The split comes after the entry, with nothing locked.  Should it fail, the entry is there, as
 * it would be if the transaction failed later.
 */
int
sf_space_advice_add(SfSegment *seg, const SfAdvice *entry, SfAdvice *dropped)
{
	AdviceIndex index = open_index(seg);
	int			nentries;

	SF_ASSERT(CheckRelationLockedByMe(index.rel, RowExclusiveLock, true));
	SF_ASSERT(sf_format_advice_problem(entry) == NULL);
	SF_ASSERT(!seg->retained);
	*dropped = (SfAdvice) {0};
	while ((nentries = put_entry(&index, entry, dropped)) == 0 && index.missing)
		make_index(&index);
	if (nentries >= SPLIT_AT)
		split(&index, entry->key, SPLIT_AT);
	close_index(&index);
	return nentries;
}

/* No record is written for an entry that is not there. */
void
sf_space_advice_remove(SfSegment *seg, const SfAdvice *entry)
{
	AdviceIndex index = open_index(seg);
	Buffer		buf = lock_bucket(&index, entry->key, BUFFER_LOCK_EXCLUSIVE);

	SF_ASSERT(CheckRelationLockedByMe(index.rel, RowExclusiveLock, true));
	SF_ASSERT(sf_format_advice_problem(entry) == NULL);
	if (BufferIsValid(buf) && sf_format_advice_has(SfPageAdviceBucket(BufferGetPage(buf)), entry))
		change_bucket(buf, SF_OP_ADVICE_REMOVE, entry);
	else if (BufferIsValid(buf))
		UnlockReleaseBuffer(buf);
	close_index(&index);
}
