"""Django: field, Storage and view, with the test client."""

import os
from datetime import datetime, timedelta, timezone

import django
from common import DATA, MB, Server
from django.conf import settings

settings.configure(
    DATABASES={
        "default": {"ENGINE": "django.db.backends.postgresql", "NAME": os.environ["PGDATABASE"]},
        "other": {"ENGINE": "django.db.backends.sqlite3", "NAME": ":memory:"},
    },
    ROOT_URLCONF="test_django",
    ALLOWED_HOSTS=["*"],
    SECRET_KEY="test",
    USE_TZ=True,
)
django.setup()

from asgiref.sync import async_to_sync  # noqa: E402
from django.core.exceptions import SuspiciousFileOperation  # noqa: E402
from django.core.files.base import ContentFile, File  # noqa: E402
from django.db import Error, connection, connections, migrations, models, transaction  # noqa: E402
from django.db.migrations.writer import OperationWriter  # noqa: E402
from django.test import AsyncClient, Client, RequestFactory, override_settings  # noqa: E402
from django.urls import path  # noqa: E402

from pgsecurefile.django import SecureFileField, SecureFileStorage, driver_connection  # noqa: E402


class Doc(models.Model):
    name = models.TextField(primary_key=True)
    document = SecureFileField(options="nocache", null=True)
    created = models.DateTimeField(db_default=django.db.models.functions.Now())
    changed = models.DateTimeField(null=True)

    class Meta:
        app_label = "tests"
        db_table = "docs"


storage = SecureFileStorage("docs", created="created", modified="changed", url_prefix="/files/")
signed = SecureFileStorage("docs", url_prefix="/signed/", signed=60)
urlpatterns = [path("files/<path:name>", storage.view), path("signed/<path:name>", signed.view)]


