"""Where the values of a table lie, and ways to damage what lies there."""

import collections
import ctypes
import hashlib
import os
import struct

PAGE = 8192
BLOCK = 4096
UNIT = 128 * 1024
SECTOR = 512
TYPES = {1: "header", 2: "map", 3: "pending", 4: "inode", 5: "free", 7: "share", 8: "advice",
         9: "dictionary", 10: "removed"}

# What was done, and where: what ("data", "locator", or what kind of page), which bytes of
# the data file, which rows.
Damage = collections.namedtuple("Damage", "kind what rows believed stops_recovery")


def digest(pieces):
    """SHA-256 of a value that is made of pieces, with zeros between."""
    data, end = hashlib.sha256(), 0
    for at, piece in pieces:
        data.update(bytes(at - end))
        data.update(piece)
        end = at + len(piece)
    return data.hexdigest()


def length(pieces):
    return pieces[-1][0] + len(pieces[-1][1])


def slurp(path):
    with open(path, "rb") as file:
        return file.read()


def put(path, data):
    with open(path, "r+b") as file:
        file.write(data)
        file.truncate(len(data))


XXHASH = ctypes.CDLL("libxxhash.so.0")
XXHASH.XXH3_64bits.restype = ctypes.c_uint64


def coded_head(plain):
    """What the stored bytes of a unit begin with that is compressed: see transform.c."""
    check = XXHASH.XXH3_64bits(plain, ctypes.c_size_t(len(plain)))
    return struct.pack("<II", len(plain), check & 0xffffffff)


def all_of(data, what, step):
    """Where some bytes stand in others, at multiples of a step."""
    found, at = [], data.find(what)
    while at >= 0:
        if at % step == 0:
            found.append(at)
        at = data.find(what, at + 1)
    return found


