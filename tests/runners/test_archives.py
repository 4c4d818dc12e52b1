"""Files that people call images: what they are, what is in them, and why some are refused."""

import contextlib
import gzip
import io
import json
import lzma
import subprocess
import tarfile
from pathlib import Path

import pytest

from runners.errors import Refused
from runners.images import About, about, identify, to_oci
from runners.payload import layers, survey, unpack
from tests.runners.made_images import Image, Member, docker_archive, image, layer, os_release

BASE = layer(
    *os_release(),
    Member("bin", link="usr/bin"),
    Member("usr/bin/tool", b"one", 0o755),
    Member("usr/bin/gone", b"gone"),
    Member("opt/old/a", b"a"),
    Member("opt/old/b", b"b"),
    Member("opt/kept/a", b"a"),
)
CHANGES = layer(
    Member("usr/bin/.wh.gone"),
    Member("opt/old/.wh..wh..opq"),
    Member("opt/old/c", b"c"),
    Member("usr/bin/again", same_as="usr/bin/tool"),
    Member("bin/through", b"through the link"),
    Member("opt/kept/a", b"another"),
)


def names(described: About) -> set[str]:
    return set(described.survey["parts"])


def zstd(content: bytes) -> bytes:
    return subprocess.run(["zstd", "-cq"], input=content, stdout=subprocess.PIPE, check=True).stdout


@pytest.mark.parametrize("pack_by", [bytes, gzip.compress, lzma.compress, zstd])
def test_layers_lie_one_over_the_other(tmp_path: Path, pack_by) -> None:
    """Whiteouts, opaque folders, hard links and links to folders across layers."""
    made = image(BASE, CHANGES, pack_by=pack_by, Env=["PATH=/usr/bin"], Labels={"a": "b"})
    path = made.write(tmp_path / "image.tar")
    read: list[int] = []
    described = about(path, count=read.append)
    assert identify(path) == described.kind == "oci"
    assert described.digest == made.digest
    assert described.variables == ("PATH=/usr/bin",)
    assert described.labels == {"a": "b"}
    assert sum(read) == sum(map(len, made.blobs))
    assert described.survey["system"]["name"] == "Debian GNU/Linux 13 (trixie)"
    unpack.unpack(str(path), str(tmp_path / "root"))
    found = {
        str(one.relative_to(tmp_path / "root")): one.read_text()
        for one in (tmp_path / "root").rglob("*")
        if one.is_file() and "etc" not in one.parts and one.parent.name[:3] != "bin"
    }
    assert found["opt/old/c"] == "c"
    assert {name for name in found if name.startswith("opt")} == {"opt/old/c", "opt/kept/a"}
    assert found["opt/kept/a"] == "another"
    inside = tmp_path / "root/usr/bin"
    assert sorted(one.name for one in inside.iterdir()) == ["again", "through", "tool"]
    assert (inside / "again").read_text() == "one"
    assert described.survey == survey.survey(str(tmp_path / "root"))


def test_what_a_layer_hides_it_hides_of_lower_layers_only(tmp_path: Path) -> None:
    first = layer(*os_release(), Member("d/a", b"1"), Member("f", b"file"))
    second = layer(
        Member("d/new", b"2"),
        Member(".wh.d"),  # after what it must not hide
        Member("f/now/a/folder", b"3"),
    )
    path = image(first, second).write(tmp_path / "image.tar")
    unpack.unpack(str(path), str(tmp_path / "root"))
    assert [one.name for one in (tmp_path / "root/d").iterdir()] == ["new"]
    assert (tmp_path / "root/f/now/a/folder").read_bytes() == b"3"
    assert about(path).survey == survey.survey(str(tmp_path / "root"))


def test_an_oci_archive_keeps_its_digest_and_loses_what_else_it_holds(tmp_path: Path) -> None:
    made = image(BASE)
    source = made.write(tmp_path / "image.tar")
    assert to_oci(source, tmp_path / "again.tar") == made.digest
    assert about(tmp_path / "again.tar").survey == about(source).survey
    (tmp_path / "packed.tar.gz").write_bytes(gzip.compress(source.read_bytes()))
    assert identify(tmp_path / "packed.tar.gz") == "oci"
    assert to_oci(tmp_path / "packed.tar.gz", tmp_path / "unpacked.tar") == made.digest
    assert (tmp_path / "unpacked.tar").read_bytes() == (tmp_path / "again.tar").read_bytes()
    assert len(list(tmp_path.iterdir())) == 4


def test_an_archive_of_docker_becomes_one_of_oci(tmp_path: Path) -> None:
    path = docker_archive(tmp_path / "saved.tar", BASE, CHANGES)
    assert identify(path) == "docker"
    assert about(path).digest == ""
    digests = {to_oci(path, tmp_path / f"{number}.tar") for number in range(2)}
    described = about(tmp_path / "0.tar")
    assert digests == {described.digest}
    assert described.survey == about(path).survey
    assert (tmp_path / "0.tar").read_bytes() == (tmp_path / "1.tar").read_bytes()


