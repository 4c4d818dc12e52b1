"""Rows of a list, fetched a page at a time while they are read."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from typing import IO, TYPE_CHECKING, Any

from tare_client.errors import UsageError

if TYPE_CHECKING:
    import pandas as pd

Row = dict[str, Any]


class Rows:
    """Rows that can be read as often as one likes; each reading asks the site again.

    Reading them holds one page of them in memory. `list(rows)` holds them all.
    """

    def __init__(self, fetch: Callable[[], Iterator[Row]]) -> None:
        self._fetch = fetch

    def __iter__(self) -> Iterator[Row]:
        return self._fetch()

    def to_pandas(self) -> pd.DataFrame:
        """Return a pandas frame of all rows, one column for each field. Raises UsageError."""
        try:
            import pandas
        except ImportError as error:
            message = "pandas is not installed here: pip install pandas"
            raise UsageError(message) from error
        return pandas.DataFrame.from_records([flatten_row(row) for row in self])

    def to_parquet(self, target: str | IO[bytes]) -> None:
        """Write all rows as Parquet, to a path or into an open file. Raises UsageError."""
        try:
            import pyarrow
            from pyarrow import parquet
        except ImportError as error:
            message = "pyarrow is not installed here: pip install pyarrow"
            raise UsageError(message) from error
        rows = [flatten_row(row) for row in self]
        names = list(dict.fromkeys(name for row in rows for name in row))
        # pyarrow would take the columns of the first row alone.
        columns = {name: _make_column(pyarrow, [row.get(name) for row in rows]) for name in names}
        parquet.write_table(pyarrow.table(columns), target)


def _make_column(pyarrow: Any, values: list[Any]) -> Any:
    """Return values as a column of one type: text where they have several."""
    try:
        return pyarrow.array(values)
    except (pyarrow.ArrowException, OverflowError, UnicodeError):
        texts = [None if value is None else str(value) for value in values]
        return pyarrow.array(
            [text and text.encode("utf-8", "replace").decode() for text in texts], pyarrow.string()
        )


def flatten_row(row: Row) -> Row:
    """Return a row as a table has it: a column for each metric, lists and objects as JSON.

    A metric with the name of a field of the run, such as state, has the column metric.state.
    """
    metrics = row.get("metrics")
    if isinstance(metrics, dict):
        row = {name: value for name, value in row.items() if name != "metrics"}
        row |= {f"metric.{name}" if name in row else name: n for name, n in metrics.items()}
    return {
        name: json.dumps(value) if isinstance(value, (list, dict)) else value
        for name, value in row.items()
    }
