"""The fsspec file system securefile://: the rows of a table, by a text key that is a path.

pandas.read_parquet("securefile://2026/sales.parquet",
                    storage_options={"dsn": "dbname=shop", "table": "files", "column": "document"})
"""

from __future__ import annotations

import contextlib
import os
import threading
from collections.abc import Iterator, Sequence
from datetime import datetime, timezone
from typing import Any

import psycopg
from fsspec.callbacks import DEFAULT_CALLBACK
from fsspec.spec import AbstractFileSystem
from psycopg.sql import SQL, Composable

from ._file import SecureFile, opened
from ._place import one_key_column, table_name
from ._steps import Name, ask, run
from ._transfer import get, get_many, put

__all__ = ["SecureFileSystem"]


_OPTIONS = {"asynchronous", "batch_size", "listings_expiry_time", "loop", "max_paths", "skip_instance_cache", "use_listings_cache"}
"""Those of all file systems."""


def _lives(conn: psycopg.Connection[Any]) -> bool:
    """Whether the server has not closed an idle connection, as far as this side has been told."""
    if not conn.closed:
        with contextlib.suppress(psycopg.OperationalError):
            conn.pgconn.consume_input()  # its last message
            conn.pgconn.consume_input()  # and the end
    return not conn.closed


class _File(SecureFile):
    """A file that gives its connection back; in a transaction of fsspec it waits for the end of that."""

    _fs: SecureFileSystem
    _autocommit = True

    def close(self) -> None:
        if self._stream.closed:
            return
        if not self._autocommit and self._stream.writes:
            self.flush()
            return
        try:
            super().close()
        finally:
            self._fs.give(self._conn)

    def abort(self) -> None:
        if not self._stream.closed:
            try:
                super().abort()
            finally:
                self._fs.give(self._conn)

    def commit(self) -> None:
        self._autocommit = True
        self.close()

    discard = abort


