#!/usr/bin/python3
"""Random test of twins: securefile beside bytea, through all that a transaction may do.

Random statements in random nested transactions: rows, definitions, compression and
other options, new data keys, cursors, handles, failures, cancels, faults, with savepoints
and rollbacks in any order.  Each is done to a table with securefile columns and to its
twin with bytea columns, in the same transaction.  Columns encrypt at times where the
environment has SECUREFILE_ENCRYPTS, as in the model test.  Both must succeed or fail of the same, and the contents must be equal,
whenever one looks.  Between transactions securefile_check() must be silent; in the end
live bytes are those of the values.

    twins.py --dsn "dbname=postgres" --seed 42 --seconds 15

Exit code 0: sound; 1: not; the last lines tell the seed and how to run it again.
"""

import argparse
import random
import sys
import time
import traceback

import psycopg

import kept
import verify
from client import Mismatch, is_injected
from twin_operations import ALONE, MADE, OPERATIONS, ROWS, Filler
from twin_session import Session, Undone

PREPARE = """
    DROP SCHEMA IF EXISTS sf, ba CASCADE;
    CREATE EXTENSION IF NOT EXISTS securefile;
    CREATE SCHEMA sf; CREATE SCHEMA ba;
    CREATE UNLOGGED TABLE ba.shadow (fd int, content bytea);
    ALTER TABLE ba.shadow ALTER content SET STORAGE EXTERNAL;
    -- compressible; not; the one and then the other, or the other way round
    CREATE OR REPLACE FUNCTION public.twin_text(seed int, len int) RETURNS bytea
    LANGUAGE sql IMMUTABLE PARALLEL SAFE AS $$
        SELECT substring(coalesce(decode(string_agg(repeat(md5(seed || ':' || i), size / 16), '' ORDER BY i), 'hex'), '')
            FOR len) FROM (SELECT CASE WHEN len <= 65536 THEN 512 ELSE 4096 END) s (size),
            generate_series(1, (len + size - 1) / size) i $$;
    CREATE OR REPLACE FUNCTION public.twin_noise(seed int, len int) RETURNS bytea
    LANGUAGE sql IMMUTABLE PARALLEL SAFE AS $$
        SELECT substring(string_agg(block, '') FOR len)
        FROM (SELECT string_agg(sha512(convert_to(seed || ':' || i, 'SQL_ASCII')), '' ORDER BY i) AS block
                FROM generate_series(0, least(len, 160000) / 64) i) b, generate_series(0, len / 160000) n $$;
    CREATE OR REPLACE FUNCTION public.twin_bytes(seed int, len int) RETURNS bytea
    LANGUAGE sql IMMUTABLE PARALLEL SAFE AS $$
        SELECT CASE seed % 7 WHEN 0 THEN public.twin_text(seed, len / 2) || public.twin_noise(seed, len - len / 2)
            WHEN 1 THEN public.twin_noise(seed, len / 3) || public.twin_text(seed, len - len / 3)
            WHEN 2 THEN public.twin_noise(seed, len) WHEN 3 THEN public.twin_noise(seed, len)
            ELSE public.twin_text(seed, len) END $$;
    -- what is not volatile would be kept in pg_attribute, whose rows must not be large
    CREATE OR REPLACE FUNCTION public.twin_fresh(seed int, len int) RETURNS bytea
    LANGUAGE sql VOLATILE AS 'SELECT public.twin_bytes(seed, len + (random() * 0)::int)';
    -- a dictionary, of rows that are alike and go again; where the column cannot have one, nothing
    CREATE OR REPLACE FUNCTION public.twin_train(t regclass, c name) RETURNS void LANGUAGE plpgsql AS $$
    BEGIN
        EXECUTE format('INSERT INTO %s (id, part, %I) SELECT 1000000 + g, part, convert_to(format(''{"number": %%s, "alike":'
            || ' "what all of these have in common", "text": "%%s", "end": true}'', g, md5(g::text)), ''UTF8'')'
            || ' FROM generate_series(1, 120) g, (SELECT coalesce(min(part), 0) AS part FROM %s) x', t, c, t);
        BEGIN
            PERFORM securefile_train(t, c, 1000);
        EXCEPTION WHEN object_not_in_prerequisite_state OR wrong_object_type OR datatype_mismatch
                OR program_limit_exceeded THEN
            NULL;
        END;
        -- the twin does the same, for triggers take notice of these rows
        EXECUTE format('DELETE FROM %s WHERE id > 1000000', t);
    END $$;
    CREATE OR REPLACE FUNCTION public.twin_cut(b bytea, len int) RETURNS bytea
    LANGUAGE sql IMMUTABLE AS $$
        SELECT CASE WHEN length(b) >= len THEN substring(b FOR len)
            ELSE b || decode(repeat('00', len - length(b)), 'hex') END $$;
    CREATE OR REPLACE FUNCTION public.twin_put(b bytea, at int, piece bytea) RETURNS bytea
    LANGUAGE sql IMMUTABLE AS $$
        SELECT overlay(CASE WHEN length(b) < at THEN public.twin_cut(b, at) ELSE b END PLACING piece FROM at + 1) $$;
    CREATE OR REPLACE FUNCTION public.twin_parallel(t regclass, c name) RETURNS text LANGUAGE plpgsql
    SET max_parallel_workers_per_gather = 2 AS $$
    DECLARE
        found text;
    BEGIN
        EXECUTE format('SELECT string_agg(m, '' '' ORDER BY m) FROM (SELECT id || md5(%I::bytea) m FROM ONLY %s) x', c, t)
            INTO found;
        RETURN found;
    END $$"""

