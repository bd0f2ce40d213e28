"""One client of the model test: random transactions, every value compared.

The client owns the rows of the shared table whose id is its own number modulo
the number of clients, and a table of its own that it also truncates.  It keeps
what those rows must hold (the model) next to what it tells the server.
"""

import random
import traceback
from collections import namedtuple

import psycopg
from psycopg.pq import TransactionStatus

# What a row must hold: partition, id of the value in a and in b
Row = namedtuple("Row", "part va vb")

LOST = {"57P01", "57P02", "57P03", "08006", "08003", "08001"}
# What a fault in I/O becomes: I/O error, disk full; and a transaction that goes on
# after a failed write in a savepoint
INJECTED = {"58030", "53100", "25P02"}


class Mismatch(Exception):
    """The server holds something else than the model."""


class Lost(Exception):
    """The connection is gone."""


class Refused(Exception):
    """A statement failed that was allowed to fail."""


class Injected(Exception):
    """A statement failed of a fault that was put there."""


def is_lost(error, conn):
    """Did the server go away, rather than refuse a statement?"""
    return conn.closed or error.sqlstate in LOST or (
        error.sqlstate is None and isinstance(error, psycopg.OperationalError))


def is_injected(error):
    """Is it a fault of ours, rather than one of the engine's?  ext4 makes itself
    read-only when its disk is gone, which has the SQLSTATE of a privilege.  Where PostgreSQL
    cannot make the directory of temporary files, it says that a file is not there."""
    return (error.sqlstate in INJECTED or "fault point" in str(error)
            or "Read-only file system" in str(error)
            or "could not create temporary file" in str(error))


def difference(want, got):
    """Say in a line how two byte strings differ."""
    if got is None or want is None:
        return f"expected {want and len(want)} bytes, got {got and len(got)}"
    if len(want) != len(got):
        return f"expected {len(want)} bytes, got {len(got)}"
    where = next(i for i in range(len(want)) if want[i] != got[i])
    return (f"{len(want)} bytes, first difference at {where}: expected "
            f"{want[where:where + 8].hex()}, got {got[where:where + 8].hex()}")


# What a storm of space may meet: a limit; a row that was moved after the snapshot
LIMITED = {"53400", "40001", "25P02"}
# What one may meet that has a column with little room
TIGHT = {"53400", "25P02"}


def is_expected(error, options):
    """Is it a fault that was put there, or what a storm of space may meet?"""
    return options.faults and is_injected(error) or \
        getattr(options, "limited", False) and error.sqlstate in LIMITED or \
        getattr(options, "tight", False) and error.sqlstate in TIGHT


