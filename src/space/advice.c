/*-------------------------------------------------------------------------
 *
 * advice.c
 *	  Advice on duplicates: where a content of that hash may be stored already.
 *
 * A hash index of share records, by linear hashing.  Its pages are described in
 * format/share.h:
 *
 *	 header: advice_root -> root -> directory pages -> buckets
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
 * The index grows by a bucket at a time: an add that leaves its bucket at three quarters has
 * the next bucket in turn split, which is another one as a rule:
 *
 *	 6 buckets, of which 0 and 1 have been split in this round (4 to 8):
 *
 *	  0    1    2    3    4    5			hash mod 8, if that is a bucket,
 *	 1/3  1/3  2/3  2/3  1/3  1/3			else hash mod 4
 *	           ^
 *	           next: half of its entries go to bucket 6
 *
 * The buckets of a round are split shortly after each other, since their loads are much the
 * same.  So between rounds the load rises from a third to two thirds.  A bucket holds 509
 * entries; that one of them is full while its likes have two thirds does not happen to
 * hashes that are good ones, unless splits lag behind: the process that splits has no turn
 * of the processor, and all others add on without waiting for it.
 *
 * The index never gets smaller.  Where entries are removed there is room for others (advice_sweep.c
 * sweeps buckets), and TRUNCATE or a rewrite begins a new segment.
 *
 * How a bucket is found while others split.  Nobody reads from disk under a lock, so root,
 * directory and bucket are pinned on the way there, and each is locked for a moment only.
 * Then the root is locked again, in share mode, and if the hash still belongs to that bucket
 * the bucket is locked before the root is let go.  A split locks the root exclusively, so it
 * comes before or after.
 *
 * A split is one record of header, root, directory and the two buckets: a crash, or an error,
 * finds it done or not begun.  The heavyweight advice lock keeps a second splitter out, which
 * goes on without a split: the next add will do.
 *
 * What it costs: an add is one record of 72 bytes, and 20 bytes for its share of splits; a
 * full page of a bucket in addition, for the first change of it after a checkpoint.  Hashes
 * are random, so each add meets a page that is in no cache of the processor.
 *
 * Invariants:
 *	 A1	an entry is in the bucket that its hash belongs to, by the number of buckets that
 *		the root has;
 *	 A2	only the holder of the advice lock splits buckets, and changes root and directory.
 *
 *-------------------------------------------------------------------------
 */
#include "base/base.h"

#include "space/advice.h"
#include "space/pages.h"
#include "space/pending.h"
#include "space/reserve.h"
#include "space/share_records.h"
#include "storage/lmgr.h"

/* An add that leaves as many entries in its bucket has a bucket split. */
#define SPLIT_AT		(SFI_ADVICE_SWEEP_AT + 1)

/*
 * A bucket with fewer entries is not split.  Hashes that differ in their high bits only would
 * make it futile: the index would grow with each add, and the full bucket stay full.
 */
#define SPLIT_LEAST		(SF_ADVICE_BUCKET_MAX / 8)

/* As many as a root and full directory pages lead to: 2 billion entries. */
#define BUCKETS_MAX		((uint32) (SF_ADVICE_LIST_MAX * SF_ADVICE_LIST_MAX))

/*
 * The index of a segment, for the time of one function.  What is damaged is noted here, and
 * told in the end: no function on the way there throws, and none has to know why it stops.
 */
typedef struct AdviceIndex
{
	SfSegment  *seg;
	Relation	rel;
	uint32		root_page;
	Buffer		root;			/* pinned; InvalidBuffer: it cannot be */
	bool		damaged;		/* a page of it was found so */
} AdviceIndex;

/* ---- damage ---- */

#define WARNED_MAX	32

/*
 * Tell of damage, with no page locked: once in a process for each index, as far as it
 * remembers.  It would be said for every value that is stored.
 */
