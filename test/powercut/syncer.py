#!/usr/bin/python3
"""Cuts the power at every step of a writer, the syncer and a checkpoint.

A writer of a logging column leaves the flush of its data to the syncer, and a checkpoint
must not be complete before that flush.  Here each is stopped at each of its steps, in all
orders, a checkpoint runs as far as it comes, and then the power goes.  What was committed
must be there.  The page cache is lost in such a cut, so a flush that was forgotten shows
at once.

    syncer.py --seed 42                 a few orders, chosen by the seed
    syncer.py --all                     all of them
    syncer.py --planted                 errors are built in: each must lose data

Root only.  Exit code 0: as it must be; 1: not; 77: it cannot be tried here.
"""

import argparse
import functools
import glob
import hashlib
import itertools
import os
import random
import signal
import subprocess
import sys
import threading
import time
import traceback

import psycopg

sys.path.insert(0, os.path.join(os.path.dirname(os.path.realpath(__file__)), "..", "model"))

import disks
import powercut
from server import Server

WRITER = ["data_written", "data_noted", "data_logged", "commit_before_record"]
SYNCER = [None, "syncer_flush", "syncer_cleared", "syncer_file_done", "syncer_pre_flushed", "syncer_closed",
          "syncer_flushed", "syncer_renewed"]
CHECKPOINT = ["fast", "slow"]
SIZES = [10000, 300000]			# through the page cache, and past it

SETTINGS = {"fsync": "on", "max_wal_senders": "1", "autovacuum": "off",
            "checkpoint_timeout": "1d", "max_prepared_transactions": "5", "restart_after_crash": "on",
            "max_wal_size": "'256MB'", "bgwriter_lru_maxpages": "0",
            "checkpoint_completion_target": "0.9",
            "shared_preload_libraries": "'securefile'", "securefile.monitor": "off",
            "log_line_prefix": "'%m [%p] %b '"}


class Wrong(Exception):
    """What must not be."""


def patience():
    return int(os.environ.get("PG_TEST_TIMEOUT_DEFAULT", "180"))


def wait_until(what, condition):
    end = time.time() + patience()
    while not condition():
        if time.time() > end:
            raise Wrong(f"waited in vain: {what}")
        time.sleep(0.005)


class Background(threading.Thread):
    """A statement in a session of its own."""

    def __init__(self, server, *statements):
        super().__init__(daemon=True)
        self.conn = server.connect()
        self.pid = self.conn.info.backend_pid
        self.statements = statements
        self.error = None

    def run(self):
        try:
            for statement, *values in self.statements:
                self.conn.execute(statement, *values)
        except psycopg.Error as error:
            self.error = error

    def finish(self):
        self.join(patience())
        if self.is_alive():
            raise Wrong(f"does not end: {self.statements}")
        if self.error:
            raise self.error


class Stage:
    """The server, with a session that arms fault points."""

    def __init__(self, server, rng):
        self.server = server
        self.rng = rng
        self.conn = None
        self.rows = {}			# id -> digest of each committed row

    def begin(self):
        self.server.start()
        self.conn = self.server.connect()

    def fault(self, point, action, times=1, pid=0):
        self.conn.execute("SELECT securefile_fault(%s, %s, times => %s, pid => %s)",
                          (point, action, times, pid))

    def fired(self, point):
        return self.conn.execute("SELECT securefile_fault_fired(%s)", (point,)).fetchone()[0]

    def hold(self, point, **more):
        """Arm a stop; returns what is to be waited for."""
        before = self.fired(point)
        self.fault(point, "wait", **more)
        return lambda: self.fired(point) > before

    def syncer(self, column):
        return self.conn.execute(f"SELECT {column} FROM securefile_syncer").fetchone()[0]

    def take_files(self):
        """Have the syncer open the file: what comes from here on is left to it."""
        def is_taken():
            self.write(5000)
            return self.syncer("files") > 0
        wait_until("the syncer takes the file", is_taken)

    def row(self, size):
        number = max(self.rows, default=0) + 1
        data = self.rng.randbytes(size)
        return number, data

    def insert(self, size, *before):
        """A session that inserts a row; it counts as soon as commit() is called."""
        number, data = self.row(size)
        session = Background(self.server, *before,
                             ("INSERT INTO t VALUES (%b, %b)", (number, data)))
        session.row = number, hashlib.sha256(data).digest()
        return session

    def commit(self, session):
        session.finish()
        self.rows[session.row[0]] = session.row[1]

    def write(self, size):
        session = self.insert(size)
        session.start()
        self.commit(session)

    def verify(self):
        """Are all rows as they were committed?  Returns what is wrong, or None."""
        if self.conn.execute("SELECT count(*) FROM t").fetchone()[0] < len(self.rows):
            return "a row is missing"
        for number, digest in self.rows.items():
            try:
                found = self.conn.execute("SELECT sha256(d::bytea) FROM t WHERE id = %s",
                                          (number,)).fetchone()
            except psycopg.errors.DataCorrupted as error:
                return str(error).splitlines()[0]
            if found is None or found[0] != digest:
                return f"row {number} is missing or another one"
        return None

    def cut(self, stopped=False):
        """Power off and on again.  stopped: the server runs no more."""
        postmaster = None if stopped else self.server.postmaster()
        self.server.disk.cut()
        if postmaster:
            self.server.kill_all(postmaster, reaped=False)
        self.conn.close()
        self.server.disk.unmount()
        self.server.disk.tell("fix")
        powercut.mount_state(self.server, self.rng, powercut.Tally())
        self.begin()


