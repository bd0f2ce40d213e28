"""What columns with a retention keep of removed values, for the random tests.

A trigger notes each value that a row loses, in the transaction that takes it: what is committed of these notes is
what securefile_removed() must list, also after a crash, and whatever clients know.  A value is told by its locator,
which no other value ever has.  Values in rows are not noted, nor those that the same transaction has made.

What ends the list is noted, too, as a window of time: a purge, or a column that was without its retention for a
while.  A value that was lost before the end of a window may be listed or not; those of before a purge are not, since
their notes are deleted.  Under pressure any may be missing, mostly the oldest: those whose space comes first.
"""

import random
import time
from collections import namedtuple

import psycopg

from client import Mismatch

DIGEST_MAX = 1024 * 1024	# of longer values the trigger notes no digest
AMPLE = "64 GB"
TIGHT = "96 MB"				# so little that the oldest ends by and by

RAW = """
    CREATE TYPE raw;
    CREATE FUNCTION raw_in(cstring) RETURNS raw LANGUAGE internal IMMUTABLE STRICT AS 'byteain';
    CREATE FUNCTION raw_out(raw) RETURNS cstring LANGUAGE internal IMMUTABLE STRICT AS 'byteaout';
    CREATE TYPE raw (INPUT = raw_in, OUTPUT = raw_out, LIKE = securefile);
    CREATE CAST (securefile AS raw) WITHOUT FUNCTION;
    CREATE CAST (raw AS bytea) WITHOUT FUNCTION"""

# unsure: its segment, its options or its row are of this transaction, which may have made the value without a
# trigger (securefile_rewrite()); or the statement sees the catalog as it was, and the server as it is.
# left_alone: an UPDATE has left the value as it was
INSTALL = f"""
    DROP TABLE IF EXISTS public.kept_lost, public.kept_made, public.kept_ended;
    CREATE TABLE public.kept_lost (relid oid, attnum int, loc uuid, filenode oid, kind text, key jsonb, length bigint,
        sha bytea, said text, xid xid8 DEFAULT pg_current_xact_id(), at timestamptz DEFAULT clock_timestamp(), unsure bool);
    CREATE INDEX ON public.kept_lost (relid, attnum);
    CREATE UNLOGGED TABLE public.kept_made (loc uuid, left_alone bool, xid xid8 DEFAULT pg_current_xact_id());
    CREATE INDEX ON public.kept_made (loc);
    CREATE TABLE public.kept_ended (id serial PRIMARY KEY, relid oid, attnum int, older interval, purge bool,
        began pg_snapshot DEFAULT pg_current_snapshot(), done_xid xid8, done timestamptz);
    -- arguments: the key of $1, a row, and what the row says of a column, %s
    CREATE OR REPLACE FUNCTION public.kept_note() RETURNS trigger LANGUAGE plpgsql AS $$
    DECLARE
        c record;
        lost bytea;
        got bytea;
        stored text;
        mine bool;
    BEGIN
        IF TG_OP <> 'INSERT' THEN
            mine := OLD.xmin::text::bigint >= pg_current_xact_id()::text::bigint;
        END IF;
        FOR c IN SELECT a.attnum, a.attname, s.relfilenode, greatest(a.xmin::text::bigint, s.xmin::text::bigint)
                >= pg_current_xact_id()::text::bigint OR current_setting('transaction_isolation') <> 'read committed' AS unsure
            FROM pg_attribute a, securefile_column_names(a.attrelid, a.attnum) n, pg_class s
            WHERE a.attrelid = TG_RELID AND a.attnum > 0 AND NOT a.attisdropped AND a.atttypid = 'securefile'::regtype
                AND (format_type(a.atttypid, a.atttypmod) LIKE '%retention%'
                    OR current_setting('transaction_isolation') <> 'read committed') AND s.oid = n.segment_relid
        LOOP
            lost := NULL;
            got := NULL;
            stored := format('SELECT x FROM (SELECT ($1.%I::raw)::bytea AS x OFFSET 0) s WHERE get_byte(x, 0) = 2', c.attname);
            IF TG_OP <> 'INSERT' THEN
                EXECUTE stored INTO lost USING OLD;
            END IF;
            IF TG_OP <> 'DELETE' THEN
                EXECUTE stored INTO got USING NEW;
            END IF;
            IF lost IS NOT DISTINCT FROM got THEN
                IF lost IS NOT NULL AND NOT mine THEN
                    INSERT INTO public.kept_made (loc, left_alone) VALUES (md5(lost)::uuid, true);
                END IF;
                CONTINUE;
            END IF;
            IF lost IS NOT NULL AND NOT EXISTS (SELECT FROM public.kept_made WHERE loc = md5(lost)::uuid
                    AND xid = pg_current_xact_id() AND NOT left_alone) THEN
                EXECUTE format('INSERT INTO public.kept_lost (relid, attnum, loc, filenode, kind, key, length, sha, said, unsure)'
                    || ' SELECT $2, $3, $4, $5, $6, %1$s, length($1.%3$I), CASE WHEN length($1.%3$I) <= {DIGEST_MAX}'
                    || ' THEN sha256($1.%3$I::bytea) END, %2$s, $7', TG_ARGV[0], format(TG_ARGV[1], c.attname), c.attname)
                    USING OLD, TG_RELID, c.attnum, md5(lost)::uuid, c.relfilenode,
                        CASE TG_OP WHEN 'DELETE' THEN 'deleted' ELSE 'replaced' END,
                        c.unsure OR mine AND NOT EXISTS (SELECT FROM public.kept_made WHERE loc = md5(lost)::uuid
                            AND xid = pg_current_xact_id());
            END IF;
            IF got IS NOT NULL THEN
                INSERT INTO public.kept_made (loc, left_alone) VALUES (md5(got)::uuid, false);
            END IF;
        END LOOP;
        RETURN NULL;
    END $$"""

