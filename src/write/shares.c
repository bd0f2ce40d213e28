/*-------------------------------------------------------------------------
 *
 * shares.c
 *	  Share records that a transaction has made or counted up, and how many of its rows
 *	  refer to each.
 *
 * A record is counted up once for a transaction, by 1, before the first of its rows can
 * have it: the guard.  A record that the transaction has made itself needs none.  Both are
 * facts of the top transaction, which no rollback to a savepoint takes back: they are in
 * WAL.  How many rows there are goes by nest level.  Pre-commit puts the two together:
 *
 *	 rows		own record						record of another transaction
 *	 0			stays RESERVED, and goes		REF_DROP 1: the guard was for nothing
 *	 1			NEW, 1 reference				the guard is the row's
 *	 n			NEW, n references				REF_ADD n - 1
 *
 * A row that was stored and deleted in the transaction counts here, and has a REF_DROP
 * note in the ledger, as a private one has ALLOC and FREE.
 *
 * Records are told by storage, place and object id: a move to another tablespace keeps
 * incarnation and places, and if it is rolled back what was counted in the copy is gone.
 *
 *-------------------------------------------------------------------------
 */
#include "base/base.h"

#include "access/xact.h"
#include "space/share_records.h"
#include "utils/hsearch.h"
#include "write/write_internal.h"

/* All bytes of it are compared: it has no padding. */
typedef struct ShareKey
{
	SfStorage	storage;
	uint32		page;
	uint64		object_id;
	uint64		cell;
} ShareKey;

typedef struct Share
{
	ShareKey	key;
	SfSegment  *seg;			/* this transaction's copy */
	bool		own;			/* a record of this transaction */
	bool		guarded;		/* counted up by 1 */
	SfUndoLevel level;			/* a savepoint brings back this and what
								 * follows */
	uint32		rows;
	bool		dead;			/* own, and its object was rolled back */
} Share;

/* Own contents, by what they hash to. */
typedef struct ContentKey
{
	SfStorage	storage;
	uint8		hash[SF_CONTENT_HASH_BYTES];
} ContentKey;

typedef struct Content
{
	ContentKey	key;
	Share	   *share;
} Content;

static HTAB *shares;
static HTAB *contents;
static SfUndo shares_undo = {sizeof(Share) - offsetof(Share, level)};

StaticAssertDecl(sizeof(ShareKey) == sizeof(SfStorage) + 20, "a ShareKey has no padding");

/* The entry of a record, or NULL. */
static Share *
find_share(SfStorage storage, SfShareId id, uint64 object_id)
{
	const ShareKey key = {storage, id.page, object_id, id.cell};

	return shares == NULL ? NULL : hash_search(shares, &key, HASH_FIND, NULL);
}

/* The same, made if there is none. */
static Share *
enter_share(SfSegment *seg, SfShareId id, uint64 object_id)
{
	const ShareKey key = {seg->storage, id.page, object_id, id.cell};
	Share	   *share;
	bool		found;

	if (shares == NULL)
		shares = sf_base_table("securefile shares", sizeof(ShareKey), sizeof(Share),
							   sfi_write_context());
	share = hash_search(shares, &key, HASH_ENTER, &found);
	if (!found)
	{
		memset((char *) share + sizeof(ShareKey), 0, sizeof(Share) - sizeof(ShareKey));
		share->seg = seg;
		share->level = 1;
	}
	return share;
}

/* ---- guards ---- */

/*
 * The segment is locked for the top transaction first: what was counted is to be settled at
 * its end, also after a rollback to a savepoint, and neither a check nor a repair may count
 * meanwhile.  The note is set when the count is in WAL, and nothing can throw in between.
 */
