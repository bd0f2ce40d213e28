"""The sessions of the test of handles: what they hold and what must be so."""

import psycopg

import handle_rows
from client import Lost, Mismatch, is_lost
from handle_rows import COLUMNS, same


def run(conn, text, params=None):
    """Rows, in binary, and their number; Lost if the server is gone."""
    try:
        cur = conn.cursor(binary=True)
        cur.execute(text, params)
        return cur.fetchall() if cur.description else [], cur.rowcount
    except psycopg.Error as error:
        if is_lost(error, conn):
            raise Lost(str(error)) from error
        raise


def connect(dsn):
    """A session of its own; Lost if the server was killed meanwhile."""
    try:
        return psycopg.connect(dsn, autocommit=True)
    except psycopg.OperationalError as error:
        raise Lost(str(error)) from error


class Handle:
    """A handle of the server's beside the content it must show."""

    def __init__(self, fd, mode, content, serial, **more):
        self.fd = fd
        self.mode = mode
        self.content = content
        self.position = 0
        self.opened = serial		# when; savepoints set before that close it
        self.written = serial
        self.inline = more.get("inline", False)		# held in memory: no far offsets
        self.home = more.get("home")	# (table, id, column) of the value it was opened on


class Session:
    """The session with the handles, and another one beside it."""

    def __init__(self, dsn, rng, committed, kept=()):
        self.conn = connect(dsn)
        self.other = connect(dsn)
        self.rng = rng
        self.committed = committed
        self.kept = list(kept)	# (table, column) of those with a retention
        self.doubt = []			# what may hold as well, once the server is gone
        self.handles = {}
        self.closed = []		# numbers that must not work any more
        self.highest = 0
        self.serial = 0
        self.operations = 0
        self.prepared = 0
        self.trail = []

    # ---- statements ----

    def sql(self, text, params=None):
        return run(self.conn, text, params)[0]

    def changes(self, text, params=None, want=1):
        """Run a statement that changes so many rows."""
        done = run(self.conn, text, params)[1]
        if done != want:
            raise Mismatch(f"{done} rows instead of {want}: {text}")

    def value(self, text, params=None):
        return self.sql(text, params)[0][0]

    def refused(self, text, params, *sqlstates):
        """A statement that must fail, and leave all handles as they are."""
        self.sql("SAVEPOINT refused")
        try:
            rows = self.sql(text, params)
        except psycopg.Error as error:
            if error.sqlstate not in sqlstates:
                raise
        else:
            raise Mismatch(f"no error: {text} {params}: {rows}")
        self.sql("ROLLBACK TO refused")
        self.sql("RELEASE refused")

    def note(self, text):
        self.trail.append(text)

    # ---- the model ----

    def tick(self):
        self.serial += 1
        return self.serial

    def places(self):
        """(table, id, column) of all values in sight."""
        return [(table, key, column) for table, key in sorted(self.rows) for column in COLUMNS]

    def content(self, place):
        return self.rows[place[:2]][place[2]]

    def set(self, place, content):
        """A statement of ours has put this there."""
        where = place[:2]
        self.rows[where] = {**self.rows.get(where, dict.fromkeys(COLUMNS)), place[2]: content}
        self.mine.add(where)

    def add_handle(self, fd, mode, content, **more):
        if fd <= self.highest:
            raise Mismatch(f"handle {fd} after {self.highest}")
        self.highest = fd
        self.handles[fd] = Handle(fd, mode, content, self.tick(), **more)

    def forget(self, handle):
        if handle.inline:
            handle.content.fill()
        del self.handles[handle.fd]
        self.closed.append(handle.fd)

    # ---- transactions ----

    def begin(self):
        self.rows = dict(self.committed)
        self.saved = []			# (name, serial, rows)
        self.mine = set()		# rows that others must not touch
        self.repeatable = self.rng.random() < 0.15
        self.sql("BEGIN" + (" ISOLATION LEVEL REPEATABLE READ" if self.repeatable else ""))
        if self.repeatable:
            self.sql("SELECT count(*) FROM handles_plain")

    def savepoint(self):
        name = f"s{len(self.saved)}"
        self.note(f"SAVEPOINT {name}")
        self.sql(f"SAVEPOINT {name}")
        self.saved.append((name, self.tick(), dict(self.rows)))

    def release(self, depth):
        self.note(f"RELEASE s{depth}")
        self.sql(f"RELEASE s{depth}")
        del self.saved[depth:]

    def rollback_to(self, depth):
        """Closes what was opened, or last written to, since the savepoint."""
        name, serial, rows = self.saved[depth]
        self.note(f"ROLLBACK TO {name}")
        self.sql(f"ROLLBACK TO {name}")
        self.rows = dict(rows)
        del self.saved[depth + 1:]
        for handle in list(self.handles.values()):
            if max(handle.opened, handle.written) > serial:
                self.forget(handle)
        self.handles_are_as_expected()

    def handles_are_as_expected(self):
        """Open ones tell their position; some of the closed ones are closed."""
        for handle in self.handles.values():
            got = self.value("SELECT securefile_tell(%s)", (handle.fd,))
            if got != handle.position:
                raise Mismatch(f"handle {handle.fd} at {got}, expected {handle.position}")
        for fd in self.closed[-4:]:
            self.refused("SELECT securefile_tell(%s)", (fd,), "42704")

    def handles_are_closed(self):
        """After the end of a transaction none is open."""
        self.closed += self.handles
        self.handles = {}
        self.sql("BEGIN")
        self.handles_are_as_expected()
        self.sql("ROLLBACK")

    def end(self):
        """COMMIT, ROLLBACK, or in two phases."""
        how = self.rng.choices(["COMMIT", "ROLLBACK", "COMMIT PREPARED", "ROLLBACK PREPARED"],
                               [60, 20, 13, 7])[0]
        self.note(how)
        if how.startswith("COMMIT"):
            self.doubt = [self.rows]
        if how.endswith("PREPARED"):
            self.prepared += 1
            gid = f"handles_{self.prepared}_{self.highest}"
            self.sql(f"PREPARE TRANSACTION '{gid}'")
            self.handles_are_closed()
            self.sql(f"{how} '{gid}'")
        else:
            self.sql(how)
        if how.startswith("COMMIT"):
            self.committed = self.rows
        self.doubt = []

    # ---- the other session ----

    def others_change(self, text, params, where, change):
        """A committed statement of the other session, on a row that is not ours."""
        after = dict(self.committed)
        change(after)
        self.doubt = [after]
        done = run(self.other, text, params)[1]
        if done != 1:
            raise Mismatch(f"{done} rows of the other session: {text}")
        self.doubt = []
        self.committed = after
        for rows in [self.rows] + [saved[2] for saved in self.saved]:
            rows.pop(where, None)
            if where in after:
                rows[where] = after[where]


