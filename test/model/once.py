#!/usr/bin/python3
"""Clients store, copy, change and delete few contents, in columns that deduplicate and others,
while the server is killed, and options are changed between: each row has what it says, and the
SHA-256 of that where its column keeps hashes; when all rows are gone, so is all space.

A row says by three columns which content it has.  So nothing need be known of what was going
on when the server died.

Each time the server is there again, rows of one share record have one content, there are as
many references as rows that say so, by their locators or by the root pages of their maps, and
securefile_check() finds nothing."""

import argparse
import hashlib
import multiprocessing
import os
import random
import sys
import time
import traceback

import psycopg

import kept
from client import is_lost
from server import Server, connect, roll_back_prepared
from verify import has_fault_points

SETTINGS = {"shared_buffers": "16MB", "max_connections": 30, "max_prepared_transactions": 10,
            "shared_preload_libraries": "'securefile'", "securefile.monitor_naptime": "'1s'",
            "securefile.master_key": "'model'", "checkpoint_timeout": "30s"}
UNIT = 128 * 1024
OPTIONS = ["deduplicate", "deduplicate, filesystem_like_logging", "deduplicate, compress_low",
           "deduplicate, encrypt", "deduplicate, compress_medium, encrypt", "deduplicate, hash",
           "deduplicate, hash, compress_low, encrypt", "compress_low", "hash, encrypt"]
TABLES = [f"t{number}" for number in range(len(OPTIONS))]
PAGE = 8192

STORED = """
SELECT n, edits, pokes, bytes FROM (SELECT n, edits, pokes, (doc::raw)::bytea AS bytes FROM {0}
    WHERE length(doc) > 4000) r WHERE get_byte(bytes, 0) = 2"""
INODE, SHARED, BASED = 1, 4, 1


