#!/usr/bin/python3
"""What comes from outside into the type: text, binary, type modifiers, changed at random.

A text or a binary value must be taken or refused as bytea does it, with the same bytes
and the same SQLSTATE, and come out as it went in.  Words of a type modifier give a
modifier that says the same again, in whatever order, or an error that names them.
The server must be the same one in the end, and no sanitizer may have found anything.

    input.py --kind text --seconds 5 --seed 42 [FILE ...]

The files are inputs to begin with.  Wants the server of SECUREFILE_SANITIZED (a
bindir); without, that of the path.  Exit code 0: sound; 1: not.
"""

import argparse
import collections
import glob
import os
import random
import re
import sys
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "model"))

import trials
from server import Server
from trials import Failed

SETTINGS = {"shared_preload_libraries": "'securefile'", "securefile.monitor": "off",
            "autovacuum": "off", "fsync": "off", "log_min_messages": "panic",
            "log_min_error_statement": "panic", "restart_after_crash": "off"}

SEEDS = {
    "text": [rb"", rb"\x", rb"\x00ff10Aa", rb"\x00 ff\n10", rb"\x0", rb"\xg0", rb"abc", rb"a\\b",
             rb"\000\377\123", rb"\400", rb"\1", "Grüße".encode(), rb"\X00", b"\\x" + b"5a" * 3000,
             b"\x01\x02", rb"\\x41", rb"\xff\x00"],
    "binary": [b"", b"\0", b"\1", b"\2" + b"\1" + bytes(62), b"\2\1\0\0" + bytes(200),
               b"\3" + bytes(60), bytes(range(256)), b"z" * 5000, b"\2" + b"\xff" * 71],
}

WORDS = ["compress", "compress_low", "compress_medium", "compress_high", "nocompress",
         "deduplicate", "keep_duplicates", "encrypt", "decrypt", "hash", "no_hash", "logging",
         "filesystem_like_logging", "cache", "cache_reads", "nocache", "enable_storage_in_row", "disable_storage_in_row",
         "retention_none", "retention_auto", "retention", "retention 7 days", "retention 100 hours", "retention none",
         "max_size", "max_size 96 GB", "max_size 129 MB", "max_size none"]
TAKEN = {"hash", "no_hash", "encrypt", "compress", "compress_low", "compress_medium", "compress_high", "nocompress",
         "deduplicate", "keep_duplicates", "decrypt", "logging", "filesystem_like_logging", "cache", "cache_reads",
         "nocache", "enable_storage_in_row", "disable_storage_in_row", "retention_none", "retention 7 days", "max_size 96 GB"}
SIZE = re.compile(r"max_size +(\d+ *[kmgt]b|none)", re.IGNORECASE)
TIME = re.compile(r"retention +(\d+ *(minute|hour|day|week)s?|none)", re.IGNORECASE)


def change(data, rng, known):
    """One small change of some bytes."""
    data = bytearray(data)
    at = rng.randrange(len(data) + 1)
    way = rng.randrange(7)
    if way == 0:
        del data[at:at + rng.randint(1, 8)]
    elif way == 1:
        data[at:at] = bytes(rng.choice(b"\\x0123456789abcdefABCDEFgG \n\t\0\x7f\x80\xff'\"")
                            for _ in range(rng.randint(1, 6)))
    elif way == 2 and at < len(data):
        data[at] ^= 1 << rng.randrange(8)
    elif way == 3 and at < len(data):
        data[at] = rng.randrange(256)
    elif way == 4:
        data[at:] = rng.choice(known)[-rng.randint(1, 40):]
    elif way == 5:
        data[at:at] = data[at:at + rng.randint(1, 300)]
    else:
        data[:rng.randrange(9)] = rng.getrandbits(64).to_bytes(8, "little")[:rng.randrange(9)]
    return bytes(data[:100000])


class Session:
    """Statements with one parameter, as the protocol has them."""

    def __init__(self, server):
        self.conn = server.connect()
        self.pg = self.conn.pgconn
        self.oid = self.conn.execute("SELECT 'securefile'::regtype::oid::int").fetchone()[0]

    def run(self, sql, value, oid, binary):
        """(SQLSTATE, result in binary); SQLSTATE None: no error."""
        done = self.pg.exec_params(sql, [value], param_types=[oid], param_formats=[binary],
                                   result_format=1)
        state = done.error_field(67)
        if state is not None:
            return state.decode(), None
        if done.ntuples != 1:
            raise Failed(f"no answer: {self.pg.error_message.decode(errors='replace')}")
        return None, done.get_value(0, 0)


BYTEA = 17


def try_value(session, data, binary):
    """As bytea does it?  Returns a word for what it did."""
    want = session.run(b"SELECT $1", data, BYTEA, binary)
    got = session.run(b"SELECT $1", data, session.oid, binary)
    if want != got:
        raise Failed(f"{data!r}: bytea gives {want!r}, securefile {got!r}")
    if got[0]:
        return got[0]
    # kept in a row, small or large, and as text
    for sql in (b"SELECT ($1)::text", b"SELECT length($1)", b"SELECT substring($1 from 2 for 7)",
                b"SELECT ($1 || $1)::text"):
        want = session.run(sql.replace(b"$1", b"$1::bytea"), got[1], BYTEA, True)
        mine = session.run(sql, got[1], session.oid, True)
        if b"length" in sql:
            want, mine = [(state, value and int.from_bytes(value, "big"))
                          for state, value in (want, mine)]
        if want != mine:
            raise Failed(f"{sql!r} of {data!r}: bytea gives {want!r}, securefile {mine!r}")
    return "taken"


