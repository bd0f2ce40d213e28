"""What a client of the model test does inside its transactions.

Every operation does a thing to the server and the same thing to the model,
and compares whatever the server returned.
"""

from contextlib import contextmanager

import option_words
import verify
from client import Mismatch, Refused, Row, difference

COLUMNS = "id, part, va, a, vb, b"


# ---- writing ----

def insert(c, table):
    key = c.free_id(table)
    if key is None:
        return
    row = new_row(c, table)
    c.sql(f"INSERT INTO {table} ({COLUMNS}) VALUES (%s, %s, %s, {c.binary()}, %s, {c.binary()})",
          values_of(c, key, row))
    c.rows[table][key] = row


def new_row(c, table):
    part = c.rng.randrange(2) if table == "model_shared" else 0
    return Row(part, c.new_vid(), c.new_vid())


def values_of(c, key, row):
    return (key, row.part, row.va, c.values.data(row.va), row.vb, c.values.data(row.vb))


def copy_in(c, table):
    """COPY of a few rows, in text or binary form."""
    rows = {}
    for _ in range(c.rng.randint(1, 5)):
        key = c.free_id(table)
        if key is not None:
            rows[key] = new_row(c, table)
    c.copy(f"COPY {table} ({COLUMNS}) FROM STDIN", c.rng.choice(["binary", "text"]),
           ["int8", "int4", "int8", "bytea", "int8", "bytea"],
           [values_of(c, key, row) for key, row in rows.items()])
    c.rows[table].update(rows)


def update_new(c, table):
    """A new value for one column or for both."""
    key = c.some_id(table)
    if key is None:
        return
    columns = c.rng.choice(["a", "b", "ab"])
    change = {f"v{x}": c.new_vid() for x in columns}
    sets = ", ".join(f"v{x} = %s, {x} = {c.binary()}" for x in columns)
    params = [p for vid in change.values() for p in (vid, c.values.data(vid))]
    c.sql(f"UPDATE {table} SET {sets} WHERE id = %s", params + [key])
    c.set(table, key, **change)


def update_own_value(c, table):
    """The row gets the values that it has, or another column changes only."""
    key = c.some_id(table)
    if key is None:
        return
    what = c.rng.choice(["a = a", "a = a, b = b", "note = note + 1", "b = b, note = 0",
                         "a = a || ''::bytea"])
    c.sql(f"UPDATE {table} SET {what} WHERE id = %s", (key,))


def update_between_columns(c, table):
    key = c.some_id(table)
    if key is None:
        return
    row = c.rows[table][key]
    if c.rng.random() < 0.5:
        c.sql(f"UPDATE {table} SET a = b, va = vb, b = a, vb = va WHERE id = %s", (key,))
        c.set(table, key, va=row.vb, vb=row.va)
    else:
        c.sql(f"UPDATE {table} SET b = a, vb = va WHERE id = %s", (key,))
        c.set(table, key, vb=row.va)


def update_from_other_row(c, table):
    """Take a value of any row of the shared table, mine or not."""
    key = c.some_id(table)
    if key is None:
        return
    other = c.rng.randrange(c.options.clients * c.options.keys)
    rows = c.sql(f"UPDATE {table} t SET a = o.a, va = o.va FROM model_shared o"
                 " WHERE t.id = %s AND o.id = %s RETURNING t.va, sha256(t.a::bytea)",
                 (key, other))
    if rows:
        c.expect_sha(rows[0][0], rows[0][1], f"{table} {key} updated from {other}")
        c.set(table, key, va=rows[0][0])


def insert_select(c, table):
    """INSERT .. SELECT FROM the shared table, both values of a row."""
    key = c.free_id(table)
    if key is None:
        return
    other = c.rng.randrange(c.options.clients * c.options.keys)
    rows = c.sql(f"INSERT INTO {table} ({COLUMNS}) SELECT %s, 0, va, a, vb, b"
                 " FROM model_shared WHERE id = %s RETURNING va, vb", (key, other))
    if rows:
        c.rows[table][key] = Row(0, *rows[0])


def insert_returning_insert(c, table):
    """One new value feeds a second INSERT of the same statement."""
    first, second = c.free_id(table), c.free_id(table)
    if None in (first, second) or first == second:
        return
    vid = c.new_vid()
    c.sql(f"WITH ins AS (INSERT INTO {table} (id, part, va, a) VALUES (%s, 0, %s, {c.binary()})"
          f" RETURNING va, a) INSERT INTO {table} ({COLUMNS})"
          " SELECT %s, 0, va, a, va, a FROM ins",
          (first, vid, c.values.data(vid), second))
    c.rows[table][first] = Row(0, vid, None)
    c.rows[table][second] = Row(0, vid, vid)


