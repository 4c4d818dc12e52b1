"""Archives that say absurd things of themselves: what is refused, and what still enters."""

from __future__ import annotations

import gzip
import io
import lzma
import tarfile
import tracemalloc
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO, cast

import pytest

from runners.by_hand.result_archives import MOST_FOLDERS, Unpacked, unpack_results
from runners.errors import Refused

END = bytes(2 * tarfile.BLOCKSIZE)


def header(name: str, size: int, kind: bytes = tarfile.REGTYPE) -> bytes:
    """Return the header of a member that says that it has so many bytes."""
    member = tarfile.TarInfo(name)
    member.size, member.type = size, kind
    return member.tobuf(tarfile.GNU_FORMAT)


def fill(content: bytes) -> bytes:
    return content + bytes(-len(content) % tarfile.BLOCKSIZE)


def file(name: str, content: bytes = b"x") -> bytes:
    return header(name, len(content)) + fill(content)


def extended(records: dict[str, str], kind: bytes = tarfile.XHDTYPE) -> bytes:
    """Return an extended header with these records, each with its length in front."""
    body = b""
    for name, value in records.items():
        record = f" {name}={value}\n".encode()
        length = len(record)
        while length != len(record) + len(str(length)):
            length = len(record) + len(str(length))
        body += str(length).encode() + record
    return header("odd", len(body), kind) + fill(body)


def unpack(packed: bytes, folder: Path) -> Unpacked:
    return unpack_results(io.BytesIO(packed), folder)


class Pieces:
    """A file whose bytes are made as they are read, compressed."""

    def __init__(self, pieces: Iterator[bytes]) -> None:
        self._packed = self._compress(pieces)
        self._rest = b""

    @staticmethod
    def _compress(pieces: Iterator[bytes]) -> Iterator[bytes]:
        compressor = zlib.compressobj(1, wbits=16 + zlib.MAX_WBITS)
        for piece in pieces:
            yield compressor.compress(piece)
        yield compressor.flush()

    def read(self, count: int) -> bytes:
        while len(self._rest) < count and (piece := next(self._packed, None)) is not None:
            self._rest += piece
        content, self._rest = self._rest[:count], self._rest[count:]
        return content


@pytest.mark.parametrize("size", [2**62, 2**80])
def test_a_file_that_says_it_is_larger_than_any_disk_ends_where_the_archive_does(
    tmp_path: Path, size: int
) -> None:
    packed = file("jobs/b-1/fine") + header("jobs/a-1/x", size) + END
    unpacked = unpack(packed, tmp_path)
    assert "MiB" in unpacked.jobs["a-1"].problem
    assert unpacked.jobs["b-1"].problem == ""
    assert "ends in the middle of a file" in unpacked.damage


@pytest.mark.parametrize("size", [-1, -512, -(2**40)])
def test_a_size_below_nothing_leads_nowhere(tmp_path: Path, size: int) -> None:
    packed = file("jobs/b-1/fine") + header("jobs/a-1/x", size) + file("jobs/c-1/x") + END
    unpacked = unpack(packed, tmp_path)
    assert unpacked.jobs["a-1"].problem == "x has a size below 0"
    assert (tmp_path / "jobs/b-1/fine").read_bytes() == b"x"
    assert ("c-1" in unpacked.jobs) != bool(unpacked.damage)


def test_an_extended_header_with_a_size_below_nothing_ends_the_archive(tmp_path: Path) -> None:
    odd = header("x", -512, tarfile.XHDTYPE)
    unpacked = unpack(file("jobs/b-1/fine") + odd + file("jobs/c-1/x") + END, tmp_path)
    assert unpacked.damage
    assert (tmp_path / "jobs/b-1/fine").read_bytes() == b"x"


@pytest.mark.parametrize(
    "link",
    [
        extended({"comment": "1"}),
        extended({"comment": "1"}, tarfile.XGLTYPE),
        header("odd", 8, tarfile.GNUTYPE_LONGNAME) + fill(b"jobs/a\0"),
        header("odd", 0, tarfile.XHDTYPE),
    ],
)
def test_a_chain_of_headers_is_refused(tmp_path: Path, link: bytes) -> None:
    with pytest.raises(Refused, match="larger than any name"):
        unpack(link * 2000 + file("jobs/a-1/x") + END, tmp_path)


def test_a_number_of_thousands_of_digits_is_refused_before_it_is_read(tmp_path: Path) -> None:
    body = b"1" * 40_000
    odd = header("odd", len(body), tarfile.XHDTYPE) + fill(body)
    with pytest.raises(Refused, match="a number longer than any"):
        unpack(odd + file("jobs/a-1/x") + END, tmp_path)


def _list_sparse_parts() -> Iterator[bytes]:
    """Yield a file with holes that says it has a thousand million parts."""
    records = {"GNU.sparse.major": "1", "GNU.sparse.minor": "0", "GNU.sparse.realsize": "1"}
    yield extended(records) + header("jobs/a-1/x", 2**33) + b"1000000000\n"
    for _ in range(100):
        yield b"0\n" * 500_000


