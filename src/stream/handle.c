/*-------------------------------------------------------------------------
 *
 * handle.c
 *	  Streams by number, with a position: what SQL sees of them.
 *
 * As with large objects, a handle lives at most as long as its transaction, and
 * keeps the snapshot it was opened under, so that the value stays; also when it
 * is finished, since the result shares space with that value.  It is closed by
 * a rollback to a savepoint that it was opened after, or last written
 * after: what was written cannot be taken back piece by piece, and must not
 * stay.  Numbers are not used again, so that an old one cannot mean another
 * handle.
 *
 *		 open	--finish-->		finished	--end of transaction, close-->	gone
 *			\--close, rollback to a savepoint, end of transaction-->		gone
 *
 * A finished handle has no stream, only its value and its snapshot.
 *
 * A handle belongs to the transaction, not to a statement: so it lies in TopMemoryContext
 * and its snapshot belongs to the top resource owner.  A context of its own holds the
 * stream and all that the stream makes, and is deleted with it.
 *
 * The nest level of a handle says which rollback closes it.  It rises with each write in a
 * deeper subtransaction, and falls when a subtransaction commits:
 *
 *		 open at 1	->	SAVEPOINT a (2)	->	write: 2	->	RELEASE a: 1
 *													->	ROLLBACK TO a: closed
 *
 *-------------------------------------------------------------------------
 */
#include "base/base.h"

#include "access/xact.h"
#include "stream/stream_internal.h"
#include "utils/memutils.h"
#include "utils/resowner.h"
#include "utils/snapmgr.h"

static SfHandle **handles;		/* by number */
static int	nhandles;
static int64 handles_size;
static int	nopen;				/* of them have a stream, or are to have one */
static int	next_number;		/* 0: none has been taken */

/*
 * The first number of a process is a multiple of this, up to MOST_FIRST, by chance: so a
 * number that comes from another server is unknown, and does not name a handle of this one.
 */
#define FIRST_STEP		1024
#define MOST_FIRST		(PG_INT32_MAX / 2)

/*
 * Handles are in the order of their numbers, which is what the search relies on.  Looks at
 * the last two only, as a transaction may have thousands of handles.
 */
static bool
table_is_valid(void)
{
	return nhandles >= 0 && nhandles <= handles_size && nopen >= 0 && nopen <= nhandles &&
		(nhandles < 2 || handles[nhandles - 2]->number < handles[nhandles - 1]->number) &&
		(nhandles == 0 || handles[nhandles - 1]->number < next_number);
}

static int
first_number(void)
{
	uint32		random;

	if (!pg_strong_random(&random, sizeof(random)))
		ereport(ERROR,
				(errcode(ERRCODE_INTERNAL_ERROR),
				 errmsg("could not generate random values")));
	return (int) (1 + random % (MOST_FIRST / FIRST_STEP)) * FIRST_STEP;
}

/* Where the handle of that number is, or would be: a transaction may have thousands. */
static int
position_of(int number)
{
	int			low = 0;
	int			high = nhandles;

	while (low < high)
	{
		int			middle = low + (high - low) / 2;

		if (handles[middle]->number < number)
			low = middle + 1;
		else
			high = middle;
	}
	return low;
}

/* The handle of that number, open or finished, or NULL. */
static SfHandle *
find_handle(int number)
{
	int			i = position_of(number);

	return i < nhandles && handles[i]->number == number ? handles[i] : NULL;
}

/*
 * A number that is higher than those of all handles there are.  Numbers go on from one
 * transaction to the next, so that one which a client has kept too long is unknown.
 */
static int
take_number(void)
{
	if (next_number == 0 || (nhandles == 0 && next_number > MOST_FIRST + FIRST_STEP))
		next_number = first_number();
	if (next_number == PG_INT32_MAX)
		ereport(ERROR,
				(errcode(ERRCODE_PROGRAM_LIMIT_EXCEEDED),
				 errmsg("too many securefile handles in one transaction")));
	return next_number++;
}

/*
 * The handle is in the list before its snapshot is registered: should that throw, the end
 * of the (sub)transaction finds a handle without one, and removes it.  The snapshot
 * belongs to the top transaction, since the handle may outlive the subtransaction that
 * opened it.
 */
SfHandle *
sf_stream_handle_new(void)
{
	int			number;
	SfHandle   *handle;

	sf_stream_cancel_report();
	number = take_number();
	handle = MemoryContextAllocZero(TopMemoryContext, sizeof(SfHandle));
	handles = sf_base_array_grow(handles, nhandles, &handles_size, sizeof(SfHandle *),
								 TopMemoryContext);
	handle->context = AllocSetContextCreate(TopMemoryContext, "securefile handle",
											ALLOCSET_DEFAULT_SIZES);
	handle->number = number;
	handle->level = GetCurrentTransactionNestLevel();
	handles[nhandles++] = handle;
	sfi_cancel_watch(++nopen > 0);
	SF_ASSERT(table_is_valid());
	if (ActiveSnapshotSet())
		handle->snapshot = RegisterSnapshotOnOwner(GetActiveSnapshot(),
												   TopTransactionResourceOwner);
	return handle;
}

