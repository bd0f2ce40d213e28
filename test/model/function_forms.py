"""Contents for the random test of functions, and the forms in which a value has them.

A form is an expression of SQL whose value has certain bytes: a row of a table with some
options, a parameter, or a list of parts of such values.
"""

import psycopg

UNIT = 128 * 1024			# granule of checksums, codecs and holes in a segment
PART = 2 * UNIT				# what a function that reads all of a value has in memory
LONGEST = 700_000

# tables, and the options of their column; some cannot be where the server has no key
TABLES = {
    "row": "",
    "packed": "(compress)",
    "stored": "(disable_storage_in_row)",
    "nocache": "(nocache, disable_storage_in_row)",
    "cache": "(cache, disable_storage_in_row)",
    "filesystem": "(filesystem_like_logging, disable_storage_in_row)",
    "low": "(compress_low, disable_storage_in_row)",
    "high": "(compress_high, disable_storage_in_row)",
    "hashed": "(hash, disable_storage_in_row)",
    "shared": "(deduplicate, disable_storage_in_row)",
    "sealed": "(encrypt)",
    "secret": "(encrypt, nocache, disable_storage_in_row)",
    "every": "(compress_high, deduplicate, encrypt, hash, disable_storage_in_row)",
}
PREPARE = """
    DROP SCHEMA IF EXISTS lob CASCADE;
    CREATE SCHEMA lob;
    -- bytes written through a handle, units of zeros left out: they are holes
    CREATE FUNCTION lob.written(t regclass, b bytea) RETURNS securefile LANGUAGE plpgsql AS $$
    DECLARE
        handle int := public.securefile_create(t, 'doc');
        unit bytea;
    BEGIN
        FOR n IN 0 .. (length(b) - 1) / 131072 LOOP
            unit := substring(b FROM n * 131072 + 1 FOR 131072);
            IF unit <> decode(repeat('00', length(unit)), 'hex') THEN
                PERFORM public.securefile_seek(handle, n * 131072::bigint, 0);
                PERFORM public.securefile_write(handle, unit);
            END IF;
        END LOOP;
        PERFORM public.securefile_truncate(handle, length(b));
        RETURN public.securefile_finish(handle);
    END $$;
    CREATE TEMP TABLE temporary (id int GENERATED ALWAYS AS IDENTITY, doc securefile)"""


class Form:
    """An expression, its parameters, the bytes that it has, and what to call it."""

    def __init__(self, name, sql, params, text, row=None):
        self.name, self.sql, self.params, self.text = name, sql, params, text
        self.row = row			# (table, id), if it is a row

    def __repr__(self):
        return f"{self.name} of {len(self.text)} bytes"


# ---- contents ----

