/*-------------------------------------------------------------------------
 *
 * removals.c
 *	  Which values rows have lost, in columns that keep them for a time.
 *
 * Notes of a transaction wait here until they are some kilobytes, or the transaction commits.  As
 * those of the ledger, a note belongs to a nest level, and carries an xid that has the verdict of
 * that level.  Notes come at the end.  So those of a subtransaction, which began later than all
 * notes of its parents, are the last ones, and go together when it aborts.
 *
 *	 removals	level 1		level 1		level 2		level 3		...
 *	 bytes		key value	key value	key value	key value	...
 *
 *-------------------------------------------------------------------------
 */
#include "base/base.h"

#include "access/xact.h"
#include "miscadmin.h"
#include "space/history.h"
#include "write/write_internal.h"

/* So many bytes are logged before the commit. */
#define MOST_BYTES		(16 * 1024)

/* A chunk is a part of a page, so that little of one is left over. */
#define CHUNK_BYTES		(SF_REMOVED_ROOM / 4)

StaticAssertDecl(sizeof(SfRemovedChunk) + SF_REMOVED_WRITTEN_MAX + CHUNK_BYTES < SF_REMOVED_ROOM,
				 "a chunk with any record fits a page");

typedef struct Removal
{
	SfSegment  *seg;			/* this transaction's copy */
	uint64		fxid;
	int			level;
	uint32		at;				/* its bytes */
	SfRemovedHead head;
} Removal;

static Removal *removals;
static int64 nremovals;
static int64 removals_size;
static uint8 *bytes;			/* of all of them */
static int64 nbytes;
static int64 bytes_size;
static bool any_logged;			/* in this transaction */

/* Append to the bytes. */
static void
add_bytes(const void *from, int n)
{
	while (nbytes + n > bytes_size)
		bytes = sfi_write_make_room(bytes, bytes_size, &bytes_size, 1);
	if (n > 0)
		memcpy(bytes + nbytes, from, n);
	nbytes += n;
}

void
sfi_removals_add(SfSegment *seg, struct varlena *value, const SfRemoval *removal)
{
	Removal		added = {.seg = seg, .at = nbytes};

	SF_ASSERT(removal->key_bytes <= SF_REMOVED_KEY_MAX);
	SF_ASSERT(VARSIZE_ANY(value) <= SF_REMOVED_VALUE_MAX);
	added.fxid = U64FromFullTransactionId(GetCurrentFullTransactionId());
	added.level = GetCurrentTransactionNestLevel();
	added.head.kind = removal->kind;
	added.head.key_bytes = removal->key_bytes;
	added.head.value_bytes = VARSIZE_ANY(value);
	removals = sfi_write_make_room(removals, nremovals, &removals_size, sizeof(Removal));
	add_bytes(removal->key, removal->key_bytes);
	add_bytes(value, VARSIZE_ANY(value));
	removals[nremovals++] = added;
}

/* ---- logging ---- */

/* A chunk in the making. */
typedef struct Making
{
	union
	{
		SfRemovedChunk chunk;
		uint8		bytes[SF_REMOVED_ROOM];
	}			u;
	SfRemovedRecord records[2]; /* the last one that was put, and the next */
	int64		n;				/* so many were put */
} Making;

/*
 * The xid that a record carries.  What belongs to the top-level transaction by now has its xid, so
 * that the list names a transaction as its user knows it.
 */
static uint64
xid_to_list(const Removal *removal)
{
	SF_ASSERT(removal->level >= 1);
	return removal->level > 1 ? removal->fxid :
		U64FromFullTransactionId(GetTopFullTransactionId());
}

/* Put the next records into the chunk, as far as they are of its transaction and it has room. */
static void
fill_chunk(Making *making, int64 first)
{
	SfRemovedChunk *chunk = &making->u.chunk;
	const Removal *head = &removals[first];

	memset(chunk, 0, sizeof(*chunk));
	chunk->fxid = xid_to_list(head);
	chunk->nbytes = sizeof(*chunk);
	for (making->n = 0; first + making->n < nremovals && chunk->nbytes < CHUNK_BYTES; making->n++)
	{
		const Removal *removal = &removals[first + making->n];
		SfRemovedRecord *record = &making->records[making->n % 2];
		SfRemovedRecord *before = &making->records[(making->n + 1) % 2];

		if (removal->seg != head->seg || xid_to_list(removal) != chunk->fxid)
			break;
		record->head = removal->head;
		memcpy(record->bytes, bytes + removal->at,
			   removal->head.key_bytes + removal->head.value_bytes);
		chunk->nbytes += sf_format_removed_put(making->u.bytes + chunk->nbytes, record,
											   making->n == 0 ? NULL : before);
	}
	SF_ASSERT(making->n > 0);
	memset(making->u.bytes + chunk->nbytes, 0, 8);
	chunk->nbytes = TYPEALIGN(8, chunk->nbytes);
}

/* Forget the first notes; what is left begins at the begin. */
static void
forget_first(int64 n)
{
	uint32		gone = n < nremovals ? removals[n].at : nbytes;

	SF_ASSERT(n <= nremovals && gone <= nbytes);
	nremovals -= n;
	nbytes -= gone;
	memmove(removals, removals + n, nremovals * sizeof(Removal));
	memmove(bytes, bytes + gone, nbytes);
	for (int64 i = 0; i < nremovals; i++)
		removals[i].at -= gone;
}

/*
 * Log all notes.  Notes of storage that this transaction has replaced or dropped fall away: early,
 * too, since they are no more than names (a rollback to a savepoint brings the values back, not
 * their removal).  After an ERROR some of them may be logged, which are forgotten.
 */
void
sfi_removals_log(void)
{
	Making	   *making;
	volatile int64 done = 0;

	if (nremovals == 0)
		return;
	making = palloc(sizeof(Making));
	sfi_write_note_entries();
	PG_TRY();
	{
		while (done < nremovals)
		{
			SfSegment  *seg = removals[done].seg;

			CHECK_FOR_INTERRUPTS();
			fill_chunk(making, done);
			done += making->n;
			any_logged = true;
			if (sf_space_is_usable(seg))
				sf_space_log_removed(seg, &making->u.chunk);
		}
	}
	PG_FINALLY();
	{
		forget_first(done);
	}
	PG_END_TRY();
	pfree(making);
}

void
sfi_removals_bound(void)
{
	if (nbytes > MOST_BYTES)
		sfi_removals_log();
}

/* Of what was logged nobody knows here which storage it is of. */
bool
sf_write_has_removed(SfStorage storage)
{
	for (int64 i = 0; i < nremovals; i++)
		if (SfStorageEquals(removals[i].seg->storage, storage))
			return true;
	return any_logged;
}

/* ---- ends ---- */

void
sfi_removals_at_subcommit(int level)
{
	SF_ASSERT(level > 1 && (nremovals == 0 || removals[nremovals - 1].level <= level));
	for (int64 i = nremovals; i > 0 && removals[i - 1].level >= level; i--)
		removals[i - 1].level = level - 1;
}

void
sfi_removals_at_subabort(int level)
{
	SF_ASSERT(level > 1);
	while (nremovals > 0 && removals[nremovals - 1].level >= level)
		nbytes = removals[--nremovals].at;
}

void
sfi_removals_reset(void)
{
	removals = NULL;
	bytes = NULL;
	nremovals = removals_size = nbytes = bytes_size = 0;
	any_logged = false;
}
