import io
import sys

import psycopg

import pgsecurefile

with psycopg.connect(autocommit=True) as conn:
    conn.execute("CREATE TABLE IF NOT EXISTS videos (name text PRIMARY KEY, document securefile)")

    # bytes, the file at a path, or anything that has read()
    pgsecurefile.put(conn, "videos", "document", "program", sys.argv[0])
    pgsecurefile.put(conn, "videos", "document", "zeros", io.BytesIO(bytes(5_000_000)))

    # a file of Python's io: read(), readinto(), write(), seek(), tell(), truncate()
    with pgsecurefile.open(conn, "videos", "document", "zeros", "r+b") as file:
        file.seek(-4, io.SEEK_END)
        file.write(b"last")
    part = pgsecurefile.get(conn, "videos", "document", "zeros", offset=4_999_990)
    print(part, len(pgsecurefile.get_many(conn, "videos", "document", ["program", "zeros"])))
