/*-------------------------------------------------------------------------
 *
 * rope.c
 *	  EDITED values of many pieces: balanced trees that share what is the same.
 *
 * A flat EDITED value is copied whole by each edit, which is the best there is
 * for a few pieces and costs the square of their number in a loop.  A rope is an
 * expanded object (utils/expandeddatum.h) that such a loop keeps in its
 * variable, or an aggregate in its state.  Its nodes are never changed: an edit
 * makes those between the root and the place of the edit anew, and shares all
 * others with the value it was made from.  So it is not asked whether a datum
 * is read-only, and a variable that holds an older value still has that.
 *
 * The nodes, and what they point to, lie in a store, which belongs to all ropes
 * that were made from one another and is freed with the last of them.  Nodes of
 * older values that nobody holds any more stay in it: when they are most of it,
 * the next rope moves to a store of its own.
 *
 * In a tuple or any other place that outlives memory, a rope is flat.
 *
 * A node has one piece, with the pieces before it below its left child and those behind
 * it below its right one; each node knows how many bytes are below it.  So byte n is
 * found, and a tree is cut or joined, in as many steps as the tree is high.
 *
 *					 overlay("...", new piece)
 *
 *		head_of(t, from)	+	new		+	tail_of(t, to)
 *		shares the left			a node		shares the right
 *		part of t							part of t
 *
 * Heights of siblings differ by 2 at most (an AVL tree with some slack, which needs
 * fewer rotations); balance() mends a difference of 3, and join() goes down the higher
 * tree until it meets one of the lower one's height.  Everything is made of these two.
 *
 * What a loop of n edits costs: each edit makes some tens of nodes, about log(n) for
 * each of the two cuts and the two joins, and none of the pieces is copied but the new
 * one.  Flat values would copy n pieces n times.  The price is memory for nodes of older
 * ropes; a rope that finds that its store is mostly such garbage copies itself to a new
 * one, so the memory of a loop stays within a multiple of its result.
 *
 * A rope is never locked and never shared between processes.  Everything it needs beyond
 * the store lies in its own context, whose end (a reset callback) is the only thing that
 * gives the store up: there is no other way for a rope to die.
 *
 *-------------------------------------------------------------------------
 */
#include "base/base.h"

#include "object/object_internal.h"
#include "utils/memutils.h"

#define NODES_AT_ONCE	64
#define STORE_SMALL		(64 * 1024) /* bytes that are not worth a move */

typedef struct RopeNode RopeNode;
struct RopeNode
{
	RopeNode   *left;
	RopeNode   *right;
	SfPiece		piece;
	uint64		length;			/* of all below, as is what follows */
	uint64		data;			/* upper limit of what a flat one takes behind
								 * its pieces */
	uint64		nvalues;
	uint32		npieces;
	int			height;
};

typedef struct Store
{
	MemoryContext context;
	int			nropes;
	RopeNode   *nodes;			/* not used yet */
	int			nnodes;
	Size		used;
	Size		move_at;		/* size from which on ropes move away */
} Store;

struct SfRope
{
	ExpandedObjectHeader header;
	MemoryContextCallback at_end;
	Store	   *store;
	RopeNode   *root;
	struct varlena *flat;		/* between get_flat_size and flatten_into */
};

/* ---- stores ---- */

/* A MemoryContextCallback of a rope. */
static void
leave_store(void *arg)
{
	SfRope	   *rope = arg;

	SF_ASSERT(rope->store == NULL || rope->store->nropes > 0);
	if (rope->store != NULL && --rope->store->nropes == 0)
		MemoryContextDelete(rope->store->context);
	rope->store = NULL;
}

/*
 * A store with nothing in it.  Its memory hangs below no other context until a rope has
 * entered it, so what fails on the way frees it here.
 */
static Store *
new_store(void)
{
	/* ropes of different lives may share it, so it belongs to none of them */
	MemoryContext context = AllocSetContextCreate(TopMemoryContext, "securefile edited values",
												  ALLOCSET_DEFAULT_SIZES);
	Store	   *store = MemoryContextAllocExtended(context, sizeof(Store),
												   MCXT_ALLOC_NO_OOM | MCXT_ALLOC_ZERO);

	if (store == NULL)
	{
		MemoryContextDelete(context);
		ereport(ERROR,
				(errcode(ERRCODE_OUT_OF_MEMORY),
				 errmsg("out of memory")));
	}
	store->context = context;
	store->move_at = STORE_SMALL;
	return store;
}

