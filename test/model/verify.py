"""Comparing a whole server with what the clients of the model test say."""

import time

from client import Mismatch, Row
from values import IN_ROW_MAX, stored_bytes

LOAD_TABLES = ("model_shared_0", "model_shared_1")


def leaves(options):
    """Every table that has segments of its own."""
    return list(LOAD_TABLES) + [f"model_own_{n}" for n in range(options.clients)]


def create(conn, options):
    """The tables: one shared by all clients and partitioned, one for each."""
    if options.type == "bytea":
        shared = own = ("bytea", "bytea")
    else:
        shared = ("securefile", "securefile(filesystem_like_logging)")
        own = ("securefile(filesystem_like_logging, disable_storage_in_row, cache)",
               "securefile(nocache)")
        if getattr(options, "logged", False):
            shared, own = (tuple(t.replace("filesystem_like_logging", "logging") for t in pair)
                           for pair in (shared, own))
        if getattr(options, "uncached", False):
            own = tuple(t.replace(", cache)", ")") for t in own)
        conn.execute("CREATE EXTENSION IF NOT EXISTS securefile")
    body = ("(id bigint, part int, note int NOT NULL DEFAULT 0 CHECK (note >= 0),"
            " va bigint, vb bigint, a {}, b {}, PRIMARY KEY (id, part))")
    conn.execute("DROP TABLE IF EXISTS model_shared")
    conn.execute("CREATE TABLE model_shared " + body.format(*shared)
                 + " PARTITION BY LIST (part)")
    for part, table in enumerate(LOAD_TABLES):
        conn.execute(f"CREATE TABLE {table} PARTITION OF model_shared FOR VALUES IN ({part})")
    for table in leaves(options)[2:]:
        conn.execute(f"DROP TABLE IF EXISTS {table}")
        conn.execute(f"CREATE TABLE {table} " + body.format(*own))
    if options.type == "bytea":
        for table in leaves(options):
            conn.execute(f"ALTER TABLE {table} ALTER a SET STORAGE EXTERNAL")
    conn.execute(f"""
        CREATE OR REPLACE FUNCTION model_there_and_back(tab regclass, key bigint, fresh bytea)
        RETURNS void LANGUAGE plpgsql AS $$
        DECLARE
            old {options.type};
        BEGIN
            EXECUTE format('SELECT a FROM %s WHERE id = $1', tab) INTO old USING key;
            EXECUTE format('UPDATE %s SET a = $2 WHERE id = $1', tab) USING key, fresh;
            EXECUTE format('UPDATE %s SET a = $2 WHERE id = $1', tab) USING key, old;
        END $$""")


def in_row_max(table, column):
    """Longest value that such a column keeps in the row (see create())."""
    return 0 if table.startswith("model_own") and column == "a" else IN_ROW_MAX


def read_rows(conn, table, values, where="true"):
    """Rows of a table; each value must be what its id says."""
    rows = {}
    found = conn.cursor(binary=True).execute(
        "SELECT id, part, va, vb, length(a), sha256(a::bytea), length(b), sha256(b::bytea)"
        f" FROM {table} WHERE {where}")
    for key, part, va, vb, alen, asha, blen, bsha in found:
        if key in rows:
            raise Mismatch(f"{table} {key} is there twice")
        rows[key] = Row(part, va, vb)
        check_value(values, f"{table} {key}.a", va, alen, asha)
        check_value(values, f"{table} {key}.b", vb, blen, bsha)
    return rows


def check_value(values, what, vid, length, sha):
    if vid is None:
        if length is not None:
            raise Mismatch(f"{what} is {length} bytes, expected null")
        return
    if length != values.length(vid):
        raise Mismatch(f"{what}, value {vid}: length {length}, expected {values.length(vid)}")
    if bytes(sha) != values.sha256(vid):
        raise Mismatch(f"{what}, value {vid} ({length} bytes): SHA-256 differs")


def differences(want, got):
    """The first keys at which two states of a table differ."""
    keys = [k for k in sorted(set(want) | set(got)) if want.get(k) != got.get(k)]
    return "; ".join(f"{k}: expected {want.get(k)}, found {got.get(k)}" for k in keys[:4])


def client_rows(conn, number, values, options):
    """What the server holds of one client."""
    mine = f"id % {options.clients} = {number}"
    own = f"model_own_{number}"
    return {"model_shared": read_rows(conn, "model_shared", values, mine),
            own: read_rows(conn, own, values)}


def compare(number, got, candidates):
    """The state a client is in; one of the candidates, all of it."""
    for want in candidates:
        if got == want:
            return want
    text = [f"client {number}: rows are not those of any state they may have"]
    for want in candidates:
        for table in want:
            text.append(f"  {table}: {differences(want[table], got[table]) or 'as expected'}")
    raise Mismatch("\n".join(text))


def check_sound(conn, options):
    """securefile_check must have nothing to say."""
    if options.type == "bytea":
        return
    for table in leaves(options):
        for column in "ab":
            found = conn.execute(f"SELECT * FROM securefile_check('{table}', '{column}')"
                                 " LIMIT 5").fetchall()
            if found:
                raise Mismatch(f"securefile_check('{table}', '{column}'): {found}")


def check_space(conn, options, values, states):
    """With nothing pending, live bytes are those of the values in the rows."""
    if options.type == "bytea":
        return
    for table in leaves(options):
        for column in "ab":
            settle(conn, table, column)
            want = expected_live(table, column, values, states)
            usage = conn.execute(
                "SELECT file_bytes, live_bytes, pending_bytes, free_bytes"
                f" FROM securefile_usage('{table}', '{column}')").fetchone()
            if usage[1] != want or usage[0] != sum(usage[1:]):
                raise Mismatch(f"securefile_usage('{table}', '{column}'): file, live, pending,"
                               f" free are {usage}; live must be {want}")


def settle(conn, table, column, seconds=180):
    """Maintain until nothing is pending."""
    end = time.time() + seconds
    while True:
        conn.execute(f"SELECT securefile_maintain('{table}', '{column}')")
        pending = conn.execute(f"SELECT pending_bytes FROM"
                               f" securefile_usage('{table}', '{column}')").fetchone()[0]
        if pending == 0:
            return
        if time.time() > end:
            raise Mismatch(f"{table}.{column}: {pending} bytes pending after {seconds} s of"
                           " securefile_maintain() with no other transaction open")
        time.sleep(0.1)


def expected_live(table, column, values, states):
    total = 0
    for state in states:
        for name, rows in state["rows"].items():
            for row in rows.values():
                leaf = f"{name}_{row.part}" if name == "model_shared" else name
                vid = row.va if column == "a" else row.vb
                if leaf == table and vid is not None:
                    total += stored_bytes(values.length(vid), in_row_max(table, column))
    return total