# A row's note says what its triggers do
TRIGGERS = """
    CREATE FUNCTION ~.before() RETURNS trigger LANGUAGE plpgsql AS $$
    BEGIN
        IF NEW.note = 3 THEN
            RETURN NULL;
        ELSIF NEW.note = 4 THEN
            NEW.doc := public.twin_bytes(NEW.id, 70000);
        ELSIF NEW.note = 5 THEN
            NEW.doc := NEW.doc || public.twin_bytes(1, 9000);
        ELSIF NEW.note = 6 THEN
            BEGIN
                INSERT INTO ~.log (id, part, note, doc) VALUES (NEW.id, NEW.part, 1 / (NEW.id % 2), NEW.doc)
                    ON CONFLICT (id, part) DO UPDATE SET doc = excluded.doc;
            EXCEPTION WHEN division_by_zero THEN
                NEW.doc := NULL;
            END;
        END IF;
        RETURN NEW;
    END $$;
    CREATE FUNCTION ~.after() RETURNS trigger LANGUAGE plpgsql AS $$
    BEGIN
        IF TG_OP = 'DELETE' THEN
            INSERT INTO ~.log (id, part, doc) VALUES (OLD.id, OLD.part, OLD.doc)
                ON CONFLICT (id, part) DO UPDATE SET doc = excluded.doc;
        ELSIF NEW.note > 6 THEN
            INSERT INTO ~.log (id, part, doc) VALUES (NEW.id, NEW.part, NEW.doc)
                ON CONFLICT (id, part) DO UPDATE SET doc = ~.log.doc || excluded.doc;
        END IF;
        RETURN NULL;
    END $$"""


def prepare(s):
    """Schemas, functions, all tables."""
    s.sql(PREPARE)
    for setting in verify.parallel_settings(s.conn):
        s.sql(f"ALTER FUNCTION public.twin_parallel SET {setting}")
    if not s.sql("SELECT 1 FROM pg_tablespace WHERE spcname = 'twins'"):
        s.sql("SET allow_in_place_tablespaces = on")
        s.sql("CREATE TABLESPACE twins LOCATION ''")
    s.directory = s.sql("SHOW data_directory")[0][0]
    try:
        s.sql("SELECT securefile_fault_reset()")
        s.faults = True
    except psycopg.Error:
        s.faults = False
    kept.install(s.conn)
    s.do(TRIGGERS)
    for text in MADE.values():
        s.do(Filler(s).fill(text))
    s.look()


