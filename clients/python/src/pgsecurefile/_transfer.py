"""Whole values: put, get, and many at once."""

from __future__ import annotations

import contextlib
import io
import operator
import os
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import IO, Any, Union

from psycopg import Connection
from psycopg.sql import SQL, Composable, Literal

from ._place import Place, Table, one_key_column, place_of, table_name
from ._server import server_of
from ._steps import AnyConnection, Ask, Block, Name, Steps, run
from ._stream import MAX_BYTES, WINDOW_PIECES, Stream, position_of
from ._wire import PIECE_BYTES

VALUE_BYTES = 1024 * 1024
"""Up to this length a value goes as one parameter or result, above in pieces."""

WINDOW_BYTES = 4 * WINDOW_PIECES * PIECE_BYTES

Progress = Callable[[int, "int | None"], object]
Path = Union[str, "os.PathLike[str]"]


def at(place: Steps[Place], work: Callable[[Place], Steps[int]]) -> Steps[int]:
    """Work at a place that is to be found."""
    return (yield from work((yield from place)))


# ---- put ----


def check_source(source: Any) -> None:
    if hasattr(source, "read") or isinstance(source, (str, os.PathLike)):
        return
    try:
        memoryview(source)
    except TypeError:
        raise TypeError(f"the source is to be bytes, a path, or an object with read(), not {type(source).__name__}") from None


class Source:
    """Bytes, a path, or an object with read(); read in pieces, with progress."""

    def __init__(self, source: Any, progress: Progress | None) -> None:
        self.progress = progress
        self.done = 0
        self.ended = False
        self.total: int | None = None
        self._close = False
        check_source(source)
        if isinstance(source, (str, os.PathLike)):
            source = open(source, "rb", buffering=0)
            self._close = True
            self.total = os.fstat(source.fileno()).st_size
        elif not hasattr(source, "read"):
            self.total = memoryview(source).nbytes
            source = _Bytes(source)
        self._source = source
        self._first = b""

    def _read(self, size: int) -> bytes:
        """As many bytes as wanted, but at the end."""
        data: bytes = self._source.read(size)
        if not isinstance(data, (bytes, bytearray, memoryview)):
            raise TypeError(f"read() gave {type(data).__name__}: open the file in binary mode")
        while data and len(data) < size:
            more = self._source.read(size - len(data))
            if not more:
                break
            data = bytes(data) + more
        self.ended = len(data) < size
        return data

    def first(self) -> bytes:
        """The value, if it is a short one; else window() has these bytes, too."""
        self._first = self._read(VALUE_BYTES + 1)
        self._more = self.ended
        return self._first

    def window(self, whole: bool = False) -> Iterator[memoryview | bytes]:
        """The pieces of the next window, each read when it is wanted."""
        pieces = self._pieces()
        return iter(list(pieces)) if whole else pieces

    def _pieces(self) -> Iterator[memoryview | bytes]:
        until = self.done + WINDOW_BYTES
        while self.done < until and not (self.ended and not self._first):
            piece: memoryview | bytes
            if self._first:
                piece = memoryview(self._first)[:PIECE_BYTES]
                self._first = self._first[PIECE_BYTES:]
                if len(piece) < PIECE_BYTES and not self.ended:
                    piece = bytes(piece) + self._read(PIECE_BYTES - len(piece))
            else:
                piece = self._read(PIECE_BYTES)
            if len(piece) > 0:
                yield piece
            self.note(len(piece))

    def note(self, count: int) -> None:
        self.done += count
        if self.progress is not None:
            self.progress(self.done, self.total)

    def close(self) -> None:
        if self._close:
            self._source.close()


class _Bytes:
    """Bytes as a source, without a copy of all of them."""

    def __init__(self, data: Any) -> None:
        view = memoryview(data)
        self._view = view.cast("B") if view.c_contiguous else memoryview(view.tobytes())

    def read(self, size: int) -> bytes:
        data = bytes(self._view[:size])
        self._view = self._view[size:]
        return data


