"""Digests of files, by programs that share nothing with the extension but libxxhash.

usage: digests.py ALGORITHM,... FILE...

One line for each file and algorithm: FILE ALGORITHM DIGEST.  Files are read in pieces.
"""

import ctypes
import hashlib
import sys

PIECE = 1 << 16
XXHASH = ctypes.CDLL("libxxhash.so.0")
XXHASH.XXH3_createState.restype = ctypes.c_void_p
XXHASH.XXH3_64bits_reset.argtypes = [ctypes.c_void_p]
XXHASH.XXH3_64bits_update.argtypes = [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_size_t]
XXHASH.XXH3_64bits_digest.argtypes = [ctypes.c_void_p]
XXHASH.XXH3_64bits_digest.restype = ctypes.c_uint64


class Xxh3:
    """XXH3 of 64 bits, with the interface of hashlib."""

    def __init__(self):
        self.state = XXHASH.XXH3_createState()
        XXHASH.XXH3_64bits_reset(self.state)

    def update(self, data):
        XXHASH.XXH3_64bits_update(self.state, data, len(data))

    def hexdigest(self):
        return f"{XXHASH.XXH3_64bits_digest(self.state):016x}"


ALGORITHMS = {
    "sha256": hashlib.sha256,
    "sha512": hashlib.sha512,
    "blake2b": hashlib.blake2b,
    "xxh3": Xxh3,
    "md5": hashlib.md5,
}


def main(names, *paths):
    for path in paths:
        digests = {name: ALGORITHMS[name]() for name in names.split(",")}
        with open(path, "rb") as file:
            while data := file.read(PIECE):
                for digest in digests.values():
                    digest.update(data)
        for name, digest in digests.items():
            print(path, name, digest.hexdigest())


main(*sys.argv[1:])