def bytes_of(rng, kind, length):
    """Bytes of one kind."""
    if kind == "noise":
        return rng.randbytes(length)
    if kind == "letters":		# matches of short patterns everywhere, and compressible
        return rng.randbytes(length).translate(bytes(97 + (byte & 3) for byte in range(256)))
    if kind == "words":
        word = rng.randbytes(rng.randint(3, 60))
        return b"".join([word] * (length // len(word) + 1))[:length]
    if kind == "one":
        return bytes([rng.choice([0, 97, 255])]) * length
    raise ValueError(kind)


def kinds(rng, length):
    """Bytes of several kinds, one after the other."""
    text = b""
    while len(text) < length:
        kind = rng.choices(["noise", "letters", "words", "one"], [4, 3, 2, 1])[0]
        text += bytes_of(rng, kind, rng.randint(1, length))
    return text[:length]


def with_islands(rng, length):
    """Units of zeros between others, some of which begin or end with zeros."""
    units = []
    for at in range(0, length, UNIT):
        size = min(UNIT, length - at)
        data = rng.choice([0, 0, size, size, rng.randint(0, size)])
        unit = rng.randbytes(data) + bytes(size - data)
        units.append(unit if rng.random() < 0.7 else unit[::-1])
    return b"".join(units)


def some_length(rng):
    """Lengths around the borders that there are, and any other."""
    if rng.random() < 0.4:
        near = rng.choice([0, 1, 4000, UNIT, 2 * UNIT, 3 * UNIT, 4 * UNIT, 5 * UNIT])
        return max(0, near + rng.randint(-2, 2))
    return rng.randint(0, rng.choice([300, 4000, 60_000, LONGEST, LONGEST]))


def contents(rng):
    """Some bytes, and a word that is planted in them at borders, to be looked for."""
    length = some_length(rng)
    text = bytearray(with_islands(rng, length) if rng.random() < 0.3 else kinds(rng, length))
    word = rng.randbytes(rng.choice([2, 3, 8, 40]))
    for _ in range(rng.choice([0, 3, 12])):
        at = near_border(rng, length, len(word))
        text[at:at + len(word)] = word[:max(0, length - at)]
    return bytes(text[:length]), word


def near_border(rng, length, size):
    """An offset at which something of a size lies at a border of units or parts, across it
    or beside it."""
    border = rng.choice([UNIT, PART]) * rng.randint(0, max(1, length // UNIT))
    at = border + rng.choice([0, -size, -size // 2, 1, -1, 1 - size, -1 - size])
    return min(max(0, at), max(0, length - size))


# ---- forms ----

def insert(conn, table, text, sql="%b::bytea", params=None):
    """A row with these bytes, which are those of an expression; its form."""
    path = table if table == "temporary" else f"lob.{table}"
    params = [text] if params is None else params
    key = conn.execute(f"INSERT INTO {path} (doc) SELECT {sql} RETURNING id", params).fetchone()[0]
    return Form(table, f"(SELECT doc FROM {path} WHERE id = {key})", [], text, (path, key))


def other_than(rng, text, start, end):
    """The same length of other bytes in the place of a range."""
    return text[:start] + rng.randbytes(end - start) + text[end:]


def some_range(rng, text):
    return sorted([rng.randint(0, len(text)), rng.randint(0, len(text))])


def in_row_of_table(rng, conn, tables, text):
    return insert(conn, rng.choice(tables), text)


def twice(rng, conn, tables, text):
    """A row whose bytes another row has, too."""
    table = rng.choice([t for t in ("shared", "every") if t in tables])
    insert(conn, table, text)
    return insert(conn, table, text)


def with_holes(rng, conn, tables, text):
    table = rng.choice([t for t in tables if t != "temporary"])
    form = insert(conn, table, text, f"lob.written('lob.{table}', %b)")
    form.name = f"holes in {table}"
    return form


def next_version(rng, conn, tables, text):
    """A row that an edit has brought to these bytes."""
    start, end = some_range(rng, text)
    form = insert(conn, rng.choice(tables), other_than(rng, text, start, end))
    table, key = form.row
    conn.execute(f"UPDATE {table} SET doc = overlay(doc PLACING %b::bytea FROM %s::bigint) WHERE id = {key}",
                 [text[start:end], start + 1])
    form.text, form.name = text, f"version in {form.name}"
    return form


def parameter(rng, conn, tables, text):
    return Form("parameter", "%b::bytea::securefile", [text], text)


def draft(rng, conn, tables, text):
    """The result of a handle, which no row has."""
    table = rng.choice([t for t in tables if t != "temporary"])
    return Form("draft", f"lob.written('lob.{table}', %b)", [text], text)


def edited(rng, conn, tables, text):
    """An edit of a row, not stored."""
    start, end = some_range(rng, text)
    base = insert(conn, rng.choice(tables), other_than(rng, text, start, end))
    return Form(f"edit of {base.name}", f"overlay({base.sql} PLACING %b::bytea FROM %s::bigint)",
                [text[start:end], start + 1], text)


def shortened(rng, conn, tables, text):
    """A row cut, or lengthened by zeros that its text ends with."""
    end = len(text) - rng.randint(0, len(text) - len(text.rstrip(b"\0")))
    more = b"" if end < len(text) else rng.randbytes(rng.choice([1, 5000, UNIT]))
    base = insert(conn, rng.choice(tables), text[:end] + more)
    return Form(f"cut of {base.name}", f"securefile_truncate({base.sql}, %s)", [len(text)], text)


def rope(rng, conn, tables, text):
    """Many parts, new bytes and ranges of rows, joined."""
    ends = sorted(rng.randint(0, len(text)) for _ in range(rng.choice([1, 2, 8, 40])))
    base = insert(conn, rng.choice(tables), text)
    pieces, params = [], []
    for start, end in zip([0] + ends, ends + [len(text)]):
        if start == 0 and rng.random() < 0.5:
            pieces.append(f"securefile_truncate({base.sql}, %s)")
            params.append(end)
        else:
            pieces.append("%b::bytea::securefile")
            params.append(text[start:end])
    return Form(f"rope over {base.name}", "(" + " || ".join(pieces) + ")", params, text)


MAKERS = [(10, in_row_of_table), (2, twice), (5, with_holes), (3, next_version), (2, parameter),
          (1, draft), (3, edited), (2, shortened), (3, rope)]


def prepare(conn):
    """Schema and tables; their names."""
    conn.execute(PREPARE)
    made = ["temporary"]
    for table, options in TABLES.items():
        try:
            conn.execute(f"CREATE TABLE lob.{table} (id int GENERATED ALWAYS AS IDENTITY PRIMARY KEY, doc securefile{options})")
        except (psycopg.errors.ObjectNotInPrerequisiteState, psycopg.errors.FeatureNotSupported):
            continue			# no master key, or no library of compression
        made.append(table)
    return made


def forms(rng, conn, tables, text, count):
    """Some forms of the same bytes."""
    chosen = rng.choices([maker for _, maker in MAKERS], [weight for weight, _ in MAKERS], k=count)
    return [maker(rng, conn, tables, text) for maker in chosen]
