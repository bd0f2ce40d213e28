#!/usr/bin/python3
"""Randomised model test of securefile columns.

Clients run random transactions against a shared, partitioned table and tables
of their own, each beside a model of what its rows must hold.  Readers keep old
snapshots over many updates, a janitor maintains, checks and vacuums meanwhile.
Columns begin with a compression by lot, and get another one now and then.  At
the end every row is compared, securefile_check() must be silent, nothing may
be pending, and the live bytes must be those of the values.

    model.py --dsn "dbname=postgres" --seed 42 --seconds 10 --clients 3

Exit code 0: sound; 1: not; the last lines tell the seed and how to run it again.
--type=bytea runs the same against bytea columns: a check of the model itself.
"""

import argparse
import multiprocessing
import random
import sys
import time
import traceback

import psycopg

import kept
import option_words
import verify
from client import Client, Lost, Mismatch, is_expected, is_lost
from operations import OPERATIONS
from values import Values


def arguments(parser):
    """Options that the kill loop shares."""
    parser.add_argument("--seed", type=int, default=random.SystemRandom().randrange(10**9))
    parser.add_argument("--clients", type=int, default=3)
    parser.add_argument("--readers", type=int, default=1)
    parser.add_argument("--keys", type=int, default=16, help="row ids a client has, a table")
    parser.add_argument("--max-size", type=int, default=14 * 1024 * 1024)
    parser.add_argument("--faults", action="store_true",
                        help="make I/O and points of a commit fail (a build with fault points)")
    parser.add_argument("--async", action="store_true", dest="asynchronous",
                        help="commits do not wait for their WAL")
    parser.add_argument("--type", choices=["securefile", "bytea"], default="securefile")


def client_process(dsn, number, options, state, end, pipe):
    """One client until the end, or until the server goes away."""
    client = None
    try:
        client = Client(dsn, number, options, Values(options.seed, options.max_size),
                        OPERATIONS + getattr(options, "operations", []), state)
        client.run(lambda: time.time() > end)
        pipe.send(("done", client.state(), client.counts))
    except (Lost, psycopg.OperationalError) as error:
        if client is None or isinstance(error, Lost):
            pipe.send(("lost", client.state() if client else state, client and client.counts))
        else:
            pipe.send(("failed", traceback.format_exc(), None))
    except Exception as error:
        text = str(error) if isinstance(error, Mismatch) else traceback.format_exc()
        pipe.send(("failed", text, None))


def side_process(work, dsn, number, options, end, pipe):
    """A reader or the janitor; a server that goes away is not its business."""
    conn = None
    compared = options.compared = {"values": 0}		# in this process
    try:
        conn = psycopg.connect(dsn, autocommit=True)
        rng = random.Random(f"{options.seed}:{work.__name__}:{number}:{end}")
        while time.time() < end:
            try:
                work(conn, options, rng, end)
            except psycopg.Error as error:
                if is_lost(error, conn) or not is_expected(error, options):
                    raise
                conn.rollback()
        pipe.send(("done", None, compared))
    except Exception as error:
        if isinstance(error, psycopg.Error) and (conn is None or is_lost(error, conn)):
            pipe.send(("lost", None, compared))
        else:
            pipe.send(("failed", f"{work.__name__}: {traceback.format_exc()}", None))


def hold_snapshot(conn, options, rng, end):
    """One old snapshot: what it saw first must stay, to the byte."""
    values = Values(options.seed, options.max_size)
    conn.execute("BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY")
    rows = conn.execute("SELECT id, part, va, vb FROM model_shared").fetchall()
    until = min(end, time.time() + rng.choice([0.3, 1, 3, 8]))
    while rows and time.time() < until:
        key, part, va, vb = rng.choice(rows)
        x, vid = rng.choice([("a", va), ("b", vb)])
        got = conn.cursor(binary=True).execute(
            f"SELECT v{x}, {x}::bytea FROM model_shared WHERE id = %s AND part = %s",
            (key, part)).fetchall()
        if len(got) != 1 or got[0][0] != vid:
            raise Mismatch(f"snapshot of {key}.{x}: expected value {vid}, found {got}")
        if (None if got[0][1] is None else bytes(got[0][1])) != values.data(vid):
            raise Mismatch(f"snapshot of {key}.{x}: value {vid} differs")
        options.compared["values"] += 1
        time.sleep(0.01)
    conn.execute("COMMIT")


def is_of_lost_disk(error, options):
    """Does a release or a checkpoint fail since the disk is gone?  The server will be, too."""
    if isinstance(error, psycopg.errors.ObjectNotInPrerequisiteState):
        return options.faults	# the proof of a release meets faults as findings
    return options.faults and isinstance(error, psycopg.errors.InternalError_) \
        and "checkpoint request failed" in str(error)


