"""The session of the test of twins: every statement is done to both of them.

A table of schema sf has securefile columns, its twin in schema ba bytea ones.
What exists is read from the catalog before each statement, so nothing has to be
remembered over rollbacks but handles and cursors.
"""

import re

import psycopg
from psycopg.pq import TransactionStatus

import kept
from client import Lost, Mismatch, is_injected, is_lost

DEPTH = 6					# savepoints, one in the other

# What any table refuses.  If a statement without a savepoint of its own fails so, the
# transaction goes back, and the other twin is not asked
COMMON = {
    "22011", "22012", "23502", "23505", "23514", "25001", "2BP01", "42601", "42611", "42701", "42703",
    "42704", "42804", "42809", "42883", "42P01", "42P07", "42P16", "0A000", "55006", "34000", "24000"}

# What securefile refuses by design, where bytea does not: SQLSTATE, part of the message
REFUSED = [
    ("55000", "logging mode"),			# stored values, ALTER TYPE
    ("55000", "has no segment"),		# an unlogged table's
    ("42804", "when preparing the plan"),	# a trigger's, of before an ALTER TYPE, in the same session
    ("42804", "has different type"),		# ATTACH, INHERIT: other options are another type modifier
    ("55006", "to another tablespace"),	# moves of what this transaction has stored
    ("0A000", "unlogged while column"),	# SET UNLOGGED over stored values
    ("0A000", "cannot be encrypted"),	# a column of an unlogged table
    ("0A000", "cannot have hash index"),	# nor one with such an index
    ("0A000", "cannot be added with a default"),
    ("0A000", "cannot be computed by ALTER TABLE"),
    ("0A000", "plain values in encrypted column"),	# CREATE TABLE AS of what was stored before the option
    ("55000", "is not encrypted"),			# a new key
    ("55000", "rewritten or dropped a securefile column"),	# the same, in this transaction
    ("54000", "data keys already"),			# too many of them
]
CANCELLED = "57014"
REPLACED = ("55000", "42704")	# the storage of a handle's value

TABLES = """
    SELECT c.relnamespace::regnamespace::text, c.relname::text, c.relkind::text, a.names, a.types
    FROM pg_class c, LATERAL (SELECT array_agg(attname::text ORDER BY attname) names,
            array_agg(format_type(atttypid, -1) ORDER BY attname) types
        FROM pg_attribute WHERE attrelid = c.oid AND attnum > 0 AND attname ~ '^doc') a
    WHERE c.relnamespace IN ('sf'::regnamespace, 'ba'::regnamespace) AND c.relkind IN ('r', 'p')
        AND c.relname <> 'shadow' ORDER BY 2, 1"""

CHECK = """
    SELECT c.relname::text, a.attname::text, x.* FROM pg_class c
        JOIN pg_attribute a ON a.attrelid = c.oid AND a.atttypid = 'securefile'::regtype,
        LATERAL securefile_check(c.oid, a.attname) x
    WHERE c.relnamespace = 'sf'::regnamespace AND c.relkind = 'r' AND c.relpersistence = 'p' LIMIT 5"""


# whose table notes what its rows lose
KEEPING = """
    SELECT 'sf.' || c.relname, a.attname::text, c.oid, a.attnum, format_type(a.atttypid, a.atttypmod) LIKE '%retention%'
    FROM pg_class c JOIN pg_attribute a ON a.attrelid = c.oid AND a.atttypid = 'securefile'::regtype
        JOIN pg_trigger t ON t.tgrelid = c.oid AND t.tgname = 'zzz_kept'
    WHERE c.relnamespace = 'sf'::regnamespace AND c.relkind = 'r' AND c.relpersistence = 'p' ORDER BY 1, 2"""


class Undone(Exception):
    """The statement failed, for both or as it may: it has done nothing."""


class Table:
    """What the catalog says of a table, and of its twin."""

    def __init__(self, kind, columns, types):
        self.kind = kind
        self.columns = columns or []
        self.types = dict(zip(self.columns, types or []))	# of the securefile twin

    def stored(self):
        """Columns that are of type securefile now."""
        return [c for c in self.columns if self.types[c] == "securefile"]


class Handle:
    """A handle; its content is also in a row of ba.shadow."""

    def __init__(self, fd, serial):
        self.fd = fd
        self.position = 0
        self.opened = self.written = serial


