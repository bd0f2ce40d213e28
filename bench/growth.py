#!/usr/bin/python3
"""Measures what should stay flat: costs while segments, objects and their past grow.

    growth.py [--quick] [--gigabytes 1,10] [--megabytes 1,100] [--minutes N] [--only SECTION]
              [--engines filesystem_like,bytea] --results DIRECTORY --directory DIR CONNINFO

Five sections:
    segment    writing, reading, freeing, checking and backing up, by the size of the column
    object     whole streams, reads of 8 KB and appends inside, by the size of one object
    snapshot   replacing and reading rows before, while and after an old snapshot is open
    fragments  minutes of random deletes and inserts of objects of all sizes
    turnover   the whole column replaced ten times by 16 writers at once

The cluster is thrown away afterwards: tables are dropped, and base backups are taken.
"""

import os
import random
import shutil
import statistics
import subprocess
import threading
import time

import psycopg

import part
import report
from part import ENGINES, GB, KB, MB

PIECE = 1 << 20
# What WAL takes at most, and some more.
RESERVE = 10 * GB
# The largest object that is also given to bytea, which takes it in one message.
MOST_BYTEA = 256 * MB
# Of the section on turnover.
WRITERS = 16
TURNS = 10

TEXT = """What should stay flat while a column grows. The table has the first, the highest and
the last point of each line, and the quotient of last and first. Reads are as warm as the
memory of the machine makes them.

Segment: objects of 1 MB in columns of growing size. Writes (median, a commit each) and reads
of objects drawn at random (median). Freeing: DELETE, VACUUM and securefile_maintain(), by
object. securefile_check(), by GB. pg_basebackup of the whole cluster into a pipe, by GB of
its output.

Object: one stream written through a handle in pieces of 1 MB (bytea: one INSERT), and read
with securefile_chunks() (bytea: substring() by piece). Reads of 8 KB at random places, and
appends of 64 KB (median).

Snapshot: all rows of 100 KB are replaced in each round, and cleaned as above. A REPEATABLE
READ transaction is open in the second third of the rounds.

Fragments: turns of random deletes and inserts of 8 KB to 1 MB. Files: their size, in that of
the values. Chunk: the pieces of space that writers got, mean size in each turn.

Turnover: in each turn 16 writers replace as many objects of 8 KB to 4 MB, drawn at random, as
there are rows, a commit each; then all are read. Half of them wait no longer than the median,
99 of 100 no longer than p99."""


