"""What a connection's database says of the extension: asked once a connection."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any
from weakref import WeakKeyDictionary

from psycopg import AsyncConnection, Connection
from psycopg.sql import SQL, Composable
from psycopg.types import TypeInfo
from psycopg.types.string import ByteaBinaryLoader, ByteaLoader, BytesBinaryDumper, BytesDumper

from ._errors import NotInstalled
from ._steps import AnyConnection, Name, Steps, ask, run, run_async

_EXTENSION = """
    SELECT n.nspname::text, t.oid::int8, t.typarray::int8
      FROM pg_catalog.pg_extension e
      JOIN pg_catalog.pg_namespace n ON n.oid = e.extnamespace
      JOIN pg_catalog.pg_type t ON t.typnamespace = n.oid AND t.typname = 'securefile'
     WHERE e.extname = 'securefile'"""

_PRIMARY_KEY = """
    SELECT a.attname::text
      FROM pg_catalog.pg_index i
      JOIN pg_catalog.pg_attribute a
        ON a.attrelid = i.indrelid AND a.attnum = ANY (i.indkey[0:i.indnkeyatts - 1])
     WHERE i.indrelid = %s::pg_catalog.regclass AND i.indisprimary"""


@dataclass
class Server:
    schema: str
    oid: int
    array_oid: int
    primary_keys: dict[str, list[str]] = field(default_factory=dict)

    def function(self, name: str) -> Composable:
        return Name(self.schema, name)

    @property
    def quoted_schema(self) -> str:
        return '"' + self.schema.replace('"', '""') + '"'


_known: WeakKeyDictionary[Any, Server] = WeakKeyDictionary()


def server_of(conn: AnyConnection) -> Steps[Server]:
    if conn not in _known:
        rows = (yield from ask(SQL(_EXTENSION))).rows
        if not rows:
            raise NotInstalled('the database has no extension "securefile": CREATE EXTENSION securefile')
        _known[conn] = Server(*rows[0])
    return _known[conn]


def plain(conn: AnyConnection, table: Composable) -> str:
    """A table's name as the server writes it."""
    return table.plain() if isinstance(table, Name) else table.as_string(conn)


def primary_key_of(conn: AnyConnection, table: Composable) -> Steps[list[str]]:
    """The columns of a table's primary key; for a table without one, none."""
    server = yield from server_of(conn)
    name = plain(conn, table)
    if name not in server.primary_keys:
        rows = (yield from ask(SQL(_PRIMARY_KEY), name)).rows
        server.primary_keys[name] = [row[0] for row in rows]
    return server.primary_keys[name]


# ---- the type ----


def _teach(conn: AnyConnection, server: Server) -> None:
    TypeInfo("securefile", server.oid, server.array_oid).register(conn)
    conn.adapters.register_loader(server.oid, ByteaLoader)
    conn.adapters.register_loader(server.oid, ByteaBinaryLoader)
    # asked for by type only (COPY, set_types()); bytes as such are bytea, as before
    for base in (BytesDumper, BytesBinaryDumper):
        conn.adapters.register_dumper(None, type(f"SecureFile{base.__name__}", (base,), {"oid": server.oid}))


def register(conn: Connection[Any]) -> None:
    """Make the type known to a connection, in text and binary format.

    Copy.set_types() then takes "securefile" and "securefile[]", and values that the server
    describes as securefile (securefile.describe_as, arrays and rows) are bytes.  A pool
    calls it as its configure=, whose transaction it ends.
    """
    idle = conn.info.transaction_status == 0
    _teach(conn, run(conn, server_of(conn)))
    if idle and not conn.autocommit:
        conn.rollback()


async def register_async(conn: AsyncConnection[Any]) -> None:
    """register() for an AsyncConnection."""
    idle = conn.info.transaction_status == 0
    _teach(conn, await run_async(conn, server_of(conn)))
    if idle and not conn.autocommit:
        await conn.rollback()