# ---- checkpoints ----

def begin_checkpoint(stage, kind):
    """A checkpoint that is on its way: one that is through with what it writes at once, and
    waits or is complete; or one that takes its time over the buffers."""
    if kind == "fast":
        session = Background(stage.server, ("CHECKPOINT",))
        session.start()
        return session
    stage.conn.execute("INSERT INTO dirt SELECT g, repeat('x', 500) FROM generate_series(1, 3000) g")
    before = redo(stage)
    session = Background(stage.server, ("SELECT pg_backup_start('slow')",))
    session.start()
    wait_until("a checkpoint begins", lambda: redo(stage) != before)
    return session


def redo(stage):
    """Where recovery would begin if the checkpoint that is on its way were complete."""
    with open(stage.server.log, encoding="utf-8", errors="replace") as file:
        return file.read().count("checkpoint starting")


def end_checkpoint(stage, session):
    """Let a slow one make haste, and wait for the end."""
    haste = Background(stage.server, ("CHECKPOINT",))
    haste.start()
    haste.finish()
    session.finish()


def settle(session):
    """A moment for a checkpoint to come as far as it can."""
    session.join(0.15)


# ---- orders ----

def run_order(stage, writer, syncer, kind, size, syncer_goes_on):
    """Writer and syncer stopped, a checkpoint, writer goes on, power off."""
    stage.take_files()
    inserting = stage.insert(size)
    arrived = stage.hold(writer, pid=inserting.pid)
    if syncer:
        stopped = stage.hold(syncer)
    inserting.start()
    # the syncer may be stopped with the gate closed: then the writer cannot note
    wait_until(writer, lambda: arrived() or (syncer and stopped()))
    checkpoint = begin_checkpoint(stage, kind)
    settle(checkpoint)
    stage.fault(writer, "none")
    inserting.join(0.1)
    if syncer and (syncer_goes_on or inserting.is_alive()):
        stage.fault(syncer, "none")
    stage.commit(inserting)
    if syncer_goes_on:
        end_checkpoint(stage, checkpoint)
    stage.cut()
    wrong = stage.verify()
    if wrong:
        raise Wrong(wrong)


def orders():
    return list(itertools.product(WRITER, SYNCER, CHECKPOINT, SIZES, [False, True]))


# ---- the syncer comes and goes ----

def switch(stage, on):
    stage.conn.execute(f"ALTER SYSTEM SET securefile.syncer = {'on' if on else 'off'}")
    stage.conn.execute("SELECT pg_reload_conf()")
    wait_until("the syncer is switched", lambda: (stage.syncer("pid") is not None) == on
               and (on or not stage.syncer("active")))


def long_transaction(stage, between):
    """Pieces that are written before, and others after, something happens."""
    with stage.server.connect() as conn:
        conn.execute("SET securefile.write_gather_size = '64kB'")
        conn.execute("BEGIN")
        sessions = []
        for _ in range(2):
            number, data = stage.row(600000)
            conn.execute("INSERT INTO t VALUES (%b, %b)", (number, data))
            stage.rows[number] = hashlib.sha256(data).digest()
            sessions.append(number)
            if len(sessions) == 1:
                between()
        conn.execute("COMMIT")


def comes(stage):
    switch(stage, False)

    def between():
        switch(stage, True)
        stage.take_files()
    long_transaction(stage, between)
    stage.conn.execute("CHECKPOINT")
    stage.cut()


def goes(stage):
    stage.take_files()
    long_transaction(stage, lambda: switch(stage, False))
    stage.conn.execute("CHECKPOINT")
    switch(stage, True)
    stage.cut()


def is_terminated(stage):
    stage.take_files()
    stage.write(SIZES[0])
    stage.conn.execute("SELECT pg_terminate_backend(pid) FROM securefile_syncer")
    stage.write(SIZES[0])
    stage.conn.execute("CHECKPOINT")
    stage.cut()