class Snapshot:
    """An old snapshot, and a handle in it, which go on seeing what they saw."""

    def __init__(self, dsn, rows, rng):
        self.conn = connect(dsn)
        self.rows = dict(rows)
        self.handle = None
        self.sql("BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY")
        handle_rows.compare_keys(self, self.rows)
        places = [(table, key, column) for table, key in sorted(rows) for column in COLUMNS
                  if rows[table, key][column]]
        if places:
            table, key, column = rng.choice(places)
            fd = self.sql(f"SELECT securefile_open({column}, 'r') FROM {table} WHERE id = %s",
                          (key,))[0][0]
            self.handle = fd, rows[table, key][column]

    def sql(self, text, params=None):
        return run(self.conn, text, params)[0]

    def look(self, rng):
        """A row as it was, and a piece of the handle."""
        if self.rows:
            where = rng.choice(sorted(self.rows))
            handle_rows.compare_row(self, where, self.rows[where], rng)
        if self.handle:
            fd, content = self.handle
            offset = rng.randint(0, content.length)
            self.sql("SELECT securefile_seek(%s, %s::bigint, 0)", (fd, offset))
            got = self.sql("SELECT securefile_read(%s, 300000)", (fd,))[0][0]
            want = content.read(offset, 300000)
            same(want, got, f"handle of an old snapshot at {offset}")

    def close(self):
        if self.handle:
            fd, content = self.handle
            got = self.sql("SELECT length(securefile_finish(%s))", (fd,))[0][0]
            if got != content.length:
                raise Mismatch(f"finish of an old snapshot's handle: {got} bytes")
        self.sql("COMMIT")
        self.conn.close()
