"""pgsecurefile for psycopg.AsyncConnection: the same names, to be awaited."""

from __future__ import annotations

import contextlib
import inspect
import io
import warnings
from collections.abc import Generator, Iterable, Mapping, Sequence
from types import TracebackType
from typing import TYPE_CHECKING, Any

from psycopg import AsyncConnection
from psycopg.sql import Composable

from ._file import opened
from ._place import Table, place_of
from ._server import register_async as register
from ._steps import Steps, run_async
from ._stream import Stream, Target
from ._transfer import Progress, Sink, Source, at, check_no_range, check_source, got, many_steps, put_steps
from ._wire import PIECE_BYTES

if TYPE_CHECKING:
    from typing_extensions import Buffer

__all__ = ["AsyncSecureFile", "get", "get_many", "open", "put", "register"]


class AsyncSecureFile:
    """An open value; the methods of pgsecurefile.SecureFile, to be awaited."""

    def __init__(self, conn: AsyncConnection[Any], stream: Stream) -> None:
        self._conn = conn
        self._stream = stream

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
        return self._stream.closed

    def readable(self) -> bool:
        return self._stream.reads

    def writable(self) -> bool:
        return self._stream.writes

    def seekable(self) -> bool:
        return True

    def _check(self, able: bool = True, what: str = "") -> None:
        if self._stream.closed:
            raise ValueError("I/O operation on closed file")
        if not able:
            raise io.UnsupportedOperation(what)

    async def read(self, size: int | None = -1) -> bytes:
        self._check(self._stream.reads, "not readable")
        want = self._stream.size_of(size)
        held = self._stream.held(want)
        if held is not None:
            return bytes(held)
        memory = io.BytesIO()
        await run_async(self._conn, self._stream.read(want, memory.write))
        return memory.getvalue()

    async def readinto(self, buffer: Buffer) -> int:
        self._check(self._stream.reads, "not readable")
        target = Target(buffer)
        return await run_async(self._conn, self._stream.read(target.room, target.take))

    async def write(self, data: Buffer) -> int:
        self._check(self._stream.writes, "not writable")
        return await run_async(self._conn, self._stream.write(data))

    async def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        self._check()
        return self._stream.seek(offset, whence)

    async def tell(self) -> int:
        self._check()
        return self._stream.position

    async def truncate(self, size: int | None = None) -> int:
        self._check(self._stream.writes, "not writable")
        length = self._stream.position if size is None else size
        await run_async(self._conn, self._stream.truncate(length))
        return length

    async def flush(self) -> None:
        """Send what waits to the server; it is stored by close()."""
        if not self.closed:
            await run_async(self._conn, self._stream.flush())

    async def find(self, sub: Buffer, start: int | None = None) -> int:
        """Where these bytes come next, from start (or the position) on; -1: nowhere.  The position stays."""
        self._check(self._stream.reads, "not readable")
        return await run_async(self._conn, self._stream.find(sub, start))

    async def erase(self, count: int) -> int:
        """Make count bytes from the position on zeros, as far as the value goes; how many they were."""
        self._check(self._stream.writes, "not writable")
        return await run_async(self._conn, self._stream.erase(count))

    async def copy_range(self, source: AsyncSecureFile, count: int | None = None) -> int:
        """Write count bytes of another file of this connection, None: all, from its position on.

        Both positions move.  How many bytes there were.
        """
        self._check(self._stream.writes, "not writable")
        source._check(source._stream.reads, "not readable")
        return await run_async(self._conn, self._stream.copy_range(source._stream, count))

    async def close(self) -> None:
        """Store what was written, in the transaction; commit, if that is the file's own."""
        try:
            await run_async(self._conn, self._stream.close())
        finally:
            self._stream.closed = True

    async def abort(self) -> None:
        """Close, and store nothing; roll back, if the transaction is the file's own."""
        await run_async(self._conn, self._stream.abort())

    async def __aenter__(self) -> AsyncSecureFile:
        return self

    async def __aexit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        if kind is None:
            await self.close()
        else:
            await self.abort()

    def __aiter__(self) -> AsyncSecureFile:
        return self

    async def __anext__(self) -> bytes:
        """Pieces, not lines."""
        piece = await self.read(PIECE_BYTES)
        if not piece:
            raise StopAsyncIteration
        return piece

    def __del__(self) -> None:
        """A file that was forgotten is not stored; its transaction is the connection's to end."""
        if hasattr(self, "_stream") and not self._stream.closed:
            warnings.warn(f"unclosed file {self!r}", ResourceWarning, source=self, stacklevel=2)


