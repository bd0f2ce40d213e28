"""What the parts of the benchmark share, beside the page: options, tables, and cleaning."""

import argparse
import random
import time

import psycopg

import report

KB, MB, GB = 1000, 1000000, 1000000000

# The ways to keep a document that all parts compare.
ENGINES = {"bytea": "bytea", "logging": "securefile",
           "filesystem_like": "securefile(filesystem_like_logging)"}


def parser(description):
    made = argparse.ArgumentParser(description=description)
    made.add_argument("--quick", action="store_true", help="little data: minutes")
    made.add_argument("--commit", default="unknown", help="of the sources, for the page")
    made.add_argument("--results", required=True, help="directory for all that is written")
    made.add_argument("--directory", required=True, help="where the cluster lies")
    made.add_argument("conninfo")
    return made


def connect(options):
    return psycopg.connect(options.conninfo, autocommit=True, client_encoding="utf8")


def value(conn, query, *arguments):
    return conn.execute(query, arguments or None, binary=True).fetchone()[0]


def wal_position(conn):
    return int(value(conn, "SELECT pg_current_wal_insert_lsn() - '0/0'"))


def facts(conn, options, **more):
    return report.facts(conn, options.commit) | {"quick": options.quick} | more


def make_table(conn, table, type_):
    """id, doc; a column that is just bytea is not compressed."""
    conn.execute(f"DROP TABLE IF EXISTS {table}")
    conn.execute(f"CREATE TABLE {table} (id bigint PRIMARY KEY, doc {type_})")
    if type_ == "bytea":
        conn.execute(f"ALTER TABLE {table} ALTER doc SET STORAGE EXTERNAL")


def is_securefile(conn, table):
    return value(conn, "SELECT count(*) FROM securefile_columns WHERE relid = %s::regclass",
                 table) > 0


def clean(conn, table, column="doc"):
    """Give back what deleted rows had: what autovacuum and the monitor do in time."""
    conn.execute(f"VACUUM {table}")
    if is_securefile(conn, table):
        conn.execute("SELECT securefile_maintain(%s, %s)", [table, column])


def insert(conn, table, number, document):
    conn.execute(f"INSERT INTO {table} VALUES (%s, %b)", [number, document])


def fetch(conn, table, number):
    return value(conn, f"SELECT doc FROM {table} WHERE id = %s", number)


def seconds(function, *arguments):
    begun = time.monotonic()
    function(*arguments)
    return time.monotonic() - begun


def noise(seed, length):
    """Bytes that no codec makes shorter, the same ones for the same seed."""
    return random.Random(seed).randbytes(length)