static void
warn_damaged(const AdviceIndex *index)
{
	static struct
	{
		SfStorage	storage;
		uint32		root_page;	/* 0: nothing is here */
	}			warned[WARNED_MAX];
	static int	next;
	SfStorage	storage = index->seg->storage;

	SF_ASSERT(index->damaged && index->root_page != 0);
	for (int i = 0; i < WARNED_MAX; i++)
		if (warned[i].root_page == index->root_page &&
			SfStorageEquals(warned[i].storage, storage))
			return;
	warned[next].storage = storage;
	warned[next].root_page = index->root_page;
	next = (next + 1) % WARNED_MAX;
	ereport(WARNING,
			(errcode(ERRCODE_DATA_CORRUPTED),
			 errmsg("advice on duplicates of column %d of table with OID %u is damaged",
					index->seg->attnum, index->seg->table_oid),
			 errdetail("Values that are there already may be stored once more.  Nothing is lost."),
			 errhint("Run securefile_repair() on the column.")));
}

/* ---- finding a bucket ---- */

/*
 * Open the index of a segment; false, and nothing is open: there is none.
 *
 * The header is asked each time.  A root that a process remembers may be none any more, after a
 * repair, and then it can be anybody's page.
 */
static bool
open_index(AdviceIndex *index, SfSegment *seg)
{
	Relation	rel = sfi_segment_rel(seg);
	uint32		root = sfi_header(rel).advice_root;

	if (root == 0)
	{
		sfi_segment_close(rel);
		return false;
	}
	SF_ASSERT(!seg->retained);
	*index = (AdviceIndex) {seg, rel, root, sfi_page_pin(rel, root)};
	index->damaged = !BufferIsValid(index->root);
	return true;
}

/* The counterpart; no page is locked, so that a WARNING may wait for the client. */
static void
close_index(AdviceIndex *index)
{
	if (BufferIsValid(index->root))
		ReleaseBuffer(index->root);
	if (index->damaged)
		warn_damaged(index);
	sfi_segment_close(index->rel);
}

/*
 * The i-th page of a list that is pinned, or 0: it is damaged, or has no such page.  Pages of
 * the index never move, and a list only gets longer, so the answer holds without the lock.
 */
static uint32
listed_page(const AdviceIndex *index, Buffer buf, SfPageType type, uint32 i)
{
	const SfAdviceList *list = SfPageAdviceList(BufferGetPage(buf));
	uint32		page;

	SF_ASSERT(type == SF_PAGE_ADVICE_ROOT || type == SF_PAGE_ADVICE_DIRECTORY);
	if (!sfi_page_lock_sound(index->rel, buf, type, BUFFER_LOCK_SHARE))
		return 0;
	page = i < list->npages ? list->pages[i] : 0;
	LockBuffer(buf, BUFFER_LOCK_UNLOCK);
	return page;
}

/* Pin the directory page that leads to a bucket; InvalidBuffer: damaged. */
static Buffer
pin_directory(const AdviceIndex *index, uint32 bucket)
{
	SF_ASSERT(BufferIsValid(index->root) && bucket < BUCKETS_MAX);
	return sfi_page_pin(index->rel, listed_page(index, index->root, SF_PAGE_ADVICE_ROOT,
												bucket / SF_ADVICE_LIST_MAX));
}

/* Pin a bucket, whose number is below that of buckets; InvalidBuffer: damaged. */
static Buffer
pin_bucket(const AdviceIndex *index, uint32 bucket)
{
	Buffer		directory = pin_directory(index, bucket);
	uint32		page;

	if (!BufferIsValid(directory))
		return InvalidBuffer;
	page = listed_page(index, directory, SF_PAGE_ADVICE_DIRECTORY, bucket % SF_ADVICE_LIST_MAX);
	ReleaseBuffer(directory);
	return sfi_page_pin(index->rel, page);
}

/* The number of buckets, or 0: the root is damaged.  It only rises. */
static uint32
count_buckets(const AdviceIndex *index)
{
	uint32		nbuckets;

	if (!sfi_page_lock_sound(index->rel, index->root, SF_PAGE_ADVICE_ROOT, BUFFER_LOCK_SHARE))
		return 0;
	nbuckets = SfPageAdviceList(BufferGetPage(index->root))->nbuckets;
	LockBuffer(index->root, BUFFER_LOCK_UNLOCK);
	SF_ASSERT(nbuckets > 0 && nbuckets <= BUCKETS_MAX);
	return nbuckets;
}

/*
 * Lock a bucket that is pinned; false, and not locked: it is damaged, or another one.  That it
 * says its number keeps a wrong list from leading to a bucket of other hashes.
 */
