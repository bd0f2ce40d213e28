"""Alembic: what it generates by comparing models with a table of the server."""

import warnings

from alembic.autogenerate import compare_metadata
from alembic.migration import MigrationContext
from alembic.operations import Operations
from sqlalchemy import Column, LargeBinary, MetaData, Table, Text, create_engine
from sqlalchemy.dialects.postgresql.base import ischema_names
from sqlalchemy.ext.compiler import compiles

from trial import DATABASE, HOST, PORT, USER, Stack

stack = Stack("Alembic", "alembic_docs")
engine = create_engine(f"postgresql+psycopg://{USER}@{HOST}:{PORT}/{DATABASE}")


class SecureFile(LargeBinary):
    """A column of type securefile: SecureFile(), SecureFile("nocache")."""

    cache_ok = True

    def __init__(self, *options):
        super().__init__()
        self.options = options


@compiles(SecureFile, "postgresql")
def securefile_ddl(type_, compiler, **kw):
    return f"securefile({', '.join(type_.options)})" if type_.options else "securefile"


def generated(conn, column_type):
    """The operations of a migration that alembic revision --autogenerate would write."""
    model = MetaData()
    Table("alembic_docs", model, Column("name", Text, primary_key=True), Column("document", column_type))
    context = MigrationContext.configure(conn, opts={"include_name": lambda name, kind, parents: kind != "table" or name == "alembic_docs"})
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        found = compare_metadata(context, model)
    stack.ok(bool(said) == ("securefile" not in ischema_names), f"what it says of the type: {[str(warning.message) for warning in said]}")
    return [change[0][0] for change in found]


def compared():
    stack.server.execute("CREATE TABLE alembic_docs (name text PRIMARY KEY, document securefile(nocache))")
    with engine.connect() as conn:
        ischema_names.pop("securefile", None)
        for column_type in (LargeBinary(), SecureFile(), SecureFile("nocache")):
            stack.ok(generated(conn, column_type) == [], f"type not known: nothing is generated for {column_type!r}")
        ischema_names["securefile"] = SecureFile
        for column_type in (SecureFile(), SecureFile("nocache")):
            stack.ok(generated(conn, column_type) == [], f"type known: nothing is generated for {column_type!r}")
        stack.ok(generated(conn, LargeBinary()) == ["modify_type"], "type known: a model of LargeBinary turns the column into bytea")


def migrated():
    with engine.begin() as conn:
        operations = Operations(MigrationContext.configure(conn))
        operations.drop_table("alembic_docs")
        operations.create_table("alembic_docs", Column("name", Text, primary_key=True), Column("document", SecureFile("nocache")))
        operations.alter_column("alembic_docs", "document", type_=SecureFile("nocache", "compress"))
    made = stack.server.execute(
        "SELECT format_type(atttypid, atttypmod) FROM pg_attribute WHERE attrelid = 'alembic_docs'::regclass AND attname = 'document'"
    ).fetchone()[0]
    stack.ok(made == "securefile(compress_medium, nocache)", f"op.create_table(), op.alter_column(): {made}")


stack.part("autogenerate", compared)
stack.part("operations", migrated)
engine.dispose()
