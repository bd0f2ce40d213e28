"""Django: a field, an upload, a storage, inspectdb."""

import io

import django
from django.conf import settings
from django.core.management import call_command

from trial import DATABASE, HOST, LONG, MB, PORT, ROWS, USER, Stack, bytes_of

settings.configure(
    DATABASES={
        "default": {
            "ENGINE": "django.db.backends.postgresql",
            "HOST": HOST,
            "PORT": PORT,
            "USER": USER,
            "NAME": DATABASE,
        }
    },
    ALLOWED_HOSTS=["testserver"],
    INSTALLED_APPS=[],
    ROOT_URLCONF=__name__,
    SECRET_KEY="trial",
    USE_TZ=True,
)
django.setup()

from django.core.exceptions import FieldError
from django.core.files.base import ContentFile, File
from django.core.files.storage import Storage
from django.core.files.uploadedfile import SimpleUploadedFile
from django.db import connection, connections, models, transaction
from django.db.models.functions import Cast, Coalesce
from django.db.utils import ProgrammingError
from django.http import FileResponse, Http404, HttpResponse
from django.test import Client
from django.urls import path, reverse


class SecureFileField(models.BinaryField):
    """A column of type securefile: SecureFileField(), SecureFileField(options="nocache")."""

    def __init__(self, *args, options="", **kwargs):
        self.options = options
        super().__init__(*args, **kwargs)

    def db_type(self, connection):
        return f"securefile({self.options})" if self.options else "securefile"

    def deconstruct(self):
        name, path, args, kwargs = super().deconstruct()
        if self.options:
            kwargs["options"] = self.options
        return name, path, args, kwargs


class Doc(models.Model):
    name = models.TextField(primary_key=True)
    document = SecureFileField(null=True, options="nocache")

    class Meta:
        app_label = "trial"
        db_table = "django_docs"


class PlainDoc(models.Model):
    """The same table, as who knows of no SecureFileField maps it."""

    name = models.TextField(primary_key=True)
    document = models.BinaryField(null=True)

    class Meta:
        app_label = "trial"
        db_table = "django_docs"
        managed = False


def one_value(query, *parameters):
    with connection.cursor() as cursor:
        cursor.execute(query, parameters)
        row = cursor.fetchone()
        return None if row is None else row[0]


def of_document(name, expression, *parameters):
    """A value that is computed from a document; an error if there is none, or NULL."""
    value = one_value(f"SELECT {expression} FROM django_docs WHERE name = %s", *parameters, name)
    if value is None:
        raise FileNotFoundError(f"there is no document {name!r}")
    return value


class StoredFile(io.RawIOBase):
    """A document as a file: seek() and read() fetch what is asked for."""

    def __init__(self, name):
        self.name = name
        self.position = 0
        self.size = of_document(name, "length(document)")

    def readable(self):
        return True

    def seekable(self):
        return True

    def seek(self, offset, whence=io.SEEK_SET):
        self.position = offset + {io.SEEK_SET: 0, io.SEEK_CUR: self.position, io.SEEK_END: self.size}[whence]
        return self.position

    def tell(self):
        return self.position

    def readinto(self, buffer):
        piece = of_document(self.name, "substring(document FROM %s FOR %s)", self.position + 1, len(buffer))
        buffer[: len(piece)] = piece
        self.position += len(piece)
        return len(piece)


class SecureFileStorage(Storage):
    """Files of any length in a table, one a row."""

    def _open(self, name, mode="rb"):
        return File(io.BufferedReader(StoredFile(name), 1024 * 1024), name)

    @transaction.atomic
    def _save(self, name, content):
        new = one_value("SELECT securefile_create('django_docs', 'document')")
        for piece in content.chunks(1024 * 1024):
            one_value("SELECT securefile_write(%s, %s)", new, piece)
        one_value("INSERT INTO django_docs VALUES (%s, securefile_finish(%s)) RETURNING 1", name, new)
        return name

    def exists(self, name):
        """Whether the name is taken, also by NULL."""
        return Doc.objects.filter(name=name).exists()

    def delete(self, name):
        Doc.objects.filter(name=name).delete()

    def size(self, name):
        return of_document(name, "length(document)")

    def url(self, name):
        return reverse("download", args=[name])