static bool
lock_sound_bucket(const AdviceIndex *index, Buffer buf, uint32 bucket, int mode)
{
	SF_ASSERT(BufferIsValid(buf) && bucket < BUCKETS_MAX);
	if (!sfi_page_lock_sound(index->rel, buf, SF_PAGE_ADVICE_BUCKET, mode))
		return false;
	if (SfPageAdviceBucket(BufferGetPage(buf))->number == bucket)
		return true;
	LockBuffer(buf, BUFFER_LOCK_UNLOCK);
	return false;
}

/*
 * Lock a bucket that is pinned, if the hash belongs there.  False, and it was let go: it does
 * not, after a split, or, with index->damaged, a page is damaged.
 *
 * This is where A1 is kept: while the root is locked nothing is split, and when it is let go
 * the bucket is locked, so that it cannot be split either.
 */
static bool
lock_if_still(AdviceIndex *index, Buffer buf, uint32 bucket, uint64 hash, int mode)
{
	bool		still = false;

	SF_ASSERT(!index->damaged);
	if (!sfi_page_lock_sound(index->rel, index->root, SF_PAGE_ADVICE_ROOT, BUFFER_LOCK_SHARE))
		index->damaged = true;
	else
	{
		uint32		nbuckets = SfPageAdviceList(BufferGetPage(index->root))->nbuckets;

		still = sf_advice_bucket_of(hash, nbuckets) == bucket;
		if (still && !lock_sound_bucket(index, buf, bucket, mode))
		{
			index->damaged = true;
			still = false;
		}
		LockBuffer(index->root, BUFFER_LOCK_UNLOCK);
	}
	if (!still)
		ReleaseBuffer(buf);
	return still;
}

/*
 * Lock the bucket of a hash; InvalidBuffer, and index->damaged: a page on the way is so.  Each
 * time round another process has made a bucket.
 */
static Buffer
lock_bucket(AdviceIndex *index, uint64 hash, int mode)
{
	while (!index->damaged)
	{
		uint32		nbuckets = count_buckets(index);
		uint32		bucket = nbuckets > 0 ? sf_advice_bucket_of(hash, nbuckets) : 0;
		Buffer		buf = nbuckets > 0 ? pin_bucket(index, bucket) : InvalidBuffer;

		SF_FAULT(advice_look_up);
		if (!BufferIsValid(buf))
			index->damaged = true;
		else if (lock_if_still(index, buf, bucket, hash, mode))
		{
			SF_ASSERT(sfi_page_is_locked(buf, mode == BUFFER_LOCK_SHARE ? LW_SHARED :
										 LW_EXCLUSIVE));
			return buf;
		}
	}
	return InvalidBuffer;
}

/*
 * The entries are copied, and the bucket is let go: what they lead to, share pages, comes
 * before it in the order of locks.
 */
int
sf_space_advice_find(SfSegment *seg, uint64 hash, SfAdviceKind kind, SfAdvice *found)
{
	AdviceIndex index;
	Buffer		buf;
	int			n = 0;

	SF_ASSERT(!seg->retained);
	if (!open_index(&index, seg))
		return 0;
	buf = lock_bucket(&index, hash, BUFFER_LOCK_SHARE);
	if (BufferIsValid(buf))
	{
		n = sf_format_advice_find(SfPageAdviceBucket(BufferGetPage(buf)), hash, kind, found);
		UnlockReleaseBuffer(buf);
	}
	close_index(&index);
	SF_ASSERT(n >= 0 && n <= SF_ADVICE_SAME_MAX);
	return n;
}

bool
sfi_advice_copy(SfSegment *seg, uint64 hash, SfAdviceBucket *copy)
{
	AdviceIndex index;
	Buffer		buf;

	SF_ASSERT(!seg->retained);
	if (!open_index(&index, seg))
		return false;
	buf = lock_bucket(&index, hash, BUFFER_LOCK_SHARE);
	if (BufferIsValid(buf))
	{
		*copy = *SfPageAdviceBucket(BufferGetPage(buf));
		UnlockReleaseBuffer(buf);
	}
	close_index(&index);
	return BufferIsValid(buf);
}

/* ---- new pages ---- */

