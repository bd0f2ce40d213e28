#!/usr/bin/python3
"""Randomised test of handles: reads, writes, seeks and truncates against a model.

One session works through several handles at once on rows of several columns,
with savepoints, rollbacks, prepared transactions and plain statements between;
a second one changes and maintains meanwhile, a third one keeps an old snapshot
and a handle in it.  Columns begin with a compression by lot, and get another one
now and then.  Every byte read, every position and every row is compared with a
model; what handles must be closed by a rollback is, and no other.  After each
transaction securefile_check() must be silent; in the end live bytes are those of
the values, and none once the rows are gone.

    handles.py --dsn "dbname=postgres" --seed 42 --rounds 60

With --kill N it makes a cluster of its own, and kills it N times at some moment
within those rounds: what was committed must be there, and nothing else.

Exit code 0: sound; 1: not; the last lines tell the seed and how to run it again.
"""

import argparse
import multiprocessing
import random
import sys
import time
import traceback

import psycopg

import handle_rows
import kept
from client import Lost, Mismatch
from handle_operations import OPERATIONS
from handle_session import Session, Snapshot
from server import Server, roll_back_prepared
from sparse import compare_with_file

SETTINGS = {"fsync": "on", "max_prepared_transactions": "20", "max_wal_senders": "0",
            "checkpoint_timeout": "30s", "max_wal_size": "'256MB'",
            "log_min_messages": "warning", "log_min_error_statement": "panic",
            "shared_preload_libraries": "'securefile'", "securefile.monitor_naptime": "'1s'"}


class Run:
    """All rounds against a server, or as many as it lives."""

    def __init__(self, dsn, options, committed):
        self.rng = random.Random(f"{options.seed}:{options.done}")
        self.options = options
        self.dsn = dsn
        self.session = Session(dsn, self.rng, committed, options.kept)
        self.old = None
        self.verified = dict(committed)

    def rounds(self):
        """Rounds until all are done; Lost when the server goes away."""
        while self.options.done < self.options.rounds:
            self.session.trail = [f"round {self.options.done}"]
            try:
                self.round()
            except Exception as error:
                if isinstance(error, Lost) and self.options.kill:
                    raise
                raise Mismatch(self.report(error)) from error
            self.options.done += 1

    def report(self, error):
        steps = "\n    ".join(self.session.trail)
        kind = "" if isinstance(error, Mismatch) else traceback.format_exc()
        return f"{type(error).__name__}: {error}\n  steps of this round:\n    {steps}\n{kind}"

    def round(self):
        """One transaction, with what others do meanwhile, and a look at all of it."""
        self.turn_of_snapshot()
        session = self.session
        session.begin()
        for _ in range(self.rng.choice([2, 5, 10, 20, 40])):
            operation = self.rng.choices([op for op, _ in OPERATIONS],
                                         [weight for _, weight in OPERATIONS])[0]
            operation(session)
            session.operations += 1
            if self.old and self.rng.random() < 0.1:
                self.old.look(self.rng)
        session.end()
        session.handles_are_closed()
        self.verify()

    def turn_of_snapshot(self):
        """An old snapshot stays for some rounds, then comes a new one."""
        if self.old:
            self.old.look(self.rng)
            if self.rng.random() < 0.2:
                self.old.close()
                self.old = None
                handle_rows.change_options(self.session)
        elif self.rng.random() < 0.5:
            self.old = Snapshot(self.dsn, self.session.committed, self.rng)

    def verify(self):
        """Rows that have changed since the last look, and their columns."""
        committed = self.session.committed
        changed = [key for key in sorted(set(committed) | set(self.verified))
                   if committed.get(key) is not self.verified.get(key)]
        for key in changed:
            handle_rows.compare_row(self.session, key, committed.get(key), self.rng)
        handle_rows.compare_keys(self.session, committed)
        for table in sorted({table for table, _ in changed}):
            handle_rows.check(self.session, table)
        if self.rng.random() < 0.3:
            handle_rows.look_at_kept(self.session, self.session.kept)
        elif self.rng.random() < 0.05:
            handle_rows.end_kept(self.session)
        self.verified = dict(committed)

    def close(self):
        if self.old:
            self.old.close()
            self.old = None