class Client:
    """Runs transactions against the shared table and one of its own."""

    def __init__(self, dsn, number, options, values, operations, state=None):
        self.operations = [op for op, _ in operations]
        self.weights = [weight for _, weight in operations]
        self.number = number
        self.options = options
        self.values = values
        self.dsn = dsn
        self.conn = psycopg.connect(dsn, autocommit=True)
        self.own = f"model_own_{number}"
        self.tables = ["model_shared", self.own]
        state = state or {"rows": {t: {} for t in self.tables}, "serial": 0, "turn": 0}
        self.committed = state["rows"]
        self.serial = state["serial"]
        self.turn = state["turn"]
        self.rng = random.Random(f"{options.seed}:client:{number}:{self.turn}")
        # full at every value, or at none
        self.conn.execute(f"SET securefile.write_gather_size = '{self.rng.choice(('64kB', '256kB', '4MB'))}'")
        self.earlier = []		# states that may hold again, if commits do not wait
        self.doubt = None		# what may hold as well, once the server is gone
        self.prepared = None	# (gid, state after) of a prepared transaction
        self.counts = {"transactions": 0, "operations": 0, "values": 0, "faults": 0}
        self.trail = []

    def state(self):
        """What must hold, and what is in doubt, for whoever goes on."""
        return {"rows": self.committed, "serial": self.serial, "turn": self.turn + 1,
                "doubt": self.doubt, "prepared": self.prepared, "earlier": self.earlier}

    def now_committed(self, rows, durable):
        """What must hold from now on; a commit that waits makes all before it durable."""
        self.earlier = [] if durable else self.earlier + [self.committed]
        self.committed = rows

    # ---- statements ----

    def sql(self, text, params=None):
        """Run a statement; rows come back in binary."""
        try:
            cur = self.conn.cursor(binary=True)
            cur.execute(text, params)
            return cur.fetchall() if cur.description else []
        except psycopg.Error as error:
            self.pass_on(error)

    def pass_on(self, error):
        """Raise an error again as what it means to the model."""
        if is_lost(error, self.conn):
            raise Lost(str(error)) from error
        if is_expected(error, self.options):
            raise Injected(str(error)) from error
        raise error

    def copy(self, text, form, types, rows):
        """COPY .. FROM STDIN of some rows, in text or binary form."""
        try:
            with self.conn.cursor().copy(f"{text} (FORMAT {form})") as copy:
                if form == "binary":
                    copy.set_types(types)
                for row in rows:
                    copy.write_row(row)
        except psycopg.Error as error:
            self.pass_on(error)

    def fails(self, text, params, *sqlstates):
        """Run a statement that may fail with one of these states."""
        try:
            rows = self.sql(text, params)
        except psycopg.Error as error:
            if error.sqlstate in sqlstates:
                raise Refused from error
            raise
        return rows

    def binary(self):
        """A placeholder for bytes: binary or text parameter."""
        return "%b" if self.rng.random() < 0.7 else "%s"

    # ---- the model ----

    def new_vid(self):
        if self.rng.random() < 0.04:
            return None
        self.serial += 1
        return self.number * 10**9 + self.serial

    def free_id(self, table):
        rows = self.rows[table]
        for _ in range(20):
            key = self.number + self.options.clients * self.rng.randrange(self.options.keys)
            if key not in rows:
                return key
        return None

    def some_id(self, table):
        rows = self.rows[table]
        return self.rng.choice(sorted(rows)) if rows else None

    def set(self, table, key, **changes):
        self.rows[table][key] = self.rows[table][key]._replace(**changes)

    def expect(self, vid, got, what):
        self.counts["values"] += 1
        got = None if got is None else bytes(got)
        want = self.values.data(vid)
        if got != want:
            raise Mismatch(f"{what}, value {vid}: {difference(want, got)}")

    def expect_sha(self, vid, got, what):
        self.counts["values"] += 1
        got = None if got is None else bytes(got)
        if got != self.values.sha256(vid):
            raise Mismatch(f"{what}, value {vid} ({vid and self.values.length(vid)} bytes):"
                           " SHA-256 differs")

    def expect_same(self, want, got, what):
        if want != got:
            raise Mismatch(f"{what}: expected {want}, got {got}")

    # ---- transactions ----

    def run(self, until):
        """Run transactions until until() says so; Lost goes to the caller."""
        while not until():
            self.trail = []
            try:
                self.transaction()
            except Lost:
                raise
            except Injected:
                self.after_fault()
            except Exception as error:
                raise Mismatch(self.report(error)) from error
            self.counts["transactions"] += 1

    def after_fault(self):
        """A transaction that failed has left nothing, but may be prepared."""
        self.doubt = None
        self.counts["faults"] += 1
        if self.prepared is None or self.prepared["step"] == "preparing":
            self.prepared = None
            self.roll_back()
            return
        while self.prepared:
            try:
                self.end_prepared(self.prepared["step"])
            except Injected:
                pass

    def roll_back(self):
        """End a transaction that met a fault, whose ROLLBACK may meet one, too: PostgreSQL
        writes the rest of a cursor's temporary file when it closes the cursor."""
        while self.conn.info.transaction_status != TransactionStatus.IDLE:
            try:
                self.sql("ROLLBACK")
            except Injected:
                pass

    def report(self, error):
        steps = "\n    ".join(self.trail)
        kind = "" if isinstance(error, Mismatch) else traceback.format_exc()
        return (f"client {self.number}, transaction {self.counts['transactions']}: "
                f"{type(error).__name__}: {error}\n  steps of this transaction:\n"
                f"    {steps}\n{kind}")

    def transaction(self):
        self.rows = {t: dict(r) for t, r in self.committed.items()}
        self.saved = []
        level = self.rng.choices(["READ COMMITTED", "REPEATABLE READ"], [9, 1])[0]
        self.sql(f"BEGIN ISOLATION LEVEL {level}")
        self.trail.append(f"begin {level.lower()}")
        for _ in range(self.rng.choice([1, 1, 1, 2, 3, 5, 8])):
            self.operation()
        self.finish()

    def operation(self):
        op = self.rng.choices(self.operations, self.weights)[0]
        table = self.rng.choices(self.tables, [3, 1])[0]
        self.trail.append(f"{op.__name__} {table}")
        op(self, table)
        self.counts["operations"] += 1

    def finish(self):
        """End the transaction in one of the ways there are."""
        ways = {"commit": 80, "rollback": 10}
        if self.options.prepared:
            ways.update({"commit prepared": 6, "rollback prepared": 3})
        how = self.rng.choices(list(ways), list(ways.values()))[0]
        self.trail.append(how)
        if how == "rollback":
            self.sql("ROLLBACK")
        elif how == "commit":
            self.doubt = self.rows
            self.sql("COMMIT")
            self.now_committed(self.rows, not self.options.asynchronous)
            self.doubt = None
        else:
            self.finish_prepared(how.split()[0].upper())

    def finish_prepared(self, how):
        gid = f"model_{self.number}_{self.turn}_{self.counts['transactions']}"
        self.prepared = {"gid": gid, "after": self.rows, "step": "preparing"}
        self.sql(f"PREPARE TRANSACTION '{gid}'")
        self.prepared["step"] = "prepared"
        self.earlier = []
        locks_all = any(s.startswith(("truncate", "options")) for s in self.trail)
        if self.rng.random() < 0.3 and not locks_all:
            self.check_untouched()
        self.end_prepared(how)

    def end_prepared(self, how):
        self.prepared["step"] = how = "ROLLBACK" if how == "prepared" else how
        self.sql(f"{how} PREPARED '{self.prepared['gid']}'")
        if how == "COMMIT":
            self.now_committed(self.prepared["after"], True)
        self.prepared = None

    def check_untouched(self):
        """While its transaction is prepared, a client sees the state before."""
        rows = self.sql(f"SELECT id, va FROM {self.own} ORDER BY id")
        want = sorted((k, r.va) for k, r in self.committed[self.own].items())
        self.expect_same(want, rows, "rows while prepared")

    # ---- savepoints ----

    def savepoint(self):
        name = f"s{len(self.saved)}"
        self.sql(f"SAVEPOINT {name}")
        self.saved.append({t: dict(r) for t, r in self.rows.items()})
        return name

    def rollback_to(self, depth):
        self.sql(f"ROLLBACK TO s{depth}")
        self.rows = {t: dict(r) for t, r in self.saved[depth].items()}
        del self.saved[depth + 1:]

    def release(self, depth):
        self.sql(f"RELEASE s{depth}")
        del self.saved[depth:]