# affected: something may have ended it early
LOST = """
    SELECT loc, filenode, kind, key, length, sha, said, xid::text::bigint AS xid, extract(epoch FROM at)::float8 AS at,
        unsure OR EXISTS (SELECT FROM public.kept_ended w WHERE w.relid = l.relid AND w.attnum = l.attnum
            AND NOT coalesce(l.xid > w.done_xid, false)
            AND NOT coalesce(w.older > '0' AND l.at > w.done - w.older, false)) AS unsure
    FROM public.kept_lost l WHERE relid = %s AND attnum = %s"""
Lost = namedtuple("Lost", "filenode kind key length sha said xid at unsure")

LIST = f"""
    SELECT md5((document::raw)::bytea)::uuid, extract(epoch FROM removed_at)::float8, xid::text::bigint, row_key, kind,
        length, CASE WHEN random() < %s AND length <= {DIGEST_MAX} THEN sha256(document::bytea) END
    FROM securefile_removed(%s, %s)"""
Listed = namedtuple("Listed", "at xid key kind length sha")

STATE = """
    SELECT a.attrelid, a.attnum, s.relfilenode, format_type(a.atttypid, a.atttypmod) LIKE '%%retention%%'
    FROM pg_attribute a LEFT JOIN LATERAL securefile_column_names(a.attrelid, a.attnum) n ON true
        LEFT JOIN pg_class s ON s.oid = n.segment_relid
    WHERE a.attrelid = %s::regclass AND a.attname = %s"""


def words(size):
    """Option words of a column that keeps all it loses."""
    return f"disable_storage_in_row, 'retention 7 days', 'max_size {size}'"


def draw(seed, columns):
    """A third of these columns, and the limit of each.  Now and then it is tight."""
    rng = random.Random(f"{seed}:kept")
    size = TIGHT if rng.random() < 0.25 else AMPLE
    return {column: size for column in columns if rng.random() < 0.34}


def make_raw(conn):
    """The type that shows the bytes of a locator."""
    if conn.execute("SELECT to_regtype('raw') IS NULL").fetchone()[0]:
        for statement in RAW.split(";\n"):
            conn.execute(statement)


def install(conn):
    """The trigger and its tables."""
    make_raw(conn)
    conn.execute(INSTALL)