def upsert_nothing(c, table):
    """ON CONFLICT DO NOTHING over a row that is there: nothing changes."""
    key = c.some_id(table)
    if key is None:
        return
    row = Row(c.rows[table][key].part, c.new_vid(), c.new_vid())
    c.sql(f"INSERT INTO {table} ({COLUMNS}) VALUES"
          f" (%s, %s, %s, {c.binary()}, %s, {c.binary()}) ON CONFLICT DO NOTHING",
          values_of(c, key, row))


def upsert_update(c, table):
    """ON CONFLICT DO UPDATE: the proposed value goes into both columns."""
    key = c.some_id(table)
    if key is None:
        return
    row = Row(c.rows[table][key].part, c.new_vid(), None)
    c.sql(f"INSERT INTO {table} ({COLUMNS}) VALUES"
          f" (%s, %s, %s, {c.binary()}, %s, {c.binary()}) ON CONFLICT (id, part)"
          " DO UPDATE SET a = excluded.a, va = excluded.va, b = excluded.a, vb = excluded.va",
          values_of(c, key, row))
    c.set(table, key, va=row.va, vb=row.va)


def merge(c, table):
    """MERGE that updates the row, inserts it or deletes it."""
    key = c.rng.choice([c.some_id(table), c.free_id(table)])
    if key is None:
        return
    vid = c.new_vid()
    drop = c.rng.random() < 0.3
    matched = "DELETE" if drop else "UPDATE SET vb = n.v, b = n.d"
    c.sql(f"MERGE INTO {table} t USING (VALUES (%s::bigint, %s::bigint, {c.binary()}::bytea))"
          f" n (id, v, d) ON t.id = n.id WHEN MATCHED THEN {matched}"
          " WHEN NOT MATCHED THEN INSERT (id, part, va, a) VALUES (n.id, 0, n.v, n.d)",
          (key, vid, c.values.data(vid)))
    if key not in c.rows[table]:
        c.rows[table][key] = Row(0, vid, None)
    elif drop:
        del c.rows[table][key]
    else:
        c.set(table, key, vb=vid)


def delete(c, table):
    key = c.some_id(table)
    if key is None:
        return
    rows = c.sql(f"DELETE FROM {table} WHERE id = %s RETURNING va, sha256(a::bytea)", (key,))
    row = c.rows[table].pop(key)
    c.expect_same(1, len(rows), f"rows deleted for {table} {key}")
    c.expect_sha(row.va, rows[0][1], f"{table} {key} deleted")


def delete_range(c, table):
    low = c.rng.randrange(c.options.keys) * c.options.clients
    high = low + 3 * c.options.clients
    keys = [k for k in c.rows[table] if low <= k < high]
    c.sql(f"DELETE FROM {table} WHERE id = ANY(%s)", (keys,))
    for key in keys:
        del c.rows[table][key]


def move_row(c, table):
    """DELETE .. RETURNING feeds an INSERT under another key."""
    key, to = c.some_id(table), c.free_id(table)
    if key is None or to is None:
        return
    c.sql(f"WITH gone AS (DELETE FROM {table} WHERE id = %s RETURNING *)"
          f" INSERT INTO {table} ({COLUMNS}) SELECT %s, part, va, a, vb, b FROM gone",
          (key, to))
    c.rows[table][to] = c.rows[table].pop(key)


def move_partition(c, _):
    key = c.some_id("model_shared")
    if key is None:
        return
    c.sql("UPDATE model_shared SET part = 1 - part WHERE id = %s", (key,))
    c.set("model_shared", key, part=1 - c.rows["model_shared"][key].part)


def there_and_back(c, table):
    """A new version, then the old value again, in one transaction."""
    key = c.some_id(table)
    if key is None:
        return
    vid = c.new_vid()
    c.sql(f"SELECT model_there_and_back('{table}', %s, {c.binary()}::bytea)",
          (key, c.values.data(vid)))


def truncate(c, _):
    """Only of the client's own table: TRUNCATE is not for readers' snapshots."""
    if c.rng.random() < 0.4:
        c.sql(f"TRUNCATE {c.own}")
        c.rows[c.own] = {}