def array_of(words):
    return "{" + ",".join('"' + re.sub(r'(["\\])', r"\\\1", word) + '"' for word in words) + "}"


def typmod(session, words):
    """The modifier of some words, or the SQLSTATE."""
    state, value = session.run(b"SELECT securefile_typmod_in($1::text::cstring[])",
                               array_of(words).encode(), 25, False)
    return state or int.from_bytes(value, "big", signed=True)


def shown(session, number):
    """What \\d shows of a modifier."""
    state, value = session.run(b"SELECT securefile_typmod_out($1::int)", str(number).encode(), 23,
                               False)
    if state:
        raise Failed(f"modifier {number} cannot be shown: {state}")
    return value.decode().strip("\0")


def option_words(text):
    """The words of a modifier that is shown."""
    return [word.strip("'") for word in re.split(r"[(),] *", text) if word]


def some_words(rng):
    words = rng.choices(sorted(TAKEN) if rng.random() < 0.6 else WORDS,
                        k=rng.choice([0, 1, 1, 2, 2, 3, 3, 5, 9, 60]))
    if rng.random() < 0.4 and words:
        at = rng.randrange(len(words))
        changed = change(words[at].encode(), rng, [b"cache", b""]).replace(b"\0", b"")
        words[at] = changed.decode(errors="ignore")[:200]
    return words


def said_of(word):
    """What a word says something of: the size, the time, or itself."""
    if SIZE.fullmatch(word):
        return "max_size"
    return "retention" if TIME.fullmatch(word) else word


def try_typmod(session, data, rng):
    words = data.decode().split(",") if data else some_words(rng)
    first = typmod(session, words)
    for _ in range(2):
        other = rng.sample(words, len(words))
        again = typmod(session, other)
        if (isinstance(first, int) != isinstance(again, int)
                or isinstance(first, int) and first != again):
            raise Failed(f"{words}: {first}, {other}: {again}")
    if isinstance(first, str):
        if first not in {"22023", "0A000", "2202E", "22004"}:
            raise Failed(f"{words}: {first}")
        return first
    known = [said_of(word) for word in words]
    if not set(known) <= TAKEN | {"max_size", "retention"} or len(set(known)) != len(known):
        raise Failed(f"{words} were taken")
    text = shown(session, first)
    back = typmod(session, option_words(text)) if text else -1
    if back != first:
        raise Failed(f"{words}: {first}, shown as {text}, which is {back}")
    number = rng.choice([rng.getrandbits(32) - 2**31, rng.randrange(4096), first])
    odd = shown(session, number)
    if not all(said_of(word) in TAKEN | {"max_size", "retention"} for word in option_words(odd)):
        raise Failed(f"modifier {number} is shown as {odd}")
    return "taken"


def run(options, server):
    rng = random.Random(options.seed)
    session = Session(server)
    postmaster = server.postmaster()
    known = list(SEEDS.get(options.kind, [b""]))
    for name in options.files:
        with open(name, "rb") as file:
            known.append(file.read())
    first, ends, end = list(known), collections.Counter(), time.time() + options.seconds
    data = b""
    try:
        while first or sum(ends.values()) < options.least or time.time() < end:
            if first:
                data = first.pop()
            elif options.kind == "typmod":
                data = b""
            else:
                data = rng.choice(known)
                for _ in range(rng.randint(1, 4)):
                    data = change(data, rng, known)
            if options.kind == "text":
                data = data.replace(b"\0", b"")
                answer = try_value(session, data, False)
            elif options.kind == "binary":
                answer = try_value(session, data, True)
            else:
                answer = try_typmod(session, data, rng)
            if answer not in ends or rng.random() < 0.001:
                known.append(data)
            ends[answer] += 1
    except Failed:
        with open("failed", "wb") as file:
            file.write(data)
        raise
    if server.postmaster() != postmaster:
        raise Failed("the server is another one")
    print(f"{sum(ends.values())} inputs, {len(ends)} answers: "
          + ", ".join(f"{answer} {n}" for answer, n in ends.most_common()))


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--kind", choices=["text", "binary", "typmod"], required=True)
    parser.add_argument("--seconds", type=float, default=5)
    parser.add_argument("--least", type=int, default=0, help="inputs, however long they take")
    parser.add_argument("--seed", default=str(int(time.time())))
    parser.add_argument("files", nargs="*")
    options = parser.parse_args()
    trials.use_sanitizers()
    print(f"seed {options.seed}", flush=True)
    server = Server(SETTINGS)
    try:
        reports = os.path.join(server.top, "report")
        for name in ("ASAN_OPTIONS", "UBSAN_OPTIONS"):
            os.environ[name] += f":log_path={reports}"
        server.start()
        with server.connect() as conn:
            conn.execute("CREATE EXTENSION securefile")
        run(options, server)
        server.stop()
        found = glob.glob(reports + ".*")
        if found:
            with open(found[0], encoding="utf-8", errors="replace") as file:
                raise Failed(file.read())
        return 0
    except Exception as failed:		# a lost connection, too
        print(f"FAILED: {failed}\n{server.tail()}")
        for name in glob.glob(os.path.join(server.top, "report.*"))[:1]:
            with open(name, encoding="utf-8", errors="replace") as file:
                print(file.read())
        return 1
    finally:
        server.remove()


if __name__ == "__main__":
    sys.exit(main())
