"""Reader of sheets: the bytes of a file become rows; errors say what the file is instead."""

import csv
import io
import re
from collections.abc import Iterator
from dataclasses import dataclass

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
PLUS_MINUS = re.compile(r"(.+?)\s*(?:±|\+/-|\+-)\s*(.+)")
SPREAD = " ±"
"""What the name of a column ends with that was split off: "3710 ± 10" in mean_s is two numbers."""
NOT_TEXT = "This is not a CSV: it holds bytes that are not text."


@dataclass(frozen=True)
class Sheet:
    """A header and its rows, each with the number that a spreadsheet shows beside it."""

    header: list[str]
    rows: list[tuple[int, list[str]]]

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


def read_sheet(text: str) -> Sheet:
    """Parse a table with commas, semicolons or tabs; empty rows are left out.

    TableError: no table, too large, or a row that does not fit its header.
    """
    if not text.strip():
        raise TableError("The file is empty.")
    # A terminal's colours, or something that only looks like text.
    if any(character < " " and character not in "\t\r\n\f" for character in set(text)):
        raise TableError(NOT_TEXT)
    first = next(line for line in text.splitlines() if line.strip())
    delimiter = max(",;\t", key=first.count)
    if delimiter not in first:
        raise TableError("This is not a CSV: row 1 has no comma, semicolon or tab.")
    if first.count(delimiter) >= MOST_COLUMNS:
        raise TableError(f"Row 1 has more than {MOST_COLUMNS} columns.")
    try:
        rows = list(_rows(text, delimiter))
    except csv.Error as error:
        raise TableError(f"This is not a CSV: {error}.") from None
    names = rows.pop(0)[1] if rows else []
    if repeated := [name for i, name in enumerate(names) if not name or name in names[:i]]:
        raise TableError(f"Row 1: the column {repeated[0]!r} is nameless or there twice.")
    if not names:
        raise TableError("The file is empty.")
    if not rows:
        raise TableError("The file has a header and no rows.")
    return _split(Sheet(names, rows))


def _rows(text: str, delimiter: str) -> Iterator[tuple[int, list[str]]]:
    """Yield each row that is not empty with its number, the header first."""
    reader = csv.reader(io.StringIO(text, newline=""), delimiter=delimiter)
    width = count = 0
    for fields in reader:
        if not any(map(str.strip, fields)):
            continue
        if count > MOST_ROWS:
            raise TableError(
                f"The file has more than {MOST_ROWS:,} rows. One row a run is due; the steps of a "
                "run are one value, their mean."
            )
        width = width or len(fields)
        if len(fields) != width:
            raise TableError(
                f"Row {reader.line_num} has {len(fields)} fields, the header has {width}."
            )
        count += 1
        yield reader.line_num, [text.strip() for text in fields]


def _split(sheet: Sheet) -> Sheet:
    """Give the spreads that are in one field with their mean a column of their own."""
    if not any(PLUS_MINUS.fullmatch(text) for text in sheet.rows[0][1]):
        return sheet
    columns: dict[str, list[str]] = {}
    for name in sheet.header:
        texts = list(sheet.column(name))
        parts = [PLUS_MINUS.fullmatch(text) for text in texts]
        if not any(parts) or name + SPREAD in sheet.header:
            columns[name] = texts
            continue
        columns[name] = [part[1] if part else text for part, text in zip(parts, texts, strict=True)]
        columns[name + SPREAD] = [part[2] if part else "" for part in parts]
    fields = zip(*columns.values(), strict=True)
    rows = [(number, list(row)) for (number, _), row in zip(sheet.rows, fields, strict=True)]
    return Sheet(list(columns), rows)