/* The rope keeps the store alive from now on; leave_store() ends that. */
static void
enter_store(SfRope *rope, Store *store)
{
	SF_ASSERT(rope->store == NULL && store->nropes >= 0);
	store->nropes++;
	rope->store = store;
}

/* Memory of the store, counted: the sum decides when a rope moves away. */
static void *
store_alloc(Store *store, Size size)
{
	store->used += size;
	return MemoryContextAllocHuge(store->context, size);
}

/*
 * A copy in the store of what a piece points to. values: the values that were copied
 * already, so that a value that many pieces refer to is there once.
 */
static SfPiece
store_piece(Store *store, SfPiece piece, SfValues *values)
{
	struct varlena **copy;

	if (piece.kind == SF_PIECE_BYTES)
		piece.bytes = memcpy(store_alloc(store, piece.length), piece.bytes, piece.length);
	else if (piece.kind == SF_PIECE_VALUE)
	{
		copy = sfi_values_find(values, piece.value);
		if (*copy == NULL)
		{
			*copy = sf_object_copy(piece.value, store->context);
			store->used += VARSIZE(*copy);
		}
		piece.value = *copy;
	}
	return piece;
}

/* ---- trees: none of these functions changes a node ---- */

#define Height(node)	((node) == NULL ? 0 : (node)->height)
#define Length(node)	((node) == NULL ? 0 : (node)->length)
#define Pieces(node)	((node) == NULL ? 0 : (node)->npieces)
#define Values(node)	((node) == NULL ? 0 : (node)->nvalues)
#define Data(node)		((node) == NULL ? 0 : (node)->data)

/*
 * Bytes that a piece may take behind the list of a flat value.  A value is left out: it
 * is there once, however often it occurs, so its size cannot be added up by nodes.
 */
static uint64
data_of(const SfPiece *piece)
{
	return piece->kind == SF_PIECE_BYTES ? piece->length : 0;
}

/*
 * A node over two trees of nearly the same height.  Nodes come in blocks, as an edit
 * makes a dozen of them; one that is not used any more stays where it is, for older
 * ropes may share it.
 */
static RopeNode *
new_node(Store *store, RopeNode *left, SfPiece piece, RopeNode *right)
{
	RopeNode   *node;

	SF_ASSERT(abs(Height(left) - Height(right)) <= 2 && piece.length > 0);
	if (store->nnodes == 0)
	{
		store->nodes = store_alloc(store, NODES_AT_ONCE * sizeof(RopeNode));
		store->nnodes = NODES_AT_ONCE;
	}

	/*
	 * All sums are made here and never changed: the length of a rope, and
	 * whether it has values, are read from the root only.
	 */
	node = &store->nodes[--store->nnodes];
	node->left = left;
	node->right = right;
	node->piece = piece;
	node->length = sf_object_add_lengths(sf_object_add_lengths(Length(left), piece.length),
										 Length(right));
	node->data = Data(left) + data_of(&piece) + Data(right);
	node->nvalues = Values(left) + (piece.kind == SF_PIECE_VALUE) + Values(right);
	node->npieces = Pieces (left) + 1 + Pieces (right);

	node->height = Max(Height(left), Height(right)) + 1;
	return node;
}

/*
 * A tree of two trees and a piece between them, whose heights differ by at most 3: one
 * rotation, single or double, as in any AVL tree, but with new nodes.
 */
static RopeNode *
balance(Store *store, RopeNode *left, SfPiece piece, RopeNode *right)
{
	SF_ASSERT(abs(Height(left) - Height(right)) <= 3);
	if (Height(left) > Height(right) + 2)
	{
		RopeNode   *inner = left->right;

		if (Height(left->left) >= Height(inner))
			return new_node(store, left->left, left->piece, new_node(store, inner, piece, right));
		return new_node(store, new_node(store, left->left, left->piece, inner->left), inner->piece,
						new_node(store, inner->right, piece, right));
	}
	if (Height(right) > Height(left) + 2)
	{
		RopeNode   *inner = right->left;

		if (Height(right->right) >= Height(inner))
			return new_node(store, new_node(store, left, piece, inner), right->piece, right->right);
		return new_node(store, new_node(store, left, piece, inner->left), inner->piece,
						new_node(store, inner->right, right->piece, right->right));
	}
	return new_node(store, left, piece, right);
}