def content(number):
    """One of a few contents; some begin alike, some are as long as others."""
    rng = random.Random(number // 2)
    length = rng.choice([5000, 60000, UNIT, UNIT + 1, 2 * UNIT, 300000, 3 * UNIT + 777])
    data = bytearray(rng.randbytes(64) * (length // 64 + 1))[:length]
    for at in range(0, length, 1000):
        data[at:at + 4] = at.to_bytes(4, "little")
    if number % 2:
        data[-1] ^= 1
    return bytes(data)


CONTENTS = [content(number) for number in range(12)]

# From here on one with a hole, so that its map has a page: private ones are copied by it.
SPARSE = len(CONTENTS)
HOLE = (UNIT, 3 * UNIT)
for number in range(3):
    CONTENTS.append(bytes([65 + number]) * UNIT + bytes(2 * UNIT) + content(number)[:5000])


def poked(number, pokes):
    """Bytes of the content that were changed, one by one."""
    length = len(CONTENTS[number])
    return [poke * 97001 % length for poke in range(pokes)]


def wanted(number, edits, pokes):
    data = bytearray(CONTENTS[number])
    for at in poked(number, pokes):
        data[at] = 80
    return bytes(data) + b"xy" * edits


class Once:
    """One client."""

    def __init__(self, dsn, seed, keeping):
        self.rng = random.Random(seed)
        self.keeping = keeping	# tables with a retention
        self.conn = connect(dsn, 60)
        self.done = 0

    def sql(self, text, params=None):
        cur = self.conn.execute(text, params, binary=True)
        return cur.fetchall() if cur.description else []

    def insert(self, table):
        number = self.rng.randrange(SPARSE)
        self.sql(f"INSERT INTO {table} (n, doc) VALUES (%s, %b::bytea::securefile)",
                 (number, CONTENTS[number]))

    def insert_many(self, table):
        number = self.rng.randrange(SPARSE)
        self.sql(f"INSERT INTO {table} (n, doc) SELECT %s, %b::bytea::securefile"
                 f" FROM generate_series(1, 4)", (number, CONTENTS[number]))

    def stream(self, table):
        """In pieces, and sometimes not in order, or with a hole."""
        number = self.rng.randrange(len(CONTENTS))
        data = CONTENTS[number]
        step = self.rng.choice([8192, 50000, UNIT, 400000])
        handle = self.sql("SELECT securefile_create(%s::regclass, 'doc')", (table,))[0][0]
        if number >= SPARSE:
            self.sql("SELECT securefile_write(%s, %b)", (handle, data[:HOLE[0]]))
            self.sql("SELECT securefile_seek(%s, %s, 0)", (handle, HOLE[1]))
            self.sql("SELECT securefile_write(%s, %b)", (handle, data[HOLE[1]:]))
        for at in range(0, len(data), step) if number < SPARSE else ():
            self.sql("SELECT securefile_write(%s, %b)", (handle, data[at:at + step]))
        if self.rng.random() < 0.2:
            self.sql("SELECT securefile_seek(%s, 1000, 0)", (handle,))
            self.sql("SELECT securefile_write(%s, %b)", (handle, data[1000:1010]))
        self.sql(f"INSERT INTO {table} (n, doc) SELECT %s, securefile_finish(%s)", (number, handle))

    def copy(self, table):
        source = self.rng.choice([table, table, self.rng.choice(TABLES)])
        self.sql(f"INSERT INTO {table} (n, edits, pokes, doc) SELECT n, edits, pokes, doc FROM {source}"
                 f" WHERE id %% %s = 0 LIMIT 3", (self.rng.randint(1, 7),))

    def update(self, table):
        number = self.rng.randrange(SPARSE)
        self.sql(f"UPDATE {table} SET n = %s, edits = 0, pokes = 0, doc = %b::bytea::securefile WHERE id ="
                 f" (SELECT id FROM {table} WHERE id %% %s = 0 LIMIT 1 FOR UPDATE SKIP LOCKED)",
                 (number, CONTENTS[number], self.rng.randint(1, 9)))

    def edit(self, table):
        """Two bytes longer, which edits counts."""
        self.sql(f"UPDATE {table} SET edits = edits + 1, doc = doc || 'xy'::bytea::securefile"
                 f" WHERE id = (SELECT id FROM {table} WHERE id %% %s = 0 LIMIT 1 FOR UPDATE SKIP LOCKED)",
                 (self.rng.randint(1, 9),))

    def poke(self, table):
        """A byte inside, which pokes counts; by a handle, which may be given up, or at once."""
        rows = self.sql(f"SELECT id, n, edits, pokes FROM {table} WHERE id %% %s = 0 LIMIT 1"
                        " FOR UPDATE SKIP LOCKED", (self.rng.randint(1, 9),))
        if not rows:
            return
        key, number, _, pokes = rows[0]
        at = poked(number, pokes + 1)[-1]
        if self.rng.random() < 0.5:
            self.sql(f"UPDATE {table} SET pokes = pokes + 1, doc = overlay(doc placing 'P'::bytea from"
                     f" %s::int) WHERE id = %s", (at + 1, key))
            return
        handle = self.sql(f"SELECT securefile_open(doc, 'rw') FROM {table} WHERE id = %s", (key,))[0][0]
        self.sql("SELECT securefile_seek(%s, %s, 0)", (handle, at))
        self.sql("SELECT securefile_write(%s, 'P'::bytea)", (handle,))
        if self.rng.random() < 0.3:
            self.sql("SELECT securefile_close(%s)", (handle,))
        else:
            self.sql(f"UPDATE {table} SET pokes = pokes + 1, doc = securefile_finish(%s) WHERE id = %s",
                     (handle, key))

    def race(self, table):
        """A handle on a row that nobody has locked: others copy, change and delete it meanwhile."""
        rows = self.sql(f"SELECT id, n, edits, pokes, securefile_open(doc, 'rw') FROM {table}"
                        " WHERE id %% %s = 0 LIMIT 1", (self.rng.randint(1, 9),))
        if not rows:
            return
        key, number, edits, pokes, handle = rows[0]
        self.sql("SELECT securefile_seek(%s, %s, 0)", (handle, poked(number, pokes + 1)[-1]))
        self.sql("SELECT securefile_write(%s, 'P'::bytea)", (handle,))
        self.sql(f"INSERT INTO {table} (n, edits, pokes, doc) SELECT n, edits, pokes, doc FROM {table}"
                 " WHERE id % 3 = 0 LIMIT 2")
        self.sql(f"UPDATE {table} SET pokes = pokes + 1, doc = securefile_finish(%s) WHERE id = %s"
                 " AND n = %s AND edits = %s AND pokes = %s", (handle, key, number, edits, pokes))

    def stale(self, table):
        """A value in a variable, whose row may be gone, becomes a row's again, or an error."""
        self.sql(f"""DO $$
            DECLARE
                kept {table};
            BEGIN
                SELECT * INTO kept FROM {table} WHERE id % {self.rng.randint(1, 9)} = 0 LIMIT 1;
                IF kept.id IS NULL THEN RETURN; END IF;
                DELETE FROM {table} WHERE id = kept.id AND random() < 0.5;
                COMMIT;
                PERFORM pg_sleep(random() * 0.05);
                BEGIN
                    INSERT INTO {table} (n, edits, pokes, doc)
                        VALUES (kept.n, kept.edits, kept.pokes, kept.doc);
                EXCEPTION WHEN undefined_object OR data_corrupted THEN NULL;
                END;
            END $$""")

    def delete(self, table):
        self.sql(f"DELETE FROM {table} WHERE id IN (SELECT id FROM {table} WHERE id %% %s = 0"
                 f" FOR UPDATE SKIP LOCKED)", (self.rng.randint(2, 5),))

    def touch(self, table):
        """No new value: the reference stays the row's."""
        self.sql(f"UPDATE {table} SET n = n WHERE id = (SELECT id FROM {table} WHERE id %% %s = 0"
                 f" LIMIT 1 FOR UPDATE SKIP LOCKED)", (self.rng.randint(1, 9),))

    def conflict(self, table):
        number = self.rng.randrange(SPARSE)
        self.sql(f"INSERT INTO {table} (id, n, doc) VALUES (%s, %s, %b::bytea::securefile)"
                 " ON CONFLICT (id) DO NOTHING", (self.rng.randint(1, 40), number, CONTENTS[number]))

    def undelete(self, table):
        """Rows get what others have lost."""
        source = self.rng.choice([table, *self.keeping])
        self.sql(f"""DO $$
            BEGIN
                INSERT INTO {table} (n, edits, pokes, doc)
                    SELECT split_part(said, ' ', 1)::int, split_part(said, ' ', 2)::int, split_part(said, ' ', 3)::int,
                        document
                    FROM securefile_removed('{source}', 'doc') JOIN kept_lost ON loc = md5((document::raw)::bytea)::uuid
                    ORDER BY random() LIMIT 2;
            -- some have ended meanwhile
            EXCEPTION WHEN undefined_object THEN NULL;
            END $$""")

    def see_to_kept(self, table):
        """What is kept is looked at, or ended."""
        if self.rng.random() < 0.5:
            kept.look(self.conn, table, "doc", truth=digest_said, share=0.1)
        else:
            kept.purge(self.conn, table, "doc", self.rng.choice(["0", "1 second", "1 second"]))

    def maintain(self, table):
        self.sql(f"SELECT securefile_maintain('{table}', 'doc')")

    def transaction(self):
        operations = self.rng.choices(
            [self.insert, self.insert_many, self.stream, self.copy, self.update, self.edit,
             self.poke, self.race, self.delete, self.touch, self.conflict],
            [8, 2, 6, 8, 6, 3, 4, 2, 6, 3, 4], k=self.rng.choice([1, 1, 2, 4, 8]))
        self.sql("BEGIN")
        for operation in operations:
            savepoint = self.rng.random() < 0.3
            if savepoint:
                self.sql("SAVEPOINT a")
            operation(self.rng.choice(TABLES))
            if savepoint:
                self.sql(self.rng.choice(["ROLLBACK TO a", "RELEASE a"]))
        end = self.rng.random()
        if end < 0.05:
            name = f"g{os.getpid()}_{self.done}"
            self.sql(f"PREPARE TRANSACTION '{name}'")
            self.sql(self.rng.choice(["COMMIT", "ROLLBACK"]) + f" PREPARED '{name}'")
        else:
            self.sql("COMMIT" if end < 0.8 else "ROLLBACK")
        if self.rng.random() < 0.1:
            self.stale(self.rng.choice(TABLES))
        if self.rng.random() < 0.05:
            self.maintain(self.rng.choice(TABLES))
        if self.keeping and self.rng.random() < 0.1:
            self.rng.choice([self.undelete, self.see_to_kept])(self.rng.choice(self.keeping))
        self.done += 1


def client(dsn, seed, seconds, keeping, pipe):
    """Transactions until the time is over, or the server is gone."""
    end = time.time() + seconds
    once = None
    try:
        once = Once(dsn, seed, keeping)
        while time.time() < end:
            try:
                once.transaction()
            except (psycopg.errors.DeadlockDetected, psycopg.errors.SerializationFailure):
                once.sql("ROLLBACK")
        pipe.send(("done", once.done))
    except Exception as error:
        lost = isinstance(error, psycopg.Error) and (
            once is None or is_lost(error, once.conn) or "starting up" in str(error))
        pipe.send(("lost" if lost else traceback.format_exc(), once.done if once else 0))


def check_hash(table, words, row, data):
    """A row that the column stored by these words."""
    key, digest, kept, form = row
    wanted = hashlib.sha256(data).hexdigest()
    if text(digest) != wanted or kept is not None and text(kept) != wanted:
        raise AssertionError(f"row {key} of {table} has digest {digest}, and keeps {kept}, not {wanted}")
    # one that is short when compressed stays in the row
    if (kept is not None) != ("hash" in words and text(form) == "stored"):
        raise AssertionError(f"row {key} of {table}, {words}: keeps {kept}")


def text(found):
    return found.decode() if isinstance(found, bytes) else found


def digest_said(said):
    """SHA-256 of a content, as a note of kept values says it."""
    return hashlib.sha256(wanted(*map(int, said.split()))).digest()


def look_at_kept(conn, options, rng):
    """What rows have lost is listed and right; those tables that go on with it."""
    columns = [(table, "doc") for table in options.keeping]
    kept.end_windows_of_the_dead(conn, columns)
    for column in columns:
        kept.look(conn, *column, quiet=True, truth=digest_said, share=0.3)
    if rng.random() < 0.5:
        return options.keeping
    kept.end_all(conn, columns, rng, has_fault_points(conn))
    return []


def look(server, words, options, rng):
    """Every row has the content that it says; how many rows there are."""
    conn = connect(server.dsn, 60)
    roll_back_prepared(conn)
    rows = 0
    still_kept = look_at_kept(conn, options, rng)
    for table in TABLES:
        for key, number, edits, pokes, found, *hashes in conn.execute(
                f"SELECT id, n, edits, pokes, md5(doc::bytea), encode(securefile_digest(doc), 'hex'),"
                f" encode(securefile_kept_digest(doc), 'hex'), (securefile_storage(doc)).form FROM {table}").fetchall():
            data = wanted(number, edits, pokes)
            if text(found) != hashlib.md5(data).hexdigest():
                raise AssertionError(f"row {key} of {table} has not content {number}, {edits} edits, {pokes} pokes")
            check_hash(table, words[table], (key, *hashes), data)
            rows += 1
        if table not in still_kept:
            count(conn, server.data, table)
        require_sound(conn, table)
    conn.close()
    return rows


def usage(conn, table, columns):
    conn.execute(f"SELECT securefile_maintain('{table}', 'doc')")
    return conn.execute(f"SELECT {columns} FROM securefile_usage(%s::regclass, 'doc')",
                        (table,)).fetchone()


def require_sound(conn, table):
    for finding in conn.execute(f"SELECT * FROM securefile_check('{table}', 'doc')").fetchall():
        raise AssertionError(f"check of {table}: {finding}")


def segment(conn, data, table):
    """The pages of its segment relation, as they are on disk."""
    conn.execute("CHECKPOINT")
    path = conn.execute("SELECT pg_relation_filepath(segment_relid) FROM securefile_columns"
                        " WHERE relid = %s::regclass", (table,)).fetchone()[0]
    with open(os.path.join(data, path), "rb") as file:
        return file.read()


def record_of(pages, locator):
    """The place of the share record that a value refers to, and is it a changed version; or None."""
    flags = int.from_bytes(locator[2:4], "little")
    if flags & SHARED:
        return locator[48:54], locator[54] & BASED != 0
    if not flags & INODE:
        return None
    root = int.from_bytes(locator[48:52], "little") * PAGE
    mark = int.from_bytes(pages[root + 24 + 8144:root + 24 + 8152], "little")
    return (mark.to_bytes(8, "little")[:6], False) if mark >> 62 == 3 else None


def count(conn, data, table):
    """There are as many references, and records, as the rows say, once all is settled."""
    pages = segment(conn, data, table)
    contents = {}
    references = 0
    for *what, locator in conn.execute(STORED.format(table), binary=True).fetchall():
        record = record_of(pages, bytes(locator))
        if record:
            references += 1
            kinds = contents.setdefault(record[0], set())
            kinds.update([] if record[1] else [tuple(what)])
            if len(kinds) > 1:
                raise AssertionError(f"{table}: a share record has rows of several contents")
    end = time.time() + 60
    while usage(conn, table, "shared_references, shared_objects") != (references, len(contents)):
        if time.time() > end:
            raise AssertionError(f"{table} has {references} references to {len(contents)} records, and counts "
                                 f"{usage(conn, table, 'shared_references, shared_objects')}")
        time.sleep(0.1)


def used_cells(conn, data, table):
    """Cells of its share pages that are used."""
    pages = segment(conn, data, table)
    return sum(byte.bit_count() for at in range(0, len(pages), PAGE)
               if pages[at + 8176:at + 8182] == b"\x31\x4c\x46\x53\x07\0"
               for byte in pages[at + 32:at + 48])


def all_words(table, words, options):
    """The options of a table, which may have a retention."""
    return words[table] + (f", {kept.words(kept.AMPLE)}" if table in options.keeping else "")


def convert(dsn, words, rng, options):
    """Other options for a table, all of whose values are stored again."""
    table = rng.choice([t for t in TABLES if "logging" not in words[t]])
    words[table] = rng.choice([w for w in OPTIONS if "logging" not in w])
    conn = connect(dsn, 60)
    conn.execute(f"ALTER TABLE {table} ALTER doc TYPE securefile({all_words(table, words, options)})")
    conn.execute(rng.choice([f"SELECT securefile_rewrite('{table}', 'doc')",
                             f"CALL securefile_rewrite_online('{table}', 'doc', 200000)"]))
    conn.close()


def empty(server, options, rng):
    """Delete all rows: no space is left in use."""
    conn = connect(server.dsn, 60)
    columns = "live_bytes, pending_bytes, shared_objects, shared_references, saved_bytes"
    for table in TABLES:
        conn.execute(f"DELETE FROM {table}")
    kept.end_all(conn, [(table, "doc") for table in options.keeping], rng, has_fault_points(conn))
    for table in TABLES:
        end = time.time() + 60
        while (left := usage(conn, table, columns)) != (0,) * len(left) or used_cells(conn, server.data, table):
            if time.time() > end:
                raise AssertionError(f"{table} is empty and has {left} ({columns}),"
                                     f" {used_cells(conn, server.data, table)} used cells")
            time.sleep(0.1)
        require_sound(conn, table)
    conn.close()


def life(server, options, number, words):
    """Clients at work; the server is killed, or not the last time.  words: options of the tables."""
    rng = random.Random(f"{options.seed}:{number}")
    last = number == options.kill
    clients = []
    for which in range(options.clients):
        here, there = multiprocessing.Pipe()
        process = multiprocessing.Process(
            target=client, args=(server.dsn, f"{options.seed}:{number}:{which}", options.seconds, options.keeping, there))
        process.start()
        clients.append((process, here))
    if not last:
        time.sleep(rng.uniform(0.3, options.seconds))
        server.kill_all()
    done = 0
    for process, pipe in clients:
        how, transactions = pipe.recv()
        process.join()
        done += transactions
        if how != "done" and (how != "lost" or last):
            raise AssertionError(f"client: {how}")
    if not last:
        server.start()
    alarms = server.alarms()
    if alarms:
        raise AssertionError("in the server's log:\n" + "\n".join(alarms))
    rows = look(server, words, options, rng)
    convert(server.dsn, words, rng, options)
    look(server, words, options, rng)
    print(f"life {number + 1}: {done} transactions, {rows} rows", flush=True)
    if last or rng.random() < 0.4:
        empty(server, options, rng)
    return done


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seed", type=int, default=random.SystemRandom().randrange(10**9))
    parser.add_argument("--kill", type=int, default=2, metavar="N")
    parser.add_argument("--clients", type=int, default=4)
    parser.add_argument("--seconds", type=float, default=4)
    options = parser.parse_args()
    server = Server(SETTINGS)
    done = 0
    words = dict(zip(TABLES, OPTIONS))
    options.keeping = [table for table, _ in kept.draw(options.seed, [(table, "doc") for table in TABLES])]
    try:
        server.start()
        conn = connect(server.dsn, 60)
        conn.execute("CREATE EXTENSION securefile")
        kept.install(conn)
        for table in TABLES:
            conn.execute(f"CREATE TABLE {table} (id int PRIMARY KEY GENERATED BY DEFAULT AS IDENTITY"
                         f" (START WITH 100), n int, edits int DEFAULT 0, pokes int DEFAULT 0,"
                         f" doc securefile({all_words(table, words, options)}))")
        for table in options.keeping:
            conn.execute(kept.watch(table, said="concat_ws(' ', $1.n, $1.edits, $1.pokes)"))
        conn.close()
        for number in range(options.kill + 1):
            done += life(server, options, number, words)
    except Exception:
        print(traceback.format_exc())
        print(f"{server.tail()}\ncluster kept in {server.top}")
        print(f"FAILED; again with: {' '.join(sys.argv[:1])} --seed {options.seed} --kill {options.kill}")
        return 1
    server.stop()
    server.remove()
    print(f"sound: seed {options.seed}, {options.kill} kills, {done} transactions")
    return 0


if __name__ == "__main__":
    sys.exit(main())
