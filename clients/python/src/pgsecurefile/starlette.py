"""A response for Starlette and FastAPI: a value with ranges.

    pool = psycopg_pool.AsyncConnectionPool(.., kwargs={"autocommit": True})

    @app.get("/files/{name:path}")
    async def file(name: str):
        return SecureFileResponse(pool.connection, "files", "document", {"name": name}, filename=name)

A connection is taken for each piece of 1 MB, so a slow client holds none.  A value that
changes meanwhile ends the response in the middle, with an error.
"""

from __future__ import annotations

import mimetypes
from collections.abc import Callable, Mapping
from contextlib import AbstractAsyncContextManager
from typing import Any

from psycopg import AsyncConnection
from starlette.datastructures import Headers
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.types import Receive, Scope, Send

from . import _http
from ._errors import NoSuchValue
from ._place import Place, Table, place_of
from ._ranges import RANGE_BYTES, Version, look, read_range
from ._steps import run_async

__all__ = ["SecureFileResponse"]

Connect = Callable[[], AbstractAsyncContextManager[AsyncConnection[Any]]]


class SecureFileResponse(Response):
    """Answers GET and HEAD: ranges, ETag, If-Range, If-None-Match; 404 if there is no value."""

    def __init__(
        self,
        connect: Connect,
        table: Table,
        column: str,
        key: Any,
        *,
        filename: str | None = None,
        media_type: str | None = None,
        as_attachment: bool = False,
        modified: str | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> None:
        self._connect = connect
        self._named = (table, column, key)
        self._modified = modified
        self._given = dict(headers or {})
        self.media_type = media_type or mimetypes.guess_type(filename or "")[0] or "application/octet-stream"
        self.background = None
        if filename is not None:
            self._given["Content-Disposition"] = _http.disposition(filename.rsplit("/", 1)[-1], as_attachment)
        # what tasks and middleware may add to
        self.status_code = 200
        self.init_headers(self._given)

    async def _look(self) -> Version:
        async with self._connect() as conn:
            place = await run_async(conn, place_of(conn, *self._named))
            return await run_async(conn, look(place, self._modified))

    async def _piece(self, version: Version, start: int, count: int) -> bytes:
        async with self._connect() as conn:
            place: Place = await run_async(conn, place_of(conn, *self._named))
            return await run_async(conn, read_range(place, version, start, count))

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["method"] not in ("GET", "HEAD"):
            await PlainTextResponse("Method Not Allowed", 405, {"Allow": "GET, HEAD"})(scope, receive, send)
            return
        try:
            version = await self._look()
        except NoSuchValue:
            await PlainTextResponse("Not Found", 404)(scope, receive, send)
            return
        reply = _http.reply(Headers(scope=scope), version)
        self.status_code = reply.status
        self.headers.update(reply.headers)
        await send({"type": "http.response.start", "status": reply.status, "headers": self.raw_headers})
        if scope["method"] == "GET" and reply.status in (200, 206):
            await self._send_pieces(Request(scope, receive), send, version, reply)
        await send({"type": "http.response.body", "body": b"", "more_body": False})
        if self.background is not None:
            await self.background()

    async def _send_pieces(self, request: Request, send: Send, version: Version, reply: _http.Reply) -> None:
        """Ends early when the client has gone: servers then take pieces, and drop them."""
        start, end = reply.start, reply.start + reply.count
        while start < end and not await request.is_disconnected():
            piece = await self._piece(version, start, min(RANGE_BYTES, end - start))
            await send({"type": "http.response.body", "body": piece, "more_body": True})
            start += len(piece)
