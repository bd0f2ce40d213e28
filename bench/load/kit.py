#!/usr/bin/python3
"""Loads a table with contents that a seed makes, works on it, and verifies every byte of it.

    kit.py describe [options]               what the options make, without a server
    kit.py load     [options] CONNINFO      makes the table and loads it
    kit.py mix      [--seconds N] CONNINFO  reads, inserts, replaces and deletes, then verifies
    kit.py verify   [--seed N] CONNINFO     reads all, and compares it with what it has to be

README.md beside this file says more.  Exit status: 0; 1 if something is not what it has to
be; 2 if the arguments are wrong or the server cannot be used.
"""

import argparse
import collections
import json
import multiprocessing
import random
import sys
import time

import psycopg
from psycopg import sql

from arguments import duration, positive, share
from contents import MB, PRESETS, Contents, sentences

# Of 100 operations of a mix.
WEIGHTS = {"read": 50, "insert": 20, "replace": 20, "delete": 10}
# Rows of a transaction in a load.
BATCH = 20


class Plan:
    """What makes the contents.  Lies beside the table as the comment on it."""

    NAMES = ["seed", "objects", "sizes", "kinds", "duplicates", "sessions"]

    def __init__(self, values):
        for name in self.NAMES:
            setattr(self, name, values[name])
        self.contents = Contents(self.seed, self.sizes, self.kinds, self.duplicates)

    def __str__(self):
        return json.dumps({name: getattr(self, name) for name in self.NAMES})


class Model:
    """What a session has done to its objects, from the seed and the number of operations.

    Objects of session s have the numbers s, s + sessions, and so on.  The first operations
    are the load; then come those that a lot draws.
    """

    def __init__(self, plan, session):
        self.plan, self.session = plan, session
        self.lot = random.Random(f"{plan.seed}:session {session}")
        self.next = session
        self.numbers, self.versions = [], {}
        self.operations = 0

    def insert(self):
        number, self.next = self.next, self.next + self.plan.sessions
        self.numbers.append(number)
        self.versions[number] = 0
        return "insert", number, 0

    def draw(self):
        """The next operation of the mix, which is counted as done."""
        self.operations += 1
        word = self.lot.choices(list(WEIGHTS), weights=list(WEIGHTS.values()))[0]
        if word == "insert" or not self.numbers:
            return self.insert()
        if word == "read":
            return "read", self.lot.randrange(self.plan.objects), None
        at = self.lot.randrange(len(self.numbers))
        number = self.numbers[at]
        if word == "replace":
            self.versions[number] += 1
            return word, number, self.versions[number]
        self.numbers[at] = self.numbers[-1]
        self.numbers.pop()
        del self.versions[number]
        return word, number, None

    def replay(self, loaded, operations):
        for _ in range(loaded):
            self.insert()
        for _ in range(operations):
            self.draw()
        return self


# ---- a session ----

