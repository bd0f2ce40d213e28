#!/usr/bin/python3
"""Damaged WAL records: replay ends with an error that says so, or replays them, and
harms nothing else.

A cluster is killed after a load that writes records of all our kinds.  Then, again
and again, one record in a copy of it is damaged and given a sound checksum, and a
server recovers, by itself (postgres --single) so that it takes a moment only.  What
must not happen: a signal, an assertion, a report of the sanitizers, an error
without a reason, no end, wrong bytes of any value, or a change of a segment that the
load did not touch.

    redo.py --seconds 20 --seed 42

Wants the server of SECUREFILE_SANITIZED (a bindir); without, that of the path.
Exit code 0: sound; 1: not, and the command that does it again is printed.
"""

import collections
import glob
import hashlib
import os
import random
import re
import sys
import threading
import time

import psycopg

import trials
import wal
from trials import Failed

# a column with free space in the middle
HOLED = """
CREATE TABLE holed (id int PRIMARY KEY, size int, doc securefile);
INSERT INTO holed SELECT i, 4000000, blob(i, 4000000) FROM generate_series(1, 5) i;
DELETE FROM holed WHERE id % 2 = 0;
SELECT securefile_maintain('holed', 'doc');
SELECT securefile_fault('release_before', 'wait');
"""

LOAD = """
INSERT INTO holed SELECT i, 4000000, blob(i, 4000000) FROM generate_series(6, 7) i;
CREATE TABLE flat (id int PRIMARY KEY, size int, doc securefile(COMPRESSION));
CREATE TABLE tree (id int PRIMARY KEY, size int, doc securefile(filesystem_like_logging, disable_storage_in_row, COMPRESSION));
CREATE TABLE kept (id int PRIMARY KEY, size int, doc securefile('retention 7 days', 'max_size 1 GB'));
INSERT INTO kept SELECT i, 5000 + i * 700, blob(i, 5000 + i * 700) FROM generate_series(1, 40) i;
DELETE FROM kept WHERE id % 4 = 0;
SELECT securefile_maintain('kept', 'doc');
SELECT securefile_purge('kept', 'doc');
DELETE FROM kept WHERE id % 4 = 1;
SELECT securefile_maintain('kept', 'doc');
DELETE FROM kept WHERE id % 4 = 2;
CREATE TABLE gone (id int PRIMARY KEY, size int, doc securefile(COMPRESSION));
INSERT INTO flat SELECT i, 5000 + i * 700, blob(i, 5000 + i * 700) FROM generate_series(1, 40) i;
INSERT INTO tree SELECT i, 5000, blob(i, 5000) FROM generate_series(1, 40) i;
INSERT INTO tree SELECT i, 13000000, blob(i, 13000000) FROM generate_series(41, 45) i;
INSERT INTO gone SELECT i, 5000, blob(i, 5000) FROM generate_series(1, 3) i;
DELETE FROM tree WHERE id > 41 OR id % 3 = 0;
ALTER TABLE flat ALTER doc TYPE securefile(COMPRESSION);
UPDATE flat SET size = 9000, doc = blob(id, 9000) WHERE id % 3 = 0;
DELETE FROM flat WHERE id > 30;
BEGIN;
INSERT INTO flat SELECT i, 7000, blob(i, 7000) FROM generate_series(101, 110) i;
ROLLBACK;
SELECT securefile_maintain('flat', 'doc'), securefile_maintain('tree', 'doc');
SELECT securefile_maintain('flat', 'doc'), securefile_maintain('tree', 'doc');
INSERT INTO tree SELECT i, 6000, blob(i, 6000) FROM generate_series(1000, 1400) i;
DELETE FROM tree WHERE id >= 1000;
SELECT securefile_maintain('tree', 'doc');
SELECT securefile_maintain('tree', 'doc');
CREATE TABLE alike (id int PRIMARY KEY, doc securefile(compress));
INSERT INTO alike SELECT i, convert_to(format('{"number": %s, "alike": "what all of these have in common", "text": "%s"}', i, md5(i::text)), 'SQL_ASCII') FROM generate_series(1, 200) i;
SELECT securefile_train('alike', 'doc');
CREATE TABLE keyed (id int PRIMARY KEY, size int, doc securefile(encrypt, COMPRESSION));
INSERT INTO keyed SELECT i, i * 900, blob(i, i * 900) FROM generate_series(1, 20) i;
SELECT securefile_new_key('keyed', 'doc');
UPDATE keyed SET doc = blob(id, size) WHERE id > 10;
SELECT securefile_new_key('keyed', 'doc', true);
CREATE TABLE shared (id int, size int, doc securefile(deduplicate, COMPRESSION));
INSERT INTO shared SELECT i % 5, 5000 + i % 5 * 30000, blob(i % 5, 5000 + i % 5 * 30000) FROM generate_series(1, 25) i;
INSERT INTO shared SELECT 31, 13000000, blob(31, 13000000) FROM generate_series(1, 2);
INSERT INTO shared SELECT 100 + i, i * 6000, blob(100 + i, i * 6000) FROM generate_series(1, 40) i;
BEGIN;
INSERT INTO shared SELECT id, size, doc FROM shared WHERE id < 5;
ROLLBACK;
DELETE FROM shared WHERE id IN (1, 31) OR id > 130;
SELECT securefile_maintain('shared', 'doc');
INSERT INTO shared SELECT id, size, doc FROM shared WHERE id < 4;
UPDATE shared SET doc = blob(id, size) WHERE id = 4;
DROP TABLE gone;
ALTER TABLE flat SET TABLESPACE elsewhere;
"""

