#!/usr/bin/python3
"""What the demo shows: a directory tree in a securefile column beside a bytea one.

    demo.py --dsn DSN --tree COPY [--dir DIR --size-mb N] copy|load|compare|reload|figures

copy: files of all sizes from DIR, and larger ones that are made of them, to COPY.
load: both tables from the copy, in turns, with rates, space and counters.
compare: every file's SHA-256 in the table against the copy, and securefile_check().
reload: half of the files deleted and loaded again; the segment must not grow.
figures: speed beside bytea, by size; see figures.py.
"""

import argparse
import datetime
import hashlib
import os
import select
import sys
import time

import psycopg

import figures
import tree

MB = 1e6
SLACK = 8 * 1024 * 1024			# what a session may have reserved: two gather buffers
COMMIT_FILES = 200
COMMIT_BYTES = 64 * 1024 * 1024
TABLES = {"files": "securefile", "files_bytea": "bytea"}


def say(text):
    print(f"\n== {text}", flush=True)


class Progress:
    """A line that is written over, a few times a second."""

    def __init__(self, what, files, total):
        self.what, self.files, self.total = what, files, total
        self.start = self.shown = time.time()
        self.done_files = self.done_bytes = 0

    def step(self, size):
        self.done_files += 1
        self.done_bytes += size
        if time.time() - self.shown > 0.5:
            self.show()

    def show(self, end=""):
        self.shown = time.time()
        line = (f"{self.what}: {self.done_files} of {self.files} files, "
                f"{self.done_bytes / MB:.0f} of {self.total / MB:.0f} MB, "
                f"{time.time() - self.start:.1f} s")
        tty = sys.stdout.isatty()
        if tty or end:
            print(f"\r{line:<78}" if tty else line, end=end, flush=True)


def batches(files):
    """Cut a list of files into what makes a transaction."""
    batch, size_bytes = [], 0
    for path, size in files:
        batch.append((path, size))
        size_bytes += size
        if len(batch) >= COMMIT_FILES or size_bytes >= COMMIT_BYTES:
            yield batch
            batch, size_bytes = [], 0
    if batch:
        yield batch


def flush(conn):
    """Send what libpq still holds.  At the end of a pipeline psycopg before 3.1.18 does
    not do this, and then waits for answers to what it has not sent."""
    while conn.pgconn.flush():
        select.select([], [conn.fileno()], [])


def load_batch(conn, options, table, batch):
    """INSERT each file with binary parameters, in one transaction; the seconds it took."""
    began = time.monotonic()
    statement = f"INSERT INTO {table} VALUES (%b, %b, %b)"
    # statements of a batch go out without waiting for the one before
    with conn.pipeline():
        for path, _ in batch:
            where = os.path.join(options.tree, path)
            modified = datetime.datetime.fromtimestamp(os.path.getmtime(where),
                                                       datetime.timezone.utc)
            conn.execute(statement, (path, modified, tree.read(where)))
        flush(conn)
    conn.commit()
    return time.monotonic() - began


def load_files(conn, options, tables, files, what):
    """Each batch into each table, in turns, so that other work slows all of them."""
    progress = Progress(what, len(files), sum(size for _, size in files))
    seconds = dict.fromkeys(tables, 0.0)
    order = list(tables)
    for batch in batches(files):
        for table in order:
            seconds[table] += load_batch(conn, options, table, batch)
        order.reverse()
        for _, size in batch:
            progress.step(size)
    progress.show("\n")
    return seconds


def create(conn):
    conn.execute("CREATE EXTENSION securefile")
    for table, kind in TABLES.items():
        conn.execute(f"CREATE TABLE {table}"
                     f" (path text PRIMARY KEY, modified timestamptz, document {kind})")
    conn.execute("ALTER TABLE files_bytea ALTER document SET STORAGE EXTERNAL")
    conn.commit()


