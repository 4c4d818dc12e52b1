"""Archives that mean no good are refused before they cost anything, and nothing is unpacked."""

from __future__ import annotations

import gzip
import io
import os
import stat
import struct
import tarfile
import tracemalloc
import zipfile
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from experiments.imports import ImportProblem, Limits, list_files, read_logs
from tests import tf_cnn_logs as logs

SMALL = Limits(
    archive_bytes=2_000_000,
    members=20,
    unpacked_bytes=20_000_000,
    file_bytes=12_000_000,
    file_lines=1000,
    lines=1500,
    line_bytes=1_000_000,
    ratio=50,
)


def drain(archive: io.BytesIO | Path, limits: Limits) -> None:
    """Read every line of every file, and keep none."""
    for file in list_files(archive, limits=limits):
        deque(file.lines(), maxlen=0)


def problem(archive: io.BytesIO | Path, limits: Limits = SMALL) -> str:
    with pytest.raises(ImportProblem) as caught:
        drain(archive, limits)
    return str(caught.value)


def content(archive: io.BytesIO | Path) -> dict[str, list[bytes]]:
    return {file.path: [line.content for line in file.lines()] for file in list_files(archive)}


TREE = {"a/x.log": "one\ntwo\n", "a/b/y.log": "three", "z": ""}


@pytest.mark.parametrize("mode", ["w", "w:gz"])
def test_every_form_gives_the_same_lines(mode: str, tmp_path: Path) -> None:
    expected = {"a/x.log": [b"one", b"two"], "a/b/y.log": [b"three"], "z": []}
    assert content(logs.as_zip(TREE)) == expected
    assert content(logs.as_tar(TREE, mode=mode)) == expected
    assert content(logs.as_tar({f"./{path}": text for path, text in TREE.items()})) == expected
    assert content(logs.as_folder(TREE, tmp_path)) == expected


def test_a_line_knows_whether_it_was_ended() -> None:
    found = [list(file.lines()) for file in list_files(logs.as_zip({"x": "one\ntwo"}))]
    assert [(line.number, line.ended) for line in found[0]] == [(1, True), (2, False)]


OUTSIDE = (
    "/etc/passwd",
    "../../etc/passwd",
    "a/../../b",
    "C:/x",
    "a\\..\\b",
    "..",
    "a/./b",
    "a//b",
)
UNREADABLE = ("a\nb", "a\x1b[31m", "x" * 501, "/".join("a" * 21))


@pytest.mark.parametrize("name", [*OUTSIDE, *UNREADABLE])
@pytest.mark.parametrize("make", [logs.as_zip, logs.as_tar])
def test_no_path_leaves_the_archive(name: str, make: Callable[..., io.BytesIO]) -> None:
    told = problem(make({"fine.log": "x", name: "x"}))
    assert (
        "leads out of" in told
        or "cannot be shown" in told
        or "not a name" in told
        or ("this long or deep" in told)
    )


def special(name: str, kind: bytes, target: str = "/etc/passwd") -> tarfile.TarInfo:
    member = tarfile.TarInfo(name)
    member.type = kind
    member.linkname = target
    return member


@pytest.mark.parametrize("kind", [tarfile.SYMTYPE, tarfile.LNKTYPE])
def test_no_link_is_followed_in_a_tar(kind: bytes) -> None:
    told = problem(logs.as_tar({"a": "x"}, more=[special("metric.log", kind)]))
    assert told == "'metric.log' is a link. Only plain files and folders are read."


@pytest.mark.parametrize("kind", [tarfile.CHRTYPE, tarfile.BLKTYPE, tarfile.FIFOTYPE])
def test_no_device_is_read_from_a_tar(kind: bytes) -> None:
    assert "neither a plain file nor a folder" in problem(
        logs.as_tar({"a": "x"}, more=[special("metric.log", kind)])
    )