# what a server that recovered is used for
LOOK = trials.read("holed", "flat", "tree", "shared", "witness") + trials.one_line("""
DO $$ DECLARE t text; n int; BEGIN
	FOREACH t IN ARRAY array['holed', 'flat', 'tree', 'shared', 'witness', 'alike', 'keyed'] LOOP
		BEGIN
			EXECUTE format('SELECT count(*) FROM securefile_check(%L, ''doc'')', t) INTO n;
			IF n > 0 THEN RAISE LOG 'findings: % %', t, n; END IF;
			PERFORM securefile_maintain(t::regclass, 'doc');
			-- a server of one process has no master keys
			CONTINUE WHEN t IN ('alike', 'keyed');
			EXECUTE format('UPDATE %I SET doc = blob(id, size) WHERE id < 5', t);
		EXCEPTION WHEN OTHERS THEN
			RAISE LOG 'cannot be used: % %', t, SQLSTATE;
		END;
	END LOOP; END $$;
""") + "SELECT 'looked' AS at_all;\n"

# how a recovery may end that does not go through
OURS = re.compile(r"(FATAL|PANIC):  (?:WAL record of a securefile segment (?:is damaged|has format version)"
                  r"|page \d+ of a securefile segment cannot be changed)")
CORES = re.compile(r"PANIC:  WAL contains references to invalid pages"
                   r"|FATAL:  could not (?:access|open) ")


def release_and_drop(server, conn):
    """Both make a checkpoint and then our record: the release waits after its own."""
    def release():
        with server.connect() as other:
            other.execute("CALL securefile_shrink('holed', 'doc')")

    thread = threading.Thread(target=release)
    thread.start()
    fired = "SELECT securefile_fault_fired('release_before') > 0"
    while thread.is_alive() and not conn.execute(fired).fetchone()[0]:
        time.sleep(0.01)
    conn.execute("DROP DATABASE other")
    conn.execute("SELECT securefile_fault('release_before', 'none')")
    thread.join()


def prepare(server, options):
    """Work with a cluster, and kill it."""
    server.start()
    with server.connect() as conn:
        trials.begin(conn)
        conn.execute("CREATE TABLE witness (id int PRIMARY KEY, size int, doc securefile)")
        conn.execute("INSERT INTO witness SELECT i, i * 9000, blob(i, i * 9000)"
                     " FROM generate_series(1, 20) i")
        conn.execute("CREATE DATABASE other")
    other = server.dsn.replace("dbname=postgres", "dbname=other")
    with psycopg.connect(other, autocommit=True) as conn:
        conn.execute("CREATE EXTENSION securefile")
        conn.execute("CREATE TABLE t (doc securefile)")
        conn.execute("INSERT INTO t SELECT decode(repeat('ab', 9000), 'hex')")
    with server.connect() as conn:
        trials.load(conn, HOLED, options)
        release_and_drop(server, conn)
        trials.load(conn, LOAD, options)
        conn.execute("SELECT pg_switch_wal()")
    server.kill_all()
    os.unlink(os.path.join(server.data, "postmaster.pid"))


def files_of(data, node):
    """What the data files of a segment hold."""
    found = {}
    for path in sorted(glob.glob(os.path.join(data, "pg_securefile", "*", "*", node, "*.sf"))):
        with open(path, "rb") as file:
            found[path[len(data):]] = hashlib.sha256(file.read()).hexdigest()
    return found


def directories(data):
    """The directories of segments."""
    found = set()
    for top in ("pg_securefile", "pg_tblspc"):
        for path, names, _ in os.walk(os.path.join(data, top)):
            found.update(os.path.join(path, name)[len(data):] for name in names)
    return found


