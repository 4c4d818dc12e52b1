"""The records of TFRecord files, counted and checked to be whole without TensorFlow.

A record is its length (8 bytes, little end first), the masked CRC-32C of those, the data, and the
masked CRC-32C of the data (https://www.tensorflow.org/tutorials/load_data/tfrecord). The data are
left to TensorFlow, which checks them when it reads them.
"""

from __future__ import annotations

import os
import struct
from typing import Iterator, List

from ..frameworks import DataUnusable

HEADER, FOOTER = 12, 4
CASTAGNOLI = 0x82F63B78  # the polynomial, bits reversed
MASK = 0xA282EAD8


def compute_crc32c(content: bytes) -> int:
    """Return the CRC-32C of the content (RFC 3720, appendix B.4)."""
    crc = 0xFFFFFFFF
    for byte in content:
        crc = crc >> 8 ^ TABLE[(crc ^ byte) & 0xFF]
    return crc ^ 0xFFFFFFFF


def compute_masked_crc(content: bytes) -> int:
    """Return the CRC-32C in the masked form that TFRecord stores."""
    crc = compute_crc32c(content)
    return ((crc >> 15 | crc << 17) + MASK) & 0xFFFFFFFF


def read_record_lengths(path: str) -> Iterator[int]:
    """Yield the length of each record in bytes, without reading it.

    Raises DataUnusable if the file is no TFRecord or ends too early.
    """
    size, at = os.path.getsize(path), 0
    with open(path, "rb", buffering=0) as file:
        while at < size:
            header = os.pread(file.fileno(), HEADER, at)
            if len(header) == HEADER:
                length, crc = struct.unpack("<QI", header)
                if crc != compute_masked_crc(header[:8]):
                    where = "is no TFRecord file" if not at else f"is damaged at byte {at}"
                    raise DataUnusable(
                        f"{path} {where}: the checksum of a record's length is wrong"
                    )
                end = at + HEADER + length + FOOTER
            else:
                end = at + HEADER
            if end > size:
                raise DataUnusable(
                    f"{path} is cut off: it has {size} bytes, and the record at byte {at} goes on "
                    f"to byte {end}. Copy or make it again."
                )
            yield length
            at = end


def _make_table() -> List[int]:
    table = []
    for number in range(256):
        for _ in range(8):
            number = number >> 1 ^ (CASTAGNOLI if number & 1 else 0)
        table.append(number)
    return table


TABLE = _make_table()