def test_no_link_is_followed_in_a_zip() -> None:
    held = io.BytesIO()
    with zipfile.ZipFile(held, "w") as archive:
        link = zipfile.ZipInfo("metric.log")
        link.external_attr = (stat.S_IFLNK | 0o777) << 16
        archive.writestr(link, "/etc/passwd")
    assert problem(held) == "'metric.log' is a link. Only plain files and folders are read."


def test_no_link_and_no_pipe_is_followed_in_a_folder(tmp_path: Path) -> None:
    (tmp_path / "one").mkdir()
    (tmp_path / "one" / "metric.log").symlink_to("/etc/passwd")
    assert "'one/metric.log' is a link" in problem(tmp_path)
    (tmp_path / "one" / "metric.log").unlink()
    (tmp_path / "one" / "away").symlink_to("/etc", target_is_directory=True)
    assert "'one/away' is a link" in problem(tmp_path)
    (tmp_path / "one" / "away").unlink()
    os.mkfifo(tmp_path / "one" / "pipe")  # opening it would wait for ever
    assert "neither a plain file" in problem(tmp_path)


def test_a_sparse_file_is_refused() -> None:
    told = problem(logs.as_tar({}, more=[special("metric.log", tarfile.GNUTYPE_SPARSE)]))
    assert "neither a plain file nor a folder" in told


def test_a_bomb_is_refused_by_its_ratio() -> None:
    tree = {"metric.log": "0" * 900_000 + "\n" + "0" * 900_000}
    bomb = {f"{index}/metric.log": tree["metric.log"] for index in range(9)}
    told = "It unpacks to more than 50 times its size: no log does that."
    assert problem(logs.as_zip(bomb)) == told
    assert problem(logs.as_tar(bomb)) == told


def test_a_bomb_that_declares_little_is_counted_as_it_comes() -> None:
    archive = logs.as_zip({"metric.log": "0\n" * 500_000})
    held = bytearray(archive.getvalue())
    for signature, offset in ((b"PK\x03\x04", 22), (b"PK\x01\x02", 24)):
        place = held.index(signature) + offset
        held[place : place + 4] = struct.pack("<I", 10)
    assert problem(io.BytesIO(held))


@pytest.mark.parametrize("make", [logs.as_zip, logs.as_tar])
@pytest.mark.parametrize(
    ("tree", "words"),
    [
        ({str(index): "x" for index in range(21)}, "More than 20 files and folders."),
        ({"metric.log": "x\n" * 1001}, "metric.log holds more than 1,000 lines"),
        ({"a": "x\n" * 800, "b": "x\n" * 800}, "More than 1,500 lines in all files together."),
        ({"metric.log": "x" * 1_200_000}, "metric.log, line 1: longer than 1 MB"),
        ({"metric.log": os.urandom(2_500_000).hex()[:4_900_000]}, "larger than 2 MB"),
    ],
    ids=["members", "lines of a file", "lines", "line", "archive"],
)
def test_limits(make: Callable[..., io.BytesIO], tree: logs.Tree, words: str) -> None:
    assert words in problem(make(tree))


def test_limits_of_bytes() -> None:
    lines = "\n".join(["x" * 20_000] * 700)
    wide = Limits(**{**SMALL.__dict__, "ratio": 10_000})
    assert "metric.log holds more than 12 MB" in problem(logs.as_zip({"metric.log": lines}), wide)
    half = "\n".join(["x" * 20_000] * 550)
    tree = {"a": half, "b": half}
    assert problem(logs.as_zip(tree), wide) == "More than 20 MB when unpacked."
    assert problem(logs.as_tar(tree), wide) == "More than 20 MB when unpacked."
    skipped = logs.as_tar(tree)
    with pytest.raises(ImportProblem, match="More than 20 MB when unpacked"):
        list(
            list_files(skipped, limits=wide)
        )  # nobody reads the files, and they count all the same


