"""A value as a file of Python's io."""

from __future__ import annotations

import contextlib
import io
import warnings
from collections.abc import Mapping, Sequence
from types import TracebackType
from typing import TYPE_CHECKING, Any, TypeVar

from psycopg import Connection
from psycopg.sql import Composable

from ._place import Table, place_of
from ._steps import AnyConnection, Steps, run
from ._stream import Stream, Target

if TYPE_CHECKING:
    from typing_extensions import Buffer, Self

T = TypeVar("T")


def opened(
    conn: AnyConnection,
    table: Table,
    column: str,
    key: Any,
    mode: str,
    where: str | Composable | None,
    params: Sequence[Any],
    values: Mapping[str, Any] | None,
) -> Steps[Stream]:
    """A stream that is open."""
    place = yield from place_of(conn, table, column, key, where, params, values)
    stream = Stream(place, mode)
    yield from stream.open()
    return stream


def open(
    conn: Connection[Any],
    table: Table,
    column: str,
    key: Any = None,
    mode: str = "rb",
    *,
    where: str | Composable | None = None,
    params: Sequence[Any] = (),
    values: Mapping[str, Any] | None = None,
) -> SecureFile:
    """Open one value as a binary file.

    The row is named by key, a value of the primary key or a dictionary {column: value}, or
    by where, a condition with its params.  Modes are those of the built-in open() in
    binary: r, r+, w, w+, a, x.  A row that is not there is made by w, a and x, if a key is
    given.  values are other columns that are set when the value is stored.

    The file lives in the caller's transaction.  On a connection with autocommit and
    without a transaction it begins one: close() commits after writing, abort() and an
    exception inside of "with" roll back.
    """
    return SecureFile(conn, run(conn, opened(conn, table, column, key, mode, where, params, values)))


class SecureFile(io.RawIOBase):
    """An open value.  Reads and writes are complete, as those of io.BufferedIOBase."""

    def __init__(self, conn: Connection[Any], stream: Stream) -> None:
        super().__init__()
        self._conn = conn
        self._stream = stream

    # ---- what it is ----

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.mode} of {self._stream}>"

    @property
    def mode(self) -> str:
        return f"{self._stream.mode[0]}b{self._stream.mode[1:]}"

    @property
    def size(self) -> int:
        """The length of the value, with what was written."""
        return self._stream.length

    @property
    def closed(self) -> bool:
        return super().closed or self._stream.closed

    def readable(self) -> bool:
        return self._stream.reads

    def writable(self) -> bool:
        return self._stream.writes

    def seekable(self) -> bool:
        return True

    # ---- work ----

    def _run(self, steps: Steps[T]) -> T:
        return run(self._conn, steps)

    def _check(self, able: bool = True, what: str = "") -> None:
        if self.closed:
            raise ValueError("I/O operation on closed file")
        if not able:
            raise io.UnsupportedOperation(what)

    def read(self, size: int | None = -1) -> bytes:
        self._check(self._stream.reads, "not readable")
        want = self._stream.size_of(size)
        held = self._stream.held(want)
        if held is not None:
            return bytes(held)
        memory = io.BytesIO()
        self._run(self._stream.read(want, memory.write))
        return memory.getvalue()

    def read1(self, size: int | None = -1) -> bytes:
        return self.read(io.DEFAULT_BUFFER_SIZE if size is None or size < 0 else size)

    def readall(self) -> bytes:
        return self.read()

    def readinto(self, buffer: Buffer) -> int:
        self._check(self._stream.reads, "not readable")
        target = Target(buffer)
        return self._run(self._stream.read(target.room, target.take))

    def write(self, data: Buffer) -> int:
        self._check(self._stream.writes, "not writable")
        return self._run(self._stream.write(data))

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        self._check()
        return self._stream.seek(offset, whence)

    def tell(self) -> int:
        self._check()
        return self._stream.position

    def truncate(self, size: int | None = None) -> int:
        self._check(self._stream.writes, "not writable")
        length = self._stream.position if size is None else size
        self._run(self._stream.truncate(length))
        return length

    def flush(self) -> None:
        """Send what waits to the server; it is stored by close()."""
        if not self.closed:
            self._run(self._stream.flush())

    # ---- what the server does by itself: the bytes do not travel ----

    def find(self, sub: Buffer, start: int | None = None) -> int:
        """Where these bytes come next, from start (or the position) on; -1: nowhere.  The position stays."""
        self._check(self._stream.reads, "not readable")
        return self._run(self._stream.find(sub, start))

    def erase(self, count: int) -> int:
        """Make count bytes from the position on zeros, as far as the value goes; how many they were."""
        self._check(self._stream.writes, "not writable")
        return self._run(self._stream.erase(count))

    def copy_range(self, source: SecureFile, count: int | None = None) -> int:
        """Write count bytes of another file of this connection, None: all, from its position on.

        Both positions move.  How many bytes there were.
        """
        self._check(self._stream.writes, "not writable")
        source._check(source._stream.reads, "not readable")
        return self._run(self._stream.copy_range(source._stream, count))

    # ---- the end ----

    def close(self) -> None:
        """Store what was written, in the transaction; commit, if that is the file's own."""
        try:
            self._run(self._stream.close())
        finally:
            self._stream.closed = True
            super().close()

    def abort(self) -> None:
        """Close, and store nothing; roll back, if the transaction is the file's own."""
        try:
            self._run(self._stream.abort())
        finally:
            super().close()

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        if kind is None:
            self.close()
        else:
            self.abort()

    def __del__(self) -> None:
        """A file that was forgotten is not stored."""
        if hasattr(self, "_stream") and not self._stream.closed:
            try:
                warnings.warn(f"unclosed file {self!r}", ResourceWarning, source=self, stacklevel=2)
            finally:
                # it may be forgotten while its own thread uses the connection
                with contextlib.suppress(Exception):
                    if self._conn.lock.acquire(blocking=False):
                        self._conn.lock.release()
                        self.abort()

    if TYPE_CHECKING:

        def __enter__(self) -> Self: ...
