#!/usr/bin/python3
"""Kills a server while values come, go and are edited, and space is given back and limited.

The kill loop (killloop.py), with more at work beside the clients: securefile_shrink() in each mode and pace,
securefile_shrink_some(), both also cut off, cancelled and ended, the monitor's own releases, and
securefile_set_max_size().  Clients edit parts of values, too, and a limit may refuse any of their statements.
After each restart disk_bytes are what the system says of the files, and shared values and references to them are
as many as rows say, besides all that the kill loop asks.

With --power (root only) the cluster lies on disks with a volatile cache (test/powercut), and in every second
round their power is cut.  Holes are in the journal of the file system then, or lost, and what lies under them is
discarded.

    space.py --rounds 3 --seed 42
    space.py --power --seconds 3600

Exit code 0: sound; 1: not; the cluster's directory is then kept.
"""

import argparse
import glob
import os
import signal
import sys
import time

import psycopg

sys.path.append(os.path.join(os.path.dirname(os.path.realpath(__file__)), "..", "powercut"))

import disks
import kept
import killloop
import model
import once
import powercut
import verify
from client import Mismatch
from values import EDIT

MOST_EDITS = 12
LIMITS = ["none", "none", "8 MB", "32 MB", "64 MB", "128 MB"]
POINTS = ["release_claimed", "release_before", "release_after_record", "release_after_punch", "truncate_before_claim",
          "truncate_after_claim", "truncate_after_record", "truncate_before_file", "truncate_after_file",
          "lend_before_mark", "lend_after_mark", "grow_before", "grow_before_files", "grow_after_zero",
          "grow_after_record", "resolve_before", "resolve_after", "io_hole", "io_extents",
          "shrink_limit", "shrink_stored", "shrink_row_updated", "shrink_batch_done"]
# how often these were passed is told at the end
COUNTED = ["release_after_punch", "shrink_row_updated", "truncate_after_file"]
GIVES_WAY = (psycopg.errors.LockNotAvailable, psycopg.errors.DeadlockDetected, psycopg.errors.QueryCanceled,
             psycopg.errors.ObjectInUse)
BATCHES = [1, 10**5, 10**6, 64 * 1024 * 1024]


# ---- clients ----

def value_to_edit(c, table):
    """A row, one of its columns, and the id of that value after one more edit; or None."""
    key = c.some_id(table)
    x = c.rng.choice("ab")
    vid = None if key is None else getattr(c.rows[table][key], f"v{x}")
    if vid is None or vid >= MOST_EDITS * EDIT or c.values.length(vid + EDIT) > c.options.max_size:
        return None
    return key, x, vid + EDIT


def edit(c, table):
    """Some bytes inside a value, or at its end."""
    found = value_to_edit(c, table)
    if found is None:
        return
    key, x, vid = found
    at, length, _ = c.values.edit(vid)
    c.sql(f"UPDATE {table} SET v{x} = %s, {x} = overlay({x} placing {c.binary()}::bytea from %s::int for %s::int)"
          " WHERE id = %s", (vid, c.values.edit_bytes(vid), at + 1, length, key))
    c.set(table, key, **{f"v{x}": vid})


def edit_by_handle(c, table):
    """The same by a handle, in pieces; it may be given up."""
    found = value_to_edit(c, table)
    if found is None:
        return
    key, x, vid = found
    at, _, _ = c.values.edit(vid)
    data = c.values.edit_bytes(vid)
    handle = c.sql(f"SELECT securefile_open({x}, 'rw') FROM {table} WHERE id = %s", (key,))[0][0]
    c.sql("SELECT securefile_seek(%s, %s, 0)", (handle, at))
    step = c.rng.choice([len(data), 50000, 8192])
    for start in range(0, len(data), step):
        c.sql(f"SELECT securefile_write(%s, {c.binary()}::bytea)", (handle, data[start:start + step]))
    if c.rng.random() < 0.1:
        c.sql("SELECT securefile_close(%s)", (handle,))
        return
    c.sql(f"UPDATE {table} SET v{x} = %s, {x} = securefile_finish(%s) WHERE id = %s", (vid, handle, key))
    c.set(table, key, **{f"v{x}": vid})


# ---- beside them ----

def shrink_by_call(own, rng, table, column):
    """securefile_shrink() in some mode, and at some pace."""
    arguments = [f"'{table}'", f"'{column}'"]
    if rng.random() < 0.6:
        arguments += ["'move'", f"batch_bytes => {rng.choice(BATCHES)}", "allow_decoding => true", "force => true"]
    if rng.random() < 0.3:
        arguments.append(f"max_bytes_per_second => {rng.choice([10**5, 10**6, 10**8])}")
    own.execute(f"CALL securefile_shrink({', '.join(arguments)})")