def watch(table, key="jsonb_build_object('id', $1.id)", said="NULL"):
    """Statements that put the trigger on a table."""
    key, said = (text.replace("'", "''") for text in (key, said))
    return (f"CREATE TRIGGER zzz_kept AFTER INSERT OR UPDATE OR DELETE ON {table} FOR EACH ROW"
            f" EXECUTE FUNCTION public.kept_note('{key}', '{said}');"
            f"ALTER TABLE {table} ENABLE ALWAYS TRIGGER zzz_kept")


# ---- looking ----

def state(conn, table, column):
    return conn.execute(STATE, (table, column)).fetchone()


def notes(conn, relid, attnum):
    return {loc: Lost(*row) for loc, *row in conn.execute(LOST, (relid, attnum), binary=True).fetchall()}


def text(found):
    """(In a database of SQL_ASCII a text is bytes.)"""
    return found.decode() if isinstance(found, bytes) else found


def compare_one(what, lost, listed, truth):
    """One value that is listed with its note.  A DELETE may be that of a row which moves."""
    kinds = ("deleted", "moved") if text(lost.kind) == "deleted" else (text(lost.kind),)
    sha = lost.sha
    if listed.sha is not None and truth:
        sha = truth(text(lost.said))
    if listed.key != lost.key or text(listed.kind) not in kinds or listed.length != lost.length \
            or listed.xid < lost.xid or listed.at < lost.at - 0.001 \
            or listed.sha is not None and bytes(listed.sha) != bytes(sha):
        raise Mismatch(f"{what}: listed is {listed}, removed was {lost}")


def unknown(conn, relid, attnum, listed, lost):
    """Those of the list that nobody has removed.  A transaction that has committed is seen a moment later."""
    for _ in range(40):
        strange = [loc for loc in listed if loc not in lost]
        if not strange:
            break
        lost.update(notes(conn, relid, attnum))
        time.sleep(0.05)
    return strange


def ends(conn, table, column):
    """What changes when something of a column may end but by pressure; and does something just now?"""
    relid, attnum, *rest = state(conn, table, column)
    windows, begun = conn.execute("SELECT count(*), count(*) - count(done) FROM public.kept_ended"
                                  " WHERE relid = %s AND attnum = %s", (relid, attnum)).fetchone()
    return (relid, attnum, *rest, windows), begun > 0


def read_list(conn, table, column, quiet, tight, share):
    """What is listed; None if some of it has ended while it was read."""
    for attempt in range(3):
        before, ending = ends(conn, table, column)
        try:
            return conn.execute(LIST, (share, table, column), binary=True).fetchall()
        except (psycopg.errors.UndefinedObject, psycopg.errors.DataCorrupted):
            calm = not ending and ends(conn, table, column)[0] == before
            if calm and (not tight or quiet and attempt == 2):
                raise
    return None


def look(conn, table, column, quiet=False, tight=False, truth=None, share=1.0):
    """Compare what is listed of a column with what rows have lost; the number of values that are listed.

    quiet: nobody changes the table meanwhile.  truth: SHA-256 of what a row said.  share: of the values read.
    """
    what = f"removed values of {table}.{column}"
    relid, attnum, filenode, keeps = now = state(conn, table, column)
    lost = notes(conn, relid, attnum)
    rows = read_list(conn, table, column, quiet, tight, share)
    if rows is None:
        return 0
    listed = {loc: Listed(*row) for loc, *row in rows}
    if len(listed) != len(rows):
        raise Mismatch(f"{what}: some are listed twice")
    must = dict(lost)
    strange = unknown(conn, relid, attnum, listed, lost)
    if strange:
        raise Mismatch(f"{what}: {listed[strange[0]]} was not removed by what has committed ({len(strange)} of these)")
    for loc, one in listed.items():
        compare_one(what, lost[loc], one, truth)
    if state(conn, table, column) != now:
        return len(listed)
    if not keeps and quiet and listed:
        raise Mismatch(f"{what}: {len(listed)} are listed, and none is kept")
    # but for what has ended meanwhile
    sure = {loc for loc, note in notes(conn, relid, attnum).items() if not note.unsure and note.filenode == filenode}
    absent = [note for loc, note in must.items() if loc in sure and loc not in listed]
    if absent and keeps and not tight:
        raise Mismatch(f"{what}: {absent[0]} is not listed ({len(absent)} of {len(must)} are missing)")
    conn.execute("DELETE FROM public.kept_made WHERE xid < pg_snapshot_xmin(pg_current_snapshot())")
    return len(listed)


