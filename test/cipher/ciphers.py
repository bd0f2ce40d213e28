#!/usr/bin/python3
"""Calls the ciphers of src/transform, and compares with what others have published.

    test/cipher/ciphers.py LIBRARY ROUNDS SEED
    LD_PRELOAD=frozen.so test/cipher/ciphers.py LIBRARY frozen

Prints "ok NAME" or "not ok NAME: why" a check.
"""

import ctypes
import hashlib
import hmac
import os
import random
import struct
import sys

AES, XCHACHA = 1, 2
DECODED, NOT_GENUINE = 0, 6
OVERHEAD = 48


class Bytes(ctypes.Structure):
    """SfBytes, and SfRoom."""
    _fields_ = [("data", ctypes.c_void_p), ("len", ctypes.c_size_t)]


class Message(ctypes.Structure):
    """SfMessage."""
    _fields_ = [("head", Bytes), ("body", Bytes)]


class CipherOps(ctypes.Structure):
    """SfCipherOps."""
    _fields_ = [("id", ctypes.c_uint32), ("name", ctypes.c_char_p),
                ("seal", ctypes.CFUNCTYPE(ctypes.c_bool, ctypes.c_char_p, ctypes.c_char_p, Bytes,
                                          ctypes.POINTER(Message), ctypes.c_void_p)),
                ("open", ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_char_p, ctypes.c_char_p, Bytes,
                                          ctypes.c_char_p, Bytes, Bytes))]


class DataKey(ctypes.Structure):
    """SfDataKey."""
    _fields_ = [("id", ctypes.c_uint16), ("cipher", ctypes.c_uint8)] + [
        (name, ctypes.c_uint8 * 32) for name in ("unit", "row", "locator", "inode", "content",
                                           "nonce", "fingerprint")]


class Unit(ctypes.Structure):
    """SfUnit."""
    _fields_ = [("start", ctypes.c_uint64), ("checksum", ctypes.c_uint64),
                ("stored_bytes", ctypes.c_uint32), ("flags", ctypes.c_uint32)]


class UnitId(ctypes.Structure):
    """SfUnitId."""
    _fields_ = [("incarnation", ctypes.c_uint64), ("object_id", ctypes.c_uint64),
                ("unit_no", ctypes.c_uint64)]


library = ctypes.CDLL(sys.argv[1])
library.sf_transform_find_cipher.restype = ctypes.POINTER(CipherOps)
library.sf_transform_seal_unit.restype = ctypes.c_bool
library.sf_transform_head_ok.restype = ctypes.c_bool
library.sf_transform_stamp.restype = ctypes.c_uint64
failed = 0


def check(name, fine, why=""):
    """Print the result of a check."""
    global failed
    failed += not fine
    print(f"ok {name}" if fine else f"not ok {name}: {why}")


def equal(name, got, expected):
    """Check that two byte strings, or anything else, are equal."""
    check(name, got == expected, f"{got!r} in place of {expected!r}")


def part(data):
    """Bytes for a function; the caller keeps data."""
    return Bytes(ctypes.cast(ctypes.c_char_p(data), ctypes.c_void_p), len(data))


def seal(cipher, key, nonce, plain, place, split=0):
    """Ciphertext and tag of a message that is given in two parts."""
    ops = library.sf_transform_find_cipher(cipher).contents
    head, body = plain[:split], plain[split:]
    out = ctypes.create_string_buffer(len(plain) + 16)
    message = Message(part(head), part(body))
    if not ops.seal(key, nonce, part(place), ctypes.byref(message), ctypes.addressof(out)):
        raise RuntimeError("not sealed")
    return out.raw


def unseal(cipher, key, nonce, sealed, place, split=0):
    """What a message says, or None; whether what was not genuine left any bytes is checked."""
    ops = library.sf_transform_find_cipher(cipher).contents
    n = len(sealed) - 16
    out = ctypes.create_string_buffer(n + 1)
    at = ctypes.addressof(out)
    result = ops.open(key, nonce, part(place), sealed, Bytes(at, split), Bytes(at + split, n - split))
    if result == DECODED:
        return out.raw[:n]
    if out.raw[:n] != bytes(n) or result != NOT_GENUINE:
        check("nothing is given out before the tag was right", False, result)
    return None