@pytest.mark.parametrize("name", ["root.tar", "root.tar.gz", "root.tar.xz", "root.tar.zst"])
def test_a_root_file_system_is_known_by_its_own_digest(tmp_path: Path, name: str) -> None:
    packers = {"gz": gzip.compress, "xz": lzma.compress, "zst": zstd}
    content = packers.get(name.rpartition(".")[2], bytes)(BASE)
    (tmp_path / name).write_bytes(content)
    described = about(tmp_path / name)
    assert (described.kind, described.size) == ("rootfs", len(content))
    sums = subprocess.run(["sha256sum", tmp_path / name], capture_output=True, text=True)
    assert described.digest == f"sha256:{sums.stdout[:64]}"
    assert described.survey["tree"] == about(image(BASE).write(tmp_path / "i.tar")).survey["tree"]


def sif(architecture: bytes = b"02", size: int = 4096) -> bytes:
    """The head of a SIF file, as its specification says, and data behind it."""
    head = b"#!/usr/bin/env run-singularity\n".ljust(32, b"\0")
    head += b"SIF_MAGIC\0" + b"01\0" + architecture + b"\0" + bytes(16)
    head += b"".join(n.to_bytes(8, "little") for n in (0, 0, 46, 48, 4096, 26_000, 32_768, size))
    return head.ljust(32_768 + size, b"x")


def test_a_sif_file_is_known_by_its_own_digest(tmp_path: Path) -> None:
    (tmp_path / "image.sif").write_bytes(sif())
    described = about(tmp_path / "image.sif")
    assert (described.kind, described.architecture) == ("sif", "amd64")
    assert described.digest.startswith("sha256:")
    assert described.survey == {}


def index(made: Image, *platforms: str) -> bytes:
    entries = []
    for one in platforms:
        system, _, architecture = one.partition("/")
        platform = {"os": system, "architecture": architecture}
        entries.append({"digest": made.digest, "size": 1, "platform": platform})
    return json.dumps({"schemaVersion": 2, "manifests": entries}).encode()


def with_file(content: bytes, name: str, new: bytes) -> bytes:
    """An archive whose file of this name is another."""
    made = io.BytesIO()
    archive = layers.Archive(io.BytesIO(content))
    members = []
    for member, blob in archive.members.items():
        old = content[blob.offset : blob.offset + blob.size]
        members.append(Member(member, new if member == name else old))
    made.write(layer(*members))
    return made.getvalue()


GOOD = image(BASE)
LONG = tarfile.TarInfo("long")
LONG.type, LONG.size = tarfile.XHDTYPE, 9_999_999
DESCRIBED = LONG.tobuf() + bytes(10_000_384)
CIRCLE = layer(Member("a", link="b"), Member("b", link="a"), Member("a/x"))


def written(tmp_path: Path, made: Image = GOOD, **changes: bytes) -> bytes:
    return made.write(tmp_path / "x.tar", **changes).read_bytes()


def test_the_image_for_a_platform_is_chosen(tmp_path: Path) -> None:
    both = with_file(written(tmp_path), "index.json", index(GOOD, "linux/arm64", "linux/amd64"))
    path = tmp_path / "both.tar"
    path.write_bytes(both)
    assert about(path).digest == GOOD.digest
    with pytest.raises(Refused, match="no image for linux/s390x, only for linux/amd64, linux/arm6"):
        about(path, architecture="s390x")
    with pytest.raises(Refused, match="is for linux/amd64, not for linux/arm64"):
        about(path, architecture="arm64")