def places_of(data, piece, at, is_last):
    """Where a unit of a piece may lie in the data file, as it is or compressed, of this and
    of earlier versions: places with the length at most; none: it is not known.  Behind a
    piece that is not the last one its unit is zeros."""
    unit = piece[at:at + UNIT]
    size = len(unit) if is_last else UNIT
    coded = all_of(data, coded_head(unit.ljust(size, b"\0")), SECTOR)
    if size >= SECTOR or at == 0:
        raw = all_of(data, unit[:SECTOR], SECTOR)
    elif all_of(data, coded_head(piece[at - UNIT:at]), SECTOR):
        return []				# behind a unit whose end is not known
    else:						# too short to be known by itself
        raw = [where + SECTOR for where in all_of(data, piece[at - SECTOR:at] + unit, SECTOR)]
    return [(where, size) for where in raw] + [(where, size - size // 8) for where in coded]


class Table:
    """A table: the pieces of each row's value, and what was done to it."""

    def __init__(self, name, form):
        self.name = name
        self.form = form		# but for its compression
        self.in_row = 0 if "disable" in form else 4000
        self.rows = {}
        self.packed = set()		# rows whose value is compressed in the row
        self.trained = False	# it has had a dictionary
        self.damages = []
        self.lost = set()		# rows that damages have hit

    def find(self, conn, top):
        """Note the names of its files; they belong to a server that runs."""
        found = conn.execute("SELECT pg_relation_filepath(segment_relid), data_files, pg_relation_filepath(relid),"
                             " relid::int FROM securefile_columns WHERE relid = %s::regclass",
                             (self.name,)).fetchone()
        self.relation = found[0]
        self.data = os.path.join(os.path.dirname(found[1]), "seg-00000000.sf")
        self.heap = found[2]
        self.oid = found[3]
        self.packed = {key for key, in conn.execute(
            f"SELECT id FROM {self.name}, securefile_storage(doc) WHERE form = 'inline' AND codec <> 'none'")}
        assert os.path.exists(os.path.join(top, self.data))

    def put(self, key, pieces):
        """A row that is new, or has a new value."""
        self.rows[key] = pieces
        self.packed.discard(key)

    def needs_dictionary(self):
        """Rows that may be compressed with one."""
        return set(self.rows) if self.trained else set()

    def needs_relation(self):
        return self.stored() | self.needs_dictionary()

    def stored(self):
        return {key for key, pieces in self.rows.items() if length(pieces) > self.in_row} - self.packed

    def mapped(self):
        """Rows whose unit map lies in inode pages."""
        return {key for key, pieces in self.rows.items() if pieces[0][0] > 0}

    def hit(self, data, first, end):
        """Rows that have a unit in these bytes of the data file."""
        found = set()
        for key in self.stored():
            pieces = [piece for _, piece in self.rows[key]]
            for n, piece in enumerate(pieces):
                for at in range(0, len(piece), UNIT):
                    places = places_of(data, piece, at, n == len(pieces) - 1)
                    if not places or any(where < end and where + size > first for where, size in places):
                        found.add(key)
        return found

    def may_lose(self):
        """After a page that was believed, anything may be gone, but never wrong."""
        if any(damage.believed for damage in self.damages):
            return set(self.rows)
        return self.lost & set(self.rows)

    def note(self, kind, what, rows, believed=False, stops_recovery=False):
        self.damages.append(Damage(kind, what, sorted(rows), believed, stops_recovery))
        self.lost |= rows
        return f"{kind} of {what}"


def change(rng, kind, data, at, size, old):
    """The contents of a file, with size bytes at a place damaged; None: as they were."""
    here = data[at:at + size]
    before = old[at:at + size] if old is not None else b""
    other = rng.randrange(len(data) // size) * size
    now = bytearray(data)
    if kind == "bit":
        now[at + rng.randrange(len(here))] ^= 1 << rng.randrange(8)
    elif kind == "zeros":
        now[at:at + BLOCK] = bytes(len(now[at:at + BLOCK]))
    elif kind == "garbage":
        start = rng.randrange(len(here))
        end = rng.randrange(start, len(here)) + 1
        now[at + start:at + end] = rng.choice([rng.randbytes(end - start), b"\xff" * (end - start)])
    elif kind == "stale" and before:
        now[at:at + len(before)] = before
    elif kind == "torn" and before:
        half = size // 2
        if rng.random() < 0.5:
            now[at:at + half] = before[:half]
        else:
            now[at + half:at + len(before)] = before[half:]
    elif kind == "swapped":
        now[at:at + size], now[other:other + size] = data[other:other + size], here
    return None if now == data or len(now) != len(data) else bytes(now)


def differing(one, other, size):
    """First bytes of those parts of a size in which two files differ."""
    return [at for at in range(0, max(len(one), len(other)), size)
            if one[at:at + size] != other[at:at + size]]


def damage_data(rng, table, path, kind, old):
    """A block, or the whole data file."""
    data = slurp(path)
    if kind == "missing":
        os.unlink(path)
        return table.note(kind, "data", table.stored())
    if kind == "truncated":
        cut = rng.randrange(len(data))
        put(path, data[:cut])
        return table.note(kind, "data", table.hit(data, cut // BLOCK * BLOCK, len(data)))
    now = change(rng, kind, data, rng.randrange(len(data) // BLOCK) * BLOCK, BLOCK, old)
    if now is None:
        return None
    put(path, now)
    rows = set()
    for at in differing(data, now, BLOCK):
        rows |= table.hit(data, at, at + BLOCK)
    return table.note(kind, "data", rows)


def page_types(data):
    return [TYPES.get(int.from_bytes(data[at + 8180:at + 8182], "little"), "unused")
            if data[at + 8176:at + 8180] == b"\x31\x4c\x46\x53" else "unused"
            for at in range(0, len(data), PAGE)]


def damage_relation(rng, table, path, kind, old, crashed):
    """A page, or the whole file of a segment relation."""
    data = slurp(path)
    types = page_types(data)
    if kind == "missing":
        os.unlink(path)
        return table.note(kind, "relation", table.needs_relation(), stops_recovery=crashed)
    if kind == "truncated":
        cut = rng.randrange(len(types))
        put(path, data[:cut * PAGE])
        return table.note(kind, "relation", table.mapped() | table.needs_dictionary() if cut else table.needs_relation(),
                          stops_recovery=crashed)
    used = [n for n, what in enumerate(types) if what != "unused"]
    if not used:
        return None
    now = change(rng, kind, data, rng.choice(used) * PAGE, PAGE, old)
    if now is None:
        return None
    put(path, now)
    rows, what = set(), set()
    for at in differing(data, now, PAGE):
        what.add(types[at // PAGE])
        rows |= {"header": table.needs_relation(), "inode": table.mapped(),
                 "dictionary": table.needs_dictionary()}.get(types[at // PAGE], set())
    # an old page as a whole passes for the page it was
    believed = kind in ("stale", "torn") and any(
        now[at:at + PAGE] == (old or b"")[at:at + PAGE] for at in differing(data, now, PAGE))
    return table.note(kind, "+".join(sorted(what)) + " page", rows, believed=believed)


def flip_bits(rng, path, data, start):
    for n in range(start, start + rng.choice([1, 1, 4])):
        data[n] ^= 1 << rng.randrange(8)
    put(path, bytes(data))


def damage_locator(rng, table, path):
    """Some bytes of the locator of a row, of any version of it."""
    data = bytearray(slurp(path))
    mine = table.oid.to_bytes(4, "little") + b"\x02\x00"
    at = [n - 4 for n in range(4, len(data) - 70) if data[n:n + 6] == mine
          and data[n - 4] == 2 and data[n - 3] in (1, 2)]
    if not at:
        return None
    flip_bits(rng, path, data, rng.choice(at) + rng.randrange(1, 70))
    return table.note("bits", "locators", table.stored())


def damage_packed(rng, table, path):
    """Some bytes of a value that is compressed in its row, behind its codec."""
    data = bytearray(slurp(path))
    found = []
    # some may have been deleted since they were found
    for key in sorted(key for key in table.packed if key in table.rows):
        head = coded_head(table.rows[key][0][1])
        at = data.find(head)
        while at >= 0:
            found.append((key, at))
            at = data.find(head, at + 1)
    if not found:
        return None
    key, at = rng.choice(found)
    flip_bits(rng, path, data, at - 2 + rng.randrange(20))
    return table.note("bits", "compressed rows", {key})


def damage(rng, table, top, older, crashed):
    """Damage a place of a table at random; returns what was done, if anything."""
    kind = rng.choice(["bit", "bit", "zeros", "garbage", "garbage", "stale", "torn", "swapped",
                       "swapped", "truncated", "missing"])
    if kind in ("truncated", "missing") and rng.random() < 0.5:
        kind = "bit"
    what = rng.choice(["data", "data", "relation", "relation", "relation", "locator", "packed"])
    name = {"data": table.data, "relation": table.relation}.get(what, table.heap)
    path = os.path.join(top, name)
    if not os.path.exists(path) or os.path.getsize(path) < PAGE:
        return None
    old = os.path.join(older, name) if older else ""
    old = slurp(old) if os.path.exists(old) else None
    if what == "data":
        return damage_data(rng, table, path, kind, old)
    if what == "relation":
        return damage_relation(rng, table, path, kind, old, crashed)
    return (damage_locator if what == "locator" else damage_packed)(rng, table, path)
