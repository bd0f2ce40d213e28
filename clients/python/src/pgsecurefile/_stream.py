"""An open value: position, bytes that were read ahead, bytes that wait to be written.

A stream knows no connection but through its steps.  Between two steps the connection is
free: what is read ahead, or gathered, makes one round trip of many pieces.
"""

from __future__ import annotations

import contextlib
import io
import operator
import os
import secrets
from collections.abc import Callable
from typing import Any, Union

from psycopg import errors
from psycopg.pq import TransactionStatus
from psycopg.sql import SQL, Composable, Identifier, Literal

from . import _wire
from ._errors import ValueExists
from ._place import Place
from ._server import plain
from ._steps import Ask, Block, Steps, Wire, ask
from ._wire import PIECE_BYTES

Take = Callable[[Union[bytes, memoryview]], object]

WINDOW_PIECES = 16
"""Pieces that are read ahead, or gathered, at most: 4 MB."""

MODES = {mode: mode.replace("b", "") for mode in ("r", "rb", "r+", "r+b", "w", "wb", "w+", "w+b", "a", "ab", "x", "xb")}
MODES |= {"rb+": "r+", "wb+": "w+"}


MAX_BYTES = 2**63 - 1


def position_of(value: Any) -> int:
    """A position or length that the server can take, if it is not negative."""
    position = operator.index(value)
    if position > MAX_BYTES:
        raise OverflowError(f"a position cannot be over {MAX_BYTES}: {position}")
    return position


class Transaction:
    """The caller's transaction, or with autocommit one that the stream begins and ends."""

    def __init__(self, place: Place) -> None:
        self.conn = place.conn
        self.own = False
        self._mark = ""

    def begin(self) -> Steps[None]:
        self.own = self.conn.autocommit and self.conn.info.transaction_status == TransactionStatus.IDLE
        if self.own:
            # the transaction is known again by a setting, and after an error by a savepoint
            self._mark = f"pgsecurefile_{secrets.token_hex(8)}"
            query = SQL("BEGIN; SELECT pg_catalog.set_config('pgsecurefile.transaction', {}, true); SAVEPOINT {}")
            try:
                yield Ask(query.format(Literal(self._mark), Identifier(self._mark)), None)
            except BaseException:
                self.own = False
                if not self.conn.closed and self.conn.info.transaction_status != TransactionStatus.IDLE:
                    yield from ask("ROLLBACK")
                raise

    def commit(self) -> Steps[None]:
        if self.own:
            yield from ask("COMMIT")
            self.own = False

    def usable(self) -> bool:
        return self.conn.info.transaction_status == TransactionStatus.INTRANS

    def roll_back(self) -> Steps[None]:
        """Of a broken connection there is nothing to roll back."""
        if self.own and not self.conn.closed:
            with contextlib.suppress(errors.OperationalError):
                try:
                    ours = yield from self.goes_on()
                except errors.QueryCanceled:
                    ours = yield from self.goes_on()
                if ours:
                    yield from ask("ROLLBACK")
        self.own = False

    def goes_on(self) -> Steps[bool]:
        """Whether the stream's own transaction is that which the connection is in."""
        if self.usable():
            query = "SELECT pg_catalog.current_setting('pgsecurefile.transaction', true) OPERATOR(pg_catalog.=) %s::pg_catalog.text"
            return bool((yield from ask(query, self._mark)).rows[0][0])
        if self.conn.info.transaction_status == TransactionStatus.INERROR:
            try:
                yield from ask(SQL("ROLLBACK TO SAVEPOINT {}").format(Identifier(self._mark)))
            except errors.InvalidSavepointSpecification:
                return False
            return True
        return False


class Ahead:
    """Bytes of a range that were read ahead; their memory is used again and again."""

    def __init__(self) -> None:
        self._memory = memoryview(b"")
        self._start = 0
        self._len = 0
        self.expected = 0

    def forget(self) -> None:
        self._len = 0

    def expect(self, start: int, length: int) -> None:
        """The bytes from there on will be added."""
        self._start, self._len, self.expected = start, 0, length
        if length > len(self._memory):
            self._memory = memoryview(bytearray(length))

    def add(self, piece: memoryview) -> None:
        self._memory[self._len : self._len + len(piece)] = piece
        self._len += len(piece)

    def find(self, start: int, length: int) -> memoryview | None:
        """These bytes, if all of them are here; they are to be copied at once."""
        offset = start - self._start
        if offset < 0 or offset + length > self._len:
            return None
        return self._memory[offset : offset + length]

    def give(self, start: int, length: int, take: Take) -> int:
        """Hand those that are here to take()."""
        here = min(length, self._start + self._len - start)
        found = self.find(start, here) if here > 0 else None
        if found is None:
            return 0
        take(found)
        return here