class Session:
    """One connection, its transaction, and how that has come about."""

    def __init__(self, dsn, rng, script=None):
        self.dsn = dsn
        self.rng = rng
        self.script = script	# a file for all statements
        self.conn = None
        self.tables = {}
        self.hot = []			# tables that this transaction likes best
        self.saved = []			# (name, serial)
        self.handles = {}
        self.cursors = {}		# name: (serial, rows fetched of both twins, WITH HOLD)
        self.replaced = []		# serials of statements that replace storage
        self.serial = 0
        self.injected = False	# a fault point is, or was, armed in this transaction
        self.held = False		# it has made a cursor WITH HOLD: it cannot be prepared
        self.trail = []
        self.counts = {"statements": 0, "failed": 0, "rollbacks": 0, "comparisons": 0, "kept": 0}
        self.away = {}			# windows of columns without a retention
        self.connect()

    def connect(self):
        if self.conn:
            self.conn.close()
        self.conn = psycopg.connect(self.dsn, autocommit=True, prepare_threshold=None)
        self.cursors = {}

    def in_transaction(self):
        return self.conn.info.transaction_status != TransactionStatus.IDLE

    def tick(self):
        self.serial += 1
        return self.serial

    # ---- statements of one twin ----

    def note(self, text):
        self.trail.append(text)
        if self.script:
            print(f"{text};", file=self.script, flush=True)

    def sql(self, text):
        """Run a statement that must work; its rows."""
        self.note(text)
        try:
            cur = self.conn.execute(text)
            return cur.fetchall() if cur.description else []
        except psycopg.Error as error:
            if is_lost(error, self.conn):
                raise Lost(str(error)) from error
            raise

    def attempt(self, text):
        """(status, rows) or (None, error)."""
        self.note(text)
        self.counts["statements"] += 1
        try:
            cur = self.conn.execute(text)
            rows = sorted(cur.fetchall(), key=str) if cur.description else []
            return cur.statusmessage, rows
        except psycopg.Error as error:
            if is_lost(error, self.conn):
                raise Lost(str(error)) from error
            self.trail[-1] += f"    /* {error.sqlstate}: {str(error).splitlines()[0]} */"
            return None, error

    # ---- statements of both ----

    def twin(self, template, schema):
        """The statement of one twin: ~ is its schema, <<a|b>> is what they differ in."""
        text = re.sub(r"<<(.*?)\|(.*?)>>", r"\1" if schema == "sf" else r"\2", template,
                      flags=re.DOTALL)
        return text.replace("~", schema)

    def do(self, template, guard=None, handle=None):
        """Do a statement to both twins; Undone if it failed.

        guard: in a savepoint of its own.  With it, or outside of a transaction, both
        must fail if one does.  Rows of both when they need not be the same (<<a|b>>).
        """
        inside = self.in_transaction()
        guard = inside and (self.rng.random() < 0.35 if guard is None else guard)
        serial = self.start(template)
        if guard:
            self.sql("SAVEPOINT g")
        ours = self.attempt(self.twin(template, "sf"))
        exposed = inside and not guard or "|SELECT 1>>" in template
        if ours[0] is None and self.may_fail(ours[1], exposed, handle):
            self.undo(guard, serial)
        if ours[0] is None and guard:
            self.undo_guard(serial)
        theirs = self.attempt(self.twin(template, "ba"))
        if theirs[0] is None and self.injected and is_injected(theirs[1]):
            self.undo(guard, serial)	# what the transaction has gathered was to be written
        self.same(template, ours, theirs)
        if ours[0] is None:
            self.undo(guard, serial)
        if guard:
            self.sql("RELEASE g")
        return ours[1], theirs[1]

    def start(self, template):
        """A new serial, noted if the statement may replace storage."""
        serial = self.tick()
        if re.search("TRUNCATE|DROP|ALTER|CREATE|CLUSTER|securefile_rewrite|set_tablespace", template):
            self.replaced.append(serial)
        return serial

    def same(self, template, ours, theirs):
        """Both have done the same, or failed of the same: which row comes first may differ."""
        if ours[0] is None or theirs[0] is None:
            states = {result.sqlstate for status, result in (ours, theirs) if status is None}
            if ours[0] == theirs[0] and (len(states) == 1 or states <= COMMON):
                return
            raise Mismatch(f"securefile: {ours[1] if ours[0] is None else ours[0]}; "
                           f"bytea: {theirs[1] if theirs[0] is None else theirs[0]}: {template}")
        if "<<" not in template and ours != theirs:
            raise Mismatch(f"securefile: {ours}; bytea: {theirs}: {template}")

    def may_fail(self, error, exposed, handle=None):
        """May the securefile twin fail of that alone?  If exposed, the other one cannot
        show that it does, too."""
        if self.injected and is_injected(error):
            return True
        if handle and error.sqlstate in REPLACED and any(s > handle.opened for s in self.replaced):
            return True
        if any(error.sqlstate == state and part in str(error) for state, part in REFUSED):
            return True
        return exposed and error.sqlstate in COMMON

    def undo_guard(self, serial):
        self.sql("ROLLBACK TO g")
        self.forget_since(serial)

    def undo(self, guard, serial):
        """Take the statement back, and tell the caller."""
        self.counts["failed"] += 1
        if guard:
            self.undo_guard(serial)
            self.sql("RELEASE g")
        elif self.in_transaction():
            self.recover()
        raise Undone

    def recover(self):
        """Out of a failed transaction: to some savepoint, or altogether."""
        if self.saved and self.rng.random() < 0.8:
            self.rollback_to(self.rng.randrange(len(self.saved)))
        else:
            self.sql("ROLLBACK")
            self.saved = []

    # ---- savepoints ----

    def savepoint(self):
        if len(self.saved) < DEPTH:
            name = f"s{len(self.saved)}"
            self.sql(f"SAVEPOINT {name}")
            self.saved.append((name, self.tick()))

    def release(self):
        if self.saved:
            depth = self.rng.randrange(len(self.saved))
            self.sql(f"RELEASE {self.saved[depth][0]}")
            del self.saved[depth:]

    def rollback_to(self, depth):
        name, serial = self.saved[depth]
        self.sql(f"ROLLBACK TO {name}")
        del self.saved[depth + 1:]
        self.counts["rollbacks"] += 1
        self.forget_since(serial)

    def forget_since(self, serial):
        """What a rollback to a savepoint takes along."""
        self.handles = {fd: h for fd, h in self.handles.items() if max(h.opened, h.written) <= serial}
        self.cursors = {name: c for name, c in self.cursors.items() if c[0] <= serial}
        self.replaced = [s for s in self.replaced if s <= serial]

    def forget_transaction(self):
        self.saved, self.handles, self.replaced = [], {}, []
        self.cursors = {name: c for name, c in self.cursors.items() if c[0] == 0}
        self.injected = self.held = False

    # ---- cursors ----

    def declare(self, hold, query):
        """A cursor; its first row is fetched at once, the rest some time later."""
        name = f"c{self.tick()}"
        self.do(f"DECLARE ~_{name} CURSOR {hold} FOR {query}")
        self.held |= hold != ""
        self.cursors[name] = (self.serial, ([], []), hold)
        self.fetch(name, "1")

    def fetch(self, name, count="ALL"):
        """Rows come in any order: they are compared when all are there."""
        fetched = self.do(f"FETCH <<{count}|{count}>> FROM ~_{name}", guard=True)
        rows = self.cursors[name][1]
        for mine, more in zip(rows, fetched):
            mine.extend(more)
        if count == "ALL":
            if sorted(rows[0], key=str) != sorted(rows[1], key=str):
                raise Mismatch(f"cursor {name}: securefile {rows[0]}, bytea {rows[1]}")
            self.do(f"CLOSE ~_{name}", guard=False)
            del self.cursors[name]

    # ---- looking ----

    def look(self):
        """What tables there are, with which columns; the twins have the same."""
        found = {"sf": {}, "ba": {}}
        for schema, name, kind, columns, types in self.conn.execute(TABLES):
            found[schema][name] = (kind, columns, types)
        if ({n: t[:2] for n, t in found["sf"].items()} != {n: t[:2] for n, t in found["ba"].items()}):
            raise Mismatch(f"tables differ: {found}")
        self.tables = {name: Table(*what) for name, what in found["sf"].items()}

    def compare(self, names=None):
        """Contents of these tables, or of all."""
        self.look()
        for name in names or sorted(self.tables):
            if name in self.tables and self.tables[name].kind == "r":
                columns = ["id", "part", "note"]
                for column in self.tables[name].columns:
                    columns += [f"length({column})", f"md5({column}::bytea)"]
                ours, theirs = (self.read(schema, name, columns) for schema in ("sf", "ba"))
                self.compare_rows(name, ours, theirs)

    def read(self, schema, name, columns):
        try:
            return {row[:2]: row[2:] for row in self.conn.execute(
                f"SELECT {', '.join(columns)} FROM ONLY {schema}.{name}")}
        except psycopg.Error as error:
            if is_lost(error, self.conn) or (self.injected and is_injected(error)):
                raise
            raise Mismatch(f"reading {schema}.{name}: {error.sqlstate}: {error}") from error

    def compare_rows(self, name, ours, theirs):
        self.counts["comparisons"] += len(theirs)
        wrong = [f"{key}: bytea {theirs.get(key)}, securefile {ours.get(key)}"
                 for key in sorted(set(ours) | set(theirs)) if ours.get(key) != theirs.get(key)]
        if wrong:
            raise Mismatch(f"{name} (note, length and md5 of columns): " + "; ".join(wrong[:4]))

    def check(self):
        found = self.sql(CHECK)
        if found:
            raise Mismatch(f"securefile_check: {found}")

    # ---- what is kept ----

    def keeping(self):
        """Columns that keep what rows lose, and note that."""
        return [(table, column) for table, column, _, _, keeps in self.conn.execute(KEEPING) if keeps]

    def follow_kept(self):
        """Columns that had a retention and are without it now: what they have kept may end, until they have one."""
        now = {tuple(key): (table, column, keeps) for table, column, *key, keeps in self.conn.execute(KEEPING)}
        for key, (table, column, keeps) in now.items():
            if key in self.away and keeps:
                kept.end_window(self.conn, self.away.pop(key))
            elif key not in self.away and not keeps:
                self.away[key] = kept.begin_window(self.conn, table, column, purge=False)
        self.away = {key: window for key, window in self.away.items() if key in now}

    def look_at_kept(self, share=0.1):
        for table, column in self.keeping():
            self.counts["kept"] += kept.look(self.conn, table, column, quiet=True, share=share)