storage = SecureFileStorage()


def upload(request):
    file = request.FILES["file"]
    return HttpResponse(storage.save(file.name, file))


def download(request, name):
    try:
        file = storage.open(name)
    except FileNotFoundError as error:
        raise Http404 from error
    return FileResponse(file, as_attachment=True)


urlpatterns = [path("upload", upload), path("files/<path:name>", download, name="download")]

stack = Stack("Django", "django_docs")


def as_bytes(model):
    return {doc.name: doc.document if doc.document is None else bytes(doc.document) for doc in model.objects.all()}


def fields(model):
    what = model._meta.get_field("document").__class__.__name__
    stack.round_trip(
        lambda name, data: model.objects.create(name=name, document=data),
        lambda name: model.objects.get(name=name).document,
        what,
    )

    def all_right(expected, part):
        stack.ok(as_bytes(model) == expected and all(stack.stored(*row) for row in expected.items()), f"{what}: {part}")

    model.objects.all().delete()
    model.objects.bulk_create([model(name=name, document=data) for name, data in ROWS.items()])
    all_right(ROWS, "bulk_create")
    for doc in model.objects.iterator(chunk_size=2):
        doc.save()
    all_right(ROWS, "objects read and saved")
    turned = dict(zip(ROWS, reversed(ROWS.values())))
    model.objects.bulk_create(
        [model(name=name, document=data) for name, data in turned.items()],
        update_conflicts=True,
        update_fields=["document"],
        unique_fields=["name"],
    )
    all_right(turned, "bulk_create that updates")
    model.objects.bulk_update([model(name=name, document=data) for name, data in ROWS.items()], ["document"])
    all_right(ROWS, "bulk_update")
    for name, data in ROWS.items():
        if data is not None:
            found = list(model.objects.filter(document=data).values_list("name", flat=True))
            stack.ok(found == [name], f"{what}: filter(document=...) finds {name}")
    found = list(model.objects.filter(document__isnull=True).values_list("name", flat=True))
    stack.ok(found == ["NULL"], f"{what}: NULL and empty are two things")


def files():
    browser = Client()
    for size in (1, 5 * MB) + ((200 * MB,) if LONG else ()):
        data = bytes_of(size)
        name = f"{size}.bin"
        answer = browser.post("/upload", {"file": SimpleUploadedFile(name, data)})
        stack.ok((answer.status_code, answer.content) == (200, name.encode()), f"{size} bytes are uploaded")
        stack.ok(stack.stored(name, data), f"{size} bytes are stored in pieces")
        answer = browser.get(f"/files/{name}")
        stack.ok(answer["Content-Length"] == str(size), f"FileResponse knows of {size} bytes")
        stack.same(b"".join(answer.streaming_content), data, f"{size} bytes are downloaded")
        answer.close()
        with storage.open(name) as file:
            file.seek(-min(size, 10), io.SEEK_END)
            stack.same(file.read(), data[-10:], f"the end of {size} bytes by seek()")
    stack.ok(storage.size("1.bin") == 1, "size() of a stored file")
    stack.ok(storage.save("1.bin", ContentFile(b"")) != "1.bin", "a name that is taken")
    storage.delete("1.bin")
    stack.ok(not storage.exists("1.bin"), "delete() of a stored file")


