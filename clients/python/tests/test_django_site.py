"""The project of examples/django as its readers make it, below runserver; a video in Chromium."""

import json
import os
import pathlib
import re
import shutil
import socket
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request
import uuid

from common import DATA, MB, Server

EXAMPLES = pathlib.Path(__file__).parents[1] / "examples/django"

SETTINGS = """
import os
INSTALLED_APPS += ["videos"]
ROOT_URLCONF = "videos.urls"
DATABASES = {"default": {"ENGINE": "django.db.backends.postgresql", "NAME": os.environ["PGDATABASE"]}}
"""

# the test's own: uploads without a form's token, each answer as a line of JSON, a page with a script
EXTRA = """
MIDDLEWARE = ["tried.told", *(name for name in MIDDLEWARE if "Csrf" not in name)]
ROOT_URLCONF = "tried"
"""
TRIED = '''
import json
from django.http import HttpResponse
from django.urls import path
from videos.models import Video
from videos.urls import urlpatterns as those

def told(get_response):
    def middleware(request):
        response = get_response(request)
        print(json.dumps({"path": request.path, "range": request.headers.get("range"), "status": response.status_code,
            "query": request.GET.dict()}), flush=True)
        return response
    return middleware

PAGE = """<video id=v muted preload=metadata src="%s"></video><canvas id=c></canvas><script>
const tell = what => fetch("/told?" + new URLSearchParams(what));
v.onloadedmetadata = () => { v.currentTime = v.duration * 3 / 4 };
v.onseeked = () => {
    const at = c.getContext("2d");
    at.drawImage(v, 0, 0);
    tell({duration: v.duration, time: v.currentTime, pixel: at.getImageData(5, 5, 1, 1).data});
};
v.onerror = () => tell({error: v.error.message});
</script>"""

urlpatterns = [
    *those,
    path("page/<int:pk>", lambda request, pk: HttpResponse(PAGE % Video.objects.get(pk=pk).file.url)),
    path("told", lambda request: HttpResponse()),
]
'''

TESTS = """
from django.core.files.base import ContentFile
from django.test import TestCase, TransactionTestCase
from .models import Video, storage

class Rolled(TestCase):
    @classmethod
    def setUpTestData(cls):
        storage.save("kept", ContentFile(b"kept"))

    def test_one(self):
        Video.objects.create(title="one", file=ContentFile(b"x" * 3000000, "one"))
        storage.delete("kept")
        self.assertEqual(storage.listdir("videos"), ([], ["one"]))

    def test_two(self):
        self.assertEqual((storage.listdir("videos"), storage.open("kept").read()), (([], []), b"kept"))

class Committed(TransactionTestCase):
    def test_one(self):
        self.assertEqual(storage.save("one", ContentFile(b"1")), "one")

    test_two = test_one
"""


def multipart(**fields):
    """Body and type of a form; a tuple is a file's name and bytes."""
    border = uuid.uuid4().hex
    body = b""
    for name, value in fields.items():
        head = f'--{border}\r\nContent-Disposition: form-data; name="{name}"'
        if isinstance(value, tuple):
            body += f'{head}; filename="{value[0]}"\r\n\r\n'.encode() + value[1] + b"\r\n"
        else:
            body += f"{head}\r\n\r\n{value}\r\n".encode()
    return body + f"--{border}--\r\n".encode(), f"multipart/form-data; boundary={border}"