class Growth:
    def __init__(self, options):
        self.options = options
        self.conn = part.connect(options)
        self.conn.execute("CREATE EXTENSION IF NOT EXISTS securefile")
        self.measured = []
        self.left_out = []

    def note(self, section, what, engine, x, samples):
        self.measured.append({
            "section": section, "what": what, "engine": engine, "x": x,
            "value": statistics.median(samples), "least": min(samples), "most": max(samples),
            "samples": len(samples)})
        print(f"growth: {section}, {x:g}: {engine}, {what}: {statistics.median(samples):.3g}",
              flush=True)

    def fits(self, needed, what):
        """Is there room for so many bytes, and for WAL?"""
        if shutil.disk_usage(self.options.directory).free > needed + RESERVE:
            return True
        self.left_out.append(what)
        print(f"left out, the disk is too small: {what}", flush=True)
        return False

    # ---- the segment grows ----

    def fill(self, table, first, end):
        """In the server: the client would be slower than the columns."""
        self.conn.execute(
            f"INSERT INTO {table} SELECT n, int8send(n) || %b"
            " FROM generate_series(%s::int8, %s) n", [part.noise(0, MB - 8), first, end - 1])

    def segment_step(self, engine, size, objects, turn):
        """objects: so many 1 MB objects, numbered from 0, are there."""
        table, count = f"grown_{engine}", 16 if self.options.quick else 64
        self.conn.execute("CHECKPOINT")
        numbers = range(-count * (turn + 1), -count * turn)
        self.note("segment", "write 1 MB, ms", engine, size, [
            1000 * part.seconds(part.insert, self.conn, table, number, part.noise(number, MB))
            for number in numbers])
        drawn = random.Random(turn).choices(range(objects), k=count)
        self.note("segment", "read 1 MB, ms", engine, size, [
            1000 * part.seconds(part.fetch, self.conn, table, number) for number in drawn])

        def free():
            self.conn.execute(f"DELETE FROM {table} WHERE id < 0")
            part.clean(self.conn, table)
        self.note("segment", "free 1 MB, ms", engine, size,
                  [1000 * part.seconds(free) / count])
        if part.is_securefile(self.conn, table):
            self.note("segment", "check, s by GB", engine, size, [part.seconds(
                self.check, table) * GB / (objects * MB)])

    def check(self, table):
        findings = part.value(
            self.conn, "SELECT count(*) FROM securefile_check(%s, 'doc')", table)
        if findings > 0:
            raise RuntimeError(f"{table} is not sound")

    def backup(self, size):
        """The whole cluster, that is all engines."""
        programs = part.value(self.conn, "SELECT setting FROM pg_config WHERE name = 'BINDIR'")
        command = [os.path.join(programs, "pg_basebackup"), "-d", self.options.conninfo,
                   "-D", "-", "-Ft", "-X", "fetch", "-c", "fast", "--no-manifest"]
        begun, total = time.monotonic(), 0
        with subprocess.Popen(command, stdout=subprocess.PIPE) as process:
            while found := process.stdout.read(PIECE):
                total += len(found)
        if process.returncode != 0:
            raise RuntimeError("pg_basebackup failed")
        self.note("segment", "base backup, s by GB", "cluster", size,
                  [(time.monotonic() - begun) * GB / total])

    def segment(self):
        objects = 0
        for engine, type_ in self.options.engines.items():
            part.make_table(self.conn, f"grown_{engine}", type_)
        for turn, size in enumerate(self.options.gigabytes):
            wanted = int(size * GB / MB)
            needed = (wanted - objects) * MB * len(self.options.engines)
            if not self.fits(needed, f"segments of {size} GB"):
                break
            for engine in self.options.engines:
                for first in range(objects, wanted, 256):
                    self.fill(f"grown_{engine}", first, min(wanted, first + 256))
                part.clean(self.conn, f"grown_{engine}")
            objects = wanted
            for engine in self.options.engines:
                self.segment_step(engine, size, objects, turn)
            self.backup(size)
        for engine in self.options.engines:
            self.conn.execute(f"DROP TABLE grown_{engine}")

    # ---- an object grows ----

    def write_stream(self, engine, size):
        table, block = f"one_{engine}", part.noise(size, PIECE)
        if engine == "bytea":
            part.insert(self.conn, table, size, (block * (size // PIECE + 1))[:size])
            return
        with self.conn.transaction():
            handle = part.value(self.conn, "SELECT securefile_create(%s, 'doc')", table)
            for at in range(0, size, PIECE):
                self.conn.execute("SELECT securefile_write(%s, %b)",
                                  [handle, block[:min(PIECE, size - at)]])
            self.conn.execute(f"INSERT INTO {table} VALUES (%s, securefile_finish(%s))",
                              [size, handle])

    def read_stream(self, engine, size):
        """Returns after as many bytes as there have to be."""
        table, total = f"one_{engine}", 0
        if engine == "bytea":
            for at in range(0, size, PIECE):
                total += len(self.piece(table, size, at, PIECE))
        else:
            with self.conn.cursor() as cursor, cursor.copy(
                    f"COPY (SELECT securefile_chunks(doc, 1, NULL, {PIECE}) FROM {table}"
                    f" WHERE id = {size}) TO STDOUT (FORMAT binary)") as copy:
                copy.set_types(["bytea"])
                total = sum(len(row[0]) for row in copy.rows())
        if total != size:
            raise RuntimeError(f"{table}: {total} bytes of {size}")

    def piece(self, table, number, at, length):
        return part.value(
            self.conn, f"SELECT substring(doc FROM %s FOR %s) FROM {table} WHERE id = %s",
            at + 1, length, number)

    def append(self, table, number, value):
        self.conn.execute(f"UPDATE {table} SET doc = doc || %b WHERE id = %s", [value, number])

    def object_step(self, engine, size):
        table, x = f"one_{engine}", size / MB
        self.conn.execute("CHECKPOINT")
        self.note("object", "write a stream, MB/s", engine, x,
                  [x / part.seconds(self.write_stream, engine, size)])
        self.note("object", "read a stream, MB/s", engine, x,
                  [x / part.seconds(self.read_stream, engine, size) for _ in range(3)])
        places = random.Random(size).choices(range(size - 8 * KB), k=50)
        self.note("object", "read 8 KB inside, ms", engine, x, [
            1000 * part.seconds(self.piece, table, size, at, 8192) for at in places])
        block = part.noise(1, 64 * KB)
        self.note("object", "append 64 KB, ms", engine, x, [
            1000 * part.seconds(self.append, table, size, block)
            for _ in range(3 if engine == "bytea" else 10)])

    def object(self):
        for size in (int(megabytes * MB) for megabytes in self.options.megabytes):
            if not self.fits(size * len(self.options.engines), f"objects of {size / MB:g} MB"):
                break
            for engine, type_ in self.options.engines.items():
                if engine != "bytea" or size <= MOST_BYTEA:
                    part.make_table(self.conn, f"one_{engine}", type_)
                    self.object_step(engine, size)
                    self.conn.execute(f"DROP TABLE one_{engine}")

    # ---- an old snapshot ----

    def space(self, table):
        """Files of the table, in MB: its own, and those of a segment."""
        usual = part.value(self.conn, "SELECT pg_total_relation_size(%s::regclass)", table)
        if part.is_securefile(self.conn, table):
            usual += part.value(self.conn, "SELECT file_bytes + metadata_bytes"
                                " FROM securefile_usage(%s, 'doc')", table)
        return usual / MB

    def replace(self, table, number, value):
        self.conn.execute(f"UPDATE {table} SET doc = %b WHERE id = %s", [value, number])

    def snapshot_round(self, engine, rows, at):
        table = f"old_{engine}"
        self.note("snapshot", "replace 100 KB, ms", engine, at, [
            1000 * part.seconds(self.replace, table, row, part.noise(f"{row}:{at}", 100 * KB))
            for row in range(rows)])
        self.note("snapshot", "read 100 KB, ms", engine, at, [
            1000 * part.seconds(part.fetch, self.conn, table, row) for row in range(rows)])
        part.clean(self.conn, table)
        self.note("snapshot", "files, MB", engine, at, [self.space(table)])

    def snapshot(self):
        rows, third = (100, 5) if self.options.quick else (1000, 10)
        for engine, type_ in self.options.engines.items():
            part.make_table(self.conn, f"old_{engine}", type_)
            for row in range(rows):
                part.insert(self.conn, f"old_{engine}", row, part.noise(row, 100 * KB))
        with psycopg.connect(self.options.conninfo) as old:
            old.isolation_level = psycopg.IsolationLevel.REPEATABLE_READ
            for at in range(1, 3 * third + 1):
                if at == third + 1:
                    old.execute("SELECT 1")
                elif at == 2 * third + 1:
                    old.rollback()
                for engine in self.options.engines:
                    self.snapshot_round(engine, rows, at)
        for engine in self.options.engines:
            self.conn.execute(f"DROP TABLE old_{engine}")

    # ---- fragments ----

    def chunks(self, table):
        return self.conn.execute(
            "SELECT allocation_bytes, allocation_chunks FROM securefile_stat"
            " WHERE relid = %s::regclass", [table]).fetchone()

    def churn(self, state, until):
        """Replace objects by others of other sizes; returns MB/s."""
        lot, table = state["lot"], state["table"]
        begun, total = time.monotonic(), 0
        while time.monotonic() < until:
            gone = lot.randrange(len(state["live"]))
            self.conn.execute(f"DELETE FROM {table} WHERE id = %s", [state["live"][gone]])
            state["live"][gone] = state["next"]
            total += self.insert_one(state)
        return total / MB / (time.monotonic() - begun)

    def insert_one(self, state):
        size = min(MB, int(8 * KB * 2 ** state["lot"].expovariate(0.35)))
        part.insert(self.conn, state["table"], state["next"], state["block"][:size])
        state["next"] += 1
        return size

    def fragments_turn(self, state, engine, seconds, at):
        table = state["table"]
        inside = part.is_securefile(self.conn, table)
        before = self.chunks(table) if inside else None
        self.note("fragments", "replace, MB/s", engine, at,
                  [self.churn(state, time.monotonic() + seconds)])
        part.clean(self.conn, table)
        begun = time.monotonic()
        total = sum(len(part.fetch(self.conn, table, number))
                    for number in state["lot"].choices(state["live"], k=100))
        self.note("fragments", "read, MB/s", engine, at,
                  [total / MB / (time.monotonic() - begun)])
        live = float(part.value(self.conn, f"SELECT sum(length(doc)) FROM {table}")) / MB
        self.note("fragments", "files by byte in use", engine, at, [self.space(table) / live])
        if inside:
            after = self.chunks(table)
            self.note("fragments", "KB a chunk of space", engine, at,
                      [(after[0] - before[0]) / KB / max(1, after[1] - before[1])])

    def fragments(self):
        turns = 6 if self.options.quick else 20
        seconds = self.options.minutes * 60 / turns / len(self.options.engines)
        states = {}
        for engine, type_ in self.options.engines.items():
            part.make_table(self.conn, f"churned_{engine}", type_)
            state = states[engine] = {
                "table": f"churned_{engine}", "lot": random.Random(1), "next": 0,
                "block": part.noise(2, MB)}
            objects = 1000 if self.options.quick else 10000
            with self.conn.transaction():
                for _ in range(objects):
                    self.insert_one(state)
            state["live"] = list(range(objects))
        for turn in range(1, turns + 1):
            for engine, state in states.items():
                self.fragments_turn(state, engine, seconds, round(turn * seconds / 60, 2))
        for engine in self.options.engines:
            self.conn.execute(f"DROP TABLE churned_{engine}")

    # ---- turnover ----

    def replace_some(self, state, turn, writer, times):
        """One of the writers: an even part of the turn."""
        lot = random.Random(f"{turn}:{writer}")
        with psycopg.connect(self.options.conninfo, autocommit=True) as conn:
            for _ in range(state["rows"] // WRITERS):
                row = WRITERS * lot.randrange(state["rows"] // WRITERS) + writer
                size = min(4 * MB, int(8 * KB * 2 ** lot.expovariate(0.35)))
                times.append(1000 * part.seconds(
                    conn.execute, f"UPDATE {state['table']} SET doc = %b WHERE id = %s",
                    [state["block"][:size], row]))

    def turnover_turn(self, state, engine, turn):
        table, inside = state["table"], part.is_securefile(self.conn, state["table"])
        before, times = self.chunks(table) if inside else None, []
        threads = [threading.Thread(target=self.replace_some, args=(state, turn, writer, times))
                   for writer in range(WRITERS)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        times.sort()
        self.note("turnover", "replace, median ms", engine, turn, [statistics.median(times)])
        self.note("turnover", "replace, p99 ms", engine, turn, [times[len(times) * 99 // 100]])
        part.clean(self.conn, table)
        begun = time.monotonic()
        total = sum(len(part.fetch(self.conn, table, row)) for row in range(state["rows"]))
        self.note("turnover", "read, MB/s", engine, turn, [total / MB / (time.monotonic() - begun)])
        self.note("turnover", "files by byte in use", engine, turn,
                  [self.space(table) * MB / total])
        if inside:
            after = self.chunks(table)
            self.note("turnover", "KB a chunk of space", engine, turn,
                      [(after[0] - before[0]) / KB / max(1, after[1] - before[1])])

    def turnover_start(self, engine, type_):
        state = {"table": f"turned_{engine}", "rows": 320 if self.options.quick else 3200,
                 "block": part.noise(3, 4 * MB)}
        part.make_table(self.conn, state["table"], type_)
        with self.conn.transaction():
            for row in range(state["rows"]):
                part.insert(self.conn, state["table"], row, state["block"][:8 * KB + row])
        return state

    def turnover(self):
        states = {engine: self.turnover_start(engine, type_)
                  for engine, type_ in self.options.engines.items()}
        for turn in range(1, TURNS + 1):
            for engine, state in states.items():
                self.turnover_turn(state, engine, turn)
        for state in states.values():
            self.conn.execute(f"DROP TABLE {state['table']}")

    # ---- results ----

    def lines_of(self, section):
        """By what was measured, by engine: points."""
        found = {}
        for one in self.measured:
            if one["section"] == section:
                found.setdefault(one["what"], {}).setdefault(one["engine"], []).append(
                    (one["x"], one["value"]))
        return found

    def plot(self, section):
        unit = {"segment": "GB in the column", "object": "MB of the object",
                "snapshot": "round", "fragments": "minutes of churn",
                "turnover": "times replaced"}[section]
        log = "x" if section in ("segment", "object") else ""
        name = f"growth_{section}.svg"
        report.lines(os.path.join(self.options.results, name), [
            {"title": what.split(",")[0], "x": unit, "y": what, "lines": lines,
             "log": log + "y" * what.startswith("append")}
            for what, lines in self.lines_of(section).items()])
        return name

    def write(self):
        rows, plots = [], []
        for section in self.options.sections:
            if self.lines_of(section):
                plots.append(self.plot(section))
            for what, lines in self.lines_of(section).items():
                for engine, points in lines.items():
                    first, last = points[0], points[-1]
                    most = max(points, key=lambda point: point[1])
                    rows.append([section, what, engine, *(
                        f"{value:.3g} at {x:g}" for x, value in (first, most, last)),
                        f"{last[1] / first[1]:.2f}"])
        report.part(self.options.results, "growth", "Growth", TEXT,
                    ["section", "what", "engine", "first", "most", "last", "last / first"],
                    rows, plots, self.measured,
                    part.facts(self.conn, self.options, left_out=self.left_out))


def engines(text):
    names = text.split(",")
    if not set(names) <= set(ENGINES):
        raise ValueError(text)
    return {name: ENGINES[name] for name in names}


def numbers(text):
    found = sorted(float(one) for one in text.split(","))
    if found[0] <= 0:
        raise ValueError(text)
    return found


def parse():
    sections = ["segment", "object", "snapshot", "fragments", "turnover"]
    parser = part.parser(__doc__.splitlines()[0])
    parser.add_argument("--gigabytes", type=numbers,
                        help="sizes of segments (1,10; quick 0.25,0.5,1)")
    parser.add_argument("--megabytes", type=numbers,
                        help="sizes of objects (1 to 10000; quick 1 to 256)")
    parser.add_argument("--minutes", type=float,
                        help="of churn, all engines together (10; quick 1)")
    parser.add_argument("--only", choices=sections)
    parser.add_argument("--engines", type=engines, default=ENGINES,
                        help=f"some of {', '.join(ENGINES)}, for a disk that has no room for all")
    options = parser.parse_args()
    options.sections = [options.only] if options.only else sections
    usual = ([0.25, 0.5, 1], [1, 4, 16, 64, 256], 1) if options.quick else \
        ([1, 10], [1, 10, 100, 1000, 10000], 10)
    for name, value in zip(("gigabytes", "megabytes", "minutes"), usual):
        setattr(options, name, getattr(options, name) or value)
    return options


def main():
    options = parse()
    os.makedirs(options.results, exist_ok=True)
    growth = Growth(options)
    for section in options.sections:
        print(f"growth: {section}: {part.seconds(getattr(growth, section)):.0f} s", flush=True)
    growth.write()
    print(f"results: {options.results}")


if __name__ == "__main__":
    main()
