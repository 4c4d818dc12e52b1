"""Files that people call images: what they are, and what is in them."""

import gzip
import lzma
import subprocess
from pathlib import Path

import pytest

from runners.errors import Refused
from runners.images import ImageDescription, convert_to_oci, describe_image, identify
from runners.payload import inventory, survey, unpack
from tests.runners.good_images import BASE, GOOD, index, sif, with_file, written, zstd
from tests.runners.made_images import (
    Member,
    docker_archive,
    image,
    layer,
    os_release,
)

CHANGES = layer(
    Member("usr/bin/.wh.gone"),
    Member("opt/old/.wh..wh..opq"),
    Member("opt/old/c", b"c"),
    Member("usr/bin/again", same_as="usr/bin/tool"),
    Member("bin/through", b"through the link"),
    Member("opt/kept/a", b"another"),
)


def names(described: ImageDescription) -> set[str]:
    return set(described.survey["parts"])


@pytest.mark.parametrize("pack_by", [bytes, gzip.compress, lzma.compress, zstd])
def test_layers_lie_one_over_the_other(tmp_path: Path, pack_by) -> None:
    """Whiteouts, opaque folders, hard links and links to folders across layers."""
    made = image(BASE, CHANGES, pack_by=pack_by, Env=["PATH=/usr/bin"], Labels={"a": "b"})
    path = made.write(tmp_path / "image.tar")
    read: list[int] = []
    described = describe_image(path, count=read.append)
    assert identify(path) == described.kind == "oci"
    assert described.digest == made.digest
    assert described.variables == ("PATH=/usr/bin",)
    assert described.labels == {"a": "b"}
    assert sum(read) == sum(map(len, made.blobs))
    assert described.survey["system"]["name"] == "Debian GNU/Linux 13 (trixie)"
    unpack.unpack(str(path), str(tmp_path / "root"))
    contents = {
        str(path.relative_to(tmp_path / "root")): path.read_text()
        for path in (tmp_path / "root").rglob("*")
        if path.is_file() and "etc" not in path.parts and path.parent.name[:3] != "bin"
    }
    assert contents["opt/old/c"] == "c"
    assert {name for name in contents if name.startswith("opt")} == {"opt/old/c", "opt/kept/a"}
    assert contents["opt/kept/a"] == "another"
    inside = tmp_path / "root/usr/bin"
    assert sorted(path.name for path in inside.iterdir()) == ["again", "through", "tool"]
    assert (inside / "again").read_text() == "one"
    assert described.survey == survey.survey_folder(str(tmp_path / "root"))


def test_what_a_layer_hides_it_hides_of_lower_layers_only(tmp_path: Path) -> None:
    first = layer(*os_release(), Member("d/a", b"1"), Member("f", b"file"))
    second = layer(
        Member("d/new", b"2"),
        Member(".wh.d"),  # after what it must not hide
        Member("f/now/a/folder", b"3"),
    )
    path = image(first, second).write(tmp_path / "image.tar")
    unpack.unpack(str(path), str(tmp_path / "root"))
    assert [entry.name for entry in (tmp_path / "root/d").iterdir()] == ["new"]
    assert (tmp_path / "root/f/now/a/folder").read_bytes() == b"3"
    assert describe_image(path).survey == survey.survey_folder(str(tmp_path / "root"))


def test_an_oci_archive_keeps_its_digest_and_loses_what_else_it_holds(tmp_path: Path) -> None:
    made = image(BASE)
    source = made.write(tmp_path / "image.tar")
    assert convert_to_oci(source, tmp_path / "again.tar") == made.digest
    assert describe_image(tmp_path / "again.tar").survey == describe_image(source).survey
    (tmp_path / "packed.tar.gz").write_bytes(gzip.compress(source.read_bytes()))
    assert identify(tmp_path / "packed.tar.gz") == "oci"
    assert convert_to_oci(tmp_path / "packed.tar.gz", tmp_path / "unpacked.tar") == made.digest
    assert (tmp_path / "unpacked.tar").read_bytes() == (tmp_path / "again.tar").read_bytes()
    assert len(list(tmp_path.iterdir())) == 4


def test_an_archive_of_docker_becomes_one_of_oci(tmp_path: Path) -> None:
    path = docker_archive(tmp_path / "saved.tar", BASE, CHANGES)
    assert identify(path) == "docker"
    assert describe_image(path).digest == ""
    digests = {convert_to_oci(path, tmp_path / f"{number}.tar") for number in range(2)}
    described = describe_image(tmp_path / "0.tar")
    assert digests == {described.digest}
    assert described.survey == describe_image(path).survey
    assert (tmp_path / "0.tar").read_bytes() == (tmp_path / "1.tar").read_bytes()


@pytest.mark.parametrize("name", ["root.tar", "root.tar.gz", "root.tar.xz", "root.tar.zst"])
def test_a_root_file_system_is_known_by_its_own_digest(tmp_path: Path, name: str) -> None:
    packers = {"gz": gzip.compress, "xz": lzma.compress, "zst": zstd}
    content = packers.get(name.rpartition(".")[2], bytes)(BASE)
    (tmp_path / name).write_bytes(content)
    described = describe_image(tmp_path / name)
    assert (described.kind, described.size) == ("rootfs", len(content))
    sums = subprocess.run(["sha256sum", tmp_path / name], capture_output=True, text=True)
    assert described.digest == f"sha256:{sums.stdout[:64]}"
    assert (
        described.survey["tree"]
        == describe_image(image(BASE).write(tmp_path / "i.tar")).survey["tree"]
    )


def test_a_sif_file_is_known_by_its_own_digest(tmp_path: Path) -> None:
    (tmp_path / "image.sif").write_bytes(sif())
    described = describe_image(tmp_path / "image.sif")
    assert (described.kind, described.architecture) == ("sif", "amd64")
    assert described.digest.startswith("sha256:")
    assert described.survey == {}


def test_the_image_for_a_platform_is_chosen(tmp_path: Path) -> None:
    both = with_file(written(tmp_path), "index.json", index(GOOD, "linux/arm64", "linux/amd64"))
    path = tmp_path / "both.tar"
    path.write_bytes(both)
    assert describe_image(path).digest == GOOD.digest
    with pytest.raises(Refused, match="no image for linux/s390x, only for linux/amd64, linux/arm6"):
        describe_image(path, architecture="s390x")
    with pytest.raises(Refused, match="is for linux/amd64, not for linux/arm64"):
        describe_image(path, architecture="arm64")


def test_files_of_an_image_are_read_in_a_time_that_grows_with_their_size() -> None:
    """A text that would keep a backtracking pattern busy for hours is read like any other."""
    texts = {
        "etc/os-release": "ID=" + " " * 500_000 + "x\nNAME=" + "\n" * 500_000,
        "usr/lib/python3/site-packages/numpy/__config__.py": '"blas": {"name": "x" ' * 40_000,
        "usr/local/cuda/version.json": "[" * 200_000,
    }
    facts = inventory.gather_facts(
        set(texts), {path: text.encode() for path, text in texts.items()}
    )
    assert facts["system"]["id"] == "x"
    assert (facts["blas"], facts["cuda"]) == ({}, "")