/* Have the first pages of the free list in memory, n at most; returns how many. */
static int
read_free_pages(Relation rel, uint32 page, int n)
{
	int			nread = 0;

	while (nread < n && page != SF_NO_PAGE)
	{
		Buffer		buf = sfi_page_pin(rel, page);

		if (!BufferIsValid(buf))
			break;

		/*
		 * if others have taken it meanwhile, the rest is read when it is
		 * taken
		 */
		page = SF_NO_PAGE;
		if (sfi_page_lock_sound(rel, buf, SF_PAGE_FREE, BUFFER_LOCK_SHARE))
		{
			page = SfPageFree(BufferGetPage(buf))->next;
			nread++;
			LockBuffer(buf, BUFFER_LOCK_UNLOCK);
		}
		ReleaseBuffer(buf);
	}
	SF_ASSERT(nread <= n);
	return nread;
}

/*
 * Have the next n pages that will be taken in memory, or new ones made, before the header is
 * locked: every writer of the segment would wait for the disk.  It is a matter of time only;
 * what others take meanwhile is read, or made, when this process takes its own.
 */
static void
prepare_pages(Relation rel, int n)
{
	SfHeader	header = sfi_header(rel);
	uint32		last;

	SF_ASSERT(n > 0 && header.next_page >= 2);
	n -= read_free_pages(rel, header.free_head, n);
	if (n == 0)
		return;
	last = header.next_page + n - 1;
	/* a map page lies in between, at most one */
	for (uint32 page = header.next_page; page <= last; page++)
		if (SF_IS_MAP_PAGE(page))
			last++;
	sfi_page_extend(rel, last);
}

/*
 * Make a page of the index new, with so much of its contents, in the change.  It is locked
 * exclusively, and free, or a bucket that is divided.
 */
static void
add_new_page(Buffer buf, SfPageType type, const void *content, Size len)
{
	SF_ASSERT(BufferGetBlockNumber(buf) != 0 && !SF_IS_MAP_PAGE(BufferGetBlockNumber(buf)));
	sfi_change_init(sfi_change_add(buf), type, content, len);
}

/* The same of a list of one page; nbuckets: of a root. */
static void
add_new_list(Buffer buf, SfPageType type, uint32 nbuckets, uint32 page)
{
	const SfAdviceListChange list = {nbuckets, 1, page};

	SF_ASSERT((type == SF_PAGE_ADVICE_ROOT) == (nbuckets == 1));
	add_new_page(buf, type, &list, sizeof(list));
}

StaticAssertDecl(offsetof(SfAdviceListChange, last) == offsetof(SfAdviceList, pages),
				 "a list of one page begins as a change of one");

/*
 * Make an index with one bucket, unless another process has.  All of it is one record, with
 * the header that leads there.
 */
static void
make_index(SfSegment *seg)
{
	Relation	rel = sfi_segment_rel(seg);
	const SfAdviceBucket empty = {0};
	SfHeader	h;
	Buffer		hbuf;
	Buffer		bufs[3];

	sfi_grow_first(seg, rel);
	prepare_pages(rel, 3);
	hbuf = sfi_page_read(rel, 0, SF_PAGE_HEADER, BUFFER_LOCK_EXCLUSIVE);
	h = *SfPageHeader(BufferGetPage(hbuf));
	if (h.advice_root != 0)
	{
		UnlockReleaseBuffer(hbuf);
		sfi_segment_close(rel);
		return;
	}
	for (int i = 0; i < 3; i++)
		bufs[i] = sfi_pending_take_page(rel, &h);
	h.advice_root = BufferGetBlockNumber(bufs[0]);
	sfi_change_begin();
	sfi_change_header(sfi_change_add(hbuf), &h);
	add_new_list(bufs[0], SF_PAGE_ADVICE_ROOT, 1, BufferGetBlockNumber(bufs[1]));
	add_new_list(bufs[1], SF_PAGE_ADVICE_DIRECTORY, 0, BufferGetBlockNumber(bufs[2]));
	add_new_page(bufs[2], SF_PAGE_ADVICE_BUCKET, &empty, sf_advice_bucket_size(&empty));
	SF_FAULT(advice_before_record);
	sfi_change_finish_pages(SF_PAGES_ADVICE, 0, 0);
	sfi_segment_close(rel);
}

/* ---- splitting a bucket ---- */

/*
 * A split.  Its pages are pinned first (prepare_split()), then the header is locked, then
 * they are, and looked at again (lock_split()): a damaged one is left as it is.
 */