def is_killed(stage):
    stage.take_files()
    stage.write(SIZES[0])
    started = redo(stage)
    os.kill(stage.syncer("pid"), signal.SIGKILL)
    wait_until("the server restarts", lambda: redo(stage) > started)
    stage.conn.close()
    stage.conn = stage.server.connect()
    stage.conn.execute("CHECKPOINT")
    stage.cut()


def is_stopped(stage):
    stage.take_files()
    stage.write(SIZES[0])
    stage.server.stop()
    stage.cut(stopped=True)


def is_prepared(stage):
    stage.take_files()
    number, data = stage.row(SIZES[0])
    with stage.server.connect() as conn:
        conn.execute("BEGIN")
        conn.execute("INSERT INTO t VALUES (%b, %b)", (number, data))
        conn.execute("PREPARE TRANSACTION 'prepared'")
    stage.conn.execute("CHECKPOINT")
    stage.cut()
    stage.conn.execute("COMMIT PREPARED 'prepared'")
    stage.rows[number] = hashlib.sha256(data).digest()


def device_has(stage, data):
    """Are these bytes in a data file of the disk, as a snapshot of the device would have it?
    The page cache of the file system is not in that."""
    disk = stage.server.disk
    copy = os.path.join(stage.server.top, "snapshot")
    where = os.path.join(stage.server.top, "restored")
    subprocess.run(["cp", "--sparse=always", disk.volumes[0].file, copy], check=True)
    os.makedirs(where, exist_ok=True)
    subprocess.run(["mount", "-o", "loop", copy, where], check=True)
    try:
        for path in glob.glob(os.path.join(where, "data/pg_securefile/**/seg-*.sf"), recursive=True):
            with open(path, "rb") as file:
                if data in file.read():
                    return True
        return False
    finally:
        subprocess.run(["umount", where], check=True)
        os.unlink(copy)


def is_copied(stage):
    """A backup by a snapshot of the device, while a writer that flushes itself is between its
    record and its flush: redo begins behind the record, so the bytes must be there."""
    switch(stage, False)
    stage.conn.execute("DROP TABLE IF EXISTS cached")
    stage.conn.execute("CREATE TABLE cached (id int8 PRIMARY KEY, d securefile(cache))")
    number, data = stage.row(SIZES[0])
    for ready in (True, False):		# the first value makes the files
        session = Background(stage.server, ("SET securefile.write_gather_size = '64kB'",),
                             ("INSERT INTO cached VALUES (%b, %b), (%b, %b)",
                              (number, data, number + 1, stage.rng.randbytes(SIZES[1]))))
        if ready:
            session.start()
            session.finish()
            number, data = number + 2, stage.rng.randbytes(SIZES[0])
    arrived = stage.hold("commit_before_sync", pid=session.pid)
    session.start()
    wait_until("commit_before_sync", arrived)
    with stage.server.connect() as conn:
        conn.execute("SELECT pg_backup_start('snapshot', true)")
        there = device_has(stage, data)
        stage.fault("commit_before_sync", "none")
        session.finish()
        conn.execute("SELECT pg_backup_stop()")
    switch(stage, True)
    if not there:
        raise Wrong("a backup by a snapshot would not have the data")


CHANGES = [comes, goes, is_terminated, is_killed, is_stopped, is_prepared, is_copied]


def run_change(stage, change):
    change(stage)
    wrong = stage.verify()
    if wrong:
        raise Wrong(f"{change.__name__}: {wrong}")


# ---- planted errors ----

def planted_order(stage):
    """The record before the note: a checkpoint in between."""
    stage.fault("wrong_order", "skip", times=-1)
    inserting = stage.insert(SIZES[0])
    arrived = stage.hold("data_written", pid=inserting.pid)
    inserting.start()
    wait_until("data_written", arrived)
    stage.conn.execute("CHECKPOINT")
    stage.fault("syncer_flush", "wait")
    stage.fault("data_written", "none")
    stage.commit(inserting)


def planted_note(stage):
    """No note."""
    stage.fault("wrong_note", "skip", times=-1)
    stage.write(SIZES[0])
    stage.conn.execute("CHECKPOINT")


def planted_flush(stage):
    """A flush is left out."""
    stage.fault("wrong_flush", "skip", times=-1)
    stage.write(SIZES[0])
    stage.conn.execute("CHECKPOINT")


def planted_bit(stage):
    """The bit cleared after the flush: a write in between."""
    stage.fault("wrong_bit", "skip", times=-1)
    stopped = stage.hold("syncer_file_done")
    stage.write(SIZES[0])
    wait_until("syncer_file_done", stopped)
    stage.write(SIZES[0])
    stage.fault("syncer_file_done", "none")
    stage.conn.execute("CHECKPOINT")


