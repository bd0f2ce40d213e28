"""asyncpg."""

import asyncio
import hashlib
import io

import asyncpg

from trial import LONG, MB, PAYLOADS, ROWS, Stack, bytes_of

stack = Stack("asyncpg", "asyncpg_docs")
stack.make_table()


async def store(conn, name, data):
    await conn.execute("INSERT INTO asyncpg_docs (name, document) VALUES ($1, $2)", name, data)


async def load(conn, name):
    return await conn.fetchval("SELECT document FROM asyncpg_docs WHERE name = $1", name)


async def upload(conn, name, file):
    """Store a file of any length, in pieces."""
    async with conn.transaction():
        new = await conn.fetchval("SELECT securefile_create('asyncpg_docs', 'document')")
        while piece := file.read(1024 * 1024):
            await conn.execute("SELECT securefile_write($1, $2)", new, piece)
        await conn.execute("INSERT INTO asyncpg_docs VALUES ($1, securefile_finish($2))", name, new)


async def download(conn, name, file):
    """Read a file of any length, in pieces."""
    async with conn.transaction():
        query = "SELECT securefile_chunks(document) FROM asyncpg_docs WHERE name = $1"
        async for (piece,) in conn.cursor(query, name, prefetch=8):
            file.write(piece)


async def round_trip(conn):
    for name, data in PAYLOADS.items():
        await conn.execute("DELETE FROM asyncpg_docs")
        await store(conn, name, data)
        stack.ok(stack.stored(name, data), f"{name} is written")
        stack.same(await load(conn, name), data, f"{name} is read")


async def many_rows(conn):
    def all_right(rows, expected, what):
        stack.ok(dict(rows) == expected, what)

    await conn.execute("DELETE FROM asyncpg_docs")
    await conn.executemany("INSERT INTO asyncpg_docs VALUES ($1, $2)", ROWS.items())
    all_right(await conn.fetch("SELECT * FROM asyncpg_docs"), ROWS, "executemany")
    turned = dict(zip(ROWS, reversed(ROWS.values())))
    upsert = await conn.prepare(
        "INSERT INTO asyncpg_docs VALUES ($1, $2) ON CONFLICT (name) DO UPDATE SET document = excluded.document RETURNING *"
    )
    all_right([await upsert.fetchrow(*row) for row in turned.items()], turned, "a prepared upsert with RETURNING")
    stack.ok(all(stack.stored(*row) for row in turned.items()), "which has stored them")
    stack.ok([a.name for a in upsert.get_parameters()] == ["text", "bytea"], "a prepared statement's parameters are text and bytea")
    stack.ok([a.type.name for a in upsert.get_attributes()] == ["text", "bytea"], "and its results")
    await conn.execute("DELETE FROM asyncpg_docs")
    inserted = "INSERT INTO asyncpg_docs SELECT * FROM unnest($1::text[], $2::securefile[]) RETURNING *"
    all_right(await conn.fetch(inserted, list(ROWS), list(ROWS.values())), ROWS, "an array as a parameter")
    stack.ok(all(stack.stored(*row) for row in ROWS.items()), "which has stored them")


async def copy(conn):
    await conn.execute("DELETE FROM asyncpg_docs")
    await conn.copy_records_to_table("asyncpg_docs", records=ROWS.items())
    stack.ok(all(stack.stored(*row) for row in ROWS.items()), "copy_records_to_table")
    file = io.BytesIO()
    await conn.copy_from_table("asyncpg_docs", output=file, format="binary")
    await conn.execute("DELETE FROM asyncpg_docs")
    file.seek(0)
    await conn.copy_to_table("asyncpg_docs", source=file, format="binary")
    stack.ok(all(stack.stored(*row) for row in ROWS.items()), "copy_from_table and copy_to_table")


async def conditions(conn):
    for name, data in ROWS.items():
        if data is not None:
            found = await conn.fetch("SELECT name FROM asyncpg_docs WHERE document = $1", data)
            stack.ok([tuple(row) for row in found] == [(name,)], f"WHERE document = $1 finds {name}")
    async with conn.transaction():
        rows = [row async for row in conn.cursor("SELECT * FROM asyncpg_docs", prefetch=2)]
    stack.ok(dict(rows) == ROWS, "a cursor of the server")
    array = await conn.fetchval("SELECT array_agg(document) FROM asyncpg_docs WHERE name = '10 B'")
    stack.ok(array == [PAYLOADS["10 B"]], "an array")
    for argument in ("$1", "$1::securefile"):
        digest = await conn.fetchval(f"SELECT securefile_digest({argument}, 'sha256')", b"abc")
        stack.same(digest, hashlib.sha256(b"abc").digest(), f"an argument {argument}")


async def whole_rows(conn):
    """The types inside a row as a value come from the catalogs."""
    query = "SELECT d FROM asyncpg_docs d WHERE name = '10 B'"
    try:
        await conn.fetchval(query)
        stack.ok(False, "a row as a value is refused")
    except asyncpg.UnsupportedClientFeatureError as error:
        stack.ok("composite types" in str(error), "a row as a value is refused")
    await conn.set_type_codec("securefile", schema="public", encoder=bytes, decoder=bytes, format="binary")
    row = await conn.fetchval(query)
    stack.ok(tuple(row.values()) == ("10 B", PAYLOADS["10 B"]), "a row as a value, with a codec")


async def what_becomes_of_a_statement(conn):
    """It is prepared, and then the column's options and its type change."""
    query = "SELECT document FROM asyncpg_docs WHERE name = $1"
    for change in ("securefile(nocache)", "securefile", "bytea", "securefile"):
        await conn.execute(f"ALTER TABLE asyncpg_docs ALTER document TYPE {change}")
        stack.ok(all([await conn.fetchval(query, name) == data for name, data in ROWS.items()]), f"ALTER TYPE {change} under a statement")


async def pool():
    async with asyncpg.create_pool(min_size=2, max_size=3) as connections:
        async def one(number):
            data = bytes_of(1000 * number)
            async with connections.acquire() as conn:
                await store(conn, f"pool {number}", data)
            async with connections.acquire() as conn:
                return stack.stored(f"pool {number}", data) and await load(conn, f"pool {number}") == data

        stack.ok(all(await asyncio.gather(*(one(number) for number in range(20)))), "a pool")


async def large_ones(conn):
    await conn.execute("DELETE FROM asyncpg_docs")
    for size in (0, 5 * MB) + ((200 * MB,) if LONG else ()):
        data = bytes_of(size)
        await upload(conn, f"large {size}", io.BytesIO(data))
        stack.ok(stack.stored(f"large {size}", data), f"{size} bytes are written in pieces")
        file = io.BytesIO()
        await download(conn, f"large {size}", file)
        stack.same(file.getvalue(), data, f"{size} bytes are read in pieces")


async def main():
    conn = await asyncpg.connect()
    for part in (round_trip, many_rows, copy, conditions, whole_rows, what_becomes_of_a_statement, large_ones):
        await part(conn)
    await conn.close()
    await pool()


stack.part("all of it", asyncio.run, main())