class Project(Server):
    def setUp(self):
        super().setUp()
        self.conn.execute("DROP TABLE docs")
        self.conn.execute("DROP DATABASE IF EXISTS site WITH (FORCE)")
        self.conn.execute("CREATE DATABASE site")
        where = tempfile.TemporaryDirectory()
        self.addCleanup(where.cleanup)
        self.where = pathlib.Path(where.name)
        self.environment = {**os.environ, "PGDATABASE": "site", "PYTHONWARNINGS": "", "HOME": where.name}
        self.call("-m", "django", "startproject", "site1", ".")
        shutil.copytree(EXAMPLES / "videos", self.where / "videos")
        (self.where / "tried.py").write_text(TRIED)
        self.settings = self.where / "site1/settings.py"
        self.settings.write_text(self.settings.read_text() + SETTINGS)

    def call(self, *arguments):
        done = subprocess.run(
            [sys.executable, *arguments], cwd=self.where, env=self.environment, capture_output=True, text=True, check=False
        )
        self.assertEqual(done.returncode, 0, f"{arguments}: {done.stdout}{done.stderr}")
        return done.stdout + done.stderr

    def manage(self, *arguments):
        return self.call("manage.py", *arguments)

    def migrated(self):
        self.manage("makemigrations", "videos")
        self.manage("migrate")

    def serve(self):
        """Starts the site, with the test's own pages, and waits for it."""
        self.settings.write_text(self.settings.read_text() + EXTRA)
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            port = free.getsockname()[1]
        self.url = f"http://127.0.0.1:{port}"
        self.log = self.where / "log"
        with self.log.open("w") as log:
            command = [sys.executable, "manage.py", "runserver", "--noreload", f"127.0.0.1:{port}"]
            self.server = subprocess.Popen(command, cwd=self.where, env=self.environment, stdout=log, stderr=subprocess.STDOUT)
        self.addCleanup(self.server.wait)
        self.addCleanup(self.server.kill)
        self.until(self.answers)

    def answers(self):
        try:
            return self.got("/told")
        except urllib.error.URLError:
            return None

    def until(self, what):
        for _ in range(1200):
            found = what()
            if found:
                return found
            if self.server.poll() is not None:
                break
            time.sleep(0.05)
        raise self.failureException(f"waited in vain: {self.log.read_text()}")

    def got(self, path, data=None, **headers):
        request = urllib.request.Request(self.url + path, data, {name.replace("_", "-"): value for name, value in headers.items()})
        with urllib.request.urlopen(request) as answer:
            return answer.status, answer.read()

    def uploaded(self, name, content):
        """The number of a new video, and where its contents are."""
        body, kind = multipart(title="A <title>", file=(name, content))
        page = self.got("/upload", body, Content_Type=kind)[1].decode()
        self.assertIn("<h1>A &lt;title&gt;</h1>", page)
        number = re.findall(r'"/watch/(\d+)"', json.dumps([line["path"] for line in self.lines()]))[-1]
        return number, re.search(r'src="([^"]+)"', page)[1].replace("&amp;", "&")

    def lines(self):
        return [json.loads(line) for line in self.log.read_text().splitlines() if line.startswith("{")]

    def test_project(self):
        """the project of doc/drivers.md: migrations, tests with rollbacks, uploads, signed links, ranges"""
        self.migrated()
        self.assertIn("No changes", self.manage("makemigrations", "--check"))
        (self.where / "videos/tests.py").write_text(TESTS)
        self.assertIn("Ran 4 tests", self.manage("test", "--noinput"))
        self.serve()
        content = DATA * 16
        _, url = self.uploaded("a.mp4", content)
        self.assertEqual(self.got(url), (200, content))
        self.assertEqual(self.got(url, Range=f"bytes={MB}-{3 * MB}"), (206, content[MB : 3 * MB + 1]))
        with self.assertRaises(urllib.error.HTTPError) as refused:
            self.got(url.partition("?")[0])
        refused.exception.close()
        self.assertEqual(refused.exception.code, 403)

    def test_chromium(self):
        """a video seeks in headless Chromium"""
        chromium, ffmpeg = shutil.which("chromium"), shutil.which("ffmpeg")
        if not chromium or not ffmpeg:
            self.skipTest(f"there is no {'ffmpeg' if chromium else 'chromium'}")
        film = self.where / "film.mp4"
        # red, then blue; noise makes it long, and its index stands at the end
        inputs = [part for source in ("color=red:s=64x64:r=5:d=150", "color=blue:s=64x64:r=5:d=150", "anoisesrc=r=44100:d=300")
                  for part in ("-f", "lavfi", "-i", source)]  # fmt: skip
        codecs = ["-c:v", "libx264", "-preset", "ultrafast", "-pix_fmt", "yuv420p", "-g", "10", "-c:a", "flac", "-strict", "-2"]
        command = [ffmpeg, "-v", "error", *inputs, "-filter_complex", "[0][1]concat", "-map", "2:a", *codecs, film]
        subprocess.run(command, check=True, stdin=subprocess.DEVNULL)
        self.migrated()
        self.serve()
        number, url = self.uploaded("film.mp4", film.read_bytes())
        profile = self.where / "profile"
        options = ["--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--remote-debugging-port=0"]
        command = [chromium, *options, f"--user-data-dir={profile}", f"{self.url}/page/{number}"]
        with (self.where / "chromium").open("w") as log:
            browser = subprocess.Popen(command, env=self.environment, stdout=log, stderr=log, start_new_session=True)
        try:
            told = self.until(lambda: [line["query"] for line in self.lines() if line["path"] == "/told" and line["query"]])[0]
        finally:
            os.killpg(browser.pid, 9)
            browser.wait()
        self.assertNotIn("error", told)
        self.assertAlmostEqual(float(told["duration"]), 300, delta=1)
        self.assertAlmostEqual(float(told["time"]), 225, delta=1)
        red, _, blue, _ = (int(part) for part in told["pixel"].split(","))
        self.assertLess(red, 100)
        self.assertGreater(blue, 150)
        asked = [(line["range"], line["status"]) for line in self.lines() if line["path"] == url.partition("?")[0]]
        # 304: what it has of the beginning is still right
        self.assertEqual({status for _, status in asked} - {304}, {206}, asked)
        starts = [int(re.match(r"bytes=(\d+)-", header)[1]) for header, status in asked if status == 206]
        middle = film.stat().st_size // 2
        self.assertTrue([start for start in starts if middle < start < film.stat().st_size * 9 // 10], asked)
