"""Control charts of recurring experiments in which nothing changes: how often they raise an alarm.

Each recurrence has a day that all its runs share, and the mean of some blocks. A page has three
charts: the levels of two environments, and their ratio.
"""

from collections.abc import Iterator
from typing import Any

import numpy as np
from scipy.stats import t

from experiments.statistics.calibration import truths
from experiments.statistics.calibration.bands import Band, Effort, compute_slack
from experiments.statistics.control_charts import (
    FALSE_ALARMS,
    FEWEST,
    ChartPoint,
    choose_alpha,
    judge_points,
)
from experiments.statistics.vectorised import Array

RECURRENCES = 40
BLOCKS = 5
DAY_SD = 0.01
SHAPES = ("normal 1 %", "bimodal", "skewed")
WEAK = "stragglers"
"""Of which means of few blocks are far from normal."""
SHARE = 4
"""Of the data sets of heavy methods one in so many: each has 32 recurrences that are judged."""


def list_bands(rng: Any, effort: Effort) -> Iterator[Band]:
    """Yield the band of a page's false alarms, and a control that is known to raise too many."""
    sets = effort.heavy_data_sets // SHARE
    shares = {name: count_false_alarms(draw_pages(rng, sets, name)) for name in SHAPES}
    # Recurrences of one page share their limits, so they count as about a tenth.
    judged = sets * (RECURRENCES - FEWEST) // 10
    yield Band(
        "false alarms of a page of control charts, a recurrence",
        shares,
        high=0.015,
        slack=compute_slack(FALSE_ALARMS, effort, judged),
    )
    three_sigma = 2 * t.sf(3 / np.sqrt(1 + 1 / FEWEST), FEWEST - 1)
    first = draw_pages(rng, sets, "normal 1 %")[:, :, : FEWEST + 1]
    yield Band(
        "the same, one run in ten held up (known weakness)",
        {WEAK: count_false_alarms(draw_pages(rng, sets, WEAK))},
        high=0.06,
        slack=compute_slack(0.05, effort, judged),
    )
    yield Band(
        "the same, three standard deviations of the first 8",
        {"normal 1 %": count_false_alarms(first, float(three_sigma))},
        high=0.02,
        control=True,
    )


def draw_pages(rng: Any, sets: int, shape: str) -> Array:
    """Return the logs of three charts: pages x charts x recurrences."""
    day = rng.normal(0, DAY_SD, (sets, RECURRENCES))
    arms = [truths.SHAPES[shape](rng, (sets * RECURRENCES, BLOCKS)).mean(axis=1) for _ in range(2)]
    baseline, environment = (arm.reshape(sets, RECURRENCES) for arm in arms)
    return np.stack([baseline + day, environment + day, environment - baseline], axis=1)


def count_false_alarms(pages: Array, alpha: float | None = None) -> float:
    """Return the share of judged recurrences in which any chart of a page has left its limits."""
    level = choose_alpha(pages.shape[1]) if alpha is None else alpha
    outside = np.array(
        [
            [
                [point.is_outside for point in judge_points(_make_points(chart), level)]
                for chart in page
            ]
            for page in np.exp(pages)
        ]
    )
    return float(outside.any(axis=1)[:, FEWEST:].mean())


def _make_points(values: Array) -> list[ChartPoint]:
    return [ChartPoint(number, float(value)) for number, value in enumerate(values, start=1)]
