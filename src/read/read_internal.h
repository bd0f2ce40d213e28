/*-------------------------------------------------------------------------
 *
 * read_internal.h
 *	  What the files of read/ share.
 *
 * form.c			the form of a datum
 * value.c			lengths, ranges, whole values
 * verify.c			all of a value checked, or looked at for units that are not on this server
 * units.c			a range of units, read in one go
 * reader.c			readers: values that are read piece by piece
 * ahead.c			reading ahead for readers
 * ring.c			requests in flight, in the order of their units: the engine of both
 * request.c		one request: its states, the check of its units, their delivery
 * plain.c			encoded units: decoded, the last ones kept
 * read_packed.c	small values that are compressed in the row
 * damage.c			reports of units that cannot be returned
 *
 * The way of a unit: an SfUnit says where the stored bytes of a unit lie.  Units that
 * lie side by side become one request.  A ring keeps several requests in flight.
 * When the oldest has arrived, each of its units is checked, decoded, and copied to
 * the place where the caller wants it.
 *
 *-------------------------------------------------------------------------
 */
#ifndef SF_READ_INTERNAL_H
#define SF_READ_INTERNAL_H

#include "lib/ilist.h"
#include "read/read.h"
#include "stats/stats.h"
#include "transform/transform.h"

/*
 * Gets the plain bytes of a unit that is sound, which are good until it returns; NULL if they
 * are not to be had here, for want of a codec.
 */
typedef void (*SfReadPlain) (uint64 unit_no, const char *plain, void *arg);

/*
 * A listener hears of units: of those that cannot be returned, and of the others, in the order
 * of their numbers.  Functions that can meet one take a listener as an argument.  NULL: there is
 * no listener, and damage is an ERROR.
 */
typedef struct SfReadListener
{
	SfReadFinding found;		/* NULL: findings are passed over */
	SfReadPlain plain;			/* NULL: units are not decoded */
	SfReadMissing missing;		/* NULL: a unit that is not on this server is
								 * a finding, too */
	void	   *arg;
} SfReadListener;

/* Where bytes go. */
typedef struct SfReadTarget
{
	char	   *dst;			/* receives bytes [offset, offset + len);
								 * NULL: units are checked only */
	uint64		offset;			/* object_offset of dst */
	uint64		len;
	SfEdit	   *edit;			/* where units are looked up; NULL: in the
								 * locator */
} SfReadTarget;

/* The units that a target touches: [SfReadTargetFirst, SfReadTargetEnd). */
#define SfReadTargetFirst(t)	sf_unit_of((t)->offset)
#define SfReadTargetEnd(t)		sf_units_of((t)->offset + (t)->len)

/* One call: from where to where it reads.  Lives as long as the call. */
typedef struct SfReadJob
{
	SfSegment  *seg;
	const SfLocator *loc;
	SfReadTarget *target;
	uint64		unit_space_bytes;	/* of a draft, loc does not say it */
	SfFiles    *files;
	SfCacheMode cache;
	bool		buffered;		/* through the page cache */
	uint64		seed;
	uint64		total_sectors;
	bool		decrypts;		/* false: a check, without the key of KEYED
								 * units */
	SfStatCounters *stats;
} SfReadJob;

/* ---- units.c ---- */

/*
 * Set up a job.  seg is open and locked, at least AccessShareLock, and stays so
 * during the job.  With a listener, the data files count as readable up to their
 * real end, since a check may run with an old header page; and units are decrypted only if
 * their master key is loaded.
 */
extern void sfi_read_prepare_job(SfReadJob *job, SfSegment *seg, const SfLocator *loc,
								 SfReadTarget *target, const SfReadListener *listener);

/* Before the first request: read directly, whatever the column's cache mode is. */
extern void sfi_read_past_cache(SfReadJob *job);

/*
 * Look up units [first, first + n) of the object into units[0 .. n), and count the
 * time that the pages of an inode take.  ERROR when such a page is damaged.
 */
extern void sfi_read_look_up(SfReadJob *job, uint64 first, uint32 n, SfUnit *units);

/*
 * Read and check the units of a job's target from first_unit on, which lies in the
 * target.  With a listener the target has no dst.  ERROR, or the listener is told,
 * for each unit that cannot be read or does not match.
 */
extern void sfi_read_units(SfReadJob *job, const SfReadListener *listener, uint64 first_unit);