def usage(conn, table, column):
    return conn.execute(f"SELECT pending_bytes, retained_bytes FROM securefile_usage('{table}', '{column}')").fetchone()


# ---- what ends it ----

# (a snapshot does not tell which transactions have an id already)
END = "UPDATE public.kept_ended SET done_xid = pg_current_xact_id(), done = clock_timestamp()"

def begin_window(conn, table, column, older="0", purge=True):
    """From now on what was removed may end."""
    relid, attnum, *_ = state(conn, table, column)
    conn.execute("SET synchronous_commit = on")
    return conn.execute("INSERT INTO public.kept_ended (relid, attnum, older, purge) VALUES (%s, %s, %s::interval, %s)"
                        " RETURNING id", (relid, attnum, older, purge)).fetchone()[0]


def end_window(conn, window):
    """It has ended, if that was a purge: nobody knows it any more."""
    conn.execute(f"{END} WHERE id = %s", (window,))
    conn.execute("DELETE FROM public.kept_lost l USING public.kept_ended w WHERE w.id = %s AND w.purge AND w.older = '0'"
                 " AND l.relid = w.relid AND l.attnum = w.attnum AND pg_visible_in_snapshot(l.xid, w.began)", (window,))


def end_windows_of_the_dead(conn, columns):
    """Nobody goes on with what was begun."""
    if columns:
        conn.execute(f"{END} WHERE done IS NULL")


def purge(conn, table, column, older="0"):
    """securefile_purge() of all, or of what was removed longer ago than that."""
    window = begin_window(conn, table, column, older)
    before = time.time()
    if older == "0":
        conn.execute(f"SELECT securefile_purge('{table}', '{column}')")
    else:
        conn.execute(f"SELECT securefile_purge('{table}', '{column}', '{older}')")
    first = conn.execute(f"SELECT extract(epoch FROM min(removed_at) + '{older}')::float8"
                         f" FROM securefile_removed('{table}', '{column}')").fetchone()[0]
    if first is not None and first < before - 0.001:
        raise Mismatch(f"{table}.{column}: a purge of what is older than {older} has left some")
    end_window(conn, window)


def count_listed(conn, table, column):
    return conn.execute(f"SELECT count(*) FROM securefile_removed('{table}', '{column}')").fetchone()[0]


def only_kept_pends(conn, table, column):
    conn.execute(f"SELECT securefile_maintain('{table}', '{column}')")
    pending, retained = usage(conn, table, column)
    return pending == retained


def let_time_pass(conn, columns):
    """All that is kept of all columns ends, since its time is over; not if other space pends somewhere, which would
    be kept from then on.  What has left no space may be listed again when the time is what it was."""
    if not all(only_kept_pends(conn, *column) for column in columns):
        return
    windows = [begin_window(conn, *column, purge=False) for column in columns]
    conn.execute("SELECT securefile_fault('time_passes', 'skip', times => 1000000)")
    try:
        for column in columns:
            conn.execute("SELECT securefile_maintain(%s, %s)", column)
            left = usage(conn, *column), count_listed(conn, *column)
            if left != ((0, 0), 0):
                raise Mismatch(f"{column}: its time is over, and it has {left} (bytes pending and kept, values listed)")
    finally:
        conn.execute("SELECT securefile_fault('time_passes', 'none')")
    # a pass of the monitor may have begun meanwhile, and goes by that time to its end
    for column in columns:
        conn.execute("SELECT securefile_maintain(%s, %s)", column)
    for window in windows:
        end_window(conn, window)


def end_all(conn, columns, rng, faults):
    """Nothing is kept of these columns, all that there are, on which nobody works."""
    if faults and rng.random() < 0.5:
        let_time_pass(conn, columns)
    for column in columns:
        purge(conn, *column)
        listed = count_listed(conn, *column)
        if listed:
            raise Mismatch(f"{column}: {listed} values are listed after their end")
