#!/usr/bin/python3
"""Saves values into files of the server and loads them from there, while sessions and the server
are killed, ended and cancelled.

After each blow the file that was written to has what it had before, or all of the new value; nothing
else is in its directory, but for a whole file with a hidden name where the server was killed in the
moment of the last flush.  A row of a load is there if and only if it was committed, or its commit
was on its way.  At the end no value has changed, securefile_check() finds nothing, and no space of
loads that came to nothing is lost.

    saves.py --blows 300 --big 200 --seed 42

Exit code 0: sound; 1: not; the cluster's directory is then kept.
"""

import argparse
import hashlib
import os
import random
import re
import sys
import threading
import time
import traceback
from collections import Counter

import psycopg

import option_words
from client import Mismatch, is_lost
from verify import has_fault_points
from server import Server, connect

SETTINGS = {"shared_preload_libraries": "'securefile'", "restart_after_crash": "on", "fsync": "on",
            "securefile.master_key": "'model'", "securefile.monitor_naptime": "'1s'",
            "log_min_error_statement": "panic", "max_wal_size": "'256MB'"}
WORDS = {"plain": "logging", "learned": "compress_medium", "secret": "compress_low, encrypt",
         "once": "deduplicate", "unlogged": "filesystem_like_logging, nocache"}
HIDDEN = re.compile(r"\.securefile-[0-9a-f]{16}")
PIECE = 4 * 1024 * 1024
MB = 1024 * 1024

# What ends a save, and may its file have a hidden name after that?
BLOWS = {"kill": True, "kill other": True, "kill all": True, "immediate": True, "point": True,
         "terminate": False, "cancel": False, "timeout": False, "fast": False, "none": False}
POINTS = ["io_file_open", "io_file_stat", "io_file_write", "io_file_sync", "io_file_place"]


def sha256(*parts):
    digest = hashlib.sha256()
    for part in parts:
        digest.update(part)
    return digest.hexdigest()


def digest_of(path):
    """SHA-256 of a file, or None."""
    digest = hashlib.sha256()
    try:
        with open(path, "rb") as file:
            while piece := file.read(MB):
                digest.update(piece)
    except FileNotFoundError:
        return None
    return digest.hexdigest()


