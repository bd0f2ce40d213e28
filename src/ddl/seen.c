/*-------------------------------------------------------------------------
 *
 * seen.c
 *	  How many rows of each column the row triggers have seen in this transaction.
 *
 * The server counts the rows that a transaction writes, by whatever function.  Where the two
 * numbers differ, rows came past the triggers (unseen.c).
 *
 * A rollback to a savepoint takes rows back, and so it does with their numbers (base/undo.h).
 * A TRUNCATE begins anew: what was counted before are rows that are gone.
 *
 * The commands that bring rows home are noted, too: what they have replaced was not given back.
 *
 *-------------------------------------------------------------------------
 */
#include "base/base.h"

#include "access/xact.h"
#include "base/undo.h"
#include "ddl/ddl.h"
#include "ddl/table_rows.h"
#include "utils/hsearch.h"
#include "utils/memutils.h"

typedef struct SeenKey
{
	Oid			table_oid;
	int32		attnum;			/* as int32: no padding to hash */
} SeenKey;

typedef struct SeenRows
{
	SeenKey		key;
	SfUndoLevel level;			/* a savepoint brings back this and what
								 * follows */
	SfSeen		rows;
} SeenRows;

static HTAB *columns = NULL;	/* in TopTransactionContext */
static SfUndo undo = {sizeof(SeenRows) - offsetof(SeenRows, level)};

/* The entry of a column, whose numbers are about to change. */
static SeenRows *
change_entry(Oid table_oid, AttrNumber attnum)
{
	const SeenKey key = {table_oid, attnum};
	SeenRows   *entry;
	bool		found;

	SF_ASSERT(IsTransactionState() && attnum > 0);
	if (columns == NULL)
		columns = sf_base_table("securefile seen rows", sizeof(SeenKey), sizeof(SeenRows),
								TopTransactionContext);
	entry = hash_search(columns, &key, HASH_ENTER, &found);
	if (!found)
	{
		entry->level = 1;
		entry->rows = (SfSeen) {0};
	}
	sf_undo_keep(&undo, &entry->level);
	return entry;
}

void
sfi_ddl_see(Oid table_oid, AttrNumber attnum, int64 came, int64 went)
{
	SeenRows   *entry = change_entry(table_oid, attnum);

	SF_ASSERT(went >= 0);
	entry->rows.came += came;
	entry->rows.went += went;
}

void
sfi_ddl_see_truncated(Oid table_oid, AttrNumber attnum)
{
	change_entry(table_oid, attnum)->rows = (SfSeen) {0};
}

SfSeen
sfi_ddl_seen(Oid table_oid, AttrNumber attnum)
{
	const SeenKey key = {table_oid, attnum};
	const SeenRows *entry = columns == NULL ? NULL : hash_search(columns, &key, HASH_FIND, NULL);

	return entry == NULL ? (SfSeen) {0} : entry->rows;
}

/* ---- rows that are brought home ---- */

/* Numbers of commands of this transaction, first and last in turn; in TopTransactionContext. */
static List *own_commands = NIL;

void
sfi_ddl_note_own_commands(CommandId first, CommandId last)
{
	MemoryContext caller = MemoryContextSwitchTo(TopTransactionContext);

	SF_ASSERT(first <= last);
	SF_ASSERT(own_commands == NIL || first >= (CommandId) llast_int(own_commands));
	if (own_commands != NIL && first <= (CommandId) llast_int(own_commands) + 1)
		llast_int(own_commands) = (int) last;
	else
		own_commands = lappend_int(lappend_int(own_commands, (int) first), (int) last);
	MemoryContextSwitchTo(caller);
}

bool
sfi_ddl_is_own_command(CommandId command)
{
	SF_ASSERT(list_length(own_commands) % 2 == 0);
	for (int i = 0; i < list_length(own_commands); i += 2)
	{
		if (command >= (CommandId) list_nth_int(own_commands, i) &&
			command <= (CommandId) list_nth_int(own_commands, i + 1))
			return true;
	}
	return false;
}

void
sf_ddl_seen_at_end(void)
{
	columns = NULL;
	own_commands = NIL;
}
