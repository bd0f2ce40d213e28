#!/usr/bin/python3
"""Values as parameters and results of a driver, in text and binary format.

    parameters.py CONNECTION TABLE

TABLE (id, doc) gets a row for each way and length.  Says how many came back in both
formats, whole and in parts, and were found by their contents.
"""

import os
import sys

import psycopg


def ways(cursor, table, first, content):
    """Stores a value in each way; the ids."""
    for offset, kind in enumerate(("%s", "%b", "%t")):
        cursor.execute(f"INSERT INTO {table} (id, doc) VALUES (%s, {kind})", (first + offset, content))
    cursor.executemany(f"INSERT INTO {table} (id, doc) VALUES (%s, %b)", [(first + 3, content)])
    with cursor.copy(f"COPY {table} (id, doc) FROM STDIN") as copy:
        copy.write_row((first + 4, content))
    with cursor.copy(f"COPY {table} (id, doc) FROM STDIN (FORMAT binary)") as copy:
        copy.set_types(["int4", "bytea"])
        copy.write_row((first + 5, content))
    cursor.execute(f"INSERT INTO {table} (id, doc) VALUES (%s, %b)", (first + 6, b"replaced"))
    cursor.execute(f"UPDATE {table} SET doc = %b WHERE id = %s", (content, first + 6), prepare=True)
    return range(first, first + 7)


def is_right(conn, table, key, content):
    """Is the value of a row what was stored?"""
    for binary in (False, True):
        cursor = conn.cursor(binary=binary)
        whole, part, found = cursor.execute(
            f"SELECT doc, substring(doc FROM %s FOR %s), doc = %b FROM {table} WHERE id = %s",
            (5, 100000, content, key)).fetchone()
        if bytes(whole) != content or bytes(part) != content[4:100004] or not found:
            return False
    rows = conn.execute(f"SELECT id FROM {table} WHERE doc = ANY (%s)", ([content, b"none"],)).fetchall()
    return (key,) in rows


def main(connection, table):
    """All ways with all lengths."""
    right = first = 0
    with psycopg.connect(connection) as conn:
        for length in (1, 10, 4000, 4001, 131072, 400000):
            content = os.urandom(length // 2) + bytes(length - length // 2)
            keys = ways(conn.cursor(), table, 100000 + first, content)
            right += sum(is_right(conn, table, key, content) for key in keys)
            first += len(keys)
    print(f"{right} of {first}")


main(*sys.argv[1:])
