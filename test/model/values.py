"""Contents of the model's values, made again from (seed, value id) alone.

A row carries the ids of its values beside the values themselves, so that any
reader, also one that holds an old snapshot or reads another client's row, can
tell which bytes it must see.
"""

import hashlib
import random
from collections import OrderedDict

from option_words import contents

UNIT = 128 * 1024			# granule of checksums in a segment
IN_ROW_MAX = 4000			# longest value that stays in the row
SECTOR = 512				# granule of space accounting
INODE_FROM = 12 * 1024 * 1024	# longer values keep their map in inode pages

# (weight, smallest, largest); edges that often break are drawn on their own
LENGTHS = [
    (4, 0, 0),
    (22, 1, 4000),
    (30, 4001, 64 * 1024),
    (20, 64 * 1024, 512 * 1024),
    (9, 512 * 1024, 2 * 1024 * 1024),
    (4, 2 * 1024 * 1024, 10 * 1024 * 1024),
    (1, INODE_FROM, INODE_FROM + 2 * 1024 * 1024),
]
EDGES = [1, 511, 512, 513, 3999, 4000, 4001, 4095, 4096, 4097, 8191, 8192,
         UNIT - 1, UNIT, UNIT + 1, 2 * UNIT, 2 * UNIT + 1, 8 * UNIT, 8 * UNIT + 511]
CACHE_BYTES = 48 * 1024 * 1024

# The id of a value that was edited: so many times this, more than that of the value before all edits
EDIT = 10**15
EDITS = [1, 100, 511, 512, 4096, 70000, UNIT, 300000]


def stored_bytes(length, in_row_max=IN_ROW_MAX):
    """Bytes of a segment that a value of this length must occupy."""
    if length == 0 or length <= in_row_max:
        return 0
    return (length + SECTOR - 1) // SECTOR * SECTOR


class Values:
    """Makes and remembers the contents that belong to value ids."""

    def __init__(self, seed, max_size):
        self.seed = seed
        self.max_size = max_size
        self.digests = {}
        self.cache = OrderedDict()
        self.cached_bytes = 0

    def length(self, vid):
        if vid >= EDIT:
            at, length, _ = self.edit(vid)
            return max(self.length(vid - EDIT), at + length)
        rng = random.Random(f"{self.seed}:{vid}")
        if rng.random() < 0.15:
            length = rng.choice(EDGES)
        else:
            _, low, high = rng.choices(LENGTHS, [w for w, _, _ in LENGTHS])[0]
            length = rng.randint(low, high)
        while length > self.max_size:
            length = length // 3
        return length

    def data(self, vid):
        """The bytes of a value; None for the id None (SQL null)."""
        if vid is None:
            return None
        if vid in self.cache:
            self.cache.move_to_end(vid)
            return self.cache[vid]
        data = self._make(vid)
        self.cache[vid] = data
        self.cached_bytes += len(data)
        while self.cached_bytes > CACHE_BYTES and len(self.cache) > 1:
            self.cached_bytes -= len(self.cache.popitem(last=False)[1])
        return data

    def sha256(self, vid):
        if vid is None:
            return None
        if vid not in self.digests:
            self.digests[vid] = hashlib.sha256(self.data(vid)).digest()
        return self.digests[vid]

    def edit(self, vid):
        """The last edit of a value: where it begins, how long it is, and the key of its bytes.  One
        of four is at the end."""
        rng = random.Random(f"{self.seed}:{vid} edit")
        before = self.length(vid - EDIT)
        at = rng.choice([before, *(rng.randint(0, before) for _ in range(3))])
        return at, rng.choice(EDITS), f"{self.seed}:{vid} edit"

    def edit_bytes(self, vid):
        _, length, key = self.edit(vid)
        return contents(key, length)

    def _make(self, vid):
        if vid >= EDIT:
            at, length, _ = self.edit(vid)
            before = self.data(vid - EDIT)
            return before[:at] + self.edit_bytes(vid) + before[at + length:]
        return contents(f"{self.seed}:{vid} contents", self.length(vid))
