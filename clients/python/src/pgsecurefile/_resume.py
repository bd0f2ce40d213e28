"""put() and get() that go on where an earlier call has ended.

put() stores the file in steps, each of them committed, in a row of its own; its name tells
the source's length and time, as the command securefile makes them.  Such a row takes the
value's name when it is complete.  get() leaves the file of parts beside the target; its name
tells the version.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from dataclasses import replace
from typing import IO, Any

from psycopg import errors
from psycopg.pq import TransactionStatus
from psycopg.sql import SQL

from ._place import Place
from ._ranges import Version, look
from ._steps import Block, Name, Steps, ask
from ._stream import Stream, Transaction
from ._transfer import WINDOW_BYTES, Progress
from ._wire import PIECE_BYTES

STEP_BYTES = 64 * 1024 * 1024
"""Bytes of a put() that are committed together."""


# ---- put ----


class _Source:
    """An open file, and what its part's row is called."""

    def __init__(self, path: str | os.PathLike[str], name: str, progress: Progress | None) -> None:
        self.file: IO[bytes] = open(path, "rb", buffering=0)
        self.made = self._stamp()
        self.size = os.fstat(self.file.fileno()).st_size
        self.part = f".securefile-part/{self.made}/{name}"
        self._progress = progress

    def _stamp(self) -> str:
        now = os.fstat(self.file.fileno())
        seconds, nanoseconds = divmod(now.st_mtime_ns, 1_000_000_000)
        return f"{now.st_size}-{seconds}.{nanoseconds:09}"

    def pieces(self, start: int, end: int) -> Iterator[bytes]:
        """The range, with an error if the file has changed."""
        self.file.seek(start)
        while start < end:
            piece = self.file.read(min(PIECE_BYTES, end - start))
            if not piece or self._stamp() != self.made:
                raise OSError(f"the file has changed while it was read: {self.file.name}")
            yield piece
            start += len(piece)
            if self._progress is not None:
                self._progress(start, self.size)


def _text_key(place: Place) -> str:
    values = list((place.key or {}).values())
    if len(values) != 1 or not isinstance(values[0], str):
        raise TypeError("resume wants a key of one text column")
    return values[0]


def put_steps(place: Place, path: Any, progress: Progress | None, whole: bool) -> Steps[int]:
    if not isinstance(path, (str, os.PathLike)):
        raise TypeError("resume wants the path of a file")
    if not place.conn.autocommit or place.conn.info.transaction_status != TransactionStatus.IDLE:
        raise errors.ProgrammingError("resume wants a connection with autocommit and without a transaction: it commits each step")
    name = _text_key(place)
    source = _Source(path, name, progress)
    try:
        part = _place_of_part(place, source.part)
        done, complete = 0, False
        while not complete:
            done = yield from _one_step(part, source, whole)
            complete = done >= source.size
        yield from _take_name(place, part, name)
    finally:
        source.file.close()
    return source.size


def _place_of_part(place: Place, name: str) -> Place:
    (column,) = place.key or {}
    return replace(place, key={column: name}, parameters=(name,), what=f"{column} = {name!r}")


def _one_step(part: Place, source: _Source, whole: bool) -> Steps[int]:
    """Append the next bytes and commit them; how many there are now."""
    stream = Stream(part, "a")
    yield from stream.open()
    try:
        end = min(stream.length + STEP_BYTES, source.size)
        while stream.position < end:
            until = min(end, stream.position + WINDOW_BYTES)
            pieces: Any = source.pieces(stream.position, until)
            if whole:
                pieces = iter((yield Block(lambda p=pieces: list(p))))  # type: ignore[misc]
            yield from stream.copy_from(pieces)
            stream.position = until
            stream.changed = True
        yield from stream.close()
    except BaseException:
        yield from stream.abort()
        raise
    return stream.position


def _take_name(place: Place, part: Place, name: str) -> Steps[None]:
    """A row with this name gets the value; else the part's row gets the name."""
    (column,) = place.key or {}
    value = SQL("(SELECT {} FROM {} WHERE {})").format(place.column, place.table, part.condition)
    transaction = Transaction(place)
    yield from transaction.begin()
    try:
        if (yield from place.update(value, *part.parameters)) > 0:
            query = SQL("DELETE FROM {} WHERE {}").format(place.table, part.condition)
            yield from ask(query, *part.parameters)
        else:
            query = SQL("UPDATE {} SET {} = %s WHERE {}").format(place.table, Name(column), part.condition)
            yield from ask(query, name, *part.parameters)
        yield from transaction.commit()
    except BaseException:
        yield from transaction.roll_back()
        raise


# ---- get ----


def _part_path(path: str, version: Version) -> str:
    """Parts of other versions are removed."""
    folder, name = os.path.split(os.path.abspath(path))
    part = f".{name}.{version.size}-{version.xmin}.part"
    for other in os.listdir(folder):
        if other != part and re.fullmatch(re.escape(f".{name}.") + r"\d+-\d+\.part", other):
            os.unlink(os.path.join(folder, other))
    return os.path.join(folder, part)


def get_steps(place: Place, target: Any, progress: Progress | None, whole: bool) -> Steps[int]:
    if not isinstance(target, (str, os.PathLike)):
        raise TypeError("resume wants the path of a file")
    path = os.path.realpath(os.fspath(target))
    if os.path.exists(path) and not os.path.isfile(path):
        raise ValueError(f"resume wants the path of a regular file: {path}")
    version = yield from look(place)
    part = _part_path(path, version)
    with open(part, "ab", buffering=0) as file:
        stream = Stream(place, "r")
        yield from stream.open()
        try:
            if (yield from look(place)) != version:
                raise OSError(f"the value was changed while it was opened: {place.what}")
            stream.position = min(file.tell(), version.size)
            while stream.position < version.size:
                yield from _fetch(stream, file, version.size, progress, whole)
            yield from stream.close()
        except BaseException:
            yield from stream.abort()
            raise
    os.replace(part, path)
    return version.size


def _fetch(stream: Stream, file: IO[bytes], size: int, progress: Progress | None, whole: bool) -> Steps[None]:
    """One window."""

    def take(piece: bytes | memoryview) -> None:
        rest = memoryview(piece)
        while len(rest) > 0:
            rest = rest[file.write(rest) :]
        if progress is not None:
            progress(file.tell(), size)

    until = min(size, stream.position + WINDOW_BYTES)
    if not whole:
        yield from stream.copy_to(take, until)
        return
    pieces: list[bytes] = []
    yield from stream.copy_to(pieces.append, until)
    for piece in pieces:
        yield Block(lambda p=piece: take(p))  # type: ignore[misc]
