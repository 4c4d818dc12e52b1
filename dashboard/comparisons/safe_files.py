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
    writer = csv.writer(Echo())
    yield writer.writerow([make_safe_cell(column) for column in columns])
    for row in rows:
        yield writer.writerow([make_safe_cell(row.get(column, "")) for column in columns])


def stream_table(
    heads: Sequence[str], rows: Iterable[Sequence[Any]], name: str
) -> StreamingHttpResponse:
    """Stream rows as CSV under these heads, without holding them all."""

    def write_lines() -> Iterator[str]:
        writer = csv.writer(Echo())
        yield writer.writerow([make_safe_cell(head) for head in heads])
        for row in rows:
            yield writer.writerow([make_safe_cell(value) for value in row])

    response = StreamingHttpResponse(write_lines(), content_type="text/csv; charset=utf-8")
    response["Content-Disposition"] = content_disposition_header(True, name)
    return response


def make_json_number(value: Any) -> Any:
    """Return a value; None for NaN and the infinities, which JSON does not have."""
    return None if isinstance(value, float) and not math.isfinite(value) else value


def make_json_response(content: dict[str, Any], name: str) -> HttpResponse:
    """Return a JSON file; numbers keep all their digits, and no value is NaN."""
    text = json.dumps(content, cls=DjangoJSONEncoder, ensure_ascii=False, indent=1, allow_nan=False)
    response = HttpResponse(text, content_type="application/json")
    response["Content-Disposition"] = content_disposition_header(True, name)
    return response
