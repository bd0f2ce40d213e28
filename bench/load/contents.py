"""Contents that a seed makes: bytes of a known kind, and sizes of a known distribution.

The same key makes the same content, on every machine that has the same version of Python
(3.9 or later).  So what a column gives back can be verified without a copy of it.
"""

import functools
import itertools
import json
import math
import random

KB, MB = 1000, 1000000

# Sizes of the SecureFiles papers: from, to; uniform between.
PRESETS = {"email": (5 * KB, 14 * KB), "document": (80 * KB, 110 * KB),
           "image": (900 * KB, 1200 * KB), "large-image": (8500 * KB, 11300 * KB),
           "video": (97 * MB, 97 * MB)}

UNITS = {"": 1, "B": 1, "KB": KB, "MB": MB, "GB": 1000 * MB}


# ---- kinds ----

@functools.lru_cache(maxsize=None)
def sentences():
    """Sentences of made words; frequent words are short, as frequent as Zipf's law says."""
    lot = random.Random("sentences")
    syllables = [a + b for a in "bdfgklmnprst" for b in ("a", "e", "i", "o", "u", "an", "er")]
    words = ["".join(lot.choices(syllables, k=1 + int(math.log10(rank + 1) + lot.random())))
             for rank in range(20000)]
    weights = list(itertools.accumulate(1 / (rank + 1) for rank in range(len(words))))
    made = [lot.choices(words, cum_weights=weights, k=lot.randrange(6, 20))
            for _ in range(5000)]
    return [" ".join(one).capitalize().encode() + b". " for one in made]


def text(lot, length):
    return repeated(lambda: b"".join(lot.choices(sentences(), k=200)), length)


def records(lot):
    return "".join(json.dumps({
        "id": lot.getrandbits(40), "name": sentences()[lot.randrange(1000)][:24].decode(),
        "amount": round(lot.random() * 1000, 2), "tags": lot.sample("abcdefgh", 3),
        "open": lot.random() < 0.5}) + "\n" for _ in range(100)).encode()


def repeated(make, length):
    parts, total = [], 0
    while total < length:
        parts.append(make())
        total += len(parts[-1])
    return b"".join(parts)[:length]


KINDS = {"text": text, "json": lambda lot, length: repeated(lambda: records(lot), length),
         "random": lambda lot, length: lot.randbytes(length),
         "zeros": lambda _, length: bytes(length)}


def make_content(key, kind, length):
    """Begins with a digest of the key, so that two contents differ, zeros too."""
    lot = random.Random(key)
    mark = lot.randbytes(16)
    return (mark + KINDS[kind](lot, max(0, length - len(mark))))[:length]


# ---- sizes ----

def parse_size(word):
    digits = word.rstrip("BKMG")
    try:
        size = int(float(digits) * UNITS[word[len(digits):]])
    except (KeyError, ValueError):
        size = 0
    # what PostgreSQL takes in one parameter
    if not 0 < size <= UNITS["GB"]:
        raise ValueError(f"not a size from 1 byte to 1 GB: {word}")
    return size


def sizes(description):
    """A function that draws a length: of "fixed:1MB", "uniform:10KB:1MB",
    "lognormal:MEDIAN:SIGMA" (at most 1000 times the median), or the name of a preset."""
    name, *arguments = description.split(":")
    if name in PRESETS and not arguments:
        return lambda lot: lot.randint(*PRESETS[name])
    if name == "fixed" and len(arguments) == 1:
        size = parse_size(arguments[0])
        return lambda lot: size
    if name == "uniform" and len(arguments) == 2:
        low, high = sorted(map(parse_size, arguments))
        return lambda lot: lot.randint(low, high)
    if name == "lognormal" and len(arguments) == 2:
        median, sigma = parse_size(arguments[0]), float(arguments[1])
        return lambda lot: int(min(median * lot.lognormvariate(0, sigma), 1000 * median))
    raise ValueError(f"unknown sizes: {description}")


def parse_kinds(description):
    """Of "text" or "text=50,json=30": kinds and their weights."""
    pairs = [one.partition("=") for one in description.split(",")]
    weights = {name: float(weight or 1) for name, _, weight in pairs}
    unknown = set(weights) - set(KINDS)
    if unknown:
        raise ValueError(f"unknown kind: {', '.join(sorted(unknown))}")
    return weights


class Contents:
    """The content of each version of each object, by a seed and a description."""

    # So many contents are those of all duplicates.
    SHARED = 100

    def __init__(self, seed, sizes_, kinds, duplicates):
        self.seed, self.duplicates = seed, duplicates
        self.size, self.kinds = sizes(sizes_), parse_kinds(kinds)

    def __call__(self, number, version):
        key = f"{self.seed}:{number}:{version}"
        lot = random.Random(key)
        if lot.random() < self.duplicates:
            key = f"{self.seed}:shared:{lot.randrange(self.SHARED)}"
        lot = random.Random(f"{key}:size and kind")
        kind = lot.choices(list(self.kinds), weights=list(self.kinds.values()))[0]
        return make_content(key, kind, self.size(lot))
