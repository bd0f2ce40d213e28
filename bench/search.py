#!/usr/bin/python3
"""Measures searches and comparisons beside a digest, which reads all bytes and sees each once.

    search.py [--megabytes N] [--rounds N] [--only PATTERN] CONNINFO

Each round computes securefile_digest(document, 'xxh3') of a value, and then looks in it for
patterns that are not there, of 1 to 100000 bytes.  A figure is the processor time of the
digest in that round divided by that of the search (utime and stime of the backend, by the
scheduler's clock): 1 is as fast as reading.  Printed are the median of all rounds, and the
least and the most.

A pattern is cut out of the content, with another last byte.  Of random bytes all patterns of
one and two bytes are there, so there the last of all places is asked for.  Hostile contents
are made of the beginnings of their patterns.

Compared are two values of the same bytes in two tables, beside the operator =.

Works where the server runs on this machine, in which the values should fit into memory.
"""

import argparse
import random
import re
import statistics

import psycopg

from load.contents import KINDS

BLOCK = 16 << 20
LENGTHS = [1, 2, 5, 16, 256, 100000]
COLUMNS = {"random": [""], "zeros": [""],
           "text": ["", "nocache", "compress_low", "compress_medium", "encrypt", "hash"]}
HOSTILE = {
    "a, for a..ab": (b"a", lambda n: b"a" * (n - 1) + b"b"),
    "a, for ba..a": (b"a", lambda n: b"b" + b"a" * (n - 1)),
    "a, for a..aba..a": (b"a", lambda n: b"a" * (n // 2) + b"b" + b"a" * (n - n // 2 - 1)),
    "ab, for (ab)aa(ab)": (b"ab", lambda n: b"ab" * (n // 4) + b"aa" + b"ab" * (n // 4)),
    "a..ab, for a..a": (b"a" * 99 + b"b", lambda n: b"a" * n),
}
ABSENT = b"\x01"


def seconds(pid):
    """Processor time of a process."""
    with open(f"/proc/{pid}/schedstat", encoding="ascii") as file:
        return int(file.read().split()[0]) / 1e9


class Column:
    """A table of one value, by a session of its own."""

    def __init__(self, conn, table, type_, block, megabytes):
        self.conn, self.table = conn, table
        self.pid = conn.execute("SELECT pg_backend_pid()").fetchone()[0]
        conn.execute(f"DROP TABLE IF EXISTS {table}")
        conn.execute(f"CREATE TABLE {table} (document securefile{type_ and f'({type_})'})")
        conn.execute("CREATE TEMP TABLE IF NOT EXISTS block (bytes bytea)")
        conn.execute("TRUNCATE block")
        conn.execute("INSERT INTO block VALUES (%b)", [block])
        conn.execute(f"INSERT INTO {table} SELECT bytes::securefile FROM block")
        doublings = max(0, ((megabytes << 20) // BLOCK).bit_length() - 1)
        for _ in range(doublings):
            conn.execute(f"UPDATE {table} SET document = document || document")
        conn.execute("CHECKPOINT")

    def cost(self, expression, *arguments):
        before = seconds(self.pid)
        self.conn.execute(f"SELECT {expression} FROM {self.table}", arguments).fetchone()
        return seconds(self.pid) - before


def line(*cells):
    print("| " + " | ".join(cells) + " |", flush=True)


def spread(ratios):
    return f"{statistics.median(ratios):.2f} ({min(ratios):.2f}, {max(ratios):.2f})"


def rare_pair(block):
    """Two frequent bytes that never follow each other."""
    there = set(zip(block, block[1:]))
    frequent = sorted(range(256), key=lambda b: -block[:1000000].count(bytes([b])))
    pairs = ((i + j, bytes([a, b])) for i, a in enumerate(frequent[:64])
             for j, b in enumerate(frequent[:64]) if (a, b) not in there)
    return min(pairs, default=(0, frequent[0].to_bytes(1, "big") + ABSENT))[1]


def patterns(kind, block):
    """By length: a pattern, and which place is wanted."""
    made = {}
    for length in LENGTHS:
        pattern = block[1000:1000 + length - 1] + ABSENT
        if kind == "text" and length == 2:
            pattern = rare_pair(block)
        made[length] = (pattern, 1 << 62 if kind == "random" and length < 3 else 1)
    return made


def measure_searches(column, wanted, rounds):
    ratios = {name: [] for name in wanted}
    for _ in range(rounds + 1):
        digest = column.cost("securefile_digest(document, 'xxh3')")
        for name, (pattern, nth) in wanted.items():
            ratios[name].append(digest / column.cost(
                "securefile_position(document, %b, 1, %s)", pattern, nth))
    # the first round finds nothing in the caches
    return {name: all_[1:] for name, all_ in ratios.items()}


def measure_compare(column, other, rounds):
    both = f"(SELECT document FROM {other.table})"
    ratios = []
    for _ in range(rounds + 1):
        equal = column.cost(f"document = {both}")
        ratios.append(equal / column.cost(f"securefile_compare(document, {both})"))
    return ratios[1:]


def main():
    options = argparse.ArgumentParser(description=__doc__,
                                      formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--megabytes", type=int, default=1024)
    options.add_argument("--rounds", type=int, default=7)
    options.add_argument("--only", default="", help="contents and columns, a regular expression")
    options.add_argument("conninfo")
    options = options.parse_args()
    conn = psycopg.connect(options.conninfo, autocommit=True)
    conn.execute("CREATE EXTENSION IF NOT EXISTS securefile")
    lot = random.Random(1)

    line("content", "column", *(f"{length} bytes" for length in LENGTHS))
    for kind, columns in COLUMNS.items():
        block = KINDS[kind](lot, BLOCK)
        for type_ in columns:
            if re.search(options.only, f"{kind} {type_}"):
                column = Column(conn, "one", type_, block, options.megabytes)
                ratios = measure_searches(column, patterns(kind, block), options.rounds)
                line(kind, type_ or "none", *(spread(one) for one in ratios.values()))
    for name, (word, pattern) in HOSTILE.items():
        if re.search(options.only, f"hostile {name}"):
            block = (word * (BLOCK // len(word) + 1))[:BLOCK]
            column = Column(conn, "one", "", block, options.megabytes)
            wanted = {length: (pattern(length), 1 << 62) for length in LENGTHS[2:]}
            ratios = measure_searches(column, wanted, options.rounds)
            line("hostile", name, "", "", *(spread(one) for one in ratios.values()))
    if re.search(options.only, "compare"):
        block = KINDS["random"](lot, BLOCK)
        pair = [Column(conn, table, "", block, options.megabytes) for table in ("one", "two")]
        line("compare", "none", spread(measure_compare(*pair, options.rounds)))
    conn.execute("DROP TABLE IF EXISTS one, two")


if __name__ == "__main__":
    main()
