/*-------------------------------------------------------------------------
 *
 * seen.c
 *	  How many rows of each column the row triggers have seen in this transaction.
 *
 * The server counts the rows that a transaction writes, by whatever function.  Where the two
 * numbers differ, rows came past the triggers (unseen.c).
 *
 * A rollback to a savepoint takes rows back, and so it does with their numbers: each nest level
 * has its own.  Entries stand in the order of their levels, so that those of the lowest one are
 * the last ones.  A TRUNCATE begins anew: what the levels above have counted are rows that are
 * gone.
 *
 * The commands that bring rows home are noted, too: what they have replaced was not given back.
 *
 *-------------------------------------------------------------------------
 */
#include "base/base.h"

#include "access/xact.h"
#include "ddl/ddl.h"
#include "ddl/rows.h"
#include "utils/memutils.h"

typedef struct SeenRows
{
	Oid			table_oid;
	AttrNumber	attnum;
	bool		anew;			/* began with a TRUNCATE */
	int			level;
	SfSeen		rows;
} SeenRows;

static SeenRows *entries = NULL;	/* in TopTransactionContext */
static int	nentries = 0;
static int	capacity = 0;

/* Where the entry of a column was found last; only a guess. */
#define GUESSES		256
static int	guesses[GUESSES];

static bool
is_of(const SeenRows *entry, Oid table_oid, AttrNumber attnum, int level)
{
	return entry->table_oid == table_oid && entry->attnum == attnum && entry->level == level;
}

/* The entry of a column at a level, among the first ones; NULL: there is none. */
static SeenRows *
find(Oid table_oid, AttrNumber attnum, int level, int end)
{
	for (int i = end - 1; i >= 0 && entries[i].level >= level; i--)
	{
		if (is_of(&entries[i], table_oid, attnum, level))
			return &entries[i];
	}
	return NULL;
}

static SeenRows *
add_entry(Oid table_oid, AttrNumber attnum, int level)
{
	SeenRows   *entry;

	if (nentries == capacity)
	{
		int			larger = Max(16, capacity * 2);

		if (entries == NULL)
			entries = MemoryContextAlloc(TopTransactionContext, larger * sizeof(SeenRows));
		else
			entries = repalloc_huge(entries, larger * sizeof(SeenRows));
		capacity = larger;
	}
	SF_ASSERT(nentries == 0 || entries[nentries - 1].level <= level);
	entry = &entries[nentries++];
	*entry = (SeenRows)
	{
		.table_oid = table_oid, .attnum = attnum, .level = level
	};
	return entry;
}

/* The entry of a column at the current level. */
static SeenRows *
current_entry(Oid table_oid, AttrNumber attnum)
{
	int			level = GetCurrentTransactionNestLevel();
	int		   *guess = &guesses[(table_oid + attnum) % GUESSES];
	SeenRows   *entry;

	if (*guess < nentries && is_of(&entries[*guess], table_oid, attnum, level))
		return &entries[*guess];
	entry = find(table_oid, attnum, level, nentries);
	if (entry == NULL)
		entry = add_entry(table_oid, attnum, level);
	*guess = entry - entries;
	return entry;
}

void
sfi_ddl_see(Oid table_oid, AttrNumber attnum, int64 came, int64 went)
{
	SeenRows   *entry = current_entry(table_oid, attnum);

	SF_ASSERT(IsTransactionState() && attnum > 0);
	entry->rows.came += came;
	entry->rows.went += went;
}

void
sfi_ddl_see_truncated(Oid table_oid, AttrNumber attnum)
{
	SeenRows   *entry = current_entry(table_oid, attnum);

	entry->rows = (SfSeen) {0};
	entry->anew = true;
}

SfSeen
sfi_ddl_seen(Oid table_oid, AttrNumber attnum)
{
	SfSeen		sum = {0};

	for (int i = nentries - 1; i >= 0; i--)
	{
		if (!is_of(&entries[i], table_oid, attnum, entries[i].level))
			continue;
		sum.came += entries[i].rows.came;
		sum.went += entries[i].rows.went;
		if (entries[i].anew)
			break;
	}
	return sum;
}

/* ---- rows that are brought home ---- */

/* Numbers of commands of this transaction, first and last in turn; in TopTransactionContext. */
static List *own_commands = NIL;

void
sfi_ddl_note_own_commands(CommandId first, CommandId last)
{
	MemoryContext caller = MemoryContextSwitchTo(TopTransactionContext);

	SF_ASSERT(first <= last);
	if (own_commands != NIL && first <= (CommandId) llast_int(own_commands) + 1)
		llast_int(own_commands) = (int) last;
	else
		own_commands = lappend_int(lappend_int(own_commands, (int) first), (int) last);
	MemoryContextSwitchTo(caller);
}

bool
sfi_ddl_is_own_command(CommandId command)
{
	for (int i = 0; i < list_length(own_commands); i += 2)
	{
		if (command >= (CommandId) list_nth_int(own_commands, i) &&
			command <= (CommandId) list_nth_int(own_commands, i + 1))
			return true;
	}
	return false;
}

/* ---- ends ---- */

/* Add an entry to that of the level above, or put it in its place. */
static void
merge(SeenRows *upper, const SeenRows *entry)
{
	SF_ASSERT(upper->table_oid == entry->table_oid && upper->attnum == entry->attnum);
	if (entry->anew)
	{
		upper->anew = true;
		upper->rows = (SfSeen) {0};
	}
	upper->rows.came += entry->rows.came;
	upper->rows.went += entry->rows.went;
}

void
sf_ddl_seen_at_subcommit(int level)
{
	int			end = nentries;
	int			first = end;

	while (first > 0 && entries[first - 1].level >= level)
		first--;
	nentries = first;
	for (int i = first; i < end; i++)
	{
		SeenRows	entry = entries[i];
		SeenRows   *upper = find(entry.table_oid, entry.attnum, level - 1, first);

		entry.level = level - 1;
		if (upper != NULL)
			merge(upper, &entry);
		else
			entries[nentries++] = entry;
	}
}

void
sf_ddl_seen_at_subabort(int level)
{
	while (nentries > 0 && entries[nentries - 1].level >= level)
		nentries--;
}

void
sf_ddl_seen_at_end(void)
{
	entries = NULL;
	nentries = 0;
	capacity = 0;
	own_commands = NIL;
}
