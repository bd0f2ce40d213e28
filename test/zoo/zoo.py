#!/usr/bin/python3
"""Damages a cluster at random, and looks what becomes of its values.

Each round the cluster works for a moment and is stopped, at once or in peace; a copy is
made; then pages of segment relations, blocks of data files, whole files and locators are
damaged.  After the start each row must be right to the byte, or its read must end in an
error of damage; only rows may be lost whose blocks were hit, and all of a table where
that was undamaged.  securefile_check() must have found something where a row was lost, and
nothing where nothing was damaged.  Then rows are written to damaged tables: each
statement works or says why not, and the rest stays what it was.  The copy is put back,
and the next round begins.

    zoo.py --rounds 20 --seed 42

Exit code 0: sound; 1: not; the cluster's directory is then kept.
"""

import argparse
import collections
import os
import random
import re
import shutil
import subprocess
import sys
import traceback

import psycopg

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "model"))
import option_words				# noqa: E402
from server import Server		# noqa: E402
import places					# noqa: E402
from places import UNIT, Table	# noqa: E402

FORMS = ["nocache", "cache_reads", "cache", "filesystem_like_logging, nocache",
         "disable_storage_in_row", "deduplicate"]
LENGTHS = [100, 4000, 4001, 20000, 70000, UNIT, UNIT + 1, 300000]

# What reading a damaged value, or writing to a damaged column, may say.
ALLOWED = {"XX001", "58P01", "42704"}

# Recovery must not go on over these, and says so: WAL that wants pages of a relation
# which has been cut short.
NO_RECOVERY = re.compile(r"PANIC:  WAL contains references to invalid pages")
CRASH = re.compile(r"PANIC|TRAP: |was terminated by signal")

SETTINGS = {"fsync": "off", "shared_preload_libraries": "'securefile'", "max_wal_senders": "0",
            "wal_level": "replica", "autovacuum": "off", "securefile.monitor_naptime": "'1s'",
            "log_min_error_statement": "panic", "shared_buffers": "'16MB'", "min_wal_size": "'32MB'",
            "checkpoint_timeout": "'1h'", "restart_after_crash": "off"}


class Wrong(Exception):
    """What must not be."""


