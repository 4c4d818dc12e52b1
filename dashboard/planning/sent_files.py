"""The files that a form of `command` lists as sent: those of users, and of known programs."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from experiments.models import SentFile
from experiments.presets.commands import SENT
from runners.workloads.given import MOST_FILES, why_no_file_name


@dataclass(frozen=True)
class Sending:
    """A file that is sent with every job."""

    name: str
    size: int
    sha256: str


def list_files_sent_before(data: Any) -> list[Sending]:
    """Return the files that the form lists as sent before, without those to be dropped."""
    pairs = [text.partition(" ") for text in data.getlist("kept")[: 2 * MOST_FILES]]
    dropped = set(data.getlist("drop"))
    files = {name: sha256 for sha256, _, name in pairs if name not in dropped}
    return list_known_files(
        {name: sha256 for name, sha256 in files.items() if not why_no_file_name(name)}
    )


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
