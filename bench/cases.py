"""The cases of the matrix: what is measured, and of which engines."""

import os
from typing import NamedTuple

KB, MB, MIB = 1000, 1000000, 1 << 20

BASE = "bytea"
STORING = [BASE, "logging", "filesystem_like", "large_object", "file", "http"]
COMPRESSING = ["bytea_lz4", "bytea_pglz"]
LADDER = ["buffered", "direct_sync", "direct_libaio", "direct_io_uring"]
# Those whose rows have the bytes.
REPLACING = [BASE, "logging", "filesystem_like"]
HTTP = ["http", "http_no_flush"]
# What the disk allows: with a connection, and without one.
DISK = ["null", "fio"]
WRITE_BOUNDS = DISK + ["wal", "connection"]
READ_BOUNDS = DISK + ["connection"]

WORDS = {"write": "write", "rewrite": "write, reused space", "upsert": "upsert",
         "ignore": "conflict, DO NOTHING", "reject": "failed CHECK",
         "read": "read, warm",
         "read_new": "read, just written", "read_cold": "read, cold"}


class Case(NamedTuple):
    group: str			# cases of one plot
    operation: str
    size: int
    clients: int
    per_commit: int		# objects a transaction writes
    engines: list
    quick: bool = True	# is among those of the quick matrix, too

    @property
    def name(self):
        more = f", {self.per_commit} a commit" if self.per_commit > 1 else ""
        before = "ladder: " if self.group == "ladder" else ""
        return (f"{before}{WORDS[self.operation]}, {human(self.size)},"
                f" {self.clients} client{'s' if self.clients > 1 else ''}{more}")


def human(size):
    if size % MIB == 0:
        return f"{size // MIB} MiB"
    if (size + 1000) % MIB == 0:
        return f"{(size + 1000) // MIB} MiB - 1000 B"
    return f"{size // MB} MB" if size >= MB else f"{size // KB} KB"


def numbers_of_clients():
    """As many as the papers have on 16 processors, in proportion."""
    return [n for n in (2, 4, 8, 16, 32, 64, 128) if n <= 16 or n <= 8 * os.cpu_count()]


def clients_cases():
    return [Case("clients", operation, size, clients, 1, STORING + DISK,
                 clients in (4, 16) and operation == "write")
            for operation in ("write", "read") for size in (10 * KB, MB)
            for clients in numbers_of_clients()]


CASES = [
    Case("write", "write", 10 * KB, 1, 1,
         STORING + ["http_no_flush"] + WRITE_BOUNDS + COMPRESSING),
    Case("write", "write", 100 * KB, 1, 1, STORING + WRITE_BOUNDS),
    Case("write", "write", MB, 1, 1, STORING + ["http_no_flush"] + WRITE_BOUNDS + COMPRESSING),
    Case("write", "write", 10 * MB, 1, 1, STORING + WRITE_BOUNDS),
    Case("write", "write", 97 * MB, 1, 1, STORING + DISK, False),
    Case("commit", "write", 10 * KB, 1, 100, STORING + ["wal"]),
    Case("commit", "write", 100 * KB, 1, 100, STORING + ["wal"], False),
    Case("read", "read", 10 * KB, 1, 1, STORING + READ_BOUNDS + COMPRESSING),
    Case("read", "read", 100 * KB, 1, 1, STORING + READ_BOUNDS),
    Case("read", "read", MB, 1, 1, STORING + READ_BOUNDS + COMPRESSING),
    Case("read", "read", 10 * MB, 1, 1, STORING + READ_BOUNDS),
    Case("read", "read", 97 * MB, 1, 1, STORING + DISK, False),
    Case("read", "read_new", 10 * KB, 1, 1, STORING),
    Case("read", "read_new", 100 * KB, 1, 1, STORING),
    *(Case("cold", "read_cold", size, 1, 1, STORING + DISK, size in (10 * KB, MB))
      for size in (10 * KB, 100 * KB, MB, 10 * MB)),
    *(Case("reused", "rewrite", size, 1, 1, STORING) for size in (100 * KB, MB)),
    Case("reused", "rewrite", MB, 4, 1, STORING, False),
    *(Case("rejected", operation, size, clients, 1, REPLACING, clients == 1 and size == 4 * MB)
      for operation in ("ignore", "reject") for size in (4 * MB, 30 * MB) for clients in (1, 4)),
    *(Case("upsert", "upsert", size, 1, 1, REPLACING, size == MB)
      for size in (10 * KB, MB, 4 * MB)),
    *clients_cases(),
    *(Case("ladder", operation, size, 1, 1, [BASE] + LADDER, size == MB)
      for operation in ("write", "read") for size in (MB, 10 * MB)),
    *(Case("unaligned", operation, size, 4, 1, STORING, operation == "write")
      for operation in ("write", "read") for size in (MIB, MIB - 1000)),
]
