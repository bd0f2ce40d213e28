"""Django: a model field, a Storage, and a view with ranges.

    storage = SecureFileStorage(table="files", column="document", key="name", modified="changed", url_prefix="/files/")
    urlpatterns = [path("files/<path:name>", storage.view)]

Files live in the transaction of Django's connection: atomic() and the rollbacks of tests hold
for them.  A file that is read, and a download, hold no transaction: each piece is a statement
of its own, and a file that changes meanwhile is an error.
"""

from __future__ import annotations

import io
import mimetypes
import os
from collections.abc import AsyncIterator, Iterator, Sequence
from datetime import datetime, timezone
from typing import TYPE_CHECKING, Any, TypeVar
from urllib.parse import quote

from asgiref.sync import sync_to_async
from django.conf import settings
from django.core.exceptions import PermissionDenied, SuspiciousFileOperation
from django.core.files.base import File
from django.core.files.storage import Storage
from django.core.handlers.asgi import ASGIRequest
from django.core.signing import BadSignature, TimestampSigner
from django.db import connections, models
from django.http import Http404, HttpRequest, HttpResponse, HttpResponseNotAllowed, StreamingHttpResponse
from django.http.response import HttpResponseBase
from django.utils.deconstruct import deconstructible
from django.utils.http import urlencode
from django.utils.timezone import make_naive
from psycopg import Connection
from psycopg.sql import SQL

from . import _http
from ._file import open as open_file
from ._place import Place, Table, place_of, table_name
from ._ranges import RANGE_BYTES, Version, look, read_range
from ._steps import Name, Steps, ask, run
from ._transfer import put

if TYPE_CHECKING:
    from typing_extensions import Buffer

T = TypeVar("T")

__all__ = ["SecureFileField", "SecureFileStorage", "driver_connection", "serve"]


class SecureFileField(models.BinaryField):  # type: ignore[misc]
    """A column of type securefile: SecureFileField(), SecureFileField(options="nocache, compress").

    In databases that are not PostgreSQL it is a BinaryField.
    """

    def __init__(self, *args: Any, options: str = "", **kwargs: Any) -> None:
        self.options = options
        super().__init__(*args, **kwargs)

    def db_type(self, connection: Any) -> str:
        if connection.vendor != "postgresql":
            other: str = super().db_type(connection)
            return other
        return f"securefile({self.options})" if self.options else "securefile"

    def deconstruct(self) -> tuple[str, str, list[Any], dict[str, Any]]:
        name, path, args, kwargs = super().deconstruct()
        if self.options:
            kwargs["options"] = self.options
        return name, path, args, kwargs


def driver_connection(using: str = "default") -> Connection[Any]:
    """The psycopg connection of a database of Django, for the functions of pgsecurefile.

    As in Django's own cursors, a connection that was lost is replaced outside of a transaction.
    """
    wrapper = connections[using]
    if not wrapper.in_atomic_block and wrapper.autocommit:
        wrapper.close_if_health_check_failed()
        if getattr(wrapper.connection, "closed", False):
            wrapper.close()
    wrapper.ensure_connection()
    conn = wrapper.connection
    if not isinstance(conn, Connection):
        raise TypeError("pgsecurefile needs psycopg 3 below django.db.backends.postgresql")
    return conn


def _run(using: str, steps: Steps[T]) -> T:
    """Errors of the server are those of django.db."""
    conn = driver_connection(using)
    with connections[using].wrap_database_errors:
        return run(conn, steps)


class _Content:
    """An upload from its beginning, whatever of it was read; text in UTF-8."""

    def __init__(self, content: Any) -> None:
        self._content = content
        if content.seekable():
            content.seek(0)

    def read(self, size: int) -> Any:
        data = self._content.read(size)
        return data.encode() if isinstance(data, str) else data


