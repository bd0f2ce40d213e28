#!/usr/bin/python3
"""Computes what somebody would who can write the files of a server.

Reads a request a line, and prints an answer a line; bytes are hexadecimal digits.

    siphash KEY DATA                 the end of a locator
    xxh3 SEED DATA                   a checksum, SEED being a number
    xxh3file SEED FILE OFFSET LENGTH
    seed INCARNATION OBJECT          seed of the units of an object, a number
    unwrap MASTER NONCE PLACE SEALED a data key, with the master key; "none" if that does not fit
"""

import ctypes
import ctypes.util
import hashlib
import hmac
import struct
import sys

XXHASH = ctypes.CDLL("libxxhash.so.0")
XXHASH.XXH3_64bits_withSeed.restype = ctypes.c_uint64
SODIUM = ctypes.CDLL(ctypes.util.find_library("sodium"))


def xxh3(seed, data):
    """A checksum, as a number."""
    return XXHASH.XXH3_64bits_withSeed(data, ctypes.c_size_t(len(data)), ctypes.c_uint64(seed))


def siphash(key, data):
    """SipHash-2-4."""
    result = ctypes.create_string_buffer(8)
    SODIUM.crypto_shorthash(result, data, ctypes.c_ulonglong(len(data)), key)
    return result.raw


def unwrap(master, nonce, place, sealed):
    """A data key."""
    key = hmac.new(master, b"wrap", hashlib.sha256).digest()
    result = ctypes.create_string_buffer(len(sealed) - 16)
    failed = SODIUM.crypto_aead_xchacha20poly1305_ietf_decrypt(
        result, None, None, sealed, ctypes.c_ulonglong(len(sealed)), place,
        ctypes.c_ulonglong(len(place)), nonce, key)
    return "none" if failed else result.raw.hex()


def part_of(path, offset, length):
    """Bytes of a file."""
    with open(path, "rb") as file:
        file.seek(offset)
        return file.read(length)


def answer(what, *args):
    """The answer to a request."""
    if what == "siphash":
        return siphash(bytes.fromhex(args[0]), bytes.fromhex(args[1])).hex()
    if what == "xxh3":
        return struct.pack("<Q", xxh3(int(args[0]), bytes.fromhex(args[1]))).hex()
    if what == "xxh3file":
        return struct.pack("<Q", xxh3(int(args[0]), part_of(args[1], int(args[2]), int(args[3])))).hex()
    if what == "seed":
        return str(xxh3(0, struct.pack("<QQ", int(args[0]), int(args[1]))))
    return unwrap(*(bytes.fromhex(arg) for arg in args))


for line in sys.stdin:
    print(answer(*line.split()))
