"""The package through PgBouncer, in transaction and in session mode."""

import os
import pwd
import shutil
import socket
import subprocess
import tempfile
import threading
import time
import unittest

import psycopg
from common import DATA, MB, Server

import pgsecurefile

PROGRAM = shutil.which("pgbouncer") or shutil.which("pgbouncer", path="/usr/sbin:/usr/local/sbin")

SETTINGS = """
[databases]
transaction = host={host} port={port} dbname={database} user={user} pool_mode=transaction pool_size=2
session = host={host} port={port} dbname={database} user={user} pool_mode=session pool_size=4
[pgbouncer]
listen_addr = 127.0.0.1
listen_port = {listen}
unix_socket_dir =
auth_type = any
ignore_startup_parameters = extra_float_digits
"""


@unittest.skipUnless(PROGRAM, "there is no pgbouncer")
class Pooled(Server):
    def setUp(self):
        super().setUp()
        info = self.conn.info
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            self.listen = probe.getsockname()[1]
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        with open(f"{folder.name}/ini", "w") as file:
            file.write(SETTINGS.format(host=info.host, port=info.port, database=info.dbname, user=info.user, listen=self.listen))
        os.chmod(folder.name, 0o755)
        user = pwd.getpwnam("nobody").pw_uid if os.getuid() == 0 else None
        bouncer = subprocess.Popen([PROGRAM, "-q", f"{folder.name}/ini"], user=user, stderr=subprocess.DEVNULL)
        self.addCleanup(bouncer.wait)
        self.addCleanup(bouncer.terminate)
        while bouncer.poll() is None:
            try:
                socket.create_connection(("127.0.0.1", self.listen)).close()
                return
            except ConnectionRefusedError:
                time.sleep(0.05)
        self.fail("PgBouncer did not start")

    def pooled(self, mode):
        threshold = None if mode == "transaction" else 5
        return self.connect(host="127.0.0.1", port=self.listen, dbname=mode, prepare_threshold=threshold)

    def test_modes(self):
        """more clients than connections: put, get, files, get_many, the type"""
        for mode, clients in (("transaction", 5), ("session", 3)):
            failed = []
            threads = [threading.Thread(target=self.client, args=(mode, number, failed)) for number in range(clients)]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
            self.assertEqual(failed, [], mode)

    def client(self, mode, number, failed):
        try:
            self.work(self.pooled(mode), f"{mode} {number}", DATA[number:])
        except Exception as error:
            failed.append(error)

    def work(self, conn, name, data):
        where = (conn, "docs", "document")
        for _ in range(6):  # past psycopg's own threshold
            pgsecurefile.put(*where, name, data[:100])
        pgsecurefile.put(*where, name, data)
        with pgsecurefile.open(*where, name, "r+b") as file:
            file.seek(-3, 2)
            file.write(b"end")
        expected = data[:-3] + b"end"
        assert pgsecurefile.get(*where, name) == expected
        assert pgsecurefile.get_many(*where, [name, "none"]) == [expected, None]
        pgsecurefile.register(conn)
        with conn.cursor().copy("COPY docs (name, document) FROM STDIN (FORMAT binary)") as copy:
            copy.set_types(["text", "securefile"])
            copy.write_row((f"{name} copied", expected))
        assert self.stored(f"{name} copied") == expected

    def cancelled(self, conn):
        stop = lambda done, total: done == MB and conn.cancel()  # noqa: E731
        pgsecurefile.put(conn, "docs", "document", "a", bytes(9 * MB), progress=stop)

    def test_lost(self):
        """a cancel, an exception, and a connection that ends"""
        for mode in "transaction", "session":
            conn = self.pooled(mode)
            pgsecurefile.put(self.conn, "docs", "document", "a", DATA)
            with self.assertRaises(psycopg.errors.QueryCanceled):
                self.cancelled(conn)
            with self.assertRaises(ZeroDivisionError), pgsecurefile.open(conn, "docs", "document", "a", "w") as file:
                file.write(bytes(5 * MB))
                1 / 0  # noqa: B018
            file = pgsecurefile.open(conn, "docs", "document", "a", "w")
            file.write(bytes(5 * MB))
            (pid,) = conn.execute("SELECT pg_backend_pid()").fetchone()
            self.other.execute("SELECT pg_terminate_backend(%s, 10000)", (pid,))
            self.assertRaises(psycopg.OperationalError, file.write, bytes(9 * MB))
            self.assertEqual(self.stored(), DATA)
