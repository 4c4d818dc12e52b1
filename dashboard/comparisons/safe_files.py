"""Exports of rows as files for spreadsheets and scripts, safe against formulas."""

from __future__ import annotations

import csv
import json
import math
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from django.core.serializers.json import DjangoJSONEncoder
from django.http import HttpResponse, StreamingHttpResponse
from django.utils.http import content_disposition_header

from dashboard.arrow.safe_cells import is_formula, make_safe_cell
from experiments.access.anonymity import write_slug

ROWS_OF_A_PIECE = 500
END = "\r\n"
# Where a cell begins in a text, whatever its delimiter: after it, quotes and blanks.
CELL = re.compile(r"""(^|[,;\t])(\s*"?\s*)([=+\-@\uff1d\uff0b\uff0d\uff20][^,;\t\r\n"]*)""", re.M)


class Named(Protocol):
    """What files are named after: an experiment, a published table, a comparison."""

    @property
    def key(self) -> str: ...
    @property
    def question(self) -> str: ...


@dataclass(frozen=True)
class FileName:
    """What the files of two runs or two experiments are named after."""

    key: str
    question: str = ""


class Echo:
    """A file that returns what is written to it, so that rows can be streamed."""

    def write(self, text: str) -> str:
        return text


def make_file_name(
    subject: Named,
    what: str,
    ending: str,
    *,
    has_question: bool = True,
) -> str:
    """Return a name of plain letters, whatever the question holds."""
    question = write_slug(subject.question) if has_question else ""
    return "-".join(part for part in ("tare", subject.key, question, what) if part) + ending


def make_safe_table(text: str) -> str:
    """Return a table's text with an apostrophe before each cell that a spreadsheet would run.

    All else stays as it was given: delimiters, quotes, line ends, also where nobody can read it.
    """

    def mark(cell: re.Match[str]) -> str:
        return f"{cell[1]}{cell[2]}'{cell[3]}" if is_formula(cell[3]) else cell[0]

    return CELL.sub(mark, text)


def stream_csv(rows: Iterable[dict[str, Any]], name: str) -> StreamingHttpResponse:
    """Stream rows as CSV. The columns are those of all rows, in order of appearance."""
    kept = list(rows)
    columns = list(dict.fromkeys(column for row in kept for column in row))
    response = StreamingHttpResponse(_lines(kept, columns), content_type="text/csv; charset=utf-8")
    response["Content-Disposition"] = content_disposition_header(True, name)
    return response


def _lines(rows: list[dict[str, Any]], columns: list[str]) -> Iterator[str]:
    return _write_pieces(columns, ([row.get(column, "") for column in columns] for row in rows))


def stream_table(
    heads: Sequence[str], rows: Iterable[Sequence[Any]], name: str
) -> StreamingHttpResponse:
    """Stream rows as CSV under these heads, without holding them all."""
    pieces = _write_pieces(heads, rows)
    response = StreamingHttpResponse(pieces, content_type="text/csv; charset=utf-8")
    response["Content-Disposition"] = content_disposition_header(True, name)
    return response


def _write_pieces(heads: Sequence[str], rows: Iterable[Sequence[Any]]) -> Iterator[str]:
    """Yield CSV, many rows at once.

    After each piece but the last the file breaks off behind the mark that begins the cells of a
    row: one that was not sent to its end, because the server was stopped, does not look whole.
    """
    writer = csv.writer(Echo())
    marker = csv.writer(Echo(), quoting=csv.QUOTE_ALL)
    kept = [str(writer.writerow([make_safe_cell(head) for head in heads]))]
    for number, row in enumerate(rows, 1):
        cells = [make_safe_cell(value) for value in row]
        if number % ROWS_OF_A_PIECE:
            kept.append(writer.writerow(cells))
            continue
        first = str(marker.writerow(cells[:1]))
        yield "".join(kept) + first[:1]
        is_only = len(cells) == 1
        kept = [first[1:] if is_only else f"{first[1:].rstrip(END)},{writer.writerow(cells[1:])}"]
    yield "".join(kept)


def make_json_number(value: Any) -> Any:
    """Return a value; None for NaN and the infinities, which JSON does not have."""
    return None if isinstance(value, float) and not math.isfinite(value) else value


def make_json_response(content: dict[str, Any], name: str) -> HttpResponse:
    """Return a JSON file; numbers keep all their digits, and no value is NaN."""
    text = json.dumps(content, cls=DjangoJSONEncoder, ensure_ascii=False, indent=1, allow_nan=False)
    response = HttpResponse(text, content_type="application/json")
    response["Content-Disposition"] = content_disposition_header(True, name)
    return response
