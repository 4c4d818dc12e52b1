"""What a form of `command` has been sent: files of users, of known programs, and an archive."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from django import forms
from django.core.exceptions import ValidationError
from django.core.files import File
from django.core.signing import Signer

from experiments.code_copies.archives import ARCHIVE, NotKept, keep_archive
from experiments.models import CodeArchive, SentFile, User
from experiments.planning.closed_sums import find_closed_files
from experiments.presets.commands import SENT
from runners.workloads.given import MOST_FILES, why_no_file_name


@dataclass(frozen=True)
class Sending:
    """A file that is sent with every job."""

    name: str
    size: int
    sha256: str


def list_files_sent_before(data: Any, user: User) -> list[Sending]:
    """Return the files that the form lists as sent before, without those to be dropped.

    A check sum alone opens no file of a workload that `user` may not view; the form's own keys do.
    """
    pairs = [text.partition(" ") for text in data.getlist("kept")[: 2 * MOST_FILES]]
    dropped, shown = set(data.getlist("drop")), set(data.getlist("shown"))
    files = {
        name: sha256
        for sha256, _, name in pairs
        if name not in dropped and not why_no_file_name(name)
    }
    stated = {sha256 for sha256 in files.values() if make_key(sha256, user) not in shown}
    closed = find_closed_files(stated - SENT.keys(), user)
    return list_known_files(
        {name: sha256 for name, sha256 in files.items() if sha256 not in closed}
    )


def keep_sent_archive(form: forms.BaseForm, file: File[bytes] | None) -> CodeArchive | None:
    """Keep an archive of code, and name it in the form that is shown again; None without a file.

    Raises ValidationError where it is no archive that can be kept.
    """
    if not file:
        return None
    try:
        row = keep_archive(file.chunks(), str(file.name))
    except NotKept as refusal:
        raise ValidationError(str(refusal)) from None
    data: Any = form.data
    form.data = data.copy()
    form.data[ARCHIVE] = row.sha256  # type: ignore[index]
    return row


def make_key(sha256: str, user: User) -> str:
    """Return what a form that is sent back proves by that it has shown a file to `user`."""
    return Signer(salt="sent file").signature(f"{user.pk} {sha256}")


def list_known_files(files: Mapping[str, str]) -> list[Sending]:
    """Return those of `files` (name -> sha256) that are stored, or that known programs bring."""
    rows = SentFile.objects.filter(sha256__in=files.values())
    sizes = {sha256: len(content) for sha256, content in SENT.items()}
    sizes |= dict(rows.values_list("sha256", "size"))
    return [
        Sending(name, sizes[sha256], sha256)
        for name, sha256 in sorted(files.items())
        if sha256 in sizes
    ]


def keep_known_files(files: Iterable[Sending]) -> None:
    """Store those of the files that a known program brings."""
    for file in files:
        if file.sha256 in SENT:
            SentFile.objects.keep(SENT[file.sha256])
