"""Image archives that are no good: refused in words, whatever they hold."""

import contextlib
import gzip
import io
import json
import tarfile
import tempfile
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from runners.errors import Refused
from runners.images import convert_to_oci, describe_image
from runners.payload import layers, pack, unpack
from tests.runners.good_images import BASE, GOOD, sif, with_file, written, zstd
from tests.runners.made_images import (
    Image,
    Member,
    docker_archive,
    image,
    layer,
    os_release,
    sha256,
)

LONG = tarfile.TarInfo("long")
LONG.type, LONG.size = tarfile.XHDTYPE, 9_999_999
DESCRIBED = LONG.tobuf() + bytes(10_000_384)
CIRCLE = layer(Member("a", link="b"), Member("b", link="a"), Member("a/x"))
DAMAGED = layer(*os_release(), Member("a/" + "b" * 120, b"c"), Member("d", link="e"))


def with_config(config: bytes) -> Image:
    """An image whose manifest names another configuration."""
    about = {**json.loads(GOOD.manifest), "config": pack.make_descriptor("x", sha256(config), 0)}
    return Image(json.dumps(about).encode(), config, GOOD.blobs)


def leading_to(manifest: bytes) -> tuple[Member, Member]:
    """An index and the manifest that it names."""
    digest = sha256(manifest)
    index = json.dumps({"manifests": [{"digest": f"sha256:{digest}"}]}).encode()
    return Member("index.json", index), Member(f"blobs/sha256/{digest}", manifest)


def header(kind: bytes) -> bytes:
    """A header of nothing, of this type."""
    info = tarfile.TarInfo("x")
    info.type = kind
    return info.tobuf(tarfile.USTAR_FORMAT)


def sparse(size: int, places: str = "0,0") -> bytes:
    """A layer with a file that is nothing but a hole of `size` bytes."""
    made = io.BytesIO()
    with tarfile.open(fileobj=made, mode="w", format=tarfile.PAX_FORMAT) as tar:
        info = tarfile.TarInfo("etc/hole")
        info.pax_headers = {"GNU.sparse.map": places, "GNU.sparse.size": str(size)}
        info.pax_headers["GNU.sparse.name"] = "etc/hole"
        tar.addfile(info)
    return made.getvalue()


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
    "brackets": (
        lambda tmp: with_file(written(tmp), "index.json", b"[" * 200_000),
        "index.json in the archive is nested too deeply",
    ),
    "closed brackets": (
        lambda tmp: with_file(written(tmp), "index.json", b"[" * 500 + b"]" * 500),
        "index.json in the archive is nested too deeply",
    ),
    "a manifest of brackets": (
        lambda tmp: layer(*leading_to(b'{"layers":' * 100_000)),
        "nested too deeply",
    ),
    "a configuration of brackets": (
        lambda tmp: written(tmp, with_config(b"[" * 200_000)),
        "nested too deeply",
    ),
    "brackets of docker": (
        lambda tmp: layer(Member("manifest.json", b"[" * 200_000)),
        "manifest.json in the archive is nested too deeply",
    ),
    "labels in a list": (
        lambda tmp: written(tmp, image(BASE, Labels=["a"])),
        "manifest is not understood",
    ),
    "no number": (
        lambda tmp: written(tmp, image(BASE, Labels={"a": float("nan")})),
        "is no JSON",
    ),
    "a configuration without end": (
        lambda tmp: written(tmp, image(BASE, Labels={"a": json.loads("[" * 80 + "]" * 80)})),
        "nested too deeply",
    ),
    "a file with holes": (
        lambda tmp: written(tmp, image(sparse(1 << 60))),
        "unpacks to too much",
    ),
    "holes without places": (
        lambda tmp: written(tmp, image(sparse(10, places="x,y"))),
        "damaged header",
    ),
    "headers about headers": (
        lambda tmp: written(tmp, image(header(tarfile.XHDTYPE) * 5000 + BASE)),
        "damaged header",
    ),
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
    make, message = BAD[what]
    path = tmp_path / "it's an image.tar"
    path.write_bytes(make(tmp_path))
    with pytest.raises(Refused, match=rf"(?s)^it's an image.tar is refused: .*({message})"):
        describe_image(path)
    with contextlib.suppress(Refused):  # a layer is read by `describe_image` alone
        convert_to_oci(path, tmp_path / "target")
    assert not (tmp_path / "target.part").exists()


def test_a_bomb_is_refused_while_it_unpacks(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    bomb = layer(*os_release(), Member("zeros", bytes(10_000_000)))
    path = image(bomb).write(tmp_path / "bomb.tar")
    describe_image(path)
    monkeypatch.setattr(layers, "RATIO_FROM", 1_000_000)
    with pytest.raises(Refused, match="unpacks to too much"):
        describe_image(path)
    monkeypatch.undo()
    monkeypatch.setattr(layers, "UNPACKED_LIMIT", 1_000_000)
    with pytest.raises(Refused, match="unpacks to too much"):
        describe_image(path)
    monkeypatch.undo()
    monkeypatch.setattr(layers, "MEMBER_LIMIT", 2)
    with pytest.raises(Refused, match="more than 2 names"):
        describe_image(path)


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
        describe_image(path)


WORDS = {"manifests", "layers", "config", "digest", "size", "rootfs", "diff_ids", "Env", "Labels"}
WORDS |= {"platform", "annotations", "os", "architecture", "Config", "Layers"}
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.sampled_from(sorted(WORDS)) | st.text(max_size=3), inner, max_size=4)
    ),
    max_leaves=12,
)


@given(st.sampled_from(["index.json", "manifest.json"]), JSON)
def test_whatever_an_index_says_it_is_read_or_refused(name: str, document: object) -> None:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "image.tar"
        path.write_bytes(layer(Member(name, json.dumps(document).encode())))
        with pytest.raises(Refused):
            describe_image(path)
        with pytest.raises(Refused):
            convert_to_oci(path, path.with_name("made.tar"))


@given(JSON)
def test_whatever_a_manifest_says_it_is_refused(document: object) -> None:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "image.tar"
        path.write_bytes(layer(*leading_to(json.dumps(document).encode())))
        with pytest.raises(Refused):
            describe_image(path)


@given(st.dictionaries(st.sampled_from(sorted(WORDS)), JSON))
def test_whatever_a_configuration_says_it_is_read_or_refused(fields: dict[str, object]) -> None:
    config = json.dumps({**json.loads(GOOD.config), **fields}).encode()
    with tempfile.TemporaryDirectory() as folder, contextlib.suppress(Refused):
        describe_image(with_config(config).write(Path(folder) / "image.tar"))


@given(st.data())
def test_a_damaged_archive_is_read_or_refused(data: st.DataObject) -> None:
    content = bytearray(DAMAGED)
    for _ in range(data.draw(st.integers(1, 8))):
        content[data.draw(st.integers(0, len(content) - 1))] = data.draw(st.integers(0, 255))
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "image.tar"
        path.write_bytes(content)
        with contextlib.suppress(Refused):
            describe_image(path)
        with contextlib.suppress(Refused):
            convert_to_oci(path, path.with_name("made.tar"))
