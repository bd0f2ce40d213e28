"""Values of type securefile as files, over psycopg 3.

    import psycopg, pgsecurefile

    with psycopg.connect(autocommit=True) as conn:
        pgsecurefile.put(conn, "docs", "document", "a.mp4", "/tmp/a.mp4")
        with pgsecurefile.open(conn, "docs", "document", "a.mp4") as file:
            file.seek(1_000_000)
            part = file.read(4096)

pgsecurefile.aio has the same functions for psycopg.AsyncConnection.
"""

from ._errors import NoSuchValue, NotInstalled, SeveralRows, ValueExists
from ._file import SecureFile, open
from ._server import register
from ._transfer import get, get_many, put

__version__ = "1.0.0"

__all__ = [
    "NoSuchValue",
    "NotInstalled",
    "SecureFile",
    "SeveralRows",
    "ValueExists",
    "get",
    "get_many",
    "open",
    "put",
    "register",
]
