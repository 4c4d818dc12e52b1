"""What is sent to us as a file: no more of it is kept than anything here reads."""

from __future__ import annotations

from typing import Any

from django.core.files.uploadhandler import FileUploadHandler, SkipFile
from django.http import HttpRequest

from experiments.imports import LIMITS

REFUSED = "TARE_UPLOAD_REFUSED"


class Quota(FileUploadHandler):
    """Passes a file on as long as it is not too large; the rest of it touches no disk."""

    def receive_data_chunk(self, raw_data: bytes, start: int) -> bytes:
        if start + len(raw_data) > LIMITS.archive_bytes:
            if self.request is not None:
                self.request.META[REFUSED] = self.field_name
            raise SkipFile
        return raw_data

    def file_complete(self, file_size: int) -> Any:
        """The handlers after this one keep it."""
        return None


def was_too_large(request: HttpRequest) -> bool:
    """Whether a file of this request was refused for its size."""
    return REFUSED in request.META
