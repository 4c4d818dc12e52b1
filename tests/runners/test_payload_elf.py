"""What ELF files say of themselves: real ones, and whatever else lies in their place."""

from __future__ import annotations

import io
import os
import struct
import sys
from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from runners.payload.elf import Elf, read_elf
from runners.payload.loaded import read_paths

PYTHON = Path(os.path.realpath(sys.executable))
LIBC = next(path for path in read_paths() if os.path.basename(path).startswith("libc."))


def read(path: str | Path) -> Elf | None:
    with open(path, "rb") as file:
        return read_elf(file)


def test_a_program_names_its_loader_and_what_it_needs() -> None:
    elf = read(PYTHON)
    assert elf
    assert Path(elf.interpreter).exists()
    assert elf.soname == ""
    assert any(name.startswith("libc.") for name in elf.needed)


def test_a_library_names_itself() -> None:
    elf = read(LIBC)
    assert elf
    assert elf.soname.startswith("libc.")
    assert len(bytes.fromhex(elf.build_id)) >= 8


def test_the_build_id_is_what_the_kernel_s_own_note_has() -> None:
    """The note of GNU lies in the file as bytes: type, name and the same hash."""
    elf = read(LIBC)
    assert elf
    digest = bytes.fromhex(elf.build_id)
    note = struct.pack("=III", 4, len(digest), 3) + b"GNU\0" + digest
    assert note in Path(LIBC).read_bytes()


def test_a_small_file_of_32_bits_and_the_other_byte_order_is_read() -> None:
    strings = b"\0libodd.so.7\0libneeded.so\0"
    entries = b"".join(
        struct.pack(">II", tag, value)
        for tag, value in ((14, 1), (1, 13), (5, 0x1000 + 200), (0, 0))
    )
    segments = [
        struct.pack(">IIIIIIII", 1, 0, 0x1000, 0, 400, 400, 5, 4),
        struct.pack(">IIIIIIII", 2, 150, 0x1000 + 150, 0, len(entries), len(entries), 6, 4),
    ]
    header = struct.pack(">HHIIIIIHHHHHH", 3, 20, 1, 0, 52, 0, 0, 52, 32, 2, 0, 0, 0)
    content = (b"\x7fELF\x01\x02\x01" + bytes(9) + header + b"".join(segments)).ljust(150, b"\0")
    content = (content + entries).ljust(200, b"\0") + strings.ljust(200, b"\0")
    elf = read_elf(io.BytesIO(content))
    assert elf == Elf("", "libodd.so.7", "", ("libneeded.so",))


def test_a_library_that_was_cut_off_anywhere_is_no_error() -> None:
    content = Path(LIBC).read_bytes()
    for size in (*range(0, 1200, 7), len(content) // 2, len(content) - 1):
        read_elf(io.BytesIO(content[:size]))


@given(st.binary(max_size=400), st.sampled_from([b"", b"\x7fELF\x02\x01", b"\x7fELF\x01\x02"]))
def test_no_content_is_an_error(content: bytes, head: bytes) -> None:
    elf = read_elf(io.BytesIO(head + content))
    assert elf is None or isinstance(elf, Elf)