def shrink_by_steps(own, rng, table, column):
    """securefile_shrink_some() in transactions of ours, some of which come to nothing."""
    position = None
    for _ in range(rng.choice([1, 5, 30])):
        own.execute("BEGIN")
        text = own.execute("SELECT next_position FROM securefile_shrink_some(%s, %s, %s, %s, true, true)",
                           (table, column, rng.choice(BATCHES), position)).fetchone()[0]
        if rng.random() < 0.2:
            own.execute("ROLLBACK")
            continue
        own.execute("COMMIT")
        # (in a database of SQL_ASCII a text is bytes)
        position = text.decode() if isinstance(text, bytes) else text
        if position is None:
            break
    own.execute(f"SELECT securefile_maintain('{table}', '{column}')")


def shrink(conn, options, rng, _end):
    """Space goes back; now and then the statement is cut off."""
    time.sleep(rng.uniform(0, 0.2))
    table, column = rng.choice(verify.leaves(options)), rng.choice("ab")
    way = shrink_by_steps if rng.random() < 0.25 else shrink_by_call
    # a session that comes after the server was killed would be in the way of those who look
    conn.execute("SELECT 1")
    try:
        with psycopg.connect(conn.info.dsn, autocommit=True, application_name="shrinker") as own:
            own.execute("SET lock_timeout = '500ms'; SET deadlock_timeout = '100ms'")
            own.execute(f"SET statement_timeout = {rng.choice([0, 0, 0, rng.randint(1, 1000)])}")
            way(own, rng, table, column)
    except GIVES_WAY + (psycopg.errors.AdminShutdown,):
        pass
    except psycopg.errors.InvalidParameterValue as error:
        # the column was truncated between two steps
        if "position to go on from" not in str(error):
            raise
    except (psycopg.errors.ObjectNotInPrerequisiteState, psycopg.errors.InternalError_) as error:
        if not model.is_of_lost_disk(error, options):
            raise


def disturb(conn, _options, rng, _end):
    """Who gives space back is cancelled, or ended; the monitor's worker, too."""
    time.sleep(rng.uniform(0.1, 0.8))
    conn.execute(f"SELECT {rng.choice(['pg_cancel_backend', 'pg_cancel_backend', 'pg_terminate_backend'])}(pid)"
                 " FROM pg_stat_activity WHERE application_name = 'shrinker' AND state = 'active' AND random() < 0.5"
                 " OR backend_type = 'securefile monitor worker' AND random() < 0.1")


def let_monitor_release(conn, options, rng, _end):
    """The monitor releases what a checkpoint has passed, with thresholds that change."""
    time.sleep(rng.uniform(0.1, 1))
    try:
        if rng.random() < 0.3:
            conn.execute(f"ALTER SYSTEM SET securefile.release_threshold = {rng.choice([0, 1, 1, 1, 10, 40])}")
            conn.execute("SELECT pg_reload_conf()")
        conn.execute("CHECKPOINT")
    except psycopg.errors.InternalError_ as error:
        if not model.is_of_lost_disk(error, options):
            raise


def limit(conn, options, rng, _end):
    """A column gets another limit, or none."""
    time.sleep(rng.uniform(0.2, 1))
    table = rng.choice(["model_shared"] + verify.leaves(options)[len(verify.LOAD_TABLES):] * 2)
    column = rng.choice("ab")
    conn.execute("SET lock_timeout = '500ms'; SET deadlock_timeout = '100ms'")
    try:
        conn.execute("SELECT securefile_set_max_size(%s, %s, %s)", (table, column, rng.choice(LIMITS)))
    except psycopg.errors.InvalidParameterValue:
        if (table, column) not in options.kept:
            raise				# a retention needs a limit
    except GIVES_WAY:
        pass


# ---- after each restart ----

def look_at_disk(server, conn, options):
    """Columns take of the disk what their files do."""
    for table in verify.leaves(options):
        for column in "ab":
            end = time.time() + 60
            while True:
                told, pattern = conn.execute(
                    "SELECT disk_bytes, (SELECT convert_to(data_files, 'SQL_ASCII') FROM securefile_columns WHERE relid = %s::regclass AND attname = %s)"
                    " FROM securefile_usage(%s, %s)", (table, column, table, column)).fetchone()
                # (in a database of SQL_ASCII a text is bytes)
                found = sum(os.stat(file).st_blocks * 512 for file in glob.glob(os.path.join(os.fsencode(server.data), pattern)))
                if told == found:
                    break
                # the file system may have had something to write yet
                if time.time() > end:
                    raise Mismatch(f"{table}.{column}: {told} bytes on disk, and {pattern} has {found}")
                time.sleep(0.2)