class Target:
    """A buffer that is filled from its start."""

    def __init__(self, buffer: Any) -> None:
        self._view = memoryview(buffer).cast("B")
        self._done = 0
        self.room = len(self._view)

    def take(self, piece: bytes | memoryview) -> None:
        end = self._done + len(piece)
        self._view[self._done : end] = piece
        self._done = end


class Stream:
    def __init__(self, place: Place, mode: str) -> None:
        if mode not in MODES:
            raise ValueError(f"no such mode: {mode!r}; for text, wrap a binary file in io.TextIOWrapper")
        self.place = place
        self.mode = MODES[mode]
        self.transaction = Transaction(place)
        self.reads = self.mode[0] == "r" or "+" in self.mode
        self.writes = self.mode != "r"
        self.new = self.mode[0] in "wx"
        self.changed = self.new
        self.closed = False
        self._process = os.getpid()  # a child of fork() leaves the connection alone
        self.handle = 0
        self.position = 0
        self.length = 0
        self._ahead = Ahead()
        self._window = 0  # pieces to read ahead
        self._sequential = 0  # where the last read has ended
        self._gathered = memoryview(b"")  # bytes that wait, at most those of a window
        self._gathered_len = 0
        self._gathered_from = 0

    def __str__(self) -> str:
        return f"{plain(self.place.conn, self.place.table)}, {self.place.column.plain()}, {self.place.what}"

    def size_of(self, size: int | None) -> int:
        """What the argument of read() says."""
        size = -1 if size is None else operator.index(size)
        return self.length if size < 0 else size

    # ---- opening ----

    def open(self) -> Steps[None]:
        try:
            yield from self.transaction.begin()
            yield from self._open()
        except BaseException:
            self.closed = True
            yield from self.transaction.roll_back()
            raise

    def _open(self) -> Steps[None]:
        if self.mode[0] in "ra" and (yield from self._open_old()):
            return
        if self.mode == "x" and (yield from self.place.select(SQL("1"))):
            raise ValueExists(f"there is a row already: {self.place.what}")
        if self.new and self.place.key is None and not (yield from self.place.select(SQL("1"))):
            raise self.place.missing()
        self.new = self.changed = True
        query = SQL("SELECT {}(%s::pg_catalog.regclass, %s)").format(self.place.server.function("securefile_create"))
        table = plain(self.place.conn, self.place.table)
        column = self.place.column.as_tuple()[0]
        self.handle = (yield from ask(query, table, column)).rows[0][0]

    def _open_old(self) -> Steps[bool]:
        columns = SQL("{}({}, {}), pg_catalog.length({})").format(
            self.place.server.function("securefile_open"),
            self.place.column,
            SQL("'rw'" if self.writes else "'r'"),
            self.place.column,
        )
        rows = yield from self.place.select(columns, tail="FOR UPDATE" if self.writes else "")
        if not rows or rows[0][0] is None:
            if self.mode == "a":
                return False
            raise self.place.missing()
        self.handle, self.length = rows[0]
        self.position = self.length if self.mode == "a" else 0
        return True

    # ---- reading ----

    def read(self, size: int, take: Take) -> Steps[int]:
        """Hand the next bytes to take(), fewer than size at the end only; how many they were."""
        yield from self._send_gathered()
        want = max(min(size, self.length - self.position), 0)
        done = self._ahead.give(self.position, want, take)
        if done < want:
            start, end = self.position + done, self.position + want
            self._ahead.expect(end, self._goal(end) - end)
            yield from self._fetch(start, end, take)
        self.position += want
        self._sequential = self.position
        return want

    def held(self, size: int) -> memoryview | None:
        """The next bytes, if all of them were read ahead."""
        if self._gathered_len > 0:
            return None
        found = self._ahead.find(self.position, max(min(size, self.length - self.position), 0))
        if found is not None:
            self.position += len(found)
            self._sequential = self.position
        return found

    def _goal(self, end: int) -> int:
        """Where to read to: reads that follow each other read ahead, twice as far each time."""
        if self.position == self._sequential and self.position > 0:
            self._window = min(max(1, 2 * self._window), WINDOW_PIECES)
        else:
            self._window = 0
        if self._window > 0:
            return min((end // PIECE_BYTES + self._window) * PIECE_BYTES, self.length)
        return end

    def _fetch(self, start: int, end: int, take: Take) -> Steps[None]:
        """One round trip for the bytes that are wanted, and those that are read ahead."""
        command = _wire.read_command(self.place.server.quoted_schema)
        length = end + self._ahead.expected - start
        left = end - start

        def divide(piece: bytes) -> None:
            nonlocal left
            if len(piece) <= left:
                take(piece)
                left -= len(piece)
            else:
                if left > 0:
                    take(memoryview(piece)[:left])
                self._ahead.add(memoryview(piece)[left:])
                left = 0

        yield from self._guarded(Wire(lambda pgconn: _wire.read_window(pgconn, command, self.handle, start, length, divide)))

    def copy_to(self, take: Any, until: int) -> Steps[None]:
        """Hand the bytes up to a position to take(), in pieces, as they arrive."""
        command = _wire.read_command(self.place.server.quoted_schema)
        start = self.position
        yield from self._guarded(Wire(lambda pgconn: _wire.read_window(pgconn, command, self.handle, start, until - start, take)))
        self.position = until

    # ---- writing ----

    def write(self, data: Any) -> Steps[int]:
        view = memoryview(data).cast("B")
        size = len(view)
        if self.mode == "a":
            self.position = self.length
        position_of(self.position + size)
        self._ahead.forget()
        if self.position != self._gathered_from + self._gathered_len:
            yield from self._send_gathered()
        if self._gathered_len == 0:
            self._gathered_from = self.position
        while len(view) > 0:
            taken = self._gather(view)
            view = view[taken:]
            if self._gathered_len == self._room():
                yield from self._send_gathered()
        return size

    def _room(self) -> int:
        """Bytes that are gathered: up to a multiple of PIECE_BYTES."""
        return WINDOW_PIECES * PIECE_BYTES - self._gathered_from % PIECE_BYTES

    def _gather(self, view: memoryview) -> int:
        count = min(len(view), self._room() - self._gathered_len)
        end = self._gathered_len + count
        if end > len(self._gathered):
            longer = memoryview(bytearray(min(max(end, 2 * len(self._gathered)), WINDOW_PIECES * PIECE_BYTES)))
            longer[: self._gathered_len] = self._gathered[: self._gathered_len]
            self._gathered = longer
        self._gathered[self._gathered_len : end] = view[:count]
        self._gathered_len = end
        self.position += count
        self.length = max(self.length, self.position)
        self.changed = True
        return count

    def _send_gathered(self) -> Steps[None]:
        if self._gathered_len > 0:
            start, size = self._gathered_from, self._gathered_len
            self._gathered_len = 0
            self._gathered_from = start + size
            yield from self._write_window(start, _wire.cut(self._gathered[:size], start))

    def _write_window(self, start: int, pieces: Any) -> Steps[None]:
        commands = _wire.write_commands(self.place.server.quoted_schema)
        yield from self._guarded(Wire(lambda pgconn: _wire.write_window(pgconn, commands, self.handle, start, pieces)))

    def copy_from(self, pieces: Any) -> Steps[None]:
        """Write pieces at the position, as they come; the caller moves the position."""
        yield from self._write_window(self.position, pieces)

    def flush(self) -> Steps[None]:
        yield from self._send_gathered()

    def truncate(self, size: int) -> Steps[None]:
        size = position_of(size)
        if size < 0:
            raise ValueError("a length cannot be negative")
        yield from self._send_gathered()
        self._ahead.forget()
        query = SQL("SELECT {}(%s::pg_catalog.int4, %s::pg_catalog.int8)").format(self.place.server.function("securefile_truncate"))
        yield from self._guarded(Ask(query, (self.handle, size)))
        self.length = size
        self.changed = True

    # ---- what the server does by itself ----

    def _handle_at(self, position: int) -> tuple[Composable, tuple[int, int, int]]:
        """The handle as an argument, which is moved to a position before it is used; its parameters."""
        seek = self.place.server.function("securefile_seek")
        argument = SQL("CASE WHEN {}(%s::pg_catalog.int4, %s::pg_catalog.int8, 0) IS NOT NULL THEN %s::pg_catalog.int4 END")
        return argument.format(seek), (self.handle, position, self.handle)

    def _left(self, count: int | None) -> int:
        """How many of so many bytes, None: all, there are from the position on."""
        left = max(self.length - self.position, 0)
        if count is None:
            return left
        count = operator.index(count)
        if count < 0:
            raise ValueError("a number of bytes cannot be negative")
        return min(count, left)

    def erase(self, count: int) -> Steps[int]:
        count = self._left(count)
        if count > 0:
            yield from self._send_gathered()
            self._ahead.forget()
            handle, values = self._handle_at(self.position)
            query = SQL("SELECT {}({}, %s::pg_catalog.int8)").format(self.place.server.function("securefile_erase"), handle)
            yield from self._guarded(Ask(query, (*values, count)))
            self.changed = True
        return count

    def find(self, pattern: Any, start: int | None) -> Steps[int]:
        wanted = bytes(memoryview(pattern).cast("B"))
        start = self.position if start is None else position_of(start)
        if start < 0:
            raise ValueError(f"a position cannot be negative: {start}")
        yield from self._send_gathered()
        handle, values = self._handle_at(start)
        query = SQL("SELECT {}({}, %s::pg_catalog.bytea)").format(self.place.server.function("securefile_search"), handle)
        found: int = (yield from self._guarded(Ask(query, (*values, wanted)))).rows[0][0]
        return found

    def copy_range(self, source: Stream, count: int | None) -> Steps[int]:
        if source is self or source.place.conn is not self.place.conn:
            raise ValueError("the source is another file on the same connection")
        count = source._left(count)
        if self.mode == "a":
            self.position = self.length
        position_of(self.position + count)
        if count > 0:
            yield from source._send_gathered()
            yield from self._send_gathered()
            self._ahead.forget()
            mine, values = self._handle_at(self.position)
            its, others = source._handle_at(source.position)
            copy = self.place.server.function("securefile_copy")
            query = SQL("SELECT {}({}, {}, %s::pg_catalog.int8)").format(copy, mine, its)
            yield from self._guarded(Ask(query, (*values, *others, count)))
            source.position += count
            self.position += count
            self.length = max(self.length, self.position)
            self.changed = True
        return count

    # ---- the position ----

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        base = {io.SEEK_SET: 0, io.SEEK_CUR: self.position, io.SEEK_END: self.length}
        if whence not in base:
            raise ValueError(f"no such whence: {whence!r}")
        position = position_of(base[whence] + operator.index(offset))
        if position < 0:
            raise ValueError(f"a position cannot be negative: {position}")
        self.position = position
        return position

    # ---- the end ----

    def _guarded(self, request: Ask | Wire | Block) -> Steps[Any]:
        """An error on the way ends the stream: what was written is not to be stored."""
        try:
            return (yield request)
        except BaseException:
            yield from self.abort()
            raise

    def close(self) -> Steps[None]:
        """Store what was written; in a transaction of the stream, commit."""
        if self.closed:
            return
        if self._process != os.getpid():
            raise errors.ProgrammingError("the file was opened by another process")
        yield from self._send_gathered()
        self.closed = True
        try:
            if self.changed and self.writes:
                yield from self._store()
            elif self.transaction.own:
                self.transaction.own = yield from self.transaction.goes_on()
            elif self.transaction.usable():
                yield from self._close_handle()
            yield from self.transaction.commit()
        except BaseException:
            yield from self.transaction.roll_back()
            raise

    def _store(self) -> Steps[None]:
        value: Composable = SQL("{}(%s)").format(self.place.server.function("securefile_finish"))
        if self.mode == "x":
            try:
                yield from self.place.insert(value, self.handle)
            except errors.UniqueViolation as error:
                raise ValueExists(f"there is a row already: {self.place.what}") from error
        else:
            yield from self.place.put(value, self.handle)

    def _close_handle(self) -> Steps[None]:
        yield from ask(SQL("SELECT {}(%s)").format(self.place.server.function("securefile_close")), self.handle)

    def abort(self) -> Steps[None]:
        """Store nothing; in a transaction of the stream, roll back."""
        if self.closed:
            return
        self.closed = True
        self._ahead.forget()
        self._gathered_len = 0
        if self._process != os.getpid():
            return
        if self.transaction.own:
            yield from self.transaction.roll_back()
        elif not self.place.conn.closed and self.transaction.usable():
            yield from self._close_handle()
