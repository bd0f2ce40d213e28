"""PgBouncer: transaction pooling in front of the server, with psycopg and asyncpg."""

import asyncio
import io
import os
import pwd
import re
import shutil
import socket
import subprocess
import tempfile
import time

import asyncpg
import psycopg

from trial import DATABASE, HOST, LONG, MB, PAYLOADS, PORT, USER, Stack, bytes_of

stack = Stack("PgBouncer", "pgbouncer_docs")
stack.make_table()

SETTINGS = """
[databases]
pooled = host={host} port={port} dbname={database} pool_mode=transaction pool_size=2
sessions = host={host} port={port} dbname={database} pool_mode=session
[pgbouncer]
listen_addr = 127.0.0.1
listen_port = {listen}
unix_socket_dir =
auth_type = trust
auth_file = {directory}/users
ignore_startup_parameters = extra_float_digits
{more}
"""


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def start(program, directory, more):
    """PgBouncer, which refuses to be root, and its port."""
    listen = free_port()
    with open(f"{directory}/users", "w") as file:
        file.write(f'"{USER}" ""\n')
    with open(f"{directory}/ini", "w") as file:
        file.write(SETTINGS.format(host=HOST, port=PORT, database=DATABASE, listen=listen, directory=directory, more=more))
    user = pwd.getpwnam("nobody") if os.getuid() == 0 else None
    if user:
        os.chmod(directory, 0o755)
    bouncer = subprocess.Popen([program, "-q", f"{directory}/ini"], user=user and user.pw_uid, stderr=subprocess.DEVNULL)
    while bouncer.poll() is None:
        try:
            socket.create_connection(("127.0.0.1", listen)).close()
            return bouncer, listen
        except ConnectionRefusedError:
            time.sleep(0.05)
    raise RuntimeError("PgBouncer did not start")


def by_psycopg(port):
    with psycopg.connect(port=port, dbname="pooled", autocommit=True, prepare_threshold=None) as conn:

        def store(name, data):
            conn.execute("INSERT INTO pgbouncer_docs VALUES (%s, %b)", (name, data))

        def load(name):
            return conn.execute("SELECT document FROM pgbouncer_docs WHERE name = %s", (name,)).fetchone()[0]

        stack.round_trip(store, load, "psycopg, transactions")

    with psycopg.connect(port=port, dbname="sessions", autocommit=True) as conn:
        for _ in range(2):
            for name, data in PAYLOADS.items():
                conn.execute("INSERT INTO pgbouncer_docs VALUES (%s, %s) ON CONFLICT (name) DO UPDATE SET document = excluded.document", (name, data), prepare=True)
        read = dict(conn.execute("SELECT * FROM pgbouncer_docs", prepare=True).fetchall())
        stack.ok(read == PAYLOADS, "psycopg, sessions, prepared statements")


def in_pieces(port):
    """Handles, which stay within a transaction, by more clients than there are connections."""
    clients = [psycopg.connect(port=port, dbname="pooled", prepare_threshold=None) for _ in range(5)]
    for number, conn in enumerate(clients):
        data = bytes_of(200 * MB if LONG and not number else 3 * MB + number)
        file = io.BytesIO(data)
        new = conn.execute("SELECT securefile_create('pgbouncer_docs', 'document')").fetchone()[0]
        while piece := file.read(MB):
            conn.execute("SELECT securefile_write(%s, %b)", (new, piece))
        conn.execute("INSERT INTO pgbouncer_docs VALUES (%s, securefile_finish(%s))", (f"piece {number}", new))
        conn.commit()
        stack.ok(stack.stored(f"piece {number}", data), f"{len(data)} bytes are written in pieces")
    for conn in clients:
        conn.close()


async def by_asyncpg(port):
    conn = await asyncpg.connect(port=port, database="pooled", statement_cache_size=0)
    stack.server.execute("DELETE FROM pgbouncer_docs")
    for name, data in PAYLOADS.items():
        await conn.execute("INSERT INTO pgbouncer_docs VALUES ($1, $2)", name, data)
        read = await conn.fetchval("SELECT document FROM pgbouncer_docs WHERE name = $1", name)
        stack.ok(stack.stored(name, data) and read == data, f"asyncpg, transactions: {name}")
    await conn.close()


async def prepared(port):
    """Statements that stay prepared, although transactions change connections."""
    clients = [await asyncpg.connect(port=port, database="pooled") for _ in range(4)]

    async def read(conn, name):
        return await conn.fetchval("SELECT document FROM pgbouncer_docs WHERE name = $1", name)

    for name, data in PAYLOADS.items():
        got = await asyncio.gather(*(read(conn, name) for conn in clients))
        stack.ok(got == [data] * len(clients), f"asyncpg, transactions, prepared statements: {name}")
    for conn in clients:
        await conn.close()


def main():
    program = shutil.which("pgbouncer", path=os.environ["PATH"] + ":/usr/sbin")
    if not program:
        print("skip - PgBouncer: it is not installed")
        return
    version = tuple(map(int, re.search(r"(\d+)\.(\d+)", subprocess.check_output([program, "--version"], text=True)).groups()))
    keeps_prepared = version >= (1, 21)
    with tempfile.TemporaryDirectory() as directory:
        bouncer, port = start(program, directory, "max_prepared_statements = 100" if keeps_prepared else "")
        try:
            stack.part("psycopg", by_psycopg, port)
            stack.part("in pieces", in_pieces, port)
            stack.part("asyncpg", asyncio.run, by_asyncpg(port))
            if keeps_prepared:
                stack.part("prepared statements", asyncio.run, prepared(port))
            else:
                print("skip - PgBouncer: prepared statements in transaction pooling want 1.21")
        finally:
            bouncer.terminate()
            bouncer.wait()


main()
