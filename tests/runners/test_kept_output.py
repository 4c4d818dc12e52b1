"""What is kept of all that a run has printed: the whole, or both ends with what is missing said."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from runners.directories import END, HEAD, fetch_record
from runners.kept_output import keep_output
from runners.transports import Local

MIB = 2**20


def test_what_is_small_is_kept_byte_for_byte() -> None:
    content = b"caf\xe9 \0 \r\n\xff" * 1000
    kept = keep_output({"output.txt": content}, {"output.txt": len(content)}, 2 * MIB)
    assert kept.content == content
    assert (kept.total_bytes, kept.left_out_bytes) == (len(content), 0)


def test_a_million_lines_keep_the_first_and_the_last() -> None:
    content = b"".join(b"line %d\n" % number for number in range(1_000_000))
    kept = keep_output({"output.txt": content}, {"output.txt": len(content)}, 2 * MIB)
    assert kept.content.startswith(b"line 0\nline 1\n")
    assert kept.content.endswith(b"line 999999\n")
    assert kept.total_bytes == len(content)
    assert kept.left_out_bytes == len(content) - 2 * MIB
    assert b"--- %s bytes were left out" % f"{kept.left_out_bytes:,}".encode() in kept.content


def test_no_output_is_none() -> None:
    assert keep_output({}, {}, MIB) == keep_output({"output.txt": b""}, {"output.txt": 0}, MIB)


def test_a_limit_of_nothing_keeps_nothing_and_says_so() -> None:
    kept = keep_output({"output.txt": b"abc"}, {"output.txt": 3}, 0)
    assert (kept.total_bytes, kept.left_out_bytes) == (3, 3)
    assert b"abc" not in kept.content


def test_of_several_processes_each_has_its_share_under_its_name() -> None:
    files = {"output.txt": b"launcher\n", "rank-0/output.txt": b"twice\n"}
    files |= {f"rank-{n}/output.txt": b"%d" % n * 1000 for n in (1, 2, 10)}
    kept = keep_output(files, {name: len(content) for name, content in files.items()}, 400)
    text = kept.content.decode()
    assert text.startswith("launcher\n\n--- rank 1 ---\n")
    assert text.index("--- rank 2 ---") < text.index("--- rank 10 ---")
    assert "twice" not in text, "the run's own output has it already"
    assert kept.left_out_bytes == 1000 + 1000 + 2000 - 3 * 100


@given(st.binary(max_size=3000), st.integers(0, 2000), st.booleans())
def test_ends_and_what_is_left_out_add_up_to_all(content: bytes, limit: int, whole: bool) -> None:
    files = {"output.txt": content}
    if not whole:
        files = {"output.txt" + HEAD: content[:500], "output.txt" + END: content[-500:]}
        content = content[:500] + b"." * 100_000 + content[-500:]
    kept = keep_output(files, {"output.txt": len(content)}, limit)
    assert kept.total_bytes == len(content)
    if not kept.left_out_bytes:
        assert kept.content == content
        return
    marker = f"\n--- {kept.left_out_bytes:,} bytes were left out here by Tare ---\n".encode()
    assert len(kept.content) - len(marker) == len(content) - kept.left_out_bytes <= limit


@pytest.fixture
def gigabyte(tmp_path: Path) -> Path:
    """The output of a program that wrote 1 GB, most of it zeros, which take no room here."""
    folder = tmp_path / "runs" / "0-a"
    folder.mkdir(parents=True)
    with open(folder / "output.txt", "wb") as file:
        file.write(b"the first line\n")
        file.seek(10**9 - 14)
        file.write(b"\nthe last line")
    return tmp_path


def test_of_a_gigabyte_both_ends_come_home(gigabyte: Path) -> None:
    fetched = fetch_record(Local(), str(gigabyte))
    name = "runs/0-a/output.txt"
    assert fetched.keys() == {name + HEAD, name + END}
    run_files = {key.removeprefix("runs/0-a/"): content for key, content in fetched.items()}
    kept = keep_output(run_files, {"output.txt": fetched.sizes[name]}, 2 * MIB)
    assert kept.content.startswith(b"the first line\n")
    assert kept.content.endswith(b"\nthe last line")
    assert kept.total_bytes == 10**9
    assert kept.left_out_bytes == 10**9 - 2 * MIB
