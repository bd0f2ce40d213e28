#!/usr/bin/python3
"""Random insertions, deletions and the like in long values, beside bytes in memory.

Values of megabytes are edited by functions and by handles, alone and several edits in one
statement, with savepoints and rollbacks.  Other sessions keep snapshots, and read the version
that they see.  What a row has must be what the model has, and securefile_check() be silent; in
the end, live bytes are those that the values of all rows store.

    pieces.py --dsn "dbname=postgres" --seed 42 --edits 200 --options "compress, hash"

With --crash the server is killed now and then, at a fault point of its choice.  Exit code 0:
right; 1: not; the last lines tell how to run it again.
"""

import argparse
import hashlib
import random
import sys
import time
import traceback

import psycopg

from client import Mismatch, difference, is_lost
from values import UNIT

MOST, LEAST = 20_000_000, 600_000
POINTS = ["arrange_before", "arrange_written", "list_before", "list_leaves", "lend_after_mark", "flush_before_write",
          "data_record", "commit_before_flush", "commit_data_in_flight", "commit_before_entries", "commit_after_alloc",
          "commit_before_record", "commit_done", "resolve_before", "resolve_after", "resolve_after_inode"]


class Run:
    def __init__(self, options):
        self.options, self.rng = options, random.Random(options.seed)
        self.table = f"pieces_{options.seed}"
        self.done = self.deaths = 0
        self.copied = False
        self.snapshots = []			# sessions, each with the rows that it sees
        self.connect()
        self.ask(f"CREATE TABLE {self.table} (id int PRIMARY KEY, n int DEFAULT 0, doc securefile{options.options and f'({options.options})'})")
        self.rows = {}
        for key in range(1, 4):
            self.renew(key)

    def connect(self):
        """When the server is there again."""
        for _ in range(600):
            try:
                self.conn = psycopg.connect(self.options.dsn, autocommit=True)
                self.conn.execute("SET client_min_messages = warning")
                # leaves of few pieces, so that lists have roots
                self.conn.execute("SELECT securefile_fault('short_lists', 'skip', skip => 0, times => -1)")
                return
            except psycopg.OperationalError:
                time.sleep(0.1)
        raise Mismatch("the server does not come back")

    def ask(self, sql, params=()):
        cursor = self.conn.execute(sql, params, binary=True)
        return cursor.fetchall() if cursor.description else None

    def value(self, sql, params=()):
        return self.ask(sql, params)[0][0]

    # ---- what is edited, and how ----

    def count(self):
        return self.rng.choice([1, 10, 100, 5000, UNIT - 1, UNIT, UNIT + 1, 3 * UNIT,
                                self.rng.randrange(1, 400_000)])

    def place(self, data):
        return self.rng.choice([0, len(data), min(len(data), self.rng.randrange(len(data) // UNIT + 1) * UNIT),
                                *[self.rng.randrange(len(data) + 1) for _ in range(4)]])

    def renew(self, key):
        self.rows[key] = self.rng.randbytes(self.rng.choice([1_500_000, 3_000_000, 6_000_000, 13_000_000]))
        self.ask(f"INSERT INTO {self.table} (id, doc) VALUES (%s, %s::bytea::securefile)"
                 " ON CONFLICT (id) DO UPDATE SET doc = excluded.doc", (key, self.rows[key]))

    def edit(self, data, sql, params, original):
        """One more edit around an expression: the same with bytes."""
        at, n, new = self.place(data), self.count(), self.rng.randbytes(self.count())
        kind = self.rng.choices(["insert", "part", "delete", "move", "overlay", "cut", "grow", "append", "erase"],
                                [8, 3, 8, 4, 6, 1, 1, 4, 3])[0]
        if kind == "insert":
            return data[:at] + new + data[at:], f"securefile_insert({sql}, %s::bigint, %s::bytea::securefile)", params + [at + 1, new]
        if kind == "part":
            start = self.rng.randrange(len(original))
            return (data[:at] + original[start:start + n] + data[at:],
                    f"securefile_insert({sql}, %s::bigint, securefile_part(doc, %s::bigint, %s::bigint))", params + [at + 1, start + 1, n])
        if kind == "delete":
            return data[:at] + data[at + n:], f"securefile_delete({sql}, %s::bigint, %s::bigint)", params + [at + 1, n]
        if kind == "move":
            n = min(n, len(data) - at)
            to = self.rng.choice([p for p in (self.place(data), self.place(data), 0) if not at < p < at + n])
            rest = data[:at] + data[at + n:]
            target = to if to <= at else to - n
            return (rest[:target] + data[at:at + n] + rest[target:],
                    f"securefile_move({sql}, %s::bigint, %s::bigint, %s::bigint)", params + [at + 1, n, to + 1])
        if kind == "overlay":
            n = self.rng.choice([len(new), len(new), 0, n])
            return (data[:at] + new + data[at + n:],
                    f"securefile_overlay({sql}, %s::bytea::securefile, %s::bigint, %s::bigint)", params + [new, at + 1, n])
        if kind == "cut":
            return data[:at], f"securefile_truncate({sql}, %s::bigint)", params + [at]
        if kind == "grow":
            return data + bytes(n), f"securefile_truncate({sql}, %s::bigint)", params + [len(data) + n]
        if kind == "append":
            return data + new, f"({sql} || %s::bytea)", params + [new]
        return data[:at] + bytes(len(data[at:at + n])) + data[at + n:], f"securefile_erase({sql}, %s::bigint, %s::bigint)", params + [at + 1, n]

    def by_functions(self, key):
        data, sql, params = self.rows[key], "doc", []
        for _ in range(self.rng.choice([1, 1, 2, 4])):
            data, sql, params = self.edit(data, sql, params, self.rows[key])
        self.ask(f"UPDATE {self.table} SET doc = {sql} WHERE id = %s", params + [key])
        return data

    def by_handle(self, key):
        data = self.rows[key]
        fd = self.value(f"SELECT securefile_open(doc, 'rw') FROM {self.table} WHERE id = %s", (key,))
        at = 0
        for _ in range(self.rng.randrange(1, 10)):
            at = min(at, len(data)) if self.rng.random() < 0.4 else self.place(data)
            new, n = self.rng.randbytes(self.count()), self.count()
            self.value("SELECT securefile_seek(%s, %s, 0)", (fd, at))
            kind = self.rng.choices(["insert", "delete", "write", "erase", "read"], [6, 5, 4, 1, 3])[0]
            if kind == "insert":
                self.value("SELECT securefile_insert(%s::int, %s::bytea)", (fd, new))
                data, at = data[:at] + new + data[at:], at + len(new)
            elif kind == "delete":
                self.value("SELECT securefile_delete(%s::int, %s::bigint)", (fd, n))
                data = data[:at] + data[at + n:]
            elif kind == "write":
                self.value("SELECT securefile_write(%s, %s)", (fd, new))
                data, at = data[:at] + new + data[at + len(new):], at + len(new)
            elif kind == "erase":
                self.value("SELECT securefile_erase(%s::int, %s::bigint)", (fd, n))
                data = data[:at] + bytes(len(data[at:at + n])) + data[at + n:]
            else:
                self.same(data[at:at + n], self.value("SELECT securefile_read(%s, %s)", (fd, n)), f"handle at {at}")
        self.ask(f"UPDATE {self.table} SET doc = securefile_finish(%s) WHERE id = %s", (fd, key))
        return data

    # ---- looking ----

    def same(self, want, got, what):
        if bytes(got) != want:
            raise Mismatch(f"{what}: {difference(want, bytes(got))}")

    def look(self, conn, rows, key):
        """All of a row, or some places of it, as a session sees it."""
        data = rows[key]
        if self.rng.random() < 0.4:
            got = conn.execute(f"SELECT length(doc), md5(doc::bytea) FROM {self.table} WHERE id = %s", (key,)).fetchone()
            if got != (len(data), hashlib.md5(data).hexdigest()):
                found = conn.execute(f"SELECT doc::bytea FROM {self.table} WHERE id = %s", (key,), binary=True).fetchone()[0]
                self.same(data, found, f"row {key} of {len(data)} bytes")
        for _ in range(3):
            at, n = self.rng.randrange(len(data) + 1), self.rng.choice([1, 1000, 300_000])
            found = conn.execute(f"SELECT substring(doc, %s::bigint, %s::bigint) FROM {self.table} WHERE id = %s",
                                 (at + 1, n, key), binary=True).fetchone()[0]
            self.same(data[at:at + n], found, f"row {key} at {at}")

    def keep_snapshot(self):
        conn = psycopg.connect(self.options.dsn)
        conn.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ")
        conn.execute("SELECT 1 FROM pg_class LIMIT 1")
        self.snapshots.append((conn, dict(self.rows)))

    def end_snapshot(self):
        conn, rows = self.snapshots.pop(self.rng.randrange(len(self.snapshots)))
        for key in rows:
            self.look(conn, rows, key)
        conn.close()

    def check(self):
        self.ask(f"SELECT securefile_maintain('{self.table}', 'doc')")
        found = self.ask(f"SELECT f::text FROM securefile_check('{self.table}', 'doc') f LIMIT 5")
        if found:
            raise Mismatch(f"securefile_check(): {found}")

    # ---- one edit ----

    def turn(self):
        key = self.rng.choice(sorted(self.rows))
        if not LEAST <= len(self.rows[key]) <= MOST:
            self.renew(key)
            return
        kind = self.rng.random()
        if kind < 0.05:
            self.ask(f"UPDATE {self.table} SET n = n + 1 WHERE id = %s", (key,))
            return
        if kind < 0.1 and self.options.seed % 2:
            copy = self.rng.choice([k for k in range(4, 7) if k != key])
            self.ask("BEGIN")
            self.ask(f"DELETE FROM {self.table} WHERE id = %s", (copy,))
            self.ask(f"INSERT INTO {self.table} SELECT %s, 0, doc FROM {self.table} WHERE id = %s", (copy, key))
            self.commit({copy: self.rows[key]})
            self.copied = True
            return
        how = self.by_handle if self.rng.random() < 0.4 else self.by_functions
        self.ask("BEGIN")
        if kind < 0.3:
            self.ask("SAVEPOINT a")
        data = how(key)
        if 0.1 <= kind < 0.2:
            self.ask("ROLLBACK TO a")
            data = self.rows[key]
            if self.rng.random() < 0.5:
                data = how(key)
        if self.rng.random() < 0.3:
            self.look(self.conn, {key: data}, key)
        if kind > 0.95:
            self.ask("ROLLBACK")
            return
        self.commit({key: data})

    def commit(self, changed):
        """What it changes is known to have happened, or not to have, also if the server dies."""
        self.pending = changed
        self.ask("COMMIT")
        self.rows.update(changed)
        self.pending = {}

    def settle(self):
        """After a death: has the last transaction committed?"""
        self.snapshots = []
        self.connect()
        self.deaths += 1
        for key, data in self.pending.items():
            found = self.ask(f"SELECT md5(doc::bytea) FROM {self.table} WHERE id = %s", (key,))
            if found and found[0][0] == hashlib.md5(data).hexdigest():
                self.rows[key] = data
        self.pending = {}
        for key in sorted(self.rows):
            self.look(self.conn, self.rows, key)
        self.check()

    def plan_death(self):
        point, skip = self.rng.choice(POINTS), self.rng.choice([0, 0, 1, 3])
        self.ask("SELECT securefile_fault(%s, 'kill', skip => %s, times => 1)", (point, skip))

    def go(self):
        self.pending = {}
        for self.done in range(self.options.edits):
            try:
                if self.options.crash and self.rng.random() < 0.1:
                    self.plan_death()
                self.turn()
                key = self.rng.choice(sorted(self.rows))
                self.look(self.conn, self.rows, key)
                if self.rng.random() < 0.1 and len(self.snapshots) < 3:
                    self.keep_snapshot()
                elif self.rng.random() < 0.1 and self.snapshots:
                    self.end_snapshot()
                if self.done % 40 == 39:
                    self.check()
            except psycopg.Error as error:
                if not (self.options.crash and is_lost(error, self.conn)):
                    raise
                self.settle()
        while self.snapshots:
            self.end_snapshot()
        for key in sorted(self.rows):
            self.look(self.conn, self.rows, key)
        self.check()
        self.compare_space()
        pieces = self.ask(f"SELECT max(s.pieces), sum(s.unused_bytes) FROM {self.table}, securefile_storage(doc) s")[0]
        self.ask(f"DROP TABLE {self.table}")
        return pieces

    def compare_space(self):
        """Where nothing is shared or compressed, live bytes are the units of the rows."""
        if self.copied or any(word in self.options.options for word in ("deduplicate", "compress", "encrypt", "retention")):
            return
        live = self.value(f"SELECT live_bytes FROM securefile_usage('{self.table}', 'doc')")
        want = self.value(f"SELECT sum((s.length + s.unused_bytes + 511) / 512 * 512) FROM {self.table}, securefile_storage(doc) s"
                          " WHERE form = 'stored'")
        # zeros that were cut off or put in may be holes, or not
        if live > want:
            raise Mismatch(f"{live} bytes are live, and values have {want}")


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--dsn", default="dbname=postgres")
    parser.add_argument("--seed", type=int, default=random.randrange(10**9))
    parser.add_argument("--edits", type=int, default=200)
    parser.add_argument("--options", default="")
    parser.add_argument("--crash", action="store_true")
    options = parser.parse_args()
    run = None
    try:
        run = Run(options)
        most, unused = run.go()
    except Exception:
        traceback.print_exc()
        print(f"pieces: FAILED in edit {run.done if run else 0}; again with: {sys.argv[0]} --dsn '{options.dsn}'"
              f" --seed {options.seed} --edits {options.edits} --options '{options.options}'" + " --crash" * options.crash)
        sys.exit(1)
    print(f"pieces: right: seed {options.seed}, {options.edits} edits, {run.deaths} deaths, up to {most} pieces,"
          f" {unused} bytes unused in the end, options '{options.options}'")


main()