def finish(run):
    """All rows once more, all space; then no rows, and no space."""
    run.close()
    session = run.session
    for key, row in sorted(session.committed.items()):
        handle_rows.compare_row(session, key, row, run.rng)
    handle_rows.compare_keys(session, session.committed)
    handle_rows.compare_space(session, session.committed)
    for table in handle_rows.LEAVES:
        session.sql(f"DELETE FROM {table}")
    handle_rows.compare_space(session, {})


def run_against(dsn, options):
    """All rounds against a server that stays."""
    run = Run(dsn, options, {})
    handle_rows.create(run.session)
    run.rounds()
    finish(run)
    return run.session.operations


def killer(server, seconds):
    time.sleep(seconds)
    server.kill_all()


def one_life(server, options, states, seconds):
    """Rounds until the server is killed, if it is; the states it may be in then."""
    run = Run(server.dsn, options, states[0])
    process = seconds and multiprocessing.Process(target=killer, args=(server, seconds))
    if process:
        process.start()
    try:
        run.rounds()
        if not process:
            finish(run)
        return [run.session.committed], run.session.operations
    except Lost:
        return [run.session.committed, *run.session.doubt], run.session.operations
    finally:
        if process:
            process.join()


def survivors(server, options, states, rng):
    """Which of the states a restarted server is in."""
    session = Session(server.dsn, rng, {}, options.kept)
    roll_back_prepared(session.conn)
    failures = []
    for state in states:
        try:
            session.committed = state
            handle_rows.compare_keys(session, state)
            for key, row in sorted(state.items()):
                handle_rows.compare_row(session, key, row, rng)
            break
        except Mismatch as error:
            failures.append(str(error))
    else:
        raise Mismatch("none of the states that may be:\n  " + "\n  ".join(failures))
    for table in handle_rows.LEAVES:
        handle_rows.check(session, table)
    kept.end_windows_of_the_dead(session.conn, options.kept)
    if options.kept and rng.random() < 0.5:
        handle_rows.look_at_kept(session, options.kept, 1)
    else:
        handle_rows.compare_space(session, state)
    handle_rows.bring_retention_back(session)
    session.conn.close()
    return [state]


def run_killed(server, options):
    """Lives of a server that is killed; the last one is not."""
    rng = random.Random(f"{options.seed}:kill")
    server.start()
    handle_rows.create(Session(server.dsn, rng, {}, options.kept))
    states, operations = [{}], 0
    for number in range(options.kill):
        options.rounds = options.done + 1_000_000
        states, more = one_life(server, options, states, rng.uniform(0.3, 6))
        operations += more
        server.start()
        states = survivors(server, options, states, rng)
        alarms = server.alarms()
        if alarms:
            raise Mismatch("in the server's log:\n" + "\n".join(alarms))
        print(f"kill {number + 1}: after {options.done} rounds, {len(states[0])} rows", flush=True)
        options.done += 1
    options.rounds = options.done + 3
    return operations + one_life(server, options, states, None)[1]


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--dsn", default="", help="connection string")
    parser.add_argument("--rounds", type=int, default=60)
    parser.add_argument("--seed", type=int, default=random.SystemRandom().randrange(10**9))
    parser.add_argument("--kill", type=int, default=0, metavar="N")
    options = parser.parse_args()
    options.done = 0
    options.kept = kept.draw(options.seed, [(table, x) for table in handle_rows.LEAVES for x in handle_rows.COLUMNS])
    again = f"{sys.argv[0]} --seed {options.seed} --rounds {options.rounds}" + (
        f" --kill {options.kill}" if options.kill else f" --dsn '{options.dsn}'")
    server = Server(SETTINGS) if options.kill else None
    try:
        compare_with_file(options.seed)
        operations = (run_killed(server, options) if server
                      else run_against(options.dsn, options))
    except (Exception, psycopg.Error) as error:
        print(error if isinstance(error, (Mismatch, Lost)) else traceback.format_exc())
        if server:
            print(f"{server.tail()}\ncluster kept in {server.top}")
        print(f"FAILED; again with: {again}")
        return 1
    if server:
        server.remove()
    print(f"sound: seed {options.seed}, {options.done} rounds, {operations} operations")
    return 0


if __name__ == "__main__":
    sys.exit(main())