def put_steps(place: Place, source: Source, whole: bool) -> Steps[int]:
    first = yield Block(source.first)
    if source.ended:
        yield from place.put(SQL("%b"), first)
        source.note(len(first))
        return len(first)
    stream = Stream(place, "w")
    yield from stream.open()
    try:
        while not (source.ended and not source._first):
            before = source.done
            pieces = yield Block(lambda: source.window(whole))
            stream.position = before
            yield from stream.copy_from(pieces)
        yield from stream.close()
    except BaseException:
        yield from stream.abort()
        raise
    return source.done


def put(
    conn: Connection[Any],
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
    """Store bytes, the file at a path, or what an object's read() gives; return the length.

    The row is named as in open(), and made if a key is given and there is none.
    progress(done, total) is called after each piece; an exception that it raises ends the
    work, and nothing is stored.

    resume: the file at a path is stored in committed steps of 64 MB, under a name of its own
    until it is complete; a call after one that has failed goes on where that ended.
    """
    if resume:
        from ._resume import put_steps as resumed

        return run(conn, at(place_of(conn, table, column, key, where, params, values), lambda p: resumed(p, source, progress, False)))

    def steps() -> Steps[int]:
        place = yield from place_of(conn, table, column, key, where, params, values)
        return (yield from put_steps(place, opened, whole=False))

    opened = Source(source, progress)
    with contextlib.closing(opened):
        return run(conn, steps())


# ---- get ----


class Sink:
    """A path, an object with write(), or memory."""

    def __init__(self, target: Any, progress: Progress | None) -> None:
        self.progress = progress
        self.done = 0
        self.total: int | None = None
        self._memory = io.BytesIO()
        self._path = os.fspath(target) if isinstance(target, (str, os.PathLike)) else None
        self._temporary = ""
        self._file: IO[bytes] | None = None
        if self._path is not None and os.path.exists(self._path) and not os.path.isfile(self._path):
            self._file = open(self._path, "wb", buffering=0)  # a pipe, a device: not to be replaced
            self._write: Callable[[bytes], Any] = self._file.write
        elif self._path is not None:
            self._path = os.path.realpath(self._path)
            folder, name = os.path.split(self._path)
            number, self._temporary = tempfile.mkstemp(".part", f".{name}.", folder)
            self._file = open(number, "wb", buffering=0)
            self._write = self._file.write
        elif target is not None:
            self._write = target.write
        else:
            self._write = self._memory.write

    def take(self, piece: bytes) -> None:
        rest = memoryview(piece)
        while len(rest) > 0:
            written = self._write(piece if len(rest) == len(piece) else rest)  # type: ignore[arg-type]
            rest = rest[written if isinstance(written, int) else len(rest) :]
        self.done += len(piece)
        if self.progress is not None:
            self.progress(self.done, self.total)

    def bytes(self) -> bytes:
        return self._memory.getvalue()

    def end(self, complete: bool) -> None:
        """The file has its name when it is complete."""
        if self._file is None:
            return
        self._file.close()
        if self._temporary == "":
            return
        if complete and self._path is not None:
            mask = os.umask(0)
            os.umask(mask)
            os.chmod(self._temporary, 0o666 & ~mask)
            os.replace(self._temporary, self._path)
        else:
            with contextlib.suppress(FileNotFoundError):
                os.unlink(self._temporary)


def _short_value(place: Place, start: int, count: int) -> Steps[tuple[int, bytes | None]]:
    """The length of a value, and the bytes of the range, if they are few."""
    length = SQL("pg_catalog.length({})").format(place.column)
    part: Composable = place.column
    if start > 0 or count < MAX_BYTES:
        part = SQL("pg_catalog.substring({}, {}::pg_catalog.int8, {}::pg_catalog.int8)").format(
            place.column, Literal(start + 1), Literal(min(count, VALUE_BYTES))
        )
    columns = SQL("{}, CASE WHEN LEAST({}::pg_catalog.int8, {} - {}) <= {} THEN {} END").format(
        length, Literal(count), length, Literal(start), Literal(VALUE_BYTES), part
    )
    rows = yield from place.select(columns)
    if not rows or rows[0][0] is None:
        raise place.missing()
    return rows[0]


def get_steps(place: Place, start: int, count: int, sink: Sink, whole: bool) -> Steps[int]:
    length, data = yield from _short_value(place, start, count)
    sink.total = max(min(count, length - start), 0)
    if data is not None:
        yield Block(lambda: sink.take(data))
        return sink.done
    stream = Stream(place, "r")
    yield from stream.open()
    try:
        stream.position = start
        end = min(stream.length, start + count)
        sink.total = max(end - start, 0)
        while stream.position < end:
            yield from _get_window(stream, min(end, stream.position + WINDOW_BYTES), sink, whole)
        yield from stream.close()
    except BaseException:
        yield from stream.abort()
        raise
    return sink.done


def _get_window(stream: Stream, until: int, sink: Sink, whole: bool) -> Steps[None]:
    """whole: the sink is not called from inside of the event loop."""
    if not whole:
        yield from stream.copy_to(sink.take, until)
        return
    pieces: list[bytes] = []
    yield from stream.copy_to(pieces.append, until)
    for piece in pieces:
        yield Block(lambda p=piece: sink.take(p))  # type: ignore[misc]


def get(
    conn: Connection[Any],
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
    """Fetch a value, or a range of it: return its bytes; with a target, its length.

    The target is a path, or an object with write().  A file at the path, or where a link there
    leads, is replaced when the value has come completely; a pipe or a device is written to.  progress is as that of put().

    resume: what a call that fails has fetched stays beside the path, and the next call goes
    on there, unless the value has changed.
    """
    if resume:
        from ._resume import get_steps as resumed

        check_no_range(offset, length)
        return run(conn, at(place_of(conn, table, column, key, where, params), lambda p: resumed(p, target, progress, False)))
    sink = Sink(target, progress)
    complete = False
    try:
        count = run(conn, got(conn, (table, column, key, where, params), offset, length, sink, whole=False))
        complete = True
    finally:
        sink.end(complete)
    return sink.bytes() if target is None else count


def check_no_range(offset: int, length: int | None) -> None:
    if offset != 0 or length is not None:
        raise ValueError("resume fetches a whole value: offset and length cannot be given")


def got(conn: AnyConnection, named: Any, offset: int, length: int | None, sink: Sink, whole: bool) -> Steps[int]:
    offset, count = position_of(offset), MAX_BYTES if length is None else min(operator.index(length), MAX_BYTES)
    if offset < 0 or count < 0:
        raise ValueError("offset and length cannot be negative")
    place = yield from place_of(conn, *named)
    return (yield from get_steps(place, offset, count, sink, whole))


# ---- many ----


def many_steps(conn: AnyConnection, table: Table, column: str, keys: Iterable[Any], key_column: str | None) -> Steps[list[bytes | None]]:
    if isinstance(keys, (str, bytes)):
        raise TypeError("keys are to be a list of keys, not one key")
    keys = list(keys)
    name = table_name(table)
    yield from server_of(conn)
    by = key_column or (yield from one_key_column(conn, name))
    query = SQL("SELECT {}, {} FROM {} WHERE {} = ANY (%s)").format(Name(by), Name(column), name, Name(by))
    answer = yield Ask(query, (keys,))
    found = dict(answer.rows)
    if not found.keys() <= set(keys):
        raise TypeError(f"keys have to be of the type that the driver gives for {by}: {type(next(iter(found))).__name__}")
    return [found.get(key) for key in keys]


def get_many(conn: Connection[Any], table: Table, column: str, keys: Iterable[Any], *, key_column: str | None = None) -> list[bytes | None]:
    """The values of many keys, in their order, by one statement.

    None stands for a row that is not there, and for NULL.  key_column is the primary key,
    if none is named.
    """
    return run(conn, many_steps(conn, table, column, keys, key_column))
