"""One run of a section in a prepared cluster: before, the section, and what is there
afterwards."""

import collections
import os
import re
import sys
import time
import typing

import psycopg

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "model"))

from server import connect
from sections import COPIED, FORMS, START, all_sections, insert

TIMES = {"once": 1, "often": 50, "always": -1}

# What statements may say: the failure itself, and what comes of those before.
ALLOWED = {"58030", "53100", "53200"}
FOLLOWS = {"25P02", "3B001", "42P01", "42704"}
RETRIED = re.compile("Cannot allocate memory|Interrupted system call|Resource temporarily")
PANIC = re.compile("PANIC:  could not (?:fsync|write segment|collect)")
DATA_FILE = re.compile(r"pg_securefile/.*\.sf(/pg_filenode\.map)?( \(deleted\))?$")
CRASH = re.compile(r"TRAP:.*|signal 11.*|.*PANIC: .*")

PREPARE = """
    CREATE TABLE done (k int);
    CREATE FUNCTION by_handle(t regclass, key int) RETURNS void LANGUAGE plpgsql AS $$
    DECLARE
        fd int := securefile_create(t, 'doc');
    BEGIN
        PERFORM securefile_write(fd, data) FROM bytes WHERE name = 'large';
        PERFORM securefile_truncate(fd, 5000);
        PERFORM securefile_seek(fd, 0, 0);
        PERFORM securefile_write(fd, substring(data FOR 150000)) FROM bytes WHERE name = 'joined';
        PERFORM securefile_seek(fd, 100, 0);
        PERFORM securefile_read(fd, 100000);
        PERFORM securefile_seek(fd, 150000, 0);
        PERFORM securefile_write(fd, substring(data FROM 150001)) FROM bytes WHERE name = 'joined';
        EXECUTE format('INSERT INTO %s VALUES ($1, ''joined'', securefile_finish($2))', t) USING key, fd;
    END $$;
    CREATE FUNCTION by_file(t regclass, key int, path text) RETURNS void LANGUAGE plpgsql AS $$
    DECLARE
        fd int := securefile_create(t, 'doc');
    BEGIN
        PERFORM securefile_load(fd, path);
        EXECUTE format('INSERT INTO %s VALUES ($1, ''mid'', securefile_finish($2))', t) USING key, fd;
    END $$;
    CREATE FUNCTION given_up(t regclass) RETURNS int LANGUAGE plpgsql AS $$
    DECLARE
        fd int := securefile_create(t, 'doc');
    BEGIN
        PERFORM securefile_write(fd, data) FROM bytes WHERE name = 'large';
        RETURN securefile_close(fd);
    END $$;
"""


class Case(typing.NamedTuple):
    """One run, as SECUREFILE_NTH_CASE names it."""
    section: str
    form: str
    method: str
    kind: str
    times: str
    point: str
    n: int

    def __str__(self):
        return " ".join(map(str, self))


class Outcome:
    """What a run has shown."""

    def __init__(self):
        self.bad = []
        self.errors = []
        self.acknowledged = set()
        self.rolled_back = set()
        self.lost_session = False
        self.warned = False
        self.fired = {}		# by point


