"""Ranges of one version of a value, each by a statement of its own.

Nothing stays open between two of them: a slow client holds no transaction.  A version is
the transaction that has stored the row; when it has changed, the rest is refused.
"""

from __future__ import annotations

import errno
from dataclasses import dataclass

from psycopg.sql import SQL, Literal

from ._place import Place
from ._steps import Name, Steps

RANGE_BYTES = 1024 * 1024


@dataclass
class Version:
    size: int
    xmin: str
    modified: object = None

    @property
    def etag(self) -> str:
        return f'"{self.size:x}-{self.xmin}"'


class Changed(OSError):
    """The value was changed, or its row is gone, while it was read."""

    def __init__(self, what: str) -> None:
        super().__init__(errno.ESTALE, f"the value was changed while it was read: {what}")


def look(place: Place, modified: str | None = None) -> Steps[Version]:
    """Length and version, and with its column's name the time of the last change."""
    columns = SQL("pg_catalog.length({}), xmin::pg_catalog.text, {}").format(place.column, Name(modified) if modified else SQL("NULL"))
    rows = yield from place.select(columns)
    if not rows or rows[0][0] is None:
        raise place.missing()
    return Version(*rows[0])


def read_range(place: Place, version: Version, start: int, count: int) -> Steps[bytes]:
    columns = SQL("xmin::pg_catalog.text, pg_catalog.substring({}, {}::pg_catalog.int8, {}::pg_catalog.int8)").format(
        place.column, Literal(start + 1), Literal(max(min(count, version.size - start), 0))
    )
    rows = yield from place.select(columns)
    if not rows or rows[0][0] != version.xmin:
        raise Changed(place.what)
    return bytes(rows[0][1])
