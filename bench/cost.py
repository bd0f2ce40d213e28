#!/usr/bin/python3
"""Measures what a gigabyte costs the server: processor time, WAL, space and memory.

    cost.py [--quick] [--megabytes N] [--only PATTERN]
            --results DIRECTORY --directory DIR CONNINFO

Each transform by itself, in both logging modes, beside bytea.  One session writes objects of
1 MB, with a commit each; another one reads them all.  Contents are prose-like, or random.

Processor time is user and system time from /proc/<pid>/stat, which counts in ticks of 10 ms.
That of a session is its backend's.  That of the background is of all other processes of the
server, also of those that have ended meanwhile, without the session that measures; a
checkpoint follows the writes and is counted, for it writes what was put off.

Works where the server runs on this machine.  Pss needs the rights of the server's user.
"""

import os
import re

import part
import report
from load.arguments import positive
from load.contents import make_content
from part import ENGINES, GB, MB

TICKS = os.sysconf("SC_CLK_TCK")
TRANSFORMS = ["", "compress_low", "compress_medium", "compress_high", "encrypt", "deduplicate"]
AGAIN = "deduplicate, again"
KINDS = ["text", "random"]

TEXT = """What 1 GB costs, by transform: one session writes objects of 1 MB with a commit
each, and a new session reads them all. Processor time is user and system time of the
server's processes, from /proc. Session: the backend. Background: all other processes of the
server (monitor, syncer, WAL writer, checkpointer and the rest) until after the checkpoint
that follows. WAL counts from one checkpoint to before the next, with images of pages. Stored
is all that the table, its TOAST table, segment and indexes hold. Memory: resident memory of
the writing backend at its end without what it shares (RssAnon), its peak with what it shares
(VmHWM), and its part of the memory (Pss). "deduplicate, again" writes contents that are in
the column already."""

HEADINGS = ["content", "column", "transform", "CPU s, session", "CPU s, background",
            "CPU s, read", "WAL, GB", "stored, GB", "RssAnon, MB", "VmHWM, MB", "Pss, MB"]
# The figures after the first three.
FIGURES = ["session_seconds", "background_seconds", "read_seconds", "wal_gb", "stored_gb",
           "RssAnon", "VmHWM", "Pss"]


# ---- processes ----

def stat(pid):
    """Fields of /proc/<pid>/stat after the name, from state (0) on."""
    with open(f"/proc/{pid}/stat", encoding="utf-8") as file:
        return file.read().rpartition(")")[2].split()


def own_seconds(pid):
    return sum(int(one) for one in stat(pid)[11:13]) / TICKS


def children(parent):
    found = []
    for name in filter(str.isdigit, os.listdir("/proc")):
        try:
            if stat(name)[1] == str(parent):
                found.append(int(name))
        except (FileNotFoundError, ProcessLookupError):
            pass	# it has ended meanwhile
    return found


def server_seconds(postmaster, without):
    """All processes of the server, those that have ended too, but not these backends."""
    total = sum(int(one) for one in stat(postmaster)[11:15]) / TICKS
    for pid in children(postmaster):
        if pid not in without:
            try:
                total += own_seconds(pid)
            except (FileNotFoundError, ProcessLookupError):
                pass
    return total


def memory(pid):
    """In MB; of what /proc lets us see."""
    found = {}
    for file_name in ("status", "smaps_rollup"):
        try:
            with open(f"/proc/{pid}/{file_name}", encoding="utf-8") as file:
                for line in file:
                    name, _, words = line.partition(":")
                    if name in ("RssAnon", "VmHWM", "Pss"):
                        found[name] = int(words.split()[0]) * 1024 / MB
        except PermissionError:
            pass
    return found


# ---- cases ----

def cases():
    """Content, engine, transform, type of the column."""
    for kind in KINDS:
        yield kind, "bytea", "external", "bytea"
        yield kind, "bytea_lz4", "extended", "bytea COMPRESSION lz4"
        for engine in ("logging", "filesystem_like"):
            mode = "logging" if engine == "logging" else "filesystem_like_logging"
            for transform in [*TRANSFORMS, AGAIN]:
                words = ", ".join(filter(None, [mode, transform.removesuffix(", again")]))
                yield kind, engine, transform or "none", f"securefile({words})"