/* ---- request.c: consecutive units that lie side by side, one request ---- */

#define SF_READ_REQUEST_BYTES		(1024 * 1024)
#define SF_READ_REQUEST_UNITS		32	/* encoded ones are small */

/* request.c draws the ways between the states. */
typedef enum SfReadState
{
	SF_READ_IDLE,				/* no units; the kernel may still write to buf
								 * if io.in_flight is set */
	SF_READ_PLANNED,			/* has its units */
	SF_READ_STARTED,			/* the disk is asked */
	SF_READ_ARRIVED,			/* the bytes are at data; not all are checked */
} SfReadState;

/* What can be tried when a unit does not match; goes down the list only. */
typedef enum SfReadRetry
{
	SF_RETRY_DISK,				/* the disk may know better than the buffer */
	SF_RETRY_WRITER,			/* another process may still write the unit */
	SF_RETRY_NONE,
} SfReadRetry;

typedef struct SfReadRequest
{
	SfReadState state;
	SfReadRetry retry;
	SfIo		io;
	char	   *buf;			/* SF_READ_REQUEST_BYTES, aligned */
	char	   *data;			/* first byte of the first unit, in buf */
	uint64		first_unit;		/* of the object */
	uint32		nunits;
	SfUnit		units[SF_READ_REQUEST_UNITS];
	uint32		nsectors;
	uint32		overlaid;		/* sectors that come from gather buffers */
	uint64		checked;		/* a bit a unit: is what it should be */
} SfReadRequest;

#define SfReadRequestEnd(request)	((request)->first_unit + (request)->nunits)

/*
 * True if an object whose data is not logged predates the last restore or promotion, so its
 * data may be missing here.  Asked when the data is not what it should be.  Reads the header
 * page.
 */
extern bool sfi_read_may_be_missing(SfSegment *seg, uint64 object_id);

/*
 * Sectors that a segment, which is open, has.  The header page is read only if the process does
 * not know of as many sectors as are needed, or a tail was cut since.  Others may grow the
 * segment right after, or cut a tail in which nothing is used.
 */
extern uint64 sfi_read_known_end(SfSegment *seg, uint64 needed_sectors);

/* Does a unit, which is no hole, lie where data files are?  May read the header page. */
extern bool sfi_read_is_there(SfReadJob *job, const SfUnit *unit);

/*
 * A diagnostic of tests: has the place of a unit been given back, although a row has the value?
 * Then other bytes may come to lie there.  Asks only if the server was started with
 * SECUREFILE_CHECK_READS in its environment, since tests that damage the space map go on to read.
 * Looks at the map, and at the rows of the table if the place is free; may throw.
 */
extern bool sfi_read_was_given_back(const SfReadJob *job, const SfUnit *unit);

/*
 * Are these the stored bytes of a unit?  *found gets their checksum.  Throws only as the
 * diagnostic does.
 */
static inline bool
sfi_read_matches(const SfReadJob *job, const SfUnit *unit, const char *bytes, uint64 *found)
{
	*found = sf_format_checksum(bytes, unit->stored_bytes, job->seed);
	if (*found != unit->checksum)
		return false;
	SF_ASSERT(!sfi_read_was_given_back(job, unit));
	return true;
}

/*
 * Make an idle request of the first of n units, which is there, and of those after it
 * that can be read with it.  first_unit: the number of units[0] in the object.
 */
extern void sfi_read_plan_request(SfReadJob *job, const SfUnit *units, uint64 first_unit, uint32 n,
								  SfReadRequest *request);

/* Do gather buffers hold any part of a planned request?  Never throws. */
extern bool sfi_read_is_gathered(SfReadJob *job, const SfReadRequest *request);

/*
 * Start a planned request, or fill it from gather buffers if they hold all of it.
 * early: the bytes are not wanted yet, so they may be out of date when they are.
 * ERROR when the file cannot be opened, or memory is short.
 */
extern void sfi_read_start_request(SfReadJob *job, SfReadRequest *request, bool early);

/*
 * Wait for a request that was started, perhaps in an earlier call.  False when it
 * could not be read and the listener was told so; it stays started then.
 */
extern bool sfi_read_wait_request(SfReadJob *job, const SfReadListener *listener,
								  SfReadRequest *request);

/* The request is not wanted any more, in whatever state.  Never throws. */
extern void sfi_read_drop_request(SfReadRequest *request);