def no_document():
    browser = Client()
    Doc.objects.all().delete()
    Doc.objects.create(name="NULL", document=None)
    for name in ("missing", "NULL"):
        stack.fails(FileNotFoundError, lambda: storage.open(name), f"open() of a document that is {name}")
        stack.fails(FileNotFoundError, lambda: storage.size(name), f"size() of a document that is {name}")
        stack.ok(browser.get(f"/files/{name}").status_code == 404, f"404 for a document that is {name}")
    stack.ok(not storage.exists("missing") and storage.exists("NULL"), "exists(): which names are taken")
    stack.ok(storage.save("NULL", ContentFile(b"new")) != "NULL", "a name that NULL has")

    for change in (lambda: storage.delete("goes"), lambda: Doc.objects.filter(name="goes").update(document=None)):
        Doc.objects.update_or_create(name="goes", defaults={"document": bytes(5 * MB)})
        answer = browser.get("/files/goes")
        pieces = iter(answer.streaming_content)
        next(pieces)
        change()
        stack.fails(FileNotFoundError, lambda: list(pieces), "a document that goes while it is read")
        answer.close()

    stack.same(storage.open(storage.save("empty", ContentFile(b""))).read(), b"", "an empty document")
    name = storage.save("a folder/ä b?.bin", ContentFile(b"x"))
    answer = browser.get(storage.url(name))
    stack.ok((answer.status_code, b"".join(answer.streaming_content)) == (200, b"x"), f"url(): {storage.url(name)}")
    stack.ok("filename*=utf-8''%C3%A4%20b%3F.bin" in answer["Content-Disposition"], f"file name: {answer['Content-Disposition']}")
    answer.close()
    for call in (lambda: storage.listdir(""), lambda: storage.path(name), lambda: storage.get_modified_time(name)):
        stack.fails(NotImplementedError, call, "what the storage does not have")


def queries():
    Doc.objects.all().delete()
    Doc.objects.bulk_create([Doc(name=name, document=data) for name, data in ROWS.items()])
    again = Doc.objects.create(name="again", document=ROWS["10 KB"])
    whole = Cast("document", models.BinaryField())
    for what, query in (
        ("order_by()", lambda: list(Doc.objects.order_by("document"))),
        ("distinct() of a field", lambda: list(Doc.objects.order_by("document").distinct("document"))),
        ("Count(distinct=True)", lambda: Doc.objects.aggregate(models.Count("document", distinct=True))),
    ):
        stack.fails(ProgrammingError, query, f"{what} is refused")
    values = sorted(data for data in ROWS.values() if data is not None)
    # 18 has max(bytea)
    if connection.pg_version < 180000:
        stack.fails(ProgrammingError, lambda: Doc.objects.aggregate(models.Max("document")), "Max() is refused")
    else:
        stack.ok(bytes(Doc.objects.aggregate(n=models.Max("document"))["n"]) == values[-1], "Max()")
    by_order = [bytes(data) for data in Doc.objects.exclude(document=None).order_by(whole).values_list("document", flat=True)]
    stack.ok(by_order == sorted(values + [ROWS["10 KB"]]), "order_by(Cast())")
    stack.ok(Doc.objects.aggregate(n=models.Count(whole, distinct=True)) == {"n": len(values)}, "Count(Cast(), distinct=True)")
    stack.ok(Doc.objects.values("document").distinct().count() == len(ROWS), "distinct()")
    groups = dict(Doc.objects.exclude(document=None).values_list("document").annotate(models.Count("name")))
    stack.ok(groups[ROWS["10 KB"]] == 2 and groups[ROWS["5 MB"]] == 1, "grouped by document")

    def mixed(**more):
        return models.Case(models.When(name="again", then=models.Value(b"new")), default="document", **more)

    stack.fails(FieldError, lambda: list(Doc.objects.values_list(mixed())), "Case() of two fields is refused")
    stack.fails(FieldError, lambda: list(Doc.objects.values_list(Coalesce(models.Value(None, models.BinaryField()), "document"))), "Coalesce(), too")
    Doc.objects.update(document=mixed(output_field=models.BinaryField()))
    stack.ok(as_bytes(Doc) == ROWS | {again.name: b"new"}, "Case() with an output_field")


def migrated():
    with connection.schema_editor(collect_sql=True) as editor:
        editor.create_model(Doc)
    stack.ok('"document" securefile(nocache) NULL' in " ".join(editor.collected_sql), "a migration creates securefile(nocache)")
    with connection.schema_editor() as editor:
        editor.create_model(Doc)


def inspected():
    said = io.StringIO()
    call_command("inspectdb", "django_docs", stdout=said)
    line = next(line.strip() for line in said.getvalue().splitlines() if "document =" in line)
    stack.ok(line == "document = models.BinaryField(blank=True, null=True)", f"inspectdb: {line}")


stack.part("migration", migrated)
stack.part("SecureFileField", fields, Doc)
stack.part("BinaryField", fields, PlainDoc)
stack.part("files", files)
stack.part("no document", no_document)
stack.part("queries", queries)
stack.part("inspectdb", inspected)
connections.close_all()
