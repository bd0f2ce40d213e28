#!/usr/bin/python3
"""Stores values in which each 4 KB begin with a marker, as parameters of statements.

    markers.py CONNECTION TABLE ID TAG

In TABLE (id, doc) rows get ids from ID on.  No statement has a marker in its text.
"""

import hashlib
import os
import sys

import psycopg


def marker(tag):
    """40 bytes."""
    return hashlib.sha256(b"leak").hexdigest()[:24] + hashlib.sha256(str(tag).encode()).hexdigest()[:16]


def content(tag, length):
    """Bytes that no codec makes shorter, and markers."""
    return b"".join(marker(tag).encode() + os.urandom(4000) for _ in range(length // 4040 + 1))[:length]


def main(connection, table, first, tag):
    """All ways to hand over a parameter."""
    with psycopg.connect(connection) as conn:
        for binary in (True, False):
            cursor = conn.cursor(binary=binary)
            for length in (100, 3000, 100000, 1000000):
                cursor.execute(f"INSERT INTO {table} VALUES (%s, {'%b' if binary else '%t'})",
                               (first, content(tag, length)), prepare=length == 3000)
                first += 1
        for length in (100, 3000, 100000):
            with conn.cursor().copy(f"COPY {table} FROM STDIN") as copy:
                copy.write_row((first, content(tag, length)))
            with conn.cursor().copy(f"COPY {table} FROM STDIN (FORMAT binary)") as copy:
                copy.set_types(["int4", "bytea"])
                copy.write_row((first + 1, content(tag, length)))
            first += 2
        conn.execute(f"UPDATE {table} SET doc = doc || %b WHERE id = %s", (content(tag, 50000), first - 1))
        conn.execute(f"UPDATE {table} SET doc = overlay(doc placing %b FROM 100) WHERE id = %s",
                     (content(tag, 500), first - 2))
        handle = conn.execute(f"SELECT securefile_create('{table}', 'doc')").fetchone()[0]
        for length in (10, 5000, 400000):
            conn.execute("SELECT securefile_write(%s, %b)", (handle, content(tag, length)))
        conn.execute(f"INSERT INTO {table} VALUES (%s, securefile_finish(%s))", (first, handle))
        conn.commit()
        # statements that fail, or are rolled back
        for way in ("INSERT INTO {0} VALUES ({1}, %b)", "INSERT INTO {0} VALUES (-1, %b), ({1}, NULL)"):
            try:
                conn.execute(way.format(table, first), (content(tag, 3000),))
            except psycopg.errors.UniqueViolation:
                pass
            conn.rollback()


main(sys.argv[1], sys.argv[2], int(sys.argv[3]), int(sys.argv[4]))
