"""What the clients of the model test do besides, when the power is to be cut:
values written and changed through handles, so that units are shared by versions."""

from operations import COLUMNS, new_row
from values import UNIT


def write_all(c, handle, data):
    """Write bytes at the position of a handle, in pieces of all sizes."""
    done = 0
    while done < len(data):
        size = c.rng.choice([777, UNIT - 1, UNIT, 3 * UNIT, 8 * UNIT])
        c.sql("SELECT securefile_write(%s, %b)", (handle, data[done:done + size]))
        done += size


def handle_insert(c, table):
    """A new row whose first value comes through a handle."""
    key = c.free_id(table)
    if key is None:
        return
    row = new_row(c, table)
    if row.va is None:
        return
    leaf = f"{table}_{row.part}" if table == "model_shared" else table
    handle = c.sql("SELECT securefile_create(%s::regclass, 'a')", (leaf,))[0][0]
    write_all(c, handle, c.values.data(row.va))
    c.sql(f"INSERT INTO {table} ({COLUMNS}) VALUES (%s, %s, %s, securefile_finish(%s), %s,"
          f" {c.binary()})",
          (key, row.part, row.va, handle, row.vb, c.values.data(row.vb)))
    c.rows[table][key] = row


def handle_patch(c, table):
    """A new version of a value: some of its bytes are written again as they are, the
    units beside them are shared."""
    key = c.some_id(table)
    if key is None:
        return
    x = c.rng.choice("ab")
    data = c.values.data(getattr(c.rows[table][key], f"v{x}"))
    if not data:
        return
    handle = c.sql(f"SELECT securefile_open({x}, 'rw') FROM {table} WHERE id = %s", (key,))[0][0]
    for _ in range(c.rng.randint(1, 3)):
        start = c.rng.randrange(len(data))
        c.sql("SELECT securefile_seek(%s, %s, 0)", (handle, start))
        write_all(c, handle, data[start:start + c.rng.choice([1, 5000, UNIT, 3 * UNIT])])
    c.sql(f"UPDATE {table} SET {x} = securefile_finish(%s) WHERE id = %s", (handle, key))


OPERATIONS = [(handle_insert, 8), (handle_patch, 10)]
