"""Tables of the test of handles, and comparing them with what they must hold.

A state is {(table, id): {column: Sparse or None}}.
"""

from contextlib import contextmanager

import psycopg

import kept
import option_words
from client import Lost, Mismatch, difference, is_lost
from values import IN_ROW_MAX
from verify import check_live, has_fault_points, settle

# columns: type, but for its compression, and whether it keeps short values in the row
TABLES = {
    "handles_plain": {"a": ("securefile", True),
                      "b": ("securefile(filesystem_like_logging)", True)},
    "handles_stored": {"a": ("securefile(nocache, disable_storage_in_row)", False),
                       "b": ("securefile(cache, filesystem_like_logging,"
                             " disable_storage_in_row)", False)},
    "handles_leaf": {"a": ("securefile(cache)", True),
                     "b": ("securefile(filesystem_like_logging)", True)},
}
LEAVES = list(TABLES)
COLUMNS = "ab"
WHOLE_MAX = 48 * 1024 * 1024	# longer values are compared in pieces


def some_type(session, table, column, keeps=True):
    """The type of a column, with options by lot."""
    kind = TABLES[table][column][0]
    if (table, column) in session.kept:
        kind = option_words.more_words(kind, kept.words(kept.AMPLE) if keeps
                                       else f"disable_storage_in_row, 'max_size {kept.AMPLE}'")
    return option_words.with_words(kind, option_words.some_words(session.rng))


def create(session):
    """The tables; one of them is the only partition of another."""
    session.sql("CREATE EXTENSION IF NOT EXISTS securefile")
    session.sql("DROP TABLE IF EXISTS handles_plain, handles_stored, handles_parent")
    for table in TABLES:
        name = "handles_parent" if table == "handles_leaf" else table
        session.sql(f"CREATE TABLE {name} (id bigint PRIMARY KEY, a {some_type(session, table, 'a')},"
                    f" b {some_type(session, table, 'b')})"
                    + (" PARTITION BY RANGE (id)" if name != table else ""))
    session.sql("CREATE TABLE handles_leaf PARTITION OF handles_parent"
                " FOR VALUES FROM (MINVALUE) TO (MAXVALUE)")
    if session.kept:
        kept.install(session.conn)
    for table in sorted({table for table, _ in session.kept}):
        session.conn.execute(kept.watch(table))
    session.sql("""
        CREATE OR REPLACE FUNCTION handles_store_twice(fd int, first text, second text)
        RETURNS void LANGUAGE plpgsql AS $$
        DECLARE
            document securefile := securefile_finish(fd);
        BEGIN
            EXECUTE first USING document;
            EXECUTE second USING document;
        END $$""")


def alter_type(session, table, column, keeps=True):
    """Other options for what is written to a column from now on."""
    name = "handles_parent" if table == "handles_leaf" else table
    session.sql(f"ALTER TABLE {name} ALTER {column} TYPE {some_type(session, table, column, keeps)}")


def bring_retention_back(session):
    """The server was killed, perhaps while a column was without it."""
    for table, column in session.kept:
        alter_type(session, table, column)


def change_options(session):
    """Another compression for what is written to a column from now on.  Its retention may be away for a moment."""
    table, column = session.rng.choice(LEAVES), session.rng.choice(COLUMNS)
    if (table, column) in session.kept and session.rng.random() < 0.3:
        session.note(f"{table}.{column} without a retention")
        with living(session.other):
            window = kept.begin_window(session.other, table, column, purge=False)
        alter_type(session, table, column, keeps=False)
        look_at_kept(session, [(table, column)])
        alter_type(session, table, column)
        with living(session.other):
            kept.end_window(session.other, window)
        return
    alter_type(session, table, column)


def in_row(session, table, column):
    return TABLES[table][column][1] and (table, column) not in session.kept


@contextmanager
def living(conn):
    """Lost if the server is gone."""
    try:
        yield
    except psycopg.Error as error:
        if is_lost(error, conn):
            raise Lost(str(error)) from error
        raise


def look_at_kept(session, columns, share=0.1):
    """What is listed of removed values, in the other session: nobody else is at work."""
    for table, column in columns:
        with living(session.other):
            kept.look(session.other, table, column, quiet=True, share=share)


def end_kept(session):
    """Nothing is kept any more: the columns have been purged, or their time is over."""
    if session.kept:
        with living(session.other):
            kept.end_all(session.other, session.kept, session.rng, has_fault_points(session.other))


def compare_keys(session, state):
    """All the rows there are, and the lengths in them."""
    for table in LEAVES:
        got = {key: (a, b) for key, a, b in
               session.sql(f"SELECT id, length(a), length(b) FROM {table}")}
        want = {key: tuple(row[c] and row[c].length for c in COLUMNS)
                for (name, key), row in state.items() if name == table}
        if got != want:
            odd = [key for key in sorted(set(got) | set(want)) if got.get(key) != want.get(key)]
            raise Mismatch(f"{table}: row {odd[0]} is {got.get(odd[0])},"
                           f" expected {want.get(odd[0])} ({len(odd)} differ)")


