"""What a session of the test of handles does within a transaction."""

import hashlib
import select

import psycopg

import kept
import option_words
from client import Lost, Mismatch, is_lost
from handle_rows import COLUMNS, LEAVES, compare_value, living, same
from handle_session import run
from sparse import PAGE, Sparse
from values import INODE_FROM, IN_ROW_MAX, SECTOR, UNIT

KEYS = 6					# rows of ours, a table
DENSE_MAX = 40 * 1024 * 1024	# contents do not grow beyond, but for gaps
HANDLES = 6


# ---- sizes and places ----

def size(rng):
    """How many bytes to read or write."""
    kind = rng.random()
    if kind < 0.35:
        return rng.randint(1, 600)
    if kind < 0.55:
        return rng.randint(600, 3 * IN_ROW_MAX)
    if kind < 0.75:
        return rng.choice([SECTOR, IN_ROW_MAX, UNIT, 2 * UNIT, 8 * UNIT]) + rng.randint(-1, 1)
    if kind < 0.97:
        return rng.randint(1, 10 * UNIT)
    return rng.randint(4, 40) * UNIT + rng.choice([0, 1, 777])


def spot(rng, length):
    """An offset where something may go wrong."""
    kind = rng.random()
    if kind < 0.3:
        return rng.randint(0, length)
    if kind < 0.5:
        return max(0, length + rng.choice([-UNIT, -1, 0, 0, 0, 1]))
    if kind < 0.8:
        unit = rng.randint(0, length // UNIT + 2) * UNIT
        return max(0, unit + rng.choice([-SECTOR, -1, 0, 0, 1, SECTOR]))
    if kind < 0.85:
        return INODE_FROM + rng.choice([-UNIT, -1, 0, 1])
    return rng.choice([0, 1, IN_ROW_MAX, IN_ROW_MAX + 1, UNIT])


def far_spot(rng):
    """Gigabytes from the start, where only a gap can lead."""
    return rng.choice([2**31 - 1, 2**32, rng.randint(2**30, 2**36)]) + rng.randint(0, 3)


def some_handle(s):
    return s.handles[s.rng.choice(sorted(s.handles))] if s.handles else None


def some_place(s, filled=True):
    """A value in sight, not null."""
    places = [p for p in s.places() if s.content(p) or not filled]
    return s.rng.choice(places) if places else None


def is_inline(s, place):
    """Does the row itself hold the value, compressed perhaps?"""
    return s.value(f"SELECT form = 'inline' FROM {place[0]}, securefile_storage({place[2]})"
                   " WHERE id = %s", (place[1],))


def new_place(s):
    """A row that is not there yet, and one of its columns."""
    table = s.rng.choice(LEAVES)
    free = [key for key in range(1, KEYS + 1) if (table, key) not in s.rows]
    return (table, s.rng.choice(free), s.rng.choice(COLUMNS)) if free else None


def name_of(s, table):
    """A partition by its own name, or by that of its parent."""
    return s.rng.choice([table, "handles_parent"]) if table == "handles_leaf" else table


def fresh(s):
    return option_words.contents(f"{s.rng.random()}", size(s.rng))


# ---- handles ----

def create(s):
    if len(s.handles) >= HANDLES:
        return
    table, column = s.rng.choice(LEAVES), s.rng.choice(COLUMNS)
    fd = s.value("SELECT securefile_create(%s::regclass, %s::name)", (table, column))
    s.note(f"{fd} = create {table}.{column}")
    s.add_handle(fd, "rw", Sparse())


def open_value(s):
    place = some_place(s, filled=s.rng.random() < 0.97)
    if len(s.handles) >= HANDLES or not place:
        return
    table, key, column = place
    mode = s.rng.choice(["r", "rw", "rw"])
    fd = s.value(f"SELECT securefile_open({column}, '{mode}') FROM {name_of(s, table)}"
                 " WHERE id = %s", (key,))
    s.note(f"{fd} = open {place} {mode}")
    content = s.content(place)
    if content is None:
        if fd is not None:
            raise Mismatch(f"a null is opened as {fd}")
        return
    s.add_handle(fd, mode, content.copy(), inline=is_inline(s, place), home=place)


def open_edited(s):
    """A value that exists in memory only."""
    place = some_place(s)
    if len(s.handles) >= HANDLES or not place:
        return
    data = fresh(s)
    content = s.content(place).copy()
    content.write(content.length, data)
    fd = s.value(f"SELECT securefile_open({place[2]} || %b, 'r') FROM {place[0]} WHERE id = %s",
                 (data, place[1]))
    s.note(f"{fd} = open {place} || {len(data)} bytes")
    s.add_handle(fd, "r", content, inline=True)


def read(s):
    handle = some_handle(s)
    if not handle:
        return
    count = s.rng.choice([0, size(s.rng), size(s.rng), 30 * UNIT])
    s.note(f"read {handle.fd}, {count} at {handle.position}")
    got = s.value("SELECT securefile_read(%s, %s)", (handle.fd, count))
    want = handle.content.read(handle.position, count)
    same(want, got, f"read of {count} bytes from {handle.position}")
    handle.position += len(want)


def send_all(s, fd, pieces):
    """Writes in a pipeline; their cursors."""
    try:
        with s.conn.pipeline():
            cursors = [s.conn.cursor(binary=True).execute(
                "SELECT securefile_write(%s, %b)", (fd, piece)) for piece in pieces]
            while s.conn.pgconn.flush():	# psycopg 3.1 does not see to it
                select.select([], [s.conn.fileno()], [])
        return cursors
    except psycopg.Error as error:
        if is_lost(error, s.conn):
            raise Lost(str(error)) from error
        raise


def write(s):
    """One piece, or several without waiting for answers."""
    handle = some_handle(s)
    if not handle or len(handle.content.pages) * PAGE > DENSE_MAX:
        return
    pieces = [fresh(s) for _ in range(s.rng.choice([1, 1, 1, 2, 5, 20]))]
    s.note(f"write {handle.fd}, {[len(p) for p in pieces]} at {handle.position}")
    if handle.mode == "r":
        s.refused("SELECT securefile_write(%s, %b)", (handle.fd, pieces[0]), "55000")
        return
    cursors = send_all(s, handle.fd, pieces)
    for piece, cursor in zip(pieces, cursors):
        written = cursor.fetchone()[0]
        if written != len(piece):
            raise Mismatch(f"wrote {written} of {len(piece)} bytes")
        handle.content.write(handle.position, piece)
        handle.position += len(piece)
    handle.written = s.tick()


def seek(s):
    handle = some_handle(s)
    if not handle:
        return
    target = spot(s.rng, handle.content.length)
    if not handle.inline and s.rng.random() < 0.04:
        target = far_spot(s.rng)
    elif s.rng.random() < 0.05:
        target = -1
    whence = s.rng.randint(0, 2)
    offset = target - [0, handle.position, handle.content.length][whence]
    s.note(f"seek {handle.fd}, {offset} {whence}: {target}")
    call = "SELECT securefile_seek(%s, %s::bigint, %s)"
    if target < 0:
        s.refused(call, (handle.fd, offset, whence), "22023")
        return
    got = s.value(call, (handle.fd, offset, whence))
    if got != target:
        raise Mismatch(f"seek to {target} went to {got}")
    handle.position = target


def truncate(s):
    handle = some_handle(s)
    if not handle:
        return
    length = spot(s.rng, handle.content.length)
    if not handle.inline and s.rng.random() < 0.04:
        length = far_spot(s.rng)
    s.note(f"truncate {handle.fd} to {length}")
    call = "SELECT securefile_truncate(%s::int, %s::bigint)"
    if handle.mode == "r":
        s.refused(call, (handle.fd, length), "55000")
        return
    if s.value(call, (handle.fd, length)) != 0:
        raise Mismatch("truncate does not return 0")
    if length != handle.content.length:
        handle.content.truncate(length)
        handle.written = s.tick()


def erase(s):
    handle = some_handle(s)
    if not handle:
        return
    count = s.rng.choice([0, size(s.rng), size(s.rng), 30 * UNIT, 2**63 - 1])
    s.note(f"erase {handle.fd}, {count} at {handle.position}")
    call, params = "SELECT securefile_erase(%s::int, %s::bigint)", (handle.fd, count)
    if handle.mode == "r":
        s.refused(call, params, "55000")
        return
    want = max(0, min(count, handle.content.length - handle.position))
    got = s.value(call, params)
    if got != want:
        raise Mismatch(f"erased {got} of {want} bytes")
    handle.content.zero(handle.position, want)
    if want > 0:
        handle.written = s.tick()


def insert_bytes(s):
    """Bytes in between; behind the end it is a write."""
    handle = some_handle(s)
    if not handle or handle.content.length > DENSE_MAX or handle.position > DENSE_MAX:
        return
    data = s.rng.randbytes(size(s.rng))
    s.note(f"insert {len(data)} to {handle.fd} at {handle.position}")
    call, params = "SELECT securefile_insert(%s::int, %s::bytea)", (handle.fd, data)
    if handle.mode == "r":
        s.refused(call, params, "55000")
        return
    if s.value(call, params) != len(data):
        raise Mismatch("insert returns another number")
    handle.content.shift(handle.position, 0, data)
    handle.position += len(data)
    handle.written = s.tick()


def delete_range(s):
    handle = some_handle(s)
    if not handle or handle.content.length > DENSE_MAX:
        return
    count = s.rng.choice([0, size(s.rng), size(s.rng), 30 * UNIT, 2**63 - 1])
    s.note(f"delete {count} from {handle.fd} at {handle.position}")
    call, params = "SELECT securefile_delete(%s::int, %s::bigint)", (handle.fd, count)
    if handle.mode == "r":
        s.refused(call, params, "55000")
        return
    want = max(0, min(count, handle.content.length - handle.position))
    got = s.value(call, params)
    if got != want:
        raise Mismatch(f"deleted {got} of {want} bytes")
    if want > 0:
        handle.content.shift(handle.position, want, b"")
        handle.written = s.tick()


def fits(target, content, count):
    """Does the target stay as short as the test wants it, with so many bytes more of a content?"""
    dense = (len(content.pages) + len(target.content.pages)) * PAGE
    return dense <= DENSE_MAX and (not target.inline or target.position + count <= DENSE_MAX)


def copied(s, target, want, got):
    if got != want:
        raise Mismatch(f"copied {got} of {want} bytes")
    target.position += want
    if want > 0:
        target.written = s.tick()


def copy_range(s):
    """From one handle to another, which may be of the same value."""
    if len(s.handles) < 2:
        return
    target, source = (s.handles[fd] for fd in s.rng.sample(sorted(s.handles), 2))
    count = s.rng.choice([None, 0, size(s.rng), size(s.rng), 30 * UNIT])
    s.note(f"copy {source.fd} at {source.position} to {target.fd} at {target.position}, {count}")
    call = "SELECT securefile_copy(%s::int, %s::int, %s::bigint)"
    params = (target.fd, source.fd, count)
    if target.mode == "r":
        s.refused(call, params, "55000")
        return
    left = max(0, source.content.length - source.position)
    want = left if count is None else min(count, left)
    if not fits(target, source.content, want):
        return
    got = s.value(call, params)
    target.content.put(target.position, source.content, source.position, want, source.inline)
    copied(s, target, want, got)
    source.position += want


def copy_from_value(s):
    """A part of a value, or of one that has some bytes more behind."""
    handle, place = some_handle(s), some_place(s)
    if not handle or not place or handle.mode == "r":
        return
    table, key, column = place
    content, more = s.content(place).copy(), s.rng.choice([b"", fresh(s)])
    whole = bool(content.length == 0 or is_inline(s, place))
    content.write(content.length, more)
    start = spot(s.rng, content.length)
    count = s.rng.choice([None, 0, size(s.rng), 30 * UNIT])
    left = max(0, content.length - start)
    want = left if count is None else min(count, left)
    s.note(f"copy {place} || {len(more)} from {start}, {count}, to {handle.fd} at {handle.position}")
    if not fits(handle, content, want):
        return
    got = s.value(f"SELECT securefile_copy(%s::int, {column} || %b::bytea, %s::bigint, %s::bigint)"
                  f" FROM {table} WHERE id = %s", (handle.fd, more, start + 1, count, key))
    handle.content.put(handle.position, content, start, want, whole)
    copied(s, handle, want, got)


def close(s):
    handle = some_handle(s)
    if not handle:
        return
    s.note(f"close {handle.fd}")
    if s.value("SELECT securefile_close(%s)", (handle.fd,)) != 0:
        raise Mismatch("close does not return 0")
    s.forget(handle)


def misuse(s):
    """What must be refused, of handles that are closed and of those that are not."""
    bad = s.rng.choice(s.closed[-20:] + [0, -1, s.highest + 1000])
    s.note(f"misuse of {bad}")
    call, more = s.rng.choice([
        ("read(%s, 10)", ()), ("write(%s, 'x')", ()), ("seek(%s, 0, 0)", ()), ("tell(%s)", ()),
        ("truncate(%s::int, 0)", ()), ("erase(%s::int, 1)", ()), ("copy(%s::int, 0)", ()),
        ("copy(%s::int, 'x'::securefile)", ()), ("finish(%s)", ()), ("close(%s)", ())])
    s.refused(f"SELECT securefile_{call}", (bad, *more), "42704")
    handle = some_handle(s)
    if handle:
        call, state = s.rng.choice([("read(%s, -1)", "22023"), ("seek(%s, 0, 3)", "22023"),
                                    ("read(%s, 2147483647)", "54000"),
                                    ("copy(%s::int, 0)", "55000" if handle.mode == "r" else "42704"),
                                    ("seek(%s, -1, 0)", "22023")])
        s.refused(f"SELECT securefile_{call}", (handle.fd,), state)


# ---- what becomes of a handle ----

def finish_home(s):
    """Back into the row it was opened on, if that is still there."""
    homes = [h for _, h in sorted(s.handles.items()) if h.home and h.home[:2] in s.rows]
    if homes:
        finish_into(s, s.rng.choice(homes), None)


def finish_elsewhere(s):
    handle, place = some_handle(s), some_place(s, filled=False)
    if handle and place:
        finish_into(s, handle, place)


def finish_into(s, handle, place):
    table, key, column = place = place or handle.home
    s.note(f"{place} = finish {handle.fd}, of {handle.home}")
    s.changes(f"UPDATE {name_of(s, table)} SET {column} = securefile_finish(%s) WHERE id = %s",
              (handle.fd, key))
    s.set(place, handle.content)
    s.forget(handle)


def finish_insert(s):
    handle, place = some_handle(s), new_place(s)
    if not handle or not place:
        return
    table, key, column = place
    s.note(f"new {place} = finish {handle.fd}")
    s.changes(f"INSERT INTO {name_of(s, table)} (id, {column})"
              " VALUES (%s, securefile_finish(%s))", (key, handle.fd))
    s.set(place, handle.content)
    s.forget(handle)


def finish_upsert(s):
    """Over what is there, or appended to it."""
    handle, place = some_handle(s), some_place(s)
    if not handle or not place or long(handle.content):
        return
    table, key, column = place
    append = s.rng.random() < 0.5
    s.note(f"{place} {'||' if append else ''}= finish {handle.fd}")
    s.changes(f"INSERT INTO {name_of(s, table)} AS t (id, {column})"
              f" VALUES (%s, securefile_finish(%s)) ON CONFLICT (id) DO UPDATE SET"
              f" {column} = {f't.{column} || ' if append else ''}excluded.{column}",
              (key, handle.fd))
    content = s.content(place).copy() if append else handle.content
    if append:
        content.write(content.length, handle.content.bytes())
    s.set(place, content)
    s.forget(handle)


def finish_twice(s):
    """Stored in two places: the second is a copy."""
    handle, first, second = some_handle(s), some_place(s, False), some_place(s, False)
    if not handle or not first or first == second:
        return
    s.note(f"{first}, {second} = finish {handle.fd}")
    if first[:2] == second[:2] and s.rng.random() < 0.5:
        s.changes(f"UPDATE {first[0]} SET a = f.d, b = f.d FROM (SELECT securefile_finish(%s) AS d"
                  " OFFSET 0) f WHERE id = %s", (handle.fd, first[1]))
    else:
        updates = [f"UPDATE {table} SET {column} = $1 WHERE id = {key}"
                   for table, key, column in (first, second)]
        s.sql("SELECT handles_store_twice(%s, %s, %s)", (handle.fd, *updates))
    s.set(first, handle.content)
    s.set(second, handle.content)
    s.forget(handle)


def finish_selected(s):
    """Never stored; selected it is its contents."""
    handle = some_handle(s)
    if not handle:
        return
    s.note(f"select finish {handle.fd}")
    if long(handle.content):
        got = s.value("SELECT length(securefile_finish(%s))", (handle.fd,))
        if got != handle.content.length:
            raise Mismatch(f"finish of {handle.content.length} bytes has {got}")
    else:
        got = s.value("SELECT securefile_finish(%s)::bytea", (handle.fd,))
        same(handle.content.bytes(), got, "finish, selected")
    s.forget(handle)


def long(content):
    """Too long to be taken as a whole."""
    return content.length > DENSE_MAX


# ---- plain statements ----

def update(s, place, expression, params, content):
    table, key, column = place
    s.note(f"{place} = {expression}: {content and content.length} bytes")
    s.changes(f"UPDATE {name_of(s, table)} SET {column} = {expression} WHERE id = %s",
              (*params, key))
    s.set(place, content)


def plain_insert(s):
    place = new_place(s)
    if not place:
        return
    data = fresh(s)
    s.note(f"new {place}: {len(data)} bytes")
    s.changes(f"INSERT INTO {name_of(s, place[0])} (id, {place[2]}) VALUES (%s, %b)",
              (place[1], data))
    s.set(place, Sparse(data))


def plain_update(s):
    place = some_place(s, filled=False)
    if place:
        data = s.rng.choice([None, b"", fresh(s), fresh(s), fresh(s), fresh(s)])
        update(s, place, "%b::bytea", (data,), None if data is None else Sparse(data))


def delete(s):
    where = s.rng.choice(sorted(s.rows)) if s.rows else None
    if where and s.rng.random() < 0.5:
        s.note(f"delete {where}")
        s.changes(f"DELETE FROM {name_of(s, where[0])} WHERE id = %s", (where[1],))
        del s.rows[where]
        s.mine.add(where)


def copy_value(s):
    """From another row or column."""
    source, place = some_place(s), some_place(s, filled=False)
    if source and place:
        update(s, place, f"(SELECT {source[2]} FROM {source[0]} WHERE id = {source[1]})", (),
               s.content(source))


def append(s):
    place = some_place(s)
    if place:
        data = fresh(s)
        content = s.content(place).copy()
        content.write(content.length, data)
        update(s, place, f"{place[2]} || %b::bytea", (data,), content)


def append_value(s):
    """A value before or after another one, or before or after some bytes."""
    source, place = some_place(s), some_place(s)
    if not place or long(s.content(source)) or long(s.content(place)):
        return
    a, b = s.content(place).bytes(), s.content(source).bytes()
    from_source = f"(SELECT {source[2]} FROM {source[0]} WHERE id = {source[1]})"
    if len(a) + len(b) <= DENSE_MAX:
        if s.rng.random() < 0.5:
            content = s.content(place).copy()
            content.write(content.length, b)
            update(s, place, f"{place[2]} || {from_source}", (), content)
        else:
            data = fresh(s)
            update(s, place, f"%b::bytea || {place[2]}", (data,), Sparse(data + a))


def overlay(s):
    place = some_place(s)
    if not place:
        return
    content, data = s.content(place).copy(), fresh(s)
    at, removed = spot(s.rng, content.length), len(data)
    if s.rng.random() < 0.4 or at + removed > content.length:
        if long(content):
            return
        removed = s.rng.choice([0, removed, size(s.rng)])
    content.splice(at, removed, data)
    update(s, place, f"overlay({place[2]} placing %b::bytea from %s::bigint for %s::bigint)",
           (data, at + 1, removed), content)


def cut(s):
    """Shorter or longer, and once more, in one expression."""
    place = some_place(s)
    if not place:
        return
    content, data = s.content(place).copy(), fresh(s)
    first, second = spot(s.rng, content.length), spot(s.rng, content.length)
    content.truncate(first)
    content.write(first, data)
    content.truncate(second)
    if first == 0 or is_inline(s, place):
        content.fill()
    update(s, place, f"securefile_truncate(securefile_truncate({place[2]}, %s::bigint)"
           " || %b::bytea, %s::bigint)", (first, data, second), content)


def look(s):
    """A row as this transaction sees it."""
    place = some_place(s, filled=False)
    if place:
        s.note(f"look at {place}")
        compare_value(s, *place, s.content(place), s.rng)


# ---- savepoints ----

def savepoint(s):
    if len(s.saved) < 6:
        s.savepoint()


def release(s):
    if s.saved:
        s.release(s.rng.randrange(len(s.saved)))


def rollback_to(s):
    if s.saved:
        s.rollback_to(s.rng.randrange(len(s.saved)))


# ---- what the other session does ----

def others_place(s):
    """A committed value in a row that this transaction has left alone."""
    places = [(table, key, column) for table, key in sorted(s.committed) for column in COLUMNS
              if (table, key) not in s.mine]
    return s.rng.choice(places) if places and not s.repeatable else None


def others_update(s):
    """New bytes, or an edit, under handles that are open on the row."""
    place = others_place(s)
    if not place:
        return
    table, key, column = place
    old, data = s.committed[table, key][column], fresh(s)
    edit = old is not None and s.rng.random() < 0.5
    content = old.copy() if edit else Sparse()
    content.write(content.length, data)
    s.note(f"other session: {place} {'||' if edit else ''}= {len(data)} bytes")
    row = {**s.committed[table, key], column: content}
    s.others_change(f"UPDATE {table} SET {column} = {f'{column} || ' if edit else ''}%b::bytea"
                    " WHERE id = %s", (data, key), (table, key),
                    lambda rows: rows.update({(table, key): row}))


def others_insert(s):
    table, key, data = s.rng.choice(LEAVES), s.rng.randint(1000, 1002), fresh(s)
    if (table, key) in s.committed or (table, key) in s.mine or s.repeatable:
        return
    s.note(f"other session: new {table} {key}, {len(data)} bytes")
    row = {"a": Sparse(data), "b": None}
    s.others_change(f"INSERT INTO {table} (id, a) VALUES (%s, %b)", (key, data), (table, key),
                    lambda rows: rows.update({(table, key): row}))


def others_delete(s):
    place = others_place(s)
    if place and s.rng.random() < 0.4:
        where = place[:2]
        s.note(f"other session: delete {where}")
        s.others_change(f"DELETE FROM {where[0]} WHERE id = %s", (where[1],), where,
                        lambda rows: rows.pop(where))


def others_maintain(s):
    """What is free is used again at once, if it should not be free; a column learns."""
    table, column = s.rng.choice(LEAVES), s.rng.choice(COLUMNS)
    s.note(f"other session: maintain {table}.{column}")
    run(s.other, f"SELECT securefile_maintain('{table}', '{column}')")
    if s.rng.random() < 0.2:
        run(s.other, f"VACUUM {table}")
    if s.rng.random() < 0.2:
        option_words.train(lambda text: run(s.other, text), table, column, "id", "-n")


def others_kept(s):
    """What is kept of removed values is ended, all or the oldest of it, or looked at."""
    if not s.kept:
        return
    place = s.rng.choice(s.kept)
    older = s.rng.choice(["0", "1 second", "5 seconds", None, None, None])
    s.note(f"other session: {place} purged, {older}")
    with living(s.other):
        if older:
            kept.purge(s.other, *place, older)
        else:
            kept.look(s.other, *place, quiet=True, share=0.1)


def undelete(s):
    """A row gets a value that another one has lost, without gaps and not too long."""
    place = new_place(s)
    if not place or (place[0], place[2]) not in s.kept:
        return
    table, key, column = place
    found = s.sql(f"SELECT loc, sha FROM (SELECT md5((document::raw)::bytea)::uuid AS loc FROM securefile_removed(%s, %s)) r"
                  " JOIN kept_lost USING (loc) WHERE sha IS NOT NULL ORDER BY random() LIMIT 1", (table, column))
    if not found:
        return
    text = f"FROM securefile_removed('{table}', '{column}') WHERE md5((document::raw)::bytea)::uuid = %s"
    data = bytes(s.value(f"SELECT document::bytea {text}", (found[0][0],)))
    if bytes(PAGE) in data:
        return
    s.note(f"new {place}: undeleted, {len(data)} bytes")
    same(bytes(found[0][1]), hashlib.sha256(data).digest(), "SHA-256 of an undeleted value")
    s.changes(f"INSERT INTO {name_of(s, table)} (id, {column}) SELECT %s, document {text}", (key, found[0][0]))
    s.set(place, Sparse(data))


OPERATIONS = [
    (create, 10), (open_value, 22), (open_edited, 3), (read, 26), (write, 34), (seek, 30),
    (truncate, 8), (erase, 8), (insert_bytes, 10), (delete_range, 6),
    (copy_range, 10), (copy_from_value, 6), (close, 3), (misuse, 5),
    (finish_home, 12), (finish_elsewhere, 4), (finish_insert, 10), (finish_upsert, 3),
    (finish_twice, 3), (finish_selected, 3),
    (plain_insert, 8), (plain_update, 4), (delete, 6), (copy_value, 4), (append, 7),
    (append_value, 3), (overlay, 6), (cut, 5), (look, 8),
    (savepoint, 9), (release, 4), (rollback_to, 6),
    (others_update, 6), (others_insert, 4), (others_delete, 4), (others_maintain, 5),
    (others_kept, 3), (undelete, 4),
]
