"""The type for SQLAlchemy: SecureFile(), SecureFile("nocache", "compress").

Importing this module teaches reflection, and so Alembic, the type.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from psycopg import Connection
from sqlalchemy import Connection as CoreConnection
from sqlalchemy import Dialect, LargeBinary
from sqlalchemy.dialects.postgresql.base import ischema_names
from sqlalchemy.ext.compiler import compiles
from sqlalchemy.orm import Session

__all__ = ["SecureFile", "driver_connection"]


class SecureFile(LargeBinary):
    """A column of type securefile, with its options; its values are bytes."""

    cache_ok = True

    def __init__(self, *options: str) -> None:
        """The options of the type, as "nocache"."""
        super().__init__()
        self.options = options

    def literal_processor(self, dialect: Dialect) -> Callable[[Any], str]:
        """Hex digits: the text form of other bytes has escapes."""
        return lambda value: "'\\x" + bytes(value).hex() + "'"


@compiles(SecureFile, "postgresql")
def _ddl(type_: SecureFile, compiler: Any, **kwargs: Any) -> str:
    return f"securefile({', '.join(type_.options)})" if type_.options else "securefile"


ischema_names["securefile"] = SecureFile


def driver_connection(session: Session | CoreConnection) -> Connection[Any]:
    """The psycopg connection of a session or connection, in whose transaction files live.

    Flush the session before a file of a row that is new is opened.
    """
    core = session.connection() if isinstance(session, Session) else session
    conn = core.connection.driver_connection
    if not isinstance(conn, Connection):
        raise TypeError("pgsecurefile needs a synchronous engine of postgresql+psycopg")
    return conn