bool
sf_write_guard(SfSegment *seg, SfShareId id, uint64 object_id)
{
	Share	   *share;

	sfi_write_require_open();
	SF_ASSERT(sf_share_is_possible(id) && object_id > 0 && id.low_id == (uint16) object_id);
	seg = sfi_write_segment(seg);
	share = enter_share(seg, id, object_id);
	if (share->own || share->guarded)
		return !share->dead;
	(void) sf_space_hold(seg, RowExclusiveLock);
	sfi_write_note_entries();
	share->guarded = sf_space_share_refer(seg, id, object_id, 1);
	return share->guarded;
}

/* ---- own records ---- */

/* This transaction has made that record, whose object was made at this nest level. */
static void
own_record(SfSegment *seg, SfShareId id, const SfShareRecord *record)
{
	ContentKey	key = {seg->storage};
	Share	   *share = enter_share(seg, id, record->object_id);
	Content    *content;

	if (contents == NULL)
		contents = sf_base_table("securefile contents", sizeof(ContentKey), sizeof(Content),
								 sfi_write_context());
	SF_ASSERT(record->state == SF_SHARE_RESERVED && !share->own && !share->guarded);
	SF_ASSERT(share->level == 1);
	/* what a rollback of this level makes of it */
	share->dead = true;
	sf_undo_keep(&shares_undo, &share->level);
	memcpy(key.hash, record->hash, sizeof(key.hash));
	content = hash_search(contents, &key, HASH_ENTER, NULL);
	content->share = share;
	share->own = true;
	share->dead = false;
}

/* ---- new records ---- */

/*
 * Begin a record of this transaction, which says what the column is now: others refer to it
 * only as long as the column is the same.  False: the locator is too long, or
 * PIECED.
 */
static bool
begin_record(SfSegment *seg, const SfLocator *loc, SfShareCopy *copy)
{
	if (!sf_object_share_record(loc, copy))
		return false;
	copy->record.maker_fxid = U64FromFullTransactionId(GetTopFullTransactionId());
	copy->record.compression = sf_space_column(seg)->options.compression;
	return true;
}

/* ---- records of what rows have ---- */

/*
 * An entry under the object's id alone becomes that of its record.  Nothing is allocated, so
 * nothing throws.
 */
static void
set_place(Share *share, SfShareId id)
{
	ShareKey	key = share->key;
	Share	   *there;

	key.page = id.page;
	key.cell = id.cell;
	there = hash_update_hash_key(shares, share, &key) ? share :
		hash_search(shares, &key, HASH_FIND, NULL);
	there->guarded = true;
}

bool
sf_write_share_root(SfSegment *seg, const SfLocator *loc, SfShareCopy *copy, SfShareId *id)
{
	const SfShareId nowhere = {0};
	Share	   *share;

	sfi_write_require_open();
	SF_ASSERT(sf_object_has_root(loc));
	if (!begin_record(seg, loc, copy))
		return false;
	copy->record.state = SF_SHARE_LIVE;
	copy->record.references = 2;
	seg = sfi_write_segment(seg);
	share = enter_share(seg, nowhere, loc->object_id);
	(void) sf_space_hold(seg, RowExclusiveLock);
	sfi_write_note_entries();
	if (!sf_space_share_root(seg, sf_object_root(loc), copy, id))
		return false;
	set_place(share, *id);
	return true;
}

bool
sf_write_own_share(SfSegment *seg, const SfFingerprint *hash, SfShareId *id)
{
	ContentKey	key = {seg->storage};
	Content    *content;

	memcpy(key.hash, hash->full, sizeof(key.hash));
	content = contents == NULL ? NULL : hash_search(contents, &key, HASH_FIND, NULL);
	if (content == NULL || content->share->dead)
		return false;
	*id = (SfShareId) {content->share->key.page, (uint16) content->share->key.cell,
							  (uint16) content->share->key.object_id};
	return true;
}

/* ---- references ---- */

SfValue
sf_write_reference(SfSegment *seg, SfShareId id, const SfShareRecord *record,
				   const SfLocator *object)
{
	uint64		reference_id = sf_space_reserve_ids(seg, 1);
	SfValue		value = sf_object_reference(seg, record, id, reference_id, object);

	sfi_write_require_open();
	SF_ASSERT(value.loc.share.reference_id == reference_id &&
			  value.loc.object_id == record->object_id);
	sfi_objects_refer(sfi_write_segment(seg), &value.loc);
	return value;
}

