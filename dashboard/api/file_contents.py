"""Small files within a body of JSON: by their names, each as a text or in base64."""

from __future__ import annotations

import base64
from collections.abc import Mapping
from typing import Annotated, Any

from django.core.files.uploadedfile import SimpleUploadedFile
from django.utils.datastructures import MultiValueDict
from pydantic import AfterValidator, model_validator

from dashboard.api.form_bodies import StrictBody
from runners.workloads.given import why_no_file_name


def _is_file_name(name: str) -> str:
    if why_not := why_no_file_name(name):
        raise ValueError(why_not)
    return name


class FileContent(StrictBody):
    """A file, as a text or, where it is none, in base64."""

    text: str | None = None
    base64: str | None = None

    @model_validator(mode="after")
    def _has_one(self) -> FileContent:
        if (self.text is None) == (self.base64 is None):
            raise ValueError("a file has either “text” or “base64”")
        self.read()
        return self

    def read(self) -> bytes:
        """Return the bytes. Raises ValueError where they are not base64."""
        if self.base64 is None:
            return (self.text or "").encode()
        try:
            return base64.b64decode(self.base64, validate=True)
        except ValueError as error:
            raise ValueError(f"“base64” cannot be read: {error}") from error


FileName = Annotated[str, AfterValidator(_is_file_name)]


def make_uploads(
    files: Mapping[str, FileContent], others: Mapping[str, FileContent | None] = {}
) -> MultiValueDict[str, Any]:
    """Return the files as a form takes them that a browser has sent under "uploads".

    `others` are those of other fields, by the name of the field.
    """
    uploads = [SimpleUploadedFile(name, file.read()) for name, file in files.items()]
    single = {
        name: [SimpleUploadedFile(name, file.read())] for name, file in others.items() if file
    }
    return MultiValueDict({"uploads": uploads, **single})
