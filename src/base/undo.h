/*-------------------------------------------------------------------------
 *
 * undo.h
 *	  What a rollback to a savepoint brings back.
 *
 * A transaction keeps facts in memory: the state of an object, the number of rows that refer
 * to a record.  Before a fact is first changed at a nest level, a copy of it is kept:
 *
 *		 nest level		change			the fact		copies
 *		 1				count 3			1: 3
 *		 2 SAVEPOINT a	count 5			2: 5			2: (1: 3)
 *		 2				count 6			2: 6			2: (1: 3)
 *		 3 SAVEPOINT b	count 9			3: 9			2: (1: 3)  3: (2: 6)
 *		 2 ROLLBACK TO b				2: 6			2: (1: 3)
 *		 1 ROLLBACK TO a				1: 3
 *
 * A level that aborts puts its copies back, the last one first.  A level that commits leaves
 * its copies to its parent.  If the parent has a copy of the same fact, that one is older, and
 * the child's goes; otherwise the child's has become the parent's.  At level 1 nothing is
 * kept, since the abort of a transaction forgets all facts.
 *
 * So the cost of a savepoint depends on the number of facts that were changed since, and not
 * on the number of changes or of facts.  Copies are in the order of their levels, and those of
 * a level are the last ones.
 *
 * What is not restored but ends with its level needs no copies, and carries the level itself:
 * handles, storage that was made, states of tables (stream/handle.c, space/storage.c,
 * ddl/replaced.c), and what is logged by level (write/ledger.c).
 *
 *-------------------------------------------------------------------------
 */
#ifndef SF_UNDO_H
#define SF_UNDO_H

/*
 * The part of a fact that is kept, in the memory of its owner, begins with this number; it
 * stays at its address as long as there are copies.
 */
typedef int SfUndoLevel;		/* nest level of the last change; of a new
								 * fact 1 */

/* Copies of facts of one kind, which begin as {bytes}. */
typedef struct SfUndo
{
	Size		bytes;			/* of the part that is kept */
	char	   *copies;			/* ascending by level; NULL: none was kept */
	int64		n;
	int64		size;
	struct SfUndo *next;		/* other kinds, of which copies were kept */
} SfUndo;

/* Call before a fact is changed.  ERROR, and nothing changed, when there is no memory. */
extern void sf_undo_keep(SfUndo *undo, SfUndoLevel *fact);

/*
 * Is the last copy of all that of a new fact, which was first changed at the current level?
 * forget_last: nobody asks for that fact any more.
 */
extern bool sf_undo_last_is_new(const SfUndo *undo, const SfUndoLevel *fact);
extern void sf_undo_forget_last(SfUndo *undo);

/* Of all kinds: a nest level ends, and the transaction.  Never throw. */
extern void sf_undo_at_subcommit(int level);
extern void sf_undo_at_subabort(int level);
extern void sf_undo_at_end(void);

#endif							/* SF_UNDO_H */
