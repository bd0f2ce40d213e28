"""psycopg 3."""

import functools
import hashlib
import io

import psycopg

from trial import LONG, MB, PAYLOADS, ROWS, Stack, bytes_of

stack = Stack("psycopg", "psycopg_docs")
stack.make_table()


def store(conn, name, data):
    conn.execute("INSERT INTO psycopg_docs (name, document) VALUES (%s, %s)", (name, data))


def load(conn, name):
    return conn.execute("SELECT document FROM psycopg_docs WHERE name = %s", (name,)).fetchone()[0]


def upload(conn, name, file):
    """Store a file of any length, in pieces."""
    with conn.transaction(), conn.pipeline():
        new = conn.execute("SELECT securefile_create('psycopg_docs', 'document')").fetchone()[0]
        while piece := file.read(1024 * 1024):
            conn.execute("SELECT securefile_write(%s, %b)", (new, piece))
        conn.execute("INSERT INTO psycopg_docs VALUES (%s, securefile_finish(%s))", (name, new))


def download(conn, name, file):
    """Read a file of any length, in pieces."""
    with conn.cursor(binary=True) as cursor:
        for (piece,) in cursor.stream("SELECT securefile_chunks(document) FROM psycopg_docs WHERE name = %s", (name,)):
            file.write(piece)


LENGTH_FIRST = """
BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY;
SELECT length(document) FROM docs WHERE name = $1;             -- no row, or NULL, or the length
SELECT securefile_chunks(document) FROM docs WHERE name = $1;
COMMIT;
"""


def length_first(conn):
    """What tells no row, NULL and the empty document from each other; the other session's update does not show."""
    begin, ask, read, commit = LENGTH_FIRST.replace(" docs ", " psycopg_docs ").strip().splitlines()
    cursor = psycopg.RawCursor(conn)
    stack.server.execute("DELETE FROM psycopg_docs")
    for name, data in (("NULL", None), ("empty", b""), ("long", bytes_of(MB))):
        store(conn, name, data)
    found = {}
    for name in ("none", "NULL", "empty", "long"):
        cursor.execute(begin)
        length = cursor.execute(ask.split("--")[0], (name,)).fetchall()
        stack.server.execute("UPDATE psycopg_docs SET document = document || 'x'::bytea WHERE name = %s", (name,))
        pieces = cursor.execute(read, (name,)).fetchall()
        cursor.execute(commit)
        found[name] = (length, sum(len(piece) for (piece,) in pieces))
    expected = {"none": ([], 0), "NULL": ([(None,)], 0), "empty": ([(0,)], 0), "long": ([(MB,)], MB)}
    stack.ok(found == expected, "no row, NULL, the empty document: the length tells")


def ways_to_write(conn):
    stack.round_trip(lambda name, data: store(conn, name, data), lambda name: load(conn, name), "parameters and results in text")

    def store_binary(name, data):
        conn.execute("INSERT INTO psycopg_docs VALUES (%s, %b)", (name, data))

    def load_binary(name):
        return conn.cursor(binary=True).execute("SELECT document FROM psycopg_docs WHERE name = %s", (name,)).fetchone()[0]

    stack.round_trip(store_binary, load_binary, "in binary")

    def store_prepared(name, data):
        conn.execute("INSERT INTO psycopg_docs VALUES (%s, %s)", (name, data), prepare=True)

    def load_prepared(name):
        return conn.execute("SELECT document FROM psycopg_docs WHERE name = %s", (name,), prepare=True).fetchone()[0]

    stack.round_trip(store_prepared, load_prepared, "prepared statements")

    def store_pasted(name, data):
        psycopg.ClientCursor(conn).execute("INSERT INTO psycopg_docs VALUES (%s, %s)", (name, data))

    stack.round_trip(store_pasted, load_prepared, "parameters put in by the client", ROWS)