class Saves:
    def __init__(self, server, options):
        self.server = server
        self.options = options
        self.rng = random.Random(f"{options.seed}:saves")
        self.directory = options.directory or os.path.join(server.data, "saved")
        self.values = {}		# (table, id) -> contents
        self.files = {}			# name -> SHA-256
        self.rate = 100 * MB	# bytes a second, the most that were seen
        self.points = False		# has the server some?
        self.counts = Counter()
        self.serial = 0

    # ---- values ----

    def prepare(self):
        self.server.start()
        conn = self.server.connect()
        conn.execute("CREATE EXTENSION securefile")
        self.points = has_fault_points(conn)
        if not self.options.directory:
            conn.execute("COPY (SELECT) TO PROGRAM 'cat >/dev/null; mkdir saved'")
        for table, words in WORDS.items():
            conn.execute(f"CREATE TABLE {table} (id int PRIMARY KEY, doc securefile({words}))")
            conn.execute(f"CREATE TABLE loaded_{table} (id int PRIMARY KEY, sha text, doc securefile({words}))")
        option_words.train(conn.execute, "learned", "doc", "id", "n + 100000")
        biggest = self.options.big * MB
        longest = self.rng.sample(list(WORDS), 2)
        for table in WORDS:
            for key in range(6):
                length = int(min(MB * 2 ** self.rng.uniform(0, 5), biggest / 2)) if key < 4 else [60000, 9000][key - 4]
                length = biggest if key == 0 and table in longest else length
                kind = "text" if table == "learned" and key % 2 else self.rng.choice(["noise", "turns", "half"])
                data = option_words.make(kind, f"{self.options.seed}:{table}:{key}", length, self.rng)
                self.store(conn, table, key, data)
                self.values[table, key] = data
        conn.close()

    @staticmethod
    def store(conn, table, key, data):
        with conn.transaction():
            handle = conn.execute("SELECT securefile_create(%s::regclass, 'doc')", (table,)).fetchone()[0]
            for at in range(0, len(data), PIECE):
                conn.execute("SELECT securefile_write(%s, %b)", (handle, data[at:at + PIECE]))
            conn.execute(f"INSERT INTO {table} VALUES (%s, securefile_finish(%s))", (key, handle))

    def some_value(self):
        """An expression over row t and row o, its parameters, a condition; and what it is, in parts."""
        (table, key), data = self.rng.choice(list(self.values.items()))
        (other, other_key), more = self.rng.choice(list(self.values.items()))
        where = f"FROM {table} t, {other} o WHERE t.id = {key} AND o.id = {other_key}"
        form = self.rng.choice(["stored", "stored", "appended", "rope", "overlay", "longer", "shorter"])
        self.counts[form] += 1
        if form == "appended":
            return "t.doc || %b::bytea::securefile", [more[:100000]], where, [data, more[:100000]]
        if form == "rope":
            return "t.doc || o.doc || t.doc", [], where, [data, more, data]
        if form == "overlay":
            at = self.rng.randrange(5, len(data))
            new = more[:self.rng.randint(1, 300000)]
            return ("overlay(overlay(t.doc placing %b::bytea from %s::int) placing 'x'::bytea from 5 for 1)",
                    [new, at + 1], where, [data[:4], b"x", data[5:at], new, data[at + len(new):]])
        if form in ("longer", "shorter"):
            length = self.rng.randint(0, len(data)) if form == "shorter" else len(data) + self.rng.randint(1, 5 * MB)
            return ("securefile_truncate(t.doc, %s)", [length], where,
                    [data[:length], bytes(max(0, length - len(data)))])
        return "t.doc", [], where, [data]

    # ---- a statement, and a blow ----

    def run(self, work, blow, seconds):
        """Work in a session of its own, and strike it; what became of it: None, or the error."""
        outcome = []
        conn = self.server.connect()
        pid = conn.info.backend_pid
        if blow == "timeout":
            conn.execute(f"SET statement_timeout = {int(seconds * 1000) + 1}")
        if blow == "point":
            self.arm(pid)

        def session():
            try:
                work(conn)
                outcome.append(None)
            except psycopg.Error as error:
                outcome.append(error)

        thread = threading.Thread(target=session)
        thread.start()
        if blow not in ("timeout", "none", "point"):
            thread.join(seconds)
        self.strike(blow, pid)
        thread.join()
        error = outcome[0]
        dies = blow in ("kill", "kill other") or blow == "point" and error is not None and is_lost(error, conn)
        conn.close()
        self.come_back(blow, dies)
        return error

    def arm(self, pid):
        with self.server.connect() as conn:
            point = self.rng.choice(POINTS)
            skip = self.rng.choice([0, 1, 2, 3, self.rng.randrange(1000)]) if point in ("io_file_write", "io_file_sync") else self.rng.choice([0, 1])
            conn.execute("SELECT securefile_fault(%s, 'kill', skip => %s, pid => %s)", (point, skip, pid))

    def strike(self, blow, pid):
        try:
            if blow == "kill":
                os.kill(pid, 9)
            elif blow == "kill other":
                self.server.kill_backend(self.rng)
            elif blow == "kill all":
                self.server.kill_all()
            elif blow in ("immediate", "fast"):
                self.server.stop(blow)
            elif blow in ("terminate", "cancel"):
                with self.server.connect() as conn:
                    conn.execute(f"SELECT pg_{blow}_backend({pid})")
        except (ProcessLookupError, psycopg.OperationalError):
            pass

    def come_back(self, blow, dies):
        """The server is there, after its crash if there was one."""
        if blow in ("kill all", "immediate", "fast"):
            self.server.start()
        if dies and not self.server.wait_for_death(30):
            raise Mismatch(f"nobody has died of {blow}")
        conn = self.server.connect()
        if self.points:
            conn.execute("SELECT securefile_fault_reset()")
        conn.close()
        alarms = self.server.alarms()
        if alarms:
            raise Mismatch("in the server's log:\n" + "\n".join(alarms))

    def some_blow(self, length):
        blows = [blow for blow in BLOWS if blow != "point" or self.points]
        expected = length / self.rate + 0.01
        return self.rng.choice(blows), self.rng.uniform(0, expected * 1.2)

    # ---- save ----

    def save(self):
        sql, params, where, parts = self.some_value()
        want, length = sha256(*parts), sum(map(len, parts))
        name = f"f{self.rng.randrange(4)}"
        path = os.path.join(self.directory, name)
        if self.rng.random() < 0.3 and name in self.files:
            os.unlink(path)
            del self.files[name]
        before = self.files.get(name)
        overwrite = before is not None or self.rng.random() < 0.3
        blow, seconds = self.some_blow(length)
        began = time.time()
        error = self.run(lambda conn: conn.execute(f"SELECT securefile_save({sql}, %s, %s) {where}",
                                                   params + [path, overwrite]), blow, seconds)
        if blow == "none":
            self.rate = max(self.rate, length / (time.time() - began))
        found = digest_of(path)
        if found != want and (error is None or found != before):
            raise Mismatch(f"{name} after {blow}, {length} bytes, {error}: {found}, not {want}"
                           + (f" or {before}" if error else ""))
        self.counts[f"{blow}: {'new' if found == want else 'old' if before else 'none'}"] += 1
        self.files[name] = found
        if found is None:
            del self.files[name]
        self.look_for_others(blow, want)

    def look_for_others(self, blow, want):
        for name in set(os.listdir(self.directory)) - set(self.files):
            path = os.path.join(self.directory, name)
            if not HIDDEN.fullmatch(name) or not BLOWS[blow] or digest_of(path) != want:
                raise Mismatch(f"{name} is left after {blow}, {os.stat(path).st_size} bytes")
            self.counts["hidden, whole"] += 1
            os.unlink(path)

    # ---- load ----

    def load(self):
        if not self.files:
            return
        name, sha = self.rng.choice(sorted(self.files.items()))
        path = os.path.join(self.directory, name)
        table = "loaded_" + self.rng.choice(list(WORDS))
        self.serial += 1
        key = self.serial

        def work(conn):
            with conn.transaction():
                handle = conn.execute("SELECT securefile_create(%s::regclass, 'doc')", (table,)).fetchone()[0]
                conn.execute("SELECT securefile_load(%s, %s)", (handle, path))
                conn.execute(f"INSERT INTO {table} VALUES (%s, %s, securefile_finish(%s))", (key, sha, handle))

        blow, seconds = self.some_blow(os.stat(path).st_size * 3)
        error = self.run(work, blow, seconds)
        conn = self.server.connect()
        rows = conn.execute(f"SELECT encode(securefile_digest(doc), 'hex') FROM {table} WHERE id = %s", (key,)).fetchall()
        if rows not in ([(sha,)], []) or error is None and not rows:
            raise Mismatch(f"{table} {key} after {blow}, {error}: {rows}, not {sha}")
        self.counts[f"load, {blow}: {'there' if rows else 'none'}"] += 1
        if self.rng.random() < 0.7:
            conn.execute(f"DELETE FROM {table}")
        conn.close()
        self.look_for_others("none", sha)

    # ---- the whole ----

    def look(self):
        """No value has changed; no space is lost."""
        conn = connect(self.server.dsn, 60)
        for (table, key), data in self.values.items():
            found = conn.execute(f"SELECT encode(securefile_digest(doc), 'hex') FROM {table} WHERE id = %s", (key,)).fetchone()
            if found != (sha256(data),):
                raise Mismatch(f"{table} {key} has digest {found}")
        for table in WORDS:
            conn.execute(f"DELETE FROM loaded_{table}")
            self.settle(conn, f"loaded_{table}", lambda live: live == 0)
            most = sum((len(data) // 512 + 3 * (len(data) // 131072 + 1)) * 512 for (t, _), data in self.values.items() if t == table)
            self.settle(conn, table, lambda live: live <= most)
            for t in (table, f"loaded_{table}"):
                found = conn.execute(f"SELECT * FROM securefile_check('{t}', 'doc') LIMIT 5").fetchall()
                if found:
                    raise Mismatch(f"securefile_check('{t}', 'doc'): {found}")
        conn.close()

    @staticmethod
    def settle(conn, table, right):
        end = time.time() + 60
        while True:
            conn.execute(f"SELECT securefile_maintain('{table}', 'doc')")
            live, pending = conn.execute(f"SELECT live_bytes, pending_bytes FROM securefile_usage('{table}', 'doc')").fetchone()
            if pending == 0 and right(live):
                return
            if time.time() > end:
                raise Mismatch(f"{table} has {live} bytes live, {pending} pending")
            time.sleep(0.05)

    def storm(self):
        for number in range(self.options.blows):
            self.rng.choice([self.save, self.save, self.save, self.load])()
            if number % 40 == 39:
                self.look()
        self.look()


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seed", type=int, default=random.SystemRandom().randrange(10**9))
    parser.add_argument("--blows", type=int, default=20)
    parser.add_argument("--big", type=int, default=16, metavar="MB", help="length of the longest value")
    parser.add_argument("--directory", help="where files are saved; default: in the data directory")
    options = parser.parse_args()
    server = Server(SETTINGS)
    saves = Saves(server, options)
    try:
        saves.prepare()
        saves.storm()
    except Exception as error:
        print(error if isinstance(error, Mismatch) else traceback.format_exc())
        print(f"{server.tail()}\nFAILED; cluster kept in {server.top}; again with: {sys.argv[0]} --seed"
              f" {options.seed} --blows {options.blows} --big {options.big}")
        return 1
    server.remove()
    print("; ".join(f"{what} {n}" for what, n in sorted(saves.counts.items())))
    print(f"sound: seed {options.seed}, {options.blows} blows")
    return 0


if __name__ == "__main__":
    sys.exit(main())