class _Opening:
    """What open() gives: to be awaited, or to be entered by "async with"."""

    def __init__(self, conn: AsyncConnection[Any], steps: Steps[Stream]) -> None:
        self._conn = conn
        self._steps = steps
        self._file: AsyncSecureFile | None = None

    async def _open(self) -> AsyncSecureFile:
        self._file = AsyncSecureFile(self._conn, await run_async(self._conn, self._steps))
        return self._file

    def __await__(self) -> Generator[Any, None, AsyncSecureFile]:
        return self._open().__await__()

    async def __aenter__(self) -> AsyncSecureFile:
        return await self._open()

    async def __aexit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        if self._file is not None:
            await self._file.__aexit__(kind, error, trace)


def open(
    conn: AsyncConnection[Any],
    table: Table,
    column: str,
    key: Any = None,
    mode: str = "rb",
    *,
    where: str | Composable | None = None,
    params: Sequence[Any] = (),
    values: Mapping[str, Any] | None = None,
) -> _Opening:
    """pgsecurefile.open(): "async with open(..) as file", or "file = await open(..)"."""
    return _Opening(conn, opened(conn, table, column, key, mode, where, params, values))


async def put(
    conn: AsyncConnection[Any],
    table: Table,
    column: str,
    key: Any = None,
    source: Any = None,
    *,
    where: str | Composable | None = None,
    params: Sequence[Any] = (),
    values: Mapping[str, Any] | None = None,
    progress: Progress | None = None,
    resume: bool = False,
) -> int:
    """pgsecurefile.put(); the source's read() may be a coroutine, as that of an upload."""
    if resume:
        from ._resume import put_steps as resumed

        found = place_of(conn, table, column, key, where, params, values)
        return await run_async(conn, at(found, lambda p: resumed(p, source, progress, True)))
    check_source(source)
    if inspect.iscoroutinefunction(getattr(source, "read", None)):
        async with open(conn, table, column, key, "wb", where=where, params=params, values=values) as file:
            while piece := await source.read(PIECE_BYTES):
                await file.write(piece)
                if progress is not None:
                    progress(file.size, None)
            return file.size

    def steps() -> Steps[int]:
        place = yield from place_of(conn, table, column, key, where, params, values)
        return (yield from put_steps(place, given, whole=True))

    given = Source(source, progress)
    with contextlib.closing(given):
        return await run_async(conn, steps())


async def get(
    conn: AsyncConnection[Any],
    table: Table,
    column: str,
    key: Any = None,
    target: Any = None,
    *,
    where: str | Composable | None = None,
    params: Sequence[Any] = (),
    offset: int = 0,
    length: int | None = None,
    progress: Progress | None = None,
    resume: bool = False,
) -> Any:
    """pgsecurefile.get(); files are written in a thread."""
    if resume:
        from ._resume import get_steps as resumed

        check_no_range(offset, length)
        found = place_of(conn, table, column, key, where, params)
        return await run_async(conn, at(found, lambda p: resumed(p, target, progress, True)))
    sink = Sink(target, progress)
    complete = False
    try:
        count = await run_async(conn, got(conn, (table, column, key, where, params), offset, length, sink, whole=True))
        complete = True
    finally:
        sink.end(complete)
    return sink.bytes() if target is None else count


async def get_many(
    conn: AsyncConnection[Any], table: Table, column: str, keys: Iterable[Any], *, key_column: str | None = None
) -> list[bytes | None]:
    """pgsecurefile.get_many()."""
    return await run_async(conn, many_steps(conn, table, column, keys, key_column))
