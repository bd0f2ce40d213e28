"""What the tests share: connections, bytes, a table."""

import os
import random
import unittest

import psycopg

MB = 1024 * 1024
LONG = bool(os.environ.get("PGSECUREFILE_LONG"))

DATA = random.Random(44).randbytes(3 * MB + 12345)


class Server(unittest.TestCase):
    """Tests with a connection with autocommit, and the empty table docs."""

    table = "CREATE TABLE docs (name text PRIMARY KEY, document securefile, note text)"

    def connect(self, **options):
        conn = psycopg.connect(**{"autocommit": True, **options})
        self.addCleanup(conn.close)
        return conn

    def setUp(self):
        self.conn = self.connect(options="-c client_min_messages=warning")
        self.conn.execute("CREATE EXTENSION IF NOT EXISTS securefile; DROP TABLE IF EXISTS docs")
        self.conn.execute(self.table)
        self.other = self.connect()

    def stored(self, name="a"):
        """What another session sees, read as one value."""
        row = self.other.cursor(binary=True).execute("SELECT document::bytea FROM docs WHERE name = %s", (name,)).fetchone()
        return row and row[0]