def many_rows(conn):
    rows = list(ROWS.items())

    def all_right(read, what):
        stack.ok(dict(read) == ROWS, what)

    def again():
        conn.execute("DELETE FROM psycopg_docs")

    again()
    with conn.cursor() as cursor:
        cursor.executemany("INSERT INTO psycopg_docs VALUES (%s, %s) RETURNING name, document", rows, returning=True)
        read = [cursor.fetchone()]
        while cursor.nextset():
            read.append(cursor.fetchone())
    all_right(read, "executemany with RETURNING")
    stack.ok(all(stack.stored(*row) for row in rows), "executemany has stored them")

    upsert = "INSERT INTO psycopg_docs VALUES (%s, %s) ON CONFLICT (name) DO UPDATE SET document = excluded.document RETURNING name, document"
    turned = list(zip(ROWS, reversed(ROWS.values())))
    read = [conn.execute(upsert, row).fetchone() for row in turned]
    stack.ok(read == turned and all(stack.stored(*row) for row in turned), "upsert with RETURNING")

    again()
    with conn.cursor().copy("COPY psycopg_docs FROM STDIN") as copy:
        for row in rows:
            copy.write_row(row)
    all_right(conn.execute("SELECT * FROM psycopg_docs"), "COPY FROM in text")
    with conn.cursor().copy("COPY psycopg_docs TO STDOUT") as copy:
        copy.set_types(["text", "bytea"])
        all_right(copy.rows(), "COPY TO in text")

    again()
    with conn.cursor().copy("COPY psycopg_docs FROM STDIN (FORMAT binary)") as copy:
        copy.set_types(["text", "bytea"])
        for row in rows:
            copy.write_row(row)
    all_right(conn.execute("SELECT * FROM psycopg_docs"), "COPY FROM in binary")
    with conn.cursor().copy("COPY psycopg_docs TO STDOUT (FORMAT binary)") as copy:
        copy.set_types(["text", "bytea"])
        all_right(copy.rows(), "COPY TO in binary")

    with conn.pipeline():
        cursors = {name: conn.execute("SELECT document FROM psycopg_docs WHERE name = %s", (name,)) for name in ROWS}
    all_right({name: cursor.fetchone()[0] for name, cursor in cursors.items()}, "a pipeline")
    for binary in (False, True):
        how = "binary" if binary else "text"
        with conn.transaction(), conn.cursor("c", binary=binary) as cursor:
            cursor.itersize = 2
            all_right(cursor.execute("SELECT * FROM psycopg_docs"), f"a cursor of the server, in {how}")
        with conn.cursor(binary=binary) as cursor:
            all_right(cursor.stream("SELECT * FROM psycopg_docs"), f"stream(), in {how}")


def conditions(conn):
    for name, data in ROWS.items():
        if data is not None:
            for placeholder in ("%s", "%b"):
                found = conn.execute(f"SELECT name FROM psycopg_docs WHERE document = {placeholder}", (data,)).fetchall()
                stack.ok(found == [(name,)], f"WHERE document = {placeholder} finds {name}")
    found = conn.execute("SELECT name FROM psycopg_docs WHERE document IS NULL").fetchall()
    stack.ok(found == [("NULL",)], "NULL and empty are two things")
    appended = conn.execute(
        "UPDATE psycopg_docs SET document = document || %s WHERE name = '10 KB' RETURNING document", (rb"\x41",)
    ).fetchone()[0]
    stack.same(appended, PAYLOADS["10 KB"] + rb"\x41", "|| with a parameter")
    piece = conn.execute("SELECT substring(document FROM %s FOR %s) FROM psycopg_docs WHERE name = '5 MB'", (1000001, 1000)).fetchone()[0]
    stack.same(piece, PAYLOADS["5 MB"][1000000:1001000], "a part by substring()")


def arguments(conn):
    for placeholder in ("%s", "%b"):
        refused = functools.partial(conn.execute, f"SELECT securefile_digest({placeholder}, 'sha256')", (b"abc",))
        stack.fails(psycopg.errors.UndefinedFunction, refused, f"an argument {placeholder} without a cast is refused")
        digest = conn.execute(f"SELECT securefile_digest({placeholder}::securefile, 'sha256')", (b"abc",)).fetchone()[0]
        stack.same(digest, hashlib.sha256(b"abc").digest(), f"an argument {placeholder}::securefile")


def what_it_sees(conn):
    cursor = conn.execute("SELECT document, ARRAY[document] FROM psycopg_docs")
    stack.ok([column.type_code for column in cursor.description] == [17, 1001], "the cursor describes bytea and bytea[]")
    in_array = "SELECT array_agg(document) FROM psycopg_docs WHERE name = '10 B'"
    stack.ok(conn.execute(in_array).fetchone()[0] == [PAYLOADS["10 B"]], "an array, in text")
    got = conn.cursor(binary=True).execute(in_array).fetchone()[0]
    stack.ok(got == [PAYLOADS["10 B"]], "an array, in binary")
    array = [PAYLOADS["10 B"], None, b"", rb"\x41"]
    for placeholder in ("%s", "%b"):
        got = conn.execute(f"SELECT array_agg(d) FROM unnest({placeholder}::securefile[]) d", (array,)).fetchone()[0]
        stack.ok(got == array, f"an array as a parameter {placeholder}")


def large_ones(conn):
    conn.execute("DELETE FROM psycopg_docs")
    for size in (0, 5 * MB) + ((200 * MB,) if LONG else ()):
        data = bytes_of(size)
        upload(conn, "large", io.BytesIO(data))
        stack.ok(stack.stored("large", data), f"{size} bytes are written in pieces")
        file = io.BytesIO()
        download(conn, "large", file)
        stack.same(file.getvalue(), data, f"{size} bytes are read in pieces")
        conn.execute("DELETE FROM psycopg_docs")


with psycopg.connect(autocommit=True) as conn:
    stack.part("length first", length_first, conn)
    stack.part("parameters", ways_to_write, conn)
    stack.part("many rows", many_rows, conn)
    stack.part("conditions", conditions, conn)
    stack.part("arguments", arguments, conn)
    stack.part("what it sees", what_it_sees, conn)
    stack.part("large ones", large_ones, conn)
