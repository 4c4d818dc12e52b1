"""CSV of lists that was not sent to its end does not look whole, whatever the proxy in between."""

from __future__ import annotations

import csv
import io
from typing import Any

import pandas
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dashboard.comparisons import safe_files
from dashboard.comparisons.safe_files import stream_table

HEADS = ("name", "value", "note")
CELLS = st.none() | st.text(st.characters(codec="utf-8", exclude_characters="\r\0")) | st.floats()


def write(rows: Any, heads: Any = HEADS) -> list[str]:
    return [piece.decode() for piece in stream_table(heads, rows, "rows.csv").streaming_content]  # type: ignore[union-attr]


@pytest.mark.parametrize("first", ["a", 7, None, 'with "marks", and more', "=1+1"])
def test_each_cut_between_pieces_is_inside_a_cell(first: Any) -> None:
    pieces = write([first, number, ""] for number in range(1700))
    assert len(pieces) == 4
    whole = pandas.read_csv(io.StringIO("".join(pieces)))
    assert list(whole["value"]) == list(range(1700))
    for count in range(1, len(pieces)):
        with pytest.raises(pandas.errors.ParserError, match="EOF inside string"):
            pandas.read_csv(io.StringIO("".join(pieces[:count])))


@given(st.lists(st.tuples(CELLS, CELLS), max_size=7) | st.lists(st.tuples(CELLS), max_size=7))
def test_all_cells_come_back_whatever_the_pieces(rows: list[tuple[Any, ...]]) -> None:
    def read(text: str) -> list[list[str]]:
        return list(csv.reader(io.StringIO(text, newline="")))

    heads = HEADS[: len(rows[0])] if rows else HEADS
    whole = read("".join(write(rows, heads)))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(safe_files, "ROWS_OF_A_PIECE", 2)
        assert read("".join(write(rows, heads))) == whole
