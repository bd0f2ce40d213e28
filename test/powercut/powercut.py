#!/usr/bin/python3
"""Cuts the power of a server's disks under the load of the model test.

The cluster lies on disks with a volatile write cache (disk.c).  Clients work for a
moment; then the power goes.  Out of that moment several states are made: each keeps
another part of what was not flushed, in another order, torn between sectors.  In each
the file system is mounted (journal), the server started (recovery), and then every
acknowledged commit must be there to the byte, nothing else, securefile_check() must
be silent and no space be lost.  The clients go on with the last state, up to the next
cut; at times the power goes again during recovery.

    powercut.py --cuts 5 --states 3 --seed 42

With --planted the server leaves out the flush of data before commits, which a disk
that loses nothing would not show: then loss must be found, and only in columns that
have nothing in WAL.  Root only.  Exit code 0: as it must be; 1: not, the directory is
then kept; 77: it cannot be tried here.
"""

import argparse
import copy
import glob
import os
import random
import re
import signal
import subprocess
import sys
import threading
import time
import traceback

import psycopg

sys.path.insert(0, os.path.join(os.path.dirname(os.path.realpath(__file__)), "..", "model"))

import disks
import killloop
import load
import model
import verify
from client import Mismatch
from server import Server, roll_back_prepared
from values import Values

METHODS = ["libaio", "io_uring", "sync"]


class Tally:
    """What was done, for the last line."""

    def __init__(self):
        self.cuts = self.again = self.states = self.transactions = self.values = self.unmountable = 0

    def __str__(self):
        return (f"{self.cuts} cuts ({self.again} of them during recovery), {self.states} states,"
                f" {self.transactions} transactions"
                + (f", {self.unmountable} file systems beyond repair" if self.unmountable else ""))


def settings(options):
    options.asynchronous = False
    return killloop.settings(options) | {
        "securefile.io_method": METHODS[options.seed % len(METHODS)]}


def plant(conn):
    """No flush of data before a commit from here on."""
    for point in ("commit_before_sync", "io_durable"):
        conn.execute("SELECT securefile_fault(%s, 'skip', times => -1)", (point,))


# ---- cuts ----

def aim(server, rng, most, ways=("write", "flush", "behind")):
    """The disks cut themselves soon, with something in the cache."""
    server.disk.tell(f"cut {rng.choice(ways)} {rng.randint(1, most)}")


def cut_power(server, postmaster, tally, seconds):
    """Power off, at the latest after some seconds; processes gone, nothing mounted.
    Returns what the disks say."""
    end = time.time() + seconds
    while time.time() < end and not server.disk.said().startswith("disk "):
        time.sleep(0.01)
    said = server.disk.cut()
    server.kill_all(postmaster, reaped=False)
    tally.cuts += 1
    return said


class Checkpoints(threading.Thread):
    """One each second, as long as there is a server."""

    def __init__(self, server):
        super().__init__(daemon=True)
        self.conn = server.connect()

    def run(self):
        try:
            while True:
                self.conn.execute("CHECKPOINT")
                time.sleep(1)
        except psycopg.Error:
            pass


def cut_under_load(server, options, states, rng, tally):
    running = model.start(server.dsn, options, states, 120)
    Checkpoints(server).start()
    time.sleep(rng.uniform(0.3, options.load))
    postmaster = server.postmaster()
    if options.planted:
        aim(server, rng, 8, ["behind"])
    else:
        aim(server, rng, rng.choice([10, 60]))
    said = cut_power(server, postmaster, tally, rng.choice([0, 3, 3, 3, 3, 3, 3, 3]))
    totals = model.collect(running, states)
    tally.transactions += totals["transactions"]
    tally.values += totals["values"]
    server.disk.unmount()
    server.disk.tell("fix")
    doubts = sum(1 for s in states if s and (s["doubt"] is not None or s["prepared"]))
    return f"{totals['transactions']} transactions, {doubts} in doubt; {said}"


def cut_in_recovery(server, rng, tally):
    """Start the server and cut at once; returns what the disks say."""
    aim(server, rng, rng.choice([5, 100]))
    pid = subprocess.check_output(
        ["sh", "-c", '"$0" -D "$1" >>"$2" 2>&1 & echo $!',
         os.path.join(server.bin, "postgres"), server.data, server.log],
        cwd="/", text=True, **server.user)
    said = cut_power(server, int(pid), tally, rng.choice([0.1, 0.5, 1, 2]))
    tally.again += 1
    server.disk.unmount()
    server.disk.tell("fix")
    return said


# ---- states ----

def forget_processes(server):
    """After a power cut no process has the number that is in the lock files."""
    for path in [os.path.join(server.data, "postmaster.pid"),
                 *glob.glob(os.path.join(server.top, ".s.PGSQL.*"))]:
        if os.path.exists(path):
            os.unlink(path)


def mount_state(server, rng, tally):
    """A state of the disks, mounted; returns what it is."""
    for _ in range(20):
        seed = rng.randrange(2**63)
        kept = server.disk.tell(f"state {seed}")
        if server.disk.mount():
            forget_processes(server)
            return f"{seed}: {kept}"
        server.disk.cut()
        tally.unmountable += 1
    raise Mismatch("no state could be mounted")