typedef struct Split
{
	AdviceIndex *index;
	uint32		nbuckets;		/* before it */
	uint32		bucket;			/* that is split */
	Buffer		buf;			/* of it */
	Buffer		directory;		/* that will lead to the new bucket;
								 * InvalidBuffer: it is made */
	SfAdviceBucket stay;		/* the two buckets after it */
	SfAdviceBucket go;
} Split;

/* Let its pages go, of which none is locked. */
static void
release_split(Split *split)
{
	if (BufferIsValid(split->directory))
		ReleaseBuffer(split->directory);
	if (BufferIsValid(split->buf))
		ReleaseBuffer(split->buf);
}

/*
 * Is the bucket, which is pinned, full enough to be split?  False, too, if it is damaged.  It
 * need not be as full as that of the entry that was added; see SPLIT_LEAST.
 */
static bool
is_full_enough(Split *split)
{
	int			nentries;

	SF_ASSERT(split->bucket < split->nbuckets);
	if (!lock_sound_bucket(split->index, split->buf, split->bucket, BUFFER_LOCK_SHARE))
	{
		split->index->damaged = true;
		return false;
	}
	nentries = SfPageAdviceBucket(BufferGetPage(split->buf))->nentries;
	LockBuffer(split->buf, BUFFER_LOCK_UNLOCK);
	return nentries >= SPLIT_LEAST;
}

/*
 * Pin the pages of the next split, and have those in memory that it will take.  False, and
 * nothing is pinned: it cannot be, or is not worth it.
 */
static bool
prepare_split(Split *split)
{
	AdviceIndex *index = split->index;
	bool		new_directory;

	split->nbuckets = count_buckets(index);
	if (split->nbuckets == 0 || split->nbuckets == BUCKETS_MAX)
		return false;
	new_directory = split->nbuckets % SF_ADVICE_LIST_MAX == 0;
	split->bucket = sf_advice_split_of(split->nbuckets);
	split->buf = pin_bucket(index, split->bucket);
	split->directory = new_directory ? InvalidBuffer : pin_directory(index, split->nbuckets);
	if (!BufferIsValid(split->buf) || (!new_directory && !BufferIsValid(split->directory)))
		index->damaged = true;
	else if (is_full_enough(split))
	{
		prepare_pages(index->rel, new_directory ? 2 : 1);
		return true;
	}
	release_split(split);
	return false;
}

/*
 * Lock the directory page that will lead to the new bucket, if there is one.  False, and not
 * locked: it is damaged.
 */
static bool
lock_directory(Split *split)
{
	Buffer		buf = split->directory;

	SF_ASSERT(BufferIsValid(buf) == (split->nbuckets % SF_ADVICE_LIST_MAX != 0));
	if (!BufferIsValid(buf))
		return true;
	if (!sfi_page_lock_sound(split->index->rel, buf, SF_PAGE_ADVICE_DIRECTORY,
							 BUFFER_LOCK_EXCLUSIVE))
		return false;
	if (SfPageAdviceList(BufferGetPage(buf))->npages == split->nbuckets % SF_ADVICE_LIST_MAX)
		return true;
	LockBuffer(buf, BUFFER_LOCK_UNLOCK);
	return false;
}

/*
 * Lock the pages of a split, the header being locked.  False, and none of them is locked: one
 * is damaged.  The root has as many buckets as before, by A2.
 */
static bool
lock_split(Split *split)
{
	AdviceIndex *index = split->index;

	SF_INVARIANT(A2, sfi_page_lock_is_held(index->rel, SF_LOCK_ADVICE));
	if (sfi_page_lock_sound(index->rel, index->root, SF_PAGE_ADVICE_ROOT, BUFFER_LOCK_EXCLUSIVE))
	{
		SF_INVARIANT(A2, SfPageAdviceList(BufferGetPage(index->root))->nbuckets ==
					 split->nbuckets);
		if (lock_directory(split))
		{
			if (lock_sound_bucket(index, split->buf, split->bucket, BUFFER_LOCK_EXCLUSIVE))
				return true;
			if (BufferIsValid(split->directory))
				LockBuffer(split->directory, BUFFER_LOCK_UNLOCK);
		}
		LockBuffer(index->root, BUFFER_LOCK_UNLOCK);
	}
	index->damaged = true;
	return false;
}