def away_and_back(conn, options, rng, table, column):
    """A column is without its retention for a while.  Who waits for locks waits for a client only."""
    window = kept.begin_window(conn, table, column, purge=False)
    windows = [kept.begin_window(conn, leaf, column, purge=False) for leaf in verify.leaves(options)
               if verify.root(leaf) == table and leaf != table]
    for keeps in (False, True):
        for attempt in range(1000):
            kind = verify.column_type(options, table, column, option_words.some_words(rng), keeps)
            try:
                conn.execute(f"ALTER TABLE {table} ALTER {column} TYPE {kind}")
                break
            except (psycopg.errors.LockNotAvailable, psycopg.errors.DeadlockDetected):
                if not keeps and attempt > 3:
                    break
        time.sleep(rng.choice([0, 0, 0.1, 0.5]))
    for one in [window, *windows]:
        kept.end_window(conn, one)


def see_to_kept(conn, options, rng, _end):
    """What is removed is listed, ended, and not kept for a while."""
    time.sleep(rng.uniform(0.1, 0.8))
    table, column = rng.choice(list(verify.kept_columns(options)))
    work = rng.choice(["look"] * 10 + ["purge", "older", "away"])
    conn.execute("SET lock_timeout = '500ms'; SET deadlock_timeout = '100ms'")
    try:
        if work == "look":
            values = Values(options.seed, options.max_size)
            options.compared["values"] += kept.look(
                conn, table, column, tight=options.tight, truth=lambda vid: values.sha256(int(vid)),
                share=rng.choice([0, 0.1, 0.5]))
        elif work == "away":
            away_and_back(conn, options, rng, verify.root(table), column)
        else:
            kept.purge(conn, table, column, "0" if work == "purge" else rng.choice(["1 second", "4 seconds"]))
    except (psycopg.errors.LockNotAvailable, psycopg.errors.DeadlockDetected):
        pass


def tidy(conn, options, rng, _end):
    """What monitors, operators and vacuum do while clients work."""
    time.sleep(rng.uniform(0.05, 0.4))
    table, column = rng.choice(verify.leaves(options)), rng.choice("ab")
    work = rng.choice(["maintain"] * 6 + ["usage"] * 3 + ["vacuum"] * 3
                      + ["check", "release", "release", "full", "checkpoint", "options", "train"])
    if options.type == "bytea" and work in ("maintain", "usage", "check", "release", "options",
                                            "train"):
        return
    if options.faults and (work == "check" or
                           work == "release" and not getattr(options, "power", False)):
        return					# it would report the faults
    # whatever two wait for, the clients get it
    conn.execute("SET lock_timeout = '500ms'; SET deadlock_timeout = '100ms'")
    try:
        if work == "maintain":
            conn.execute(f"SELECT securefile_maintain('{table}', '{column}')")
        elif work == "usage":
            conn.execute(f"SELECT * FROM securefile_usage('{table}', '{column}')")
        elif work == "check":
            found = conn.execute(f"SELECT * FROM securefile_check('{table}', '{column}')"
                                 ).fetchall()
            if found:
                raise Mismatch(f"securefile_check('{table}', '{column}') during work: {found}")
        elif work == "release":
            conn.execute(f"CALL securefile_shrink('{table}', '{column}')")
        elif work == "checkpoint":
            conn.execute("CHECKPOINT")
        elif work == "options":
            kind = verify.column_type(options, "model_shared", column, option_words.some_words(rng))
            conn.execute(f"ALTER TABLE model_shared ALTER {column} TYPE {kind}")
        elif work == "train":
            part = verify.LOAD_TABLES.index(table) if table in verify.LOAD_TABLES else 0
            option_words.train(conn.execute, table, column, "id, part", f"-n, {part}")
        else:
            conn.execute(f"VACUUM {'(FULL)' if work == 'full' else ''} {table}")
    except (psycopg.errors.LockNotAvailable, psycopg.errors.DeadlockDetected,
            psycopg.errors.ObjectInUse):
        pass
    except (psycopg.errors.ObjectNotInPrerequisiteState, psycopg.errors.InternalError_) as error:
        if not is_of_lost_disk(error, options):
            raise


