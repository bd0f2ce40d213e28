"""sqlacodegen: models from the catalogs."""

import io
import sys
import warnings
from contextlib import redirect_stdout

from sqlacodegen.cli import main
from sqlalchemy import LargeBinary
from sqlalchemy.dialects.postgresql.base import ischema_names

from trial import DATABASE, HOST, PORT, USER, Stack

stack = Stack("sqlacodegen", "sqlacodegen_docs")
stack.server.execute("CREATE TABLE sqlacodegen_docs (name text PRIMARY KEY, document securefile(nocache, disable_storage_in_row))")


def generate():
    """The line that it writes for the column, and what it warns of."""
    said = io.StringIO()
    sys.argv[1:] = ["--tables", "sqlacodegen_docs", f"postgresql+psycopg://{USER}@{HOST}:{PORT}/{DATABASE}"]
    with redirect_stdout(said), warnings.catch_warnings(record=True) as warned:
        warnings.simplefilter("always")
        main()
    line = next(line.strip() for line in said.getvalue().splitlines() if "document" in line)
    return line, [str(warning.message) for warning in warned]


def plain():
    line, warned = generate()
    stack.ok(line == "document: Mapped[Optional[object]] = mapped_column(NullType)", line)
    stack.ok("Did not recognize type 'securefile' of column 'document'" in warned, f"it warns: {warned}")


def taught():
    ischema_names["securefile"] = lambda *options: LargeBinary()

    line, warned = generate()
    stack.ok(line == "document: Mapped[Optional[bytes]] = mapped_column(LargeBinary)", f"with ischema_names: {line}")
    stack.ok(not warned, f"and no warning {warned}")


stack.part("plain", plain)
stack.part("taught", taught)
