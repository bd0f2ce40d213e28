#!/usr/bin/python3
"""Random test of the functions that search, compare, cut and edit values, beside bytes.

Each round makes some bytes, which lie around the borders of units and parts, and values
that have them in several forms: in rows of columns with all options, as parameters, as
edits, as lists of parts, with holes, as versions.  All functions are called with all
kinds of arguments, and must return what function_model.py says of the bytes, whatever the
form, or fail with its SQLSTATE.  What is made is also stored, in its own row and in
others.  In the end securefile_check() must be silent.

    function_twins.py --dsn "dbname=postgres" --seed 42 --cases 700

A round depends on the seed and its number only: --first begins with another one.
Exit code 0: right; 1: not; the last lines tell how to run it again.
"""

import argparse
import random
import sys
import traceback
from collections import Counter

import psycopg

import verify
from client import Mismatch, difference
from function_calls import CALLS
from function_forms import contents, forms, prepare
from function_handles import handle_round
from function_model import Choice, Refused


class Run:
    """A session, what it has tried, and the round that it is in."""

    def __init__(self, options):
        self.conn = psycopg.connect(options.dsn, autocommit=True)
        self.directory, self.verbose = options.directory, options.verbose
        self.only = set(options.only.split(",")) if options.only else None
        self.counts, self.kinds = Counter(), Counter()
        self.last = ""
        self.tables = prepare(self.conn)

    def begin(self, rng):
        """The settings of a round."""
        self.rng = rng
        self.conn.execute(f"SET securefile.write_gather_size = '{rng.choice(['64kB', '256kB', '4MB'])}'")
        self.conn.execute(f"SET securefile.io_method = {rng.choice(['sync', 'libaio', 'io_uring'])}")
        forced = rng.random() < 0.2
        for setting in verify.parallel_settings(self.conn):
            self.conn.execute(f"SET {setting}" if forced else f"RESET {setting.split()[0]}")

    def wanted(self, name):
        return self.only is None or name in self.only

    def ask(self, sql, params):
        """Rows of a statement, or its error."""
        self.last = sql
        if self.verbose:
            print(sql, [p if not isinstance(p, bytes) else f"{len(p)} bytes" for p in params or []])
        cursor = self.conn.cursor(binary=True)
        try:
            cursor.execute(sql, params)
            return cursor.fetchall()
        except psycopg.Error as error:
            if error.sqlstate is None:
                raise
            self.error = error
            return Refused(error.sqlstate)

    def expect(self, name, want, got, what):
        """One case: a result, or an error, is the one that it must be.  Where several may
        be, want is a list of them."""
        self.counts[name] += 1
        choices = want if isinstance(want, Choice) else [want]
        if not any(same(choice, got) for choice in choices):
            raise Mismatch(f"{name}: {what}\n    {described(choices[0], got)}"
                           + (f"\n    {self.error}" if isinstance(got, Refused) else ""))

    def scalar(self, name, want, sql, params, what):
        """One case: the only column of the only row of a query."""
        rows = self.ask(f"SELECT {sql}", params)
        self.expect(name, want, rows if isinstance(rows, Refused) else rows[0][0], what)

    def column(self, name, want, sql, params, what):
        """One case: the only column of all rows of a query."""
        rows = self.ask(sql, params)
        self.expect(name, want, rows if isinstance(rows, Refused) else [row[0] for row in rows], what)

    def value(self, name, want, sql, params, what):
        """One case: the bytes of a value, and its length."""
        rows = self.ask(f"SELECT length(x), x::bytea FROM (SELECT {sql} OFFSET 0) s (x)", params)
        if isinstance(rows, Refused):
            self.expect(name, want, rows, what)
            return
        length, got = rows[0]
        self.expect(name, want, got, what)
        if length != (None if got is None else len(got)):
            raise Mismatch(f"{name}: {what}\n    length {length} of {len(got)} bytes")


def same(want, got):
    if isinstance(want, Refused) or isinstance(got, Refused):
        return isinstance(want, Refused) and isinstance(got, Refused) and got.states[0] in want.states
    return want == got


def described(want, got):
    """What differs, in a line."""
    if isinstance(want, bytes) and isinstance(got, bytes):
        return difference(want, got)
    if isinstance(want, list) and isinstance(got, list):
        at = next((i for i, (a, b) in enumerate(zip(want, got)) if a != b), min(len(want), len(got)))
        return (f"expected {len(want)} rows, got {len(got)}; row {at}: expected {str(want[at:at + 1])[:200]},"
                f" got {str(got[at:at + 1])[:200]}")
    return f"expected {short(want)}, got {short(got)}"


def short(value):
    return f"{len(value)} bytes" if isinstance(value, bytes) else str(value)[:200]


def round_of(run, seed, number):
    """One round: some bytes, some forms of them, some calls with each."""
    rng = random.Random(f"{seed}:{number}")
    run.begin(rng)
    text, word = contents(rng)
    calls = [(weight, name, call) for weight, name, call in CALLS if run.wanted(name)]
    for form in forms(rng, run.conn, run.tables, text, 4):
        run.kinds[form.name.split()[0]] += 1
        for _ in range(8 if calls else 0):
            _, _, call = rng.choices(calls, [weight for weight, _, _ in calls])[0]
            call(run, rng, form, word)
    if number % 3 == 0:
        handle_round(run, rng, text, word)


def look(run):
    """What lies in the tables is sound, and nothing else lies there."""
    for table in run.tables:
        if table == "temporary":
            continue
        found = run.conn.execute("SELECT * FROM securefile_check(%s::regclass, 'doc')", [f"lob.{table}"]).fetchall()
        if found:
            raise Mismatch(f"lob.{table}: {found[:3]}")
        run.conn.execute(f"TRUNCATE lob.{table}")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--dsn", default="", help="connection string")
    parser.add_argument("--cases", type=int, default=700)
    parser.add_argument("--seed", type=int, default=random.SystemRandom().randrange(10**9))
    parser.add_argument("--first", type=int, default=0, help="number of the first round")
    parser.add_argument("--only", help="names of functions, with commas between them")
    parser.add_argument("--verbose", action="store_true", help="tell each statement")
    parser.add_argument("--directory", help="where files of the server may lie; else none are made")
    options = parser.parse_args()
    number = options.first
    try:
        run = Run(options)
        while sum(run.counts.values()) < options.cases:
            round_of(run, options.seed, number)
            number += 1
            if number % 40 == 0:
                look(run)
        look(run)
    except Exception as error:
        print(f"last statement: {run.last[:2000]}")
        print(error if isinstance(error, Mismatch) else traceback.format_exc())
        print(f"FAILED in round {number}; again with: {sys.argv[0]} --dsn '{options.dsn}' --seed {options.seed}"
              f" --first {number} --cases 1" + (f" --directory '{options.directory}'" if options.directory else ""))
        return 1
    print("forms: " + ", ".join(f"{name} {n}" for name, n in sorted(run.kinds.items())))
    print(f"right: seed {options.seed}, {number} rounds, {sum(run.counts.values())} cases: "
          + ", ".join(f"{name} {n}" for name, n in sorted(run.counts.items())))
    return 0


if __name__ == "__main__":
    sys.exit(main())