def count_shares(server, conn, table, column):
    """References and shared values: of the rows, and as the column counts them."""
    conn.execute(f"SELECT securefile_maintain('{table}', '{column}')")
    conn.execute("CHECKPOINT")
    path = conn.execute("SELECT convert_to(pg_relation_filepath(segment_relid), 'SQL_ASCII')"
                        " FROM securefile_columns WHERE relid = %s::regclass AND attname = %s",
                        (table, column)).fetchone()[0]
    with open(os.path.join(os.fsencode(server.data), path), "rb") as file:
        pages = file.read()
    found = conn.execute(f"SELECT bytes FROM (SELECT ({column}::raw)::bytea AS bytes FROM ONLY {table}"
                         f" WHERE length({column}) > 0) r WHERE get_byte(bytes, 0) = 2", binary=True).fetchall()
    places = [once.record_of(pages, bytes(locator)) for locator, in found]
    records = [place[0] for place in places if place]
    counted = conn.execute("SELECT shared_references, shared_objects FROM securefile_usage(%s, %s)",
                           (table, column)).fetchone()
    return (len(records), len(set(records))), counted


def look_at_shares(server, conn, options):
    """There are as many shared values, and references to them, as the rows say, once all is settled."""
    kept.make_raw(conn)
    for table in verify.leaves(options):
        for column in "ab":
            if (table, column) in options.still_kept:
                continue		# references that are kept count, too
            end = time.time() + 60
            while True:
                rows, counted = count_shares(server, conn, table, column)
                if rows == counted:
                    break
                if time.time() > end:
                    raise Mismatch(f"{table}.{column}: references and shared values are {rows} by the rows,"
                                   f" and {counted} are counted")
                time.sleep(0.1)


# ---- power cuts ----

def cut_round(server, options, values, states, _way, rng, tally):
    """The power goes.  Of what was not flushed several choices are tried; the clients go on with the last."""
    done = powercut.Tally()
    options.faults = True	# clients see I/O errors before they lose the server
    said = powercut.cut_under_load(server, options, states, rng, done)
    options.faults = False
    states[:] = powercut.try_states(server, options, values, states, said, rng, done)
    tally.update({"cuts": done.cuts, "cuts in recovery": done.again, "states after cuts": done.states})
    killloop.count_round({"transactions": done.transactions, "values": done.values}, states, tally)
    return f"power cut: {said}"


def use_disks(options):
    """Every second round is a power cut, of disks whose number the seed decides."""
    options.own_ways = {"cut": cut_round}
    options.planted, options.states = False, 2
    options.make_disk = lambda top: disks.Disks(top, one=options.seed % 2 == 0, sizes=("6G", "2G"), options="discard")
    if not options.keep:
        options.abandon = powercut.abandon
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=10**6)
    parser.add_argument("--seconds", type=float, default=10**9, help="no round begins after that")
    parser.add_argument("--load", type=float, default=3.0, help="most seconds before a kill")
    parser.add_argument("--wal-level", default="replica")
    parser.add_argument("--power", action="store_true", help="cut the power of the cluster's disks, too (root only)")
    parser.add_argument("--keep", action="store_true", help="leave disks that failed mounted")
    model.arguments(parser)
    options = parser.parse_args()
    options.prepared, options.faults, options.limited = True, False, True
    options.operations = [(edit, 16), (edit_by_handle, 10)]
    options.sides = [shrink, shrink, limit, disturb, let_monitor_release]
    options.looks = [look_at_disk, look_at_shares]
    options.points, options.counted = POINTS, COUNTED
    options.settings = {"securefile.release_threshold": "1"}
    # the monitor releases a little, too
    os.environ["SECUREFILE_FAULT"] = ",".join(["release_little:skip:0:-1"] + [f"{p}:pass:0:-1" for p in COUNTED])
    if options.power:
        why = disks.why_not()
        if why:
            print(f"not here: {why}")
            return 77
        use_disks(options)
    return killloop.run_all(options, f"--wal-level {options.wal_level}" + (" --power" if options.power else ""))


if __name__ == "__main__":
    sys.exit(main())
