"""Calls of the random test of functions: each draws arguments, and says what must come.

A call gets the run, the source of chance, a form of a value, and the word that its bytes
have planted at borders.
"""

import re

import function_model as model
from function_forms import LONGEST, PART, UNIT, Form, insert, near_border, parameter, some_range
from function_model import LAST, Choice, Refused

LEAST = -2**63
SIZES = [1, 1, 2, 3, 5, 16, 100, 256, 1000, 5000, UNIT - 1, UNIT, UNIT + 1, PART + 2, 300_000]
MANY = 3000					# rows of a set that are compared


# ---- arguments ----

def some_pattern(rng, text, word):
    """Bytes to look for: most of them are there, at a border perhaps."""
    how = rng.random()
    size = min(rng.choice(SIZES + [rng.randint(1, 2000)]), max(1, len(text)))
    if how < 0.05:
        return b""
    if how < 0.20:
        return word
    if how < 0.25:
        return bytes(size)
    if how < 0.28:
        return text + b"x"
    at = near_border(rng, len(text), size) if how < 0.75 else rng.randint(0, max(0, len(text) - size))
    pattern = text[at:at + size]
    if pattern and rng.random() < 0.2:
        at = rng.choice([0, len(pattern) - 1, rng.randrange(len(pattern))])
        pattern = pattern[:at] + bytes([pattern[at] ^ rng.choice([1, 255])]) + pattern[at + 1:]
    return pattern