def settings(s):
    """How this session goes on."""
    s.sql(f"SET securefile.write_gather_size = '{s.rng.choice(['64kB', '64kB', '256kB', '4MB'])}'")
    s.sql(f"SET securefile.io_method = {s.rng.choice(['sync', 'libaio', 'io_uring'])}")
    s.sql(f"SET securefile.io_concurrency = {s.rng.choice([1, 8, 64])}")


def step(s):
    """An operation, or a savepoint, or an end of one."""
    how = s.rng.random()
    if how < 0.10:
        s.savepoint()
    elif how < 0.15:
        s.release()
    elif how < 0.21 and s.saved:
        s.rollback_to(s.rng.randrange(len(s.saved)))
        s.compare()
    else:
        s.look()
        operation = s.rng.choices([op for _, op in OPERATIONS], [w for w, _ in OPERATIONS])[0]
        try:
            operation(s)
        except Undone:
            pass


def transaction(s):
    s.look()
    s.hot = s.rng.sample(sorted(s.tables), min(3, len(s.tables)))
    s.sql("DELETE FROM ba.shadow")
    s.sql("BEGIN" + s.rng.choice(["", "", "", " ISOLATION LEVEL REPEATABLE READ"]))
    for _ in range(s.rng.choice([2, 4, 8, 16, 30, 60])):
        if not s.in_transaction():
            break
        try:
            step(s)
        except psycopg.Error as error:
            if not (s.injected and is_injected(error)):
                raise
            s.recover()
    if s.in_transaction():
        end(s)
    if s.injected:
        s.sql("SELECT securefile_fault_reset()")
    s.cursors = {n: (0, *c[1:]) for n, c in s.cursors.items() if c[2]} if s.committed else {
        n: c for n, c in s.cursors.items() if c[0] == 0}
    s.forget_transaction()


def end(s):
    """COMMIT, ROLLBACK, or in two phases, by another process perhaps."""
    how = s.rng.choice(["COMMIT"] * 6 + ["ROLLBACK"] * 2 + ["COMMIT PREPARED", "ROLLBACK PREPARED"])
    how = how.split()[0] if s.held or not s.prepared else how
    try:
        if not how.endswith("PREPARED"):
            s.sql(how)
            s.committed = how == "COMMIT"
            return
        s.sql("PREPARE TRANSACTION 'twins'")
    except psycopg.Error as error:
        if not (s.injected and is_injected(error)):
            raise
        return
    if s.rng.random() < 0.3:
        s.connect()
    s.sql(f"{how} 'twins'")


def alone(s):
    """A statement outside of transactions."""
    s.look()
    try:
        s.do(Filler(s).choose(ALONE + [(8, "ROWS")]).replace("ROWS", Filler(s).choose(ROWS)))
    except Undone:
        pass


def end_kept(s):
    """What is kept of a column is ended, all or the oldest, or the time of all columns is over."""
    columns = s.keeping()
    how = s.rng.choice(["0", "1 second", "time"])
    s.note(f"-- kept until: {how}")
    if how == "time" and s.faults:
        kept.let_time_pass(s.conn, columns)
    elif columns and how != "time":
        kept.purge(s.conn, *s.rng.choice(columns), how)


def turn(s):
    """A transaction or a statement, and a look at all of it."""
    s.trail.clear()
    s.committed = False
    if s.rng.random() < 0.4:
        settings(s)
    if s.rng.random() < 0.25:
        alone(s)
    else:
        transaction(s)
    if s.rng.random() < 0.5:
        for name in sorted(s.cursors):
            s.fetch(name)
    s.compare()
    s.check()
    s.follow_kept()
    if s.rng.random() < 0.3:
        s.look_at_kept()
    if s.rng.random() < 0.04:
        end_kept(s)


