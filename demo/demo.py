#!/usr/bin/python3
"""What the demo shows: a directory tree in a securefile column beside a bytea one.

    demo.py --dsn DSN --dir DIR --size-mb N load|compare|reload|copy

load: both tables from the tree, with rates, space and counters.
compare: every file's SHA-256 in the table against the disk, and securefile_check().
reload: half of the files deleted and loaded again; the segment must not grow.
copy: the same files as a tree below --to, for the command to import.
"""

import argparse
import datetime
import hashlib
import os
import select
import shutil
import sys
import time

import psycopg

MB = 1e6
LARGEST = 256 * 1024 * 1024		# files larger than this are left out
SLACK = 8 * 1024 * 1024			# what a session may have reserved: two gather buffers
COMMIT_FILES = 200
COMMIT_BYTES = 64 * 1024 * 1024


def say(text):
    print(f"\n== {text}", flush=True)


def scan(options):
    """Files of the tree, sorted, up to the size cap: [(path, size)]."""
    files, total = [], 0
    for top, dirs, names in os.walk(options.dir):
        dirs.sort()
        for name in sorted(names):
            path = os.path.join(top, name)
            try:
                # names that are no text, and whatever is no plain file, stay out
                path.encode()
                if os.path.islink(path) or not os.path.isfile(path):
                    continue
                size = os.path.getsize(path)
                readable = os.access(path, os.R_OK)
            except (OSError, UnicodeEncodeError):
                continue
            if not readable or size > LARGEST:
                continue
            if total + size > options.size_mb * 1024 * 1024:
                return files, total
            files.append((path, size))
            total += size
    return files, total


def read(path):
    with open(path, "rb") as file:
        return file.read()


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
                f"{self.seconds():.1f} s")
        tty = sys.stdout.isatty()
        if tty or end:
            print(f"\r{line:<78}" if tty else line, end=end, flush=True)

    def seconds(self):
        return time.time() - self.start


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


def load_files(conn, table, files, what):
    """INSERT each file with binary parameters; returns the seconds it took."""
    progress = Progress(what, len(files), sum(size for _, size in files))
    statement = f"INSERT INTO {table} VALUES (%b, %b, %b)"
    for batch in batches(files):
        # statements of a batch go out without waiting for the one before
        with conn.pipeline():
            for path, size in batch:
                modified = datetime.datetime.fromtimestamp(os.path.getmtime(path),
                                                           datetime.timezone.utc)
                conn.execute(statement, (path, modified, read(path)))
                progress.step(size)
            flush(conn)
        conn.commit()
    progress.show("\n")
    return progress.seconds()


def create(conn):
    columns = "(path text PRIMARY KEY, modified timestamptz, document {})"
    conn.execute("CREATE EXTENSION securefile")
    conn.execute("CREATE TABLE files " + columns.format("securefile"))
    conn.execute("CREATE TABLE files_bytea " + columns.format("bytea"))
    conn.execute("ALTER TABLE files_bytea ALTER document SET STORAGE EXTERNAL")
    conn.commit()


def load(conn, options):
    files, total = scan(options)
    say(f"{len(files)} files of {options.dir}, {total / MB:.0f} MB; reading them once, "
        "so that the disk is warm for both")
    for path, _ in files:
        read(path)
    create(conn)
    say("loading")
    rows = []
    for table, kind in (("files", "securefile"), ("files_bytea", "bytea")):
        seconds = load_files(conn, table, files, kind)
        rows.append((kind, total / MB / seconds, len(files) / seconds, seconds,
                     space(conn, table)))
    say("rate and space")
    print(f"{'column':<12}{'MB/s':>10}{'files/s':>10}{'seconds':>10}{'on disk, MB':>14}")
    for kind, rate, per_second, seconds, used in rows:
        print(f"{kind:<12}{rate:>10.0f}{per_second:>10.0f}{seconds:>10.1f}{used / MB:>14.0f}")
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
    """Every file of the table against the disk; the check function besides."""
    files, total = scan(options)
    say("comparing every file's SHA-256 with the disk")
    progress = Progress("compared", len(files), total)
    left = dict(files)
    wrong = []
    with conn.cursor("compare", binary=True) as cur:
        cur.execute("SELECT path, securefile_digest(document, 'sha256') FROM files")
        for path, digest in cur:
            size = left.pop(path, None)
            if size is None or hashlib.sha256(read(path)).digest() != bytes(digest):
                wrong.append(path)
            progress.step(size or 0)
    progress.show("\n")
    findings = conn.execute("SELECT * FROM securefile_check('files', 'document')").fetchall()
    print(f"{len(wrong)} differ, {len(left)} missing; securefile_check finds {len(findings)}")
    if wrong or left or findings:
        sys.exit(f"demo: FAILED: {(wrong + sorted(left))[:3]} {findings[:3]}")


def reload(conn, options):
    """Half of the files deleted and loaded again: the segment must not grow."""
    files, _ = scan(options)
    half = files[:len(files) // 2]
    say(f"deleting {len(half)} of {len(files)} files, loading them again")
    before = file_bytes(conn)
    with conn.cursor() as cur:
        cur.executemany("DELETE FROM files WHERE path = %s", [(path,) for path, _ in half])
    conn.commit()
    load_files(conn, "files", half, "securefile")
    after = file_bytes(conn)
    print(f"data files: {before / MB:.1f} MB before, {after / MB:.1f} MB after")
    show_usage(conn)
    if after > before + SLACK:
        sys.exit("demo: FAILED: the segment grew")


def copy(_conn, options):
    """The files as a tree of their own: no links, nothing unreadable, no more than the cap."""
    files, total = scan(options)
    say(f"copying {len(files)} files, {total / MB:.0f} MB, to {options.to}")
    for path, _ in files:
        target = os.path.join(options.to, os.path.relpath(path, options.dir))
        os.makedirs(os.path.dirname(target), exist_ok=True)
        shutil.copyfile(path, target)


def file_bytes(conn):
    size = conn.execute("SELECT file_bytes FROM securefile_usage('files', 'document')").fetchone()[0]
    conn.commit()
    return size


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--dsn", required=True)
    parser.add_argument("--dir", required=True)
    parser.add_argument("--size-mb", type=int, default=1024)
    parser.add_argument("step", choices=["load", "compare", "reload", "copy"])
    parser.add_argument("--to")
    options = parser.parse_args()
    with psycopg.connect(options.dsn) as conn:
        {"load": load, "compare": compare, "reload": reload, "copy": copy}[options.step](conn, options)


if __name__ == "__main__":
    main()