/*
 * The same, of trees of any heights: goes down the inner edge of the higher one.
 * Recurses as deep as the heights differ, some forty levels at most.
 */
static RopeNode *
join(Store *store, RopeNode *left, SfPiece piece, RopeNode *right)
{
	if (Height(left) > Height(right) + 2)
		return balance(store, left->left, left->piece, join(store, left->right, piece, right));
	if (Height(right) > Height(left) + 2)
		return balance(store, join(store, left, piece, right->left), right->piece, right->right);
	return new_node(store, left, piece, right);
}

/* A tree without its first piece, which it has. */
static RopeNode *
without_first(Store *store, RopeNode *node)
{
	return node->left == NULL ? node->right :
		balance(store, without_first(store, node->left), node->piece, node->right);
}

/* A tree without its last piece, which it has. */
static RopeNode *
without_last(Store *store, RopeNode *node)
{
	return node->right == NULL ? node->left :
		balance(store, node->left, node->piece, without_last(store, node->right));
}

/*
 * One tree behind the other.  The pieces that meet become one if they can: a loop that
 * appends small parts of a value would otherwise never get a long piece.
 */
static RopeNode *
concat(Store *store, RopeNode *left, RopeNode *right)
{
	const RopeNode *last = left;
	const RopeNode *first = right;
	SfPiece		piece;

	if (left == NULL || right == NULL)
		return left == NULL ? right : left;
	while (last->right != NULL)
		last = last->right;
	while (first->left != NULL)
		first = first->left;

	/*
	 * The piece that is taken off the right tree becomes the root that joins
	 * the two; or, if it goes on where the left one ends, part of the last
	 * piece there.
	 */
	right = without_first(store, right);
	if (!sfi_object_goes_on(&last->piece, &first->piece))
		return join(store, left, first->piece, right);
	piece = last->piece;
	piece.length = sf_object_add_lengths(piece.length, first->piece.length);
	return join(store, without_last(store, left), piece, right);
}

SfPiece
sf_object_cut_piece(SfPiece piece, uint64 from, uint64 to)
{
	SF_ASSERT(from < to && to <= piece.length);
	if (piece.kind == SF_PIECE_BYTES)
		piece.bytes += from;
	else if (piece.kind == SF_PIECE_VALUE)
		piece.start += from;
	piece.length = to - from;
	return piece;
}

/* The first length bytes of a tree, which has at least as many. */
static RopeNode *
head_of(Store *store, RopeNode *node, uint64 length)
{
	uint64		before = node == NULL ? 0 : Length(node->left);

	SF_ASSERT(length <= Length(node));
	if (node == NULL || length == 0)
		return NULL;
	if (length <= before)
		return head_of(store, node->left, length);
	if (length >= before + node->piece.length)
		return join(store, node->left, node->piece,
					head_of(store, node->right, length - before - node->piece.length));
	return join(store, node->left, sf_object_cut_piece(node->piece, 0, length - before), NULL);
}

/* The part of a tree that follows its first skip bytes. */
static RopeNode *
tail_of(Store *store, RopeNode *node, uint64 skip)
{
	uint64		before = node == NULL ? 0 : Length(node->left);

	SF_ASSERT(skip <= Length(node));
	if (node == NULL || skip == 0)
		return node;
	if (skip <= before)
		return join(store, tail_of(store, node->left, skip), node->piece, node->right);
	if (skip >= before + node->piece.length)
		return tail_of(store, node->right, skip - before - node->piece.length);
	return join(store, NULL, sf_object_cut_piece(node->piece, skip - before, node->piece.length),
				node->right);
}

/*
 * A tree of n pieces, copied to the store.  The middle one is the root, so the tree is
 * balanced without rotations.
 */