SfValue
sf_write_share(SfSegment *seg, const SfValue *draft, const SfFingerprint *hash)
{
	const SfLocator *loc = &draft->loc;
	SfObject   *object = sfi_objects_find(loc);
	SfShareCopy copy;
	SfShareId	id;

	sfi_write_require_open();
	SF_ASSERT(object != NULL && object->state == SF_OBJECT_DRAFT && loc->generation == 1);
	if (!begin_record(seg, loc, &copy))
	{
		sfi_objects_place(object, loc);
		return *draft;
	}
	copy.record.hash_method = loc->key_id != 0 ? SF_SHARE_HASH_KEYED : SF_SHARE_HASH_XXH3;
	memcpy(copy.record.hash, hash->full, sizeof(copy.record.hash));
	copy.record.prefix_hash = hash->prefix;
	sfi_objects_set_state(object, SF_OBJECT_PLACED);	/* no row adopts it */
	sfi_objects_unroot(object);
	(void) sf_space_hold(seg, RowExclusiveLock);
	sfi_write_note_entries();
	id = sf_space_share_put(seg, &copy);
	own_record(sfi_write_segment(seg), id, &copy.record);
	sf_space_share_advise(seg, id, &copy.record);
	return sf_write_reference(seg, id, &copy.record, loc);
}

/* ---- rows ---- */

void
sfi_shares_add_row(SfSegment *seg, const SfLocator *loc)
{
	SfShareId	id = sf_share_id_of(loc);
	Share	   *share = find_share(seg->storage, id, loc->object_id);

	if (share == NULL || (!share->own && !share->guarded))
		elog(ERROR, "share record of object " UINT64_FORMAT " is not counted", loc->object_id);
	SF_ASSERT(!share->dead);
	sf_undo_keep(&shares_undo, &share->level);
	share->rows++;
}

/* ---- pre-commit and end ---- */

/* Settle one record, as the table at the head of this file says. */
static void
settle(Share *share)
{
	const SfShareId id = {share->key.page, (uint16) share->key.cell,
		(uint16) share->key.object_id};
	SfSegment  *seg = share->seg;

	SF_ASSERT(share->rows == 0 || share->own || share->guarded);
	SF_ASSERT(!share->dead || share->rows == 0);
	if ((!share->own && !share->guarded) || !sf_space_is_usable(seg))
		return;					/* storage that is gone takes its records
								 * along */
	if (share->own)
	{
		if (share->rows > 0)
			sf_space_share_publish(seg, id, share->key.object_id, share->rows);
	}
	else if (share->rows == 0)
		sfi_ledger_add_drop(SF_NOTE_REF_DROP, seg, id, 1);
	else if (share->rows > 1 &&
			 !sf_space_share_refer(seg, id, share->key.object_id, share->rows - 1))
		sf_base_report_damage(psprintf("share record of object " UINT64_FORMAT " is gone",
									   share->key.object_id),
							  psprintf("This transaction has counted it up, in cell %u of page %u.",
									   id.cell, id.page));
}

void
sfi_shares_settle(void)
{
	HASH_SEQ_STATUS status;
	Share	   *share;

	if (shares == NULL)
		return;
	hash_seq_init(&status, shares);
	while ((share = hash_seq_search(&status)) != NULL)
		settle(share);
}

bool
sfi_shares_has(SfStorage storage)
{
	HASH_SEQ_STATUS status;
	Share	   *share;
	bool		found = false;

	if (shares == NULL)
		return false;
	hash_seq_init(&status, shares);
	while ((share = hash_seq_search(&status)) != NULL)
		found |= SfStorageEquals(share->key.storage, storage) && (share->own || share->guarded);
	return found;
}

void
sfi_shares_reset(void)
{
	shares = contents = NULL;
}
