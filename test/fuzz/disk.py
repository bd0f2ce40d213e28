#!/usr/bin/python3
"""Damaged pages of segment relations, damaged locators and compressed values in rows: every
use ends with an error that says so, or with what is right.

A cluster is filled and stopped.  Then, again and again, one page, locator or value
in a copy of it is damaged, and a server reads, checks, salvages, maintains, changes,
copies and drops what is there, by itself (postgres --single).  What must not happen:
a signal, an assertion, a report of the sanitizers, an internal error, no end, wrong
bytes of any value, or anything at all in a table whose storage is sound.

    disk.py --seconds 20 --seed 42

Wants the server of SECUREFILE_SANITIZED (a bindir); without, that of the path.
Exit code 0: sound; 1: not, and the command that does it again is printed.
"""

import collections
import os
import random
import re
import struct
import sys

import trials
from trials import Failed

LOAD = """
CREATE TABLE witness (id int PRIMARY KEY, size int, doc securefile(COMPRESSION));
INSERT INTO witness SELECT i, i * 9000, blob(i, i * 9000) FROM generate_series(1, 10) i;
CREATE TABLE flat (id int PRIMARY KEY, size int, doc securefile('retention 7 days', 'max_size 1 GB', COMPRESSION));
CREATE TABLE tree (id int PRIMARY KEY, size int, doc securefile(filesystem_like_logging, COMPRESSION));
INSERT INTO flat SELECT i, 5000 + i * 7000, blob(i, 5000 + i * 7000) FROM generate_series(1, 20) i;
INSERT INTO tree SELECT i, 13000000, blob(i, 13000000) FROM generate_series(1, 2) i;
INSERT INTO tree SELECT i, 5000, blob(i, 5000) FROM generate_series(11, 14) i;
DELETE FROM flat WHERE id % 3 = 0;
ALTER TABLE flat ALTER doc TYPE securefile('retention 7 days', 'max_size 1 GB', COMPRESSION);
ALTER TABLE tree ALTER doc TYPE securefile(filesystem_like_logging, COMPRESSION);
UPDATE tree SET doc = doc || ''::bytea WHERE id = 1;
DELETE FROM tree WHERE id = 2;
SELECT securefile_maintain('tree', 'doc'), securefile_maintain('flat', 'doc');
SELECT securefile_maintain('tree', 'doc');
INSERT INTO flat SELECT i, 6000, blob(i, 6000) FROM generate_series(31, 35) i;
DELETE FROM flat WHERE id % 4 = 0;
UPDATE tree SET doc = blob(id, size) WHERE id = 11;
CREATE TABLE shared (id int, size int, doc securefile(deduplicate, COMPRESSION));
INSERT INTO shared SELECT i % 9, 5000 + i % 9 * 20000, blob(i % 9, 5000 + i % 9 * 20000) FROM generate_series(1, 30) i;
INSERT INTO shared SELECT 14, 13000000, blob(14, 13000000) FROM generate_series(1, 2);
DELETE FROM shared WHERE id = 3;
SELECT securefile_maintain('shared', 'doc');
INSERT INTO shared SELECT id, size, doc FROM shared WHERE id IN (2, 12);
INSERT INTO shared SELECT 13, 50000, blob(13, 50000);
DELETE FROM shared WHERE id = 6;
BEGIN;
INSERT INTO shared SELECT id, size, doc FROM shared WHERE id = 8;
ROLLBACK;
VACUUM flat, tree, shared;
DELETE FROM flat WHERE id = 5;
"""

