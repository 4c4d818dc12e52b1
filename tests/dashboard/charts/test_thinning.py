"""Charts of thousands of runs draw some of them, and hide no extreme."""

from __future__ import annotations

import json
import math
import random

from hypothesis import given
from hypothesis import strategies as st

from dashboard.charts import MOST_POINTS, draw_run_order, draw_slopes, strip
from dashboard.charts.thinning import thin_curve, thin_samples
from experiments.statistics import Sample

MARKS = {"bare": 0, "box": 1, "tub": 2}


def samples(count: int) -> list[Sample]:
    draw = random.Random(1)
    return [
        Sample(
            run=f"{block:032x}",
            block=str(block),
            environment=name,
            value=draw.lognormvariate(0, 0.1),
            node="n1",
            started=float(block),
        )
        for block in range(count)
        for name in MARKS
    ]


@given(st.lists(st.tuples(st.sampled_from(list(MARKS)), st.floats(0.1, 10)), max_size=300))
def test_each_environment_keeps_its_extremes_and_the_order(runs: list[tuple[str, float]]) -> None:
    given_runs = [Sample(str(k), "b", name, value) for k, (name, value) in enumerate(runs)]
    kept = thin_samples(given_runs, most=20)
    assert kept == [sample for sample in given_runs if sample in kept]
    assert len(kept) <= max(20, 3 * len(MARKS))
    for name in MARKS:
        every, drawn = (
            [sample.value for sample in some if sample.environment == name]
            for some in (given_runs, kept)
        )
        assert bool(every) == bool(drawn)
        if every:
            assert (min(every), max(every)) == (min(drawn), max(drawn))


def test_few_runs_are_all_drawn_and_of_many_a_chart_stays_small() -> None:
    for count in (100, 7_000):
        runs = samples(count)
        for draw in (strip, draw_run_order, draw_slopes):
            figure = draw(runs, unit="s", metric="step time", marks=MARKS)
            markers = [trace for trace in figure["data"] if "customdata" in trace]
            points = sum(len(trace["x"]) for trace in markers)
            assert points <= MOST_POINTS
            assert points >= (300 if count == 100 else 480), draw
            assert len(json.dumps(figure)) < 200_000


def test_medians_and_counts_are_of_all_runs() -> None:
    runs = samples(7_000)
    figure = strip(runs, unit="s", metric="step time", marks=MARKS)
    assert figure["layout"]["yaxis"]["ticktext"][1] == "box<br>n = 7000"
    values = sorted(sample.value for sample in runs if sample.environment == "box")
    (median,) = figure["data"][2]["x"]
    assert median == (values[3_499] + values[3_500]) / 2


def test_a_thinned_line_keeps_peaks_gaps_and_order() -> None:
    values = [1.0 + (place % 7) / 10 for place in range(10_000)]
    values[4321], values[8765], values[100] = 50.0, -3.0, math.nan
    x, y = thin_curve(range(10_000), values, most=100)
    assert len(x) == len(y) <= 100
    assert list(x) == sorted(x)
    assert (max(value for value in y if value == value), min(y)) == (50.0, -3.0)
    assert x[y.index(50.0)] == 4321
    assert sum(math.isnan(value) for value in y) == 1
    assert thin_curve([1, 2], [3.0, math.nan])[0] == [1, 2]
    assert thin_curve(range(1000), [math.nan] * 1000, most=10)[0][0] == 0
