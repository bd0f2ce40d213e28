"""What the trials of all stacks share: payloads, lines of results, what the server has."""

import hashlib
import os
import random
import traceback

import psycopg

KB = 1024
MB = 1024 * KB
LONG = os.environ["SECUREFILE_PAYLOADS"] == "long"

# as drivers want it that read no environment
HOST, PORT, USER, DATABASE = (os.environ[name] for name in ("PGHOST", "PGPORT", "PGUSER", "PGDATABASE"))

bytes_of = random.Random(1).randbytes

PAYLOADS = {
    "NULL": None,
    "0 B": b"",
    "10 B": bytes_of(10),
    "every byte": bytes(range(256)),
    r"\x4142": rb"\x4142",
    r"a\134b": rb"a\134b",
    r"a\\b": rb"a\\b",
    "10 KB": bytes_of(10 * KB),
    "5 MB": bytes_of(5 * MB),
}
ROWS = dict(PAYLOADS)  # of many at a time
if LONG:
    PAYLOADS["200 MB"] = bytes_of(200 * MB)


class Stack:
    """One stack, which has a table of its own."""

    def __init__(self, name, table):
        self.name = name
        self.table = table
        self.server = psycopg.connect(autocommit=True, options="-c lock_timeout=60s")
        self.server.execute(f"DROP TABLE IF EXISTS {table} CASCADE")

    def make_table(self):
        """The table that most of them want."""
        self.server.execute(f"CREATE TABLE {self.table} (name text PRIMARY KEY, document securefile)")

    def ok(self, condition, what):
        print(f"{'ok' if condition else 'not ok'} - {self.name}: {what}", flush=True)

    def same(self, got, expected, what):
        """Bytes, in whatever object they came."""
        if got is not None:
            got = bytes(got)
        self.ok(got == expected and type(got) is type(expected), what)
        if got != expected:
            print(f"# got {got[:40] if got else got!r}, expected {expected[:40] if expected else expected!r}", flush=True)

    def stored(self, name, data, key="name", column="document"):
        """Whether the server has these bytes under that name."""
        row = self.server.execute(
            f"SELECT md5({column}), length({column}), pg_typeof({column})::text FROM {self.table} WHERE {key} = %s", (name,)
        ).fetchone()
        if data is None:
            return row == (None, None, "securefile")
        return row == (hashlib.md5(data).hexdigest(), len(data), "securefile")

    def round_trip(self, store, load, what, payloads=PAYLOADS):
        """Payloads: written by store(name, data), and read back by load(name)."""
        for name, data in payloads.items():
            self.server.execute(f"DELETE FROM {self.table}")
            store(name, data)
            self.ok(self.stored(name, data), f"{what}: {name} is written")
            self.same(load(name), data, f"{what}: {name} is read")

    def fails(self, error, call, what):
        """An error that is expected."""
        try:
            call()
            self.ok(False, what)
        except error as found:
            self.ok(True, f"{what} ({str(found).splitlines()[0]})")

    def part(self, what, call, *arguments):
        """Runs a part; an error in it does not end the others."""
        try:
            return call(*arguments)
        except Exception:
            self.ok(False, what)
            traceback.print_exc()