def some_position(rng, text):
    """A position within the value, at its edges, or a little behind it."""
    length = len(text)
    near = rng.choice([0, UNIT, PART, length // UNIT * UNIT, length])
    return max(1, rng.choice([1, 1, near + rng.randint(-1, 2), rng.randint(1, length + 1), rng.randint(1, length + 1)]))


def some_start(rng, text):
    """Where a search begins: from the front or from the back, beyond either end."""
    how = rng.random()
    if how < 0.45:
        return some_position(rng, text)
    if how < 0.85:
        return -some_position(rng, text)
    return rng.choice([0, LAST, LEAST, len(text) + 1, -len(text) - 1, len(text) + 2])


def some_count(rng, text):
    return rng.choice([0, 1, rng.randint(0, len(text)), rng.randint(0, 300), UNIT, PART, len(text), len(text) + 1])


def bad_or(rng, value, bad):
    """The value, or sometimes one of others."""
    return rng.choice(bad) if rng.random() < 0.08 else value


def has_many(text, pattern):
    """A long pattern with matches that begin close to each other: looking for all of them
    would take this program too long."""
    return len(pattern) > 1000 and len(model.positions(text, pattern, 1, 6)) == 6


def another(run, rng, text):
    """A form of other bytes: a row, or a parameter."""
    if rng.random() < 0.5:
        return insert(run.conn, rng.choice(run.tables), text)
    return parameter(rng, run.conn, run.tables, text)


def said(name, form, *arguments):
    """A call in words."""
    return f"{name}({form}, " + ", ".join(
        f"{len(a)} bytes {a[:8].hex()}" if isinstance(a, bytes) else str(a) for a in arguments) + ")"


def read(run, rng, form, word):
    """The form has the bytes that it is said to have."""
    run.value("read", form.text, form.sql, form.params, str(form))


# ---- search ----

def position_in(run, rng, form, word):
    """position(pattern IN document), as SQL has it."""
    pattern = bad_or(rng, some_pattern(rng, form.text, word), [None])
    run.scalar("position", model.position(form.text, pattern), f"position(%b::bytea IN {form.sql})",
               [pattern] + form.params, said("position", form, pattern))


def position(run, rng, form, word):
    pattern = some_pattern(rng, form.text, word)
    start = bad_or(rng, some_start(rng, form.text), [None])
    nth = bad_or(rng, rng.choice([1, 1, 1, 2, 3, rng.randint(1, 20), rng.randint(1, 2000), LAST]), [0, -1, LEAST, None])
    if nth and nth > 5 and has_many(form.text, pattern):
        nth = 5
    if not pattern and nth and nth > 1:
        nth = 1					# no rule says where the next empty match is
    want = model.position(form.text, pattern, start, nth)
    if (start, nth) == (1, 1):
        run.scalar("position", want, f"securefile_position({form.sql}, %b)", form.params + [pattern], said("position", form, pattern))
    else:
        run.scalar("position", want, f"securefile_position({form.sql}, %b, %s, %s)", form.params + [pattern, start, nth],
                   said("position", form, pattern, start, nth))


def positions(run, rng, form, word):
    """The set of all; that of the search from the back is the other way round."""
    pattern = some_pattern(rng, form.text, word) or b"\0"
    start = bad_or(rng, some_start(rng, form.text), [None])
    limit = 5 if has_many(form.text, pattern) else MANY
    call = f"securefile_positions({form.sql}, %b, %s)"
    sql = rng.choice([f"SELECT p FROM {call} p LIMIT {limit}", f"SELECT {call} LIMIT {limit}"])
    run.column("positions", model.positions(form.text, pattern, start, limit), sql, form.params + [pattern, start],
               said("positions", form, pattern, start))


def reversed_search(run, rng, form, word):
    """Without the model: the nth match from the back is the nth from the last."""
    pattern = some_pattern(rng, form.text, word) or b"\0"
    if has_many(form.text, pattern) or len(model.positions(form.text, pattern, 1, MANY)) == MANY:
        return
    all_of_them = run.ask(f"SELECT p FROM securefile_positions({form.sql}, %b) p", form.params + [pattern])
    found = [row[0] for row in all_of_them]
    nth = rng.randint(1, len(found) + 1)
    run.scalar("position", found[-nth] if nth <= len(found) else 0, f"securefile_position({form.sql}, %b, -1, %s)",
               form.params + [pattern, nth], said("from the back", form, pattern, nth))


def changed(rng, text):
    """The same bytes, or some that are near to them."""
    how = rng.random()
    if how < 0.3 or not text:
        return text
    if how < 0.5:
        return text[:rng.randint(0, len(text))]
    if how < 0.6:
        return text + rng.choice([b"\0", b"x", bytes(UNIT)])
    at = rng.choice([near_border(rng, len(text), 1), rng.randrange(len(text))])
    return text[:at] + bytes([text[at] ^ rng.choice([1, 128, 255])]) + text[at + 1:]


def lengthened(form, more):
    """The same with zeros behind it; they are a gap, where the form is stored."""
    length = len(form.text) + more
    return Form(f"longer {form.name}", f"securefile_truncate({form.sql}, %s)", form.params + [length], form.text + bytes(more))


def compare(run, rng, form, word):
    if rng.random() < 0.2:
        form = lengthened(form, rng.choice([1, UNIT, 2_000_000]))
    other = another(run, rng, changed(rng, form.text))
    pair = [form, other] if rng.random() < 0.5 else [other, form]
    if rng.random() < 0.15:
        pair[1] = form			# the same place twice
    start = some_position(rng, form.text)
    count = bad_or(rng, rng.choice([None, None, some_count(rng, form.text), LAST]), [-1, LEAST])
    starts = [bad_or(rng, start, [0, LEAST, LAST, None]), bad_or(rng, rng.choice([start, start, 1]), [0, -1, LAST, None])]
    if rng.random() < 0.3:
        count, starts = None, [1, 1]
    want = model.compare(pair[0].text, pair[1].text, count, *starts)
    params = pair[0].params + pair[1].params
    if (count, starts) == (None, [1, 1]):
        run.scalar("compare", want, f"securefile_compare({pair[0].sql}, {pair[1].sql})", params, said("compare", *pair))
    else:
        run.scalar("compare", want, f"securefile_compare({pair[0].sql}, {pair[1].sql}, %s, %s, %s)", params + [count] + starts,
                   said("compare", *pair, count, *starts))


# ---- values that are made of others ----

def made(run, rng, form, name, want, sql, params, what):
    """One case: the value of an expression; sometimes it is stored, in another row, or in
    that of the form, which has these bytes then."""
    how = rng.random()
    if how < 0.6 or not isinstance(want, bytes):
        run.value(name, want, sql, params, what)
        return
    if how < 0.8 and form.row:
        path, key = form.row
        run.conn.execute(f"UPDATE {path} SET doc = {sql.replace(form.sql, 'doc')} WHERE id = {key}", params)
        form.text = want
        run.value(name, want, form.sql, form.params, f"{what}, stored in its row")
        return
    stored = insert(run.conn, rng.choice(run.tables), want, sql, params)
    run.value(name, want, stored.sql, [], f"{what}, stored in {stored.name}")


def range_of(rng, text):
    """Start and count of a range, either of which may be wrong, or NULL."""
    return (bad_or(rng, some_position(rng, text), [0, -1, LEAST, LAST, None]),
            bad_or(rng, some_count(rng, text), [-1, LEAST, LAST, None]))


def ends_too_far(*numbers):
    """A sum that no bigint holds: cut at the end of the value, or refused."""
    return None not in numbers and sum(numbers) > LAST


def lenient(want, *numbers):
    return Choice([want, Refused("22003")]) if ends_too_far(*numbers) and not isinstance(want, Refused) else want


def part(run, rng, form, word):
    start, count = range_of(rng, form.text)
    # no count, and a NULL: all that follows
    count = None if rng.random() < 0.2 else count
    arguments = [start] if count is None and rng.random() < 0.5 else [start, count]
    made(run, rng, form, "part", lenient(model.part(form.text, start, count), start, count),
         f"securefile_part({form.sql}{', %s' * len(arguments)})", form.params + arguments, said("part", form, start, count))


def overlay(run, rng, form, word):
    new = form.text[slice(*some_range(rng, form.text))] if rng.random() < 0.6 else rng.randbytes(rng.choice([0, 1, 100, UNIT]))
    placed = another(run, rng, new)
    start, count = range_of(rng, form.text)
    if count is not None and count < 0:
        count = 0				# bytea has rules for that, this function may have others
    want = model.overlay(form.text, placed.text, start, count)
    sql = f"securefile_overlay({form.sql}, {placed.sql}, %s" + (")" if count is None else ", %s)")
    replaced = len(placed.text) if count is None and placed.text is not None else count
    made(run, rng, form, "overlay", lenient(want, start, replaced), sql,
         form.params + placed.params + [start] + ([] if count is None else [count]), said("overlay", form, placed, start, count))


def erase(run, rng, form, word):
    start, count = range_of(rng, form.text)
    made(run, rng, form, "erase", lenient(model.erase(form.text, start, count), start, count),
         f"securefile_erase({form.sql}, %s, %s)", form.params + [start, count], said("erase", form, start, count))


def insert_into(run, rng, form, word):
    new = another(run, rng, rng.randbytes(rng.choice([0, 1, 10, 5000, UNIT, UNIT + 1])))
    start = bad_or(rng, some_position(rng, form.text), [0, -1, LEAST, None, len(form.text) + rng.choice([2, 5000, UNIT, 300_000])])
    made(run, rng, form, "insert", model.insert(form.text, start, new.text), f"securefile_insert({form.sql}, %s, {new.sql})",
         form.params + [start] + new.params, said("insert", form, start, new))


def delete(run, rng, form, word):
    start, count = range_of(rng, form.text)
    made(run, rng, form, "delete", lenient(model.delete(form.text, start, count), start, count),
         f"securefile_delete({form.sql}, %s, %s)", form.params + [start, count], said("delete", form, start, count))


def move(run, rng, form, word):
    """Ranges within the value, to places within it; a destination that lies in the range."""
    length = len(form.text)
    start = rng.randint(1, length + 1)
    count = rng.choice([0, rng.randint(0, length + 1 - start), min(UNIT, length + 1 - start)])
    destination = rng.choice([1, length + 1, start, start + count, rng.randint(1, length + 1), start + 1, start + count - 1])
    destination = max(1, destination)
    bad = rng.random()
    if bad < 0.06:
        start = rng.choice([0, LEAST, None])
    elif bad < 0.12:
        count = rng.choice([-1, LEAST, None])
    made(run, rng, form, "move", model.move(form.text, start, count, destination), f"securefile_move({form.sql}, %s, %s, %s)",
         form.params + [start, count, destination], said("move", form, start, count, destination))


# ---- sets of values, texts ----

def joined(run, rng, form, word):
    """securefile_agg() of securefiles or of byteas, in an order, with NULLs between them."""
    forms = [another(run, rng, form.text[slice(*some_range(rng, form.text))]) for _ in range(rng.choice([0, 1, 2, 6]))]
    forms = [f for f in [form] + forms if len(f.text) < LONGEST]
    rng.shuffle(forms)
    cast = rng.choice(["securefile", "bytea"])
    rows = [(f"({f.sql})::{cast}", f.params, f.text) for f in forms] + [(f"NULL::{cast}", [], None)] * rng.choice([0, 1])
    rng.shuffle(rows)
    shown = ", ".join(f"({n}, {sql})" for n, (sql, _, _) in enumerate(rows))
    if not rows:
        return
    made(run, rng, Form("", "", [], b""), "agg", model.joined([text for _, _, text in rows]),
         f"(SELECT securefile_agg(v ORDER BY n) FROM (VALUES {shown}) s (n, v))", [p for _, params, _ in rows for p in params],
         f"agg of {len(rows)} {cast}s")


def words_of(rng, length):
    """A text with lines of all lengths, letters of one to four bytes."""
    letters = rng.choice(["abc ", "aé€ ", "x\U0001f600ü", "long"])
    ends = rng.choice([3, 60, 5000, 400_000])
    out, size = [], 0
    while size < length:
        line = "".join(rng.choices(letters, k=rng.randint(0, 50))) * max(1, rng.randint(0, ends) // 50)
        out.append(line)
        size += len(line.encode()) + 1
    return "\n".join(out) + rng.choice(["", "\n"])


def lines(run, rng, form, word):
    """A text of its own; sometimes with bytes that no text has."""
    text = words_of(rng, rng.choice([0, 10, 3000, UNIT, 300_000]))
    encoding, name = rng.choice([("utf-8", "UTF8"), ("utf-8", None), ("latin-1", "LATIN1")])
    data = text.encode(encoding, "replace" if encoding == "latin-1" else "strict")
    if rng.random() < 0.2:
        at = near_border(rng, len(data), 1)
        data = data[:at] + rng.choice([b"\xff", b"\xc3", b"\0", b"\xed\xa0\x80"]) + data[at + 1:]
    document = another(run, rng, data)
    want = model.lines(data, encoding)
    call = f"securefile_lines({document.sql}" + (")" if name is None else ", %s)")
    params = document.params + ([] if name is None else [name])
    run.column("lines", want, rng.choice([f"SELECT l FROM {call} l", f"SELECT {call}"]), params, said("lines", document, name))


# ---- values beyond all memory ----

def giant(run, rng, form, word):
    """The bytes between two gaps, of which neither is looked through."""
    text = form.text
    before, behind = rng.choice([2**60, 2**40 + rng.randint(0, PART), 2**31 + 5]), rng.choice([0, 1, UNIT, 2**60])
    total = before + len(text) + behind
    gap = "securefile_truncate('\\x'::securefile, %s)"
    sql = f"securefile_truncate({gap} || {form.sql}, %s)"
    params = [before] + form.params + [total]
    if rng.random() < 0.3:
        stored = insert(run.conn, rng.choice([t for t in run.tables if t != "temporary"]), b"", sql, params)
        sql, params = stored.sql, []
    what = f"{before} zeros, {form}, {behind} zeros"
    pattern = rng.choice([some_pattern(rng, text, word), at_a_gap(rng, text)])
    if pattern.strip(b"\0") and not has_many(text, pattern):
        search_between_gaps(run, rng, sql, params, (text, pattern, before, behind), what)
    find_zeros(run, rng, sql, params, zero_runs(text, before, behind), what)
    edit_between_gaps(run, rng, sql, params, (text, before, total), what)


def at_a_gap(rng, text):
    """Bytes that are half in a gap."""
    zeros, size = bytes(rng.choice([1, 2, 7, 5000, UNIT + 1])), rng.choice([1, 3, 5000])
    return rng.choice([zeros + text[:size], text[-size:] + zeros])


def zero_runs(text, before, behind):
    """Where the zeros are: (first position, number) of each run of them, gaps included."""
    ends = [0] + [end for match in re.finditer(rb"[^\0]+", text) for end in match.span()] + [len(text)]
    runs = [[before + start + 1, end - start] for start, end in zip(ends[::2], ends[1::2])]
    runs[0] = [1, before + runs[0][1]]
    runs[-1][1] += behind
    return runs


def find_zeros(run, rng, sql, params, runs, what):
    """The nth match of a pattern of zeros, by counting; at the ends of runs, above all."""
    size = rng.choice([1, 5, UNIT])
    spans = [(start, length - size + 1) for start, length in runs if length >= size]
    total = sum(count for _, count in spans)
    ends = [sum(count for _, count in spans[:n]) for n in range(len(spans) + 1)]
    for nth in [rng.choice([1, 2, 10**6]), max(1, rng.choice(ends) + rng.choice([0, 1])), total + 1]:
        for start, number in [(1, nth), (-1, total + 1 - nth)]:
            if not 0 < number:
                continue
            want = nth_of(spans, nth)
            run.scalar("giant", want, f"securefile_position({sql}, %b, %s, %s)", params + [bytes(size), start, number],
                       f"{number} of {size} zeros from {start} in {what}")


def nth_of(spans, nth):
    for start, count in spans:
        if nth <= count:
            return start + nth - 1
        nth -= count
    return 0


def search_between_gaps(run, rng, sql, params, parts, what):
    text, pattern, before, behind = parts
    edge = len(pattern)
    window = bytes(edge) + text + bytes(min(behind, edge))
    found = [at + before - edge for at in model.positions(window, pattern, 1, MANY)]
    if len(found) == MANY:
        return
    nth = rng.randint(1, len(found) + 1)
    want, last = (found[nth - 1], found[-nth]) if nth <= len(found) else (0, 0)
    run.scalar("giant", want, f"securefile_position({sql}, %b, 1, %s)", params + [pattern, nth], said("position", what, pattern, nth))
    run.scalar("giant", last, f"securefile_position({sql}, %b, -1, %s)", params + [pattern, nth], said("from the back", what, pattern, nth))
    run.column("giant", found, f"SELECT p FROM securefile_positions({sql}, %b) p", params + [pattern], said("positions", what, pattern))


def edit_between_gaps(run, rng, sql, params, parts, what):
    """A part, and lengths of values that are made of it."""
    text, before, total = parts
    start, end = some_range(rng, text)
    run.value("giant", text[start:end], f"securefile_part({sql}, %s, %s)", params + [before + start + 1, end - start], f"part of {what}")
    for length, call, arguments in [(total, "erase", [before, LAST - before]), (before - 1, "delete", [before, LAST - before]),
                                    (total, "move", [before + 1, len(text), 1])]:
        run.scalar("giant", length, f"length(securefile_{call}({sql}, %s, %s{', %s' * (len(arguments) - 2)}))", params + arguments,
                   said(call, what, *arguments))
    longer = f"length(securefile_insert({sql}, %s, %b::bytea::securefile))"
    run.scalar("giant", total + len(text), longer, params + [before, text], said("insert", what, before))
    run.scalar("giant", Refused("22003", "54000"), longer, params + [LAST, b"too long"], said("insert", what, LAST))
    run.scalar("giant", 0, f"securefile_compare({sql}, {sql})", params + params, f"{what} with itself")


CALLS = [(1, "read", read), (3, "position", position_in), (8, "position", position), (4, "positions", positions), (2, "position", reversed_search),
         (5, "compare", compare), (5, "part", part), (4, "overlay", overlay), (4, "erase", erase), (4, "insert", insert_into),
         (4, "delete", delete), (4, "move", move), (2, "agg", joined), (2, "lines", lines), (1, "giant", giant)]
