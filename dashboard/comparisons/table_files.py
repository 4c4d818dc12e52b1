"""Tables with typed columns as files, CSV and Parquet, that are written while they are sent."""

from __future__ import annotations

import csv
from collections.abc import Iterator, Sequence
from typing import Any, Literal

from django.http import StreamingHttpResponse
from django.utils.http import content_disposition_header

from dashboard.access.hidden_names import find_anonymity, mark_as_hidden
from dashboard.arrow.arrow_files import CONTENT_TYPES
from dashboard.arrow.safe_cells import make_safe_cell
from dashboard.arrow.writing_process import write_table
from dashboard.comparisons.safe_files import Echo, make_file_name
from experiments.comparisons import Comparison
from experiments.comparisons.typed_tables import Batch, Repeated, TypedTable, change_values
from experiments.models import Experiment, PublishedTable

Ending = Literal["csv", "parquet"]


def send_table(
    table: TypedTable,
    user: Any,
    ending: Ending,
    what: str,
    subject: Experiment | PublishedTable | Comparison | None = None,
) -> StreamingHttpResponse:
    """Return the table as a file without the names that `user` may not see.

    They are hidden in each text of it: a Parquet file is compressed, and holding all steps of
    twenty thousand runs as one text would take gigabytes.
    """
    anonymity = find_anonymity(user)
    if anonymity:
        table = table.change_texts(anonymity.hide)
    pieces: Iterator[Any]
    pieces = write_table(table, "parquet") if ending == "parquet" else _write_csv(table)
    response = StreamingHttpResponse(pieces, content_type=CONTENT_TYPES[ending])
    # A slug respells names, so that they could not be hidden in it: "mullers" for "Müller's".
    name = (
        make_file_name(subject, what, f".{ending}", has_question=not anonymity)
        if subject
        else f"tare-{what}.{ending}"
    )
    response["Content-Disposition"] = content_disposition_header(True, name)
    return mark_as_hidden(response) if anonymity else response


def _write_csv(table: TypedTable) -> Iterator[str]:
    writer = csv.writer(Echo())
    yield writer.writerow([make_safe_cell(column.name) for column in table.columns])
    for batch in table.batches:
        yield "".join(_write_lines(writer, batch))


def _write_lines(writer: Any, batch: Batch) -> Iterator[str]:
    """Yield the lines of a batch; the text of repeated values before all others is made once."""
    repeated: list[Repeated] = []
    for values in batch[:-1]:
        if not isinstance(values, Repeated):
            break
        repeated.append(values)
    others = [_list_safe_cells(values) for values in batch[len(repeated) :]]
    start = ""
    if repeated:
        cells = [make_safe_cell(values.value) for values in repeated]
        start = writer.writerow([*cells, ""]).removesuffix(writer.dialect.lineterminator)
    for row in zip(*others, strict=True):
        yield start + writer.writerow(row)


def _list_safe_cells(values: Sequence[Any]) -> Sequence[Any]:
    if hasattr(values, "tolist"):
        return values.tolist()  # type: ignore[no-any-return]
    if isinstance(values, range):
        return values
    return change_values(values, make_safe_cell)
