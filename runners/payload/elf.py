"""What the header of an ELF file says of it. Files are read, never executed."""

from __future__ import annotations

import struct
from typing import Any, Dict, List, NamedTuple, Optional, Tuple

PT_LOAD, PT_DYNAMIC, PT_INTERP, PT_NOTE = 1, 2, 3, 4
DT_NEEDED, DT_STRTAB, DT_SONAME = 1, 5, 14
BUILD_ID = 3
"""The kind of note of the name "GNU" in which linkers put a hash of what they have linked."""
MOST_SEGMENTS = 1000
LONGEST = 4096
"""Bytes of a path or of notes that are read."""
MOST_ENTRIES = 4096
"""Of a dynamic section."""


class Form(NamedTuple):
    """The struct formats of ELF in 64 or 32 bits, and where a program header has its fields."""

    header: str
    segment: str
    entry: str
    offset: int
    address: int
    size: int


FORMS = {
    2: Form("HHIQQQIHHHHHH", "IIQQQQQQ", "QQ", 2, 3, 5),
    1: Form("HHIIIIIHHHHHH", "IIIIIIII", "II", 1, 2, 4),
}


class Elf(NamedTuple):
    """What a program or a library says of itself; "" where it says nothing."""

    interpreter: str = ""
    """The loader that a program names. Libraries and static programs name none."""
    soname: str = ""
    build_id: str = ""
    needed: Tuple[str, ...] = ()


def read_elf(file: Any) -> Optional[Elf]:
    """Return what an open file says of itself; None if it is no ELF file, or a damaged one."""
    try:
        return _read(file)
    except (OSError, ValueError, IndexError, struct.error, OverflowError):
        return None


def _read(file: Any) -> Optional[Elf]:
    file.seek(0)
    identity = file.read(16)
    form = FORMS.get(identity[4]) if identity[:4] == b"\x7fELF" else None
    if form is None:
        return None
    order = "<" if identity[5] == 1 else ">"
    fields = _unpack(order + form.header, file)
    start, size, count = fields[4], fields[8], fields[9]
    segments = []
    for number in range(min(count, MOST_SEGMENTS)):
        file.seek(start + number * size)
        segment = _unpack(order + form.segment, file)
        place = (segment[form.offset], segment[form.address], segment[form.size])
        segments.append((segment[0], place))
    interpreter = build_id = soname = ""
    needed: Tuple[str, ...] = ()
    for kind, (offset, _, length) in segments:
        file.seek(offset)
        if kind == PT_INTERP:
            interpreter = file.read(min(length, LONGEST)).rstrip(b"\0").decode()
        elif kind == PT_NOTE and not build_id:
            build_id = _find_build_id(file.read(min(length, LONGEST)), order)
        elif kind == PT_DYNAMIC:
            entry_size = struct.calcsize(order + form.entry)
            content = file.read(min(length // entry_size, MOST_ENTRIES) * entry_size)
            entries = list(struct.iter_unpack(order + form.entry, content))
            loaded = [place for other, place in segments if other == PT_LOAD]
            soname, needed = _read_names(file, entries, loaded)
    return Elf(interpreter, soname, build_id, needed)


def _unpack(form: str, file: Any) -> Tuple[Any, ...]:
    return struct.unpack(form, file.read(struct.calcsize(form)))


def _find_build_id(notes: bytes, order: str) -> str:
    """Return the linker's hash among a segment's notes, in hex; "" if it is not there."""
    position = 0
    while position + 12 <= len(notes):
        name_size, size, kind = struct.unpack_from(order + "III", notes, position)
        name_end = position + 12 + name_size
        begin = position + 12 + -(-name_size // 4) * 4
        if kind == BUILD_ID and notes[position + 12 : name_end] == b"GNU\0" and size <= 64:
            return notes[begin : begin + size].hex()
        position = begin + -(-size // 4) * 4
    return ""


def _read_names(
    file: Any, entries: List[Tuple[int, int]], loaded: List[Tuple[int, int, int]]
) -> Tuple[str, Tuple[str, ...]]:
    """Return the soname and the names of needed libraries, of a file's dynamic section."""
    values: Dict[int, int] = {}
    needed = []
    for tag, value in entries:
        if tag == DT_NEEDED:
            needed.append(value)
        values.setdefault(tag, value)
    strings = _find_offset(values.get(DT_STRTAB, 0), loaded)
    if not strings:
        return "", ()

    def read_name(index: int) -> str:
        file.seek(strings + index)
        return str(file.read(LONGEST).partition(b"\0")[0].decode("utf-8", "replace"))[:255]

    soname = read_name(values[DT_SONAME]) if DT_SONAME in values else ""
    return soname, tuple(read_name(index) for index in needed[:1000])


def _find_offset(address: int, loaded: List[Tuple[int, int, int]]) -> int:
    """Return where in the file the byte of an address in memory lies; 0 if it is nowhere."""
    for offset, start, size in loaded:
        if start <= address < start + size:
            return address - start + offset
    return 0
