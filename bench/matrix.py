#!/usr/bin/python3
"""Runs the benchmark's matrix in a cluster that exists, and writes what was measured.

    matrix.py [--quick] [--only PATTERN] [--repeat N] --drive PROGRAM --null LIBRARY
              --results DIRECTORY CONNINFO

A case is an operation, a size, a number of clients and how many objects a transaction
writes.  In each repetition all engines take their turn at it, one after the other, so that
other work of the machine slows them all.  Ratios are computed within a repetition; the
table has their medians, with the least and the most.  A checkpoint follows each turn; the
sustained speed counts its time, too: bytea leaves most of its writing to it.

Results: results.json (every measurement), table.md, plots (SVG) and index.html, which
shows all of it.
"""

import argparse
import datetime
import json
import os
import platform
import re
import shutil
import statistics
import subprocess
import sys
import tempfile
import time

import psycopg

import report

KB, MB = 1000, 1000000

# The kinds of the papers, and the sizes between them.
KINDS = {10 * KB: "e-mail", 100 * KB: "document", MB: "image", 10 * MB: "large image",
         97 * MB: "video"}

STORING = ["bytea", "logging", "filesystem_like", "large_object", "file"]
ENGINES = STORING + ["null", "wal", "connection"]
COMPRESSING = ["bytea_lz4", "bytea_pglz"]
BASE = "bytea"

# operation, size, clients, objects a transaction, engines
CASES = [
    ("write", 10 * KB, 1, 1, ENGINES + COMPRESSING),
    ("write", 10 * KB, 8, 1, ENGINES),
    ("write", 10 * KB, 1, 100, ENGINES),
    ("write", 100 * KB, 1, 1, ENGINES),
    ("write", 100 * KB, 8, 1, ENGINES),
    ("write", 100 * KB, 1, 100, ENGINES),
    ("write", MB, 1, 1, ENGINES + COMPRESSING),
    ("write", MB, 4, 1, ENGINES),
    ("write", 10 * MB, 1, 1, ENGINES),
    ("write", 97 * MB, 1, 1, ENGINES),
    ("read_new", 10 * KB, 1, 1, STORING),
    ("read_new", 100 * KB, 1, 1, STORING),
    ("read", 10 * KB, 1, 1, ENGINES + COMPRESSING),
    ("read", 10 * KB, 8, 1, ENGINES),
    ("read", 100 * KB, 1, 1, ENGINES),
    ("read", MB, 1, 1, ENGINES + COMPRESSING),
    ("read", MB, 4, 1, ENGINES),
    ("read", 10 * MB, 1, 1, ENGINES),
    ("read", 97 * MB, 1, 1, ENGINES),
]

# Bytes that are written before reads are measured, and the size of the null engine's file.
READ_BYTES = 200 * MB
NULL_BYTES = 64 * 128 * 1024 * 1024


def case_name(case):
    operation, size, clients, per_commit, _ = case
    human = f"{size // MB} MB" if size >= MB else f"{size // KB} KB"
    words = {"write": "write", "read": "read, warm", "read_new": "read, just written"}[operation]
    more = f", {per_commit} a commit" if per_commit > 1 else ""
    return f"{words}, {human}, {clients} client{'s' if clients > 1 else ''}{more}"


