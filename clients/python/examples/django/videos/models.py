from django.db import models
from django.db.models.functions import Now

from pgsecurefile.django import SecureFileField, SecureFileStorage


class Document(models.Model):
    """The storage's table: a file a row."""

    name = models.TextField(primary_key=True)
    document = SecureFileField(options="nocache", null=True)
    created = models.DateTimeField(db_default=Now())
    changed = models.DateTimeField(null=True)

    class Meta:
        db_table = "documents"


storage = SecureFileStorage("documents", created="created", modified="changed", url_prefix="/files/", signed=3600)


class Video(models.Model):
    title = models.TextField()
    file = models.FileField(upload_to="videos/", storage=storage)
