"""Wrong arguments, files that outlive their transaction, interrupts: nothing is lost by them."""

import array
import gc
import os
import pkgutil
import tempfile
import warnings
from unittest import mock

import psycopg
from common import DATA, MB, Server
from psycopg.pq import TransactionStatus

import pgsecurefile
from pgsecurefile import _wire

IDLE, INTRANS, INERROR = TransactionStatus.IDLE, TransactionStatus.INTRANS, TransactionStatus.INERROR


class Misuse(Server):
    def open(self, mode="rb", name="a", conn=None):
        return pgsecurefile.open(conn or self.conn, "docs", "document", name, mode)

    def put(self, *source, name="a", **options):
        return pgsecurefile.put(self.conn, "docs", "document", name, *source, **options)

    def get(self, *arguments, **options):
        return pgsecurefile.get(self.conn, "docs", "document", "a", *arguments, **options)

    def status(self):
        return self.conn.info.transaction_status

    # ---- arguments ----

    def test_positions(self):
        """a position or length of a wrong type, or out of range, leaves the file open"""
        self.put(DATA)
        with self.open("r+b") as file:
            for call in (file.read, file.seek, file.truncate):
                self.assertRaises(TypeError, call, 1.5)
                self.assertRaises(TypeError, call, "1")
            self.assertRaises(TypeError, file.readinto, 4)
            for call in (file.seek, file.truncate):
                self.assertRaises(OverflowError, call, 2**63)
                self.assertRaises(ValueError, call, -1)
            file.seek(2**63 - 1)
            self.assertRaises(OverflowError, file.write, b"x")
            file.seek(0)
            file.write(b"x")
        self.assertEqual(self.stored(), b"x" + DATA[1:])

    def test_arguments(self):
        """put(), get() and get_many() refuse what they cannot mean"""
        for source in ((), (None,), (5,), ([b"x"],)):
            self.assertRaisesRegex(TypeError, "source is to be bytes", self.put, *source)
        self.assertRaises(TypeError, self.put, b"x", name={})
        self.assertRaisesRegex(ValueError, "of the key", self.put, b"x", values={"name": "b"})
        self.assertRaisesRegex(ValueError, "other columns", self.put, b"x", values={"document": b"y"})
        self.assertEqual(self.conn.execute("SELECT count(*) FROM docs").fetchone(), (0,))
        self.assertEqual(self.put(array.array("h", [0, 1, 2])), 6)
        self.put(memoryview(b"a-b-c")[::2])
        self.assertEqual(self.stored(), b"abc")
        self.assertRaises(TypeError, self.get, offset=1.5)
        self.assertRaises(OverflowError, self.get, offset=2**63)
        self.assertEqual(self.get(offset=1, length=2**70), b"bc")
        with tempfile.TemporaryDirectory() as folder:
            self.assertRaisesRegex(ValueError, "whole value", self.get, f"{folder}/a", offset=1, resume=True)
        self.assertRaisesRegex(TypeError, "list of keys", pgsecurefile.get_many, self.conn, "docs", "document", "ab")
        self.assertEqual(pgsecurefile.get_many(self.conn, "docs", "document", iter("ab")), [b"abc", None])

    def test_pipeline(self):
        """inside of a pipeline nothing is read or written"""
        self.put(DATA)
        calls = (self.get, self.open, lambda: self.put(b"x"), lambda: pgsecurefile.get_many(self.conn, "docs", "document", ["a"]))
        for call in calls:
            with self.conn.pipeline():
                self.conn.execute("UPDATE docs SET note = 'kept'")
                self.assertRaisesRegex(psycopg.ProgrammingError, "inside of a pipeline", call)
        self.assertEqual(self.conn.execute("SELECT note, length(document) FROM docs").fetchall(), [("kept", len(DATA))])

    def test_many_pieces(self):
        """the server makes the pieces of a long range one by one"""
        command = _wire.read_command("public").decode()
        for number, value in enumerate((1, 0, 2**62, _wire.PIECE_BYTES), 1):
            command = command.replace(f"${number}", f"{value}::int{4 if number == 1 else 8}")
        plan = "\n".join(line for (line,) in self.conn.execute(f"EXPLAIN {command}"))
        self.assertIn("ProjectSet", plan)

    # ---- the transaction of a file ----

    def left(self, mode):
        """A file whose transaction has ended without it, as when a pool takes the connection back."""
        file = self.open(mode)
        self.assertEqual(self.status(), INTRANS)
        self.conn.rollback()
        return file

    def test_left_behind(self):
        """a file that was left behind leaves the next transaction alone, also a failed one"""
        self.put(b"old")
        forget = lambda file: None  # noqa: E731
        for mode in ("rb", "r+b", "w+b"):
            for end in (pgsecurefile.SecureFile.abort, forget, *((pgsecurefile.SecureFile.close,) if mode == "rb" else ())):
                with warnings.catch_warnings():
                    warnings.simplefilter("ignore", ResourceWarning)
                    self.one_left(mode, end)

    def one_left(self, mode, end):
        files = [self.left(mode), self.left(mode)]
        with self.conn.transaction():
            self.put(b"new", name="b")
            end(files.pop())
            gc.collect()
            self.assertEqual(self.status(), INTRANS, mode)
        self.assertEqual(self.stored("b"), b"new")
        self.conn.execute("DELETE FROM docs WHERE name = 'b'")
        with self.conn.transaction(force_rollback=True):
            self.assertRaises(psycopg.Error, self.conn.execute, "SELECT 1/0")
            end(files.pop())
            gc.collect()
            self.assertEqual(self.status(), INERROR, mode)

    def test_forgotten_in_use(self):
        """a file that is forgotten while the connection is in use does not wait for it"""
        self.put(b"old")
        file = self.open()
        with warnings.catch_warnings(), self.conn.lock:
            warnings.simplefilter("ignore", ResourceWarning)
            del file
            gc.collect()
        self.assertEqual(self.status(), INTRANS)

    def test_own_fails(self):
        """a statement that fails in a file's transaction: close() and abort() end it"""
        self.put(b"old")
        for mode in ("rb", "r+b"):
            for end in ("close", "abort"):
                file = self.open(mode)
                self.assertRaises(psycopg.Error, self.conn.execute, "SELECT 1/0")
                getattr(file, end)()
                self.assertEqual(self.status(), IDLE, (mode, end))
        file = self.open("wb")
        file.write(b"x")
        self.assertRaises(psycopg.Error, self.conn.execute, "SELECT 1/0")
        self.assertRaises(psycopg.Error, file.close)
        self.assertEqual(self.status(), IDLE)

    def test_fork(self):
        """a child of fork() that ends a file leaves the parent's alone"""
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DeprecationWarning)
            with self.open("wb") as file:
                file.write(b"parent")
                child = os.fork()
                if child == 0:
                    try:
                        file.abort()
                    finally:
                        os._exit(0)
                os.waitpid(child, 0)
        self.assertEqual(self.stored(), b"parent")

    # ---- interrupts ----

    def test_interrupt(self):
        """Ctrl-C between two instructions, wherever: nothing is stored, and the connection is free"""
        value = DATA[: MB + 70_000]
        self.put(value)
        places = ("_wire._next_result", "_wire._flushed", "_wire._Commands._note", "_steps.Answer", "_stream.ask")
        for name in places:
            for call in (lambda: self.put(bytes(len(value))), self.get):
                self.interrupted(name, call, value)
        self.assertEqual(self.stored(), value)

    def interrupted(self, name, call, value):
        """Interrupted at each of the first times that it comes there."""
        for at in range(1, 12):
            real = pkgutil.resolve_name(f"pgsecurefile.{name}")
            times = 0

            def stop(*arguments, at=at, real=real):
                nonlocal times
                times += 1
                if times == at:
                    raise KeyboardInterrupt
                return real(*arguments)

            with mock.patch(f"pgsecurefile.{name}", stop):
                try:
                    call()
                except KeyboardInterrupt:
                    self.assertEqual(self.status(), IDLE, (name, at))
                    self.assertEqual(self.conn.execute("SELECT 1").fetchone(), (1,))
            # the last answer may have been that of COMMIT
            if self.stored() != value:
                self.put(value)
            if times < at:
                break

    def test_lost(self):
        """a write to a connection that has ended tells why"""
        lost = self.connect()
        file = self.open("wb", conn=lost)
        file.write(bytes(5 * MB))
        self.other.execute("SELECT pg_terminate_backend(%s, 10000)", (lost.info.backend_pid,))
        with self.assertRaises(psycopg.OperationalError) as caught:
            file.write(bytes(9 * MB))
        self.assertNotIn("pipeline", str(caught.exception))
        self.assertRegex(str(caught.exception), "terminat|closed")
        for call in (pgsecurefile.get, pgsecurefile.open):
            self.assertRaisesRegex(psycopg.OperationalError, "closed", call, lost, "docs", "document", "a")
