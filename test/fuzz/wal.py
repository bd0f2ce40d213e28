"""Records of our resource manager in the files of pg_wal: found, changed, and given
the checksum that makes them sound again to all but redo."""

import os
import re
import struct
import subprocess

PAGE = 8192
HEADER = 24					# of a record
RMGR = 170

# kinds, by the high bits of xl_info; those of PAGES, by their reason
PAGES = 0x40
KINDS = {0x00: "CREATE", 0x10: "UNLINK", 0x20: "GROW", 0x30: "TRUNCATE", 0x50: "RESOLVE",
         0x60: "DATA", 0x70: "DROP_DB", 0x80: "OWN",
         0x90: "RELEASE"}
REASONS = {1: "ENTRIES", 2: "QUEUE", 3: "INODE", 4: "HEADER", 5: "REPAIR",
           6: "DICTIONARY", 7: "KEYS", 8: "SHARE", 9: "REAP", 10: "ADVICE", 11: "MARK",
           12: "HISTORY", 13: "REMOVED"}

# where numbers stand in the main data: (offset, size), by kind
NODE = [(0, 1), (4, 4), (8, 4), (12, 4)]
FIELDS = {"CREATE": NODE, "UNLINK": NODE, "GROW": NODE + [(16, 8)], "TRUNCATE": NODE + [(16, 8)],
          "RESOLVE": NODE + [(16, 4), (20, 2)],
          "DATA": NODE + [(16, 8), (24, 4)], "DROP_DB": [(0, 1), (4, 4)], "OWN": [(0, 1), (4, 4)],
          "RELEASE": NODE + [(16, 4), (20, 8), (28, 8)],
          **{reason: [(0, 1), (1, 1), (2, 1), (3, 1), (4, 2)] for reason in REASONS.values()}}

BORDERS = [0, 1, 2, 7, 8, 23, 24, 255, 256, 337, 338, 32767, 32768, 65535, 65536, 2**31 - 1,
           2**31, 2**32 - 1, 2**44, 2**63 - 1, 2**63, 2**64 - 1]

SAME_REL, HAS_DATA, HAS_IMAGE, WILL_INIT = 0x80, 0x20, 0x10, 0x40


def make_crc_table():
    table = []
    for n in range(256):
        for _ in range(8):
            n = n >> 1 ^ (0x82F63B78 if n & 1 else 0)
        table.append(n)
    return table


CRC_TABLE = make_crc_table()


def crc32c(data, crc=0xFFFFFFFF):
    for byte in data:
        crc = CRC_TABLE[(crc ^ byte) & 0xFF] ^ crc >> 8
    return crc


class Part:
    """A block of a record, or its main data: where its head and its data lie in it."""

    def __init__(self, head, length_at, length_size, length, tag=None, flags_at=None):
        self.head, self.length_at, self.length_size = head, length_at, length_size
        self.length, self.tag, self.flags_at = length, tag, flags_at
        self.start = 0


class Record:
    """One record, its bytes without the headers of pages in between."""

    def __init__(self, log, lsn):
        self.log, self.lsn = log, lsn
        length = struct.unpack("<I", log.read(lsn, 4))[0]
        self.data = bytearray(log.read(lsn, length))
        self.parts = []
        self.parse()

    @property
    def info(self):
        return self.data[16]

    @property
    def kind(self):
        if self.info & 0xF0 == PAGES:
            return REASONS.get(self.data[self.main.start + 1], "?")
        return KINDS.get(self.info & 0xF0, "?")

    def parse(self):
        at, left = HEADER, len(self.data) - HEADER
        while left > 0:
            part, size = self.parse_head(at)
            left -= size + part.length
            at += size
            self.parts.append(part)
        for part in self.parts:
            part.start = at
            at += part.length

    def parse_head(self, at):
        """A head at that place, and its size."""
        data, block = self.data, self.data[at]
        if block == 255:
            return Part(at, at + 1, 1, data[at + 1]), 2
        if block == 254:
            return Part(at, at + 1, 4, struct.unpack_from("<I", data, at + 1)[0]), 5
        if block > 32:
            raise ValueError(f"record at {self.lsn:X} has a head of kind {block}")
        flags, length = struct.unpack_from("<BH", data, at + 1)
        size = 4
        if flags & HAS_IMAGE:
            image, _, how = struct.unpack_from("<HHB", data, at + size)
            length += image
            size += 5 + (2 if how & 0x1C and how & 1 else 0)
        tag = at + size
        size += 4 if flags & SAME_REL else 16
        return Part(at, at + 2, 2, length, tag, at + 1), size

    @property
    def main(self):
        return next((part for part in self.parts if part.tag is None), None)

    @property
    def blocks(self):
        return [part for part in self.parts if part.tag is not None]

    def file_numbers(self):
        """The segment that it names, if any."""
        if (12, 4) not in FIELDS[self.kind]:
            return []
        return [str(struct.unpack_from("<I", self.data, self.main.start + 12)[0])]

    def put(self, at, size, number):
        self.data[at:at + size] = (number % 256**size).to_bytes(size, "little")

    def write(self):
        """Write it back, with its checksum."""
        crc = crc32c(self.data[:20], crc32c(self.data[HEADER:]))
        self.put(20, 4, crc ^ 0xFFFFFFFF)
        self.log.write(self.lsn, self.data)


