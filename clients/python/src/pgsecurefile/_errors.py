"""Errors that are not the server's own: those are psycopg.Error."""

from __future__ import annotations

import errno


class NoSuchValue(FileNotFoundError):
    """There is no such row, or its value is NULL."""

    def __init__(self, what: str) -> None:
        super().__init__(errno.ENOENT, what)


class ValueExists(FileExistsError):
    """Mode "x": a row with this key is there already."""

    def __init__(self, what: str) -> None:
        super().__init__(errno.EEXIST, what)


class SeveralRows(LookupError):
    """The key or the condition fits more than one row."""


class NotInstalled(RuntimeError):
    """The database does not have the extension securefile."""
