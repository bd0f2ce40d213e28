#!/usr/bin/python3
"""Kills a server under the load of the model test, again and again.

Each round the clients of model.py work for a moment; then the postmaster with
all its children, or one process, gets SIGKILL, by chance or at a named point of
the code, or the server is stopped at once.  The clients outlive the server, so
what they saw acknowledged is known.  After the restart every acknowledged commit
must be there, and nothing else: a commit that was on its way is there whole or not
at all.  With --async the last commits of a client may be gone, all of each.
securefile_check() must be silent, and no space may be lost.

    killloop.py --rounds 3 --seed 42

Exit code 0: sound; 1: not; the cluster's directory is then kept.
"""

import argparse
import random
import sys
import time
import traceback
from collections import Counter

import psycopg

import kept
import model
import option_words
import verify
from client import Mismatch
from server import Disk, Server
from values import Values

WAYS = ["postmaster", "process", "immediate"]
POINTS = ["encode", "decode", "io_write", "io_read", "io_extend", "io_promise", "io_truncate",
          "flush_before_write", "commit_before_flush", "commit_data_in_flight",
          "commit_after_data", "commit_after_alloc", "commit_done", "abort_start",
          "resolve_before", "resolve_after", "grow_after_zero", "grow_after_record",
          "truncate_before_file", "release_claimed", "release_after_record", "release_after_punch",
          "create_after_record", "grow_before_files",
          "drop_before_unlink", "data_written", "data_noted", "data_logged", "syncer_opened",
          "syncer_flush", "syncer_cleared", "syncer_file_done", "syncer_pre_flushed",
          "syncer_closed", "syncer_flushed", "syncer_renewed"]


def settings(options):
    """Durable, and with everything frequent that usually is rare."""
    load = {"fsync": "on", "wal_level": options.wal_level, "max_wal_senders": "0",
            "restart_after_crash": "on", "max_prepared_transactions": "20",
            "checkpoint_timeout": "30s", "max_wal_size": "'256MB'",
            "autovacuum_naptime": "1s", "log_min_messages": "warning",
            "log_min_error_statement": "panic",
            "log_line_prefix": "'%m [%p] %b '"}
    if options.asynchronous:
        load.update({"synchronous_commit": "off", "wal_writer_delay": "'5s'",
                     "wal_writer_flush_after": "'1GB'", "wal_buffers": "'64MB'"})
    if options.type == "securefile":
        load.update({"shared_preload_libraries": "'securefile'",
                     "securefile.monitor_naptime": "'1s'"})
    return load | getattr(options, "settings", {})


def strike(server, way, rng, points):
    """End the server; returns what was done and whether it restarts by itself."""
    if way == "postmaster":
        server.kill_all()
        return "SIGKILL of everything", False
    if way == "immediate":
        server.stop("immediate")
        return "immediate stop", False
    if way == "point":
        return strike_at_point(server, rng, points)
    if way == "power":
        server.cut_power()
        return "power cut", False
    return f"SIGKILL of one {server.kill_backend(rng)}", True


def strike_at_point(server, rng, points):
    """SIGKILL of whichever process comes to a point of the code next."""
    point = rng.choice(points)
    try:
        with server.connect() as conn:
            conn.execute("SELECT securefile_fault(%s, 'kill', skip => %s)",
                         (point, rng.choice([0, 0, 1, 5, 30])))
    except psycopg.OperationalError:
        pass					# the point was in our own commit
    if server.wait_for_death(5):
        return f"SIGKILL at {point}", True
    server.kill_all()
    return f"SIGKILL of everything, as nobody came to {point}", False


def settle_prepared(conn, state, rng):
    """End the prepared transaction of a client; the states it may now be in."""
    prepared = state["prepared"]
    there = conn.execute("SELECT count(*) FROM pg_prepared_xacts WHERE gid = %s",
                         (prepared["gid"],)).fetchone()[0] == 1
    if there:
        how = rng.choice(["COMMIT", "ROLLBACK"])
        conn.execute(f"{how} PREPARED '{prepared['gid']}'")
        return [prepared["after"] if how == "COMMIT" else state["rows"]]
    if prepared["step"] == "prepared":
        raise Mismatch(f"prepared transaction {prepared['gid']} is gone")
    if prepared["step"] == "preparing":
        return [state["rows"], *reversed(state["earlier"])]
    return [prepared["after"] if prepared["step"] == "COMMIT" else state["rows"]]


def examine(conn, options, values, states, rng):
    """Compare the restarted server with what the clients know; commits lost."""
    lost = 0
    for number, state in enumerate(states):
        if state is None:
            continue
        if state["prepared"]:
            candidates = settle_prepared(conn, state, rng)
        else:
            candidates = [state["rows"], *reversed(state["earlier"])]
            if state["doubt"] is not None:
                candidates.append(state["doubt"])
        got = verify.client_rows(conn, number, values, options)
        state["rows"] = verify.compare(number, got, candidates)
        if state["rows"] in state["earlier"]:
            lost += len(state["earlier"]) - state["earlier"].index(state["rows"])
        state["doubt"] = state["prepared"] = None
        state["earlier"] = []
    strange = conn.execute("SELECT gid FROM pg_prepared_xacts").fetchall()
    if strange:
        raise Mismatch(f"prepared transactions of nobody: {strange}")
    verify.check_sound(conn, options)
    examine_kept(conn, options, values, rng)
    verify.check_space(conn, options, values, [s for s in states if s], options.still_kept)
    return lost