class Cost:
    def __init__(self, options):
        self.options = options
        self.conn = part.connect(options)
        self.conn.execute("CREATE EXTENSION IF NOT EXISTS securefile")
        self.postmaster = stat(self.conn.info.backend_pid)[1]
        self.contents = {kind: [make_content(f"cost:{kind}:{number}", kind, MB)
                                for number in range(options.megabytes)] for kind in KINDS}
        self.measured = []

    def stored(self):
        usual = part.value(self.conn, "SELECT pg_total_relation_size('cost')")
        if part.is_securefile(self.conn, "cost"):
            usual += part.value(self.conn, "SELECT live_bytes + metadata_bytes"
                                " FROM securefile_usage('cost', 'doc')")
        return usual

    def write(self, session, contents, first):
        for number, content in enumerate(contents):
            part.insert(session, "cost", first + number, content)

    def measure_write(self, contents, first):
        """All that is measured of one turn, by GB where it grows with the bytes."""
        by_gb = GB / sum(map(len, contents))
        self.conn.execute("CHECKPOINT")
        with part.connect(self.options) as session:
            pid = session.info.backend_pid
            without = [pid, self.conn.info.backend_pid]
            # the first statement of a session builds its caches
            session.execute("SELECT count(*) FROM cost")
            space, wal = self.stored(), part.wal_position(self.conn)
            background, own = server_seconds(self.postmaster, without), own_seconds(pid)
            self.write(session, contents, first)
            own, wal = own_seconds(pid) - own, part.wal_position(self.conn) - wal
            self.conn.execute("CHECKPOINT")
            background = server_seconds(self.postmaster, without) - background
            space = self.stored() - space
            return {"session_seconds": own * by_gb, "background_seconds": background * by_gb,
                    "wal_gb": wal * by_gb / GB, "stored_gb": space * by_gb / GB, **memory(pid)}

    def read_seconds(self, contents, first):
        with part.connect(self.options) as session:
            own = own_seconds(session.info.backend_pid)
            for number, content in enumerate(contents):
                if part.fetch(session, "cost", first + number) != content:
                    raise RuntimeError(f"object {first + number} is not what was written")
            return (own_seconds(session.info.backend_pid) - own) * GB / sum(map(len, contents))

    def run_case(self, kind, engine, transform, type_):
        contents, first = self.contents[kind], 0
        part.make_table(self.conn, "cost", type_)
        if transform == AGAIN:
            self.write(self.conn, contents, 0)
            first = len(contents)
        found = {"content": kind, "engine": engine, "transform": transform}
        found |= self.measure_write(contents, first)
        found["read_seconds"] = self.read_seconds(contents, first)
        self.measured.append(found)
        self.conn.execute("DROP TABLE cost")

    def run(self):
        for case in cases():
            if re.search(self.options.only, " ".join(case[:3])):
                self.run_case(*case)
                print("   " + ", ".join(self.row(self.measured[-1])), flush=True)

    # ---- results ----

    def row(self, one):
        return [one["content"], one["engine"], one["transform"],
                *(f"{one[name]:.3g}" if name in one else "" for name in FIGURES)]

    def plot(self, kind):
        name = f"cost_{kind}.svg"
        chosen = [one for one in self.measured if one["content"] == kind]
        report.bars(os.path.join(self.options.results, name), [
            {"title": f"{kind}: {title}", "x": unit, "bars": [
                (f"{one['engine']} {one['transform']}", one["engine"],
                 sum(one[figure] for figure in figures)) for one in chosen]}
            for title, unit, figures in [
                ("processor, writing", "s by GB", ["session_seconds", "background_seconds"]),
                ("WAL", "GB by GB", ["wal_gb"]), ("stored", "GB by GB", ["stored_gb"])]])
        return name

    def report(self):
        kinds = dict.fromkeys(one["content"] for one in self.measured)
        report.part(self.options.results, "cost", "What a gigabyte costs", TEXT, HEADINGS,
                    [self.row(one) for one in self.measured],
                    [self.plot(kind) for kind in kinds], self.measured,
                    part.facts(self.conn, self.options, megabytes=self.options.megabytes))


def main():
    parser = part.parser(__doc__.splitlines()[0])
    parser.add_argument("--megabytes", type=positive, help="written in each case (500; quick 32)")
    parser.add_argument("--only", default="",
                        help="cases that match: content, engine, transform")
    options = parser.parse_args()
    options.megabytes = options.megabytes or (32 if options.quick else 500)
    os.makedirs(options.results, exist_ok=True)
    cost = Cost(options)
    cost.run()
    cost.report()
    print(f"results: {options.results}")


if __name__ == "__main__":
    main()