class Log:
    """pg_wal of a stopped server."""

    def __init__(self, data, bindir):
        self.dir = os.path.join(data, "pg_wal")
        out = subprocess.check_output([os.path.join(bindir, "pg_controldata"), data], text=True)
        self.segment = int(re.search(r"Bytes per WAL segment: +(\d+)", out)[1])
        self.redo = re.search(r"REDO location: +(\S+)", out)[1]
        self.timeline = int(re.search(r"Latest checkpoint's TimeLineID: +(\d+)", out)[1])
        self.bindir = bindir

    def lsns(self):
        """Positions of the extension's records."""
        done = subprocess.run([os.path.join(self.bindir, "pg_waldump"), "-p", self.dir,
                               "-s", self.redo],
                              capture_output=True, text=True, check=False)
        found = re.findall(rf"^rmgr: custom{RMGR} .*? lsn: ([0-9A-F]+)/([0-9A-F]+),",
                           done.stdout, re.M)
        return [int(high, 16) << 32 | int(low, 16) for high, low in found]

    def path(self, lsn):
        number = lsn // self.segment
        each = 2**32 // self.segment
        return os.path.join(self.dir, f"{self.timeline:08X}{number // each:08X}{number % each:08X}")

    def chunks(self, lsn, length):
        """(path, offset, size) of the parts of a record; pages begin with a header."""
        while length > 0:
            if lsn % PAGE == 0:
                lsn += 40 if lsn % self.segment == 0 else 24
            size = min(length, PAGE - lsn % PAGE)
            yield self.path(lsn), lsn % self.segment, size
            lsn += size
            length -= size

    def read(self, lsn, length):
        found = b""
        for path, offset, size in self.chunks(lsn, length):
            with open(path, "rb") as file:
                file.seek(offset)
                found += file.read(size)
        return found

    def write(self, lsn, data):
        done = 0
        for path, offset, size in self.chunks(lsn, len(data)):
            with open(path, "r+b") as file:
                file.seek(offset)
                file.write(data[done:done + size])
            done += size


# ---- damage ----


def some_number(rng):
    return rng.choice(BORDERS) + rng.randint(-1, 1) if rng.random() < 0.7 else rng.getrandbits(64)


def change_field(record, rng):
    """A number of the main data."""
    fields = FIELDS[record.kind]
    # the version is met soon enough
    at, size = rng.choice(fields[1:] or fields) if rng.random() < 0.9 else fields[0]
    if at + size > record.main.length:
        return None
    number = some_number(rng)
    record.put(record.main.start + at, size, number)
    return f"main data: {size} bytes at {at} become {number % 256**size}"


def change_bytes(record, rng):
    """Some bits of a block's data; of main data they might name another segment."""
    blocks = [part for part in record.blocks if part.length > 0]
    if not blocks:
        return None
    part = rng.choice(blocks)
    for _ in range(rng.randint(1, 4)):
        record.data[part.start + rng.randrange(min(part.length, 200))] ^= 1 << rng.randrange(8)
    return "bits of a block's data"