def compare_row(session, where, row, rng):
    """The values of one row, to the byte; row None: it must not be there."""
    table, key = where
    there = session.sql(f"SELECT count(*) FROM {table} WHERE id = %s", (key,))[0][0]
    if there != (row is not None):
        raise Mismatch(f"{table} {key} is there {there} times")
    for column in COLUMNS if row else ():
        compare_value(session, table, key, column, row[column], rng)


def compare_value(session, table, key, column, content, rng):
    """One value in one of the ways it can be read."""
    if content is None:
        ways = [read_null]
    elif content.length > WHOLE_MAX:
        ways = [read_islands]
    else:
        ways = [read_whole, read_substring, read_chunks]
    way = rng.choice(ways)
    try:
        way(session, f"FROM {table} WHERE id = {key}", column, content, rng)
    except Mismatch as error:
        raise Mismatch(f"{way.__name__}, {table} {key}.{column}: {error}") from error


def same(want, got, what):
    got = None if got is None else bytes(got)
    if want != got:
        raise Mismatch(f"{what}: {difference(want, got)}")


def read_null(session, rest, column, _content, _rng):
    same(None, session.sql(f"SELECT {column}::bytea {rest}")[0][0], "null")


def read_whole(session, rest, column, content, _rng):
    same(content.bytes(), session.sql(f"SELECT {column}::bytea {rest}")[0][0], "all of it")


def read_substring(session, rest, column, content, rng):
    """In pieces of one length."""
    step = max(1, content.length // rng.randint(1, 4))
    for offset in range(0, content.length, step):
        got = session.sql(f"SELECT substring({column}, %s::bigint, %s::bigint) {rest}",
                          (offset + 1, step))[0][0]
        same(content.read(offset, step), got, f"{step} bytes from {offset}")


def read_chunks(session, rest, column, content, rng):
    """As a stream of rows: all of it, or a part."""
    start = rng.choice([0, 0, rng.randint(0, content.length)])
    count = rng.choice([None, rng.randint(0, content.length)])
    size = rng.choice([131072, 262144, 1000003, max(1, content.length // 7)])
    got = [bytes(chunk) for chunk, in session.sql(
        f"SELECT securefile_chunks({column}, %s::bigint, %s::bigint, %s::int) {rest}",
        (start + 1, count, size))]
    want = content.read(start, content.length if count is None else count)
    same(want, b"".join(got), f"chunks of {size} from {start}, {count} bytes")
    lengths = [size] * (len(want) // size) + [len(want) % size] * (len(want) % size > 0)
    if lengths != [len(chunk) for chunk in got]:
        raise Mismatch(f"chunks of {size} from {start} have other lengths")


def read_islands(session, rest, column, content, rng):
    """A long value: all that is not a gap, its ends, and some of the gaps."""
    spots = [(offset, length) for offset, length in content.islands()]
    spots += [(max(0, offset - 700), 1400) for offset, _ in spots]
    spots += [(rng.randrange(content.length), 70000) for _ in range(3)]
    spots += [(max(0, content.length - 300), 1000), (content.length, 10)]
    for offset, length in spots:
        for piece in range(offset, offset + length, WHOLE_MAX):
            count = min(WHOLE_MAX, offset + length - piece)
            got = session.sql(f"SELECT substring({column}, %s::bigint, %s::bigint) {rest}",
                              (piece + 1, count))[0][0]
            same(content.read(piece, count), got, f"{count} bytes from {piece}")


def check(session, table):
    for column in COLUMNS:
        found = session.sql(f"SELECT * FROM securefile_check('{table}', '{column}') LIMIT 5")
        if found:
            raise Mismatch(f"securefile_check('{table}', '{column}'): {found}")


def space_of(content, form, stored, in_row_max):
    """Least and most bytes of a segment that a value takes: by its contents, or, if some of
    it is compressed or encrypted, or it is in pieces, by what securefile_storage() says.  None: it is not where it
    belongs."""
    stored_bytes, units, compressed, codec, key_id, pieces = stored
    least, most = content.stored(in_row_max > 0)
    if form == "inline":
        packed = codec != "none" and in_row_max > 0 and stored_bytes <= IN_ROW_MAX + 100
        return (0, 0) if content.length <= in_row_max or packed else None
    if content.length <= in_row_max:
        return None
    if key_id or pieces > 1:
        return stored_bytes, stored_bytes + 511 * units
    if compressed:
        slack = 511 * min(units, compressed + 1)
        least, most = stored_bytes, min(most, stored_bytes + slack)
    return least, most


def compare_space(session, state):
    """With nothing pending, live bytes are what the values need."""
    look_at_kept(session, session.kept, 1)
    end_kept(session)
    for table in LEAVES:
        for column in COLUMNS:
            settle(session.conn, table, column)
            least = most = 0
            for key, form, *stored in session.sql(
                    "SELECT id, form, stored_bytes, units, compressed_units, codec, key_id, pieces"
                    f" FROM {table}, securefile_storage({column}) WHERE form IS NOT NULL"):
                bounds = space_of(state[table, key][column], form, stored,
                                  IN_ROW_MAX if in_row(session, table, column) else 0)
                if bounds is None:
                    raise Mismatch(f"{table} {key}.{column} is {form}, {stored}")
                least, most = least + bounds[0], most + bounds[1]
            check_live(session.conn, table, column, least, most)
    for table in LEAVES:
        check(session, table)