class Runner:
    """Runs cases in one cluster."""

    def __init__(self, dsn, data, log):
        self.dsn = dsn
        self.data = data
        self.log = log
        self.rows = os.path.join(data, "rows")
        self.known_excess = 0
        self.sections = {form: all_sections(form) for form in FORMS}
        self.checker = self.connect()
        self.checker.execute("CREATE TABLESPACE place LOCATION ''")
        self.checker.execute(PREPARE)
        self.checker.execute(f"COPY (SELECT id, name, data FROM bytes JOIN (VALUES {values(COPIED)}) v (id, of)"
                             f" ON name = of) TO '{self.rows}'")

    def connect(self):
        return connect(self.dsn, 180)

    # ---- before ----

    def set_up(self, form, before):
        rows = {**START, **before}
        self.checker.execute(f"""
            SET client_min_messages = error;
            DROP TABLE IF EXISTS {', '.join(FORMS)}, x;
            TRUNCATE done;
            CREATE TABLE {form} (id int PRIMARY KEY, name text, doc {FORMS[form]});
            INSERT INTO {form} SELECT id, name, data FROM bytes JOIN (VALUES {values(rows)}) v (id, of) ON name = of""")
        return {form: rows}

    # ---- the section ----

    def statement(self, conn, sql, outcome):
        """Its command tag; None after an error.  The session may be gone after it."""
        try:
            cursor = conn.execute(sql.format(rows=self.rows))
            if "wrong(" in sql and cursor.fetchone()[0]:
                outcome.bad.append(f"wrong inside: {sql}")
            return cursor.statusmessage
        except psycopg.Error as error:
            if conn.broken or conn.closed:
                outcome.lost_session = True
                raise
            outcome.errors.append((error.sqlstate, str(error).split("\n", maxsplit=1)[0]))
            return None

    def transaction(self, conn, k, step, outcome):
        self.statement(conn, "BEGIN", outcome)
        for sql in step.sql:
            self.statement(conn, sql, outcome)
        self.statement(conn, f"INSERT INTO done VALUES ({k})", outcome)
        tag = self.statement(conn, step.end, outcome)
        if tag == "PREPARE TRANSACTION":
            tag = self.statement(conn, finish(step.end), outcome)
            if tag is None:
                return
        if tag in ("COMMIT", "COMMIT PREPARED"):
            outcome.acknowledged.add(k)
        else:
            outcome.rolled_back.add(k)

    def section(self, conn, steps, outcome):
        for k, step in enumerate(steps, 1):
            if step.end:
                self.transaction(conn, k, step, outcome)
            else:
                for sql in step.sql:
                    self.statement(conn, sql, outcome)

    def something_new(self, conn, form, outcome):
        """What always works, faults being gone."""
        with conn.transaction():
            conn.execute(insert(form, 100, "mid"))
            conn.execute("INSERT INTO done VALUES (0)")
        outcome.acknowledged.add(0)
        if conn.execute(f"SELECT wrong('{form}')").fetchone()[0]:
            outcome.bad.append("wrong for the same session afterwards")

    def work(self, case, points, steps, outcome):
        """In a session of its own; all that it was told and what it keeps open."""
        with self.connect() as conn:
            conn.add_notice_handler(lambda notice: note(notice, outcome))
            conn.execute(f"SET securefile.io_method = {case.method}; SET client_min_messages = warning")
            for point in points:
                conn.execute(f"SELECT securefile_fault('{point}', '{case.kind}', skip => {case.n},"
                             f" times => {TIMES[case.times]}, pid => pg_backend_pid())")
            self.section(conn, steps, outcome)
            for point in points:
                outcome.fired[point] = conn.execute(f"SELECT securefile_fault_fired('{point}')").fetchone()[0]
            conn.execute("SELECT securefile_fault_reset()")
            self.something_new(conn, case.form, outcome)
            outcome.bad += open_twice(conn.info.backend_pid)

    # ---- what is there afterwards ----

    def finish_prepared(self):
        for gid, in self.checker.execute("SELECT gid FROM pg_prepared_xacts").fetchall():
            self.checker.execute(finish(f"PREPARE TRANSACTION '{gid}'"))

    def expect(self, tables, steps, done):
        for k, step in enumerate(steps, 1):
            for effect in step.effects if k in done else []:
                effect(tables)
        return tables

    def verify(self, case, tables, steps, outcome):
        self.finish_prepared()
        self.look_for_made(outcome)
        # what could not be removed is said, and maintenance does it
        if not outcome.lost_session and not outcome.warned:
            self.count_files(outcome)
        done = {k for k, in self.checker.execute("SELECT k FROM done").fetchall()}
        outcome.bad += [f"lost: step {k}" for k in outcome.acknowledged - done]
        outcome.bad += [f"not rolled back: step {k}" for k in outcome.rolled_back & done]
        tables = self.expect(tables, steps, done)
        if 0 in done:
            tables[case.form][100] = "mid"
        there = {name for name, in self.checker.execute(
            "SELECT relname FROM pg_class WHERE relname = ANY(%s)", ([*FORMS, "x"],)).fetchall()}
        if there != set(tables):
            outcome.bad.append(f"tables {there}, not {set(tables)}")
        for table in there & set(tables):
            rows = dict(self.checker.execute(f"SELECT id, name FROM {table}").fetchall())
            if rows != tables[table]:
                outcome.bad.append(f"rows of {table}: {rows}, not {tables[table]}")
            for what in "wrong", "unsound":
                found = self.checker.execute(f"SELECT {what}('{table}')").fetchone()[0]
                if found:
                    outcome.bad.append(f"{table} is {what}: {found}")
        self.count_files(outcome)

    def look_for_made(self, outcome):
        """What was made of a file of the server goes, unless it was said, or the session has died."""
        for name in os.listdir(self.data):
            if name.startswith(".securefile-"):
                os.unlink(os.path.join(self.data, name))
                if not outcome.lost_session and not outcome.warned:
                    outcome.bad.append(f"left: {name}")

    def count_files(self, outcome):
        files = [name for top in ("pg_securefile", "pg_tblspc")
                 for where, _, names in os.walk(os.path.join(self.data, top))
                 for name in names if DATA_FILE.search(os.path.join(where, name))]
        segments = self.checker.execute("SELECT count(*) FROM securefile_columns").fetchone()[0]
        excess = len(files) - segments
        if excess != self.known_excess:
            outcome.bad.append(f"{excess - self.known_excess} files more than segments")
            self.known_excess = excess

    def restarted(self, seen, case, outcome):
        """After a PANIC, which must be one of those that PostgreSQL has."""
        end = time.time() + 180
        while "reinitializing" not in self.logged(seen) and time.time() < end:
            time.sleep(0.01)
        self.checker = self.connect()
        text = self.logged(seen)
        if not PANIC.search(text):
            outcome.bad.append("session ended: " + text[-2000:])
        self.something_new(self.checker, case.form, outcome)

    def logged(self, seen):
        with open(self.log, encoding="utf-8", errors="replace") as file:
            file.seek(seen)
            return file.read()

    # ---- a run ----

    def run(self, case, points=None):
        """points: those to arm, else that of the case."""
        outcome = Outcome()
        seen = os.path.getsize(self.log)
        section = self.sections[case.form][case.section]
        tables = self.set_up(case.form, section.before)
        try:
            self.work(case, points or [case.point], section.steps, outcome)
        except psycopg.Error as error:
            if not outcome.lost_session:
                outcome.bad.append(f"session is not usable: {error!r}")
                self.checker.execute("SELECT securefile_fault_reset()")
        try:
            if outcome.lost_session:
                self.restarted(seen, case, outcome)
            self.verify(case, tables, section.steps, outcome)
        except psycopg.Error as error:
            outcome.bad.append(f"afterwards: {error}")
            self.checker = self.connect()
        outcome.bad += [f"in the log: {found}" for found in CRASH.findall(self.logged(seen)) if not PANIC.search(found)]
        outcome.bad += said(case.kind, outcome.errors)
        return outcome


