"""Handles of the random test of functions: several at a time, and files of the server.

Each has its twin, a bytearray with a position.  Where no rule says what a call does to the
position, the next call sets it.
"""

import os

from client import Mismatch, difference
from function_calls import LEAST, another, said, some_pattern, some_position
from function_forms import PART, UNIT, Form, insert
from function_model import LAST, Refused, cut

BAD_COUNT = Refused("22023", "22011")


class Open:
    """A handle and its twin."""

    def __init__(self, run, sql, params, text, mode, row=None, place=""):
        self.number = run.conn.execute(f"SELECT {sql}", params).fetchone()[0]
        self.text, self.at, self.mode, self.row, self.place = bytearray(text), 0, mode, row, place

    def __repr__(self):
        return f"handle {self.mode} {self.place} of {len(self.text)} bytes at {self.at}"

    def put(self, data):
        """Bytes at the position; zeros before them where that is behind the end."""
        if data:
            self.text.extend(bytes(max(0, self.at - len(self.text))))
            self.text[self.at:self.at + len(data)] = data
            self.at += len(data)
        return len(data)


def call(run, name, want, function, arguments, what):
    """A function of handles; the transaction goes on after an error that must come."""
    fails = isinstance(want, Refused)
    if fails:
        run.conn.execute("SAVEPOINT s")
    run.scalar(name, want, f"{function}({', '.join('%b' if isinstance(a, bytes) else '%s' for a in arguments)})", arguments, what)
    if fails:
        run.conn.execute("ROLLBACK TO s")


def seek(run, rng, handle):
    """To any place, behind the end at times."""
    inside = some_position(rng, handle.text) - 1
    handle.at = rng.choice([inside, inside, inside, len(handle.text) + rng.randint(0, UNIT)])
    call(run, "handles", handle.at, "securefile_seek", [handle.number, handle.at, 0], f"seek of {handle}")


def write(run, rng, handles, handle, word):
    data = rng.choice([word, rng.randbytes(rng.choice([1, 700, UNIT - 1, UNIT, UNIT + 1]))])
    want = Refused("55000") if handle.mode == "r" else len(data)
    what = said("write", handle, data)
    if handle.mode != "r":
        handle.put(data)
    call(run, "handles", want, "securefile_write", [handle.number, data], what)


def read(run, rng, handles, handle, word):
    count = rng.choice([0, 1, 5000, UNIT, PART])
    want = bytes(handle.text[handle.at:handle.at + count])
    what = said("read", handle, count)
    handle.at += len(want)
    call(run, "handles", want, "securefile_read", [handle.number, count], what)


def truncate(run, rng, handles, handle, word):
    if handle.mode == "r":
        return
    length = some_position(rng, handle.text) - 1 + rng.choice([0, 0, 0, UNIT])
    call(run, "handles", 0, "securefile_truncate", [handle.number, length], said("truncate", handle, length))
    handle.text = handle.text[:length] + bytes(max(0, length - len(handle.text)))


def erase(run, rng, handles, handle, word):
    """Zeros from the position on, not beyond the end."""
    count = rng.choice([0, 1, 1000, UNIT, PART, LAST, -1, LEAST, None])
    what = said("erase", handle, count)
    gone = max(0, min(count or 0, len(handle.text) - handle.at))
    want = None if count is None else Refused("55000", *BAD_COUNT.states) if handle.mode == "r" else BAD_COUNT if count < 0 else gone
    if want == gone and gone:
        handle.text[handle.at:handle.at + gone] = bytes(gone)
    call(run, "handle_erase", want, "securefile_erase", [handle.number, count], what)
    seek(run, rng, handle)


def copy(run, rng, handles, handle, word):
    """From one handle to another; both move."""
    source = rng.choice(handles)
    count = rng.choice([None, 0, 1, 3000, UNIT, PART + 1, LAST, -1])
    moved = bytes(source.text[source.at:] if count is None else source.text[source.at:source.at + max(0, count)])
    what = f"copy to {handle} from {source}, {count}"
    want = len(moved)
    if source is handle or handle.mode == "r" or (count or 0) < 0:
        want = Refused("22023", "22011", "55000")
    elif len(handle.text) + len(moved) > 2_000_000:
        return
    else:
        source.at += handle.put(moved)
    arguments = [handle.number, source.number] + ([count] if count is not None or rng.random() < 0.5 else [])
    call(run, "handle_copy", want, "securefile_copy", arguments, what)


