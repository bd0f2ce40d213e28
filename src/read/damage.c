/*-------------------------------------------------------------------------
 *
 * damage.c
 *	  What is said of a unit that cannot be returned: thrown as an ERROR, or
 *	  told to a check.
 *
 * A unit that does not match has one of three reasons, and they call for different acts of
 * the user.  So they are told apart, as well as that goes:
 *
 *		 its data never came to this server		the column is not logged, and the server
 *												was restored or promoted
 *		 its space was given back				the value outlived its row
 *		 neither									damage
 *
 * A check reads live rows only, whose values cannot have outlived them: for it there
 * are two.
 *
 * The reason is looked for only when something is wrong, so it may cost a look at the space
 * map, and at the rows of the table (object/fate.c).  Where these cannot be looked at, the
 * map says whether the space is free; if it is not, it may be in use again for another
 * value, and the error names both.
 *
 *-------------------------------------------------------------------------
 */
#include "base/base.h"

#include "access/xlog.h"
#include "read/read_internal.h"
#include "utils/snapmgr.h"

/* Where data is in WAL, replay and backups bring it back, and it is never missing. */
bool
sfi_read_may_be_missing(SfSegment *seg, uint64 object_id)
{
	SfHeader	header;

	if (seg->logged_data)
		return false;
	header = sf_space_read_header(seg);
	return header.restore_id != sf_io_restore_id() || object_id < header.kept_from_id;
}

void
sfi_read_tell(const SfReadListener *listener, const char *what, uint64 start_sector, int64 len,
			  const char *detail)
{
	if (listener->found != NULL)
		listener->found(what, sf_sectors_to_bytes(start_sector), len, detail, listener->arg);
}

/*
 * Is what is wrong with a unit that its data stayed on another server?  Then
 * that is reported.
 */
static bool
report_left_behind(SfReadJob *job, const SfReadListener *listener, const SfUnit *unit)
{
	const char *detail = "The column is filesystem_like_logging, and the value was stored before"
		" this server was restored from a backup or became a standby.";

	if (!sfi_read_may_be_missing(job->seg, job->loc->object_id))
		return false;
	if (listener == NULL)
		ereport(ERROR,
				(errcode(ERRCODE_UNDEFINED_FILE),
				 errmsg("data of a securefile value is not on this server"),
				 errdetail_internal("%s", detail),
				 errhint("securefile_fetch_left_behind() gets it from a server that has it. Or store the value again, or delete its row; securefile_check() lists such values.")));
	if (listener->missing != NULL)
		listener->missing(unit, job->seed, listener->arg);
	else
		sfi_read_tell(listener, "data left behind", unit->start, unit->stored_bytes, detail);
	return true;
}

/*
 * Has a value outlived its row?  Where nobody knows, free space in its place (not used) says
 * that it has.  *sure: we know it.
 */
static bool
is_gone(SfReadJob *job, SfRun run, bool used, bool *sure)
{
	SfFate		fate = sf_object_fate(job->seg, job->loc, run.start, run.nsectors, false);

	SF_ASSERT(run.nsectors > 0);
	*sure = fate != SF_FATE_UNKNOWN;
	return fate == SF_FATE_GONE || (fate == SF_FATE_UNKNOWN && !used);
}

/*
 * While replay goes on, rows and the space map are of slightly different moments; while old
 * changes are decoded, rows that are not to be seen are read.
 */
bool
sfi_read_was_given_back(const SfReadJob *job, const SfUnit *unit)
{
	static int	asks = -1;
	SfRun		run = {unit->start, sf_unit_sectors(unit)};

	if (asks < 0)
		asks = getenv("SECUREFILE_CHECK_READS") != NULL;
	return asks && !RecoveryInProgress() && !HistoricSnapshotActive() &&
		!sf_space_is_used(job->seg, run, true) &&
		sf_object_fate(job->seg, job->loc, run.start, run.nsectors, false) == SF_FATE_LIVES;
}