class SecureFileSystem(AbstractFileSystem):  # type: ignore[misc]
    """Files in a table.

    dsn: as psycopg.connect() wants it; table, column: where the values are; key: the text
    column with the paths, the primary key if none is named; modified, created: columns of
    times, if there are any; modified is set at each change.
    """

    protocol = "securefile"
    root_marker = ""

    def __init__(
        self,
        dsn: str = "",
        table: str | Sequence[str] = "files",
        column: str = "document",
        key: str | None = None,
        modified: str | None = None,
        created: str | None = None,
        **kwargs: Any,
    ) -> None:
        unknown = kwargs.keys() - _OPTIONS
        if unknown:
            raise TypeError(f"the file system securefile has no option {', '.join(sorted(unknown))}")
        super().__init__(**kwargs)
        self.dsn, self.table, self.column = dsn, table, column
        self._times = {"mtime": modified, "created": created}
        self._key = key
        self._idle: list[psycopg.Connection[Any]] = []
        self._lock = threading.Lock()
        self._process = os.getpid()

    # ---- connections ----

    def take(self) -> psycopg.Connection[Any]:
        """A connection of this process that nobody uses."""
        with self._lock:
            if self._process != os.getpid():
                self._idle, self._process = [], os.getpid()
            while self._idle:
                conn = self._idle.pop()
                if _lives(conn):
                    return conn
        return psycopg.connect(self.dsn, autocommit=True)

    def give(self, conn: psycopg.Connection[Any]) -> None:
        with self._lock:
            if not conn.closed:
                self._idle.append(conn)

    @contextlib.contextmanager
    def _connection(self) -> Iterator[psycopg.Connection[Any]]:
        conn = self.take()
        try:
            yield conn
        finally:
            self.give(conn)

    def close(self) -> None:
        """Close the connections that no file uses."""
        with self._lock:
            while self._idle:
                self._idle.pop().close()

    def __del__(self) -> None:
        if hasattr(self, "_idle") and self._process == os.getpid():
            self.close()

    def _row(self, conn: psycopg.Connection[Any], path: str) -> dict[str, str]:
        return {self._key_column(conn): self._strip_protocol(path)}

    def _key_column(self, conn: psycopg.Connection[Any]) -> str:
        if self._key is None:
            self._key = run(conn, one_key_column(conn, table_name(self.table)))
        return self._key

    def _query(self, text: str, *parameters: Any) -> list[tuple[Any, ...]]:
        """{t}, {k} and {c} are the table, the key and the column, {times} the columns of times.

        {set}, and {also} with {now}, set the time of the last change.
        """
        modified = self._times["mtime"]
        with self._connection() as conn:
            names: dict[str, Composable] = {
                "set": SQL(", {} = pg_catalog.now()").format(Name(modified)) if modified else SQL(""),
                "also": SQL(", {}").format(Name(modified)) if modified else SQL(""),
                "now": SQL(", pg_catalog.now()" if modified else ""),
                "t": table_name(self.table),
                "k": Name(self._key_column(conn)),
                "c": Name(self.column),
                "times": SQL(", ").join(SQL("max({})").format(Name(name)) if name else SQL("NULL") for name in self._times.values()),
            }
            return run(conn, ask(SQL(text).format(**names), *parameters)).rows

    # ---- what there is ----

    def _entry(self, name: str, size: int, kind: str, times: Sequence[Any] = ()) -> dict[str, Any]:
        found = {what: time for what, time in zip(self._times, times) if time is not None}
        return {"name": name, "size": size, "type": kind, **(found if kind == "file" else {})}

    def info(self, path: str, **kwargs: Any) -> dict[str, Any]:
        path = self._strip_protocol(path)
        rows = self._query("SELECT length({c}), {times} FROM {t} WHERE {k} = %s AND {c} IS NOT NULL GROUP BY {k}, {c}", path)
        if rows:
            return self._entry(path, rows[0][0], "file", rows[0][1:])
        if path == "" or self._query("SELECT 1 FROM {t} WHERE starts_with({k}, %s) LIMIT 1", f"{path}/"):
            return self._entry(path, 0, "directory")
        raise FileNotFoundError(path)

    def ls(self, path: str, detail: bool = True, **kwargs: Any) -> list[Any]:
        path = self._strip_protocol(path)
        prefix = f"{path}/" if path else ""
        rows = self._query(
            "SELECT part, inside, max(size), {times} FROM (SELECT *, split_part(rest, '/', 1) AS part, strpos(rest, '/') > 0 AS inside"
            " FROM (SELECT *, length({c}) AS size, substr({k}, %s) AS rest FROM {t} WHERE starts_with({k}, %s) AND {c} IS NOT NULL) AS r)"
            " AS r GROUP BY part, inside ORDER BY part, inside",
            len(prefix) + 1,
            prefix,
        )
        entries = [
            self._entry(prefix + part, 0 if inside else size, "directory" if inside else "file", times)
            for part, inside, size, *times in rows
        ]
        if not entries:
            entries = [self.info(path)] if path else []
        return entries if detail else [entry["name"] for entry in entries]

    def created(self, path: str) -> datetime:
        return self._time(path, "created")

    def modified(self, path: str) -> datetime:
        return self._time(path, "mtime")

    def _time(self, path: str, what: str) -> datetime:
        if self._times[what] is None:
            raise NotImplementedError("no column of times was named")
        time: datetime | None = self.info(path).get(what)
        if time is None:
            raise ValueError(f"{self._times[what]} is NULL for {path}")
        return time

    def _values(self) -> dict[str, datetime]:
        """What is set with a value."""
        modified = self._times["mtime"]
        return {modified: datetime.now(timezone.utc)} if modified else {}

    # ---- contents ----

    def _open(
        self, path: str, mode: str = "rb", block_size: Any = None, autocommit: bool = True, cache_options: Any = None, **kwargs: Any
    ) -> SecureFile:
        conn = self.take()
        try:
            stream = run(conn, opened(conn, self.table, self.column, self._row(conn, path), mode, None, (), self._values()))
        except BaseException:
            self.give(conn)
            raise
        file = _File(conn, stream)
        file._fs, file._autocommit = self, autocommit
        return file

    def cat_file(self, path: str, start: int | None = None, end: int | None = None, **kwargs: Any) -> bytes:
        if (start or 0) < 0 or (end or 0) < 0:
            size = self.info(path)["size"]
            start, end = (max(size + at, 0) if at is not None and at < 0 else at for at in (start, end))
        first = start or 0
        with self._connection() as conn:
            length = None if end is None else max(end - first, 0)
            data: bytes = get(conn, self.table, self.column, self._row(conn, path), offset=first, length=length)
        return data

    def cat(self, path: Any, recursive: bool = False, on_error: str = "raise", **kwargs: Any) -> Any:
        """The files of a list by one statement."""
        paths = self.expand_path(path, recursive=recursive)
        if on_error != "raise" or (len(paths) == 1 and isinstance(path, str) and not recursive):
            return super().cat(path, recursive=recursive, on_error=on_error, **kwargs)
        names = [name for name in paths if not recursive or self.isfile(name)]
        with self._connection() as conn:
            data = get_many(conn, self.table, self.column, names, key_column=self._key_column(conn))
        for name, value in zip(names, data):
            if value is None:
                raise FileNotFoundError(name)
        return dict(zip(names, data))

    def pipe_file(self, path: str, value: bytes, mode: str = "overwrite", **kwargs: Any) -> None:
        if mode == "create" and self.exists(path):
            raise FileExistsError(path)
        with self._connection() as conn:
            put(conn, self.table, self.column, self._row(conn, path), value, values=self._values())

    def put_file(self, lpath: str, rpath: str, callback: Any = DEFAULT_CALLBACK, mode: str = "overwrite", **kwargs: Any) -> None:
        if os.path.isdir(lpath):
            return
        if mode == "create" and self.exists(rpath):
            raise FileExistsError(rpath)
        callback.set_size(os.path.getsize(lpath))
        with self._connection() as conn:
            row, values = self._row(conn, rpath), self._values()
            put(conn, self.table, self.column, row, lpath, values=values, progress=lambda done, _: callback.absolute_update(done))

    def get_file(self, rpath: str, lpath: Any, callback: Any = DEFAULT_CALLBACK, outfile: Any = None, **kwargs: Any) -> None:
        if self.isdir(rpath):
            os.makedirs(lpath, exist_ok=True)
            return
        if outfile is None and not hasattr(lpath, "write"):
            os.makedirs(os.path.dirname(os.path.abspath(lpath)), exist_ok=True)
        with self._connection() as conn:
            target = lpath if outfile is None else outfile
            get(conn, self.table, self.column, self._row(conn, rpath), target, progress=lambda done, _: callback.absolute_update(done))

    # ---- rows ----

    def rm_file(self, path: str) -> None:
        if not self._query("DELETE FROM {t} WHERE {k} = %s RETURNING 1", self._strip_protocol(path)):
            raise FileNotFoundError(path)

    def rm(self, path: Any, recursive: bool = False, maxdepth: int | None = None) -> None:
        for name in self.expand_path(path, recursive=recursive, maxdepth=maxdepth):
            if not recursive or self.isfile(name):
                self.rm_file(name)

    def cp_file(self, path1: str, path2: str, **kwargs: Any) -> None:
        """Other columns have their defaults in the copy."""
        source, target = self._strip_protocol(path1), self._strip_protocol(path2)
        if self.isdir(source):
            return
        copied = self._query(
            "WITH source AS (SELECT {c} AS value FROM {t} WHERE {k} = %s), updated AS (UPDATE {t} SET {c} = source.value{set}"
            " FROM source WHERE {k} = %s RETURNING 1), inserted AS (INSERT INTO {t} ({k}, {c}{also}) SELECT %s, value{now} FROM source"
            " WHERE NOT EXISTS (SELECT FROM updated) RETURNING 1) SELECT 1 FROM updated UNION ALL SELECT 1 FROM inserted",
            source,
            target,
            target,
        )
        if not copied:
            raise FileNotFoundError(path1)

    def mkdir(self, path: str, create_parents: bool = True, **kwargs: Any) -> None:
        """Directories are the parts of paths, and need not be made."""

    def makedirs(self, path: str, exist_ok: bool = False) -> None:
        """As mkdir()."""

    def rmdir(self, path: str) -> None:
        """As mkdir()."""

    def ukey(self, path: str) -> str:
        """Changes with the row."""
        rows = self._query("SELECT xmin::text || ' ' || length({c})::text FROM {t} WHERE {k} = %s", self._strip_protocol(path))
        if not rows:
            raise FileNotFoundError(path)
        return str(rows[0][0])