def finish(s):
    """All values in full once more, so that none has gaps, and by today's options: then
    space is what they need."""
    s.connect()
    s.look_at_kept(1)
    s.sql("SET session_replication_role = replica")
    s.look()
    for name, table in s.tables.items():
        for column in table.stored() if table.kind == "r" else ():
            s.sql(f"UPDATE ONLY sf.{name} SET {column} = {column}::bytea")
            s.sql(f"SELECT securefile_rewrite('sf.{name}', '{column}')")
    s.compare()
    s.check()
    kept.end_all(s.conn, s.keeping(), s.rng, s.faults)
    for table, column, options in s.sql(
            'SELECT relid::regclass::text, attname::text, options'
            ' FROM securefile_columns WHERE schemaname = \'sf\' AND segment_relid IS NOT NULL'):
        check_space(s, table, column, options or "")
    s.sql("DROP SCHEMA sf, ba CASCADE")


def check_hashes(s, table, column, options):
    """Of such a column, too: each value in the segment keeps a hash, or none does."""
    odd = s.sql(f"SELECT id, c.form, c.hashed FROM ONLY {table}, securefile_storage({column}) c"
                f" WHERE c.hashed <> (c.form = 'stored' AND {'hash' in options.split('(')[-1]})"
                f" OR securefile_kept_digest({column}) <> securefile_digest({column}, 'sha256') LIMIT 3")
    if odd:
        raise Mismatch(f"{table}.{column}, {options}: rewritten, and other hashes: {odd}")


def check_space(s, table, column, options):
    """A column whose values have all been stored by its present options."""
    longest = 0 if "disable_storage_in_row" in options else 4000
    codecs = (["lz4"] if "compress_low" in options
              else ["zstd", "zstd with dictionary"] if "compress" in options else [])
    verify.settle(s.conn, table, column)
    verify.check_places(s.conn, table, column, longest)
    odd = s.sql(f"SELECT id, c.* FROM ONLY {table}, securefile_storage({column}) c"
                f" WHERE codec <> 'none' AND codec <> ALL (ARRAY{codecs}::text[]) LIMIT 3")
    if odd:
        raise Mismatch(f"{table}.{column}, {options}: rewritten, and compressed otherwise: {odd}")
    odd = s.sql(f"SELECT id, c.* FROM ONLY {table}, securefile_storage({column}) c WHERE length > 0"
                f" AND (key_id <> 0) <> {'encrypt' in options} LIMIT 3")
    if odd:
        raise Mismatch(f"{table}.{column}, {options}: rewritten, and not encrypted as that says: {odd}")
    check_hashes(s, table, column, options)
    least, most = verify.stored_space(s.conn, table, column)
    plain = s.sql(f"SELECT coalesce(sum((length({column}) + 511) / 512 * 512), 0) FROM ONLY {table}"
                  f" WHERE length({column}) > {longest}")[0][0]
    if not codecs:
        least = max(least, plain)
    most = min(most, plain + verify.encryption_space(s.conn, table, column))
    verify.check_live(s.conn, table, column, least, most)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--dsn", default="", help="connection string")
    parser.add_argument("--seconds", type=float, default=15)
    parser.add_argument("--turns", type=int, default=10**9)
    parser.add_argument("--seed", type=int, default=random.SystemRandom().randrange(10**9))
    parser.add_argument("--script", type=argparse.FileType("w"), help="a file for all statements")
    options = parser.parse_args()
    s = Session(options.dsn, random.Random(options.seed), options.script)
    stop = time.time() + options.seconds
    turns = 0
    try:
        prepare(s)
        s.prepared = int(s.sql("SHOW max_prepared_transactions")[0][0]) > 0
        while turns < options.turns and time.time() < stop:
            turn(s)
            turns += 1
        finish(s)
    except Exception as error:
        print("statements of the last transaction:\n    " + ";\n    ".join(s.trail))
        print(f"turn {turns}: {error}" if isinstance(error, Mismatch) else traceback.format_exc())
        print(f"FAILED; again with: {sys.argv[0]} --dsn '{options.dsn}' --seed {options.seed}"
              f" --seconds {options.seconds}")
        return 1
    print(f"sound: seed {options.seed}, {turns} turns, " + ", ".join(f"{n} {k}" for k, n in s.counts.items()))
    return 0


if __name__ == "__main__":
    sys.exit(main())
