"""The program of examples/fastapi_app.py below uvicorn: streams, clients that go in the middle."""

import http.client
import os
import pathlib
import socket
import subprocess
import sys
import tempfile
import time

from common import DATA, LONG, MB, Server

EXAMPLES = pathlib.Path(__file__).parents[1] / "examples"
COUNT = 1024 if LONG else 64

SESSIONS = "FROM pg_stat_activity WHERE application_name = 'uploads'"


class App(Server):
    def setUp(self):
        super().setUp()
        self.conn.execute("DROP TABLE IF EXISTS uploads")
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self.port = free.getsockname()[1]
        self.log = tempfile.TemporaryFile("w+")
        command = [sys.executable, "-m", "uvicorn", "fastapi_app:app", "--port", str(self.port)]
        environment = {**os.environ, "PGAPPNAME": "uploads", "PYTHONWARNINGS": ""}
        self.app = subprocess.Popen(command, cwd=EXAMPLES, env=environment, stdout=self.log, stderr=self.log)
        self.addCleanup(self.log.close)
        self.addCleanup(self.app.wait)
        self.addCleanup(self.app.kill)
        self.until(self.listens)

    def listens(self):
        with socket.socket() as probe:
            return probe.connect_ex(("127.0.0.1", self.port)) == 0

    def until(self, what):
        for _ in range(1200):
            if what():
                return
            if self.app.poll() is not None:
                break
            time.sleep(0.05)
        self.log.seek(0)
        raise self.failureException(f"waited in vain: {self.log.read()}")

    def asked(self, method, path, body=None, **headers):
        """An answer whose body is not read yet."""
        web = http.client.HTTPConnection("127.0.0.1", self.port)
        self.addCleanup(web.close)
        web.request(method, path, body, headers)
        return web.getresponse()

    def count(self, condition):
        return self.other.execute(f"SELECT count(*) {SESSIONS} AND {condition}").fetchone()[0]

    def quiet(self):
        """No session has a transaction, or works."""
        return self.count("(state <> 'idle' OR xact_start IS NOT NULL)") == 0

    def memory(self):
        """In KB, the most so far."""
        lines = pathlib.Path(f"/proc/{self.app.pid}/status").read_text().splitlines()
        return int(next(line for line in lines if line.startswith("VmHWM")).split()[1])

    def test_streams(self):
        """the program of doc/drivers.md: uploads and downloads of any length in constant memory, ranges"""
        self.assertEqual(self.asked("PUT", "/files/a/1.mp4", DATA).read(), b'{"size":%d}' % len(DATA))
        self.assertEqual(self.asked("GET", "/files/a/1.mp4").read(), DATA)
        part = self.asked("GET", "/files/a/1.mp4", Range="bytes=7-")
        self.assertEqual((part.status, part.read()), (206, DATA[7:]))
        head = self.asked("HEAD", "/files/a/1.mp4")
        self.assertEqual((head.status, head.headers["content-length"]), (200, str(len(DATA))))
        self.assertEqual(self.asked("GET", "/files/none").status, 404)
        before = self.memory()
        pieces = (DATA[:MB] for _ in range(COUNT))
        self.assertEqual(self.asked("PUT", "/files/long", pieces).read(), b'{"size":%d}' % (COUNT * MB))
        answer, got = self.asked("GET", "/files/long"), 0
        while piece := answer.read(MB):
            self.assertEqual(piece, DATA[:MB])
            got += len(piece)
        self.assertEqual(got, COUNT * MB)
        self.assertLess(self.memory() - before, 40 * 1024)

    def test_gone(self):
        """clients that go in the middle: nothing is stored, no session works on, no transaction stays"""
        self.asked("PUT", "/files/a", (DATA[:MB] for _ in range(64))).read()
        for _ in range(6):
            answer = self.asked("GET", "/files/a")
            answer.read(10)
            answer.close()
        self.until(self.quiet)
        with socket.create_connection(("127.0.0.1", self.port)) as web:
            web.sendall(b"PUT /files/cut HTTP/1.1\r\nHost: a\r\nContent-Length: 100000000\r\n\r\n" + DATA)
            self.until(lambda: self.count("xact_start IS NOT NULL") == 1)
        self.until(self.quiet)
        self.assertEqual(self.asked("GET", "/files/cut").status, 404)
        self.other.execute(f"SELECT pg_terminate_backend(pid, 10000) {SESSIONS}")
        self.until(lambda: self.asked("GET", "/files/a", Range="bytes=0-9").status == 206)