# what is done after all was read; each by itself, for errors may come at its end
USES = "".join(map(trials.one_line, """
SELECT 'check', count(*) FROM securefile_check('{0}', 'doc');
SELECT 'usage', * FROM securefile_usage('{0}', 'doc');
SELECT 'removed', row_key, length(document::bytea) FROM securefile_removed('{0}', 'doc');
SELECT 'salvage', t.id, sum(length(s.data)) FROM {0} t, securefile_salvage(doc) s GROUP BY 2;
SELECT 'substring', id, length(substring(doc from size - 10 for 5)), length(doc) FROM {0};
SELECT 'chunks', count(*) FROM {0}, securefile_chunks(doc) c;
SELECT 'maintain', securefile_maintain('{0}', 'doc');
UPDATE {0} SET doc = doc || 'x'::bytea, size = -1 WHERE id IN (1, 2, 12);
UPDATE {0} SET doc = securefile_truncate(doc, 4500), size = -1 WHERE id IN (4, 13);
INSERT INTO {0} SELECT i, 7000, blob(i, 7000) FROM generate_series(101, 140) i;
UPDATE {0} SET doc = blob(id, size) WHERE id > 110;
DELETE FROM {0} WHERE id IN (5, 7, 14, 120);
DELETE FROM {0} WHERE id = 1;
SELECT 'maintain', securefile_maintain('{0}', 'doc');
SELECT 'check', count(*) FROM securefile_check('{0}', 'doc');
SELECT 'purge', securefile_purge('{0}', 'doc');
SELECT 'maintain', securefile_maintain('{0}', 'doc');
CREATE TABLE c_{0} AS SELECT * FROM {0};
VACUUM FREEZE {0};
ALTER TABLE {0} SET TABLESPACE elsewhere;
TRUNCATE {0};
INSERT INTO {0} SELECT i, 7000, blob(i, 7000) FROM generate_series(201, 203) i;
DROP TABLE {0};
""".strip().split("\n")))

PAGE = 8192
TYPES = {1: "header", 2: "map", 3: "pending", 4: "inode", 5: "free", 7: "share", 8: "advice", 10: "removed"}

# where numbers stand in the contents of a page: (offset, size)
FIELDS = {
    "header": [(16, 8), (24, 8), (24, 8), (32, 8), (40, 4), (46, 2), (48, 4), (52, 4), (56, 4),
               (60, 4), (64, 8), (0, 8), (80, 8)] + [(at, 4) for at in range(96, 184, 4)],
    "map": [(0, 8), (8, 8), (16, 4), (24, 8), (536, 8), (600, 8)],
    "pending": [(0, 4), (4, 2), (4, 2)]
               + [(8, 8), (16, 8), (24, 8), (32, 8)]
               + [(40 + 24 * i + at, size) for i in range(3)
                  for at, size in ((0, 8), (8, 8), (16, 4), (20, 1), (21, 1))],
    "removed": [(0, 4), (4, 2), (4, 2), (8, 8), (16, 8), (24, 8), (32, 2), (34, 1), (35, 1), (40, 1), (41, 1),
                (42, 2), (44, 2)],
    "inode": [(0, 8), (8, 8), (16, 8), (24, 2), (26, 2), (26, 2)]
             + [(32 + 24 * i + at, size) for i in range(3)
                for at, size in ((0, 8), (8, 8), (16, 4), (20, 4))],
    "free": [(0, 4)],
    "share": [(0, 4), (8, 8), (16, 8)]
             + [(24 + 128 * i + at, size) for i in range(4)
                for at, size in ((0, 8), (8, 8), (16, 4), (20, 2), (22, 2), (24, 8), (48, 8), (56, 1),
                                 (57, 1), (58, 2), (60, 4), (64, 8), (104, 4), (108, 2), (112, 8))],
    "advice": [(0, 4), (4, 2), (6, 1), (8, 4), (12, 4), (16, 4)]
              + [(136 + 24 * i + at, size) for i in range(3)
                 for at, size in ((0, 8), (8, 8), (16, 4), (20, 2), (22, 2))],
}
FRAME = [(10, 2), (12, 2), (14, 2), (16, 2), (18, 2), (8176, 4), (8180, 2), (8182, 2)]
# of a locator; see format.h
LOCATOR = [(0, 1), (1, 1), (2, 2), (4, 4), (8, 2), (10, 2), (12, 4), (16, 8), (24, 8), (32, 8),
           (40, 4), (44, 2), (48, 8), (56, 4)]
BORDERS = [0, 1, 2, 3, 4, 8, 255, 337, 338, 339, 509, 510, 32767, 32768, 65535, 131072, 2**31 - 1,
           2**31, 2**32 - 2, 2**32 - 1, 2**44, 2**44 + 1, 2**63 - 1, 2**63, 2**64 - 2, 2**64 - 1]

# an error that is neither the extension's nor one of the files below
INTERNAL = re.compile(
    r"(?:ERROR|FATAL|PANIC):  (?!.*(?:securefile|segment|could not|invalid page|page )).*|XX000")


