"""What the functions of values must return, said once more over bytes.

Each function of the extension that searches, compares, cuts or edits a value has its
twin here, of the same name without its prefix.  The twin takes bytes and returns what the
server must say, or a Refused with the SQLSTATE of the error.  None is NULL.
"""

from itertools import islice

LAST = 2**63 - 1			# the last position, and the greatest length


class Refused:
    """An error, with one of these SQLSTATEs."""

    def __init__(self, *states):
        self.states = states

    def __repr__(self):
        return "error " + " or ".join(self.states)


class Choice(list):
    """Results of which each is right."""


OUT_OF_RANGE = Refused("22023")
NO_POSITION = Refused("22011")


# ---- search ----

def forwards(text, pattern, at=0):
    """Positions of all matches, overlapping ones too, from an offset on."""
    at = text.find(pattern, at)
    while at >= 0:
        yield at + 1
        at = text.find(pattern, at + 1)


def backwards(text, pattern, last):
    """The same from the last match that begins at this offset or before."""
    # bytes.rfind() may take the square of the length, bytes.find() never does
    turned, wanted = text[::-1], pattern[::-1]
    at = max(0, len(text) - last - len(pattern))
    for position in forwards(turned, wanted, at):
        yield len(text) - (position - 1) - len(pattern) + 1


def empty_match(text, start):
    """Where an empty pattern is found."""
    at = start if start > 0 else len(text) + 1 + start
    return at if 1 <= at <= len(text) + 1 else 0


def matches(text, pattern, start):
    """Positions of a pattern that is not empty, in the order of the search."""
    if start > 0:
        return forwards(text, pattern, start - 1)
    last = len(text) + start
    return backwards(text, pattern, last) if last >= 0 else iter(())


def position(text, pattern, start=1, nth=1):
    """Where the nth match is, 0 if there is none."""
    if None in (text, pattern, start, nth):
        return None
    if start == 0 or nth < 1:
        return OUT_OF_RANGE
    if not pattern:
        return empty_match(text, start)
    return next(islice(matches(text, pattern, start), nth - 1, None), 0)


def positions(text, pattern, start=1, limit=None):
    """The first of all matches, in the order of the search."""
    if None in (text, pattern, start):
        return []
    if start == 0:
        return OUT_OF_RANGE
    return list(islice(matches(text, pattern, start), limit))


def compare(a, b, count=None, start_a=1, start_b=1):
    """-1, 0 or 1, as memcmp() of two ranges; a prefix is less."""
    if None in (a, b, start_a, start_b):
        return None
    if start_a < 1 or start_b < 1 or (count is not None and count < 0):
        return OUT_OF_RANGE
    left, right = cut(a, start_a, count), cut(b, start_b, count)
    return (left > right) - (left < right)


# ---- values that are made of others ----

def cut(text, start, count):
    """A range; all that follows where the count is None."""
    return text[start - 1:] if count is None else text[start - 1:start - 1 + count]


def refused(start, count):
    """The error that a range has, if any."""
    return NO_POSITION if start < 1 or (count is not None and count < 0) else None


def part(text, start, count=None):
    if None in (text, start):
        return None
    return refused(start, count) or cut(text, start, count)


def overlay(text, placed, start, count=None):
    """Other bytes in the place of a range, which is as long as they are where the count is
    None.  Behind the end they are appended, as by overlay() of bytea."""
    if None in (text, placed, start):
        return None
    count = len(placed) if count is None else count
    return refused(start, count) or text[:start - 1] + placed + text[start - 1 + count:]


def erase(text, start, count):
    """Zeros in the place of what there is of a range."""
    if None in (text, start, count):
        return None
    gone = len(cut(text, start, count)) if start > 0 and count > 0 else 0
    return refused(start, count) or text[:start - 1] + bytes(gone) + text[start - 1 + gone:]


def insert(text, start, new):
    """Bytes before a position; behind the end zeros come before them."""
    if None in (text, start, new):
        return None
    if start < 1:
        return NO_POSITION
    filled = text[:start - 1] + bytes(max(0, start - 1 - len(text)))
    return filled + new + text[start - 1:]


def delete(text, start, count):
    if None in (text, start, count):
        return None
    return refused(start, count) or text[:start - 1] + text[start - 1 + count:]


def move(text, start, count, destination):
    """A range is taken out, and put before what was at the destination."""
    if None in (text, start, count, destination):
        return None
    if refused(start, count):
        return NO_POSITION
    if start < destination < start + count:
        return OUT_OF_RANGE
    moved, rest = cut(text, start, count), delete(text, start, count)
    if destination > start:
        destination -= len(moved)
    return rest[:destination - 1] + moved + rest[destination - 1:]


def truncate(text, length):
    return text[:length] + bytes(max(0, length - len(text)))


# ---- sets ----

def lines(text, encoding="utf-8"):
    """Lines of a text, without their ends; what follows the last end is one, if there is
    anything."""
    if text is None:
        return []
    try:
        if b"\0" in text:
            return Refused("22021")
        rows = text.decode(encoding).split("\n")
    except UnicodeDecodeError:
        return Refused("22021")
    return rows[:-1] if rows[-1] == "" else rows


def joined(values):
    """The aggregate: all that is not NULL; NULL if that is nothing."""
    there = [value for value in values if value is not None]
    return b"".join(there) if there else None
