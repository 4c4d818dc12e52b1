"""Rows as files that a spreadsheet or a script can read, and nothing else can misread."""

from __future__ import annotations

import csv
import json
from collections.abc import Iterable, Iterator
from typing import Any

from django.core.serializers.json import DjangoJSONEncoder
from django.http import HttpResponse, StreamingHttpResponse
from django.utils.http import content_disposition_header
from django.utils.text import slugify

from experiments.comparisons import Comparison
from experiments.models import Experiment, PublishedTable

# A spreadsheet takes a text that begins like this for a formula.
FORMULA = ("=", "+", "-", "@", "\t", "\r")


class Echo:
    """A file that hands back what is written, so that rows can be streamed."""

    def write(self, text: str) -> str:
        return text


def file_name(subject: Experiment | PublishedTable | Comparison, what: str, ending: str) -> str:
    """Return a name of plain letters, whatever the question holds."""
    question = slugify(subject.question)[:50].strip("-")
    return "-".join(part for part in ("tare", subject.key, question, what) if part) + ending


def safe_cell(value: Any) -> Any:
    """Return the value; a text that a spreadsheet would run gets an apostrophe before it."""
    if isinstance(value, str) and value.startswith(FORMULA):
        return f"'{value}"
    return value


def as_csv(rows: Iterable[dict[str, Any]], name: str) -> StreamingHttpResponse:
    """Stream rows as CSV. The columns are those of all rows, in order of appearance."""
    kept = list(rows)
    columns = list(dict.fromkeys(column for row in kept for column in row))
    response = StreamingHttpResponse(_lines(kept, columns), content_type="text/csv; charset=utf-8")
    response["Content-Disposition"] = content_disposition_header(True, name)
    return response


def _lines(rows: list[dict[str, Any]], columns: list[str]) -> Iterator[str]:
    writer = csv.writer(Echo())
    yield writer.writerow([safe_cell(column) for column in columns])
    for row in rows:
        yield writer.writerow([safe_cell(row.get(column, "")) for column in columns])


def as_json(content: dict[str, Any], name: str) -> HttpResponse:
    """Return a JSON file; numbers keep all their digits, and no value is NaN."""
    text = json.dumps(content, cls=DjangoJSONEncoder, ensure_ascii=False, indent=1, allow_nan=False)
    response = HttpResponse(text, content_type="application/json")
    response["Content-Disposition"] = content_disposition_header(True, name)
    return response
