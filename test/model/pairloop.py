#!/usr/bin/python3
"""A primary and its standby under the load of the model test.

Each round the clients of model.py work for a moment on the primary.  Then, by
turns, nothing happens, the standby or the primary is killed and started again,
or the primary is killed and the standby takes its place, to get a new standby
from a base backup.  The standby is synchronous, so every acknowledged commit
must be there in all cases, and nothing else; and at the end of each round both
sides hold the same rows, value by value, and securefile_check() finds nothing
on either.  All columns are logging ones.

    pairloop.py --rounds 2 --seed 42

Exit code 0: sound; 1: not; the clusters' directories are then kept.
"""

import argparse
import random
import sys
import time
import traceback

import psycopg

import killloop
import model
import verify
from client import Mismatch
from server import Server
from values import Values

WAYS = ["promote", "standby", "primary", "nothing"]


def settings(options):
    load = killloop.settings(options)
    load.update({"max_wal_senders": "4", "hot_standby": "on", "wal_keep_size": "'512MB'",
                 "wal_retrieve_retry_interval": "'200ms'", "synchronous_commit": "on"})
    return load


def set_synchronous(primary, names):
    """Whether commits wait for the standby; takes hold before this returns."""
    with primary.connect() as conn:
        conn.execute(f"ALTER SYSTEM SET synchronous_standby_names = '{names}'")
        conn.execute("SELECT pg_reload_conf()")
        while conn.execute("SHOW synchronous_standby_names").fetchone()[0] != names:
            time.sleep(0.05)


def wait_for(conn, what, query, *args, seconds=180):
    end = time.time() + seconds
    while not conn.execute(query, args).fetchone()[0]:
        if time.time() > end:
            raise Mismatch(f"{what}: not within {seconds} s")
        time.sleep(0.05)


def attach(primary, options):
    """A new standby, which commits then wait for."""
    standby = Server(settings(options), follow=primary)
    standby.start()
    with primary.connect() as conn:
        wait_for(conn, "streaming", "SELECT count(*) = 1 FROM pg_stat_replication"
                 " WHERE state = 'streaming'")
    set_synchronous(primary, "*")
    return standby


def digest(conn, table):
    """All rows of a table, with the SHA-256 of each value."""
    return conn.execute(
        "SELECT id, part, note, va, vb, sha256(a::bytea), sha256(b::bytea)"
        f" FROM {table} ORDER BY id, part").fetchall()


def compare_sides(primary, standby, options):
    """Once the standby has caught up, both hold the same."""
    with primary.connect() as here, standby.connect() as there:
        lsn = here.execute("SELECT pg_current_wal_flush_lsn()").fetchone()[0]
        wait_for(there, "replay", "SELECT pg_last_wal_replay_lsn() >= %s::pg_lsn", lsn)
        for table in verify.leaves(options):
            ours, theirs = digest(here, table), digest(there, table)
            if ours != theirs:
                raise Mismatch(f"{table} differs on the standby: rows"
                               f" {[a[:2] for a, b in zip(ours, theirs) if a != b][:4]},"
                               f" {len(ours)} and {len(theirs)} rows")
        verify.check_sound(there, options)


def strike(pair, way):
    """What a round does to the two servers under load; returns the new pair."""
    primary, standby = pair
    if way == "standby":
        standby.kill_all()
        standby.start()
    elif way == "primary":
        primary.kill_all()
    elif way == "promote":
        primary.kill_all()
        standby.call("pg_ctl", "-D", standby.data, "-w", "-t", "180", "promote")
        set_synchronous(standby, "")
        primary.remove()
        return standby, None
    return pair


def one_round(pair, options, values, states, way, rng):
    """Load, strike, compare; returns the pair and a line that says what was done."""
    load = rng.uniform(0.5, options.load)
    lost = way in ("primary", "promote")
    running = model.start(pair[0].dsn, options, states, 120 if lost else load + 1)
    time.sleep(load)
    pair = strike(pair, way)
    totals = model.collect(running, states)
    if way == "primary":
        pair[0].start()
    for server in filter(None, pair):
        alarms = server.alarms()
        if alarms:
            raise Mismatch("in a server's log:\n" + "\n".join(alarms))
    with pair[0].connect() as conn:
        doubts = sum(1 for s in states if s["doubt"] is not None or s["prepared"])
        killloop.examine(conn, options, values, states, rng)
    if pair[1] is None:
        pair = (pair[0], attach(pair[0], options))
    compare_sides(*pair, options)
    return pair, f"{way}, {totals['transactions']} transactions, {doubts} in doubt"


def run(pair, options):
    rng = random.Random(f"{options.seed}:pair")
    values = Values(options.seed, options.max_size)
    pair[0].start()
    with pair[0].connect() as conn:
        verify.create(conn, options)
    pair[1] = attach(pair[0], options)
    states = [None] * options.clients
    order = list(WAYS)
    for number in range(options.rounds):
        pair[:], line = one_round(tuple(pair), options, values, states,
                                  order[number % len(order)], rng)
        print(f"round {number + 1}: {line}", flush=True)
        if number % len(order) == len(order) - 1:
            rng.shuffle(order)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--load", type=float, default=3.0, help="most seconds of load a round")
    model.arguments(parser)
    options = parser.parse_args()
    options.prepared = options.logged = True
    options.wal_level = "replica"
    pair = [Server(settings(options)), None]
    try:
        run(pair, options)
    except Exception as error:
        print(error if isinstance(error, (Mismatch, psycopg.Error)) else traceback.format_exc())
        for server in filter(None, pair):
            print(server.tail())
        print(f"FAILED; clusters kept in {[s.top for s in pair if s]}; again with:"
              f" {sys.argv[0]} --seed {options.seed} --rounds {options.rounds}"
              f" --clients {options.clients} --load {options.load}")
        return 1
    for server in pair:
        server.remove()
    print(f"sound: seed {options.seed}, {options.rounds} rounds")
    return 0


if __name__ == "__main__":
    sys.exit(main())