/* A1: do all entries belong to the bucket that they are in? */
static bool
all_belong(const SfAdviceBucket *bucket, uint32 nbuckets)
{
	for (int i = 0; i < bucket->nentries; i++)
		if (sf_advice_bucket_of(bucket->entries[i].hash, nbuckets) != bucket->number)
			return false;
	return true;
}

/* Divide the entries of the bucket, which is locked.  Nothing is changed by that. */
static void
divide(Split *split)
{
	const SfAdviceBucket *bucket = SfPageAdviceBucket(BufferGetPage(split->buf));

	sf_format_advice_split(bucket, split->nbuckets + 1, &split->stay, &split->go);
	if (SF_BREAKS(a1))
		split->go.entries[split->go.nentries++] = split->stay.entries[--split->stay.nentries];
	SF_ASSERT(split->stay.nentries + split->go.nentries == bucket->nentries);
	/* damage may have put others there before */
	SF_INVARIANT(A1, !all_belong(bucket, split->nbuckets) ||
				 (all_belong(&split->stay, split->nbuckets + 1) &&
				  all_belong(&split->go, split->nbuckets + 1)));
}

/*
 * Add the new bucket to root and directory.  With a new page of the directory, that one is
 * added to the root.
 */
static void
list_new_bucket(Split *split, Buffer new_directory, uint32 page)
{
	const SfAdviceList *root = SfPageAdviceList(BufferGetPage(split->index->root));
	SfAdviceListChange change = {split->nbuckets + 1, root->npages,
		root->pages[root->npages - 1]};

	SF_INVARIANT(A2, sfi_page_is_locked(split->index->root, LW_EXCLUSIVE));
	if (BufferIsValid(new_directory))
	{
		change.npages++;
		change.last = BufferGetBlockNumber(new_directory);
	}
	sfi_change_op(sfi_change_find(split->index->root), SF_OP_ADVICE_LIST, &change, sizeof(change));
	if (BufferIsValid(new_directory))
		add_new_list(new_directory, SF_PAGE_ADVICE_DIRECTORY, 0, page);
	else
	{
		change = (SfAdviceListChange) {0, split->nbuckets % SF_ADVICE_LIST_MAX + 1, page};
		sfi_change_op(sfi_change_add(split->directory), SF_OP_ADVICE_LIST, &change,
					  sizeof(change));
	}
}

/*
 * Split the bucket, unless a page is found to be damaged.  All pages are let go.
 *
 * Both buckets are written whole.  That is a record of 6 KB for some 170 entries that move, and
 * as many that stay: 20 bytes more for each entry that is ever added.
 */
static void
write_split(Split *split)
{
	AdviceIndex *index = split->index;
	Buffer		hbuf = sfi_page_read(index->rel, 0, SF_PAGE_HEADER, BUFFER_LOCK_EXCLUSIVE);
	SfHeader	h = *SfPageHeader(BufferGetPage(hbuf));
	Buffer		new_directory = InvalidBuffer;
	Buffer		new_buf;

	if (!lock_split(split))
	{
		UnlockReleaseBuffer(hbuf);
		release_split(split);
		return;
	}
	divide(split);
	if (!BufferIsValid(split->directory))
		new_directory = sfi_pending_take_page(index->rel, &h);
	new_buf = sfi_pending_take_page(index->rel, &h);
	SF_ASSERT(new_buf != split->buf && new_buf != split->directory && new_buf != index->root);
	sfi_change_begin();
	sfi_change_header(sfi_change_add(hbuf), &h);
	IncrBufferRefCount(index->root);	/* stays pinned for the caller */
	(void) sfi_change_add(index->root);
	list_new_bucket(split, new_directory, BufferGetBlockNumber(new_buf));
	add_new_page(split->buf, SF_PAGE_ADVICE_BUCKET, &split->stay,
				 sf_advice_bucket_size(&split->stay));
	add_new_page(new_buf, SF_PAGE_ADVICE_BUCKET, &split->go, sf_advice_bucket_size(&split->go));
	SF_FAULT(advice_before_record);
	sfi_change_finish_pages(SF_PAGES_ADVICE, 0, 0);
}

/*
 * Split the next bucket in turn, unless another process does.  An ERROR leaves the index as it
 * was, and the end of the (sub)transaction releases the lock.
 */
