"""SQLAlchemy on psycopg, psycopg2 and asyncpg."""

import asyncio
import io
import warnings

from sqlalchemy import LargeBinary, MetaData, Table, bindparam, create_engine, func, insert, select, update
from sqlalchemy.dialects.postgresql import insert as upsert
from sqlalchemy.dialects.postgresql.base import ischema_names
from sqlalchemy.exc import SAWarning
from sqlalchemy.ext.asyncio import create_async_engine
from sqlalchemy.ext.compiler import compiles
from sqlalchemy.orm import DeclarativeBase, Mapped, Session, mapped_column
from sqlalchemy.schema import CreateTable

from trial import DATABASE, HOST, LONG, MB, PAYLOADS, PORT, ROWS, USER, Stack, bytes_of

URL = f"://{USER}@{HOST}:{PORT}/{DATABASE}"


class SecureFile(LargeBinary):
    """A column of type securefile: SecureFile(), SecureFile("nocache")."""

    cache_ok = True

    def __init__(self, *options):
        super().__init__()
        self.options = options


@compiles(SecureFile, "postgresql")
def securefile_ddl(type_, compiler, **kw):
    return f"securefile({', '.join(type_.options)})" if type_.options else "securefile"


class Base(DeclarativeBase):
    pass


class Doc(Base):
    __tablename__ = "sqlalchemy_docs"

    name: Mapped[str] = mapped_column(primary_key=True)
    document: Mapped[bytes | None] = mapped_column(SecureFile("nocache"))


class PlainDoc(Base):
    """The same table, as who knows of no SecureFile maps it."""

    __tablename__ = "sqlalchemy_docs"
    __table_args__ = {"extend_existing": True}
    metadata = MetaData()

    name: Mapped[str] = mapped_column(primary_key=True)
    document: Mapped[bytes | None] = mapped_column(LargeBinary)


def upload(session, name, file):
    """Store a file of any length, in pieces."""
    new = session.scalar(select(func.securefile_create("sqlalchemy_docs", "document")))
    while piece := file.read(1024 * 1024):
        session.execute(select(func.securefile_write(new, piece)))
    session.execute(insert(Doc).values(name=name, document=func.securefile_finish(new)))


def download(session, name, file):
    """Read a file of any length, in pieces."""
    pieces = select(func.securefile_chunks(Doc.document, type_=LargeBinary)).where(Doc.name == name)
    for piece in session.scalars(pieces.execution_options(yield_per=8)):
        file.write(piece)


def mapped(stack, session, cls, what, payloads):
    """Objects: made, read, changed, merged."""

    def store(name, data):
        session.add(cls(name=name, document=data))
        session.commit()
        session.expunge_all()

    def load(name):
        document = session.get(cls, name).document
        session.rollback()
        session.expunge_all()
        return document

    stack.round_trip(store, load, what, payloads)



def read_all(session, cls):
    return dict(session.execute(select(cls.name, cls.document)).all())


def many_rows(stack, session, cls, what):
    def all_right(expected, part):
        session.commit()
        stack.ok(read_all(session, cls) == expected and all(stack.stored(*row) for row in expected.items()), f"{what}: {part}")

    stack.server.execute("DELETE FROM sqlalchemy_docs")
    rows = [{"name": name, "document": data} for name, data in ROWS.items()]
    returned = session.execute(insert(cls).returning(cls.name, cls.document), rows).all()
    stack.ok(dict(returned) == ROWS, f"{what}: insertmanyvalues with RETURNING")
    all_right(ROWS, "which has stored them")

    turned = dict(zip(ROWS, reversed(ROWS.values())))
    statement = upsert(cls.__table__)
    statement = statement.on_conflict_do_update(index_elements=["name"], set_={"document": statement.excluded.document})
    session.execute(statement, [{"name": name, "document": data} for name, data in turned.items()])
    all_right(turned, "upsert")

    for doc in session.scalars(select(cls)):
        doc.document = ROWS[doc.name]
    all_right(ROWS, "objects read and changed")

    session.execute(
        update(cls.__table__).where(cls.name == bindparam("key")).values(document=bindparam("value")),
        [{"key": name, "value": data} for name, data in turned.items()],
    )
    all_right(turned, "executemany of UPDATE")
    for name, data in turned.items():
        found = session.scalars(select(cls.name).where(cls.document == data)).all()
        stack.ok(found == [name], f"{what}: WHERE document = finds {name}")


def large_ones(stack, session):
    session.rollback()
    for size in (0, 5 * MB) + ((200 * MB,) if LONG else ()):
        data = bytes_of(size)
        upload(session, f"large {size}", io.BytesIO(data))
        session.commit()
        stack.ok(stack.stored(f"large {size}", data), f"{size} bytes are written in pieces")
        file = io.BytesIO()
        download(session, f"large {size}", file)
        stack.same(file.getvalue(), data, f"{size} bytes are read in pieces")
        piece = session.scalar(select(func.substring(Doc.document, 3, 4, type_=LargeBinary)).where(Doc.name == f"large {size}"))
        stack.same(piece, data[2:6], f"a part of {size} bytes")


def reflection(stack, engine):
    """What is read from the catalogs, without and with a word on the type."""

    def reflect():
        with warnings.catch_warnings(record=True) as said:
            warnings.simplefilter("always", SAWarning)
            table = Table("sqlalchemy_docs", MetaData(), autoload_with=engine)
        return table, [str(warning.message) for warning in said]

    ischema_names.pop("securefile", None)
    table, said = reflect()
    stack.ok(said == ["Did not recognize type 'securefile' of column 'document'"], f"reflection: {said}")
    stack.ok(repr(table.c.document.type) == "NullType()", "reflection gives NullType()")
    with Session(engine) as session:
        got = {name: data if data is None else bytes(data) for name, data in session.execute(select(table))}
        stack.ok(got == read_all(session, Doc), "a column of NullType() is read")

    ischema_names["securefile"] = SecureFile

    table, said = reflect()
    stack.ok(not said and isinstance(table.c.document.type, SecureFile), "reflection with ischema_names")
    ddl = str(CreateTable(table).compile(engine))
    stack.ok("document securefile(nocache)" in ddl, "and the DDL it gives")


def sessions(stack, session):
    for cls, what, payloads in ((Doc, "SecureFile", PAYLOADS), (PlainDoc, "LargeBinary", ROWS)):
        mapped(stack, session, cls, what, payloads)
        many_rows(stack, session, cls, what)
    large_ones(stack, session)


def synchronous(driver):
    stack = Stack(f"SQLAlchemy, {driver}", "sqlalchemy_docs")
    engine = create_engine(f"postgresql+{driver}{URL}", pool_size=2)

    def all_of_it():
        Base.metadata.create_all(engine)
        with Session(engine) as session:
            sessions(stack, session)
        reflection(stack, engine)

    stack.part("all of it", all_of_it)
    engine.dispose()


async def asynchronous():
    stack = Stack("SQLAlchemy, asyncpg", "sqlalchemy_docs")
    engine = create_async_engine(f"postgresql+asyncpg{URL}")

    def all_of_it(conn):
        Base.metadata.create_all(conn)
        conn.commit()
        with Session(conn) as session:
            stack.part("all of it", sessions, stack, session)

    async with engine.connect() as conn:
        await conn.run_sync(all_of_it)
    await engine.dispose()


synchronous("psycopg")
synchronous("psycopg2")
asyncio.run(asynchronous())
