"""Uploaded files: no more of a request is kept than Tare can use.

Images are larger than anything else and go straight into the image store, under a limit of their
own: a view sets `request.upload_handlers` to `[ImageUpload(request)]` before it reads the request.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from http import HTTPStatus
from typing import Any, TypeVar

from django.conf import settings
from django.core.files.uploadedfile import TemporaryUploadedFile, UploadedFile
from django.core.files.uploadhandler import FileUploadHandler, SkipFile
from django.http import HttpRequest, HttpResponse
from django.template.loader import render_to_string

from dashboard.middleware import Answer
from dashboard.typed_requests import read_length
from experiments.images import store
from experiments.imports import LIMITS
from experiments.statistics import numbers

REFUSED = "TARE_UPLOAD_REFUSED"
WHY = "TARE_UPLOAD_REFUSED_BECAUSE"
MOST_RECEIVED = 200_000_000
"""Bytes of a request that are received though they are refused, so that the form can say why: a
browser that is interrupted shows no answer. A gigabyte takes 12 s of the processor."""
View = TypeVar("View", bound=Callable[..., Any])


def judges_large_requests(view: View) -> View:
    """Mark a view that looks at the size of a request itself, before it reads it."""
    view.judges_large_requests = True  # type: ignore[attr-defined]
    return view


class RefuseHugeRequests:
    """Middleware: answer 413 to what is larger than any form, before anything of it is read.

    Django's check of the token reads the whole request, also of people who have not logged in.
    """

    def __init__(self, get_response: Answer) -> None:
        self._get_response = get_response

    def __call__(self, request: HttpRequest) -> Any:
        return self._get_response(request)

    def process_view(
        self, request: HttpRequest, view: Callable[..., Any], *arguments: Any
    ) -> HttpResponse | None:
        is_allowed = getattr(view, "judges_large_requests", False)
        if is_allowed or read_length(request) <= MOST_RECEIVED:
            return None
        most = numbers.quantity(float(MOST_RECEIVED), "B", significant=3)
        text = render_to_string("413.html", {"most": most})
        return HttpResponse(text, status=HTTPStatus.REQUEST_ENTITY_TOO_LARGE)


class Quota(FileUploadHandler):
    """An upload handler that passes a file on until it is too large; the rest is dropped."""

    def receive_data_chunk(self, raw_data: bytes, start: int) -> bytes:
        if start + len(raw_data) > LIMITS.archive_bytes:
            if self.request is not None:
                self.request.META[REFUSED] = self.field_name
            raise SkipFile
        return raw_data

    def file_complete(self, file_size: int) -> Any:
        """Return nothing: the handlers after this one keep the file."""
        return None


def was_too_large(request: HttpRequest) -> bool:
    """Return whether a file of this request was refused for its size."""
    request.FILES  # noqa: B018  (reads the request, as far as its handlers let it)
    return REFUSED in request.META


class InStore(TemporaryUploadedFile):
    """An uploaded file on the image store's own file system; it is deleted after the request."""

    def __init__(self, name: str, content_type: str | None) -> None:
        file = tempfile.NamedTemporaryFile(dir=store.make_incoming_path().parent, prefix="upload-")  # noqa: SIM115
        UploadedFile.__init__(self, file, name, content_type, 0)


class ImageUpload(FileUploadHandler):
    """An upload handler that writes a file as it comes, in constant memory, or refuses it."""

    chunk_size = 1 << 20
    file: InStore  # by this name Django closes it, whatever happens

    def new_file(self, *args: Any, **kwargs: Any) -> None:
        super().new_file(*args, **kwargs)
        self.file = InStore(self.file_name or "", self.content_type)

    def receive_data_chunk(self, raw_data: bytes, start: int) -> None:
        if start + len(raw_data) > settings.IMAGE_UPLOAD_BYTES:
            self._refuse(explain_too_large())
        try:
            self.file.write(raw_data)
        except OSError as problem:
            self._refuse(f"The server could not keep the file: {problem.strerror}. Nothing stays.")

    def file_complete(self, file_size: int) -> InStore:
        self.file.flush()
        self.file.seek(0)
        self.file.size = file_size
        return self.file

    def _refuse(self, why: str) -> None:
        """Drop what has come, and what is still to come."""
        self.file.close()
        if self.request is not None:
            self.request.META[WHY] = why
        raise SkipFile


def get_image_refusal(request: HttpRequest) -> str:
    """Return why an uploaded image was not stored; "" if it was."""
    return str(request.META.get(WHY, ""))


def explain_too_large() -> str:
    """Return the message for a file that is larger than this site takes."""
    most = numbers.quantity(float(settings.IMAGE_UPLOAD_BYTES), "B", significant=3)
    return (
        f"The file is larger than {most}, the most that this site takes. Copy it to a cluster, and "
        "add it from there."
    )


def explain_no_room(size: int) -> str:
    """Return why the store cannot take a request of `size` bytes; "" if it can."""
    if size > settings.IMAGE_UPLOAD_BYTES + FORM_BYTES:
        return explain_too_large()
    free = store.count_free_bytes()
    if size > free:
        left, needed = (numbers.quantity(float(n), "B", significant=3) for n in (free, size))
        return f"The server has {left} left for images, and this would take {needed}."
    return ""


FORM_BYTES = 1 << 20  # of a request: all that is not the file
