#!/usr/bin/python3
"""Runs the benchmark's matrix in a cluster that exists, and writes what was measured.

    matrix.py [--quick] [--only PATTERN] [--repeat N] [--http DIRECTORY] --drive PROGRAM
              --null LIBRARY --directory DIRECTORY --restart COMMAND --results DIRECTORY
              CONNINFO

The cases are in cases.py; README.md says what the engines are.  In each repetition all
engines take their turn at a case, one after the other, so that other work of the machine
slows them all.  Ratios are computed within a repetition; the table has their medians, with
the least and the most.  A checkpoint follows each turn; the sustained speed counts its
time, too: bytea leaves most of its writing to it.

Results: matrix.json (every measurement), matrix.md, plots (SVG) and index.html, which
shows them beside those of the other programs (report.py).
"""

import json
import os
import re
import shlex
import statistics
import subprocess
import sys
import tempfile
import time

import fio
import part
import report
from cases import BASE, CASES, COMPRESSING, HTTP, LADDER, MB, STORING
from load.arguments import positive

# Bytes that are written before reads are measured, or before space is used again, and the
# sizes of the null engine's file.
READ_BYTES, ONCE_BYTES = 100 * MB, 200 * MB
NULL_BYTES, QUICK_NULL_BYTES = 32 * 100 * MB, 32 * 32 * MB


def files_below(directory):
    return (os.path.join(where, name) for where, _, names in os.walk(directory)
            for name in names)


def evict(path):
    """Takes the clean pages of a file out of the page cache."""
    with open(path, "rb") as file:
        os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)


