/*
 * fault_points.h
 *	  The list of fault points: SF_FAULT_POINT(name, what it stands for).
 *	  Included several times; no include guard.
 */
SF_FAULT_POINT(io_open, "opening a data file")
SF_FAULT_POINT(io_write, "one write to a data file")
SF_FAULT_POINT(io_read, "one read of a data file")
SF_FAULT_POINT(read_stale, "a read through the page cache; its first byte is spoiled")
SF_FAULT_POINT(io_sync, "fdatasync of a data file")
SF_FAULT_POINT(io_extend, "writing zeros at the end of a data file")
SF_FAULT_POINT(io_truncate, "shortening a data file")
SF_FAULT_POINT(io_unlink, "removing a data file")
SF_FAULT_POINT(io_direct, "asking the file system for direct I/O")
SF_FAULT_POINT(flush_before_write, "gathered data is about to be written")
SF_FAULT_POINT(commit_before_flush, "pre-commit, before the gather cache is flushed")
SF_FAULT_POINT(commit_data_in_flight, "pre-commit, data records in WAL, writes not waited for")
SF_FAULT_POINT(commit_after_data, "pre-commit, data durable and in WAL, no space entries")
SF_FAULT_POINT(commit_after_alloc, "pre-commit, space entries in WAL")
SF_FAULT_POINT(commit_done, "after the commit record, before clean-up")
SF_FAULT_POINT(abort_start, "abort, before I/O in flight is reaped")
SF_FAULT_POINT(resolve_before, "resolver, before it changes a page")
SF_FAULT_POINT(resolve_after, "resolver, after its record was inserted")
SF_FAULT_POINT(grow_after_zero, "growth, zeros durable, no record yet")
SF_FAULT_POINT(grow_after_record, "growth, record inserted")
SF_FAULT_POINT(truncate_before_file, "tail truncation, record flushed, file not yet cut")
SF_FAULT_POINT(create_after_files, "segment creation, logged, files made")
SF_FAULT_POINT(drop_before_unlink, "drop committed, files not yet unlinked")
