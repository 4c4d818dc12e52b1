"""Tables with commas, semicolons or tabs, as spreadsheets and programs write them."""

import csv
import io
from collections import Counter
from collections.abc import Iterator

from experiments.statistics.published.formats.base import Format, is_json, load_json
from experiments.statistics.published.printed import TableError
from experiments.statistics.published.sheets import MOST_COLUMNS, MOST_ROWS, Sheet
from experiments.statistics.published.text_tables import Rows, list_filled, make_sheet

SNIFFED = 100
"""Lines by which the delimiter is recognised."""


def _recognise(text: str) -> bool:
    return True


def _read(text: str, decimal: str) -> Sheet:
    if is_json(text):
        load_json(text)
        raise TableError(
            "This is JSON, and of no program that is read here. Read are: JSON of hyperfine, "
            "pytest-benchmark, Google Benchmark and pyperf. Write its values as a table, one row "
            "a run."
        )
    delimiter = find_delimiter(text)
    if not delimiter:
        raise TableError("This is not a CSV: row 1 has no comma, semicolon or tab.")
    return make_sheet(_split(text, delimiter), decimal=decimal, kind=FORMAT.name)


def find_delimiter(text: str) -> str:
    """Return the delimiter by which most lines have as many fields as each other; "" if none."""
    lines = [line for line in text.splitlines() if line.strip()][:SNIFFED]
    best, best_score = "", (0, 0)
    for delimiter in "\t;,":
        counts = Counter(line.count(delimiter) for line in lines)
        counts.pop(0, None)
        if counts:
            number, lines_alike = max(counts.items(), key=lambda item: (item[1], item[0]))
            if (lines_alike, number) > best_score:
                best, best_score = delimiter, (lines_alike, number)
    return best


def read_header(text: str) -> list[str]:
    """Return the names in the first line of a CSV with commas; none where it is not one."""
    first = next((line for line in text.lstrip("\ufeff").splitlines() if line.strip()), "")
    if first.count(",") < 2:
        return []
    try:
        return [name.strip() for name in next(csv.reader([first]))]
    except csv.Error:
        return []


def read_cells(text: str) -> tuple[list[str], Rows]:
    """Return header and rows of a CSV with commas as a program wrote it, titles and all.

    TableError: a name twice or missing, a row that does not fit, no rows.
    """
    rows = _split(text, ",")
    names = rows.pop(0)[1]
    if repeated := [name for i, name in enumerate(names) if not name or name in names[:i]]:
        raise TableError(f"Row 1: the column {repeated[0]!r} is nameless or there twice.")
    for number, fields in rows:
        if len(fields) != len(names):
            raise TableError(f"Row {number} has {len(fields)} fields, the header has {len(names)}.")
    if not rows:
        raise TableError("The file has a header and no rows.")
    return names, rows


def _split(text: str, delimiter: str) -> Rows:
    try:
        return list_filled(_rows(text, delimiter))
    except csv.Error as error:
        raise TableError(f"This is not a CSV: {error}.") from None


def _rows(text: str, delimiter: str) -> Iterator[tuple[int, list[str]]]:
    """Yield each row with its number. TableError: too many rows or columns."""
    reader = csv.reader(io.StringIO(text, newline=""), delimiter=delimiter)
    for count, fields in enumerate(reader):
        if count > MOST_ROWS:
            raise TableError(
                f"The file has more than {MOST_ROWS:,} rows. One row a run is due; the steps of a "
                "run are one value, their mean."
            )
        if len(fields) > MOST_COLUMNS:
            raise TableError(f"Row {reader.line_num} has more than {MOST_COLUMNS} columns.")
        yield reader.line_num, fields


FORMAT = Format(
    "a table with commas, semicolons or tabs",
    "means with their spread, or one run a row",
    _recognise,
    _read,
)