def _list_old_sparse_parts() -> Iterator[bytes]:
    """Yield the same in the older form, a table whose every part says that another follows."""
    first = bytearray(header("jobs/a-1/x", 0, tarfile.GNUTYPE_SPARSE))
    first[482] = 1
    first[148:156] = b"%06o\0 " % (sum(first[:148]) + sum(first[156:]) + 8 * 32)
    yield bytes(first)
    for _ in range(100):
        yield (b"00000000001\0" * 42 + b"\1" + bytes(7)) * 2000


@pytest.mark.parametrize("pieces", [_list_sparse_parts, _list_old_sparse_parts])
def test_a_table_of_holes_takes_no_memory(tmp_path: Path, pieces: object) -> None:
    tracemalloc.start()
    try:
        with pytest.raises(Refused, match="larger than any name"):
            unpack_results(cast(BinaryIO, Pieces(pieces())), tmp_path)  # type: ignore[operator]
        assert tracemalloc.get_traced_memory()[1] < 20_000_000
    finally:
        tracemalloc.stop()


def test_headers_for_all_files_do_not_pile_up(tmp_path: Path) -> None:
    def list_headers() -> Iterator[bytes]:
        for number in range(100):
            records = {f"{number} {key}": "v" * 100 for key in range(500)}
            yield extended(records, tarfile.XGLTYPE) + file(f"jobs/a-1/{number}")
        yield END

    with pytest.raises(Refused, match="for all files"):
        unpack_results(cast(BinaryIO, Pieces(list_headers())), tmp_path)


def test_members_do_not_pile_up_in_memory(tmp_path: Path) -> None:
    def list_members() -> Iterator[bytes]:
        for number in range(5_000):
            yield header(f"jobs/a-1/{number % 2}", 0)
        yield END

    tracemalloc.start()
    try:
        unpacked = unpack_results(cast(BinaryIO, Pieces(list_members())), tmp_path)
        assert tracemalloc.get_traced_memory()[1] < 3_000_000
    finally:
        tracemalloc.stop()
    assert unpacked.jobs["a-1"].count == 5_000


def test_names_of_too_many_jobs_are_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("runners.by_hand.result_archives.MOST_JOBS", 3)
    names = [file(f"jobs/{number}-1/x") for number in range(4)]
    assert len(unpack(b"".join(names[:3]) + END, tmp_path).jobs) == 3
    with pytest.raises(Refused, match="more than 3 jobs"):
        unpack(b"".join(names) + END, tmp_path)


def test_folders_within_folders_are_said_of_their_job_alone(tmp_path: Path) -> None:
    deep = "a/" * 1900
    packed = extended({"path": f"jobs/a-1/{deep}x"}) + file("x") + file("jobs/b-1/fine") + END
    jobs = unpack(packed, tmp_path).jobs
    assert f"in more than {MOST_FOLDERS} folders" in jobs["a-1"].problem
    assert jobs["b-1"].problem == ""


@pytest.mark.parametrize("above", ["", "./", "top/", "/srv/jobs/tare/"])
def test_a_folder_of_a_run_may_be_called_jobs(tmp_path: Path, above: str) -> None:
    job = f"{'0' * 31}a-1"
    unpacked = unpack(file(f"{above}jobs/{job}/runs/0-x/jobs/log/y") + END, tmp_path)
    assert list(unpacked.jobs) == [job]
    if not above.startswith("/"):
        assert (tmp_path / "jobs" / job / "runs/0-x/jobs/log/y").exists()


@pytest.mark.parametrize("compress", [gzip.compress, lzma.compress])
def test_what_follows_after_the_end_is_said_and_loses_nothing(
    tmp_path: Path, compress: type[bytes]
) -> None:
    first, second = file("jobs/a-1/x") + END, file("jobs/b-1/x") + END
    for number, packed in enumerate(
        (compress(first) + compress(second), compress(first) + b"garbage", compress(first + second))
    ):
        folder = tmp_path / str(number)
        folder.mkdir()
        unpacked = unpack(packed, folder)
        assert "follows after" in unpacked.damage
        assert list(unpacked.jobs) == ["a-1"]
        assert (folder / "jobs/a-1/x").read_bytes() == b"x"


@pytest.mark.parametrize("compress", [gzip.compress, lzma.compress])
def test_one_tar_in_several_compressed_parts_is_one(tmp_path: Path, compress: type[bytes]) -> None:
    plain = file("jobs/a-1/x", b"1" * 5000) + file("jobs/b-1/x") + END
    packed = b"".join(compress(plain[start : start + 700]) for start in range(0, len(plain), 700))
    unpacked = unpack(packed + bytes(512), tmp_path)
    assert (list(unpacked.jobs), unpacked.damage) == (["a-1", "b-1"], "")
    assert (tmp_path / "jobs/a-1/x").read_bytes() == b"1" * 5000
