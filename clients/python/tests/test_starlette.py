"""The response of Starlette and FastAPI, with Starlette's test client."""

import asyncio
import contextlib

import psycopg
from common import DATA, MB, Server
from starlette.applications import Starlette
from starlette.responses import PlainTextResponse
from starlette.routing import Route
from starlette.testclient import TestClient

from pgsecurefile import aio
from pgsecurefile.starlette import SecureFileResponse


@contextlib.asynccontextmanager
async def connect():
    async with await psycopg.AsyncConnection.connect(autocommit=True) as conn:
        yield conn


async def download(request):
    name = request.path_params["name"]
    return SecureFileResponse(connect, "docs", "document", {"name": name}, filename=name, headers={"X-Mine": "1"})


async def upload(request):
    form = await request.form()
    file = form["file"]
    async with connect() as conn:
        size = await aio.put(conn, "docs", "document", file.filename, file)
    return PlainTextResponse(str(size))


app = Starlette(routes=[Route("/files/{name:path}", download), Route("/upload", upload, methods=["POST"])])


SCOPE = {"type": "http", "method": "GET", "headers": []}


async def never():
    await asyncio.Event().wait()


class Web(Server):
    def setUp(self):
        super().setUp()
        self.client = TestClient(app)
        self.addCleanup(self.client.close)

    def test_upload_and_ranges(self):
        """an upload is stored in pieces; ranges, conditions, HEAD, 404, 416"""
        response = self.client.post("/upload", files={"file": ("ä b.mp4", DATA)})
        self.assertEqual((response.status_code, response.text), (200, str(len(DATA))))
        self.assertEqual(self.stored("ä b.mp4"), DATA)
        url, size = "/files/ä b.mp4", len(DATA)
        whole = self.client.get(url)
        self.assertEqual((whole.status_code, whole.content, whole.headers["content-type"]), (200, DATA, "video/mp4"))
        self.assertEqual((whole.headers["content-length"], whole.headers["x-mine"]), (str(size), "1"))
        etag = whole.headers["etag"]
        for asked, first, last in (("bytes=5-9", 5, 9), ("bytes=-7", size - 7, size - 1), (f"bytes={MB - 1}-", MB - 1, size - 1)):
            part = self.client.get(url, headers={"Range": asked})
            self.assertEqual((part.status_code, part.content), (206, DATA[first : last + 1]), asked)
            self.assertEqual(part.headers["content-range"], f"bytes {first}-{last}/{size}")
        self.assertEqual(self.client.get(url, headers={"Range": f"bytes={size}-"}).status_code, 416)
        self.assertEqual(self.client.get(url, headers={"If-None-Match": etag}).status_code, 304)
        head = self.client.head(url)
        self.assertEqual((head.status_code, head.content, head.headers["content-length"]), (200, b"", str(size)))
        self.other.execute("UPDATE docs SET document = document || 'x'")
        self.assertEqual(self.client.get(url, headers={"Range": "bytes=0-0", "If-Range": etag}).status_code, 200)
        self.assertEqual(self.client.get("/files/none").status_code, 404)

    def test_changed(self):
        """a value that changes in the middle ends the response with an error"""
        self.conn.execute("INSERT INTO docs VALUES ('a', %s)", (DATA,))
        sent = []

        async def send(message):
            sent.append(message)
            if len(message.get("body", b"")) > 0:
                self.other.execute("UPDATE docs SET document = document || 'x'")

        response = SecureFileResponse(connect, "docs", "document", "a")
        self.assertRaisesRegex(OSError, "changed while it was read", asyncio.run, response(SCOPE, never, send))
        self.assertEqual(len(sent), 2)

    def test_gone(self):
        """a client that has gone ends the response, and holds no connection"""
        self.conn.execute("INSERT INTO docs VALUES ('a', %s)", (DATA,))
        sent, taken = [], 0

        @contextlib.asynccontextmanager
        async def counted():
            nonlocal taken
            async with connect() as conn:
                taken += 1
                yield conn

        async def receive():
            return {"type": "http.disconnect"} if len(sent) > 2 else await never()

        async def send(message):
            sent.append(message)

        asyncio.run(SecureFileResponse(counted, "docs", "document", "a")(SCOPE, receive, send))
        self.assertEqual([len(message.get("body", b"")) for message in sent], [0, MB, MB, 0])
        self.assertEqual(taken, 3)

    def test_names(self):
        """a name that cannot be there: 404, not an error of the server"""
        self.assertEqual(self.client.get("/files/a%00b").status_code, 404)
