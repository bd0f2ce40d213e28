#!/usr/bin/python3
"""Kills a server while values come, go and are edited, and space is given back and limited.

The kill loop (killloop.py), with more at work beside the clients: securefile_shrink() in each mode, also
cut off, and securefile_set_max_size().  Clients edit parts of values, too, and a limit may refuse any of
their statements.  After each restart disk_bytes are what the system says of the files, besides all that the kill
loop asks.

    space.py --rounds 3 --seed 42
    space.py --seconds 3600

Exit code 0: sound; 1: not; the cluster's directory is then kept.
"""

import argparse
import glob
import os
import sys
import time

import psycopg

import killloop
import model
import verify
from client import Mismatch
from values import EDIT

MOST_EDITS = 12
LIMITS = ["none", "none", "8 MB", "32 MB", "64 MB", "128 MB"]
POINTS = ["release_claimed", "release_before", "release_after_record", "release_after_punch", "truncate_before_claim",
          "truncate_after_claim", "truncate_after_record", "truncate_before_file", "truncate_after_file",
          "lend_before_mark", "lend_after_mark", "grow_before", "grow_before_files", "grow_after_zero",
          "grow_after_record", "resolve_before", "resolve_after", "io_hole", "io_extents"]
GIVES_WAY = (psycopg.errors.LockNotAvailable, psycopg.errors.DeadlockDetected, psycopg.errors.QueryCanceled,
             psycopg.errors.ObjectInUse)


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

def shrink(conn, options, rng, _end):
    """Space goes back in some mode; now and then the call is cut off."""
    time.sleep(rng.uniform(0, 0.2))
    table, column = rng.choice(verify.leaves(options)), rng.choice("ab")
    arguments = [f"'{table}'", f"'{column}'"]
    try:
        conn.execute("SET statement_timeout = 0; SET lock_timeout = '500ms'; SET deadlock_timeout = '100ms'")
        if rng.random() < 0.6:
            arguments += ["'move'", f"batch_bytes => {rng.choice([10**5, 10**6, 64 * 1024 * 1024])}",
                          "allow_decoding => true", "force => true"]
        if rng.random() < 0.3:
            arguments.append(f"max_bytes_per_second => {rng.choice([10**6, 10**8])}")
        conn.execute(f"SET statement_timeout = {rng.choice([0, 0, 0, rng.randint(1, 1000)])}")
        conn.execute(f"CALL securefile_shrink({', '.join(arguments)})")
    except GIVES_WAY:
        pass


def limit(conn, options, rng, _end):
    """A column gets another limit, or none."""
    time.sleep(rng.uniform(0.2, 1))
    table = rng.choice(["model_shared"] + verify.leaves(options)[len(verify.LOAD_TABLES):] * 2)
    conn.execute("SET lock_timeout = '500ms'; SET deadlock_timeout = '100ms'")
    try:
        conn.execute("SELECT securefile_set_max_size(%s, %s, %s)", (table, rng.choice("ab"), rng.choice(LIMITS)))
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


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=10**6)
    parser.add_argument("--seconds", type=float, default=10**9, help="no round begins after that")
    parser.add_argument("--load", type=float, default=3.0, help="most seconds before a kill")
    parser.add_argument("--wal-level", default="replica")
    model.arguments(parser)
    options = parser.parse_args()
    options.prepared, options.faults, options.power, options.limited = True, False, False, True
    options.operations = [(edit, 16), (edit_by_handle, 10)]
    options.sides = [shrink, shrink, limit]
    options.looks = [look_at_disk]
    options.points = POINTS
    return killloop.run_all(options, f"--wal-level {options.wal_level}")


if __name__ == "__main__":
    sys.exit(main())
