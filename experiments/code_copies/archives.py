"""Archives of code that people send: read once, proved to be harmless, and kept by their sha256."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from pathlib import Path

from experiments.images import store
from experiments.models import CodeArchive
from runners import code_copies
from runners.payload import code_archive, code_tree
from runners.payload.code_archive import BadArchive, Member

LONGEST_NAME = 200
LARGEST_MB = code_archive.LARGEST_ARCHIVE // 10**6
ARCHIVE = code_copies.ARCHIVE
REPOSITORY, COMMIT = code_copies.REPOSITORY, code_copies.COMMIT
"""The parameters of a workload that name its code."""


class NotKept(Exception):
    """The archive is not kept; the message says why, and what to do."""


def keep_archive(blocks: Iterable[bytes], name: str) -> CodeArchive:
    """Read an archive through the strict door and keep it. Raises NotKept.

    The same bytes are kept once, by the name under which they came first.
    """
    received = store.make_incoming_path()
    try:
        sha256, size = _receive(blocks, received)
        members = read_members(received)
        row = CodeArchive(
            sha256=sha256,
            name=_clean_name(name),
            size_bytes=size,
            digest=code_archive.compute_digest(members),
            files=len(members),
            unpacked_bytes=sum(row.size for row in members.values()),
        )
        store.adopt(received, sha256)
    finally:
        received.unlink(missing_ok=True)
    CodeArchive.objects.bulk_create([row], ignore_conflicts=True)
    return CodeArchive.objects.get(pk=sha256)


def _receive(blocks: Iterable[bytes], received: Path) -> tuple[str, int]:
    """Write an archive to a file; return its sha256 and its size. Raises NotKept."""
    digest, size = hashlib.sha256(), 0
    with received.open("wb") as file:
        for block in blocks:
            size += len(block)
            if size > code_archive.LARGEST_ARCHIVE:
                most = code_archive.LARGEST_ARCHIVE // 10**6
                raise NotKept(
                    f"The archive has more than {most} MB. Leave out what the program does not "
                    "need, let the cluster fetch a git commit, or put large files on the cluster "
                    "as a data set."
                )
            digest.update(block)
            file.write(block)
    return digest.hexdigest(), size


def read_members(path: Path) -> dict[bytes, Member]:
    """Return the files and links of an archive by their paths. Raises NotKept."""
    try:
        with path.open("rb") as file:
            return code_archive.read_members(file)
    except BadArchive as refusal:
        problem = str(refusal)
    raise NotKept(f"{problem[:1].upper()}{problem[1:]}.")


def _clean_name(name: str) -> str:
    text = "".join(letter if letter.isprintable() else "?" for letter in name)
    return text[-LONGEST_NAME:] or "archive"


def find_kept(sha256: str) -> CodeArchive | None:
    """Return an archive that is here, with its bytes; None if it is not."""
    if not sha256 or not store.has(sha256):
        return None
    return CodeArchive.objects.filter(pk=sha256).first()


def list_paths(sha256: str) -> list[str]:
    """Return the paths of an archive that is here, links with a "/" behind; else nothing."""
    if find_kept(sha256) is None:
        return []
    try:
        members = read_members(store.get_path(sha256))
    except (NotKept, OSError):
        return []
    return code_tree.list_all_paths(members)


def explain_missing_file(argv: Iterable[str], sha256: str) -> str:
    """Return which path below {code} the archive does not have; "" if it has all, or is not here.

    The text goes on after the field's label.
    """
    words = [word for word in argv if word.startswith(f"{code_copies.PLACEHOLDER}/")]
    paths = list_paths(sha256) if words else []
    return code_copies.explain_missing_path(words, paths, "the archive") if paths else ""