def published():
    """Vectors of others: XAES-256-GCM of C2SP, XChaCha20-Poly1305 of the IETF's draft."""
    nonce = b"ABCDEFGHIJKLMNOPQRSTUVWX"
    equal("XAES-256-GCM, first vector", seal(AES, b"\1" * 32, nonce, b"XAES-256-GCM", b"").hex(),
          "ce546ef63c9cc60765923609b33a9a1974e96e52daf2fcf7075e2271")
    equal("XAES-256-GCM, second vector",
          seal(AES, b"\3" * 32, nonce, b"XAES-256-GCM", b"c2sp.org/XAES-256-GCM").hex(),
          "986ec1832593df5443a179437fd083bf3fdb41abd740a21f71eb769d")
    source = memoryview(hashlib.shake_128(b"").digest(4_000_000))
    digest = hashlib.shake_128()
    at = 0

    def take(n):
        nonlocal at
        at += n
        return bytes(source[at - n:at])

    for _ in range(10_000):
        key, nonce = take(32), take(24)
        plain = take(take(1)[0])
        place = take(take(1)[0])
        digest.update(seal(AES, key, nonce, plain, place, len(plain) // 3))
    equal("XAES-256-GCM, ten thousand messages", digest.hexdigest(32),
          "e6b9edf2df6cec60c8cbd864e2211b597fb69a529160cd040d56c0c210081939")
    plain = (b"Ladies and Gentlemen of the class of '99: If I could offer you only one tip for "
             b"the future, sunscreen would be it.")
    place = bytes.fromhex("50515253c0c1c2c3c4c5c6c7")
    sealed = seal(XCHACHA, bytes(range(0x80, 0xa0)), bytes(range(0x40, 0x58)), plain, place, 8)
    equal("XChaCha20-Poly1305, the draft's vector", sealed.hex(),
          "bd6d179d3e83d43b9576579493c0e939572a1700252bfaccbed2902c21396cbb"
          "731c7f1b0b4aa6440bf3a82f4eda7e39ae64c6708c54c216cb96b72e1213b452"
          "2f8c9ba40db5d945b11b69b982c1bb9e3f3fac2bc369488f76b2383565d3fff9"
          "21f9664c97637da9768812f615c68b13b52ec0875924c1c7987947deafd8780acf49")


def keys():
    """A key for each purpose is an HMAC, as Python makes it."""
    secret = random.randbytes(32)
    key = DataKey()
    library.sf_transform_data_key(ctypes.byref(key), 7, AES, secret)
    for field, word in (("unit", b"unit"), ("row", b"inline"), ("locator", b"locator"),
                        ("inode", b"inode"), ("content", b"content"), ("nonce", b"nonce"),
                        ("fingerprint", b"fingerprint")):
        equal(f"the key for {field}", bytes(getattr(key, field)),
              hmac.digest(secret, word, "sha256"))
    locator = random.randbytes(77)
    tag = ctypes.create_string_buffer(16)
    library.sf_transform_locator_tag(ctypes.byref(key), part(locator), tag)
    equal("the tag of a locator", tag.raw, hmac.digest(bytes(key.locator), locator, "sha256")[:16])
    page = bytearray(random.randbytes(500))
    stamp = library.sf_transform_stamp(ctypes.byref(key), bytes(page), ctypes.c_size_t(len(page)))
    page[8:16] = bytes(8)
    number = struct.unpack("Q", hmac.digest(bytes(key.inode), bytes(page), "sha256")[:8])[0]
    equal("the stamp of an inode page", stamp, (1 << 61) + number % (1 << 61))


class Locator(ctypes.Structure):
    """The beginning of SfLocator, and room for the rest."""
    _fields_ = [("flags", ctypes.c_uint16), ("table_oid", ctypes.c_uint32),
                ("attnum", ctypes.c_int16), ("key_id", ctypes.c_uint16),
                ("generation", ctypes.c_uint32), ("object_id", ctypes.c_uint64),
                ("length_bytes", ctypes.c_uint64), ("incarnation", ctypes.c_uint64),
                ("rest", ctypes.c_uint8 * 256)]


def hashes():
    """The hash of a value, sealed, is for its version only, and never the same twice."""
    for cipher in (AES, XCHACHA):
        key = data_key(cipher)
        where = [random.getrandbits(31), random.getrandbits(64), random.getrandbits(64)]
        plain = random.randbytes(64)

        def version(generation, object_id, incarnation):
            return Locator(generation=generation, object_id=object_id, incarnation=incarnation)

        def opened(place, sealed, by=key):
            out = ctypes.create_string_buffer(64)
            result = library.sf_transform_open_hash(ctypes.byref(by), ctypes.byref(version(*place)),
                                                    sealed, out)
            return out.raw if result == DECODED else any(out.raw)

        sealed = [ctypes.create_string_buffer(104) for _ in range(2)]
        for one in sealed:
            library.sf_transform_seal_hash(ctypes.byref(key), ctypes.byref(version(*where)), plain, one)
        first = sealed[0].raw
        equal(f"cipher {cipher}: a hash comes back", opened(where, first), plain)
        check(f"cipher {cipher}: it looks different each time", first[:24] != sealed[1].raw[:24])
        others = [where[:i] + [where[i] ^ 1] + where[i + 1:] for i in range(3)]
        equal(f"cipher {cipher}: another version has no use for it",
              [opened(other, first) for other in others], [False] * 3)
        changed = [bytes(b ^ (i == at) for i, b in enumerate(first)) for at in range(104)]
        equal(f"cipher {cipher}: no byte of it can be changed",
              [opened(where, other) for other in changed], [False] * 104)
        equal(f"cipher {cipher}: another key does not open it",
              opened(where, first, data_key(cipher)), False)


def data_key(cipher):
    """A new data key."""
    key = DataKey()
    library.sf_transform_data_key(ctypes.byref(key), random.randrange(1, 65536), cipher,
                                  random.randbytes(32))
    return key


def seal_unit(key, where, encoded, flags):
    """A sealed unit, as (what the map has, stored bytes)."""
    unit = Unit(0, 0, len(encoded), flags)
    dst = ctypes.create_string_buffer(len(encoded) + OVERHEAD)
    if not library.sf_transform_seal_unit(ctypes.byref(key), ctypes.byref(where),
                                          ctypes.byref(unit), encoded, dst):
        raise RuntimeError("not sealed")
    return unit, dst.raw[:unit.stored_bytes]


def open_unit(key, where, unit, stored):
    """(result, head, body) of stored bytes."""
    copy = Unit(unit.start, unit.checksum, len(stored), unit.flags)
    head = ctypes.create_string_buffer(8)
    body = ctypes.create_string_buffer(max(1, len(stored) - OVERHEAD))
    result = library.sf_transform_open_unit(ctypes.byref(key), ctypes.byref(where),
                                            ctypes.byref(copy), stored, head, body)
    return result, head.raw, body.raw


def one_unit(key, cipher):
    """A unit comes back as it was, and nothing else does."""
    flags = random.choice((0, 0, 1, 2, 3))
    encoded = random.randbytes(random.choice((1, 9, 240, 241, 4096, 5000, 131072)) + 8 * (flags > 0))
    where = UnitId(*(random.getrandbits(64) for _ in range(3)))
    unit, stored = seal_unit(key, where, encoded, flags)
    result, head, body = open_unit(key, where, unit, stored)
    fine = result == DECODED and (body == encoded if flags == 0 else head + body == encoded)
    if flags == 0:
        fine = fine and library.sf_transform_head_ok(encoded, len(encoded), head)
    if not fine or len(stored) != len(encoded) + (OVERHEAD if flags == 0 else OVERHEAD - 8):
        check(f"cipher {cipher}: a unit of {len(encoded)} bytes comes back", False, result)
    changed = bytearray(stored)
    changed[random.randrange(len(changed))] ^= 1 << random.randrange(8)
    other = UnitId(where.incarnation, where.object_id, where.unit_no)
    name = random.choice(("incarnation", "object_id", "unit_no"))
    setattr(other, name, getattr(other, name) ^ 1 << random.randrange(64))
    codec = Unit(0, 0, unit.stored_bytes, flags ^ 1)
    for what, answer in (("a changed bit", open_unit(key, where, unit, bytes(changed))),
                         (f"another {name}", open_unit(key, other, unit, stored)),
                         ("another codec", open_unit(key, where, codec, stored)),
                         ("another key", open_unit(data_key(cipher), where, unit, stored)),
                         ("the last byte cut off", open_unit(key, where, unit, stored[:-1]))):
        if answer[0] == DECODED or any(answer[1]) or any(answer[2]):
            check(f"cipher {cipher}: {what} is refused", False, answer[0])
    return stored[:24]


def units(rounds):
    """Many units, and no nonce of them twice."""
    for cipher in (AES, XCHACHA):
        key = data_key(cipher)
        nonces = [one_unit(key, cipher) for _ in range(rounds)]
        check(f"cipher {cipher}: {rounds} units come back, nothing else does", True)
        where = UnitId(1, 2, 3)
        nonces += [seal_unit(key, where, b"the same", 0)[1][:24] for _ in range(100 * rounds)]
        equal(f"cipher {cipher}: no nonce twice, of {len(nonces)}", len(set(nonces)), len(nonces))
    short = Unit(0, 0, OVERHEAD, 0)
    equal("fewer bytes than any unit has", open_unit(data_key(AES), UnitId(), short,
                                                     bytes(OVERHEAD))[0], 1)


def frozen():
    """Nonces where the system's generator always gives the same."""
    if os.environ.get("FROZEN_FAILS"):
        try:
            seal_unit(data_key(AES), UnitId(), b"x", 0)
            check("without random bytes nothing is sealed", False)
        except RuntimeError:
            check("without random bytes nothing is sealed", True)
        return
    key = data_key(AES)
    nonces = [seal_unit(key, UnitId(1, 2, unit_no), *contents)[1][:24] for unit_no in range(100)
              for contents in ((b"one", 0), (b"another", 0), (b"the headone", 1), (b"the headtwo", 1))]
    equal("frozen: other units and other bytes have other nonces", len(set(nonces)), 400)
    equal("frozen: the generator was the one of the test",
          seal_unit(key, UnitId(1, 2, 0), b"one", 0)[1][:24], nonces[0])


def main():
    """All checks."""
    if sys.argv[2] == "frozen":
        frozen()
        sys.exit(failed > 0)
    random.seed(int(sys.argv[3]))
    published()
    keys()
    hashes()
    units(int(sys.argv[2]))
    sys.exit(failed > 0)


main()