class Web(Server):
    def setUp(self):
        super().setUp()
        self.conn.execute("DROP TABLE docs")
        with connection.schema_editor() as editor:
            editor.create_model(Doc)
        self.addCleanup(connection.close)
        self.client = Client()

    def got(self, url, **headers):
        response = self.client.get(url, headers=headers)
        body = b"".join(response.streaming_content) if response.streaming else response.content
        return response, body

    def test_field(self):
        """the field: values, options in the table and in migrations"""
        Doc.objects.create(name="a", document=DATA)
        self.assertEqual(bytes(Doc.objects.get(name="a").document), DATA)
        made = self.conn.execute(
            "SELECT format_type(atttypid, atttypmod) FROM pg_attribute WHERE attrelid = 'docs'::regclass AND attname = 'document'"
        )
        self.assertEqual(made.fetchone()[0], "securefile(nocache)")
        operation = migrations.AddField("doc", "more", SecureFileField(options="compress"))
        self.assertIn("SecureFileField(options='compress')", OperationWriter(operation, indentation=0).serialize()[0])

    def test_other_database(self):
        """the field in a database that is not PostgreSQL"""
        with connections["other"].schema_editor() as editor:
            editor.create_model(Doc)
        Doc.objects.using("other").create(name="a", document=b"1")
        self.assertEqual(bytes(Doc.objects.using("other").get(name="a").document), b"1")
        self.assertRaisesRegex(TypeError, "psycopg 3", driver_connection, "other")

    def test_contents(self):
        """an upload of which a part was read is stored as a whole; text; a source without seek()"""
        content = ContentFile(DATA)
        content.read(1000)
        storage.save("read", content)
        self.assertEqual(self.stored("read"), DATA)
        storage.save("text", ContentFile("ä"))
        self.assertEqual(self.stored("text"), "ä".encode())
        reader, writer = os.pipe()
        os.write(writer, b"1234")
        os.close(writer)
        with File(open(reader, "rb"), "pipe") as pipe:
            storage.save("pipe", pipe)
        self.assertEqual(self.stored("pipe"), b"1234")

    def test_names(self):
        """a name that cannot be there: 404, not an error of the server"""
        self.assertEqual(self.client.get("/files/a%00b").status_code, 404)
        self.assertEqual(storage.exists("a\0b"), False)
        self.assertRaises(FileNotFoundError, storage.open, "a\0b")
        self.assertRaises(SuspiciousFileOperation, storage.save, "a\0b", ContentFile(b"1"))
        for name in "../a", "/a", "a/../../b":
            self.assertRaises(SuspiciousFileOperation, storage.save, name, ContentFile(b"1"))
        hostile = 'a\r\nX: y";é'
        storage.save(hostile, ContentFile(b"1"))
        response = storage.view(RequestFactory().get("/"), hostile)
        self.assertEqual(response["Content-Disposition"], "inline; filename*=utf-8''a%0D%0AX%3A%20y%22%3B%C3%A9")

    def test_lost_connection(self):
        """errors are those of django.db; a lost connection is replaced, but not in a transaction"""
        storage.save("a", ContentFile(b"1"))

        def lose():
            self.other.execute("SELECT pg_terminate_backend(%s, 10000)", (driver_connection().info.backend_pid,))

        for call in (
            lambda: storage.size("a"),
            lambda: storage.open("a"),
            lambda: storage.save("b", ContentFile(DATA)),
            lambda: self.client.get("/files/a"),
        ):
            lose()
            self.assertRaises(Error, call)
            self.assertEqual(storage.size("a"), 1)
        with self.assertRaises(Error), transaction.atomic():
            storage.save("c", ContentFile(b"1"))
            lose()
            with self.assertRaises(Error):
                storage.size("a")
            storage.save("d", ContentFile(b"1"))
        self.assertEqual((storage.exists("c"), storage.exists("d")), (False, False))
        lose()
        connection.settings_dict["CONN_HEALTH_CHECKS"] = True
        connection.close_if_unusable_or_obsolete()
        connection.health_check_enabled, connection.health_check_done = True, False
        self.assertEqual(storage.size("a"), 1)
        connection.settings_dict["CONN_HEALTH_CHECKS"] = False

    def test_asgi(self):
        """under ASGI a download is fetched piece by piece"""
        storage.save("a", ContentFile(DATA))

        async def first():
            response = await AsyncClient().get("/files/a", headers={"range": f"bytes=7-{3 * MB}"})
            return response.status_code, response.is_async, [piece async for piece in response.streaming_content]

        status, is_async, pieces = async_to_sync(first)()
        self.assertEqual((status, is_async, len(pieces)), (206, True, 3))
        self.assertEqual(b"".join(pieces), DATA[7 : 3 * MB + 1])

    def test_storage(self):
        """save, open, listdir, times, sizes, deletion"""
        for name in "a/b/1", "a/2", "3":
            self.assertEqual(storage.save(name, ContentFile(DATA[:2_000_000])), name)
        other = storage.save("3", ContentFile(b"3"))
        self.assertNotEqual(other, "3")
        self.assertEqual(storage.listdir(""), (["a"], sorted(["3", other])))
        self.assertEqual(storage.listdir("a"), (["b"], ["2"]))
        self.assertEqual(storage.size("3"), 2_000_000)
        with storage.open("a/b/1") as file:
            self.assertEqual(file.size, 2_000_000)
            file.seek(1_999_990)
            self.assertEqual(file.read(), DATA[1_999_990:2_000_000])
            file.seek(0)
            self.assertEqual(b"".join(file.chunks()), DATA[:2_000_000])
        with storage.open("new", "wb") as file:
            file.write(DATA)
        self.assertEqual(self.stored("new"), DATA)
        for time in storage.get_created_time("new"), storage.get_modified_time("new"):
            self.assertLess(abs(datetime.now(timezone.utc) - time), timedelta(minutes=10))
        storage.delete("3")
        self.assertEqual(storage.exists("3"), False)
        self.assertRaises(FileNotFoundError, storage.open, "3")
        self.assertRaises(FileNotFoundError, storage.size, "3")

    def test_transactions(self):
        """atomic() and its rollback hold for files; a reader that is left open holds no transaction"""
        with self.assertRaises(ZeroDivisionError), transaction.atomic():
            storage.save("a", ContentFile(DATA))
            self.assertEqual(storage.size("a"), len(DATA))
            1 / 0  # noqa: B018
        self.assertEqual(storage.exists("a"), False)
        storage.save("a", ContentFile(DATA))
        file = storage.open("a")
        self.assertEqual(file.read(10), DATA[:10])
        self.assertEqual(driver_connection().info.transaction_status, 0)
        self.other.execute("UPDATE docs SET document = 'other'")
        with self.assertRaisesRegex(OSError, "changed while it was read"):
            file.seek(3 * MB)
            file.read()
        file.close()

    def test_ranges(self):
        """a view: ranges, conditions, HEAD, 404, 416"""
        storage.save("ä b.mp4", ContentFile(DATA))
        url = storage.url("ä b.mp4")
        response, body = self.got(url)
        self.assertEqual((response.status_code, body, response["Content-Type"]), (200, DATA, "video/mp4"))
        self.assertEqual((response["Content-Length"], response["Accept-Ranges"]), (str(len(DATA)), "bytes"))
        etag, date, size = response["ETag"], response["Last-Modified"], len(DATA)
        for asked, first, last in (
            ("bytes=1000-1999", 1000, 1999),
            ("bytes=0-", 0, size - 1),
            ("bytes=-7", size - 7, size - 1),
            (f"bytes=5-{9 * MB}", 5, size - 1),
            (f"bytes={MB - 1}-{2 * MB}", MB - 1, 2 * MB),
        ):
            response, body = self.got(url, range=asked)
            self.assertEqual((response.status_code, body), (206, DATA[first : last + 1]), asked)
            self.assertEqual(response["Content-Range"], f"bytes {first}-{last}/{size}")
        response, body = self.got(url, range=f"bytes={size}-")
        self.assertEqual((response.status_code, body, response["Content-Range"]), (416, b"", f"bytes */{size}"))
        for asked in "bytes=5-1", "bytes=0-1,5-6", "lines=1-2", "bytes=-":
            self.assertEqual(self.got(url, range=asked)[0].status_code, 200, asked)
        self.assertEqual(self.got(url, if_none_match=f'"x", W/{etag}')[0].status_code, 304)
        self.assertEqual(self.got(url, if_none_match='"x"')[0].status_code, 200)
        self.assertEqual(self.got(url, range="bytes=0-0", if_range=etag)[0].status_code, 206)
        for other in date, f"W/{etag}", f'{etag}, "x"', "*":
            self.assertEqual(self.got(url, range="bytes=0-0", if_range=other)[0].status_code, 200, other)
        response = self.client.head(url)
        self.assertEqual((response.status_code, response.content, response["Content-Length"]), (200, b"", str(size)))
        self.other.execute("UPDATE docs SET document = document || 'x'")
        self.assertEqual(self.got(url, range="bytes=0-0", if_range=etag)[0].status_code, 200)
        self.assertEqual(self.got(url, if_none_match=etag)[0].status_code, 200)
        self.assertEqual(self.client.get("/files/none").status_code, 404)
        self.assertEqual(self.client.post(url).status_code, 405)

    def test_signed(self):
        """a signed link: right, changed, of another file, too old"""
        storage.save("a:b/c", ContentFile(b"1"))
        storage.save("d", ContentFile(b"2"))
        another = SecureFileStorage("docs", key="note", url_prefix="/signed/", signed=60)
        self.assertEqual(self.client.get(another.url("d")).status_code, 403)
        url = signed.url("a:b/c")
        self.assertEqual(self.got(url)[1], b"1")
        signature = url.split("?")[1]
        for wrong in "/signed/a:b/c", f"/signed/d?{signature}", url[:-1] + ("A" if url[-1] != "A" else "B"):
            self.assertEqual(self.client.get(wrong).status_code, 403, wrong)
        with override_settings(SECRET_KEY="another"):
            self.assertEqual(self.client.get(url).status_code, 403)
        old = SecureFileStorage("docs", url_prefix="/signed/", signed=-1)
        signed.signed, keep = old.signed, signed.signed
        self.assertEqual(self.client.get(url).status_code, 403)
        signed.signed = keep
