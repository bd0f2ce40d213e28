/*-------------------------------------------------------------------------
 *
 * undo.c
 *	  Copies of what is changed below a savepoint (undo.h).
 *
 *-------------------------------------------------------------------------
 */
#include "base/base.h"

#include "access/xact.h"
#include "base/undo.h"
#include "utils/memutils.h"

/* A fact as it was before its first change at a level. */
typedef struct Copy
{
	SfUndoLevel *fact;
	int			level;
	SfUndoLevel old[FLEXIBLE_ARRAY_MEMBER];
} Copy;

/* The kinds of which copies were kept in this transaction, in TopTransactionContext. */
static SfUndo *kinds;

static Size
copy_bytes(const SfUndo *undo)
{
	SF_ASSERT(undo->bytes >= sizeof(SfUndoLevel));
	return MAXALIGN(offsetof(Copy, old) + undo->bytes);
}

static Copy *
copy_at(const SfUndo *undo, int64 i)
{
	SF_ASSERT(i >= 0 && i < undo->size);
	return (Copy *) (undo->copies + i * copy_bytes(undo));
}

/* The last copy if it is of that level or one below it, or NULL. */
static Copy *
last_copy(const SfUndo *undo, int level)
{
	Copy	   *last = undo->n == 0 ? NULL : copy_at(undo, undo->n - 1);

	return last == NULL || last->level < level ? NULL : last;
}

void
sf_undo_keep(SfUndo *undo, SfUndoLevel *fact)
{
	int			level = GetCurrentTransactionNestLevel();
	bool		is_first = undo->copies == NULL;
	Copy	   *copy;

	SF_ASSERT(*fact >= 1 && *fact <= level && last_copy(undo, level + 1) == NULL);
	if (*fact == level)
		return;
	undo->copies = sf_base_array_grow(undo->copies, undo->n, &undo->size, copy_bytes(undo),
									  TopTransactionContext);
	if (is_first)
	{
		undo->next = kinds;
		kinds = undo;
	}
	copy = copy_at(undo, undo->n++);
	copy->fact = fact;
	copy->level = level;
	memcpy(copy->old, fact, undo->bytes);
	*fact = level;
}

bool
sf_undo_last_is_new(const SfUndo *undo, const SfUndoLevel *fact)
{
	const Copy *last = last_copy(undo, GetCurrentTransactionNestLevel());

	return last != NULL && last->fact == fact && last->old[0] == 1;
}

void
sf_undo_forget_last(SfUndo *undo)
{
	SF_ASSERT(undo->n > 0);
	undo->n--;
}

/* The copies of a level become its parent's, unless the parent has an older one. */
static void
give_to_parent(SfUndo *undo, int level)
{
	int64		from = undo->n;
	int64		end = undo->n;

	SF_ASSERT(last_copy(undo, level + 1) == NULL);
	while (from > 0 && copy_at(undo, from - 1)->level == level)
		from--;
	for (undo->n = from; from < end; from++)
	{
		Copy	   *copy = copy_at(undo, from);

		SF_ASSERT(*copy->fact == level && copy->old[0] < level);
		*copy->fact = copy->level = level - 1;
		if (copy->old[0] < level - 1)
			memmove(copy_at(undo, undo->n++), copy, copy_bytes(undo));
	}
}

static void
put_back(SfUndo *undo, int level)
{
	Copy	   *last;

	for (; (last = last_copy(undo, level)) != NULL; undo->n--)
	{
		SF_ASSERT(*last->fact == last->level && last->old[0] < last->level);
		memcpy(last->fact, last->old, undo->bytes);
	}
}

void
sf_undo_at_subcommit(int level)
{
	SF_ASSERT(level > 1);
	for (SfUndo *undo = kinds; undo != NULL; undo = undo->next)
		give_to_parent(undo, level);
}

void
sf_undo_at_subabort(int level)
{
	SF_ASSERT(level > 1);
	for (SfUndo *undo = kinds; undo != NULL; undo = undo->next)
		put_back(undo, level);
}

void
sf_undo_at_end(void)
{
	for (; kinds != NULL; kinds = kinds->next)
	{
		kinds->copies = NULL;
		kinds->n = kinds->size = 0;
	}
}
