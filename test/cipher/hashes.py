#!/usr/bin/python3
"""Calls the SHA-256 of src/transform, as both libraries make it, and compares with Python's.

    test/cipher/hashes.py LIBRARY PORTABLE ROUNDS SEED

Bytes come in pieces of all sizes.  Now and then the hash is finished, and goes on from what
is kept of it, perhaps by the other library.  Prints "ok NAME" or "not ok NAME: why" a check.
"""

import ctypes
import hashlib
import random
import sys

LIBRARIES = [ctypes.CDLL(path) for path in sys.argv[1:3]]
BLOCK = 64


class Sha256(ctypes.Structure):
    """SfSha256."""
    _fields_ = [("length_bytes", ctypes.c_uint64), ("state", ctypes.c_uint64 * 14)]


def finish(library, state):
    """What is kept of a hash: digest and midstate."""
    kept = ctypes.create_string_buffer(64)
    library.sf_transform_hash_finish(ctypes.byref(state), kept)
    return kept.raw


def update(library, state, data):
    """Hash more bytes."""
    library.sf_transform_hash_update(ctypes.byref(state), data, ctypes.c_size_t(len(data)))


def one_value():
    """A value that grows; None, or what is wrong."""
    value = b""
    library = random.choice(LIBRARIES)
    state = Sha256()
    library.sf_transform_hash_begin(ctypes.byref(state))
    for _ in range(random.randrange(1, 12)):
        more = random.randbytes(random.choice((0, 1, 55, 56, 63, 64, 65, 128, random.randrange(5000))))
        value += more
        update(library, state, more)
        kept = finish(library, state)
        if kept[:32] != hashlib.sha256(value).digest():
            return f"another digest of {len(value)} bytes"
        if state.length_bytes != len(value):
            return "another length"
        if random.random() < 0.5:
            continue
        library = random.choice(LIBRARIES)
        state = Sha256()
        library.sf_transform_hash_resume(ctypes.byref(state), kept, ctypes.c_uint64(len(value)))
        if state.length_bytes != len(value) // BLOCK * BLOCK:
            return "goes on at another place"
        update(library, state, value[len(value) // BLOCK * BLOCK:])
    return None


def long_value():
    """Both give the same behind 4 GB, where the length in bits needs more than 32 of them."""
    kept = random.randbytes(64)
    digests = set()
    for library in LIBRARIES:
        state = Sha256()
        library.sf_transform_hash_resume(ctypes.byref(state), kept, ctypes.c_uint64((1 << 32) + 128))
        update(library, state, bytes(1000))
        digests.add(finish(library, state))
    return len(digests) == 1


def main():
    """All checks."""
    random.seed(int(sys.argv[4]))
    found = {one_value() for _ in range(int(sys.argv[3]))} - {None}
    fine = {"values that grow": not found, "both count alike": long_value()}
    for name, good in fine.items():
        print(f"ok {name}" if good else f"not ok {name}: {found}")
    sys.exit(not all(fine.values()))


main()