static RopeNode *
build(Store *store, const SfPiece *pieces, int n, SfValues *values)
{
	int			middle = n / 2;
	RopeNode   *left;
	SfPiece		piece;

	if (n == 0)
		return NULL;
	left = build(store, pieces, middle, values);

	/*
	 * In the order of the list, so that bytes that follow one another there
	 * do so in the store.
	 */
	piece = store_piece(store, pieces[middle], values);
	return new_node(store, left, piece,
					build(store, pieces + middle + 1, n - middle - 1, values));
}

/* How many pieces bytes [from, to) of a tree are; pieces: these, or NULL. */
static int
list_part(const RopeNode *node, uint64 from, uint64 to, SfPiece *pieces)
{
	uint64		first;
	uint64		past;
	int			n;

	if (node == NULL || from >= to)
		return 0;
	first = Length(node->left);
	past = first + node->piece.length;
	n = list_part(node->left, from, Min(to, first), pieces);
	if (from < past && to > first)
	{
		if (pieces != NULL)
			pieces[n] = sf_object_cut_piece(node->piece, Max(from, first) - first,
											Min(to, past) - first);
		n++;
	}
	if (to > past)
		n += list_part(node->right, Max(from, past) - past, to - past, pieces ? pieces + n : NULL);
	return n;
}

/* The same tree with all that it points to, in another store. */
static RopeNode *
copy_tree(Store *store, const RopeNode *node)
{
	SfPiece    *pieces = palloc_extended(Max(Pieces (node), 1) * sizeof(SfPiece), MCXT_ALLOC_HUGE);
	SfValues   *values = sfi_values_begin(Values(node));
	int			n = list_part(node, 0, Length(node), pieces);
	RopeNode   *copy;

	SF_ASSERT(n == Pieces (node));
	copy = build(store, pieces, n, values);
	sfi_values_end(values);
	pfree(pieces);
	return copy;
}

/* ---- ropes ---- */

/*
 * Size of the rope as a flat value (a method of expanded objects).  The value is built
 * here and kept for flatten(), which the server calls next: its size is known only when
 * equal values have been found.
 */
static Size
flat_size(ExpandedObjectHeader *header)
{
	SfRope	   *rope = (SfRope *) header;

	if (rope->flat == NULL)
	{
		MemoryContext old = MemoryContextSwitchTo(header->eoh_context);
		SfPiece    *pieces;
		int			n = sf_object_rope_pieces(rope, &pieces);

		rope->flat = sf_object_edited(pieces, n);
		pfree(pieces);
		MemoryContextSwitchTo(old);
	}
	return VARSIZE(rope->flat);
}

/* Copy the flat value that flat_size() has built (likewise). */
static void
flatten(ExpandedObjectHeader *header, void *result, Size size)
{
	SfRope	   *rope = (SfRope *) header;

	SF_ASSERT(rope->flat != NULL && size == VARSIZE(rope->flat));
	memcpy(result, rope->flat, size);
	pfree(rope->flat);
	rope->flat = NULL;
}

static const ExpandedObjectMethods rope_methods = {flat_size, flatten};

SfRope *
sf_object_rope_of(Datum value)
{
	SfRope	   *rope;

	if (!VARATT_IS_EXTERNAL_EXPANDED(DatumGetPointer(value)))
		return NULL;
	rope = (SfRope *) DatumGetEOHP(value);
	return rope->header.eoh_methods == &rope_methods ? rope : NULL;
}

SfRope *
sf_object_rope_begin(SfRope *like, MemoryContext parent)
{
	MemoryContext context;
	SfRope	   *rope;

	sf_base_require_preload();
	context = AllocSetContextCreate(parent, "securefile edited value", ALLOCSET_START_SMALL_SIZES);
	rope = MemoryContextAllocZero(context, sizeof(SfRope));
	EOH_init_header(&rope->header, &rope_methods, context);

	/*
	 * Registered before the store is entered: leave_store() does nothing for
	 * a rope without one, and a rope with one must never go without it.
	 */
	rope->at_end.func = leave_store;
	rope->at_end.arg = rope;
	MemoryContextRegisterResetCallback(context, &rope->at_end);
	enter_store(rope, like != NULL ? like->store : new_store());
	return rope;
}

uint64
sf_object_rope_length(const SfRope *rope)
{
	return Length(rope->root);
}