/* For tests: what a page cache that is behind the disk gives. */
extern void sfi_read_spoil_cached(SfReadJob *job, SfReadRequest *request);

/*
 * The one way to a checked, decoded unit: check unit i of a request that has arrived,
 * once; decode it, and copy the part that the target wants.  Nothing is copied when
 * the unit does not match and the listener was told so.
 */
extern void sfi_read_deliver_unit(SfReadJob *job, const SfReadListener *listener,
								  SfReadRequest *request, uint32 i);

/* The same for units [first_unit, end_unit), which are holes.  Never throws. */
extern void sfi_read_deliver_holes(SfReadJob *job, uint64 first_unit, uint64 end_unit);

/* ---- ring.c: requests in the order of their units ---- */

typedef struct SfReadRing
{
	SfReadRequest *slots;		/* size of them; of the caller, static */
	int			size;			/* slots that have memory */
	int			most;			/* requests that are worth it */
	int			depth;			/* requests that may be busy now; grows to
								 * most */
	int			oldest;
	int			busy;			/* from the oldest on: started or arrived */
	uint64		next_unit;		/* first unit that is not planned yet */
} SfReadRing;

/* For assertions. */
extern bool sfi_ring_is_valid(const SfReadRing *ring);

/*
 * Empty a ring, whatever an ERROR has left in it, and begin at a unit.  size: slots
 * it is to have; the memory of new ones is made, for the life of the process, and is
 * the only thing that can throw.
 */
extern void sfi_ring_prepare(SfReadRing *ring, int size, uint64 next_unit);

/*
 * Plan a request of units[0 .. n), which begin with ring->next_unit, and go past holes.
 * The request takes no place in the ring yet.  NULL when the ring is full, when all n
 * are holes, or at a unit that is not where data files are: next_unit is that one.
 */
extern SfReadRequest *sfi_ring_plan(SfReadRing *ring, SfReadJob *job, const SfUnit *units,
									uint32 n);

/* Start the request that was planned last.  Arguments, errors: sfi_read_start_request(). */
extern void sfi_ring_start(SfReadRing *ring, SfReadJob *job, bool early);

/*
 * Wait until unit_no can be taken.  False: its request could not be read, and the
 * listener was told so; or there is none, as planning has ended before that unit.
 */
extern bool sfi_ring_wait(SfReadRing *ring, SfReadJob *job, const SfReadListener *listener,
						  uint64 unit_no);

/*
 * Deliver units from unit_no on, which sfi_ring_wait() has been called for: a row of
 * holes, or the rest of the oldest request, up to unit end at most.  Returns the next
 * unit.  A request is dropped when the target has its last byte.
 */
extern uint64 sfi_ring_take(SfReadRing *ring, SfReadJob *job, const SfReadListener *listener,
							uint64 unit_no, uint64 end);

/*
 * Pass over the oldest request, or if there is none over the next unit; returns the unit
 * after that.  Never throws.
 */
extern uint64 sfi_ring_skip(SfReadRing *ring);

/* ---- damage.c ---- */

/* Tell a listener of bytes of a segment that cannot be returned, from that sector on. */
extern void sfi_read_tell(const SfReadListener *listener, const char *what, uint64 start_sector,
						  int64 len, const char *detail);

/* ERROR DATA_CORRUPTED: a value was compressed with a dictionary that is not in its segment. */
SF_NORETURN extern void sfi_read_report_no_dictionary(uint32 number);

/*
 * A unit matches, but was not decoded, for that reason.  ERROR, or the listener is told of
 * a unit that no codec can decode.  Short memory is always an ERROR.
 */
extern void sfi_read_report_undecodable(const SfReadListener *listener, uint64 unit_no,
										const SfUnit *unit, SfDecoded reason);

/* Always an ERROR: nothing is wrong with the value, but it cannot be decoded here. */
SF_NORETURN extern void sfi_read_refuse_decoding(SfDecoded reason, uint32 codec);

/* The stored bytes of a unit have another checksum.  ERROR, or the listener is told. */
extern void sfi_read_report_mismatch(SfReadJob *job, const SfReadListener *listener,
									 uint64 unit_no, const SfUnit *unit, uint64 found);

/* A unit lies where no data file is.  ERROR, or the listener is told. */
extern void sfi_read_report_beyond_end(SfReadJob *job, const SfReadListener *listener,
									   const SfUnit *unit);

