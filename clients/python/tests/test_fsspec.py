"""The file system securefile://, from the installed package."""

import os
import pickle
import tempfile
import unittest
from concurrent.futures import ThreadPoolExecutor
from importlib import metadata
from unittest import mock

import fsspec
from common import DATA, LONG, MB, Server

import pgsecurefile
from pgsecurefile import _wire


class Installed(unittest.TestCase):
    def test_artifact(self):
        """the package is the installed one, with its version and types"""
        where = os.path.dirname(pgsecurefile.__file__)
        self.assertIn("site-packages", where)
        self.assertEqual(metadata.version("pgsecurefile"), pgsecurefile.__version__)
        self.assertTrue(os.path.exists(os.path.join(where, "py.typed")))


class FileSystem(Server):
    table = "CREATE TABLE docs (name text PRIMARY KEY, document securefile, changed timestamptz DEFAULT now())"

    def setUp(self):
        super().setUp()
        fsspec.get_filesystem_class("securefile").clear_instance_cache()
        self.fs = fsspec.filesystem("securefile", table="docs", modified="changed")
        self.addCleanup(self.fs.close)

    def test_directories(self):
        """ls, info, glob, find, walk: directories are parts of paths"""
        for name in "a/b/1", "a/b/2", "a/3", "top", "ab/%_", "a.x/é":
            self.fs.pipe_file(name, name.encode())
        self.conn.execute("INSERT INTO docs VALUES ('a/null', NULL)")
        self.assertEqual(self.fs.ls("", detail=False), ["a", "a.x", "ab", "top"])
        self.assertEqual(self.fs.ls("securefile://a/", detail=False), ["a/3", "a/b"])
        self.assertEqual([(e["name"], e["type"], e["size"]) for e in self.fs.ls("a/b")], [("a/b/1", "file", 5), ("a/b/2", "file", 5)])
        self.assertEqual(self.fs.glob("a*/**/[12]"), ["a/b/1", "a/b/2"])
        self.assertEqual(self.fs.find("a"), ["a/3", "a/b/1", "a/b/2"])
        self.assertEqual(self.fs.isdir("a/b"), True)
        self.assertEqual(self.fs.exists("a/b/"), True)
        self.assertEqual(self.fs.exists("a/null"), False)
        self.assertEqual(self.fs.exists("ab/_%"), False)
        self.assertRaises(FileNotFoundError, self.fs.ls, "none")
        self.assertEqual(self.fs.modified("top"), self.conn.execute("SELECT changed FROM docs WHERE name = 'top'").fetchone()[0])

    def test_contents(self):
        """cat, ranges, get and put of trees, copies, moves, removals"""
        self.fs.pipe({"x/1": DATA, "x/2": b"2"})
        self.assertEqual(self.fs.cat(["x/1", "x/2"]), {"x/1": DATA, "x/2": b"2"})
        self.assertEqual(self.fs.cat("x", recursive=True), {"x/1": DATA, "x/2": b"2"})
        for start, end in ((10, 20), (-10, None), (None, -5), (5, None), (len(DATA), len(DATA) + 5)):
            self.assertEqual(self.fs.cat_file("x/1", start, end), DATA[start:end])
        self.assertEqual(self.fs.cat_ranges(["x/1", "x/2"], [1, 0], [4, 1]), [DATA[1:4], b"2"])
        with tempfile.TemporaryDirectory() as folder:
            self.fs.get("x/", f"{folder}/tree/", recursive=True)
            self.fs.put(f"{folder}/tree/", "y/", recursive=True)
            self.assertEqual(os.listdir(folder), ["tree"])
        self.assertEqual(self.fs.find("y"), ["y/1", "y/2"])
        self.assertEqual(self.stored("y/1"), DATA)
        self.fs.mv("y/1", "z/1")
        self.fs.cp("z/1", "z/2")
        self.fs.cp("x/2", "z/1")
        self.assertEqual([self.stored(name) for name in ("y/1", "z/1", "z/2")], [None, b"2", DATA])
        self.fs.rm("x", recursive=True)
        self.assertEqual(self.fs.find(""), ["y/2", "z/1", "z/2"])
        self.assertRaises(FileNotFoundError, self.fs.rm_file, "x/1")
        self.assertRaises(FileNotFoundError, self.fs.cat, ["z/1", "none"])

    def test_files(self):
        """open(): text, compression, snapshots, exceptions, connections are used again"""
        options = {"table": "docs"}
        with fsspec.open("securefile://t.gz", "wt", compression="infer", **options) as file:
            file.write("ä\n" * 100_000)
        with fsspec.open("securefile://t.gz", "rt", compression="infer", **options) as file:
            self.assertEqual(file.read(), "ä\n" * 100_000)
        with self.assertRaises(ZeroDivisionError), self.fs.open("b", "wb") as file:
            file.write(DATA)
            1 / 0  # noqa: B018
        self.assertEqual(self.fs.exists("b"), False)
        for _ in range(3):
            self.assertRaises(FileNotFoundError, self.fs.open, "b")
        self.assertEqual(len(self.fs._idle), 1)
        with self.fs.open("b", "wb") as file:
            file.write(DATA)
        with self.fs.open("b") as file:
            file.read(1)
            self.fs.pipe_file("b", b"other")
            self.assertEqual(file.read(), DATA[1:])
        again = pickle.loads(pickle.dumps(self.fs))
        self.assertEqual(again.cat("b"), b"other")

    def test_transaction(self):
        """in a transaction of fsspec files are stored at its end, or not at all"""
        with self.fs.transaction:
            with self.fs.open("a", "wb") as file:
                file.write(DATA)
            self.assertIsNone(self.stored())
        self.assertEqual(self.stored(), DATA)
        with self.assertRaises(ZeroDivisionError), self.fs.transaction:
            with self.fs.open("a", "wb") as file:
                file.write(b"x")
            1 / 0  # noqa: B018
        self.assertEqual(self.stored(), DATA)

    def test_threads(self):
        """threads have connections of their own"""
        self.fs.pipe_file("a", DATA)
        with ThreadPoolExecutor(4) as pool:
            parts = pool.map(lambda start: self.fs.cat_file("a", start, start + 100_000), range(0, len(DATA), 100_000))
        self.assertEqual(b"".join(parts), DATA)

    def test_times(self):
        """the column modified is set by each way to write"""
        with self.fs.open("open", "wb") as file:
            file.write(b"1")
        self.fs.pipe_file("pipe", b"2")
        with tempfile.NamedTemporaryFile() as file:
            self.fs.put_file(file.name, "put")
        for name in "open", "pipe", "put":
            self.fs.cp_file(name, f"copy/{name}")
        begun = self.conn.execute("UPDATE docs SET changed = NULL RETURNING clock_timestamp() - interval '1 min'").fetchone()[0]
        self.assertRaisesRegex(ValueError, "changed is NULL for put", self.fs.modified, "put")
        for name in "open", "pipe", "put":
            self.fs.cp_file(f"copy/{name}", name)
            self.assertGreater(self.fs.modified(name), begun)
            self.conn.execute("UPDATE docs SET changed = NULL")
            self.fs.pipe_file(name, b"3")
            self.assertGreater(self.fs.modified(name), begun)

    def test_options(self):
        """an option that is not known is an error"""
        self.assertRaisesRegex(TypeError, "no option colum$", fsspec.filesystem, "securefile", table="docs", colum="document")
        fsspec.filesystem("securefile", table="docs", use_listings_cache=False, skip_instance_cache=True)

    def test_server_restarts(self):
        """connections that the server has closed are not used again"""
        self.fs.pipe_file("a", b"1")
        conns = [self.fs.take() for _ in range(3)]
        for conn in conns:
            self.fs.give(conn)
            self.conn.execute("SELECT pg_terminate_backend(%s, 10000)", (conn.info.backend_pid,))
        self.assertEqual(self.fs.cat_file("a"), b"1")
        self.assertEqual(len(self.fs._idle), 1)

    @unittest.skipUnless(LONG, "a part of the long form")
    def test_pandas(self):
        """pandas and pyarrow write and read Parquet, by ranges"""
        import pandas
        import pyarrow.parquet

        frame = pandas.DataFrame({f"c{n}": range(n, 500_000 + n) for n in range(10)})
        frame.to_parquet("securefile://d/a.parquet", storage_options={"table": "docs"}, row_group_size=50_000)
        read = pandas.read_parquet("securefile://d/a.parquet", storage_options={"table": "docs"}, columns=["c3"])
        self.assertTrue(read["c3"].equals(frame["c3"]))
        frame.to_csv("securefile://c/a.csv", index=False, storage_options={"table": "docs"})
        self.assertTrue(pandas.read_csv("securefile://c/a.csv", storage_options={"table": "docs"}).equals(frame))
        fetch = _wire.read_window
        with mock.patch("pgsecurefile._wire.read_window", side_effect=fetch) as fetched, self.fs.open("d/a.parquet") as file:
            group = pyarrow.parquet.ParquetFile(file).read_row_group(2, columns=["c1"])
        self.assertEqual(group.num_rows, 50_000)
        lengths = [call.args[4] for call in fetched.call_args_list]
        self.assertGreater(len(lengths), 0)
        self.assertLess(sum(lengths), self.fs.size("d/a.parquet") / 5)
        table = pyarrow.parquet.read_table("d", filesystem=self.fs)
        self.assertEqual(table.num_rows, 500_000)
        self.assertGreater(self.fs.size("d/a.parquet"), MB)