class Bench:
    """The server, the program that drives it, and what was measured."""

    def __init__(self, options):
        self.options = options
        self.conn = psycopg.connect(options.conninfo, autocommit=True, client_encoding="utf8")
        self.seconds = 1 if options.quick else 4
        self.measured = []
        self.files = tempfile.mkdtemp(prefix="files", dir=options.directory)

    def prepare(self):
        self.conn.execute("CREATE EXTENSION IF NOT EXISTS securefile")
        for name, arguments, result in [("null_write", "bytea", "int"), ("null_read", "int", "bytea"),
                                        ("null_memory", "int", "bytea")]:
            self.conn.execute(f"CREATE FUNCTION {name}({arguments}) RETURNS {result} STRICT"
                              f" AS '{self.options.null}' LANGUAGE C")
        data = self.conn.execute("SHOW data_directory").fetchone()[0]
        with open(os.path.join(data, "null.dat"), "wb") as file:
            owner = os.stat(data)
            os.chown(file.fileno(), owner.st_uid, owner.st_gid)
            for _ in range(NULL_BYTES // (1 << 24) if not self.options.quick else 64):
                file.write(b"\1" * (1 << 24))
            os.fsync(file.fileno())

    def drive(self, engine, operation, **more):
        arguments = [self.options.drive, engine, operation]
        for name, value in more.items():
            arguments += [f"--{name.replace('_', '-')}", str(value)]
        done = subprocess.run([*arguments, "--directory", self.files, self.options.conninfo],
                              capture_output=True, text=True, check=False)
        if done.returncode != 0:
            raise RuntimeError(f"{' '.join(arguments)}: {done.stderr.strip()}")
        return json.loads(done.stdout) if done.stdout else None

    def make(self, engines):
        for engine in engines:
            self.drive(engine, "make")
        shutil.rmtree(self.files)
        os.mkdir(self.files)

    def measure(self, case, repetition, engine, first):
        """One turn of an engine; returns how many objects all clients have written, or read."""
        operation, size, clients, per_commit, _ = case
        self.conn.execute("CHECKPOINT")
        cost = self.cost()
        result = self.drive(engine, operation, size=size, clients=clients, per_commit=per_commit,
                            seconds=self.seconds, first=first,
                            objects=max(1, min(1000, READ_BYTES // size // clients)))
        result["repetition"] = repetition
        result["wal_bytes"] = self.cost() - cost
        # what was put off until the checkpoint is part of what a write costs
        begun = time.monotonic()
        self.conn.execute("CHECKPOINT")
        result["checkpoint_seconds"] = time.monotonic() - begun
        result["sustained_per_second"] = result["objects"] / (
            result["objects"] / result["per_second"] + result["checkpoint_seconds"])
        self.measured.append(result)
        return result["objects"]

    def cost(self):
        return int(self.conn.execute("SELECT pg_current_wal_insert_lsn() - '0/0'").fetchone()[0])

    def load_for_reads(self, case, engine):
        """Objects that reads find.  By a drive of its own, of one transaction."""
        _, size, clients, _, _ = case
        objects = max(1, min(1000, READ_BYTES // size // clients))
        if engine not in STORING + COMPRESSING:
            return
        self.drive(engine, "write", size=size, clients=clients, per_commit=objects, seconds=0.001)

    def run_case(self, case):
        operation, _, _, _, engines = case
        self.make(engines)
        if operation == "read":
            for engine in engines:
                self.load_for_reads(case, engine)
        firsts = dict.fromkeys(engines, 0)
        for repetition in range(-1, self.options.repeat):
            for engine in engines:
                # the first turn is not counted: files grow, caches fill
                done = self.measure(case, repetition, engine, firsts[engine])
                if operation != "read":
                    firsts[engine] += done

    def run(self):
        cases = [case for case in CASES if re.search(self.options.only, case_name(case))]
        for number, case in enumerate(cases):
            print(f"{number + 1} of {len(cases)}: {case_name(case)}", file=sys.stderr, flush=True)
            self.run_case(case)
            print(self.line(case), flush=True)

    def of(self, case, engine):
        operation, size, clients, per_commit, _ = case
        return [m for m in self.measured if m["repetition"] >= 0 and m["engine"] == engine and
                (m["operation"], m["size"], m["clients"], m["per_commit"]) ==
                (operation, size, clients, per_commit)]

    def row(self, case):
        """Of each engine: median speed, and ratios to bytea within the repetitions."""
        base = self.of(case, BASE)
        row = {}
        for engine in case[4]:
            found = self.of(case, engine)
            ratios = [m["per_second"] / b["per_second"] for m, b in zip(found, base)]
            row[engine] = {
                "sustained_ratio": statistics.median(
                    m["sustained_per_second"] / b["sustained_per_second"] for m, b in zip(found, base)),
                "mb_per_second": statistics.median(m["mb_per_second"] for m in found),
                "p50_ms": statistics.median(m["p50_ms"] for m in found),
                "p99_ms": statistics.median(m["p99_ms"] for m in found),
                "ratio": statistics.median(ratios), "least": min(ratios), "most": max(ratios)}
        return row

    def line(self, case):
        row = self.row(case)
        return "   " + ", ".join(f"{engine} {row[engine]['mb_per_second']:.4g}"
                                 f" ({row[engine]['ratio']:.2f})" for engine in case[4])


def facts(bench):
    """Machine, settings, versions: what the numbers belong to."""
    def query(sql):
        return bench.conn.execute(sql).fetchone()[0]

    def first_line(path, pattern):
        with open(path, encoding="utf-8") as file:
            found = re.search(pattern, file.read())
        return found.group(1) if found else "unknown"
    settings = dict(bench.conn.execute(
        "SELECT name, current_setting(name) FROM pg_settings WHERE source = 'configuration file'"
        " OR name LIKE 'securefile.%' ORDER BY 1").fetchall())
    for secret in ("securefile.key_command", "unix_socket_directories"):
        settings.pop(secret, None)
    return {"date": datetime.datetime.now().isoformat(timespec="seconds"),
            "commit": bench.options.commit, "server": query("SELECT version()"),
            "kernel": platform.release(), "processors": os.cpu_count(),
            "processor": first_line("/proc/cpuinfo", r"model name\s*: (.*)"),
            "memory": first_line("/proc/meminfo", r"MemTotal:\s*(.*)"),
            "settings": settings, "seconds": bench.seconds, "repetitions": bench.options.repeat,
            "quick": bench.options.quick}


def parse():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="minutes: short turns, 3 repetitions")
    parser.add_argument("--only", default="", help="cases whose names match this pattern")
    parser.add_argument("--repeat", type=int)
    parser.add_argument("--drive", required=True)
    parser.add_argument("--null", required=True)
    parser.add_argument("--commit", default="unknown")
    parser.add_argument("--results", required=True)
    parser.add_argument("--directory", required=True, help="for files beside the database")
    parser.add_argument("conninfo")
    options = parser.parse_args()
    options.repeat = options.repeat or (3 if options.quick else 7)
    return options


def main():
    options = parse()
    bench = Bench(options)
    bench.prepare()
    bench.run()
    cases = [case for case in CASES if bench.of(case, BASE)]
    report.write(options.results, facts(bench), bench.measured,
                 [(case_name(case), KINDS.get(case[1], ""), case[:4], bench.row(case))
                  for case in cases])
    print(f"results: {options.results}")


if __name__ == "__main__":
    main()