BAD = {
    "empty": (lambda tmp: b"", "it is empty"),
    "a web page": (lambda tmp: b"\n <!DOCTYPE html><html>", "it is a web page"),
    "an answer": (lambda tmp: b'{"errors": []}', "it is JSON"),
    "text": (lambda tmp: b"hello" * 200, "it is no image: neither a tar archive nor a SIF file"),
    "squashfs": (lambda tmp: b"hsqs" + bytes(600), "it is a squashfs file"),
    "zip": (lambda tmp: b"PK\x03\x04" + bytes(600), "it is a ZIP archive"),
    "another tar": (lambda tmp: layer(Member("thesis.tex")), "neither an image's manifest nor"),
    "packed text": (lambda tmp: gzip.compress(b"hello" * 999), "is compressed is no tar archive"),
    "cut": (lambda tmp: written(tmp)[:2000], "cut off"),
    "cut gzip": (lambda tmp: gzip.compress(BASE)[:80], "cut off|unpacked"),
    "cut sif": (lambda tmp: sif()[:33_000], "a SIF file that is cut off"),
    "arm sif": (lambda tmp: sif(b"04"), "it is for arm64, not for amd64"),
    "arm": (lambda tmp: written(tmp, image(BASE, architecture="arm64")), "for linux/arm64, not fo"),
    "an evil name": (lambda tmp: layer(Member("etc/../../x"), *os_release()), "unsafe name"),
    "an absolute name": (lambda tmp: layer(*os_release(), Member("/etc/x")), "unsafe name: '/etc/"),
    "evil in a layer": (
        lambda tmp: written(tmp, image(layer(Member("../x", b"x")))),
        "unsafe name: '../x'",
    ),
    "a name of megabytes": (
        lambda tmp: written(tmp, image(DESCRIBED)),
        "describes a name in 9999999 bytes",
    ),
    "the same outside": (lambda tmp: DESCRIBED, "describes a name in 9999999 bytes"),
    "links in circles": (
        lambda tmp: written(tmp, image(CIRCLE)),
        "links on the way to 'a/x' go round",
    ),
    "a link to nothing": (
        lambda tmp: written(tmp, image(layer(Member("a", same_as="none")))),
        "hard link to 'none', which is no file",
    ),
    "another layer": (
        lambda tmp: written(tmp, blob0=gzip.compress(BASE[:-1] + b"x", mtime=0)),
        "bytes instead of|digest of a blob is sha256:[0-9a-f]{64}, not sha256:[0-9a-f]{64}",
    ),
    "other JSON": (
        lambda tmp: with_file(written(tmp), "index.json", b'["nothing"]'),
        "index leads to no image",
    ),
    "no JSON": (lambda tmp: with_file(written(tmp), "index.json", b"\xff"), "no JSON"),
    "an empty index": (
        lambda tmp: with_file(written(tmp), "index.json", b'{"manifests": []}'),
        "only for nothing",
    ),
    "a missing manifest": (
        lambda tmp: with_file(
            written(tmp), "index.json", b'{"manifests": [{"digest": "sha256:%s"}]}' % (b"0" * 64)
        ),
        "lacks the blob sha256:000",
    ),
    "an evil digest": (
        lambda tmp: with_file(
            written(tmp), "index.json", b'{"manifests": [{"digest": "sha256:../../etc/passwd"}]}'
        ),
        "is no sha256 digest",
    ),
    "another manifest": (
        lambda tmp: with_file(
            written(tmp), f"blobs/sha256/{GOOD.digest[7:]}", GOOD.manifest + b" "
        ),
        f"The digest of blobs/sha256/{GOOD.digest[7:]} is sha256:.*, not {GOOD.digest}".lower(),
    ),
    "two of docker": (
        lambda tmp: docker_archive(tmp / "y.tar", BASE, count=2).read_bytes(),
        "holds 2 images: save one at a time",
    ),
}  # fmt: skip


@pytest.mark.parametrize("what", BAD)
def test_bad_files_are_refused_in_words(tmp_path: Path, what: str) -> None:
    make, words = BAD[what]
    path = tmp_path / "it's an image.tar"
    path.write_bytes(make(tmp_path))
    with pytest.raises(Refused, match=rf"(?s)^it's an image.tar is refused: .*({words})"):
        about(path)
    with contextlib.suppress(Refused):  # a layer is looked into by `about` alone
        to_oci(path, tmp_path / "target")
    assert not (tmp_path / "target.part").exists()


def test_a_bomb_is_refused_while_it_unpacks(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    bomb = layer(*os_release(), Member("zeros", bytes(10_000_000)))
    path = image(bomb).write(tmp_path / "bomb.tar")
    about(path)
    monkeypatch.setattr(layers, "RATIO_FROM", 1_000_000)
    with pytest.raises(Refused, match="unpacks to too much"):
        about(path)
    monkeypatch.undo()
    monkeypatch.setattr(layers, "UNPACKED_LIMIT", 1_000_000)
    with pytest.raises(Refused, match="unpacks to too much"):
        about(path)
    monkeypatch.undo()
    monkeypatch.setattr(layers, "MEMBER_LIMIT", 2)
    with pytest.raises(Refused, match="more than 2 names"):
        about(path)


def test_nothing_is_written_through_a_link(tmp_path: Path) -> None:
    """An image may hold a link to anywhere; what lies behind it is inside the image."""
    (tmp_path / "outside").mkdir()
    evil = layer(
        *os_release(), Member("out", link=str(tmp_path / "outside")), Member("out/file", b"evil")
    )
    path = image(evil).write(tmp_path / "image.tar")
    unpack.unpack(str(path), str(tmp_path / "root"))
    assert list((tmp_path / "outside").iterdir()) == []
    inside = tmp_path / "root" / str(tmp_path / "outside").lstrip("/")
    assert (inside / "file").read_bytes() == b"evil"


def test_a_missing_zstd_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = image(BASE, pack_by=zstd).write(tmp_path / "image.tar")
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(Refused, match="compressed by zstd, and there is no program zstd here"):
        about(path)