def options_changed(c, _):
    """Another compression for what is written from now on to the client's own table; at
    times all values are stored again."""
    if c.options.type == "bytea":
        return
    x = c.rng.choice("ab")
    kind = verify.column_type(c.options, c.own, x, option_words.some_words(c.rng))
    c.sql(f"ALTER TABLE {c.own} ALTER {x} TYPE {kind}")
    if c.rng.random() < 0.3:
        c.sql(f"SELECT securefile_rewrite('{c.own}', '{x}')")


def undelete(c, table):
    """A row gets a value that somebody's row has lost."""
    columns = [x for x in "ab" if (table, x) in c.options.kept]
    key = c.free_id(table)
    if not columns or key is None:
        return
    x = c.rng.choice(columns)
    leaf = c.rng.choice(verify.LOAD_TABLES) if table == "model_shared" else table
    with failing(c):
        # one that has ended meanwhile cannot be read; under pressure its space may have another value already
        rows = c.fails(
            f"INSERT INTO {table} (id, part, v{x}, {x}) SELECT %s, 0, l.said::bigint, r.document"
            f" FROM securefile_removed('{leaf}', '{x}') r JOIN kept_lost l ON l.loc = md5((r.document::raw)::bytea)::uuid"
            f" ORDER BY random() LIMIT 1 RETURNING v{x}, sha256({x}::bytea)", (key,), "42704", *["XX001"] * c.options.tight)
        if rows:
            c.expect_sha(*rows[0], f"{table} {key}.{x} undeleted")
            c.rows[table][key] = Row(0, None, None)._replace(**{f"v{x}": rows[0][0]})


# ---- reading ----

def read_whole(c, table):
    key = c.some_id(table)
    if key is None:
        return
    x = c.rng.choice("ab")
    rows = c.sql(f"SELECT v{x}, length({x}), {x}::bytea FROM {table} WHERE id = %s", (key,))
    vid = getattr(c.rows[table][key], f"v{x}")
    c.expect_same((vid, None if vid is None else c.values.length(vid)), rows[0][:2],
                  f"{table} {key}.{x} id and length")
    c.expect(vid, rows[0][2], f"{table} {key}.{x}")


def read_part(c, table):
    """substring() at a random place, also over the ends."""
    key = c.some_id(table)
    if key is None:
        return
    x = c.rng.choice("ab")
    vid = getattr(c.rows[table][key], f"v{x}")
    data = c.values.data(vid)
    size = 0 if data is None else len(data)
    start = c.rng.randint(-3, size + 3)
    count = c.rng.choice([0, 1, 511, 512, 4096, 100000, 131072, 400000, size])
    got = c.sql(f"SELECT substring({x} from %s::int for %s::int) FROM {table} WHERE id = %s",
                (start, count, key))[0][0]
    want = None if data is None else data[max(start - 1, 0):max(start - 1 + count, 0)]
    c.counts["values"] += 1
    if want != (None if got is None else bytes(got)):
        raise Mismatch(f"{table} {key}.{x} from {start} for {count}, value {vid}: "
                       + difference(want, got))


def read_all_mine(c, table):
    """Every row of the client, by SHA-256; at times through a parallel plan."""
    if c.rng.random() < 0.5:
        for setting in verify.parallel_settings(c.conn):
            c.sql(f"SET LOCAL {setting}")
    keys = c.rng.sample(sorted(c.rows[table]), min(6, len(c.rows[table])))
    rows = c.sql(f"SELECT id, part, va, vb, sha256(a::bytea), sha256(b::bytea) FROM {table}"
                 " WHERE id = ANY(%s)", (keys,))
    c.expect_same(len(keys), len(rows), f"rows of mine in {table}")
    for key, part, va, vb, a, b in rows:
        c.expect_same(c.rows[table][key], Row(part, va, vb), f"{table} {key}")
        c.expect_sha(va, a, f"{table} {key}.a")
        c.expect_sha(vb, b, f"{table} {key}.b")


def read_others(c, _):
    """Rows of other clients must agree with themselves."""
    other = c.rng.randrange(c.options.clients * c.options.keys)
    for va, a in c.sql("SELECT va, a::bytea FROM model_shared WHERE id = %s", (other,)):
        c.expect(va, a, f"model_shared {other}.a of another client")