# Points that may fail: everywhere but where a transaction has ended already
FAULTS = {
    "encode": ["error"], "decode": ["error"], "io_open": ["error"],
    "io_write": ["error", "enospc", "short"],
    "io_read": ["error", "short"], "io_extend": ["error", "enospc"],
    "io_promise": ["error", "enospc", "enotsup"], "io_truncate": ["error"],
    "flush_before_write": ["error"], "commit_before_flush": ["error"],
    "commit_data_in_flight": ["error"], "commit_after_data": ["error"],
    "data_written": ["error"], "data_noted": ["error"], "data_logged": ["error"],
    "commit_after_alloc": ["error"], "resolve_before": ["error"], "resolve_after": ["error"],
    "grow_after_zero": ["error"], "grow_after_record": ["error"],
    "truncate_before_file": ["error"], "create_after_record": ["error"], "grow_before_files": ["error"],
}


def sabotage(conn, _options, rng, end):
    """Arm one fault point after the other."""
    point = rng.choice(sorted(FAULTS))
    conn.execute("SELECT securefile_fault(%s, %s, skip => %s, times => %s)",
                 (point, rng.choice(FAULTS[point]), rng.choice([0, 0, 1, 3, 10]),
                  rng.choice([1, 1, 2, 5])))
    time.sleep(rng.uniform(0.02, 0.3))
    if time.time() > end - 0.5 or rng.random() < 0.3:
        conn.execute("SELECT securefile_fault_reset()")


def start(dsn, options, states, seconds):
    """Start all processes of a round; returns [(name, process, pipe)]."""
    end = time.time() + seconds
    running = []

    def launch(name, target, *args):
        ours, theirs = multiprocessing.Pipe(duplex=False)
        process = multiprocessing.Process(target=target, args=args + (end, theirs))
        process.start()
        theirs.close()
        running.append((name, process, ours))

    for number in range(options.clients):
        launch(number, client_process, dsn, number, options, states[number])
    for number in range(options.readers):
        launch("reader", side_process, hold_snapshot, dsn, number, options)
    for work in [tidy, *[see_to_kept] * bool(options.kept), *getattr(options, "sides", [])]:
        launch(work.__name__, side_process, work, dsn, 0, options)
    if options.faults and not getattr(options, "power", False):
        launch("saboteur", side_process, sabotage, dsn, 0, options)
    return running


def collect(running, states):
    """Wait for all processes; new states into states.  Mismatch on failure."""
    totals = {"transactions": 0, "operations": 0, "values": 0, "faults": 0}
    failures = []
    for name, process, pipe in running:
        try:
            how, result, counts = pipe.recv()
        except EOFError:
            how, result, counts = "failed", f"process {name} died", None
        process.join()
        if how == "failed":
            failures.append(result)
        elif isinstance(name, int):
            states[name] = result
        for key in counts or ():
            totals[key] += counts[key]
    if failures:
        raise Mismatch("\n".join(failures))
    return totals


def can_prepare(conn):
    return int(conn.execute("SHOW max_prepared_transactions").fetchone()[0]) > 0


def run(dsn, options):
    conn = psycopg.connect(dsn, autocommit=True)
    options.prepared = can_prepare(conn)
    values = Values(options.seed, options.max_size)
    verify.create(conn, options)
    states = [None] * options.clients
    totals = collect(start(dsn, options, states, options.seconds), states)
    if options.faults:
        conn.execute("SELECT securefile_fault_reset()")
    for number, state in enumerate(states):
        if state["doubt"] is not None or state["prepared"]:
            raise Mismatch(f"client {number} lost its server")
        got = verify.client_rows(conn, number, values, options)
        verify.compare(number, got, [state["rows"]])
    verify.check_sound(conn, options)
    kept.end_windows_of_the_dead(conn, options.kept)
    totals["values kept"] = verify.check_kept(conn, options, values)
    verify.end_kept(conn, options, random.Random(f"{options.seed}:end"))
    verify.check_space(conn, options, values, states)
    return totals


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--dsn", default="", help="connection string")
    parser.add_argument("--seconds", type=float, default=10)
    arguments(parser)
    options = parser.parse_args()
    try:
        totals = run(options.dsn, options)
    except Exception as error:
        print(error if isinstance(error, Mismatch) else traceback.format_exc())
        print(f"FAILED; again with: {sys.argv[0]} --dsn '{options.dsn}' --seed {options.seed}"
              f" --seconds {options.seconds} --clients {options.clients}"
              f" --readers {options.readers} --keys {options.keys}"
              f" --max-size {options.max_size} --type {options.type}"
              + (" --faults" if options.faults else ""))
        return 1
    print(f"sound: seed {options.seed}, " + ", ".join(f"{n} {k}" for k, n in totals.items()))
    return 0


if __name__ == "__main__":
    sys.exit(main())