def values(rows):
    return ", ".join(f"({key}, '{name}')" for key, name in rows.items())


def finish(prepare):
    """How a prepared transaction ends: p is committed."""
    return prepare.replace("PREPARE TRANSACTION", "COMMIT PREPARED" if "'p'" in prepare else "ROLLBACK PREPARED")


def note(notice, outcome):
    outcome.warned = True
    if "leak" in notice.message_primary:
        outcome.bad.append(notice.message_primary)


def open_twice(pid):
    """Data files that a process has open more often than once for direct I/O and once for
    the other, and directories and the like that it has open at all."""
    found = collections.Counter()
    for name in os.listdir(f"/proc/{pid}/fd"):
        try:
            found[os.readlink(f"/proc/{pid}/fd/{name}")] += 1
        except FileNotFoundError:
            continue
    return [f"open {n} times: {path}" for path, n in found.items()
            if "pg_securefile" in path and (n > 2 or not DATA_FILE.search(path))]


def said(kind, errors):
    """What no failed call explains: damage where there is none."""
    if kind == "short":
        return [f"short transfers are errors: {state} {text}" for state, text in errors]
    return [f"{state} {text}" for state, text in errors if state not in ALLOWED | FOLLOWS
            and not (state == "XX000" and RETRIED.search(text))]