class _Ranged(io.RawIOBase):
    """A version of a value, read by ranges."""

    def __init__(self, place: Place, version: Version, using: str) -> None:
        super().__init__()
        self._place, self._version, self._using = place, version, using
        self._position = 0

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        position = offset + {io.SEEK_SET: 0, io.SEEK_CUR: self._position, io.SEEK_END: self._version.size}[whence]
        if position < 0:
            raise ValueError(f"a position cannot be negative: {position}")
        self._position = position
        return position

    def tell(self) -> int:
        return self._position

    def readinto(self, buffer: Buffer) -> int:
        view = memoryview(buffer).cast("B")
        if len(view) == 0 or self._position >= self._version.size:
            return 0
        piece = _run(self._using, read_range(self._place, self._version, self._position, len(view)))
        view[: len(piece)] = piece
        self._position += len(piece)
        return len(piece)


class StoredFile(File):  # type: ignore[misc]
    """What Storage.open() gives."""

    def __init__(self, file: Any, name: str, size: int) -> None:
        super().__init__(file, name)
        self._size = size

    @property
    def size(self) -> int:
        return self._size


def _pieces(place: Place, version: Version, start: int, count: int, using: str) -> Iterator[bytes]:
    end = start + count
    while start < end:
        piece = _run(using, read_range(place, version, start, min(RANGE_BYTES, end - start)))
        yield piece
        start += len(piece)


async def _in_threads(pieces: Iterator[bytes]) -> AsyncIterator[bytes]:
    """Under ASGI, where Django would first collect all pieces of a plain iterator."""

    def following() -> bytes | None:
        return next(pieces, None)

    while (piece := await sync_to_async(following)()) is not None:
        yield piece


def serve(
    request: HttpRequest,
    table: Table,
    column: str,
    key: Any,
    *,
    filename: str | None = None,
    content_type: str | None = None,
    as_attachment: bool = False,
    modified: str | None = None,
    using: str = "default",
) -> HttpResponseBase:
    """Answer GET or HEAD with a value: ranges, ETag, If-Range, If-None-Match; 404 if there is none."""
    if request.method not in ("GET", "HEAD"):
        return HttpResponseNotAllowed(["GET", "HEAD"])
    conn = driver_connection(using)
    try:
        place = _run(using, place_of(conn, table, column, key))
        version = _run(using, look(place, modified))
    except FileNotFoundError as error:
        raise Http404(str(error)) from error
    given = {name.lower(): value for name, value in request.headers.items()}
    reply = _http.reply(given, version)
    response: HttpResponseBase
    if request.method == "GET" and reply.status in (200, 206):
        pieces = _pieces(place, version, reply.start, reply.count, using)
        response = StreamingHttpResponse(_in_threads(pieces) if isinstance(request, ASGIRequest) else pieces, status=reply.status)
    else:
        response = HttpResponse(status=reply.status)
    for name, value in reply.headers.items():
        response[name] = value
    response["Content-Type"] = content_type or mimetypes.guess_type(filename or "")[0] or "application/octet-stream"
    if filename is not None:
        response["Content-Disposition"] = _http.disposition(os.path.basename(filename), as_attachment)
    return response


