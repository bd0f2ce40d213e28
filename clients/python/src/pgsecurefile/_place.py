"""Where a value lies: table, column, and the row's key or condition."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Union

from psycopg.errors import CardinalityViolation
from psycopg.sql import SQL, Composable

from ._errors import NoSuchValue, SeveralRows
from ._server import Server, plain, primary_key_of, server_of
from ._steps import AnyConnection, Name, Steps, ask

Table = Union[str, Sequence[str], Composable]


def table_name(table: Table) -> Composable:
    """A str names a table, or a schema and a table with a dot between them."""
    if isinstance(table, Composable):
        return table
    return Name(*(table.split(".", 1) if isinstance(table, str) else table))


@dataclass
class Place:
    """One value, as steps find it."""

    conn: AnyConnection
    table: Composable
    column: Name
    condition: Composable
    parameters: tuple[Any, ...]
    key: dict[str, Any] | None
    server: Server
    what: str
    values: dict[str, Any] = field(default_factory=dict)

    def missing(self) -> NoSuchValue:
        return NoSuchValue(f"there is no value for {self.what}")

    # ---- statements ----

    def select(self, columns: Composable, parameters: Sequence[Any] = (), tail: str = "") -> Steps[list[tuple[Any, ...]]]:
        """At most one row; none, where a text cannot be one of the server's."""
        if any(isinstance(value, str) and "\0" in value for value in self.parameters):
            return []
        query = SQL("SELECT {} FROM {} WHERE {} LIMIT 2 {}").format(columns, self.table, self.condition, SQL(tail))
        rows = (yield from ask(query, *parameters, *self.parameters)).rows
        if len(rows) > 1:
            raise SeveralRows(f"several rows fit {self.what}")
        return rows

    def update(self, value: Composable, *parameters: Any) -> Steps[int]:
        """How many rows there are.  If there are several, the subquery is an error, and none is changed."""
        assignments = [SQL("{} = {}").format(self.column, value)]
        assignments += [SQL("{} = %s").format(Name(name)) for name in self.values]
        query = SQL("UPDATE {table} SET {changes} WHERE {condition} AND (SELECT 1 FROM {table} WHERE {condition}) = 1").format(
            table=self.table, changes=SQL(", ").join(assignments), condition=self.condition
        )
        try:
            return (yield from ask(query, *parameters, *self.values.values(), *self.parameters, *self.parameters)).touched
        except CardinalityViolation as problem:
            raise SeveralRows(f"several rows fit {self.what}") from problem

    def insert(self, value: Composable, *parameters: Any) -> Steps[None]:
        if self.key is None:
            raise self.missing()
        others = {**self.values, **self.key}
        names: list[Composable] = [self.column, *(Name(name) for name in others)]
        query = SQL("INSERT INTO {} ({}) VALUES ({})").format(
            self.table, SQL(", ").join(names), SQL(", ").join([value, *(SQL("%s") for _ in others)])
        )
        yield from ask(query, *parameters, *others.values())

    def put(self, value: Composable, *parameters: Any) -> Steps[None]:
        """In the row that is there, or in a new one."""
        if (yield from self.update(value, *parameters)) == 0:
            yield from self.insert(value, *parameters)


def _described(names: Mapping[str, Any]) -> str:
    return ", ".join(f"{name} = {value!r}" for name, value in names.items())


def place_of(
    conn: AnyConnection,
    table: Table,
    column: str,
    key: Any = None,
    where: str | Composable | None = None,
    params: Sequence[Any] = (),
    values: Mapping[str, Any] | None = None,
) -> Steps[Place]:
    """The place that the arguments of open(), put() and get() name."""
    if (key is None) == (where is None):
        raise TypeError("either a key or a condition (where) is wanted")
    if column in (values or {}):
        raise ValueError("values are other columns than that of the value")
    name = table_name(table)
    server = yield from server_of(conn)
    place = Place(conn, name, Name(column), SQL(""), (), None, server, "", dict(values or {}))
    if where is not None:
        condition = SQL(where) if isinstance(where, str) else where
        place.condition, place.parameters = SQL("({})").format(condition), tuple(params)
        place.what = f"where {condition.as_string(conn)}"
        return place
    if not isinstance(key, Mapping):
        key = {(yield from one_key_column(conn, name)): key}
    if not key:
        raise TypeError("the key has no column")
    place.key = dict(key)
    if place.key.keys() & place.values.keys():
        raise ValueError("values cannot have columns of the key")
    place.condition = SQL(" AND ").join(SQL("{} = %s").format(Name(part)) for part in place.key)
    place.parameters = tuple(place.key.values())
    place.what = _described(place.key)
    return place


def one_key_column(conn: AnyConnection, table: Composable) -> Steps[str]:
    """The column of a primary key of one column."""
    columns = yield from primary_key_of(conn, table)
    if len(columns) != 1:
        name = plain(conn, table)
        raise TypeError(f"{name} has no primary key of one column: give the key as a dictionary, column to value")
    return columns[0]