def read_old_version(c, table):
    """A cursor opened before an update sees what was there before."""
    key = c.some_id(table)
    if key is None:
        return
    old = c.rows[table][key]
    name = f"old{c.rng.randrange(10**9)}"
    c.sql(f"DECLARE {name} CURSOR FOR SELECT va, a::bytea, vb, sha256(b::bytea)"
          f" FROM {table} WHERE id = %s", (key,))
    c.rng.choice([update_new, delete_or_update, update_between_columns])(c, table)
    rows = c.sql(f"FETCH ALL {name}")
    c.expect_same(1, len(rows), f"rows of the cursor over {table} {key}")
    c.expect_same((old.va, old.vb), (rows[0][0], rows[0][2]), f"old ids of {table} {key}")
    c.expect(old.va, rows[0][1], f"old version of {table} {key}.a")
    c.expect_sha(old.vb, rows[0][3], f"old version of {table} {key}.b")
    c.sql(f"CLOSE {name}")


def delete_or_update(c, table):
    delete(c, table)


# ---- savepoints and failures ----

def savepoint_kept(c, table):
    c.savepoint()
    depth = len(c.saved) - 1
    few(c, table)
    if len(c.saved) > depth and c.rng.random() < 0.7:
        c.release(depth)


def savepoint_undone(c, table):
    c.savepoint()
    depth = len(c.saved) - 1
    few(c, table)
    c.rollback_to(depth)
    if c.rng.random() < 0.5:
        few(c, table)


def few(c, table):
    for _ in range(c.rng.randint(1, 3)):
        c.rng.choice([insert, update_new, delete, update_between_columns, read_whole,
                      update_from_other_row, upsert_update, there_and_back])(c, table)


@contextmanager
def failing(c):
    """A statement that may fail, between a savepoint and its rollback."""
    c.savepoint()
    depth = len(c.saved) - 1
    try:
        yield
        c.release(depth)
    except Refused:
        c.rollback_to(depth)
        c.release(depth)


def duplicate_key(c, table):
    """The store trigger has run when the unique index refuses the row."""
    key = c.some_id(table)
    if key is None:
        return
    row = c.rows[table][key]._replace(va=c.new_vid(), vb=c.new_vid())
    with failing(c):
        c.fails(f"INSERT INTO {table} ({COLUMNS}) VALUES"
                f" (%s, %s, %s, {c.binary()}, %s, {c.binary()})",
                values_of(c, key, row), "23505")
        raise Mismatch("duplicate key accepted")


def error_after_store(c, table):
    """A check constraint that fails in the last row of several."""
    keys = sorted(c.rows[table])
    if not keys:
        return
    vid = c.new_vid()
    with failing(c):
        c.fails(f"UPDATE {table} SET a = {c.binary()}::bytea,"
                " note = CASE WHEN id = %s THEN -1 ELSE note END WHERE id = ANY(%s)",
                (c.values.data(vid), keys[-1], keys[-3:]), "23514")
        raise Mismatch("check constraint ignored")


def cancelled(c, table):
    """statement_timeout strikes somewhere in a statement, or just not."""
    keys = c.rng.sample(sorted(c.rows[table]), min(4, len(c.rows[table])))
    vid = c.new_vid()
    with failing(c):
        c.sql(f"SET LOCAL statement_timeout = '{c.rng.randint(1, 25)}ms'")
        c.fails(f"UPDATE {table} SET vb = %s, b = {c.binary()}::bytea WHERE id = ANY(%s)",
                (vid, c.values.data(vid), keys), "57014")
        c.fails("SET LOCAL statement_timeout = 0", None, "57014")
        for key in keys:
            c.set(table, key, vb=vid)


OPERATIONS = [
    (insert, 16), (copy_in, 4), (update_new, 14), (update_own_value, 4),
    (update_between_columns, 4), (update_from_other_row, 6), (insert_select, 5),
    (insert_returning_insert, 2), (upsert_nothing, 3), (upsert_update, 4), (merge, 3),
    (delete, 7), (delete_range, 1), (move_row, 2), (move_partition, 3), (there_and_back, 3),
    (truncate, 1), (options_changed, 2), (undelete, 3),
    (read_whole, 8), (read_part, 10), (read_all_mine, 3), (read_others, 6),
    (read_old_version, 4),
    (savepoint_kept, 3), (savepoint_undone, 4), (duplicate_key, 2), (error_after_store, 2),
    (cancelled, 2),
]
