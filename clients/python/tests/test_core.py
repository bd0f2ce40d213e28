"""The package on psycopg alone: files, transfers, the type."""

import gc
import io
import os
import pathlib
import random
import subprocess
import sys
import tempfile
import threading
import unittest
import warnings
from unittest import mock

import psycopg
from common import DATA, LONG, MB, Server

import pgsecurefile
from pgsecurefile import NoSuchValue, SeveralRows, ValueExists


class Counted(psycopg.Connection):
    """Counts what it waits for."""

    waits = 0

    def wait(self, *arguments, **options):
        self.waits += 1
        return super().wait(*arguments, **options)


class Files(Server):
    def open(self, mode="rb", name="a", conn=None, **options):
        return pgsecurefile.open(conn or self.conn, "docs", "document", name, mode, **options)

    def put(self, data, name="a"):
        pgsecurefile.put(self.conn, "docs", "document", name, data)

    def test_as_bytesio(self):
        """a file does what io.BytesIO does, whatever the order"""
        chosen = random.Random(7)
        for round_ in range(4 if not LONG else 200):
            start = DATA[: chosen.choice((0, 10, 300_000, len(DATA)))]
            self.put(start)
            model = io.BytesIO(start)
            with self.open("r+b") as file:
                for _ in range(60):
                    self.same_step(chosen, file, model)
            self.assertEqual(self.stored(), model.getvalue(), f"round {round_}")

    def same_step(self, chosen, file, model):
        what = chosen.randrange(8)
        size = chosen.choice((0, 1, 1000, 262_144, 700_000))
        if what == 0:
            self.assertEqual(file.read(size), model.read(size))
        elif what == 1:
            mine, its = bytearray(size), bytearray(size)
            self.assertEqual(file.readinto(mine), model.readinto(its))
            self.assertEqual(mine, its)
        elif what == 2:
            self.assertEqual(file.write(DATA[:size]), model.write(DATA[:size]))
        elif what == 3:
            place = chosen.randrange(len(DATA))
            self.assertEqual(file.seek(place), model.seek(place))
        elif what == 4:
            end = model.seek(0, io.SEEK_END)
            self.assertEqual(file.seek(-min(end, size), io.SEEK_END), model.seek(-min(end, size), io.SEEK_END))
        elif what == 5:
            self.assertEqual(file.erase(size), self.erase(model, size))
        elif what == 6:
            place, length = chosen.randrange(len(DATA)), chosen.choice((1, 3, 500, 300_000))
            sub = chosen.choice((DATA[place : place + length], bytes(length)))
            start = chosen.choice((None, model.tell(), place))
            self.assertEqual(file.find(sub, start), model.getvalue().find(sub, model.tell() if start is None else start))
        elif chosen.random() < 0.3:
            # BytesIO does not grow so
            size = min(size, len(model.getbuffer()))
            self.assertEqual(file.truncate(size), model.truncate(size))
        self.assertEqual(file.tell(), model.tell())

    def erase(self, model, size):
        view = model.getbuffer()[model.tell() :][:size]
        view[:] = bytes(len(view))
        return len(view)

    def test_copy_range(self):
        """copy_range() takes what was written to both files and not sent yet, and moves both positions"""
        self.put(DATA)
        with self.conn.transaction(), self.open("r+b") as source, self.open("w+b", "b") as target:
            source.write(b"new")
            source.seek(0)
            source.read(10)
            target.write(b"head")
            self.assertEqual(target.copy_range(source, 1_000_000), 1_000_000)
            self.assertEqual((source.tell(), target.tell(), target.size), (1_000_010, 1_000_004, 1_000_004))
            expected = b"head" + DATA[10:1_000_010]
            self.assertEqual(source.read(10), DATA[1_000_010:1_000_020])
            target.seek(2 * MB)
            self.assertEqual(target.copy_range(source), len(DATA) - 1_000_020)
            self.assertEqual(target.copy_range(source), 0)
            expected += bytes(2 * MB - len(expected)) + DATA[1_000_020:]
            target.seek(0)
            self.assertEqual(target.read(), expected)
            for wrong in (target, self.open(conn=self.other)):
                self.assertRaises(ValueError, target.copy_range, wrong)
            wrong.close()
            self.assertRaises(ValueError, target.copy_range, source, -1)
            self.assertRaises(ValueError, target.erase, -1)
            self.assertRaises(ValueError, target.find, b"x", -1)
        self.assertEqual(self.stored("b"), expected)
        self.assertEqual(self.stored(), b"new" + DATA[3:])
        with self.conn.transaction(), self.open() as source, self.open("ab", "b") as target:
            self.assertEqual(target.copy_range(source, 3), 3)
            for call, argument in ((source.erase, 1), (source.copy_range, source), (target.copy_range, target), (target.find, b"x")):
                self.assertRaises(io.UnsupportedOperation, call, argument)
        self.assertEqual(self.stored("b"), expected + b"new")

    def test_modes(self):
        """modes: what each makes, keeps, and refuses"""
        with self.assertRaises(NoSuchValue):
            self.open("r+b")
        for mode, stored in (("wb", b"1"), ("ab", b"12"), ("r+b", b"32"), ("w+b", b"4"), ("ab", b"45")):
            with self.open(mode) as file:
                file.write(stored[-1:] if mode != "r+b" else b"3")
            self.assertEqual(self.stored(), stored, mode)
        with self.assertRaises(ValueExists):
            self.open("xb")
        for mode in "xb", "ab":
            with self.open(mode, name=mode) as file:
                file.write(b"new")
            self.assertEqual(self.stored(mode), b"new")
        with self.open() as file, self.assertRaises(io.UnsupportedOperation):
            file.write(b"")
        with self.open("wb") as file, self.assertRaises(io.UnsupportedOperation):
            file.read()
        with self.assertRaises(ValueError):
            file.write(b"")
        with self.assertRaises(ValueError):
            self.open("rt")

    def test_empty_and_null(self):
        """the empty value, NULL, and no row"""
        with self.open("wb"):
            pass
        self.assertEqual(self.stored(), b"")
        self.conn.execute("UPDATE docs SET document = NULL")
        for call in (self.open, lambda: pgsecurefile.get(self.conn, "docs", "document", "a")):
            self.assertRaises(FileNotFoundError, call)

    def test_gap(self):
        """what is written behind the end leaves a gap of zeros"""
        with self.open("w+b") as file:
            file.seek(2 * MB)
            file.write(b"end")
            file.seek(MB)
            self.assertEqual(file.read(), bytes(MB) + b"end")
        self.assertEqual(self.stored(), bytes(2 * MB) + b"end")

    def test_text_and_lines(self):
        """io.TextIOWrapper and io.BufferedReader work on it"""
        with io.TextIOWrapper(self.open("wb"), encoding="utf-8") as text:
            text.writelines(f"Zeile {number} ä\n" for number in range(50_000))
        with io.TextIOWrapper(self.open(), encoding="utf-8") as text:
            self.assertEqual(sum(line == f"Zeile {number} ä\n" for number, line in enumerate(text)), 50_000)
        with io.BufferedReader(self.open()) as lines:
            self.assertEqual(next(lines), b"Zeile 0 \xc3\xa4\n")

    # ---- transactions ----

    def test_own_transaction(self):
        """with autocommit close() commits; abort(), an exception, and a file that is forgotten store nothing"""
        file = self.open("wb")
        file.write(DATA)
        file.flush()
        self.assertIsNone(self.stored())
        file.close()
        self.assertEqual(self.stored(), DATA)
        file = self.open("wb")
        file.write(b"x")
        file.abort()
        with self.assertRaises(ZeroDivisionError), self.open("wb") as file:
            file.write(b"x")
            1 / 0  # noqa: B018
        file = self.open("wb")
        file.write(b"x")
        with warnings.catch_warnings(record=True) as warned:
            warnings.simplefilter("always")
            del file
            gc.collect()
        self.assertEqual([warning.category for warning in warned], [ResourceWarning])
        self.assertEqual(self.stored(), DATA)
        self.assertEqual(self.conn.info.transaction_status, psycopg.pq.TransactionStatus.IDLE)

    def test_callers_transaction(self):
        """in a transaction of the caller nothing is committed, and abort() leaves it usable"""
        conn = self.connect(autocommit=False)
        with self.open("wb", conn=conn) as file:
            file.write(b"1")
        self.assertIsNone(self.stored())
        with self.assertRaises(ZeroDivisionError), self.open("wb", conn=conn) as file:
            file.write(DATA)
            1 / 0  # noqa: B018
        conn.execute("INSERT INTO docs VALUES ('b')")
        conn.commit()
        self.assertEqual(self.stored(), b"1")
        with conn.transaction(force_rollback=True), self.open("wb", conn=conn) as file:
            file.write(b"2")
        self.assertEqual(self.stored(), b"1")

    def test_one_snapshot(self):
        """a reader sees the value that it has opened, whatever becomes of the row"""
        self.put(DATA)
        with self.open() as file:
            self.assertEqual(file.read(10), DATA[:10])
            self.other.execute("UPDATE docs SET document = 'other'")
            self.other.execute("DELETE FROM docs")
            self.assertEqual(file.read(), DATA[10:])

    def test_two_writers(self):
        """an edit locks its row: nobody's change is lost"""
        self.put(b"0")
        second = threading.Thread(target=self.append, args=(b"2",))
        with self.open("ab") as file:
            second.start()
            while not self.other.execute("SELECT 1 FROM pg_locks WHERE NOT granted").fetchone():
                self.assertTrue(second.is_alive())
            file.write(b"1")
        second.join()
        self.assertEqual(self.stored(), b"012")

    def append(self, data):
        with psycopg.connect(autocommit=True) as conn, self.open("ab", conn=conn) as file:
            file.write(data)

    # ---- the wire ----

    def test_round_trips(self):
        """pieces need no round trip of their own"""
        conn = Counted.connect(autocommit=True)
        self.addCleanup(conn.close)
        with self.open("wb", conn=conn) as file:
            before = conn.waits
            for _ in range(128):
                file.write(bytes(65_536))
            file.flush()
            self.assertLessEqual(conn.waits - before, 3)
        with self.open(conn=conn) as file:
            before = conn.waits
            for _ in range(128):
                self.assertEqual(len(file.read(65_536)), 65_536)
            self.assertLessEqual(conn.waits - before, 8)
            before = conn.waits
            self.assertEqual(len(file.read()), 0)
            file.seek(0)
            self.assertEqual(len(file.read()), 8 * MB)
            self.assertEqual(conn.waits - before, 1)

    def test_connection_is_free(self):
        """between two calls the connection does other work; a pipeline is refused"""
        self.put(DATA)
        with self.open() as one, self.open(conn=self.conn) as two:
            for _ in range(3):
                self.assertEqual(one.read(100_000), two.read(100_000))
                self.assertEqual(self.conn.execute("SELECT 1").fetchone(), (1,))
        with self.open() as file, self.conn.pipeline():
            self.assertRaisesRegex(psycopg.ProgrammingError, "inside of a pipeline", file.read)

    def test_damaged_on_the_way(self):
        """a cancel and a connection that ends: an error, nothing is stored, the rest works"""
        self.put(DATA)
        file = self.open("r+b")
        file.write(b"x")
        self.conn.cancel()
        with self.assertRaises(psycopg.errors.QueryCanceled):
            file.flush()
            file.close()
        self.assertTrue(file.closed)
        self.assertEqual(self.conn.execute("SELECT 1").fetchone(), (1,))
        lost = self.connect()
        file = self.open("r+b", conn=lost)
        file.write(bytes(5 * MB))
        self.other.execute("SELECT pg_terminate_backend(%s, 10000)", (lost.info.backend_pid,))
        with self.assertRaises(psycopg.OperationalError):
            file.write(bytes(5 * MB))
        self.assertTrue(file.closed)
        self.assertEqual(self.stored(), DATA)


