"""Tables with typed columns as files, CSV and Parquet, that are written while they are sent."""

from __future__ import annotations

import csv
from collections.abc import Iterator
from typing import Any, Literal

from django.http import StreamingHttpResponse
from django.utils.http import content_disposition_header

from dashboard.access.hidden_names import find_anonymity, mark_as_hidden
from dashboard.comparisons.parquet_files import write_parquet
from dashboard.comparisons.safe_files import Echo, make_file_name, make_safe_cell
from experiments.comparisons import Comparison
from experiments.comparisons.typed_tables import TypedTable
from experiments.models import Experiment, PublishedTable

Ending = Literal["csv", "parquet"]
KINDS = {"csv": "text/csv; charset=utf-8", "parquet": "application/vnd.apache.parquet"}


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
    pieces = write_parquet(table) if ending == "parquet" else _write_csv(table)
    response = StreamingHttpResponse(pieces, content_type=KINDS[ending])
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
        columns = [values.tolist() if hasattr(values, "tolist") else values for values in batch]
        yield "".join(
            writer.writerow([make_safe_cell(value) for value in row])
            for row in zip(*columns, strict=True)
        )
