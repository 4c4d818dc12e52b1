"""Sheets: the bytes of a file become text; errors say what the file is instead."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from experiments.statistics.published.printed import TableError

MOST_BYTES = 20_000_000
MOST_ROWS = 100_000
MOST_COLUMNS = 100
KINDS = {
    b"PK\x03\x04": "an Excel workbook (.xlsx) or another zip archive: save the sheet as CSV",
    b"\xd0\xcf\x11\xe0": "an old Excel workbook (.xls): save the sheet as CSV",
    b"\x1f\x8b": "compressed (.gz): unpack it first",
    b"BZh": "compressed (.bz2): unpack it first",
    b"\xfd7zXZ": "compressed (.xz): unpack it first",
    b"\x28\xb5\x2f\xfd": "compressed (.zst): unpack it first",
    b"7z\xbc\xaf": "a 7z archive: unpack it first",
    b"%PDF": "a PDF: copy the table out of it",
    b"\x89PNG": "a picture: type the table in",
    b"\xff\xd8\xff": "a picture: type the table in",
    b"PAR1": "a Parquet file: save it as CSV",
    b"\x89HDF": "an HDF5 file: save the table as CSV",
    b"SQLite": "a database: save the table as CSV",
}
"""How files begin that people take for a CSV."""
SPREAD = " ±"
"""What the name of a column ends with that was split off: "3710 ± 10" in mean_s is two numbers."""
NOT_TEXT = "This is not a CSV: it holds bytes that are not text."


@dataclass(frozen=True)
class Sheet:
    """A header and its rows, each with the number that a spreadsheet shows beside it.

    What a format knows beyond that: the role of each column, which of them are metrics, and
    what notes around the table say of all its rows.
    """

    header: list[str]
    rows: list[tuple[int, list[str]]]
    format: str = "a table"
    """What it was read as, as part of a sentence: "JSON of hyperfine"."""
    roles: Mapping[str, str] = field(default_factory=dict)
    """Column -> role, where the format says them; empty where names are to tell."""
    metrics: tuple[str, ...] = ()
    """Columns of which one is compared."""
    notes: tuple[str, ...] = ()
    """Sentences on what was understood, for the preview."""
    n: int | None = None
    """The number of runs behind each mean, if a note beside the table says it."""
    spread: str = ""
    """"sd" or "se", if the table says once what its spreads are."""
    doubts: Mapping[str, str] = field(default_factory=dict)
    """Column -> why its numbers cannot be told, should they be needed."""
    one_process: str = ""
    """Why the values of an environment share a process, as a sentence; "" if they do not."""

    def column(self, name: str) -> Iterator[str]:
        place = self.header.index(name)
        return (fields[place] for _, fields in self.rows)


def decode_text(content: bytes) -> str:
    """Decode a file: UTF-8, UTF-16 with its mark (Excel's "Unicode text"), else Windows-1252.

    TableError says what it is instead.
    """
    if len(content) > MOST_BYTES:
        raise TableError(f"The file is larger than {MOST_BYTES // 10**6} MB; one row a run is due.")
    for start, kind in KINDS.items():
        if content.startswith(start):
            raise TableError(f"This is not a CSV but {kind}.")
    encodings = ["utf-8-sig", "cp1252"]
    if content.startswith((b"\xff\xfe", b"\xfe\xff")):
        encodings = ["utf-16"]
    elif b"\0" in content:
        raise TableError(NOT_TEXT)
    for encoding in encodings:
        try:
            return content.decode(encoding)
        except UnicodeDecodeError:
            continue
    raise TableError(NOT_TEXT)