static void
split_next(AdviceIndex *index)
{
	bool		breaks = SF_BREAKS(a2);
	Split	   *split;

	if (!breaks && !ConditionalLockPage(index->rel, SF_LOCK_ADVICE, ExclusiveLock))
		return;
	split = palloc(sizeof(Split));
	split->index = index;
	if (prepare_split(split))
	{
		SF_FAULT(advice_split);
		write_split(split);
	}
	pfree(split);
	UnlockPage(index->rel, SF_LOCK_ADVICE, ExclusiveLock);
}

/* ---- entries ---- */

/*
 * Change a bucket, which is locked, by an entry; it is let go.  The record names the entry and
 * no more: redo finds the same bucket, and drops from it what was dropped here.
 */
static void
change_bucket(Buffer buf, SfOpCode code, const SfAdvice *entry)
{
	SF_ASSERT(code == SF_OP_ADVICE_ADD || code == SF_OP_ADVICE_REMOVE);
	sfi_change_begin();
	sfi_change_op(sfi_change_add(buf), code, entry, sizeof(*entry));
	sfi_change_finish_pages(SF_PAGES_ADVICE, 0, 0);
}

/* Add an entry to its bucket; returns how many it has then, or 0 where nothing was added. */
static int
put_entry(AdviceIndex *index, const SfAdvice *entry)
{
	Buffer		buf = lock_bucket(index, entry->hash, BUFFER_LOCK_EXCLUSIVE);
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
	nentries = Min(bucket->nentries + 1, SF_ADVICE_BUCKET_MAX);
	change_bucket(buf, SF_OP_ADVICE_ADD, entry);
	return nentries;
}

/*
 * The split comes after the entry, with nothing locked.  Should it fail, the entry is there, as
 * it would be if the transaction failed later.
 */
int
sf_space_advice_add(SfSegment *seg, const SfAdvice *entry)
{
	AdviceIndex index;
	int			nentries;

	SF_ASSERT(!seg->retained && sf_format_advice_problem(entry) == NULL);
	while (!open_index(&index, seg))
		make_index(seg);
	SF_ASSERT(CheckRelationLockedByMe(index.rel, RowExclusiveLock, true));
	if ((nentries = put_entry(&index, entry)) >= SPLIT_AT)
		split_next(&index);
	close_index(&index);
	return nentries;
}

void
sfi_advice_split(SfSegment *seg)
{
	AdviceIndex index;

	if (!open_index(&index, seg))
		return;
	split_next(&index);
	close_index(&index);
}

/* No record is written for an entry that is not there. */
void
sf_space_advice_remove(SfSegment *seg, const SfAdvice *entry)
{
	AdviceIndex index;
	Buffer		buf;

	SF_ASSERT(!seg->retained && sf_format_advice_problem(entry) == NULL);
	if (!open_index(&index, seg))
		return;
	SF_ASSERT(CheckRelationLockedByMe(index.rel, RowExclusiveLock, true));
	buf = lock_bucket(&index, entry->hash, BUFFER_LOCK_EXCLUSIVE);
	if (BufferIsValid(buf) && sf_format_advice_has(SfPageAdviceBucket(BufferGetPage(buf)), entry))
		change_bucket(buf, SF_OP_ADVICE_REMOVE, entry);
	else if (BufferIsValid(buf))
		UnlockReleaseBuffer(buf);
	close_index(&index);
}

/* ---- repair ---- */

/*
 * The pages of the index are nobody's then.  They are not set free here: the repair does that
 * with all such pages, and knows which of them are in a list of free pages already.
 */
void
sf_space_advice_forget(SfSegment *seg)
{
	Relation	rel = sfi_segment_rel(seg);
	Buffer		hbuf = sfi_page_read(rel, 0, SF_PAGE_HEADER, BUFFER_LOCK_EXCLUSIVE);
	SfHeader	h = *SfPageHeader(BufferGetPage(hbuf));

	SF_ASSERT(CheckRelationLockedByMe(rel, ShareRowExclusiveLock, true));
	SF_FAULT(repair_page);
	h.advice_root = 0;
	sfi_change_begin();
	sfi_change_header(sfi_change_add(hbuf), &h);
	sfi_change_finish_pages(SF_PAGES_REPAIR, 0, 0);
	sfi_segment_close(rel);
}
