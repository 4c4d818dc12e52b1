"""Series over the runs of an environment: their median, and where the middle 80 % of them lie.

For figures, never for a test. Values that are not a number are left out of each quantile.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

SHARES = (0.1, 0.5, 0.9)
FEWEST_RUNS = 3
"""Of fewer runs a band would be drawn between hardly more than two values."""
FEWEST_STEPS_A_BIN, MOST_BINS = 5, 60


@dataclass(frozen=True)
class RunBand:
    """Quantiles over runs at each place of x; NaN where fewer than three runs have a value."""

    environment: str
    runs: tuple[str, ...]
    """The runs that it is of."""
    x: Sequence[float]
    low: Sequence[float]
    """10 % of the runs are below it, by linear interpolation between runs."""
    median: Sequence[float]
    high: Sequence[float]


@dataclass(frozen=True)
class TimedRun:
    """The step times of one run."""

    run: str
    values: Sequence[float]
    ends: Sequence[int] | None = None
    """The last step of each value, where it is the mean of several; None: every step has one."""
    warm_up: int = 0
    """The steps that no mean counts."""


@dataclass(frozen=True)
class StepTrace:
    """The step times of an environment over the run: medians of bins in each run, then over runs.

    The x of its band is the middle of each bin, in steps from 1.
    """

    band: RunBand
    steps_a_bin: int
    last: int
    """The last step of the longest run."""
    warm_ups: tuple[int, ...]
    """Of each run."""

    @property
    def bins(self) -> list[tuple[int, int]]:
        """Return the first and the last step of each bin."""
        return list_bins(self.last, self.steps_a_bin)


def take_quantiles(table: Any, shares: Sequence[float] = SHARES) -> list[Any]:
    """Return quantiles of each column over the rows; NaN in a column without any value.

    As numpy's `nanquantile`, which takes each column by itself and so a hundred times as long.
    """
    import numpy as np

    ordered = np.sort(table, axis=0)  # NaN last
    last = np.maximum((~np.isnan(table)).sum(axis=0) - 1, 0)
    quantiles = []
    for share in shares:
        place = share * last
        before = np.floor(place).astype(int)
        lower = np.take_along_axis(ordered, before[None], 0)[0]
        upper = np.take_along_axis(ordered, np.minimum(before + 1, last)[None], 0)[0]
        part = place - before
        with np.errstate(invalid="ignore"):  # infinite values have no place between them
            quantiles.append(np.where(part > 0, lower * (1 - part) + upper * part, lower))
    return quantiles


def make_band(
    environment: str, runs: Sequence[str], x: Sequence[float], table: Any
) -> RunBand | None:
    """Return the band of a table with a row for each run; None where no place has three values."""
    import numpy as np

    has_values = (~np.isnan(table)).sum(axis=0) >= FEWEST_RUNS
    if not has_values.any():
        return None
    low, middle, high = (
        np.where(has_values, values, np.nan).tolist() for values in take_quantiles(table)
    )
    return RunBand(environment, tuple(runs), list(x), low, middle, high)


def list_bins(last: int, size: int) -> list[tuple[int, int]]:
    """Return the first and the last step of bins of so many steps, up to the step `last`.

    What is left is a bin of its own from half of them on, else part of the last one: the median of
    a single step would jump.
    """
    count = max(last // size + (2 * (last % size) >= size), 1)
    bins = [(place * size + 1, (place + 1) * size) for place in range(count)]
    return [*bins[:-1], (bins[-1][0], last)]


def take_stretches(x: Any, table: Any, most: int = MOST_BINS) -> tuple[list[float], Any]:
    """Return the middles of at most `most` equal stretches of columns, and each row's medians.

    `x` has the place of each column. NaN where a row has no value in a stretch.
    """
    import numpy as np

    rows, columns = table.shape
    if columns <= most:
        return list(x), table
    which = np.arange(columns) * most // columns
    places = np.arange(columns) - np.searchsorted(which, which)
    stacked = np.full((int(places.max()) + 1, rows, most), np.nan)
    stacked[places, :, which] = table.T
    (medians,) = take_quantiles(stacked.reshape(-1, rows * most), (0.5,))
    ends = np.searchsorted(which, np.arange(most)), np.searchsorted(which, np.arange(most), "right")
    middles = (np.asarray(x)[ends[0]] + np.asarray(x)[ends[1] - 1]) / 2
    return middles.tolist(), medians.reshape(rows, most)


def trace_steps(environment: str, runs: Iterable[TimedRun]) -> StepTrace | None:
    """Return the step times of an environment over the run; None of fewer than three runs."""
    import numpy as np

    timed = [run for run in runs if len(run.values)]
    if len(timed) < FEWEST_RUNS:
        return None
    ends_of_runs = [
        np.arange(1, len(run.values) + 1) if run.ends is None else np.asarray(run.ends)
        for run in timed
    ]
    last = int(max(ends.max() for ends in ends_of_runs))
    steps_a_value = max(-(-int(ends.max()) // len(ends)) for ends in ends_of_runs)
    size = max(FEWEST_STEPS_A_BIN, -(-last // MOST_BINS), steps_a_value)
    bins = list_bins(last, size)
    table = np.full((len(timed), len(bins)), np.nan)
    for row, (run, ends) in enumerate(zip(timed, ends_of_runs, strict=True)):
        values = np.asarray(run.values, dtype=np.float64)
        which = np.minimum(np.maximum(ends - 1, 0) // size, len(bins) - 1)
        order = np.argsort(which, kind="stable")
        which, values = which[order], values[order]
        places = np.arange(len(which)) - np.searchsorted(which, which)
        of_bins = np.full((int(places.max()) + 1, len(bins)), np.nan)
        of_bins[places, which] = values
        (table[row],) = take_quantiles(of_bins, (0.5,))
    middles = [(first + end) / 2 for first, end in bins]
    band = make_band(environment, [run.run for run in timed], middles, table)
    warm_ups = tuple(run.warm_up for run in timed)
    return StepTrace(band, size, last, warm_ups) if band else None
