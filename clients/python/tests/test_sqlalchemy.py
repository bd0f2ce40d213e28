"""The type for SQLAlchemy, and Alembic's comparison."""

import os
import warnings

from alembic.autogenerate import compare_metadata
from alembic.migration import MigrationContext
from common import DATA, Server
from sqlalchemy import Column, MetaData, Table, Text, create_engine, select
from sqlalchemy.orm import DeclarativeBase, Mapped, Session, mapped_column
from sqlalchemy.schema import CreateTable

import pgsecurefile
from pgsecurefile.sqlalchemy import SecureFile, driver_connection


class Base(DeclarativeBase):
    pass


class Doc(Base):
    __tablename__ = "docs"
    name: Mapped[str] = mapped_column(primary_key=True)
    document: Mapped[bytes | None] = mapped_column(SecureFile("nocache", "disable_storage_in_row"))


class Types(Server):
    def setUp(self):
        super().setUp()
        self.engine = create_engine("postgresql+psycopg://", connect_args={"dbname": os.environ["PGDATABASE"]})
        self.addCleanup(self.engine.dispose)
        self.conn.execute("DROP TABLE docs")
        Base.metadata.create_all(self.engine)

    def test_options(self):
        """options in DDL, and by reflection"""
        made = self.conn.execute(
            "SELECT format_type(atttypid, atttypmod) FROM pg_attribute WHERE attrelid = 'docs'::regclass AND attnum = 2"
        )
        self.assertEqual(made.fetchone()[0], "securefile(nocache, disable_storage_in_row)")
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            table = Table("docs", MetaData(), autoload_with=self.engine)
        self.assertIsInstance(table.c.document.type, SecureFile)
        self.assertIn("document securefile(nocache, disable_storage_in_row)", str(CreateTable(table).compile(self.engine)))

    def test_values(self):
        """values are bytes, and files live in the session's transaction"""
        with Session(self.engine) as session:
            session.add(Doc(name="a", document=DATA))
            session.flush()
            conn = driver_connection(session)
            with pgsecurefile.open(conn, "docs", "document", "a", "r+b") as file:
                file.write(b"new")
            pgsecurefile.put(conn, "docs", "document", "b", b"b")
            self.assertIsNone(self.stored())
            session.commit()
            self.assertEqual(session.scalar(select(Doc.document).where(Doc.name == "a")), b"new" + DATA[3:])
            pgsecurefile.put(driver_connection(session.connection()), "docs", "document", "b", b"c")
            session.rollback()
        self.assertEqual((self.stored(), self.stored("b")), (b"new" + DATA[3:], b"b"))

    def test_literals(self):
        """bytes in SQL as text, as Alembic writes it with --sql"""
        for data in (b"", b"\\x4142", b"a'b\\", bytes(range(256))):
            column = SecureFile().literal_processor(self.engine.dialect)(data)
            self.conn.execute(f"INSERT INTO docs VALUES ('a', {column}) ON CONFLICT (name) DO UPDATE SET document = excluded.document")
            self.assertEqual(self.stored(), data)
            query = select(Doc.name).where(Doc.document == data).compile(self.engine, compile_kwargs={"literal_binds": True})
            self.assertEqual(self.conn.execute(str(query)).fetchall(), [("a",)])

    def test_alembic(self):
        """autogenerate finds no difference, whatever the options are"""
        with self.engine.connect() as conn:
            for wanted in (SecureFile(), SecureFile("nocache"), SecureFile("nocache", "disable_storage_in_row")):
                model = MetaData()
                Table("docs", model, Column("name", Text, primary_key=True), Column("document", wanted))
                options = {"include_name": lambda name, kind, parents: kind != "table" or name == "docs", "compare_type": True}
                found = compare_metadata(MigrationContext.configure(conn, opts=options), model)
                # the key is a varchar there
                self.assertEqual([change for change in found if "document" in str(change)], [], repr(wanted))
