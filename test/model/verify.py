"""Comparing a whole server with what the clients of the model test say."""

import random
import time

import psycopg

import kept
import option_words
from client import Mismatch, Row
from values import IN_ROW_MAX, stored_bytes

LOAD_TABLES = ("model_shared_0", "model_shared_1")
TYPES = {
    "model_shared": {"a": "securefile", "b": "securefile(filesystem_like_logging)"},
    "model_own": {"a": "securefile(filesystem_like_logging, disable_storage_in_row, cache)",
                  "b": "securefile(nocache)"},
}


def parallel_settings(conn):
    """With them a session makes parallel plans, whatever they cost."""
    forced = "force_parallel_mode" if conn.info.server_version < 160000 else "debug_parallel_query"
    return (f"{forced} = on", "parallel_setup_cost = 0", "parallel_tuple_cost = 0",
            "min_parallel_table_scan_size = 0")


def leaves(options):
    """Every table that has segments of its own."""
    return list(LOAD_TABLES) + [f"model_own_{n}" for n in range(options.clients)]


def root(table):
    return "model_shared" if table.startswith("model_shared") else table


def kept_columns(options):
    """Every column with a segment of its own that has a retention, and whether its limit is tight, or
    somebody changes it."""
    limited = getattr(options, "limited", False)
    return {(table, column): limited or options.kept[root(table), column] == kept.TIGHT
            for table in leaves(options) for column in "ab" if (root(table), column) in options.kept}


def column_type(options, table, column, word, keeps=True):
    """The type of a column, with that word for its compression."""
    if options.type == "bytea":
        return "bytea"
    kind = TYPES["model_shared" if table.startswith("model_shared") else "model_own"][column]
    if (root(table), column) in options.kept:
        size = options.kept[root(table), column]
        kind = option_words.more_words(kind, kept.words(size) if keeps else f"disable_storage_in_row, 'max_size {size}'")
    if getattr(options, "logged", False):
        kind = kind.replace("filesystem_like_logging", "logging")
    if getattr(options, "uncached", False):
        kind = kind.replace(", cache)", ")")
    return option_words.with_words(kind, word)


def has_fault_points(conn):
    try:
        conn.execute("SELECT securefile_fault_fired('io_any')")
        return True
    except psycopg.Error:
        return False


def create(conn, options):
    """The tables: one shared by all clients and partitioned, one for each.  Each column
    begins with some compression, or none.  Some have a retention."""
    rng = random.Random(f"{options.seed}:options")
    plain = options.type == "bytea" or getattr(options, "planted", False)
    options.kept = {} if plain else kept.draw(options.seed, [
        (table, x) for table in ["model_shared"] + leaves(options)[2:] for x in "ab"])
    # somebody may make a limit tight, too
    options.tight = kept.TIGHT in options.kept.values() or bool(options.kept) and getattr(options, "limited", False)
    if options.type != "bytea":
        conn.execute("CREATE EXTENSION IF NOT EXISTS securefile")
    body = ("(id bigint, part int, note int NOT NULL DEFAULT 0 CHECK (note >= 0),"
            " va bigint, vb bigint, a {}, b {}, PRIMARY KEY (id, part))")
    conn.execute("DROP TABLE IF EXISTS model_shared")

    def described(table):
        return body.format(*(column_type(options, table, x, option_words.some_words(rng))
                             for x in "ab"))

    conn.execute(f"CREATE TABLE model_shared {described('model_shared')} PARTITION BY LIST (part)")
    for part, table in enumerate(LOAD_TABLES):
        conn.execute(f"CREATE TABLE {table} PARTITION OF model_shared FOR VALUES IN ({part})")
    for table in leaves(options)[2:]:
        conn.execute(f"DROP TABLE IF EXISTS {table}")
        conn.execute(f"CREATE TABLE {table} {described(table)}")
    if options.type == "bytea":
        for table in leaves(options):
            conn.execute(f"ALTER TABLE {table} ALTER a SET STORAGE EXTERNAL")
    options.fault_points = has_fault_points(conn)
    if options.kept:
        kept.install(conn)
    for table in {table for table, _ in options.kept}:
        conn.execute(kept.watch(table, "jsonb_build_object('id', $1.id, 'part', $1.part)", "$1.v%s"))
    conn.execute(f"""
        CREATE OR REPLACE FUNCTION model_there_and_back(tab regclass, key bigint, fresh bytea)
        RETURNS void LANGUAGE plpgsql AS $$
        DECLARE
            old {options.type};
        BEGIN
            EXECUTE format('SELECT a FROM %s WHERE id = $1', tab) INTO old USING key;
            EXECUTE format('UPDATE %s SET a = $2 WHERE id = $1', tab) USING key, fresh;
            EXECUTE format('UPDATE %s SET a = $2 WHERE id = $1', tab) USING key, old;
        END $$""")


