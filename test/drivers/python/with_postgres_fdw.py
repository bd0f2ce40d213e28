"""postgres_fdw: the server's own table, as a foreign one in another database."""

import psycopg

from trial import DATABASE, HOST, PAYLOADS, PORT, ROWS, USER, Stack

stack = Stack("postgres_fdw", "fdw_docs")
stack.make_table()
VALUES = {name: data for name, data in ROWS.items() if data is not None}

stack.server.execute("DROP DATABASE IF EXISTS fdw_near WITH (FORCE)")
stack.server.execute("CREATE DATABASE fdw_near")
near = psycopg.connect(dbname="fdw_near", autocommit=True)

SET_UP = """
CREATE EXTENSION securefile;
CREATE EXTENSION postgres_fdw;
CREATE SERVER far FOREIGN DATA WRAPPER postgres_fdw
    OPTIONS (host 'HOST', port 'PORT', dbname 'DATABASE', extensions 'securefile');
CREATE USER MAPPING FOR CURRENT_USER SERVER far OPTIONS (user 'USER');
IMPORT FOREIGN SCHEMA public LIMIT TO (fdw_docs, fdw_heads) FROM SERVER far INTO public;
"""
stack.server.execute("CREATE VIEW fdw_heads AS SELECT name, substring(document FROM 1 FOR 10) AS head FROM fdw_docs")
for word, value in (("HOST", HOST), ("PORT", PORT), ("DATABASE", DATABASE), ("USER", USER)):
    SET_UP = SET_UP.replace(f"'{word}'", f"'{value}'")
near.execute(SET_UP)


def store(name, data):
    near.execute("INSERT INTO fdw_docs VALUES (%s, %s)", (name, data))


def load(name):
    return near.execute("SELECT document FROM fdw_docs WHERE name = %s", (name,)).fetchone()[0]


def remote(query):
    plan = [row[0].strip() for row in near.execute("EXPLAIN (VERBOSE, COSTS OFF) " + query)]
    return next(line for line in plan if "Remote SQL" in line)


def in_the_far_one():
    """What the far server is asked to do."""
    for query, sent in (
        ("SELECT name FROM fdw_docs WHERE length(document) > 4", "WHERE ((length(document) > 4))"),
        ("SELECT sum(length(document)) FROM fdw_docs", "SELECT sum(length(document)) FROM public.fdw_docs"),
        (r"SELECT name FROM fdw_docs WHERE document = '\x41'::securefile", "SELECT name, document FROM public.fdw_docs"),
        ("SELECT substring(document FROM 1 FOR 10) FROM fdw_docs", "SELECT document FROM public.fdw_docs"),
        ("SELECT head FROM fdw_heads WHERE name = '5 MB'", "SELECT head FROM public.fdw_heads WHERE ((name = '5 MB'))"),
    ):
        line = remote(query)
        stack.ok(line.endswith(sent), f"{query}: {line}")
    head = near.execute("SELECT head FROM fdw_heads WHERE name = '5 MB'").fetchone()[0]
    stack.same(head, PAYLOADS["5 MB"][:10], "a part by a view of the far server")


def rows():
    near.execute("DELETE FROM fdw_docs")
    with near.cursor() as cursor:
        cursor.executemany("INSERT INTO fdw_docs VALUES (%s, %s)", VALUES.items())
    stack.ok(all(stack.stored(*row) for row in VALUES.items()), "rows")
    stack.ok(dict(near.execute("SELECT * FROM fdw_docs").fetchall()) == VALUES, "all rows are read")
    for name, data in VALUES.items():
        found = near.execute("SELECT name FROM fdw_docs WHERE document = %s", (data,)).fetchall()
        stack.ok(found == [(name,)], f"WHERE document = finds {name}")
    near.execute("UPDATE fdw_docs SET document = document || %s WHERE name IN ('5 MB', '10 B')", (b"more",))
    stack.ok(all(stack.stored(name, VALUES[name] + b"more") for name in ("5 MB", "10 B")), "|| on a foreign table")
    near.execute("CREATE TABLE near_docs (name text, document securefile)")
    near.execute("INSERT INTO near_docs SELECT * FROM fdw_docs")
    near.execute("DELETE FROM fdw_docs")
    near.execute("INSERT INTO fdw_docs SELECT * FROM near_docs")
    stack.ok(stack.stored("5 MB", VALUES["5 MB"] + b"more") and stack.stored("10 KB", VALUES["10 KB"]), "there and back by INSERT .. SELECT")
    near.execute("ALTER FOREIGN TABLE fdw_docs OPTIONS (ADD batch_size '100')")
    near.execute("DELETE FROM fdw_docs")
    near.execute("INSERT INTO fdw_docs SELECT * FROM near_docs")
    stack.ok(stack.stored("5 MB", VALUES["5 MB"] + b"more") and stack.stored("10 KB", VALUES["10 KB"]), "in batches")


stack.part("round trip", stack.round_trip, store, load, "through a foreign table")
stack.part("rows", rows)
stack.part("what is sent", in_the_far_one)
near.close()
stack.server.execute("DROP DATABASE fdw_near WITH (FORCE)")
