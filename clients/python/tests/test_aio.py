"""The asynchronous twin; what the two share is tested by test_core."""

import asyncio
import io
import os
import tempfile

import psycopg
from common import DATA, MB, Server

from pgsecurefile import NoSuchValue, aio


class Asynchronous(Server):
    def run_with(self, steps, **options):
        async def work():
            async with await psycopg.AsyncConnection.connect(**{"autocommit": True, **options}) as conn:
                return await steps(conn)

        return asyncio.run(work())

    def test_file(self):
        """an asynchronous file reads, writes, seeks, and commits"""

        async def steps(conn):
            async with aio.open(conn, "docs", "document", "a", "wb") as file:
                await file.write(DATA[:100])
                await file.write(DATA[100:])
            self.assertEqual(self.stored(), DATA)
            file = await aio.open(conn, "docs", "document", "a", "r+b")
            self.assertEqual(await file.read(10), DATA[:10])
            await file.seek(-5, io.SEEK_END)
            self.assertEqual(await file.read(), DATA[-5:])
            await file.truncate(MB)
            await file.seek(0)
            buffer = bytearray(MB + 1)
            self.assertEqual(await file.readinto(buffer), MB)
            self.assertEqual(buffer[:MB], DATA[:MB])
            await file.close()
            self.assertEqual(self.stored(), DATA[:MB])
            async with aio.open(conn, "docs", "document", "a") as file:
                self.assertEqual(b"".join([piece async for piece in file]), DATA[:MB])

        self.run_with(steps)

    def test_ranges(self):
        """what the server does by itself: find(), erase(), copy_range()"""

        async def steps(conn):
            await aio.put(conn, "docs", "document", "a", DATA)
            its, mine = aio.open(conn, "docs", "document", "a"), aio.open(conn, "docs", "document", "b", "w+b")
            async with conn.transaction(), its as source, mine as target:
                self.assertEqual(await target.copy_range(source), len(DATA))
                self.assertEqual(await target.find(DATA[MB : MB + 20], 0), MB)
                await target.seek(MB)
                self.assertEqual(await target.erase(20), 20)
                self.assertEqual(await target.find(DATA[MB : MB + 20], 0), -1)
            self.assertEqual(self.stored("b"), DATA[:MB] + bytes(20) + DATA[MB + 20 :])

        self.run_with(steps)

    def test_transactions(self):
        """abort(), an exception and another's transaction store nothing"""

        async def steps(conn):
            with self.assertRaises(ZeroDivisionError):
                async with aio.open(conn, "docs", "document", "a", "wb") as file:
                    await file.write(DATA)
                    1 / 0  # noqa: B018
            file = await aio.open(conn, "docs", "document", "a", "wb")
            await file.abort()
            async with conn.transaction(force_rollback=True):
                await aio.put(conn, "docs", "document", "a", DATA)
            self.assertIsNone(self.stored())
            with self.assertRaises(NoSuchValue):
                await aio.get(conn, "docs", "document", "a")

        self.run_with(steps)

    def test_transfers(self):
        """put and get of bytes, paths and coroutines; get_many()"""

        async def steps(conn):
            with tempfile.TemporaryDirectory() as folder:
                path = os.path.join(folder, "file")
                for size in (0, MB, len(DATA)):
                    self.assertEqual(await aio.put(conn, "docs", "document", "a", DATA[:size]), size)
                    self.assertEqual(await aio.get(conn, "docs", "document", "a", path), size)
                    self.assertEqual(await aio.put(conn, "docs", "document", "b", path), size)
                    self.assertEqual(await aio.get(conn, "docs", "document", "b"), DATA[:size])
                    await aio.put(conn, "docs", "document", "c", Upload(DATA[:size]))
                    self.assertEqual(self.stored("c"), DATA[:size])
                    self.assertEqual(await aio.put(conn, "docs", "document", "d", path, resume=True), size)
                    self.assertEqual(await aio.get(conn, "docs", "document", "d", path, resume=True), size)
                    self.assertEqual(self.stored("d"), DATA[:size])
            self.assertEqual(await aio.get_many(conn, "docs", "document", ["b", "x"]), [DATA, None])

        self.run_with(steps)

    def test_cancel(self):
        """a task that is cancelled in the middle stores nothing, and its connection works"""

        async def steps(conn):
            task = asyncio.current_task()
            stop = lambda done, total: done > MB and task.cancel()  # noqa: E731
            with self.assertRaises(asyncio.CancelledError):
                await aio.put(conn, "docs", "document", "a", DATA, progress=stop)
            self.assertIsNone(self.stored())
            self.assertEqual(conn.info.transaction_status, psycopg.pq.TransactionStatus.IDLE)
            await aio.put(conn, "docs", "document", "a", DATA)

        self.run_with(steps)
        self.assertEqual(self.stored(), DATA)

    def test_register(self):
        """the type is known"""

        async def steps(conn):
            await aio.register(conn)
            async with conn.cursor().copy("COPY docs (name, document) FROM STDIN (FORMAT binary)") as copy:
                copy.set_types(["text", "securefile"])
                await copy.write_row(("a", DATA))

        self.run_with(steps)
        self.assertEqual(self.stored(), DATA)


class Upload:
    def __init__(self, data):
        self.file = io.BytesIO(data)

    async def read(self, size):
        return self.file.read(size)