bool
sf_object_rope_has_values(const SfRope *rope)
{
	return Values(rope->root) > 0;
}

int
sf_object_rope_npieces(const SfRope *rope)
{
	return Pieces (rope->root);
}

uint64
sf_object_rope_data(const SfRope *rope)
{
	return Data(rope->root);
}

int
sf_object_rope_pieces(const SfRope *rope, SfPiece **pieces)
{
	int			n;

	/*
	 * The list may be beyond the limit of an allocation: it is for callers
	 * that go through it.
	 */
	*pieces = palloc_extended(Max(Pieces (rope->root), 1) * sizeof(SfPiece), MCXT_ALLOC_HUGE);
	n = list_part(rope->root, 0, Length(rope->root), *pieces);
	SF_ASSERT(n == Pieces (rope->root));
	return n;
}

struct varlena *
sf_object_rope_part(const SfRope *rope, uint64 start, uint64 end)
{
	int			n = list_part(rope->root, start, end, NULL);
	SfPiece    *pieces = palloc_extended(Max(n, 1) * sizeof(SfPiece), MCXT_ALLOC_HUGE);
	struct varlena *part;

	SF_ASSERT(start <= end && end <= sf_object_rope_length(rope));
	list_part(rope->root, start, end, pieces);

	/*
	 * The flat value copies what the pieces point to, so it does not depend
	 * on the rope.
	 */
	part = sf_object_edited(pieces, n);
	pfree(pieces);
	return part;
}

/*
 * Put a tree behind the rope's.  The limit is that of a flat value: a rope that could
 * never be stored in a tuple is refused where it becomes too long.
 */
static void
append(SfRope *rope, RopeNode *node)
{
	rope->root = concat(rope->store, rope->root, node);
	sfi_object_require_edited_size(Data(rope->root), Pieces (rope->root));
}

void
sf_object_rope_append_pieces(SfRope *rope, const SfPiece *pieces, int npieces)
{
	SfValues   *values = sfi_values_begin(npieces);
	RopeNode   *node = build(rope->store, pieces, npieces, values);

	sfi_values_end(values);
	append(rope, node);
}

void
sf_object_rope_append_range(SfRope *rope, const SfRope *from, uint64 start, uint64 end)
{
	RopeNode   *node;

	end = Min(end, Length(from->root));
	if (start >= end)
		return;
	/* what is made on the way is in the store that has the rest of it */
	node = tail_of(from->store, head_of(from->store, from->root, end), start);

	/*
	 * Two stores live for different times, so no node may point into the
	 * other one.  Most often the rope was begun like the one it takes from,
	 * and shares its store.
	 */
	if (from->store != rope->store)
		node = copy_tree(rope->store, node);
	append(rope, node);
}

/*
 * Move to a store of its own when most of this one is nobody's, as far as this
 * rope can tell.  Where others are what fills it, moving would not free it: it is
 * not tried again before it has grown by as much.
 */
static void
move_to_own_store(SfRope *rope)
{
	Store	   *store = rope->store;
	Size		live = Pieces (rope->root) * (sizeof(RopeNode) + 64) + Data(rope->root);
	SfRope	   *fresh;
	RopeNode   *root;

	/*
	 * Moving copies all that is live.  It is worth that when three quarters
	 * of the store are not, and the store is no trifle.
	 */
	if (store->used < store->move_at || store->used < 4 * live)
		return;
	store->move_at = store->used + Max(live, STORE_SMALL);
	fresh = sf_object_rope_begin(NULL, CurrentMemoryContext);

	/*
	 * The new store is entered by way of a rope of its own: an ERROR in
	 * copy_tree() frees it with that rope, and this one is as it was.
	 */
	root = copy_tree(fresh->store, rope->root);
	SF_ASSERT(Length(root) == Length(rope->root));
	leave_store(rope);
	enter_store(rope, fresh->store);
	rope->root = root;
	rope->store->move_at = Max(STORE_SMALL, 2 * rope->store->used);
	DeleteExpandedObject(EOHPGetRWDatum(&fresh->header));
}

Datum
sf_object_rope_datum(SfRope *rope)
{
	move_to_own_store(rope);
	return EOHPGetRWDatum(&rope->header);
}