class Transfers(Server):
    def setUp(self):
        super().setUp()
        if not LONG:
            # several windows for short values
            small = mock.patch("pgsecurefile._transfer.WINDOW_BYTES", MB)
            small.start()
            self.addCleanup(small.stop)

    def put(self, source, name="a", **options):
        return pgsecurefile.put(self.conn, "docs", "document", name, source, **options)

    def get(self, target=None, name="a", **options):
        return pgsecurefile.get(self.conn, "docs", "document", name, target, **options)

    def folder(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        return folder.name

    def test_sizes(self):
        """put and get of all kinds of source and target, around the borders"""
        path = os.path.join(self.folder(), "file")
        for size in (0, 1, MB - 1, MB, MB + 1, len(DATA)) + ((20 * MB,) if LONG else ()):
            data = (DATA * (size // len(DATA) + 1))[:size]
            with open(path, "wb") as file:
                file.write(data)
            with open(path, "rb") as file:
                for source in (data, path, file, Slow(data)):
                    self.other.execute("UPDATE docs SET document = 'old'")
                    self.assertEqual(self.put(source), size)
                    self.assertEqual(self.stored(), data)
            self.assertEqual(self.get(), data)
            target = io.BytesIO()
            self.assertEqual(self.get(target), size)
            self.assertEqual(target.getvalue(), data)
            self.assertEqual(self.get(path), size)
            with open(path, "rb") as file:
                self.assertEqual(file.read(), data)
            for offset, length in ((0, 7), (5, None), (size // 2, 2 * MB), (size, 1), (size + 9, None), (3, 0)):
                end = None if length is None else offset + length
                self.assertEqual(self.get(offset=offset, length=length), data[offset:end], f"{size}: {offset}, {length}")
        self.assertEqual(os.listdir(os.path.dirname(path)), ["file"])

    def test_targets_that_are_no_files(self):
        """a link stays, and what it leads to is replaced; a pipe is written to"""
        self.put(DATA)
        folder = self.folder()
        link, linked, pipe = (os.path.join(folder, name) for name in ("link", "linked", "pipe"))
        os.symlink(linked, link)
        for _ in range(2):
            self.get(link)
            self.assertTrue(os.path.islink(link))
            with open(linked, "rb") as file:
                self.assertEqual(file.read(), DATA)
        os.mkfifo(pipe)
        with subprocess.Popen(["cat", pipe], stdout=subprocess.PIPE) as reader:
            thread = threading.Thread(target=self.get, args=(pipe,))
            thread.start()
            self.assertEqual(reader.communicate()[0], DATA)
            thread.join()
        self.assertFalse(os.path.isfile(pipe))
        with self.assertRaises(ValueError):
            self.get(pipe, resume=True)

    def test_progress(self):
        """progress is told in order, and its exception ends the work: nothing is stored, no file is changed"""
        told = []
        self.put(DATA, progress=lambda done, total: told.append((done, total)))
        self.assertEqual(told[-1], (len(DATA), len(DATA)))
        self.assertEqual(told, sorted(told))
        self.assertGreater(len(told), 5)
        path = os.path.join(self.folder(), "file")
        with open(path, "wb") as file:
            file.write(b"old")

        def stop(done, total):
            if done > MB:
                raise KeyboardInterrupt

        self.assertRaises(KeyboardInterrupt, self.put, bytes(len(DATA)), progress=stop)
        self.assertRaises(KeyboardInterrupt, self.get, path, progress=stop)
        self.assertEqual(self.stored(), DATA)
        with open(path, "rb") as file:
            self.assertEqual(file.read(), b"old")
        self.assertEqual(os.listdir(os.path.dirname(path)), ["file"])
        self.assertEqual(self.get(), DATA)

    def test_cancel(self):
        """the server's cancel, and the end of the connection, in the middle"""
        self.put(DATA)
        for call in (lambda stop: self.put(bytes(len(DATA)), progress=stop), lambda stop: self.get(progress=stop)):
            self.assertRaises(psycopg.errors.QueryCanceled, call, Once(self.conn.cancel))
            self.assertEqual(self.conn.execute("SELECT 1").fetchone(), (1,))
        pid = self.conn.info.backend_pid
        stop = Once(lambda: self.other.execute("SELECT pg_terminate_backend(%s, 10000)", (pid,)))
        self.assertRaises(psycopg.OperationalError, self.put, bytes(9 * MB), progress=stop)
        self.assertEqual(self.stored(), DATA)

    def test_resume(self):
        """put and get go on where a call before them has failed; a source or value that has changed begins anew"""
        path = os.path.join(self.folder(), "file")
        with open(path, "wb") as file:
            file.write(DATA)
        self.resume_all(
            path, lambda: self.put(path, resume=True, progress=self.stop), lambda: self.put(path, resume=True, progress=self.note)
        )
        self.assertEqual(self.stored(), DATA)
        self.put(b"old", values={"note": "kept"})
        self.assertEqual(self.put(path, resume=True), len(DATA))
        self.assertEqual(self.conn.execute("SELECT name, note, document = %b FROM docs", (DATA,)).fetchall(), [("a", "kept", True)])
        os.unlink(path)
        self.resume_all(
            path, lambda: self.get(path, resume=True, progress=self.stop), lambda: self.get(path, resume=True, progress=self.note)
        )
        self.assertRaises(ZeroDivisionError, self.get, path, resume=True, progress=self.stop)
        self.assertEqual(len(os.listdir(os.path.dirname(path))), 2)
        self.put(DATA[::-1])
        self.get(path, resume=True)
        with open(path, "rb") as file:
            self.assertEqual(file.read(), DATA[::-1])
        self.assertEqual(os.listdir(os.path.dirname(path)), ["file"])
        with self.conn.transaction():
            self.assertRaises(psycopg.ProgrammingError, self.put, path, resume=True)

    def stop(self, done, total):
        if done > 2 * MB:
            raise ZeroDivisionError

    def note(self, done, total):
        self.noted.append(done)

    def resume_all(self, path, fails, goes_on):
        self.noted = []
        with mock.patch("pgsecurefile._resume.STEP_BYTES", MB), mock.patch("pgsecurefile._resume.WINDOW_BYTES", MB):
            self.assertRaises(ZeroDivisionError, fails)
            self.assertIn(self.stored(), (None, DATA))
            self.assertEqual(goes_on(), len(DATA))
        self.assertGreater(self.noted[0], 2 * MB)
        self.assertEqual(self.noted[-1], len(DATA))

    def test_source_fails(self):
        """a source that fails is passed on, and one in text mode is refused"""
        for size in (0, 2 * MB):
            self.assertRaises(ZeroDivisionError, self.put, Slow(DATA[:size], fails=True))
        self.assertRaises(TypeError, self.put, io.StringIO("text"))
        self.assertIsNone(self.stored())

    def test_callers_transaction(self):
        """put in a transaction of the caller is the caller's to commit"""
        for size in (1, len(DATA)):
            with self.conn.transaction(force_rollback=True):
                self.put(DATA[:size])
                self.assertEqual(self.get(), DATA[:size])
            self.assertIsNone(self.stored())

    def test_get_many(self):
        """get_many() has the order of the keys, None for what is not there"""
        for name in "abc":
            self.put(name.encode() * 10, name)
        self.conn.execute("UPDATE docs SET document = NULL WHERE name = 'b'")
        many = pgsecurefile.get_many(self.conn, "docs", "document", ["c", "x", "b", "a", "c"])
        self.assertEqual(many, [b"c" * 10, None, None, b"a" * 10, b"c" * 10])
        self.assertEqual(pgsecurefile.get_many(self.conn, "docs", "document", []), [])
        self.assertRaises((TypeError, psycopg.Error), pgsecurefile.get_many, self.conn, "docs", "document", [b"a"], key_column="name")

    @unittest.skipUnless(LONG, "a part of the long form")
    def test_two_gigabytes(self):
        """2 GB go in and out in constant memory"""
        import resource

        def peak():
            return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss

        self.put(Repeated(64 * MB))
        self.get(Counter())
        before = peak()
        size = 2048 * MB + 5
        self.assertEqual(self.put(Repeated(size)), size)
        counter = Counter()
        self.assertEqual(self.get(counter), size)
        self.assertEqual(counter.count, size)
        with pgsecurefile.open(self.conn, "docs", "document", "a", "r+b") as file:
            while file.read(MB):
                pass
            for _ in range(2048):
                file.write(DATA[:MB])
        self.assertLess(peak() - before, 24 * 1024, "KB more")
        self.assertEqual(self.conn.execute("SELECT length(document) FROM docs").fetchone(), (size + 2048 * MB,))


class Once:
    """Makes a call when it is called for the first time."""

    def __init__(self, call):
        self.call = call

    def __call__(self, *arguments):
        call, self.call = self.call, lambda: None
        call()


class Slow:
    """A source whose reads are short."""

    def __init__(self, data, fails=False):
        self.file, self.fails = io.BytesIO(data), fails

    def read(self, size):
        data = self.file.read(min(size, 99_991))
        if not data and self.fails:
            raise ZeroDivisionError
        return data


class Repeated:
    def __init__(self, size):
        self.left = size

    def read(self, size):
        size = min(size, self.left, MB)
        self.left -= size
        return DATA[:size]


class Counter:
    count = 0

    def write(self, data):
        self.count += len(data)


class Places(Server):
    def test_keys(self):
        """rows by key, by several columns, by condition; names of all kinds"""
        self.conn.execute("""
            DROP SCHEMA IF EXISTS "Sch%ema" CASCADE; CREATE SCHEMA "Sch%ema";
            CREATE TABLE "Sch%ema"."T ""1" (a int, "B%s" text, "do""c" securefile, n int DEFAULT 5, PRIMARY KEY (a, "B%s"))""")
        table = ("Sch%ema", 'T "1')
        with pgsecurefile.open(self.conn, table, 'do"c', {"a": 1, "B%s": "x"}, "wb", values={"n": 7}) as file:
            file.write(DATA)
        pgsecurefile.put(self.conn, table, 'do"c', {"a": 2, "B%s": "x"}, b"2")
        self.assertEqual(pgsecurefile.get(self.conn, table, 'do"c', where="n = %s", params=(7,)), DATA)
        self.assertEqual(pgsecurefile.get(self.conn, table, 'do"c', where="n = 5 OR false"), b"2")
        pgsecurefile.put(self.conn, table, 'do"c', where="n = %s", params=[7], source=DATA[::-1], values={"n": 8})
        self.assertEqual(pgsecurefile.get(self.conn, table, 'do"c', {"n": 8}), DATA[::-1])
        rows = self.conn.execute("""SELECT a, n FROM "Sch%ema"."T ""1" ORDER BY a""").fetchall()
        self.assertEqual(rows, [(1, 8), (2, 5)])
        self.assertRaises(SeveralRows, pgsecurefile.get, self.conn, table, 'do"c', where="a < 5")
        for data in b"3", DATA:
            self.assertRaises(SeveralRows, pgsecurefile.put, self.conn, table, 'do"c', where="a < 5", source=data)
        self.assertEqual(pgsecurefile.get(self.conn, table, 'do"c', where="a = 2"), b"2")
        self.assertRaises(TypeError, pgsecurefile.get, self.conn, table, 'do"c', 1)
        self.assertRaises(TypeError, pgsecurefile.get, self.conn, table, 'do"c')
        for mode in "rb", "wb":
            self.assertRaises(NoSuchValue, pgsecurefile.open, self.conn, table, 'do"c', mode=mode, where="n = 99")
        pgsecurefile.put(self.conn, "public.docs", "document", "a", b"1")
        self.assertEqual(pgsecurefile.get(self.conn, "public.docs", "document", "a"), b"1")

    def test_search_path(self):
        """functions of another schema, or an empty search_path, change nothing"""
        pgsecurefile.put(self.conn, "docs", "document", "a", DATA)
        conn = self.connect(options="-c search_path=")
        with pgsecurefile.open(conn, "public.docs", "document", "a", "r+b") as file:
            self.assertEqual(file.read(), DATA)
            file.write(b"x")
        self.assertEqual(pgsecurefile.get(conn, "public.docs", "document", "a"), DATA + b"x")

    def test_not_installed(self):
        """a database without the extension is told so"""
        conn = self.connect(dbname="template1")
        self.assertRaisesRegex(pgsecurefile.NotInstalled, "CREATE EXTENSION", pgsecurefile.get, conn, "t", "c", where="true")


class Type(Server):
    def test_register(self):
        """the type in both formats, its arrays, and COPY with set_types()"""
        conn = self.connect(options="-c securefile.describe_as=securefile")
        pgsecurefile.register(conn)
        values = [b"", bytes(range(256)), rb"\x4142", DATA[:100_000]]
        for number, value in enumerate(values):
            conn.execute("INSERT INTO docs VALUES (%s, %s)", (str(number), value))
        for binary in (False, True):
            rows = conn.cursor(binary=binary).execute("SELECT document, ARRAY[document] FROM docs ORDER BY name").fetchall()
            self.assertEqual(rows, [(value, [value]) for value in values])
            form = "(FORMAT binary)" if binary else ""
            with conn.cursor().copy(f"COPY docs (name, document) TO STDOUT {form}") as copy:
                copy.set_types(["text", "securefile"])
                rows = sorted(copy.rows())
            self.assertEqual([row[1] for row in rows], values)
            conn.execute("TRUNCATE docs")
            with conn.cursor().copy(f"COPY docs (name, document) FROM STDIN {form}") as copy:
                copy.set_types(["text", "securefile"])
                for row in rows:
                    copy.write_row(row)
            self.assertEqual([self.stored(str(number)) for number in range(4)], values)

    def test_transaction(self):
        """register() leaves no transaction open"""
        conn = self.connect(autocommit=False)
        pgsecurefile.register(conn)
        self.assertEqual(conn.info.transaction_status, psycopg.pq.TransactionStatus.IDLE)


class Example(Server):
    def test_first(self):
        """the program of doc/drivers.md"""
        self.conn.execute("DROP TABLE IF EXISTS videos")
        program = pathlib.Path(__file__).parents[1] / "examples/first.py"
        done = subprocess.run([sys.executable, program], capture_output=True, text=True, check=False)
        self.assertEqual((done.stdout, done.stderr), ("b'\\x00\\x00\\x00\\x00\\x00\\x00last' 2\n", ""))