def copy_document(run, rng, handles, handle, word):
    """A range of a value, in any form, to a handle."""
    document = another(run, rng, rng.randbytes(rng.choice([0, 10, 5000, UNIT + 7, PART + UNIT])))
    start = rng.choice([1, 1, some_position(rng, document.text), LAST, 0, LEAST])
    count = rng.choice([None, 0, 100, UNIT, LAST, -1])
    moved = cut(document.text, max(start, 1), None if count is None else max(count, 0))
    what = f"copy to {handle} from {document}, {start}, {count}"
    if handle.mode == "r" or start < 1 or (count or 0) < 0:
        want = Refused("22023", "22011", "55000")
    else:
        want = handle.put(moved)
    fails = isinstance(want, Refused)
    if fails:
        run.conn.execute("SAVEPOINT s")
    run.scalar("handle_copy", want, f"securefile_copy(%s, {document.sql}, %s, %s)", [handle.number] + document.params + [start, count], what)
    if fails:
        run.conn.execute("ROLLBACK TO s")


def search(run, rng, handles, handle, word):
    """The next match, with what was written in it; the position stays."""
    pattern = some_pattern(rng, bytes(handle.text), word) or b"\0"
    call(run, "handle_search", handle.text.find(pattern, handle.at), "securefile_search", [handle.number, pattern],
         said("search", handle, pattern))


def load(run, rng, handles, handle, word):
    """A part of a file of the server."""
    if run.directory is None:
        return
    data = rng.randbytes(rng.choice([0, 10, 5000, UNIT + 7, PART + UNIT]))
    path = os.path.join(run.directory, "to_load")
    with open(path, "wb") as file:
        file.write(data)
    start = rng.choice([0, 0, rng.randint(0, len(data)), len(data) + 1, -1, LEAST])
    count = rng.choice([None, 0, 100, UNIT, LAST, -1])
    what = f"load to {handle} from {len(data)} bytes, {start}, {count}"
    if handle.mode == "r" or start < 0 or (count or 0) < 0:
        want = Refused("22023", "22011", "55000")
    else:
        want = handle.put(data[start:] if count is None else data[start:start + count])
    call(run, "load", want, "securefile_load", [handle.number, path, start, count], what)


def save(run, rng, form):
    """A value as a file of the server; it is not overwritten but where that is asked for."""
    if run.directory is None or not run.wanted("save"):
        return
    path = os.path.join(run.directory, "saved")
    there = os.path.exists(path)
    overwrite = rng.random() < 0.5
    want = Refused("42710") if there and not overwrite else len(form.text)
    run.scalar("save", want, f"securefile_save({form.sql}, %s, %s)", form.params + [path, overwrite], f"save of {form}")
    if not isinstance(want, Refused):
        with open(path, "rb") as file:
            data = file.read()
        if data != form.text:
            raise Mismatch(f"save of {form}: {difference(form.text, data)}")
    elif rng.random() < 0.5:
        os.unlink(path)


OPERATIONS = [(4, "handles", write), (3, "handles", read), (2, "handles", truncate), (4, "handle_erase", erase),
              (5, "handle_copy", copy), (4, "handle_copy", copy_document), (4, "handle_search", search), (2, "load", load)]


def some_handles(run, rng, text):
    """Two that write, one that reads."""
    tables = [t for t in run.tables if t != "temporary"]
    old = insert(run.conn, rng.choice(tables), text)
    new = rng.choice(tables)
    return [Open(run, f"securefile_open({old.sql}, 'rw')", [], text, "rw", old.row, old.name),
            Open(run, f"securefile_create('lob.{new}', 'doc')", [], b"", "created", None, new),
            Open(run, f"securefile_open({old.sql}, 'r')", [], text, "r", None, old.name)]


def finish(run, rng, handle):
    """Its value, in the row that it is of, or in another one."""
    if handle.row and rng.random() < 0.7:
        path, key = handle.row
        run.conn.execute(f"UPDATE {path} SET doc = securefile_finish(%s) WHERE id = {key}", [handle.number])
        return Form(path, f"(SELECT doc FROM {path} WHERE id = {key})", [], bytes(handle.text), handle.row)
    tables = [t for t in run.tables if t != "temporary"]
    return insert(run.conn, rng.choice(tables), bytes(handle.text), "securefile_finish(%s)", [handle.number])


def handle_round(run, rng, text, word):
    """A transaction with handles."""
    if not any(run.wanted(name) for _, name, _ in OPERATIONS):
        return
    run.conn.execute("BEGIN")
    handles = some_handles(run, rng, text)
    operations = [(weight, operation) for weight, name, operation in OPERATIONS if run.wanted(name)]
    for _ in range(12):
        handle = rng.choices(handles, [4, 4, 1])[0]
        for moving in handles:
            if rng.random() < 0.5:
                seek(run, rng, moving)
        operation = rng.choices([operation for _, operation in operations], [weight for weight, _ in operations])[0]
        operation(run, rng, handles, handle, word)
    stored = [finish(run, rng, handle) for handle in handles]
    run.conn.execute("COMMIT")
    for form in stored:
        run.value("handles", form.text, form.sql, [], f"what a handle has stored in {form.name}")
        save(run, rng, form)