class Session:
    """A connection that knows the table, and counts what it does.

    Table <name>_done has, for each session, how many objects it has loaded, and how far the
    last operation was that changed something, written in the transactions that do them.  So
    the model knows what has to be there, whatever becomes of program and server.
    """

    def __init__(self, options, plan, number):
        self.plan, self.number, self.options = plan, number, options
        self.conn = connect(options, autocommit=True)
        self.table = sql.Identifier(*options.table.split("."))
        self.done = done_table(options)
        self.counts = collections.Counter()
        self.problems = []

    def run(self, query, *arguments, **more):
        named = sql.SQL(query).format(table=self.table, done=self.done)
        return self.conn.execute(named, arguments, **more)

    def count(self, word, content=b""):
        self.counts[word] += 1
        self.counts["bytes"] += len(content)

    def done_so_far(self):
        row = self.run("SELECT loaded, operations FROM {done} WHERE session = %s",
                       self.number).fetchone()
        if row is None:
            raise ValueError(f"table {self.options.table}_done has no row of session {self.number}")
        return row

    def load(self):
        numbers = list(range(self.number, self.plan.objects, self.plan.sessions))
        for first in range(0, len(numbers), BATCH):
            batch = numbers[first:first + BATCH]
            with self.conn.transaction():
                (self.copy if self.options.copy else self.insert_all)(batch)
                self.run("UPDATE {done} SET loaded = %s WHERE session = %s",
                         first + len(batch), self.number)

    def insert_all(self, numbers):
        for number in numbers:
            self.insert(number, 0)

    def copy(self, numbers):
        with self.conn.cursor() as cursor, cursor.copy(sql.SQL(
                "COPY {} FROM STDIN (FORMAT binary)").format(self.table)) as copy:
            copy.set_types(["int8", "int4", "bytea"])
            for number in numbers:
                content = self.plan.contents(number, 0)
                copy.write_row((number, 0, content))
                self.count("insert", content)

    def insert(self, number, version):
        content = self.plan.contents(number, version)
        self.run("INSERT INTO {table} VALUES (%s, %s, %b)", number, version, content)
        self.count("insert", content)

    def replace(self, number, version):
        content = self.plan.contents(number, version)
        self.run("UPDATE {table} SET version = %s, document = %b WHERE id = %s",
                 version, content, number)
        self.count("replace", content)

    def delete(self, number, _):
        self.run("DELETE FROM {table} WHERE id = %s", number)
        self.count("delete")

    def read(self, number):
        """Any session's: of the version that the row says it is, if it is there."""
        found = self.fetch(number)
        if found is not None:
            self.compare(number, found[0], found[1])

    def fetch(self, number):
        return self.run("SELECT version, document FROM {table} WHERE id = %s", number,
                        binary=True).fetchone()

    def mix(self):
        loaded, committed = self.done_so_far()
        model = Model(self.plan, self.number).replay(loaded, committed)
        end = time.monotonic() + self.options.seconds
        while time.monotonic() < end:
            word, number, version = model.draw()
            if word == "read":
                self.read(number)
                continue
            with self.conn.transaction():
                getattr(self, word)(number, version)
                self.run("UPDATE {done} SET operations = %s WHERE session = %s",
                         model.operations, self.number)
            committed = model.operations
        if self.done_so_far()[1] != committed:
            self.problems.append(f"session {self.number}: a commit is lost")

    def compare(self, number, version, document):
        wanted = self.plan.contents(number, version)
        self.count("read", document or b"")
        if document is None:
            self.problems.append(f"id {number}: NULL")
        elif document != wanted:
            at = next((i for i, (a, b) in enumerate(zip(document, wanted)) if a != b),
                      min(len(document), len(wanted)))
            self.problems.append(f"id {number}, version {version}: differs from byte {at} on"
                                 f" ({len(document)} bytes, {len(wanted)} wanted)")

    def verify(self):
        wanted = Model(self.plan, self.number).replay(*self.done_so_far()).versions
        found = dict(self.run("SELECT id, version FROM {table} WHERE mod(id, %s) = %s",
                              self.plan.sessions, self.number).fetchall())
        for number in sorted(wanted.keys() | found.keys()):
            if number not in found:
                self.problems.append(f"id {number}: missing")
            elif number not in wanted:
                self.problems.append(f"id {number}: should not be there")
            elif found[number] != wanted[number]:
                self.problems.append(f"id {number}: version {found[number]},"
                                     f" {wanted[number]} wanted")
            else:
                self.verify_one(number, wanted[number])

    def verify_one(self, number, version):
        try:
            _, document = self.fetch(number)
        except psycopg.Error as error:
            if self.conn.broken:
                raise
            self.problems.append(f"id {number}: {error}")
        else:
            self.compare(number, version, document)


# ---- all sessions ----

def work(arguments):
    options, values, number, word = arguments
    session = Session(options, Plan(values), number)
    getattr(session, word)()
    session.conn.close()
    return session.counts, session.problems


def in_sessions(options, plan, word):
    """Each session is a process; prints what they did, and returns what is wrong."""
    values = vars(plan)
    sentences()		# once, before there are processes
    begun = time.monotonic()
    given = [(options, {name: values[name] for name in Plan.NAMES}, number, word)
             for number in range(plan.sessions)]
    with multiprocessing.Pool(plan.sessions) as pool:
        results = pool.map(work, given, chunksize=1)
    taken = time.monotonic() - begun
    counts = sum((one for one, _ in results), collections.Counter())
    total = counts.pop("bytes", 0) / MB
    did = ", ".join(f"{count} {what}" for what, count in sorted(counts.items()))
    print(f"{word}: {did or 'nothing'}; {total:.1f} MB in {taken:.1f} s,"
          f" {total / taken:.1f} MB/s", flush=True)
    return [problem for _, problems in results for problem in problems]