/* Are the stored bytes of a unit its plain bytes? */
static inline bool
sfi_read_is_plain(const SfReadJob *job, const SfUnit *unit)
{
	return sf_transform_is_raw(unit) && !(job->loc->flags & SF_LOC_KEYED);
}

/* ---- plain.c: units that are encoded, encrypted, or both ---- */

/*
 * Decode a unit, whose stored bytes have been checked, into dst, which has room for all
 * its plain bytes.  False when it cannot be decoded and the listener was told so.
 */
extern bool sfi_read_decode(SfReadJob *job, const SfReadListener *listener, uint64 unit_no,
							const SfUnit *unit, const char *stored, char *dst);

/*
 * The same into memory of this room; NULL for false.  The last few units are kept, so
 * that pieces of a unit decode it once.  The result is good until the next call.
 */
extern const char *sfi_read_plain(SfReadJob *job, const SfReadListener *listener, uint64 unit_no,
								  const SfUnit *unit, const char *stored);

/* Transaction end: wipe what is kept of encrypted units.  Never throws. */
extern void sfi_read_wipe(void);

/* ---- read_packed.c ---- */

/*
 * Length of a PACKED value, and bytes [offset, offset + len) of it, which must lie in it,
 * into dst.  ERRORs as for sf_read_unpacked().
 */
extern int64 sfi_read_packed_length(struct varlena *datum);
extern void sfi_read_packed(struct varlena *datum, int64 offset, int64 len, char *dst);

/* ---- ahead.c: reading ahead ---- */

typedef struct SfReadSlot SfReadSlot;

/* As many pieces of a PIECED value are read at the same time. */
#define SF_READ_LANES	3

struct SfReader
{
	dlist_node	link;			/* among all readers of this process */
	MemoryContext context;		/* holds the reader and all it has */
	MemoryContextCallback at_reset;
	SfValue		value;			/* its copy */
	int64		length_bytes;
	bool		in_call;		/* between calls: the last one threw */
	int64		wanted_end;		/* nothing is wanted from there on */

	/* places of the unit space */
	int64		next_offset;	/* end of the last read; -1: none */
	int64		end_offset;		/* nothing that follows is wanted from there
								 * on */
	bool		direct;			/* a long stream: past the page cache */
	int64		decided_until;	/* from there on, direct is decided anew */

	/* PIECED only; NULL: not loaded yet */
	SfRange    *pieces;
	uint64	   *begins;			/* where they begin in the value */
	int64		npieces;
	SfReader   *lanes[SF_READ_LANES];	/* read the pieces by turns */
	int64		lane_pieces[SF_READ_LANES]; /* which one each has, or -1 */
	int64		next_position;	/* in the value: end of the last call */

	/* STORED only */
	bool		tag_checked;	/* the locator is its segment's */
	Oid			held;			/* segment relation that is locked for the
								 * reader, or invalid */

	/* reading ahead; see ahead.c */
	SfReadSlot *slot;			/* NULL: does not read ahead */
	SfStorage	storage;		/* storage that it reads ahead in */
	SfUnit	   *units;			/* [0 .. nknown): units from first_known on */
	uint64		first_known;
	uint32		nknown;
};

/*
 * Read a target that goes on where the last one ended, and start reading the units
 * after it.  A slot is taken if there is one; false, and nothing done, if not.
 * Errors are those of sfi_read_units(), and only for units of the target.
 */
extern bool sfi_read_ahead(SfReader *reader, SfReadJob *job);

/*
 * Start reading at the begin of a reader that has read nothing, if it is direct and asynchronous
 * and there is a slot.  Damage of what nobody has asked for yet is no error.
 */
extern void sfi_read_begin_ahead(SfReader *reader, SfReadJob *job);

/*
 * A unit of a reader's value; *n: how many are known from there on.  NULL when it is
 * not in the job's target, and its page cannot be read now.  ERROR when it is in the
 * target and cannot be looked up.  The result is good until the next call.
 */
extern const SfUnit *sfi_read_find_unit(SfReader *reader, SfReadJob *job, uint64 unit_no,
										uint32 *n);

/* Forget what was read ahead.  Never throws. */
extern void sfi_read_leave_slot(SfReader *reader);

/* All slots are free; the caller tells the readers that had them.  Never throws. */
extern void sfi_read_clear_slots(void);

#endif							/* SF_READ_INTERNAL_H */
