"""Contents that a row or a handle must have: bytes with gaps, as a file has them.

A Sparse remembers pages of bytes; what lies between them is zeros.  Pages are
shared by copies, so that each version of a value costs what it changed.
"""

import os
import random
import tempfile

from values import IN_ROW_MAX, SECTOR, UNIT

PAGE = UNIT // 2


def sectors(length):
    """Bytes of the sectors that so many bytes take."""
    return (length + SECTOR - 1) // SECTOR * SECTOR


class Sparse:
    """Bytes of any length, read and written at offsets."""

    def __init__(self, data=b""):
        self.length = 0
        self.pages = {}			# number: PAGE bytes
        self.touched = set()	# units that anything was written to
        self.write(0, data)

    def copy(self):
        other = Sparse()
        other.length, other.pages, other.touched = (self.length, dict(self.pages),
                                                    set(self.touched))
        return other

    def read(self, offset, count):
        """What is there of count bytes at an offset."""
        count = max(0, min(count, self.length - offset))
        parts = []
        while count > 0:
            number, start = divmod(offset, PAGE)
            part = min(count, PAGE - start)
            page = self.pages.get(number)
            parts.append(page[start:start + part] if page else bytes(part))
            offset, count = offset + part, count - part
        return b"".join(parts)

    def bytes(self):
        return self.read(0, self.length)

    def write(self, offset, data):
        if not data:
            return
        end = offset + len(data)
        self.touched.update(range(offset // UNIT, (end - 1) // UNIT + 1))
        self.length = max(self.length, end)
        done = 0
        while done < len(data):
            number, start = divmod(offset + done, PAGE)
            part = min(len(data) - done, PAGE - start)
            page = self.pages.get(number, bytes(PAGE)) if part < PAGE else b""
            self.pages[number] = page[:start] + data[done:done + part] + page[start + part:]
            done += part

    def truncate(self, length):
        """Shorter, or longer by zeros."""
        if length < self.length:
            last, start = divmod(length, PAGE)
            self.pages = {n: p for n, p in self.pages.items() if n <= last}
            if last in self.pages:
                self.pages[last] = self.pages[last][:start] + bytes(PAGE - start)
            self.touched = {u for u in self.touched if u * UNIT < length}
        self.length = length

    def zero(self, offset, count):
        """Zeros in the place of count bytes, as far as there are; whole units become gaps."""
        end = min(offset + count, self.length)
        if end <= offset:
            return
        for number in [n for n in self.pages if n * PAGE < end and (n + 1) * PAGE > offset]:
            first = max(offset - number * PAGE, 0)
            past = min(end - number * PAGE, PAGE)
            page = self.pages[number]
            self.pages[number] = page[:first] + bytes(past - first) + page[past:]
        self.pages = {n: p for n, p in self.pages.items() if any(p)}
        self.touched = {u for u in self.touched if u * UNIT < offset
                        or min((u + 1) * UNIT, self.length) > end}

    def put(self, offset, source, start, count, whole):
        """Bytes of another one, which has them.  Its gaps become gaps, unless it is whole."""
        if count == 0:
            return
        self.zero(offset, count)
        self.length = max(self.length, offset + count)
        units = range(start // UNIT, (start + count - 1) // UNIT + 1)
        for unit in units if whole else sorted(u for u in source.touched if u in units):
            first = max(start, unit * UNIT)
            past = min(start + count, (unit + 1) * UNIT)
            self.write(offset + first - start, source.read(first, past - first))

    def fill(self):
        """Its gaps may take space, as those of values that are kept in memory do."""
        self.touched = set(range((self.length + UNIT - 1) // UNIT))

    def shift(self, offset, removed, data):
        """Other bytes in the place of some, and what follows moves; gaps become bytes."""
        whole = self.bytes()
        changed = Sparse(whole[:offset] + bytes(max(0, offset - len(whole))) + data
                         + whole[offset + removed:])
        changed.fill()
        self.length, self.pages, self.touched = changed.length, changed.pages, changed.touched

    def splice(self, offset, removed, data):
        """Other bytes in the place of some, as overlay() puts them."""
        if removed == len(data) and offset + removed <= self.length:
            self.write(offset, data)
        else:
            offset = min(offset, self.length)
            whole = self.bytes()
            changed = Sparse(whole[:offset] + data + whole[offset + removed:])
            self.length, self.pages, self.touched = (changed.length, changed.pages,
                                                     changed.touched)

    def islands(self):
        """Where the pages are: (offset, length) of each run of them."""
        runs = []
        for number in sorted(self.pages):
            start = number * PAGE
            end = min(start + PAGE, self.length)
            if runs and runs[-1][0] + runs[-1][1] == start:
                runs[-1][1] = end - runs[-1][0]
            elif end > start:
                runs.append([start, end - start])
        return runs

    def stored(self, in_row):
        """Least and most bytes of a segment that it may take.

        Least: what is not zeros, as far as it goes in each unit; most: each unit
        that was written to, whole.  For bytes without gaps this is the same.  Short
        values have no gaps.
        """
        if self.length == 0 or (in_row and self.length <= IN_ROW_MAX):
            return 0, 0
        ends = {}
        for number, page in self.pages.items():
            used = len(page.rstrip(b"\0"))
            if used:
                unit, start = divmod(number * PAGE, UNIT)
                ends[unit] = max(ends.get(unit, 0), start + used)
        least = sum(sectors(end) for end in ends.values())
        touched = self.touched if self.length > IN_ROW_MAX else {0}
        most = sum(sectors(min(UNIT, self.length - unit * UNIT)) for unit in touched)
        return least, most


def compare_with_file(seed, rounds=300):
    """The yardstick itself: a Sparse does what a file of the system does."""
    rng = random.Random(f"{seed}:file")
    with tempfile.TemporaryFile() as file:
        fd = file.fileno()
        mine = Sparse()
        for _ in range(rounds):
            offset = rng.choice([0, PAGE, UNIT, 5 * UNIT]) + rng.randint(0, 3000)
            what = rng.random()
            if what < 0.5:
                data = rng.randbytes(rng.choice([1, 100, PAGE, UNIT + 5]))
                os.pwrite(fd, data, offset)
                mine.write(offset, data)
            elif what < 0.6:
                os.ftruncate(fd, offset)
                mine.truncate(offset)
            elif what < 0.7:
                count = max(0, min(rng.choice([1, 100, PAGE, 2 * UNIT]), mine.length - offset))
                os.pwrite(fd, bytes(count), offset)
                mine.zero(offset, count)
            elif what < 0.8:
                start = rng.randint(0, mine.length)
                count = rng.randint(0, mine.length - start)
                os.pwrite(fd, os.pread(fd, count, start), offset)
                mine.put(offset, mine.copy(), start, count, rng.random() < 0.5)
            assert os.pread(fd, 3 * UNIT, offset) == mine.read(offset, 3 * UNIT)
        size = os.fstat(fd).st_size
        assert size == mine.length and os.pread(fd, size, 0) == mine.copy().bytes()