def connect(options, **more):
    return psycopg.connect(options.conninfo, client_encoding="utf8", **more)


def done_table(options):
    *schema, table = options.table.split(".")
    return sql.Identifier(*schema, f"{table}_done")


def plan_of_table(options):
    with connect(options) as conn:
        comment = conn.execute("SELECT obj_description(%s::regclass, 'pg_class')",
                               [options.table]).fetchone()[0]
    if not (comment or "").startswith('{"seed": '):
        raise ValueError(f"table {options.table} was not made by kit.py load")
    return json.loads(comment)


# ---- commands ----

def describe(options, plan):
    count = min(plan.objects, 1000)
    lengths = sorted(len(plan.contents(number, 0)) for number in range(count))
    print(f"{plan}\nof the first {count} objects: {sum(lengths) / MB:.1f} MB; bytes: least"
          f" {lengths[0]}, median {lengths[count // 2]}, most {lengths[-1]}")
    return []


def load(options, plan):
    table, done = sql.Identifier(*options.table.split(".")), done_table(options)
    with connect(options) as conn:
        if options.type.startswith("securefile"):
            conn.execute("CREATE EXTENSION IF NOT EXISTS securefile")
        conn.execute(sql.SQL("CREATE TABLE {} (id bigint PRIMARY KEY,"
                             " version integer NOT NULL, document {})")
                     .format(table, sql.SQL(options.type)))
        conn.execute(sql.SQL("COMMENT ON TABLE {} IS {}").format(table, str(plan)))
        conn.execute(sql.SQL("CREATE TABLE {} (session integer PRIMARY KEY,"
                             " loaded bigint DEFAULT 0, operations bigint DEFAULT 0)")
                     .format(done))
        conn.execute(sql.SQL("INSERT INTO {} SELECT generate_series(0, %s)").format(done),
                     [plan.sessions - 1])
    return in_sessions(options, plan, "load")


def mix(options, plan):
    return in_sessions(options, plan, "mix") + in_sessions(options, plan, "verify")


def verify(options, plan):
    return in_sessions(options, plan, "verify")


def parse():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    commands = parser.add_subparsers(dest="command", required=True)
    for function in (describe, load, mix, verify):
        one = commands.add_parser(function.__name__)
        one.set_defaults(function=function)
        one.add_argument("--seed", type=int)
        if function in (describe, load):
            one.set_defaults(seed=1)
            one.add_argument("--objects", type=positive, default=1000)
            one.add_argument("--sizes", default="document", help="fixed:1MB, uniform:10KB:1MB,"
                             f" lognormal:MEDIAN:SIGMA, or {', '.join(PRESETS)}")
            one.add_argument("--kinds", default="text=50,json=30,random=15,zeros=5")
            one.add_argument("--duplicates", type=share, default=0, help="their share, 0 to 1")
            one.add_argument("--sessions", type=positive, default=1)
        if function is not describe:
            one.add_argument("--table", default="kit")
            one.add_argument("conninfo")
        if function is load:
            one.add_argument("--type", default="securefile", help="of the column, such as"
                             " 'securefile(deduplicate)', or bytea")
            one.add_argument("--copy", action="store_true", help="COPY in place of INSERT")
        if function is mix:
            one.add_argument("--seconds", type=duration, default=10)
    return parser.parse_args()


def main():
    options = parse()
    try:
        values = vars(options)
        if options.function in (mix, verify):
            values = plan_of_table(options) | {name: value for name, value in values.items()
                                               if name == "seed" and value is not None}
        problems = options.function(options, Plan(values))
    except (psycopg.Error, ValueError) as error:
        print(f"kit.py: {error}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        return 130
    for problem in problems:
        print(problem)
    if options.function is not describe:
        print("FAILED" if problems else "right", flush=True)
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
