"""Folders packed as an image: always the same bytes for the same files."""

from __future__ import annotations

import io
import os
import tarfile
from pathlib import Path

import pytest

from runners.payload import image_archive, pack
from runners.payload.unpack import unpack


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    root = tmp_path / "root"
    (root / "sub").mkdir(parents=True)
    (root / "sub" / "b.py").write_text("text")
    (root / "sub" / "empty").touch()
    os.symlink("sub/b.py", root / "a")
    os.link(root / "sub" / "b.py", root / "sub" / "again")
    os.mkfifo(root / "pipe")
    for path in (root / "sub", root / "sub" / "b.py", root / "sub" / "empty"):
        path.chmod(0o755)
    return root


def layer_digest(*sources: pack.Source) -> str:
    """Return the digest of the last layer, which no machine's architecture is part of."""
    file = io.BytesIO()
    pack.write(file, sources, {}, {})
    digest: str = (
        image_archive.Archive(file)
        .read_manifest(pack.ARCHITECTURES[os.uname().machine])
        .content["layers"][-1]["digest"]
    )
    return digest


def test_a_layer_keeps_its_digest_from_version_to_version(folder: Path) -> None:
    """Images in catalogues and caches are known by it."""
    expected = "sha256:1820ad967b1d5376ceb149144e558cd4fd31082db59c73f0de632b1e763c438e"
    assert layer_digest(pack.Source(str(folder))) == expected


def test_times_do_not_count_but_of_sources_whose_bytecode_has_them(folder: Path) -> None:
    digests = []
    for age in (1, 2):
        os.utime(folder / "sub" / "b.py", (age, age))
        sources = (
            pack.Source(str(folder)),
            pack.Source(str(folder), "opt/tare"),
            pack.Source(str(folder), sources_keep_times=True),
        )
        digests.append([layer_digest(source) for source in sources])
    plain, below, timed = zip(*digests, strict=True)
    assert len(set(plain)) == len(set(below)) == 1
    assert len({plain[0], below[0], *timed}) == 4


def test_the_image_holds_the_folders_and_unpacks_to_them(folder: Path, tmp_path: Path) -> None:
    archive = tmp_path / "image.tar"
    with archive.open("wb") as file:
        pack.write(file, [pack.Source(str(folder), "opt/tare")], {}, {}, "tare/x:1")
    unpack(str(archive), str(tmp_path / "again"))
    again = tmp_path / "again" / "opt" / "tare"
    assert sorted(str(path.relative_to(again)) for path in again.rglob("*")) == [
        "a", "sub", "sub/again", "sub/b.py", "sub/empty",
    ]  # fmt: skip
    assert (again / "a").read_text() == (again / "sub" / "again").read_text() == "text"
    with tarfile.open(archive) as tar:
        assert {"index.json", "manifest.json"} <= set(tar.getnames()), "of OCI, and of docker"
