"""Pieces on the wire: what psycopg's cursors would do with a round trip a piece.

The functions are generators that psycopg drives, for a connection of either kind: they
yield what they wait for, as psycopg's own do, and Connection.wait() or its asynchronous
twin resumes them.  Each leaves the connection free, whatever happens: after an error, or
an interrupt for which psycopg cancels the statement, the answers are taken to the end.
psycopg resumes a generator with None after an interrupt.
"""

from __future__ import annotations

import contextlib
import struct
from collections.abc import Callable, Iterable, Iterator
from typing import Union

from psycopg import errors
from psycopg.abc import PQGen
from psycopg.pq import ConnStatus, ExecStatus, PipelineStatus, TransactionStatus
from psycopg.pq.abc import PGconn, PGresult
from psycopg.waiting import Ready, Wait

Piece = Union[bytes, bytearray, memoryview]

PIECE_BYTES = 256 * 1024
"""Bytes of one row, or of one command, in a window: two of the extension's units."""

# After it has freed a block of this size, glibc keeps the memory of pieces for the next ones. Otherwise
# each piece gets fresh memory, which the kernel clears: a get() of 1 GB took 1.6 times as long.
_block = bytearray(8 * 1024 * 1024)
del _block

_BYTEA, _INT8, _INT4 = 17, 20, 23


def int4(value: int) -> bytes:
    return struct.pack("!i", value)


def int8(value: int) -> bytes:
    return struct.pack("!q", value)


def check_no_pipeline(pgconn: PGconn) -> None:
    if pgconn.status == ConnStatus.BAD:
        raise errors.OperationalError("the connection is closed")
    if pgconn.pipeline_status != PipelineStatus.OFF:
        raise errors.ProgrammingError("values cannot be read or written inside of a pipeline of the connection")


def check_free(pgconn: PGconn) -> None:
    """The connection has to be free for a window of pieces."""
    check_no_pipeline(pgconn)
    if pgconn.transaction_status == TransactionStatus.ACTIVE:
        raise errors.ProgrammingError("the connection is busy: end the stream() or copy() that is in progress")


def _flushed(pgconn: PGconn) -> PQGen[None]:
    """Send all, and read what the server says meanwhile: it would stop to read otherwise."""
    while pgconn.flush():
        ready = yield Wait.RW
        if ready and ready & Ready.R:
            pgconn.consume_input()


def _next_result(pgconn: PGconn) -> PQGen[PGresult | None]:
    while pgconn.is_busy():
        ready = yield Wait.R
        if ready:
            pgconn.consume_input()
    return pgconn.get_result()


def _error_of(result: PGresult) -> Exception | None:
    if result.status in (ExecStatus.FATAL_ERROR, ExecStatus.BAD_RESPONSE):
        return errors.error_from_result(result)
    return None


# ---- after an interrupt ----


def unfinished(pgconn: PGconn) -> bool:
    """Whether a window has ended before its answers, as by Ctrl-C between two of them."""
    if pgconn.status == ConnStatus.BAD:
        return False
    return pgconn.pipeline_status != PipelineStatus.OFF or pgconn.transaction_status == TransactionStatus.ACTIVE


def end_all(pgconn: PGconn) -> PQGen[None]:
    """Take the answers that are due."""
    piped = pgconn.pipeline_status != PipelineStatus.OFF
    if piped:
        pgconn.pipeline_sync()
    yield from _flushed(pgconn)
    while pgconn.status != ConnStatus.BAD:
        result = yield from _next_result(pgconn)
        if piped and result is not None and result.status == ExecStatus.PIPELINE_SYNC:
            with contextlib.suppress(errors.OperationalError):  # there are more
                pgconn.exit_pipeline_mode()
                return
        if not piped and result is None:
            return


# ---- reading ----


def read_command(schema: str) -> bytes:
    """Rows of a range; the second column has the bytes.

    Each row seeks first, so nobody has to know the server's position.
    """
    return (
        f"SELECT {schema}.securefile_seek($1, $2 OPERATOR(pg_catalog.+) o, 0),"
        f" {schema}.securefile_read($1, LEAST($4, $3 OPERATOR(pg_catalog.-) o)::pg_catalog.int4)"
        " FROM (SELECT pg_catalog.generate_series(0::pg_catalog.int8, $3 OPERATOR(pg_catalog.-) 1::pg_catalog.int8, $4) AS o) AS s"
    ).encode()


