"""Work with the server that does not know whether the connection is asynchronous.

Steps are a generator: it yields what it wants done, and is sent the answer.  run() does
that on a Connection, run_async() on an AsyncConnection.
"""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Callable, Generator, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, TypeVar, Union

from psycopg import AsyncConnection, AsyncCursor, Connection, Cursor
from psycopg.abc import AdaptContext, PQGen
from psycopg.pq.abc import PGconn
from psycopg.rows import tuple_row
from psycopg.sql import SQL, Composed, Identifier

from ._wire import check_free, check_no_pipeline, end_all, unfinished

T = TypeVar("T")

AnyConnection = Union[Connection[Any], AsyncConnection[Any]]


class Name(Identifier):
    """A name in a statement with parameters, where a % would begin a placeholder."""

    def as_bytes(self, context: AdaptContext | None = None) -> bytes:
        return super().as_bytes(context).replace(b"%", b"%%")

    def as_tuple(self) -> tuple[str, ...]:
        return tuple(self._obj)

    def plain(self) -> str:
        """As the server writes it."""
        return ".".join('"' + part.replace('"', '""') + '"' for part in self.as_tuple())


Query = Union[SQL, Composed]


class Answer(NamedTuple):
    rows: list[tuple[Any, ...]]
    touched: int


@dataclass
class Ask:
    """A statement, by one of psycopg's cursors; its answer."""

    query: Query
    parameters: Sequence[Any] | None = ()
    """None: the query may be several statements."""


@dataclass
class Wire:
    """Pieces, by a generator of _wire."""

    make: Callable[[PGconn], PQGen[None]]


@dataclass
class Block:
    """A call that may wait for a file: asynchronous programs make it in a thread."""

    call: Callable[[], Any]


Request = Union[Ask, Wire, Block]
Steps = Generator[Request, Any, T]


def ask(query: str | Query, *parameters: Any) -> Steps[Answer]:
    answer: Answer = yield Ask(SQL(query) if isinstance(query, str) else query, parameters)
    return answer


def _do(conn: Connection[Any], request: Request) -> Any:
    if isinstance(request, Ask):
        check_no_pipeline(conn.pgconn)
        try:
            with Cursor(conn, row_factory=tuple_row) as cursor:
                cursor.execute(request.query, request.parameters, binary=request.parameters is not None)
                return Answer(cursor.fetchall() if cursor.description else [], cursor.rowcount)
        except KeyboardInterrupt:
            with conn.lock:
                _end_all(conn)
            raise
    if isinstance(request, Wire):
        with conn.lock:
            check_free(conn.pgconn)
            try:
                return conn.wait(request.make(conn.pgconn))
            finally:
                _end_all(conn)
    return request.call()


def _end_all(conn: Connection[Any]) -> None:
    if unfinished(conn.pgconn):
        conn.cancel()
        conn.wait(end_all(conn.pgconn))


def run(conn: Connection[Any], steps: Steps[T]) -> T:
    answer: Any = None
    error: BaseException | None = None
    while True:
        try:
            request = steps.send(answer) if error is None else steps.throw(error)
            answer = error = None
            answer = _do(conn, request)
        except BaseException as found:
            if inspect.getgeneratorstate(steps) == inspect.GEN_CLOSED:
                if isinstance(found, StopIteration):
                    result: T = found.value
                    return result
                raise
            error = found


async def _do_async(conn: AsyncConnection[Any], request: Request) -> Any:
    if isinstance(request, Ask):
        check_no_pipeline(conn.pgconn)
        async with AsyncCursor(conn, row_factory=tuple_row) as cursor:
            await cursor.execute(request.query, request.parameters, binary=request.parameters is not None)
            return Answer(await cursor.fetchall() if cursor.description else [], cursor.rowcount)
    if isinstance(request, Wire):
        async with conn.lock:
            check_free(conn.pgconn)
            try:
                return await conn.wait(request.make(conn.pgconn))
            finally:
                if unfinished(conn.pgconn):
                    conn.cancel()
                    await conn.wait(end_all(conn.pgconn))
    return await asyncio.to_thread(request.call)


async def run_async(conn: AsyncConnection[Any], steps: Steps[T]) -> T:
    answer: Any = None
    error: BaseException | None = None
    while True:
        try:
            request = steps.send(answer) if error is None else steps.throw(error)
            answer = error = None
            answer = await _do_async(conn, request)
        except BaseException as found:
            if inspect.getgeneratorstate(steps) == inspect.GEN_CLOSED:
                if isinstance(found, StopIteration):
                    result: T = found.value
                    return result
                raise
            error = found
