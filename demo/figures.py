"""The figures of the README's picture, from files of the demo: speed beside bytea, by size.

One client, a commit each.  All ways take turns, in a database of its own for each size, and a
checkpoint comes before each turn.  The ratio to bytea is computed within a round, and shown is
the median of the rounds; what was measured in a first one does not count, since files grow
and caches fill then.  Reads are from memory.  bench/run --matrix measures more carefully, and
more.

The statements go through psycopg's layer over libpq, whose share is the same for all ways.
"""

import os
import random
import shutil
import statistics
import time

import psycopg

import tree

KB, MB = 1000, 1000000
SIZES = (10 * KB, 100 * KB, MB, 10 * MB, 97 * MB)
ROUNDS = 3
SECONDS = 0.3				# of a turn, and one object at least
MOST_BYTES = 50 * MB		# of different objects
DATABASE = "figures"
BASE = "bytea"
INT8, TEXT, BYTEA = 20, 25, 17


class Way:
    """A way to keep an object: a table, and what is written to it and read from it."""

    def __init__(self, name, column, stored="$2", read="doc", setup=""):
        self.name, self.column, self.setup = name, column, setup
        self.insert = f"INSERT INTO keep_{name} VALUES ($1, {stored})"
        self.select = f"SELECT {read} FROM keep_{name} WHERE id = $1"
        self.type = BYTEA

    def make(self, conn, _directory):
        conn.execute(f"CREATE TABLE keep_{self.name} (id bigint PRIMARY KEY, doc {self.column})")
        if self.setup:
            conn.execute(f"ALTER TABLE keep_{self.name} {self.setup}")
        self.pg = conn.pgconn
        self.pg.prepare(self.name.encode(), self.insert.encode(), [INT8, self.type])
        self.pg.prepare(b"read " + self.name.encode(), self.select.encode(), [INT8])

    def run(self, statement, *parameters):
        result = self.pg.exec_prepared(statement, parameters, [1] * len(parameters), 1)
        if result.status not in (psycopg.pq.ExecStatus.COMMAND_OK, psycopg.pq.ExecStatus.TUPLES_OK):
            raise RuntimeError(f"{self.name}: {result.error_message.decode()}")
        return result

    def write(self, number, content):
        self.run(self.name.encode(), number.to_bytes(8, "big"), content)

    def read(self, number):
        return self.run(b"read " + self.name.encode(), number.to_bytes(8, "big")).get_value(0, 0)


class File(Way):
    """A file beside the database, and a row that names it."""

    def __init__(self):
        super().__init__("file", "text")
        self.type = TEXT

    def make(self, conn, directory):
        super().make(conn, directory)
        self.directory = directory

    def write(self, number, content):
        path = os.path.join(self.directory, str(number))
        with open(path, "wb", buffering=0) as file:
            done = 0
            while done < len(content):
                done += file.write(memoryview(content)[done:])
            os.fdatasync(file.fileno())
        super().write(number, path.encode())

    def read(self, number):
        return tree.read(super().read(number).decode())


def all_ways():
    return [Way(BASE, "bytea", setup="ALTER doc SET STORAGE EXTERNAL"),
            Way("logging", "securefile"),
            Way("filesystem_like", "securefile(filesystem_like_logging)"),
            Way("large_object", "oid", "lo_from_bytea(0, $2)", "lo_get(doc)"),
            File()]


class Turns:
    """Of one size: objects, and all ways with what they have written."""

    def __init__(self, conn, directory, contents):
        self.conn, self.contents = conn, contents
        self.ways = all_ways()
        self.written = dict.fromkeys(self.ways, 0)
        self.chance = random.Random(1)
        for way in self.ways:
            way.make(conn, directory)

    def write_one(self, way):
        way.write(self.written[way], self.contents[self.written[way] % len(self.contents)])
        self.written[way] += 1

    def read_one(self, way):
        number = self.chance.randrange(min(len(self.contents), *self.written.values()))
        if len(way.read(number)) != len(self.contents[number]):
            raise RuntimeError(f"{way.name}: object {number} is not as long as it was")

    def turn(self, way, operation):
        """Objects a second."""
        self.conn.execute("CHECKPOINT")
        done, began = 0, time.monotonic()
        while done == 0 or time.monotonic() - began < SECONDS:
            operation(way)
            done += 1
        return done / (time.monotonic() - began)

    def measure(self, operation):
        """Of each way: median of MB/s, and of the ratio to bytea."""
        rounds = [{way.name: self.turn(way, operation) for way in self.ways}
                  for _ in range(ROUNDS + 1)][1:]
        size = len(self.contents[0])
        return {way.name: (statistics.median(one[way.name] for one in rounds) * size / MB,
                           statistics.median(one[way.name] / one[BASE] for one in rounds))
                for way in self.ways}

    def compare(self):
        """What was measured has kept the bytes, too."""
        for way in self.ways:
            if way.read(0) != self.contents[0]:
                raise RuntimeError(f"{way.name}: object 0 is not what was written")


def measure_size(dsn, directory, contents):
    """Both rows of a size, measured in a new database."""
    with psycopg.connect(dsn, autocommit=True) as conn:
        conn.execute(f"DROP DATABASE IF EXISTS {DATABASE}")
        conn.execute(f"CREATE DATABASE {DATABASE}")
    os.makedirs(directory)
    with psycopg.connect(dsn, dbname=DATABASE, autocommit=True) as conn:
        conn.execute("CREATE EXTENSION securefile")
        turns = Turns(conn, directory, contents)
        writes, reads = turns.measure(turns.write_one), turns.measure(turns.read_one)
        turns.compare()
    shutil.rmtree(directory)
    with psycopg.connect(dsn, autocommit=True) as conn:
        conn.execute(f"DROP DATABASE {DATABASE}")
    return writes, reads


def human(size):
    return f"{size // MB} MB" if size >= MB else f"{size // KB} KB"


def table(title, rows):
    names = [way.name for way in all_ways()]
    print(f"\n{title:<10}{'bytea, MB/s':>14}" + "".join(f"{name:>17}" for name in names[1:]))
    for size, row in rows.items():
        print(f"{human(size):<10}{row[BASE][0]:>14.0f}" +
              "".join(f"{row[name][1]:>17.2f}" for name in names[1:]))


def show(dsn, top):
    """Measures, and prints, what the files of the copy suffice for."""
    archive = top + ".tar"
    tree.make_archive(top, archive)
    writes, reads = {}, {}
    for size in SIZES:
        if size > os.path.getsize(archive):
            print(f"(there are not enough files for objects of {human(size)})")
            continue
        count = max(1, min(200, MOST_BYTES // size))
        writes[size], reads[size] = measure_size(dsn, top + ".files",
                                                 list(tree.pieces(archive, size, count)))
        print(f"measured: {human(size)}", flush=True)
    os.unlink(archive)
    print("\nTimes as fast as bytea, one client, a commit each; logging: securefile, filesystem_like:\n"
          "securefile(filesystem_like_logging), file: a file beside the database and a row that names it.")
    table("writes", writes)
    table("reads", reads)
