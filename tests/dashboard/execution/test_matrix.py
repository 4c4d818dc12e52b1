"""The values of one cell of an experiment's progress, as its strip draws them."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dashboard.execution import matrix
from dashboard.execution.matrix import MOST_LINES, MOST_SYMBOLS, STRIP_WIDTH, Cell, build_matrix
from experiments.execution.progress import Tally
from experiments.models import Environment, Experiment, Measurement
from tests.factories import EventFactory

VALUES = st.lists(st.floats(1e-9, 1e9), min_size=1, max_size=5 * MOST_LINES)


@given(VALUES)
def test_few_values_are_symbols_and_many_are_lines(values: list[float]) -> None:
    limits = (min(values), max(values))
    cell = Cell(Environment(name="bare metal"), 0, Tally({}), values, limits)
    assert (cell.points == []) == (len(values) > MOST_SYMBOLS)
    assert len(cell.points) in (0, len(values))
    assert (cell.lines == "") == (len(values) <= MOST_SYMBOLS)
    places = [float(place) for place in re.findall(r"M([\d.]+) 7v10", cell.lines)] or cell.points
    assert len(places) <= max(MOST_LINES, MOST_SYMBOLS)
    assert all(0 < place < STRIP_WIDTH for place in places)
    of_one = Cell(cell.environment, 0, cell.tally, [limits[0], limits[1]], limits).points
    assert (min(places), max(places)) == tuple(of_one), "the smallest and the largest are shown"


def test_a_page_of_many_runs_stays_small() -> None:
    values = [0.5 + number / 7 for number in range(20_000)]
    cell = Cell(Environment(name="bare metal"), 0, Tally({}), values, (0.0, 3_000.0))
    assert len(cell.lines) < 1_000


@pytest.mark.django_db
def test_values_of_many_runs_are_read_again_only_when_something_has_changed(
    results: Experiment, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(matrix, "MANY_VALUES", 1)

    def list_values() -> list[list[float]]:
        (row,) = build_matrix(results).rows
        return [sorted(cell.values) for cell in row.cells]

    before = list_values()
    Measurement.objects.filter(metric="step_time").update(value=1.0)
    assert list_values() == before, "whoever changes a measurement writes an event"
    EventFactory(experiment=results, what="collected again")
    assert list_values() == [[1.0] * 5] * 2