def test_ten_million_lines_are_refused_with_flat_memory() -> None:
    archive = io.BytesIO()
    with gzip.GzipFile(fileobj=archive, mode="wb", compresslevel=1) as packed:
        member = tarfile.TarInfo("a/metric.log")
        line = b'{"name": "other", "value": 1, "at": %d}\n'
        block = b"".join(line % number for number in range(10_000, 20_000))
        member.size = len(block) * 1000
        packed.write(member.tobuf())
        for _ in range(60):  # the rest of the ten million is never asked for
            packed.write(block)
    tracemalloc.start()
    try:
        told = problem(archive, Limits())
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert "a/metric.log holds more than 200,000 lines" in told
    assert peak < 5_000_000


def test_a_tar_s_own_headers_are_bounded() -> None:
    header = tarfile.TarInfo("x")
    header.type = tarfile.XHDTYPE
    header.size = 50_000_000
    assert "A header of the tar is larger" in problem(io.BytesIO(header.tobuf() + bytes(2048)))


def test_a_chain_of_headers_is_no_way_to_the_stack_s_end() -> None:
    header = tarfile.TarInfo("x")
    header.type = tarfile.XHDTYPE
    record = b"12 path=abc\n"
    header.size = len(record)
    block = header.tobuf() + record.ljust(512, b"\0")
    assert "damaged" in problem(io.BytesIO(block * 1500 + bytes(1024)))


def test_a_zip_s_list_of_members_is_bounded() -> None:
    end = struct.pack("<4s4H2LH", b"PK\x05\x06", 0, 0, 65535, 65535, 9_000_000, 0, 0)
    limits = Limits(archive_bytes=20_000_000)
    assert "list of members is too long" in problem(
        io.BytesIO(b"PK" + bytes(9_000_000) + end), limits
    )


def test_names_that_occur_twice_are_refused() -> None:
    held = io.BytesIO()
    with zipfile.ZipFile(held, "w") as archive:
        archive.writestr("metric.log", "1")
        with pytest.warns(UserWarning, match="Duplicate"):
            archive.writestr("metric.log", "2")
    assert problem(held) == "metric.log is there twice."
    twice = special("a", tarfile.REGTYPE)
    assert problem(logs.as_tar({"a": "x"}, more=[twice])) == "a is there twice."


def test_an_encrypted_zip_is_refused() -> None:
    held = bytearray(logs.as_zip({"metric.log": "x"}).getvalue())
    held[held.index(b"PK\x01\x02") + 8] |= 1
    assert problem(io.BytesIO(held)) == "metric.log is encrypted."


def test_only_deflate_is_read() -> None:
    held = io.BytesIO()
    with zipfile.ZipFile(held, "w", zipfile.ZIP_LZMA) as archive:
        archive.writestr("metric.log", "x")
    assert "only plain deflate is read" in problem(held)


@pytest.mark.parametrize("make", [logs.as_zip, logs.as_tar])
@pytest.mark.parametrize("share", [0.3, 0.6, 0.95])
def test_what_is_cut_off_is_refused(make: Callable[..., io.BytesIO], share: float) -> None:
    whole = make(logs.runs()).getvalue()
    assert "cut off" in problem(io.BytesIO(whole[: int(share * len(whole))]), Limits())


def test_a_tar_that_is_cut_off_between_members_is_refused() -> None:
    whole = logs.as_tar({"a": "x", "b": "y"}, mode="w").getvalue()
    assert problem(io.BytesIO(whole[:1024])) == "The tar is cut off: its end is missing."


@pytest.mark.parametrize("given", [b"", b"PK", b"\x1f\x8b", b"hello", b"7z\xbc\xaf\x27\x1c" * 200])
def test_what_is_no_archive_is_refused(given: bytes) -> None:
    told = problem(io.BytesIO(given))
    assert "neither a zip, a tar nor a tar.gz" in told or "damaged" in told


@given(place=st.integers(0, 3000), value=st.integers(0, 255), packed=st.booleans())
def test_one_wrong_byte_is_read_or_refused_in_words(place: int, value: int, packed: bool) -> None:
    make = logs.as_tar if packed else logs.as_zip
    held = bytearray(make(logs.runs(repeats=1)).getvalue())
    held[place % len(held)] = value
    with suppress(ImportProblem):
        read_logs(list_files(io.BytesIO(held)))