def prepare(server, options):
    """Fill a cluster and stop it."""
    server.start()
    with server.connect() as conn:
        trials.begin(conn)
        trials.load(conn, LOAD, options)
        # how long values are that are compressed in their rows
        server.packed = {name: [size for size, in conn.execute(
            f"SELECT size FROM {name}, securefile_storage(doc) WHERE form = 'inline' AND codec <> 'none'")]
                         for name in ("flat", "shared", "tree")}
        # the tables, and what there is of each: path of the rows, of the segment, OID
        server.tables = conn.execute("""
            SELECT t.relname, pg_relation_filepath(t.oid), pg_relation_filepath(s.oid), t.oid::int
            FROM pg_class t JOIN pg_class s ON s.relname LIKE 'pg_securefile_' || t.oid || '\\_%'
            WHERE t.relname IN ('flat', 'shared', 'tree')""").fetchall()
    server.stop()


def some_number(rng):
    return rng.choice(BORDERS) if rng.random() < 0.8 else rng.getrandbits(64)


class Damage:
    """A change of one file, as chance will have it."""

    def __init__(self, data, table, rng, packed=()):
        self.name, self.rows, self.segment, self.oid = table
        self.data, self.rng, self.packed = data, rng, packed

    def read(self, path):
        with open(os.path.join(self.data, path), "rb") as file:
            return bytearray(file.read())

    def write(self, path, content):
        with open(os.path.join(self.data, path), "r+b") as file:
            file.write(content)
            file.truncate()

    def put_number(self, content, base, field):
        at, size = field
        number = some_number(self.rng) % 256**size
        old = content[base + at:base + at + size]
        content[base + at:base + at + size] = number.to_bytes(size, "little")
        return f"{size} bytes at {at}, which were {int.from_bytes(old, 'little')}, become {number}"

    def locator(self):
        """A number or a bit of a locator in a row."""
        content = self.read(self.rows)
        start = b"\x02[\1\2][\0-\7\x10-\x17]\0" + re.escape(struct.pack("<I", self.oid))
        found = [m.start() for m in re.finditer(start, content, re.S)]
        base = self.rng.choice(found)
        if self.rng.random() < 0.7:
            said = self.put_number(content, base, self.rng.choice(LOCATOR))
        else:
            bit = self.rng.randrange(8 * 70)
            content[base + bit // 8] ^= 1 << bit % 8
            said = f"bit {bit}"
        # form 1 is INLINE: any bytes are such a value, which has no checksum, as bytea has none
        if content[base] == 1:
            content[base] = 0
        self.write(self.rows, content)
        return "locator", said

    def in_row(self):
        """Bits of a value that is compressed in its row, behind its form and codec."""
        content = self.read(self.rows)
        lengths = b"|".join(re.escape(struct.pack("<I", size)) for size in self.packed)
        found = [m.start() for m in re.finditer(b"\x05[\1\2]\0\0(?:" + lengths + b")", content, re.S)]
        if not found:
            return self.locator()
        base = self.rng.choice(found)
        for _ in range(self.rng.choice([1, 1, 3])):
            bit = self.rng.randrange(8 * 2, 8 * 30)
            content[base + bit // 8] ^= 1 << bit % 8
        self.write(self.rows, content)
        return "in row", f"the last one bit {bit}"

    @staticmethod
    def pages_of(content):
        """Numbers of pages by kind."""
        pages = collections.defaultdict(list)
        for page in range(len(content) // PAGE):
            number = struct.unpack_from("<H", content, page * PAGE + PAGE - 12)[0]
            pages[TYPES.get(number)].append(page)
        pages.pop(None, None)
        return pages

    def kept(self, kind, at, size, number):
        content = self.read(self.segment)
        at = self.pages_of(content)[kind][0] * PAGE + 24 + int(at)
        content[at:at + int(size)] = int(number).to_bytes(int(size), "little")
        self.write(self.segment, content)

    def page(self):
        """A number or bits of a page; or all of it."""
        content = self.read(self.segment)
        pages = self.pages_of(content)
        kind = self.rng.choice(sorted(pages))
        page = self.rng.choice(pages[kind])
        base, way = page * PAGE, self.rng.random()
        if way < 0.6:
            said = self.field(content, base, kind)
        elif way < 0.7:
            said = "frame: " + self.put_number(content, base, self.rng.choice(FRAME))
        elif way < 0.85:
            for _ in range(self.rng.randint(1, 5)):
                content[base + 24 + self.rng.randrange(200)] ^= 1 << self.rng.randrange(8)
            said = "some bits"
        elif way < 0.95:
            other = self.rng.randrange(len(content) // PAGE)
            content[base:base + PAGE] = content[other * PAGE:(other + 1) * PAGE]
            said = f"becomes page {other}"
        else:
            del content[base:]
            said = "and all behind it are gone"
        self.write(self.segment, content)
        return kind, f"page {page}: {said}"

    def field(self, content, base, kind):
        """A number.  That a part of a value is a hole cannot be told from the truth
        without checksums of pages."""
        while True:
            tried = bytearray(content)
            said = self.put_number(tried, base + 24, self.rng.choice(FIELDS[kind]))
            if kind != "inode" or not said.endswith(str(2**64 - 1)):
                content[:] = tried
                return said

    def do(self):
        way = self.rng.random()
        kind, said = (self.locator() if way < 0.2 else
                      self.in_row() if way < 0.3 and self.packed else self.page())
        return kind, f"{self.name}, {kind} {said}"


class Trials(trials.Trials):
    """One damage after another."""

    def __init__(self, base, options):
        super().__init__(base, options)
        self.kinds, self.states = collections.Counter(), collections.Counter()
        self.met = 0
        for table in base.tables:
            _, log = self.work_with(None, self.uses(table[0]))
            if re.search(r"ERROR|FATAL|PANIC|unreadable", log):
                raise Failed(f"without any damage:\n{log}")

    @staticmethod
    def uses(table):
        """Nothing is written before all is read, so that of the others one table will do."""
        return trials.read(table, "witness") + USES.format(table)

    def use(self, table, damage):
        """Use what is damaged; returns the errors, and whether anything was met."""
        code, log = self.work_with(damage, self.uses(table[0]))
        if code != 0:
            raise Failed(f"exit code {code}:\n{log[-6000:]}")
        internal = INTERNAL.search(log)
        if internal:
            raise Failed(f"an error that says nothing: {internal[0]}\n{log[-6000:]}")
        errors = sorted(set(re.sub(r"\d+|\"[^\"]*\"", "#", text) for text in
                            re.findall(r"(?:ERROR:  |unreadable: \w+ \d+ \w+ )(.*)", log)))
        return errors, bool(errors or "WARNING" in log
                            or re.search(r'= "check".*\n.*count = "[1-9]', log))

    def one(self, number):
        """The damage of that number; the seed and it fix what is done."""
        rng = random.Random(f"{self.options.seed} {number}")
        table = rng.choice(self.base.tables)
        said = []
        try:
            packed = self.base.packed[table[0]]
            errors, met = self.use(table, lambda data: said.extend(
                Damage(data, table, rng, packed).do()))
        except Failed as failed:
            raise Failed(f"damage {number}: {said[1:]}:\n{failed}") from failed
        self.kinds[said[0]] += 1
        self.met += met
        self.states.update(errors)
        if self.options.verbose:
            print(f"{number}: {said[1]}: {'' if met else 'not '}met:", "; ".join(errors)[:200],
                  flush=True)

    def kept(self, name, *what):
        """A damage that must be met."""
        table = next(table for table in self.base.tables if table[0] == name)
        try:
            errors, met = self.use(table, lambda data: Damage(data, table, None).kept(*what))
            if not met:
                raise Failed("not met")
        except Failed as failed:
            raise Failed(f"kept damage {name} {what}: {failed}") from failed
        if self.options.verbose:
            print(name, *what, "; ".join(errors)[:200], flush=True)


def run(options, base):
    all_of = Trials(base, options)
    all_kept = trials.read_kept("disk", options)
    for kept in all_kept:
        all_of.kept(*kept)
    all_of.until_time_is_up(all_of.one)
    for text, n in all_of.states.most_common() if options.verbose else []:
        print(f"{n:6d} {text}")
    print(f"{len(all_kept)} kept damages met")
    kinds = ", ".join(f"{kind} {n}" for kind, n in sorted(all_of.kinds.items()))
    print(f"{sum(all_of.kinds.values())} damages ({kinds}):"
          f" {all_of.met} met, with {len(all_of.states)} different errors")


if __name__ == "__main__":
    sys.exit(trials.main("disk.py", prepare, run))