def write_in_pass(stage, fault, point):
    """A pass with an error stops at a point; a write, and a checkpoint that lists the old id;
    then the pass goes on as far as the next flush."""
    stage.fault(fault, "skip", times=-1)
    stopped = stage.hold(point)
    wait_until(point, stopped)
    stage.write(SIZES[0])
    checkpoint = begin_checkpoint(stage, "fast")
    settle(checkpoint)
    stage.fault("syncer_flush", "wait")
    stage.fault(point, "none")
    checkpoint.finish()


def planted_gate(stage):
    """The gate left open in a pass: a write after the flush, a checkpoint before the id."""
    write_in_pass(stage, "wrong_gate", "syncer_flushed")


def planted_renew(stage):
    """The id changed before the flush."""
    write_in_pass(stage, "wrong_renew", "syncer_pre_flushed")


def planted_hold(stage):
    """No flag: checkpoints do not wait."""
    stage.fault("wrong_hold", "skip", times=-1)
    wait_until("the syncer pauses", lambda: not stage.syncer("active"))
    stage.take_files()
    stopped = stage.hold("syncer_flush")
    stage.write(SIZES[0])
    wait_until("syncer_flush", stopped)
    stage.conn.execute("CHECKPOINT")


def loses_snapshot(stage):
    """The record before the flush: would a backup by a snapshot be without the data?"""
    stage.fault("wrong_snapshot", "skip", times=-1)
    try:
        is_copied(stage)
    except Wrong as error:
        print(f"planted_snapshot: {error}", flush=True)
        return True
    return False


PLANTED = [planted_order, planted_note, planted_flush, planted_bit, planted_gate, planted_renew,
           planted_hold]


def loses(stage, plant):
    """Does a planted error lose what was committed?"""
    stage.take_files()
    # what is noted by now is flushed first: its flush would save what the error is to lose
    stage.conn.execute("CHECKPOINT")
    plant(stage)
    stage.cut()
    wrong = stage.verify()
    print(f"{plant.__name__}: {wrong}", flush=True)
    stage.conn.execute("TRUNCATE t")
    stage.rows.clear()
    return wrong is not None


def run_planted(name, loses_data):
    # a sync() of anybody on this machine saves the data, so one try proves nothing
    if not any(loses_data() for _ in range(3)):
        raise Wrong(f"{name}: nothing was lost")


# ---- the whole ----

def run(stage, options):
    stage.begin()
    stage.conn.execute("CREATE EXTENSION securefile")
    stage.conn.execute("CREATE TABLE t (id int8 PRIMARY KEY, d securefile)")
    stage.conn.execute("CREATE TABLE dirt (id int8, x text)")
    if options.planted:
        for plant in PLANTED:
            run_planted(plant.__name__, functools.partial(loses, stage, plant))
        run_planted("planted_snapshot", functools.partial(loses_snapshot, stage))
        return len(PLANTED) + 1
    chosen = orders()
    if not options.all:
        chosen = stage.rng.sample(chosen, options.orders)
    for change in CHANGES:
        print(change.__name__, flush=True)
        run_change(stage, change)
    for number, order in enumerate(chosen):
        print(f"{number + 1} of {len(chosen)}: {order}", flush=True)
        run_order(stage, *order)
    count = stage.conn.execute("SELECT count(*) FROM securefile_check('t', 'd')").fetchone()[0]
    if count:
        raise Wrong(f"securefile_check() has {count} findings")
    return len(CHANGES) + len(chosen)


def parse():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seed", type=int, default=random.randrange(10**9))
    parser.add_argument("--orders", type=int, default=6)
    parser.add_argument("--all", action="store_true")
    parser.add_argument("--planted", action="store_true")
    parser.add_argument("--keep", action="store_true", help="leave a failed state as it is")
    return parser.parse_args()


def main():
    options = parse()
    why = disks.why_not()
    if why:
        print(f"not here: {why}")
        return 77
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    server = Server(SETTINGS, True, make_disk=lambda top: disks.Disks(top, False, ("1G", "1G")))
    try:
        done = run(Stage(server, random.Random(options.seed)), options)
    except BaseException as error:	# also an interrupt: disks must not stay mounted
        print(f"WRONG: {error}" if isinstance(error, Wrong) else traceback.format_exc())
        print(server.tail())
        print(f"FAILED; log and images in {server.top}, seed {options.seed}")
        if not options.keep:
            powercut.abandon(server)
        return 1
    server.remove()
    print(f"{'all were found' if options.planted else 'sound'}: {done} cuts, seed {options.seed}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