@deconstructible(path="pgsecurefile.django.SecureFileStorage")
class SecureFileStorage(Storage):  # type: ignore[misc]
    """Files of any length in a table, one a row, by a text key.

    created, modified: columns of times, if there are any; modified is set at each change.
    With signed, a number of seconds, url() has a signature, and view() wants one that is not
    older.
    """

    def __init__(
        self,
        table: str | Sequence[str] = "files",
        column: str = "document",
        key: str = "name",
        created: str | None = None,
        modified: str | None = None,
        url_prefix: str | None = None,
        signed: int | None = None,
        using: str = "default",
    ) -> None:
        self.table, self.column, self.key = table, column, key
        self.created, self.modified = created, modified
        self.url_prefix, self.signed, self.using = url_prefix, signed, using

    # ---- files ----

    def _open(self, name: str, mode: str = "rb") -> File:
        conn = driver_connection(self.using)
        if mode not in ("r", "rb"):
            file = open_file(conn, self.table, self.column, {self.key: name}, mode, values=self._changed())
            return File(file, name)
        place = _run(self.using, place_of(conn, self.table, self.column, {self.key: name}))
        version = _run(self.using, look(place))
        return StoredFile(io.BufferedReader(_Ranged(place, version, self.using), RANGE_BYTES), name, version.size)

    def _changed(self) -> dict[str, Any]:
        return {self.modified: datetime.now(timezone.utc)} if self.modified else {}

    def _save(self, name: str, content: Any) -> str:
        if "\0" in name:
            raise SuspiciousFileOperation("a name cannot contain NUL")
        conn = driver_connection(self.using)
        with connections[self.using].wrap_database_errors:
            put(conn, self.table, self.column, {self.key: name}, _Content(content), values=self._changed())
        return name

    def delete(self, name: str) -> None:
        self._rows("DELETE FROM {t} WHERE {k} = %s", name)

    def exists(self, name: str) -> bool:
        """Whether the name is taken, also by NULL."""
        return bool(self._rows("SELECT 1 FROM {t} WHERE {k} = %s", name))

    def size(self, name: str) -> int:
        rows = self._rows("SELECT length({c}) FROM {t} WHERE {k} = %s AND {c} IS NOT NULL", name)
        if not rows:
            raise FileNotFoundError(name)
        size: int = rows[0][0]
        return size

    def listdir(self, path: str) -> tuple[list[str], list[str]]:
        prefix = f"{path.strip('/')}/".lstrip("/")
        rows = self._rows(
            "SELECT DISTINCT split_part(rest, '/', 1), strpos(rest, '/') > 0 FROM"
            " (SELECT substr({k}, %s) AS rest FROM {t} WHERE starts_with({k}, %s) AND {c} IS NOT NULL) AS r ORDER BY 1",
            len(prefix) + 1,
            prefix,
        )
        return [name for name, inside in rows if inside], [name for name, inside in rows if not inside]

    def get_created_time(self, name: str) -> datetime:
        return self._time(name, self.created)

    def get_modified_time(self, name: str) -> datetime:
        return self._time(name, self.modified)

    def _time(self, name: str, column: str | None) -> datetime:
        if column is None:
            raise NotImplementedError("no column of times was named")
        rows = self._rows("SELECT {time} FROM {t} WHERE {k} = %s", name, time=column)
        if not rows:
            raise FileNotFoundError(name)
        time: datetime = rows[0][0]
        return time if settings.USE_TZ or time.tzinfo is None else make_naive(time)

    def _rows(self, text: str, *parameters: Any, time: str = "") -> list[tuple[Any, ...]]:
        """{t}, {k} and {c} are the table, the key and the column; no name contains NUL."""
        if any(isinstance(value, str) and "\0" in value for value in parameters):
            return []
        query = SQL(text).format(t=table_name(self.table), k=Name(self.key), c=Name(self.column), time=Name(time))

        def steps() -> Steps[list[tuple[Any, ...]]]:
            return (yield from ask(query, *parameters)).rows

        return _run(self.using, steps())

    # ---- the web ----

    def url(self, name: str | None) -> str:
        if self.url_prefix is None or name is None:
            raise ValueError("the storage has no url_prefix")
        url = self.url_prefix + quote(name)
        return url if self.signed is None else f"{url}?{urlencode({'signature': self._signer().sign(name)[len(name) :]})}"

    def _signer(self) -> TimestampSigner:
        return TimestampSigner(salt=f"pgsecurefile.{self.using}.{self.table}.{self.column}.{self.key}")

    def view(self, request: HttpRequest, name: str, as_attachment: bool = False) -> HttpResponseBase:
        """A view of the file; 403 without a signature, if the storage wants one."""
        if self.signed is not None:
            try:
                self._signer().unsign(name + request.GET.get("signature", ""), max_age=self.signed)
            except BadSignature as error:
                raise PermissionDenied("the link is not, or no longer, valid") from error
        return serve(
            request,
            self.table,
            self.column,
            {self.key: name},
            filename=name,
            as_attachment=as_attachment,
            modified=self.modified,
            using=self.using,
        )