def in_row_max(options, table, column):
    """Longest value that such a column keeps in the row (see create())."""
    stored = table.startswith("model_own") and column == "a" or (root(table), column) in options.kept
    return 0 if stored else IN_ROW_MAX


def read_rows(conn, table, values, where="true"):
    """Rows of a table; each value must be what its id says."""
    rows = {}
    found = conn.cursor(binary=True).execute(
        "SELECT id, part, va, vb, length(a), sha256(a::bytea), length(b), sha256(b::bytea)"
        f" FROM {table} WHERE {where}")
    for key, part, va, vb, alen, asha, blen, bsha in found:
        if key in rows:
            raise Mismatch(f"{table} {key} is there twice")
        rows[key] = Row(part, va, vb)
        check_value(values, f"{table} {key}.a", va, alen, asha)
        check_value(values, f"{table} {key}.b", vb, blen, bsha)
    return rows


def check_value(values, what, vid, length, sha):
    if vid is None:
        if length is not None:
            raise Mismatch(f"{what} is {length} bytes, expected null")
        return
    if length != values.length(vid):
        raise Mismatch(f"{what}, value {vid}: length {length}, expected {values.length(vid)}")
    if bytes(sha) != values.sha256(vid):
        raise Mismatch(f"{what}, value {vid} ({length} bytes): SHA-256 differs")


def differences(want, got):
    """The first keys at which two states of a table differ."""
    keys = [k for k in sorted(set(want) | set(got)) if want.get(k) != got.get(k)]
    return "; ".join(f"{k}: expected {want.get(k)}, found {got.get(k)}" for k in keys[:4])


def client_rows(conn, number, values, options):
    """What the server holds of one client."""
    mine = f"id % {options.clients} = {number}"
    own = f"model_own_{number}"
    return {"model_shared": read_rows(conn, "model_shared", values, mine),
            own: read_rows(conn, own, values)}


def compare(number, got, candidates):
    """The state a client is in; one of the candidates, all of it."""
    for want in candidates:
        if got == want:
            return want
    text = [f"client {number}: rows are not those of any state they may have"]
    for want in candidates:
        for table in want:
            text.append(f"  {table}: {differences(want[table], got[table]) or 'as expected'}")
    raise Mismatch("\n".join(text))


def check_sound(conn, options):
    """securefile_check must have nothing to say."""
    if options.type == "bytea":
        return
    for table in leaves(options):
        for column in "ab":
            found = conn.execute(f"SELECT * FROM securefile_check('{table}', '{column}')"
                                 " LIMIT 5").fetchall()
            if found:
                raise Mismatch(f"securefile_check('{table}', '{column}'): {found}")


def check_kept(conn, options, values):
    """What was removed is listed where it is kept; how many values."""
    listed = 0
    for (table, column), tight in kept_columns(options).items():
        listed += kept.look(conn, table, column, quiet=True, tight=tight, truth=lambda vid: values.sha256(int(vid)))
    return listed


def end_kept(conn, options, rng):
    """Nothing is kept any more."""
    kept.end_all(conn, list(kept_columns(options)), rng, options.fault_points)