def load(conn, options):
    files, total = tree.scan(options.tree)
    create(conn)
    say("loading the copy into both tables, a transaction of each in turn")
    seconds = load_files(conn, options, TABLES, files, "loaded")
    say("rate and space of the load; all in all, small files and large ones")
    print(f"{'column':<12}{'MB/s':>10}{'files/s':>10}{'seconds':>10}{'on disk, MB':>14}")
    for table, kind in TABLES.items():
        took = seconds[table]
        print(f"{kind:<12}{total / MB / took:>10.0f}{len(files) / took:>10.0f}{took:>10.1f}"
              f"{space(conn, table) / MB:>14.0f}")
    print("(bytea with STORAGE EXTERNAL: neither column compresses)")
    show_usage(conn)
    say("counters of the securefile column")
    show_row(conn, "SELECT * FROM securefile_stat WHERE relid = 'files'::regclass")


def space(conn, table):
    """Bytes of a table with everything that belongs to it."""
    size = conn.execute(f"SELECT pg_total_relation_size('{table}')").fetchone()[0]
    if table == "files":
        usage = conn.execute("SELECT file_bytes + metadata_bytes"
                             " FROM securefile_usage('files', 'document')").fetchone()
        size += usage[0]
    return size


def show_usage(conn):
    say("space of the segment")
    show_row(conn, "SELECT * FROM securefile_usage('files', 'document')")


def show_row(conn, query):
    cur = conn.execute(query)
    for row in cur.fetchall():
        for column, value in zip(cur.description, row):
            print(f"  {column.name:<24}{value}")


def compare(conn, options):
    """Every file of the table against the copy; the check function besides."""
    files, total = tree.scan(options.tree)
    say("comparing every file's SHA-256 with the copy")
    progress = Progress("compared", len(files), total)
    left = dict(files)
    wrong = []
    with conn.cursor("compare", binary=True) as cur:
        cur.execute("SELECT path, securefile_digest(document, 'sha256') FROM files")
        for path, digest in cur:
            size = left.pop(path, None)
            if size is None or digest_of(options, path) != bytes(digest):
                wrong.append(path)
            progress.step(size or 0)
    progress.show("\n")
    findings = conn.execute("SELECT * FROM securefile_check('files', 'document')").fetchall()
    print(f"{len(wrong)} differ, {len(left)} missing; securefile_check finds {len(findings)}")
    if wrong or left or findings:
        sys.exit(f"demo: FAILED: {(wrong + sorted(left))[:3]} {findings[:3]}")


def digest_of(options, path):
    return hashlib.sha256(tree.read(os.path.join(options.tree, path))).digest()


def reload(conn, options):
    """Half of the files deleted and loaded again: the segment must not grow."""
    files, _ = tree.scan(options.tree)
    half = files[:len(files) // 2]
    say(f"deleting {len(half)} of {len(files)} files, loading them again")
    before = file_bytes(conn)
    with conn.cursor() as cur:
        cur.executemany("DELETE FROM files WHERE path = %s", [(path,) for path, _ in half])
    conn.commit()
    load_files(conn, options, ["files"], half, "loaded again")
    after = file_bytes(conn)
    print(f"data files: {before / MB:.1f} MB before, {after / MB:.1f} MB after")
    show_usage(conn)
    if after > before + SLACK:
        sys.exit("demo: FAILED: the segment grew")


def file_bytes(conn):
    size = conn.execute("SELECT file_bytes FROM securefile_usage('files', 'document')").fetchone()[0]
    conn.commit()
    return size


def copy(options):
    say(f"copying files of all sizes from {options.dir} to {options.tree}")
    for line in tree.copy(options.dir, options.tree, options.size_mb * 1024 * 1024):
        print(line, flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--dsn", required=True)
    parser.add_argument("--tree", required=True, help="where the copy is")
    parser.add_argument("--dir", help="what is copied")
    parser.add_argument("--size-mb", type=int, default=512)
    parser.add_argument("step", choices=["copy", "load", "compare", "reload", "figures"])
    options = parser.parse_args()
    if options.step == "copy":
        copy(options)
    elif options.step == "figures":
        say("speed beside bytea, by size")
        figures.show(options.dsn, options.tree)
    else:
        with psycopg.connect(options.dsn) as conn:
            {"load": load, "compare": compare, "reload": reload}[options.step](conn, options)


if __name__ == "__main__":
    main()