class Zoo:
    """The cluster, and what its rows must hold."""

    def __init__(self, seed):
        self.rng = random.Random(seed)
        self.seed = seed
        self.values = 0
        self.counts = collections.Counter()
        self.server = Server(SETTINGS)
        self.copy = os.path.join(self.server.top, "copy")
        self.older = os.path.join(self.server.top, "older")
        self.log_seen = 0
        self.server.start()
        self.conn = self.server.connect()
        self.conn.execute("""
            CREATE EXTENSION securefile;
            CREATE FUNCTION seen(doc securefile) RETURNS text LANGUAGE plpgsql AS $$
            BEGIN
                RETURN encode(sha256(doc::bytea), 'hex');
            EXCEPTION WHEN OTHERS THEN
                RETURN SQLSTATE;
            END $$""")
        self.tables = [self.make_table(f"zoo_{n}", form) for n, form in enumerate(FORMS)]
        for table in self.tables:
            for _ in range(8):
                self.insert(table)

    def make_table(self, name, form):
        self.conn.execute(f"CREATE TABLE {name} (id int PRIMARY KEY, doc {self.some_type(form)})")
        return Table(name, form)

    def some_type(self, form):
        return option_words.with_words(f"securefile({form})", self.rng.choice(option_words.WORDS)
                                      + self.rng.choice(["", ", hash"]))

    # ---- contents ----

    def make_value(self):
        """Bytes that are nowhere else, and may be compressible."""
        self.values += 1
        length = self.rng.choice(LENGTHS)
        kind = self.rng.choice(["noise", "noise", "text", "text", "half", "turns"])
        return option_words.make(kind, f"{self.seed}:{self.values}", length, self.rng)

    def insert(self, table):
        key = max(table.rows, default=0) + 1
        if self.rng.random() < 0.4:
            self.insert_sparse(table, key)
            return
        value = self.make_value()
        self.conn.execute(f"INSERT INTO {table.name} VALUES (%s, %b)", (key, value))
        table.put(key, [(0, value)])

    def insert_sparse(self, table, key):
        """With gaps: its map lies in inode pages."""
        pieces, at = [], 0
        with self.conn.transaction():
            handle = self.conn.execute("SELECT securefile_create(%s, 'doc')", (table.name,)).fetchone()[0]
            for _ in range(self.rng.randint(1, 3)):
                at = (at // UNIT + self.rng.randint(1, 4)) * UNIT
                value = self.make_value()
                self.conn.execute("SELECT securefile_seek(%s, %s, 0), securefile_write(%s, %b)",
                                  (handle, at, handle, value))
                pieces.append((at, value))
                at += len(value) + UNIT
            self.conn.execute(f"INSERT INTO {table.name} VALUES (%s, securefile_finish(%s))", (key, handle))
        table.put(key, pieces)

    def copy_row(self, table):
        """A row with the value of another one, which is stored once in some tables."""
        source, key = self.rng.choice(sorted(table.rows)), max(table.rows) + 1
        self.conn.execute(f"INSERT INTO {table.name} SELECT %s, doc FROM {table.name} WHERE id = %s", (key, source))
        table.put(key, table.rows[source])
        if source in table.packed:
            table.packed.add(key)
        if source in table.lost:
            table.lost.add(key)

    def update(self, table):
        key, value = self.rng.choice(sorted(table.rows)), self.make_value()
        self.conn.execute(f"UPDATE {table.name} SET doc = %b WHERE id = %s", (value, key))
        table.put(key, [(0, value)])
        table.lost.discard(key)

    def delete(self, table):
        key = self.rng.choice(sorted(table.rows))
        self.conn.execute(f"DELETE FROM {table.name} WHERE id = %s", (key,))
        del table.rows[key]

    def maintain(self, table):
        self.conn.execute(f"SELECT securefile_maintain('{table.name}', 'doc')")

    def change_options(self, table):
        """Another compression for what is written from now on; for all of it, at times."""
        self.conn.execute(f"ALTER TABLE {table.name} ALTER doc TYPE {self.some_type(table.form)}")
        if self.rng.random() < 0.3:
            self.conn.execute(f"SELECT securefile_rewrite('{table.name}', 'doc')")
            table.packed.clear()

    def train(self, table):
        """A dictionary, of rows that are alike and go again, where the column uses one."""
        kind = self.conn.execute("SELECT format_type(atttypid, atttypmod) FROM pg_attribute"
                                 " WHERE attrelid = %s::regclass AND attname = 'doc'", (table.name,)).fetchone()[0]
        if "disable_storage_in_row" in kind or "medium" not in kind and "high" not in kind:
            return
        table.trained = True
        with self.conn.transaction():
            self.conn.execute(f"INSERT INTO {table.name} SELECT 1000000 + g, convert_to(repeat("
                              "'what all of these have in common, ', 3) || md5(g::text), 'UTF8')"
                              " FROM generate_series(1, 120) g")
            self.conn.execute(f"SELECT securefile_train('{table.name}', 'doc', 1000)")
            self.conn.execute(f"DELETE FROM {table.name} WHERE id > 1000000")

    def work(self, times, damaged=False):
        """Random statements; only where there is damage may they fail."""
        for _ in range(times):
            table = self.rng.choice(self.tables)
            kinds = [self.insert] * 4 + [self.maintain, self.change_options, self.train]
            if table.rows and "deduplicate" in table.form:
                kinds += [self.copy_row] * 4
            if len(table.rows) > 4:
                kinds += [self.update, self.delete] * (2 if len(table.rows) < 12 else 4)
            step = self.rng.choice(kinds)
            before = dict(table.rows)
            try:
                step(table)
                self.counts["statements"] += damaged
            except psycopg.OperationalError as error:
                if self.conn.closed or self.conn.broken:
                    raise Wrong(f"{table.name}: connection lost: {error}") from error
                self.refused(table, error, before, damaged)
            except psycopg.Error as error:
                self.refused(table, error, before, damaged)

    def refused(self, table, error, before, damaged):
        table.rows = before
        if not damaged or not table.damages or error.sqlstate not in ALLOWED:
            raise Wrong(f"{table.name}: {error.sqlstate}: {error}") from error
        self.counts["statements refused"] += 1

    # ---- what is found ----

    def findings(self, table):
        return self.conn.execute("SELECT finding, segment_offset, detail"
                                 f" FROM securefile_check('{table.name}', 'doc')").fetchall()

    def examine(self, when):
        """Each row right, or lost for a reason; returns how many are lost."""
        for table in self.tables:
            got = dict(self.conn.execute(f"SELECT id, seen(doc) FROM {table.name}").fetchall())
            if set(got) != set(table.rows):
                raise Wrong(f"{when}, {table.name}: rows {sorted(set(got) ^ set(table.rows))} are there or are not")
            lost = set()
            for key, seen in got.items():
                if seen == places.digest(table.rows[key]):
                    continue
                if seen not in ALLOWED:
                    raise Wrong(f"{when}, {table.name} {key}: wrong bytes, or an odd error: {seen}")
                lost.add(key)
            if not lost <= table.may_lose():
                raise Wrong(f"{when}, {table.name}: rows {sorted(lost - table.may_lose())} are lost, which were"
                            f" not hit by {table.damages}; {[(k, got[k]) for k in lost]}")
            found = self.findings(table)
            if lost and not found or found and not table.damages:
                raise Wrong(f"{when}, {table.name}: lost {sorted(lost)}, damages {table.damages},"
                            f" securefile_check: {found[:3]}")
            self.counts["rows read"] += len(got)
            self.counts["rows lost"] += len(lost)
            self.counts["findings"] += len(found)

    def log_since(self):
        with open(self.server.log, encoding="utf-8", errors="replace") as file:
            file.seek(self.log_seen)
            text = file.read()
            self.log_seen = file.tell()
        return text

    def require_no_crash(self):
        text = self.log_since()
        found = CRASH.search(text)
        if found:
            raise Wrong("in the server's log: " + text[max(0, found.start() - 500):found.end() + 500])

    # ---- rounds ----

    def copy_files(self, source, target):
        shutil.rmtree(target, ignore_errors=True)
        subprocess.run(["cp", "-a", source, target], check=True)

    def start_damaged(self):
        """False when recovery cannot go on, which it may say only after a crash."""
        try:
            self.server.start()
        except RuntimeError:
            text = self.log_since()
            if any(d.stops_recovery for t in self.tables for d in t.damages) and NO_RECOVERY.search(text):
                self.counts["recoveries refused"] += 1
                return False
            raise Wrong("the server does not start: " + text[-3000:]) from None
        self.conn = self.server.connect()
        return True

    def one_round(self, older):
        self.work(20)
        how = self.rng.choice(["fast", "immediate"])
        if how == "fast" or self.rng.random() < 0.5:
            self.conn.execute("CHECKPOINT")
        for table in self.tables:
            table.find(self.conn, self.server.data)
        if how == "immediate":
            self.work(6)
        kept = [dict(table.rows) for table in self.tables]
        self.conn.close()
        self.server.stop(how)
        self.copy_files(self.server.data, self.copy)
        for _ in range(self.rng.randint(1, 8)):
            table = self.rng.choice(self.tables)
            kind = places.damage(self.rng, table, self.server.data, older, how == "immediate")
            if kind:
                self.counts["damages"] += 1
                self.counts[f"  {kind}"] += 1
        if self.start_damaged():
            self.examine("damaged")
            self.work(25, damaged=True)
            self.examine("written to")
            self.conn.close()
            self.require_no_crash()
            self.server.stop("immediate")
            self.log_since()
        self.undo(kept)

    def undo(self, kept):
        shutil.rmtree(self.older, ignore_errors=True)
        shutil.rmtree(self.server.data)
        self.copy_files(self.copy, self.server.data)
        os.rename(self.copy, self.older)
        for table, rows in zip(self.tables, kept):
            table.rows = rows
            table.damages = []
            table.lost = set()
        self.server.start()
        self.conn = self.server.connect()
        self.examine("undone")

    def run(self, rounds):
        for _ in range(rounds):
            self.one_round(self.older if os.path.exists(self.older) else None)
            self.require_no_crash()


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seed", type=int, default=random.randrange(10 ** 9))
    options = parser.parse_args()
    zoo = Zoo(options.seed)
    try:
        zoo.run(options.rounds)
    except Exception:			# pylint: disable=broad-except
        traceback.print_exc()
        print(zoo.server.tail())
        print(f"kept: {zoo.server.top}; again: zoo.py --rounds {options.rounds} --seed {options.seed}")
        return 1
    zoo.conn.close()
    zoo.server.stop()
    zoo.server.remove()
    print(f"seed {options.seed}, {options.rounds} rounds: "
          + ", ".join(f"{n} {what.strip()}" for what, n in sorted(zoo.counts.items())))
    return 0


if __name__ == "__main__":
    sys.exit(main())