def check_space(conn, options, values, states, but=()):
    """With nothing pending, live bytes are those of the values in the rows, which take no
    more than without compression.  but: not these columns."""
    if options.type == "bytea":
        return
    for table in leaves(options):
        for column in "ab":
            if (table, column) in but:
                continue
            settle(conn, table, column)
            check_places(conn, table, column, in_row_max(options, table, column))
            least, most = stored_space(conn, table, column)
            most = min(most, expected_live(options, table, column, values, states)
                       + encryption_space(conn, table, column))
            check_live(conn, table, column, least, most)


def check_live(conn, table, column, least, most):
    """Live bytes are least to most, and with the others those of the file.  Values that share
    space say nothing of how much of it there is: whose each sector is says securefile_check()."""
    *usage, references = conn.execute(
        "SELECT file_bytes, live_bytes, pending_bytes, free_bytes, shared_references"
        f" FROM securefile_usage('{table}', '{column}')").fetchone()
    if references > 0:
        least, most = 0, usage[0]
    if not least <= usage[1] <= most or usage[0] != sum(usage[1:]):
        raise Mismatch(f"securefile_usage('{table}', '{column}'): file, live, pending,"
                       f" free are {tuple(usage)}; live must be {least} to {most}")


def check_places(conn, table, column, longest):
    """Values are in their rows if they are short, or compressed to what is short."""
    odd = conn.execute(
        f"SELECT ctid, s.* FROM ONLY {table}, securefile_storage({column}) s"
        f" WHERE CASE s.form WHEN 'stored' THEN s.length <= {longest}"
        f" ELSE s.length > {longest} AND (s.codec = 'none' OR {longest} = 0"
        f" OR s.stored_bytes > {IN_ROW_MAX + 100}) END LIMIT 3").fetchall()
    if odd:
        raise Mismatch(f"{table}.{column}: values are not where they belong: {odd}")


def stored_space(conn, table, column):
    """Least and most bytes of a segment that the values of a column take by what
    securefile_storage() says.  A unit that is compressed or encrypted ends anywhere in a
    sector, others end with one, but for the last of a value."""
    return tuple(map(int, conn.execute(
        "SELECT coalesce(sum((stored_bytes + 511) / 512 * 512), 0), coalesce(sum(("
        " stored_bytes + 511 * greatest(1, CASE WHEN key_id <> 0 THEN units"
        " ELSE least(units, compressed_units + 1) END)) / 512 * 512), 0)"
        f" FROM ONLY {table}, securefile_storage({column}) WHERE form = 'stored'").fetchone()))


def encryption_space(conn, table, column):
    """Most bytes that encryption adds to the stored values of a column: to each unit the 48
    around it, so that it may need a sector more."""
    return int(conn.execute(
        f"SELECT coalesce(sum(512 * units), 0) FROM ONLY {table}, securefile_storage({column})"
        " WHERE form = 'stored' AND key_id <> 0").fetchone()[0])


def settle(conn, table, column, seconds=180):
    """Maintain until nothing is pending."""
    end = time.time() + seconds
    while True:
        conn.execute(f"SELECT securefile_maintain('{table}', '{column}')")
        pending = conn.execute(f"SELECT pending_bytes FROM"
                               f" securefile_usage('{table}', '{column}')").fetchone()[0]
        if pending == 0:
            return
        if time.time() > end:
            raise Mismatch(f"{table}.{column}: {pending} bytes pending after {seconds} s of"
                           " securefile_maintain() with no other transaction open")
        time.sleep(0.1)


def expected_live(options, table, column, values, states):
    total = 0
    for state in states:
        for name, rows in state["rows"].items():
            for row in rows.values():
                leaf = f"{name}_{row.part}" if name == "model_shared" else name
                vid = row.va if column == "a" else row.vb
                if leaf == table and vid is not None:
                    total += stored_bytes(values.length(vid), in_row_max(options, table, column))
    return total