def start_and_examine(server, options, values, states, rng):
    """Recover and verify; the states in which the clients are now."""
    server.alarms()
    server.start()
    alarms = server.alarms()
    if alarms:
        raise Mismatch("in the server's log:\n" + "\n".join(alarms))
    now = copy.deepcopy(states)
    with server.connect() as conn:
        killloop.examine(conn, options, values, now, rng)
        for look in getattr(options, "looks", []):
            look(server, conn, options)
        if options.planted:
            plant(conn)
    return now


def leave_state(server):
    """End a state that is not gone on with."""
    server.kill_all(reaped=False)
    server.disk.cut()
    server.disk.unmount()


def states_of(said, options):
    """How many states of a cut are worth trying."""
    cached = sum(int(n) for n in re.findall(r"(\d+) writes not flushed", said))
    return options.states if cached else 1


def try_states(server, options, values, states, said, rng, tally):
    """All states of one cut, just one if nothing was in a cache; returns what the
    clients have in the last one."""
    number, count = 0, states_of(said, options)
    while number < count:
        name = mount_state(server, rng, tally)
        if number == 0 and not options.planted and rng.random() < 0.4:
            said = cut_in_recovery(server, rng, tally)
            count = states_of(said, options)
            print(f"  state {name}\n  cut again: {said}", flush=True)
            name = mount_state(server, rng, tally)
        began = time.time()
        print(f"  state {name}", end="", flush=True)
        now = start_and_examine(server, options, values, states, rng)
        print(f", {time.time() - began:.1f} s", flush=True)
        tally.states += 1
        number += 1
        if number < count:
            leave_state(server)
    return now


# ---- the planted fault ----

def is_logged(table, column):
    """Is the data in WAL (see verify.create)?"""
    return (column == "a") == table.startswith("model_shared")


def damaged(conn, options):
    """Columns of which securefile_check finds something: logged ones, others."""
    found = {True: [], False: []}
    for table in verify.leaves(options):
        for column in "ab":
            count = conn.execute(f"SELECT count(*) FROM securefile_check('{table}', '{column}')"
                                 ).fetchone()[0]
            if count:
                found[is_logged(table, column)].append(f"{table}.{column}: {count}")
    return found


def loss(server, options, error):
    """Is that the loss that the planted fault must bring?  Says so, or raises."""
    if not isinstance(error, (Mismatch, psycopg.errors.DataCorrupted)):
        raise error
    with server.connect() as conn:
        # a check waits for whoever has written
        roll_back_prepared(conn)
        found = damaged(conn, options)
    print(f"\n  {str(error).splitlines()[0]}\n  findings: {found[False]}", flush=True)
    if found[True]:
        raise Mismatch(f"columns that are in WAL have lost something, too: {found[True]}")
    if not found[False]:
        raise error


# ---- the whole ----

def run(server, options, tally):
    """True if the planted fault was found."""
    rng = random.Random(f"{options.seed}:power")
    values = Values(options.seed, options.max_size)
    server.start()
    with server.connect() as conn:
        verify.create(conn, options)
        conn.execute("CHECKPOINT")
        if options.planted:
            plant(conn)
    states = [None] * options.clients
    for number in range(options.cuts):
        said = cut_under_load(server, options, states, rng, tally)
        print(f"cut {number + 1}: {said}", flush=True)
        try:
            states = try_states(server, options, values, states, said, rng, tally)
        except Exception as error:
            if not options.planted:
                raise
            loss(server, options, error)
            return True
    return False


def abandon(server):
    """Nothing running and nothing mounted is left of a failure."""
    try:
        server.kill_all()
    except OSError:
        pass					# it did not run
    server.disk.cut()
    server.disk.remove()


def again(options):
    return (f"{sys.argv[0]} --seed {options.seed} --cuts {options.cuts} --states {options.states}"
            f" --clients {options.clients} --load {options.load} --wal-level {options.wal_level}"
            + (" --planted" if options.planted else "")
            + (" --one-disk" if options.one_disk else ""))


def parse():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--cuts", type=int, default=3)
    parser.add_argument("--states", type=int, default=3, help="states tried of each cut")
    parser.add_argument("--load", type=float, default=2.0, help="most seconds before a cut")
    parser.add_argument("--wal-level", default="replica")
    parser.add_argument("--one-disk", action="store_true", help="WAL beside the data")
    parser.add_argument("--planted", action="store_true",
                        help="leave out the flush before commits: loss must be found")
    parser.add_argument("--keep", action="store_true", help="leave a failed state as it is")
    model.arguments(parser)
    options = parser.parse_args()
    options.prepared = options.faults = options.power = True
    options.operations = load.OPERATIONS
    options.uncached = options.planted	# bytes in the page cache would be lost on any disk
    return options


def main():
    options = parse()
    why = disks.why_not()
    if why:
        print(f"not here: {why}")
        return 77
    tally = Tally()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    server = Server(settings(options), True,
                    make_disk=lambda top: disks.Disks(top, options.one_disk))
    try:
        found = run(server, options, tally)
        if found != options.planted:
            raise Mismatch("no loss was found, although nothing was flushed")
    except BaseException as error:	# also an interrupt: disks must not stay mounted
        print(error if isinstance(error, Mismatch) else traceback.format_exc())
        print(server.tail())
        print(f"FAILED; log and images in {server.top}; again with: {again(options)}")
        if not options.keep:
            abandon(server)
        return 1
    server.remove()
    print(f"{'loss was found' if found else 'sound'}: seed {options.seed}, {tally}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
