"""Archives of code for tests: good ones of each kind, and odd ones entry by entry."""

from __future__ import annotations

import io
import stat
import tarfile
import zipfile
from collections.abc import Iterable

from tests import tf_cnn_stand_in

SCRIPT = b"#!/bin/sh\necho run\n"
FILES = {b"top.txt": b"top", b"a/b/deep.txt": b"deep", b"odd-\xff": b"odd"}


def make_tar(*members: tarfile.TarInfo | tuple[tarfile.TarInfo, bytes], mode: str = "w") -> bytes:
    """Return a tar of these members, each alone or with its content."""
    file = io.BytesIO()
    with tarfile.open(fileobj=file, mode=mode, errors="surrogateescape") as archive:  # type: ignore[call-overload]
        for member in members:
            info, content = member if isinstance(member, tuple) else (member, b"")
            info.size = len(content) if info.isreg() else info.size
            archive.addfile(info, io.BytesIO(content))
    return file.getvalue()


def name_member(
    name: str | bytes, type_: bytes = tarfile.REGTYPE, link: str = "", mode: int = 0o644
) -> tarfile.TarInfo:
    """Return a member of a tar."""
    info = tarfile.TarInfo(
        name if isinstance(name, str) else name.decode("utf-8", "surrogateescape")
    )
    info.type, info.linkname, info.mode = type_, link, mode
    return info


def make_good_tar(mode: str = "w") -> bytes:
    """Return a tar with folders, an executable, links and a name that is not UTF-8."""
    return make_tar(
        *((name_member(name), content) for name, content in FILES.items()),
        (name_member("a/run.sh", mode=0o755), SCRIPT),
        name_member("a/to-deep", tarfile.SYMTYPE, "b/deep.txt"),
        name_member("folder-link", tarfile.SYMTYPE, "a/b"),
        name_member("same", tarfile.LNKTYPE, "a/run.sh"),
        name_member("empty", tarfile.DIRTYPE, mode=0o755),
        mode=mode,
    )


def make_zip(entries: Iterable[tuple[str, bytes, int]], *, compress: bool = True) -> bytes:
    """Return a zip of (name, content, mode with its kind), as Unix packs it."""
    file = io.BytesIO()
    method = zipfile.ZIP_DEFLATED if compress else zipfile.ZIP_STORED
    with zipfile.ZipFile(file, "w", method) as archive:
        for name, content, mode in entries:
            info = zipfile.ZipInfo(name)
            info.create_system, info.external_attr = 3, mode << 16
            archive.writestr(info, content, compress_type=method)
    return file.getvalue()


def make_good_zip() -> bytes:
    """Return a zip with the same files as `make_good_tar`, but for hard links."""
    made = make_zip(
        [
            *((name, content, stat.S_IFREG | 0o644) for name, content in _ascii_names()),
            ("a/run.sh", SCRIPT, stat.S_IFREG | 0o755),
            ("same", SCRIPT, stat.S_IFREG | 0o755),
            ("a/to-deep", b"b/deep.txt", stat.S_IFLNK | 0o777),
            ("folder-link", b"a/b", stat.S_IFLNK | 0o777),
            ("empty/", b"", stat.S_IFDIR | 0o755),
        ]
    )
    return made.replace(b"odd-!", b"odd-\xff")


def _ascii_names() -> Iterable[tuple[str, bytes]]:
    """Yield the names without odd bytes, so that the zip says nothing of their encoding."""
    for name, content in FILES.items():
        yield name.replace(b"\xff", b"!").decode(), content


def make_tf_cnn_tar(mode: str = "w:gz") -> bytes:
    """Return the stand-in for tf_cnn_benchmarks in the folders of its repository, with tf_keras."""
    folder = "benchmarks/scripts/tf_cnn_benchmarks"
    with open(tf_cnn_stand_in.__file__, "rb") as file:
        script = file.read()
    return make_tar(
        (name_member(f"{folder}/tf_cnn_benchmarks.py", mode=0o755), script),
        (name_member(f"{folder}/tf_keras/__init__.py"), b""),
        (name_member("benchmarks/README.md"), b"A stand-in.\n"),
        mode=mode,
    )