/*
 * A rule DO ALSO gives its action the expressions of the command, not the values that these
 * had, and the action is a command of its own.
 */
static void
report_finished(int number)
{
	ereport(ERROR,
			(errcode(ERRCODE_UNDEFINED_OBJECT),
			 errmsg("securefile handle %d is not open", number),
			 errdetail("It was finished by an earlier command of this transaction."),
			 errhint("If the table has a rule with DO ALSO, the rule calls securefile_finish() once more in its own command: use a trigger in the place of the rule.")));
}

SfHandle *
sf_stream_handle_get(int number)
{
	SfHandle   *handle = find_handle(number);

	if (handle != NULL && handle->stream != NULL)
		return handle;
	if (handle != NULL)
		report_finished(number);
	ereport(ERROR,
			(errcode(ERRCODE_UNDEFINED_OBJECT),
			 errmsg("securefile handle %d is not open", number),
			 errhint("Handles are closed by the end of the transaction, and by ROLLBACK TO a savepoint that is older than the handle or what was last written to it. A handle that was opened on another server, such as another node of a distributed table, is open there only.")));
}

/*
 * Before the write: should that fail half-way, the rollback that follows has to close the
 * handle.
 */
void
sf_stream_handle_note_write(SfHandle *handle)
{
	SF_ASSERT(handle->stream != NULL && handle->level <= GetCurrentTransactionNestLevel());
	handle->level = GetCurrentTransactionNestLevel();
}

/*
 * Its stream is not wanted any more.  Never throws: an abort calls it.  A handle is open
 * as long as it has its context, also one whose stream could not be made.
 */
static void
end_stream(SfHandle *handle)
{
	if (handle->context != NULL)
	{
		MemoryContextDelete(handle->context);
		sfi_cancel_watch(--nopen > 0);
	}
	handle->context = NULL;
	handle->stream = NULL;
}

/* Take it off the list.  Never throws.  The snapshot is the caller's to give back. */
static void
forget(SfHandle *handle)
{
	int			i = position_of(handle->number);

	SF_ASSERT(table_is_valid() && i < nhandles && handles[i] == handle);
	end_stream(handle);
	memmove(&handles[i], &handles[i + 1], (nhandles - i - 1) * sizeof(SfHandle *));
	nhandles--;
	if (handle->value != NULL)
		pfree(handle->value);
	pfree(handle);
}

void
sf_stream_handle_close(SfHandle *handle)
{
	if (handle->snapshot != NULL)
		UnregisterSnapshotFromOwner(handle->snapshot, TopTransactionResourceOwner);
	forget(handle);

	/*
	 * A handle that is closed is not wanted any more: a request that came
	 * before is done.
	 */
	sfi_cancel_forget();
}

/*
 * The copy in the handle serves the same command once more (sf_stream_handle_finished());
 * the value that is returned goes with the memory of the caller.
 */
struct varlena *
sf_stream_handle_finish(SfHandle *handle)
{
	struct varlena *value = sf_stream_finish(handle->stream).datum;

	SF_ASSERT(handle->value == NULL && handle->context != NULL && table_is_valid());
	end_stream(handle);
	handle->command = GetCurrentCommandId(false);
	handle->statement = GetCurrentStatementStartTimestamp();
	handle->value = sf_object_copy(value, TopMemoryContext);
	return value;
}

/*
 * The command and the statement have both to be the same: command ids begin anew with
 * each transaction, and a statement may run several commands.
 */
struct varlena *
sf_stream_handle_finished(int number)
{
	SfHandle   *handle = find_handle(number);

	if (handle == NULL || handle->value == NULL ||
		handle->command != GetCurrentCommandId(false) ||
		handle->statement != GetCurrentStatementStartTimestamp())
		return NULL;
	return sf_object_copy(handle->value, CurrentMemoryContext);
}

/* From the last on, so that nothing has to be moved. */
void
sf_stream_handle_close_all(void)
{
	while (nhandles > 0)
		sf_stream_handle_close(handles[nhandles - 1]);
}

/* The transaction failed: the resource owner gives back the snapshots. */
void
sf_stream_handle_forget_all(void)
{
	while (nhandles > 0)
		forget(handles[nhandles - 1]);
}

/* A handle of a subtransaction that commits is its parent's from now on. */
void
sf_stream_handle_at_subcommit(int level)
{
	SF_ASSERT(level > 1 && table_is_valid());
	for (int i = 0; i < nhandles; i++)
		if (handles[i]->level >= level)
			handles[i]->level = level - 1;
}

/* From the last on: closing one moves those behind it. */
void
sf_stream_handle_at_subabort(int level)
{
	SF_ASSERT(level > 1 && table_is_valid());
	sfi_cancel_forget();
	for (int i = nhandles - 1; i >= 0; i--)
		if (handles[i]->level >= level)
			sf_stream_handle_close(handles[i]);
}