def change_number(record, rng):
    """A number somewhere in a block's data."""
    blocks = [part for part in record.blocks if part.length >= 8]
    if not blocks:
        return None
    part = rng.choice(blocks)
    size = rng.choice([1, 2, 4, 8])
    at = rng.randrange(min(part.length, 200) - size + 1)
    number = some_number(rng)
    record.put(part.start + at, size, number)
    return f"block's data: {size} bytes at {at} become {number % 256**size}"


def change_op(record, rng):
    """Kind or length of a block's first change."""
    blocks = [part for part in record.blocks if part.length >= 4]
    if not blocks:
        return None
    part = rng.choice(blocks)
    at = rng.choice([0, 2])
    number = rng.randint(0, 17) if at == 0 else some_number(rng)
    record.put(part.start + at, 2, number)
    return f"{'kind' if at == 0 else 'length'} of a change becomes {number % 65536}"


def change_kind(record, rng):
    """Another record's kind; not GROW, which would take any number for a size, and fill the disk."""
    kind = rng.choice([kind for kind in range(0, 256, 16) if KINDS.get(kind) != "GROW"])
    record.data[16] = kind | record.info & 0x0F
    return f"kind becomes {'PAGES' if kind == PAGES else KINDS.get(kind, kind)}"


OTHER_RELATION = "relation of a page"


def change_block(record, rng):
    """Number, fork, flags or relation of a page."""
    if not record.blocks:
        return None
    part = rng.choice(record.blocks)
    what = rng.choice(["page", "page", "relation", "flags"])
    if what == "flags":
        record.data[part.flags_at] ^= rng.choice([WILL_INIT, 1, 2])
        return "flags of a page"
    whole = not record.data[part.flags_at] & SAME_REL
    if what == "relation" and whole:
        record.put(part.tag + rng.choice([0, 4, 8]), 4, some_number(rng))
        return OTHER_RELATION
    number = rng.choice([0, 1, 2, 3, 9, 17, 1000, 2**31, 2**32 - 2])
    record.put(part.tag + (12 if whole else 0), 4, number)
    return f"number of a page becomes {number}"


def change_lengths(record, rng):
    """Bytes move from one part to the next; the sum stays."""
    parts = [part for part in record.parts if part.length > 0 and
             (part.flags_at is None or not record.data[part.flags_at] & HAS_IMAGE)]
    if len(parts) < 2:
        return None
    give, take = rng.sample(parts, 2)
    n = rng.randint(1, give.length)
    if take.length + n >= 256**take.length_size:
        return None
    for part, length in ((give, give.length - n), (take, take.length + n)):
        if part.flags_at is not None and length == 0:
            return None
        record.put(part.length_at, part.length_size, length)
    return f"{n} bytes belong to another part"


def cut(record, rng):
    """A few bytes less, as many as alignment hides."""
    most = (len(record.data) - 1) % 8
    main = record.main
    if most == 0 or main is None or main.length < most:
        return None
    n = rng.randint(1, most)
    record.put(main.length_at, main.length_size, main.length - n)
    record.put(0, 4, len(record.data) - n)
    del record.data[-n:]
    return f"{n} bytes shorter"


DAMAGES = [change_field, change_bytes, change_number, change_op, change_kind, change_block,
           change_lengths, cut]


def damage(record, rng):
    """Damage a record in one way; returns what was done."""
    while True:
        done = rng.choice(DAMAGES)(record, rng)
        if done:
            return done


# ---- damages that are kept ----


def find_part(record, what):
    """The part of a record that a kept damage means, or None."""
    if what == "main":
        return record.main
    for part in record.blocks:
        if part.length >= 4 and struct.unpack_from("<H", record.data, part.start)[0] == int(what):
            return part
    return None


def find_place(record, what):
    """Where the number of a kept damage is counted from, or None."""
    if what == "pages":
        last = record.blocks[-1] if len(record.blocks) > 1 else None
        return last and last.tag + (0 if record.data[last.flags_at] & SAME_REL else 12)
    part = find_part(record, what)
    return part and part.start


def do_kept(log, lsns, kept):
    """Do a kept damage to the first record that it fits; None: there is none."""
    kind, what, at, size, number = kept
    for lsn in lsns:
        record = Record(log, lsn)
        place = find_place(record, what) if record.kind == kind else None
        if place:
            record.put(place + int(at), int(size), int(number))
            record.write()
            return record
    return None
