from django.contrib import admin
from django.forms import modelform_factory
from django.http import HttpResponse
from django.middleware.csrf import get_token
from django.shortcuts import get_object_or_404, redirect
from django.urls import path
from django.utils.html import format_html

from .models import Video, storage

FORM = """<form method="post" enctype="multipart/form-data">{}<button>Store</button>
<input type="hidden" name="csrfmiddlewaretoken" value="{}"></form>"""
VideoForm = modelform_factory(Video, fields=["title", "file"])


def upload(request):
    form = VideoForm(request.POST or None, request.FILES or None)
    if form.is_valid():
        return redirect("watch", form.save().pk)
    return HttpResponse(format_html(FORM, form.as_p(), get_token(request)))


def watch(request, pk):
    video = get_object_or_404(Video, pk=pk)
    return HttpResponse(format_html('<h1>{}</h1><video controls src="{}"></video>', video.title, video.file.url))


urlpatterns = [
    path("admin/", admin.site.urls),
    path("upload", upload),
    path("watch/<int:pk>", watch, name="watch"),
    path("files/<path:name>", storage.view),
]