class Bench:
    """The server, the program that drives it, and what was measured."""

    def __init__(self, options):
        self.options = options
        self.conn = part.connect(self.options)
        self.seconds = 0.25 if options.quick else 0.6
        self.measured = []
        self.files = tempfile.mkdtemp(prefix="files", dir=options.directory)
        self.missing = ([] if options.http else HTTP) + ([] if fio.is_there() else ["fio"])
        if "fio" in self.missing:
            print("bench: fio is not installed: the engine fio is left out", file=sys.stderr)

    def prepare(self):
        self.conn.execute("CREATE EXTENSION IF NOT EXISTS securefile")
        for name, arguments, result in [("null_write", "bytea", "int"),
                                        ("null_read", "int", "bytea"),
                                        ("null_memory", "int", "bytea")]:
            self.conn.execute(f"CREATE FUNCTION {name}({arguments}) RETURNS {result} STRICT"
                              f" AS '{self.options.null}' LANGUAGE C")
        data = self.conn.execute("SHOW data_directory").fetchone()[0]
        with open(os.path.join(data, "null.dat"), "wb") as file:
            owner = os.stat(data)
            os.chown(file.fileno(), owner.st_uid, owner.st_gid)
            for _ in range((QUICK_NULL_BYTES if self.options.quick else NULL_BYTES) // MB):
                file.write(b"\1" * MB)
            os.fsync(file.fileno())

    def drive(self, engine, operation, **more):
        arguments = [self.options.drive, engine, operation]
        for name, value in more.items():
            arguments += [f"--{name.replace('_', '-')}", str(value)]
        done = subprocess.run([*arguments, "--directory", self.directory_of(engine),
                               self.options.conninfo],
                              capture_output=True, text=True, check=False)
        if done.returncode != 0:
            raise RuntimeError(f"{' '.join(arguments)}: {done.stderr.strip()}")
        return json.loads(done.stdout) if done.stdout else None

    def directory_of(self, engine):
        return self.options.http if engine in HTTP else self.files

    def engines_of(self, case):
        return [engine for engine in case.engines if engine not in self.missing]

    def make(self, engines):
        for engine in engines:
            if engine != "fio":
                self.drive(engine, "make")
        self.remove_files(self.files)
        if self.options.http:
            self.remove_files(self.options.http)

    def remove_files(self, directory):
        for path in files_below(directory):
            os.unlink(path)

    def empty(self, case, engine):
        """Deletes what an engine has stored, so that its space can be used again.

        The last object of each client stays: free space at the end of a file would be cut off."""
        # drive numbers the objects of each client from another 10^9 on
        table, last = f"bench_{engine}", f"id % 1000000000 < {self.objects(case)}"
        if engine == "large_object":
            self.conn.execute(f"SELECT count(lo_unlink(doc)) FROM {table} WHERE {last}")
            self.conn.execute("VACUUM (TRUNCATE false) pg_largeobject")
        if engine in ("file", *HTTP):
            for path, in self.conn.execute(f"SELECT doc FROM {table} WHERE {last}"):
                os.unlink(os.path.join(self.directory_of(engine), path))
        self.conn.execute(f"DELETE FROM {table} WHERE {last}")
        self.conn.execute(f"VACUUM (TRUNCATE false) {table}")
        if engine in ("logging", "filesystem_like"):
            self.conn.execute(f"SELECT * FROM securefile_maintain('{table}', 'doc')")

    def cool(self):
        """Restarts the server and takes all of its files out of the page cache."""
        self.conn.execute("CHECKPOINT")
        self.conn.close()
        subprocess.run(shlex.split(self.options.restart), stdout=subprocess.DEVNULL, cwd="/",
                       check=True)
        self.conn = part.connect(self.options)
        for path in files_below(self.options.directory):
            if os.path.isfile(path):
                evict(path)

    def turn(self, case, engine, first, seconds):
        if engine == "fio":
            operation = "write" if case.operation == "write" else "read"
            return fio.measure(os.path.join(self.options.directory, "fio"), operation,
                               case.size, case.clients, seconds)
        # what has no table reads the same, warm or cold
        operation = case.operation if engine in STORING or case.operation == "write" else "read"
        return self.drive(engine, operation, size=case.size, clients=case.clients,
                          per_commit=case.per_commit, seconds=seconds, first=first,
                          objects=self.objects(case))

    def measure(self, case, repetition, engine, first):
        """One turn of an engine; returns how many objects all clients have written, or read."""
        if case.operation == "rewrite":
            self.empty(case, engine)
        self.conn.execute("CHECKPOINT")
        wal = part.wal_position(self.conn)
        # the first turn is not counted: files grow, caches fill
        result = self.turn(case, engine, first,
                           self.seconds if repetition >= 0 else self.seconds / 2)
        result["case"] = case.name
        result["repetition"] = repetition
        result["wal_bytes"] = part.wal_position(self.conn) - wal
        # what was put off until the checkpoint is part of what a write costs
        begun = time.monotonic()
        self.conn.execute("CHECKPOINT")
        result["checkpoint_seconds"] = time.monotonic() - begun
        result["sustained_per_second"] = result["objects"] / (
            result["objects"] / result["per_second"] + result["checkpoint_seconds"])
        self.measured.append(result)
        return result["objects"]

    def objects(self, case):
        """How many objects each client finds before a case, or uses the space of."""
        most = ONCE_BYTES if case.operation in ("rewrite", "read_cold") else READ_BYTES
        return max(1, min(1000, most // case.size // case.clients))

    def load(self, case, engine):
        """By a drive of its own, of one transaction; read_cold and rewrite need one object
        more."""
        if engine in STORING + COMPRESSING + LADDER:
            self.drive(engine, "write", size=case.size, clients=case.clients,
                       per_commit=self.objects(case) + 1, seconds=0)

    def run_case(self, case):
        engines = self.engines_of(case)
        fresh = case.operation in ("write", "read_new")
        cold = case.operation == "read_cold"
        self.make(engines)
        if not fresh:
            for engine in engines:
                self.load(case, engine)
        firsts = dict.fromkeys(engines, 0)
        for repetition in range(0 if cold else -1, self.options.repeat):
            if cold:
                self.cool()
            for engine in engines:
                done = self.measure(case, repetition, engine, firsts[engine])
                firsts[engine] += done if fresh else 0

    def run(self):
        for number, case in enumerate(self.options.cases):
            print(f"{number + 1} of {len(self.options.cases)}: {case.name}", file=sys.stderr,
                  flush=True)
            self.run_case(case)
            print(self.line(case), flush=True)

    def of(self, case, engine):
        return [m for m in self.measured if m["repetition"] >= 0 and m["engine"] == engine and
                m["case"] == case.name]

    def row(self, case):
        """Of each engine: median speed, and ratios to bytea within the repetitions."""
        base = self.of(case, BASE)
        row = {}
        for engine in self.engines_of(case):
            found = self.of(case, engine)
            ratios = [m["per_second"] / b["per_second"] for m, b in zip(found, base)]
            row[engine] = {
                "sustained_ratio": statistics.median(
                    m["sustained_per_second"] / b["sustained_per_second"] for m, b in zip(found, base)),
                "mb_per_second": statistics.median(m["mb_per_second"] for m in found),
                "mb_least": min(m["mb_per_second"] for m in found),
                "mb_most": max(m["mb_per_second"] for m in found),
                "p50_ms": statistics.median(m["p50_ms"] for m in found),
                "p99_ms": statistics.median(m["p99_ms"] for m in found),
                "ratio": statistics.median(ratios), "least": min(ratios), "most": max(ratios)}
        return row

    def line(self, case):
        row = self.row(case)
        return "   " + ", ".join(f"{engine} {row[engine]['mb_per_second']:.4g}"
                                 f" ({row[engine]['ratio']:.2f})" for engine in row)


def parse():
    parser = part.parser(__doc__.splitlines()[0])
    parser.add_argument("--only", default="", help="cases whose names match this pattern")
    parser.add_argument("--repeat", type=positive)
    parser.add_argument("--drive", required=True)
    parser.add_argument("--null", required=True)
    parser.add_argument("--restart", required=True, help="command that restarts the server")
    parser.add_argument("--http", help="of the files of the HTTP server")
    options = parser.parse_args()
    options.repeat = options.repeat or (3 if options.quick else 5)
    try:
        options.cases = [case for case in CASES if re.search(options.only, case.name) and
                         (case.quick or not options.quick)]
    except re.error as error:
        parser.error(f"--only {options.only}: {error}")
    if not options.cases:
        parser.error(f"no case matches {options.only}")
    return options


def main():
    options = parse()
    bench = Bench(options)
    bench.prepare()
    bench.run()
    cases = [case for case in CASES if bench.of(case, BASE)]
    facts = part.facts(bench.conn, options, seconds=bench.seconds, repetitions=options.repeat)
    report.write(options.results, facts, bench.measured,
                 [(case.name,
                   (case.operation, case.size, case.clients, case.per_commit, case.group),
                   bench.row(case)) for case in cases])
    print(f"results: {options.results}")


if __name__ == "__main__":
    main()
