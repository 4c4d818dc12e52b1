"""Fields of forms for several files, which travel with jobs."""

from __future__ import annotations

from typing import Any

from django import forms
from django.core.exceptions import ValidationError
from django.core.files.uploadedfile import UploadedFile

from runners.workloads.given import LARGEST_FILE, why_no_file_name


class ManyFiles(forms.FileInput):
    """A file field that takes several files."""

    allow_multiple_selected = True

    def value_from_datadict(self, data: Any, files: Any, name: str) -> Any:
        return files.getlist(name) if hasattr(files, "getlist") else files.get(name)


class FilesField(forms.FileField):
    """Uploaded files by name; ValidationError names a file that cannot be sent."""

    def clean(self, data: Any, initial: Any = None) -> dict[str, bytes]:
        return {str(file.name): _content(file) for file in data or () if file}


def _content(file: UploadedFile[Any]) -> bytes:
    name, size = str(file.name), file.size or 0
    if why := why_no_file_name(name):
        raise ValidationError(why)
    if size > LARGEST_FILE:
        raise ValidationError(
            f"{name} has {size:,} bytes; a file that is sent has at most {LARGEST_FILE:,}. Larger "
            "things belong on the cluster."
        )
    return bytes(file.read())