def examine_kept(conn, options, values, rng):
    """What was removed is listed where it is kept.  Half the time it stays for the next round."""
    kept.end_windows_of_the_dead(conn, options.kept)
    verify.check_kept(conn, options, values)
    keeps = rng.random() < 0.5
    options.still_kept = verify.kept_columns(options) if keeps else ()
    if not keeps:
        verify.end_kept(conn, options, rng)
    for table, column in options.kept:	# whose retention was away
        kind = verify.column_type(options, table, column, option_words.some_words(rng))
        conn.execute(f"ALTER TABLE {table} ALTER {column} TYPE {kind}")


def count_fired(server, points, tally):
    """How often each point was passed; the server forgets that when it is killed."""
    with server.connect() as conn:
        for point in points:
            tally[point] += conn.execute("SELECT securefile_fault_fired(%s)", (point,)).fetchone()[0]


def count_round(totals, states, tally):
    """What clients and readers have done, and what was compared after the restart."""
    tally.update({key: totals[key] for key in ("transactions", "values")})
    tally["rows after restarts"] += sum(len(rows) for s in states if s for rows in s["rows"].values())


def told(tally):
    return ", ".join(f"{n} {what}" for what, n in tally.items())


def one_round(server, options, values, states, way, rng, tally):
    """Load, kill, restart, compare."""
    running = model.start(server.dsn, options, states, 120)
    time.sleep(rng.uniform(0.3, options.load))
    count_fired(server, getattr(options, "counted", []), tally)
    done, restarts = strike(server, way, rng, getattr(options, "points", POINTS))
    tally["kills"] += 1
    totals = model.collect(running, states)
    began = time.time()
    if not restarts:
        server.start()
    conn = server.connect()
    recovered = time.time() - began
    alarms = server.alarms()
    if alarms and way != "power":
        raise Mismatch("in the server's log:\n" + "\n".join(alarms))
    doubts = sum(1 for s in states if s and (s["doubt"] is not None or s["prepared"]))
    lost = examine(conn, options, values, states, rng)
    for look in getattr(options, "looks", []):
        look(server, conn, options)
    conn.close()
    count_round(totals, states, tally)
    return (f"{done}, {totals['transactions']} transactions, {doubts} in doubt,"
            + (f" {lost} lost," if options.asynchronous else "") + f" recovery {recovered:.1f} s")


def ways_to_try(conn, options):
    """One after the other, in an order by lot.  Those that a program of its own has come as often as
    all others."""
    if options.power and not hasattr(options, "own_ways"):
        return ["power"]
    ways = WAYS + (["point"] * 2 if verify.has_fault_points(conn) else [])
    return ways + [own for own in getattr(options, "own_ways", {}) for _ in ways]


def run(server, options):
    """All rounds; what was done in them."""
    rng = random.Random(f"{options.seed}:kill")
    values = Values(options.seed, options.max_size)
    server.start()
    with server.connect() as conn:
        verify.create(conn, options)
        conn.execute("CHECKPOINT")	# durable, whatever a commit waits for
        order = ways_to_try(conn, options)
        options.counted = getattr(options, "counted", []) if options.fault_points else []
    states = [None] * options.clients
    end = time.time() + getattr(options, "seconds", 10**9)
    tally = Counter()
    for number in range(options.rounds):
        if time.time() > end:
            break
        if number % len(order) == 0:
            rng.shuffle(order)
        way = order[number % len(order)]
        one = getattr(options, "own_ways", {}).get(way, one_round)
        print(f"round {number + 1}: {one(server, options, values, states, way, rng, tally)}", flush=True)
    return tally


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--load", type=float, default=3.0, help="most seconds before a kill")
    parser.add_argument("--wal-level", default="replica")
    parser.add_argument("--power", action="store_true",
                        help="cut the power of the cluster's disk instead (root only)")
    model.arguments(parser)
    options = parser.parse_args()
    options.prepared = True
    options.faults = options.power	# clients see I/O errors before they lose the server
    return run_all(options, f"--type {options.type} --wal-level {options.wal_level}"
                   + (" --power" if options.power else "")
                   + (" --async" if options.asynchronous else ""))


def run_all(options, more):
    """All rounds; the exit code.  more: options of the program that only it has."""
    server = Server(settings(options), options.power, make_disk=getattr(options, "make_disk", Disk))
    try:
        tally = run(server, options)
    except BaseException as error:	# also an interrupt: nothing must stay mounted
        print(error if isinstance(error, Mismatch) else traceback.format_exc())
        print(server.tail())
        print(f"FAILED; cluster kept in {server.top}; again with: {sys.argv[0]} --seed"
              f" {options.seed} --rounds {options.rounds} --clients {options.clients}"
              f" --load {options.load} {more}")
        getattr(options, "abandon", lambda _: None)(server)
        return 1
    server.remove()
    print(f"sound: seed {options.seed}, {told(tally)}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
