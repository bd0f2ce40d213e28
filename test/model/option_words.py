"""Option words of compression, deduplication, encryption and hashes, and contents that compress well, hardly or
not at all.

Random tests draw both: each column begins with words by lot and gets others now and then,
so that versions of a value mix codecs, and the contents decide unit by unit what is
stored.  A column also learns dictionaries.  Columns encrypt at times where the environment
has SECUREFILE_ENCRYPTS: the server must take the option, and have a master key.
"""

import hashlib
import os
import random
import re

import psycopg

UNIT = 128 * 1024			# granule of compression, as in values.py
WORDS = ["nocompress", "compress_low", "compress_medium", "compress_high"]

# (weight, kind of contents)
KINDS = [(6, "zeros"), (8, "lines"), (22, "text"), (8, "skewed"), (32, "noise"), (16, "half"),
         (8, "turns")]
POOL = 4096					# bytes that the text of a value is put together from
SKEWED = bytes(b"etaoinsh"[byte & 7] for byte in range(256))


def with_words(column_type, chosen):
    """A securefile type with these words in the place of those that it has."""
    name, _, words = column_type.partition("(")
    words = [w for w in re.split(r", *", words.rstrip(")"))
             if w and "compress" not in w and w not in ("encrypt", "hash", "deduplicate")]
    return f"{name}({', '.join(words + [chosen])})"


def more_words(column_type, more):
    """A securefile type with words that it may have already."""
    name, _, words = column_type.partition("(")
    words = [w for w in re.split(r", *", words.rstrip(")")) if w]
    return f"{name}({', '.join(words + [w for w in more.split(', ') if w not in words])})"


def some_words(rng):
    encrypts = rng.random() < 0.4 and os.environ.get("SECUREFILE_ENCRYPTS")
    hashes = rng.random() < 0.5
    once = rng.random() < 0.3
    return (rng.choice(WORDS) + (", encrypt" if encrypts else "") + (", hash" if hashes else "")
            + (", deduplicate" if once else ""))


def train(execute, table, column, key, key_values):
    """Have the column learn a dictionary from rows that are alike, and are rolled back: the
    dictionary stays.  The column may not use one.  key_values: of the key of row n."""
    execute("BEGIN")
    try:
        execute(f"""INSERT INTO {table} ({key}, {column}) SELECT {key_values}, convert_to(format(
            '{{"number": %s, "alike": "what all have in common", "text": "%s"}}', n, md5(n::text)),
            'UTF8') FROM generate_series(1, 120) n""")
        execute(f"SELECT securefile_train('{table}', '{column}', 1000)")
    except (psycopg.errors.ObjectNotInPrerequisiteState, psycopg.errors.ProgramLimitExceeded):
        pass
    finally:
        execute("ROLLBACK")


# ---- contents ----

def contents(key, length):
    """Bytes of that length, the same for each use of the key."""
    rng = random.Random(key)
    kind = rng.choices([kind for _, kind in KINDS], [weight for weight, _ in KINDS])[0]
    return make(kind, key, length, rng)


def make(kind, key, length, rng):
    """Bytes of one kind; differ in every part of a value, but for zeros and lines."""
    if kind == "zeros":
        return bytes(length)
    if kind == "lines":
        line = hashlib.sha256(key.encode()).hexdigest().encode() + b"\n"
        return (line * (length // len(line) + 1))[:length]
    if kind == "text":
        return text(key, length, rng)
    if kind == "skewed":		# for zstd, but not for LZ4
        return noise(key, length).translate(SKEWED)
    if kind == "half":
        return half(key, length, rng)
    if kind == "turns":
        return turns(key, length, rng)
    return noise(key, length)


def noise(key, length):
    return hashlib.shake_128(key.encode()).digest(length)


def text(key, length, rng):
    """Some bytes that are new, and more that were there before, by turns."""
    pool = noise(f"{key} pool", POOL)
    starts = [rng.randrange(POOL - 300) for _ in range(61)]
    sizes = [rng.randrange(40, 300) for _ in range(53)]
    new = noise(f"{key} new", 12 * (length // 52 + 1))
    parts, done, n = [], 0, 0
    while done < length:
        start, size = starts[n % 61], sizes[n % 53]
        parts.append(new[12 * n:12 * n + 12] + pool[start:start + size])
        done += 12 + size
        n += 1
    return b"".join(parts)[:length]


def half(key, length, rng):
    """Text that changes to noise somewhere, or the other way round."""
    at = rng.randint(0, length)
    first, second = rng.sample(["text", "noise"], 2)
    return (make(first, f"{key} first", at, rng)
            + make(second, f"{key} second", length - at, rng))


def turns(key, length, rng):
    """Pieces of both by turns, each of a unit or of another length."""
    step = rng.choice([UNIT, UNIT, UNIT // 2, 5 * UNIT, 70000])
    pieces = [make("text" if n % 2 else "noise", f"{key} {n}", min(step, length - at), rng)
              for n, at in enumerate(range(0, length, step))]
    return b"".join(pieces)