def read_window(pgconn: PGconn, command: bytes, handle: int, offset: int, length: int, take: Callable[[bytes], object]) -> PQGen[None]:
    """Hand the bytes of a range to take(), a piece at a time, as they arrive."""
    pgconn.send_query_params(
        command,
        [int4(handle), int8(offset), int8(length), int8(PIECE_BYTES)],
        param_types=[_INT4, _INT8, _INT8, _INT8],
        param_formats=[1, 1, 1, 1],
        result_format=1,
    )
    pgconn.set_single_row_mode()
    yield from _flushed(pgconn)
    failed: BaseException | None = None
    while (result := (yield from _next_result(pgconn))) is not None:
        failed = failed or _error_of(result)
        if failed is None and result.status == ExecStatus.SINGLE_TUPLE:
            try:
                take(result.get_value(0, 1) or b"")
            except BaseException as error:
                failed = error
    if failed is not None:
        raise failed


# ---- writing ----


def cut(data: memoryview, offset: int) -> Iterator[memoryview]:
    """Pieces that end at multiples of PIECE_BYTES, when they are written at an offset."""
    start = 0
    end = PIECE_BYTES - offset % PIECE_BYTES
    while start < len(data):
        yield data[start:end]
        start, end = end, end + PIECE_BYTES


class _Commands:
    """Commands that are sent one after the other, and the first of their errors."""

    def __init__(self, pgconn: PGconn) -> None:
        self.pgconn = pgconn
        self.unanswered = 0
        self.failed: BaseException | None = None

    def send(self, command: Callable[[], None]) -> PQGen[None]:
        command()
        self.unanswered += 1
        yield from _flushed(self.pgconn)
        while self.unanswered > 0 and not self.pgconn.is_busy():
            self._note(self.pgconn.get_result())

    def _note(self, result: PGresult | None) -> None:
        if result is not None:
            self.unanswered -= 1
            self.failed = self.failed or _error_of(result)

    def end(self) -> PQGen[None]:
        """Take all answers."""
        try:
            self.pgconn.pipeline_sync()
        except errors.OperationalError:  # whose text tells of pipelines only
            why = self.pgconn.error_message.decode(errors="replace").strip()
            raise self.failed or errors.OperationalError(why or "the connection is lost") from None
        yield from _flushed(self.pgconn)
        while True:
            result = yield from _next_result(self.pgconn)
            if result is not None and result.status == ExecStatus.PIPELINE_SYNC:
                break
            self._note(result)
            if result is None and self.pgconn.status == ConnStatus.BAD:
                raise self.failed or errors.OperationalError("the connection is lost")
        self.pgconn.exit_pipeline_mode()


def write_commands(schema: str) -> tuple[bytes, bytes]:
    """To seek, and to write."""
    return (
        f"SELECT {schema}.securefile_seek($1, $2, 0)".encode(),
        f"SELECT {schema}.securefile_write($1, $2)".encode(),
    )


def write_window(pgconn: PGconn, commands: tuple[bytes, bytes], handle: int, offset: int, pieces: Iterable[Piece]) -> PQGen[None]:
    """Write pieces from an offset on, in one pipeline; what pieces raises is raised."""
    pgconn.enter_pipeline_mode()
    sent = _Commands(pgconn)
    number = int4(handle)
    yield from sent.send(
        lambda: pgconn.send_query_params(
            commands[0], [number, int8(offset)], param_types=[_INT4, _INT8], param_formats=[1, 1], result_format=1
        )
    )
    # the statement without a name is parsed once, and is nobody's
    yield from sent.send(lambda: pgconn.send_prepare(b"", commands[1], [_INT4, _BYTEA]))
    source = iter(pieces)
    while sent.failed is None:
        try:
            piece = next(source, None)
        except BaseException as error:
            sent.failed = error
            break
        if piece is None:
            break
        yield from sent.send(lambda p=piece: pgconn.send_query_prepared(b"", [number, p], param_formats=[1, 1], result_format=1))  # type: ignore[misc]
    yield from sent.end()
    if sent.failed is not None:
        raise sent.failed