class Trials(trials.Trials):
    """One damaged record after another."""

    def __init__(self, base, options):
        super().__init__(base, options)
        log = wal.Log(base.data, base.bin)
        self.by_kind = collections.defaultdict(list)
        self.named = set()		# file numbers of segments
        for lsn in log.lsns():
            record = wal.Record(log, lsn)
            self.by_kind[record.kind].append(lsn)
            self.named.update(record.file_numbers())
        self.witness = files_of(base.data, self.witness_number())
        self.ends = collections.Counter()
        self.known, self.size = self.sound()

    def witness_number(self):
        """The segment that the load does not touch is the oldest one."""
        return min(os.path.basename(os.path.dirname(path)) for path in
                   glob.glob(os.path.join(self.base.data, "pg_securefile", "*", "*", "*", "*.sf")))

    def sound(self):
        """Without damage recovery goes through; what there is then."""
        end, log = self.recover()
        if end != "recovered" or re.search(r"unreadable|findings|cannot be used", log):
            raise Failed(f"recovery without any damage: {end}\n{log}")
        return directories(self.work), trials.used_bytes(self.work)

    def recover(self, damage=None):
        """Recover; returns how that ended, and the log."""
        code, log = self.work_with(damage, LOOK)
        if "looked" in log and code == 0:
            return "recovered", log
        if files_of(self.work, self.witness_number()) != self.witness:
            raise Failed("data files of a segment that nobody touched have changed")
        ours = OURS.search(log)
        if ours and "WAL redo at" in log:
            return re.sub(r".*?DETAIL:  ([^\n]*).*", r"\1", log[ours.start():], flags=re.S), log
        cores = CORES.search(log)
        if cores:
            return cores[0], log
        raise Failed(f"exit code {code}:\n{log[-6000:]}")

    def one(self, number):
        """The damage of that number; the seed and it fix what is done."""
        rng = random.Random(f"{self.options.seed} {number}")
        kind = rng.choice(sorted(self.by_kind))
        lsn = rng.choice(self.by_kind[kind])
        said = []

        def damage(data):
            record = wal.Record(wal.Log(data, self.base.bin), lsn)
            said.append(wal.damage(record, rng))
            record.write()

        try:
            end, log = self.recover(damage)
            self.check_extent(said[0])
        except Failed as failed:
            raise Failed(f"damage {number}: {kind} at {lsn:X}, {said}:\n{failed}") from failed
        self.ends[(kind, end)] += 1
        if self.options.verbose:
            after = set(re.findall(r"unreadable: \w+|findings: \w+|cannot be used: \w+ \w+", log))
            print(f"{number}: {kind} at {lsn:X}, {said[0]}: {end}", *sorted(after), sep="; ",
                  flush=True)

    def kept(self, kept):
        """A damage that was found to be one; it must be refused."""
        def damage(data):
            if not wal.do_kept(wal.Log(data, self.base.bin), self.by_kind[kept[0]], kept):
                raise Failed(f"no record for the kept damage {kept}")

        end, _ = self.recover(damage)
        if end == "recovered":
            raise Failed(f"kept damage {kept} was replayed")
        if self.options.verbose:
            print(*kept, end, flush=True)

    def check_extent(self, said):
        new = {path for path in directories(self.work) - self.known - directories(self.base.data)
               if not self.named & set(path.split("/"))}
        if said == wal.OTHER_RELATION:
            # the server itself makes what is missing of a tablespace, for any relation
            new = {path for path in new if "pg_securefile" in path}
        if new:
            raise Failed(f"new directories: {sorted(new)}")
        size = trials.used_bytes(self.work)
        if size > self.size + 512 * 1024 * 1024:
            raise Failed(f"the cluster has {size} bytes now")


def run(options, base):
    all_of = Trials(base, options)
    # an upgrade and a repair write the other two
    kinds = set(wal.KINDS.values()) | set(wal.REASONS.values())
    missing = kinds - {"OWN", "REPAIR"} - set(all_of.by_kind)
    if missing:
        raise Failed(f"the load has no {missing}")
    all_kept = trials.read_kept("redo", options)
    for kept in all_kept:
        all_of.kept(kept)
    all_of.until_time_is_up(all_of.one)
    for (kind, how), n in sorted(all_of.ends.items()) if options.verbose else []:
        print(f"{n:6d} {kind}: {how}")
    recovered = sum(n for (_, how), n in all_of.ends.items() if how == "recovered")
    total = sum(all_of.ends.values())
    reasons = {how for _, how in all_of.ends} - {"recovered"}
    print(f"{len(all_kept)} kept damages refused\n"
          f"{total} damaged records of {len(all_of.by_kind)} kinds: {recovered} replayed,"
          f" {total - recovered} refused, for {len(reasons)} reasons")


if __name__ == "__main__":
    sys.exit(trials.main("redo.py", prepare, run))
