from django.contrib import admin

from .models import Document, Video

admin.site.register(Video)


@admin.register(Document)
class DocumentAdmin(admin.ModelAdmin):
    list_display = ["name", "changed"]
    fields = ["name", "changed"]

    def get_queryset(self, request):
        return super().get_queryset(request).defer("document")  # else each page reads all contents