void
sfi_read_report_mismatch(SfReadJob *job, const SfReadListener *listener,
						 uint64 unit_no, const SfUnit *unit, uint64 found)
{
	SfRun		run = {unit->start, sf_unit_sectors(unit)};
	char	   *detail = psprintf("Unit " UINT64_FORMAT " at segment offset " UINT64_FORMAT
								  ": expected checksum " SF_HEX64_FORMAT ", found " SF_HEX64_FORMAT ".",
								  unit_no, sf_sectors_to_bytes(unit->start), unit->checksum, found);
	bool		used;
	bool		sure;

	if (listener != NULL)
	{
		if (!report_left_behind(job, listener, unit))
			sfi_read_tell(listener, "checksum mismatch", unit->start, unit->stored_bytes, detail);
		return;
	}
	sf_base_refuse_aborted();
	used = sf_space_is_used(job->seg, run, false);
	if (used)
		(void) report_left_behind(job, listener, unit);
	if (is_gone(job, run, used, &sure))
		sf_base_report_outlived("Its row is gone, and its space has been given back.");
	sf_base_report_damage(sure ? "securefile value is damaged"
						  : "securefile value is damaged, or outlived its row", detail);
}

void
sfi_read_report_beyond_end(SfReadJob *job, const SfReadListener *listener, const SfUnit *unit)
{
	SfRun		run = {unit->start, sf_unit_sectors(unit)};
	bool		sure;

	sf_base_refuse_aborted();
	if (report_left_behind(job, listener, unit))
		return;
	if (listener != NULL)
	{
		sfi_read_tell(listener, "unreadable", unit->start, unit->stored_bytes,
					  "The unit lies beyond the end of the segment.");
		return;
	}
	if (is_gone(job, run, sf_space_is_used(job->seg, run, false), &sure))
		sf_base_report_outlived("Its row is gone, and its place lies beyond the end of its segment now.");
	sf_base_report_damage("securefile value lies beyond the end of its segment",
						  psprintf("Segment offset " UINT64_FORMAT
								   "; the segment is expected to end at " UINT64_FORMAT ".",
								   sf_sectors_to_bytes(unit->start),
								   sf_sectors_to_bytes(job->total_sectors)));
}

void
sfi_read_refuse_decoding(SfDecoded reason, uint32 codec)
{
	SF_ASSERT(reason == SF_DECODE_NO_MEMORY || reason == SF_DECODE_NO_CODEC ||
			  reason == SF_DECODE_NO_CIPHER);
	if (reason == SF_DECODE_NO_MEMORY)
		ereport(ERROR,
				(errcode(ERRCODE_OUT_OF_MEMORY),
				 errmsg("out of memory"),
				 errdetail("Failed while decoding a securefile value.")));
	if (reason == SF_DECODE_NO_CIPHER)
		ereport(ERROR,
				(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
				 errmsg("securefile value is encrypted in a way that this build does not support"),
				 errhint("Cipher aes needs a build with OpenSSL.")));
	ereport(ERROR,
			(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
			 errmsg("securefile value is compressed in a way that this build does not support"),
			 errdetail("The value has codec %u.", codec),
			 errhint("Codec 1 needs a build with LZ4; codecs 2 and 3 need one with zstd.")));
}

/*
 * Its checksum is right, so its stored bytes are as they were written.  Short memory is no
 * damage: it is an ERROR for a check, too, which would else call a sound value damaged.  A
 * codec that this build lacks is none either, and a check goes on with the next unit.
 */
void
sfi_read_report_undecodable(const SfReadListener *listener, uint64 unit_no, const SfUnit *unit,
							SfDecoded reason)
{
	char	   *detail = psprintf("Unit " UINT64_FORMAT " at segment offset " UINT64_FORMAT
								  " has codec %u and %u stored bytes.",
								  unit_no, sf_sectors_to_bytes(unit->start), unit->flags,
								  unit->stored_bytes);
	bool		is_missing = reason == SF_DECODE_NO_CODEC || reason == SF_DECODE_NO_CIPHER;

	if (reason == SF_DECODE_NO_MEMORY || (is_missing && listener == NULL))
		sfi_read_refuse_decoding(reason, unit->flags);
	if (is_missing)
		return;
	if (listener != NULL)
	{
		sfi_read_tell(listener, "undecodable", unit->start, unit->stored_bytes, detail);
		return;
	}
	sf_base_report_damage(reason == SF_DECODE_NOT_GENUINE
						  ? "securefile value cannot be authenticated"
						  : "securefile value cannot be decoded", detail);
}

void
sfi_read_report_no_dictionary(uint32 number)
{
	ereport(ERROR,
			(errcode(ERRCODE_DATA_CORRUPTED),
			 errmsg("securefile value needs a dictionary that its segment does not have"),
			 errdetail("The value was compressed with dictionary %u.", number),
			 errhint("Run securefile_check() on the column, and securefile_repair(), which finds dictionaries that the segment's list has lost.")));
}
