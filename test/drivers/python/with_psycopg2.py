"""psycopg2."""

import hashlib
import io

import psycopg2
from psycopg2.extras import execute_values

from trial import LONG, MB, PAYLOADS, ROWS, Stack, bytes_of

stack = Stack("psycopg2", "psycopg2_docs")
stack.make_table()


def store(conn, name, data):
    with conn.cursor() as cursor:
        cursor.execute("INSERT INTO psycopg2_docs (name, document) VALUES (%s, %s)", (name, data))
    conn.commit()


def load(conn, name):
    with conn.cursor() as cursor:
        cursor.execute("SELECT document FROM psycopg2_docs WHERE name = %s", (name,))
        document = cursor.fetchone()[0]
        return None if document is None else bytes(document)  # from a memoryview


def upload(conn, name, file):
    """Store a file of any length, in pieces."""
    with conn, conn.cursor() as cursor:
        cursor.execute("SELECT securefile_create('psycopg2_docs', 'document')")
        new = cursor.fetchone()[0]
        while piece := file.read(1024 * 1024):
            cursor.execute("SELECT securefile_write(%s, %s)", (new, piece))
        cursor.execute("INSERT INTO psycopg2_docs VALUES (%s, securefile_finish(%s))", (name, new))


def download(conn, name, file):
    """Read a file of any length, in pieces."""
    with conn, conn.cursor("pieces") as cursor:
        cursor.itersize = 8
        cursor.execute("SELECT securefile_chunks(document) FROM psycopg2_docs WHERE name = %s", (name,))
        for (piece,) in cursor:
            file.write(piece)


def as_bytes(rows):
    return {name: None if document is None else bytes(document) for name, document in rows}


def many_rows(conn):
    def again(cursor):
        conn.commit()
        cursor.execute("DELETE FROM psycopg2_docs")

    with conn.cursor() as cursor:
        again(cursor)
        cursor.executemany("INSERT INTO psycopg2_docs VALUES (%s, %s)", ROWS.items())
        cursor.execute("SELECT * FROM psycopg2_docs")
        stack.ok(as_bytes(cursor) == ROWS, "executemany")

        again(cursor)
        read = execute_values(cursor, "INSERT INTO psycopg2_docs VALUES %s RETURNING *", list(ROWS.items()), fetch=True)
        stack.ok(as_bytes(read) == ROWS, "execute_values with RETURNING")

        turned = dict(zip(ROWS, reversed(ROWS.values())))
        read = execute_values(
            cursor,
            "INSERT INTO psycopg2_docs VALUES %s ON CONFLICT (name) DO UPDATE SET document = excluded.document RETURNING *",
            list(turned.items()),
            fetch=True,
        )
        stack.ok(as_bytes(read) == turned, "upsert with RETURNING")
        execute_values(
            cursor,
            "UPDATE psycopg2_docs d SET document = v.document FROM (VALUES %s) v (name, document) WHERE d.name = v.name",
            [row for row in ROWS.items() if row[1] is not None],
        )
        cursor.execute("UPDATE psycopg2_docs SET document = %s WHERE name = 'NULL'", (None,))
        conn.commit()
        stack.ok(all(stack.stored(*row) for row in ROWS.items()), "UPDATE from a list of values")

        file = io.BytesIO()
        cursor.copy_expert("COPY psycopg2_docs TO STDOUT (FORMAT binary)", file)
        again(cursor)
        file.seek(0)
        cursor.copy_expert("COPY psycopg2_docs FROM STDIN (FORMAT binary)", file)
        conn.commit()
        stack.ok(all(stack.stored(*row) for row in ROWS.items()), "COPY TO and FROM in binary")

    with conn, conn.cursor("c") as cursor:
        cursor.itersize = 2
        cursor.execute("SELECT * FROM psycopg2_docs")
        stack.ok(as_bytes(cursor) == ROWS, "a cursor of the server")
    with conn, conn.cursor() as cursor:
        for name, data in ROWS.items():
            if data is not None:
                cursor.execute("SELECT name FROM psycopg2_docs WHERE document = %s", (data,))
                stack.ok(cursor.fetchall() == [(name,)], f"WHERE document = %s finds {name}")
        cursor.execute("SELECT document, ARRAY[document] FROM psycopg2_docs WHERE name = '10 B'")
        stack.ok([column.type_code for column in cursor.description] == [17, 1001], "the cursor describes bytea and bytea[]")
        stack.ok([bytes(d) for d in cursor.fetchone()[1]] == [PAYLOADS["10 B"]], "an array")


def arguments(conn):
    with conn, conn.cursor() as cursor:
        cursor.execute("SELECT securefile_digest(%s::securefile, 'sha256')", (b"abc",))
        stack.same(cursor.fetchone()[0], hashlib.sha256(b"abc").digest(), "an argument %s::securefile")
    with conn, conn.cursor() as cursor:
        stack.fails(
            psycopg2.errors.UndefinedFunction,
            lambda: cursor.execute("SELECT securefile_digest(%s, 'sha256')", (b"abc",)),
            "an argument %s without a cast is refused",
        )


def large_ones(conn):
    for size in (0, 5 * MB) + ((200 * MB,) if LONG else ()):
        data = bytes_of(size)
        upload(conn, f"large {size}", io.BytesIO(data))
        stack.ok(stack.stored(f"large {size}", data), f"{size} bytes are written in pieces")
        file = io.BytesIO()
        download(conn, f"large {size}", file)
        stack.same(file.getvalue(), data, f"{size} bytes are read in pieces")


conn = psycopg2.connect("")
stack.part("bytes", stack.round_trip, lambda name, data: store(conn, name, data), lambda name: load(conn, name), "bytes")
stack.part(
    "Binary",
    stack.round_trip,
    lambda name, data: store(conn, name, data and psycopg2.Binary(data)),
    lambda name: load(conn, name),
    "Binary",
)
stack.part("many rows", many_rows, conn)
stack.part("arguments", arguments, conn)
stack.part("large ones", large_ones, conn)
