"""What runs did beside what is compared: a baseline that varied, drifted, or changed at a moment.

Where a verdict is inconclusive because the machine was not the same all the time, more blocks are
the wrong advice. This looks at the order in which the runs began, and says what it sees. It judges
nothing: verdicts come from the comparison alone.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from experiments.statistics import numbers
from experiments.statistics.coincidences import NOTHING_SAMPLED, Sampled, describe_coincidences
from experiments.statistics.values import Measured, Sample

NOTABLE = 0.10
"""What is smaller is not told: ten per cent, more than any margin that is usual."""
LEAST_VARIATION = NOTABLE / 4
"""A standard deviation that even a drift of NOTABLE exceeds: below it nothing is looked for."""
FEWEST_RUNS, FEWEST_BASELINE, FEWEST_BESIDE = 10, 5, 3
"""Runs in all, of the baseline, and on either side of a moment."""
MOST_RUNS = 400
"""Of more, so many are looked at, evenly chosen in the order of time."""
P_TREND, P_MOMENT = 0.001, 0.005
"""A machine that is merely noisy is called drifting, or changed, in one of so many cases."""
REARRANGEMENTS = 399
SEED = 20261126
LEAST_SHARE = 0.5
"""Of a change that each environment has to show alone."""
SHARED = 0.8
"""From this correlation on, of two sides of a block, pairing cancels most of what varied."""


@dataclass(frozen=True)
class Change:
    """Baseline and environments alike became larger or smaller by a factor."""

    factor: float
    seconds: float
    """From the first run to the last one."""
    moment: float | None = None
    """When, in seconds since 1970, if it was at once; None for a drift over all of the time."""


@dataclass(frozen=True)
class Unsteadiness:
    """How a configuration's baseline varied, and what the environments had in common with it."""

    runs: int
    """Of the baseline."""
    low: float
    high: float
    """Its smallest and largest value."""
    variation: float
    """The standard deviation of the logarithms, within nodes: 0.1 is about ten per cent."""
    change: Change | None
    correlation: float | None
    """Of the logarithms of the two sides over the blocks, the other side being the mean of all
    environments; None without blocks."""

    @property
    def cancels(self) -> bool:
        """Return whether pairing takes most of it out of the comparison."""
        return self.correlation is not None and self.correlation >= SHARED


def find_unsteadiness(samples: Sequence[Sample], baseline: str) -> Unsteadiness | None:
    """Return what was unsteady in the runs of one configuration; None if nothing notable was.

    Values are positive. Runs of different nodes are compared within their node, so that nodes which
    differ are no drift; a run without a time has no place in the order.
    """
    own = [sample for sample in samples if sample.environment == baseline]
    if len(own) < FEWEST_BASELINE:
        return None
    deviations = center_samples(samples)
    of_baseline = [deviations[sample.run] for sample in own if sample.run in deviations]
    if len(of_baseline) < FEWEST_BASELINE:
        return None
    cells = len({sample.node for sample in own if sample.run in deviations})
    degrees = max(len(of_baseline) - cells, 1)
    variation = math.sqrt(math.fsum(value * value for value in of_baseline) / degrees)
    change = _find_change(samples, deviations)
    if variation < NOTABLE and change is None:
        return None
    values = [sample.value for sample in own]
    correlation = _correlate_blocks(samples, baseline, deviations)
    return Unsteadiness(len(own), min(values), max(values), variation, change, correlation)


def center_samples(samples: Sequence[Sample]) -> dict[str, float]:
    """Return the logarithm of each run less the mean of its environment on its node.

    Without runs that are alone there: nothing can be said of how they varied.
    """
    cells: defaultdict[tuple[str, str], list[Sample]] = defaultdict(list)
    for sample in samples:
        cells[sample.environment, sample.node].append(sample)
    deviations: dict[str, float] = {}
    for cell in cells.values():
        if len(cell) < 2:
            continue
        logs = [math.log(sample.value) for sample in cell]
        mean = math.fsum(logs) / len(logs)
        deviations |= {sample.run: log - mean for sample, log in zip(cell, logs, strict=True)}
    return deviations


def _find_change(samples: Sequence[Sample], deviations: Mapping[str, float]) -> Change | None:
    """Return the drift or the moment that explains more of what all runs did; None for neither."""
    import numpy as np

    placed = sorted(
        (sample.started, sample.run, sample.environment)
        for sample in samples
        if sample.started is not None and sample.run in deviations
    )
    if len(placed) < FEWEST_RUNS:
        return None
    if len(placed) > MOST_RUNS:
        chosen = np.linspace(0, len(placed) - 1, MOST_RUNS).round().astype(int)
        placed = [placed[index] for index in chosen]
    times = np.array([time for time, _, _ in placed])
    values = np.array([deviations[run] for _, run, _ in placed])
    environments = np.array([environment for *_, environment in placed])
    if values.std() < LEAST_VARIATION or times[-1] == times[0]:
        return None
    drift, drift_share = _fit_drift(times, values)
    split, moment_share, difference = _find_split(values)
    seconds = float(times[-1] - times[0])
    is_moment = moment_share > drift_share and _is_no_chance(values, moment_share)
    if not is_moment and drift is None:
        return None
    size = difference if is_moment else drift
    assert size is not None
    shape = times >= times[split] if is_moment else (times - times[0]) / seconds
    if not _is_shared(shape.astype(float), values, environments, size):
        return None
    moment = float(times[split]) if is_moment else None
    return _keep_notable(Change(math.exp(size), seconds, moment))


def _is_shared(shape: Any, values: Any, environments: Any, size: float) -> bool:
    """Return whether each environment alone shows at least half of a change, in its direction.

    `shape` goes from 0 to 1 with the change. One environment that changed alone, as after an update
    of its image, is no matter of the machine.
    """
    import numpy as np

    for name in np.unique(environments):
        own = environments == name
        course = shape[own] - shape[own].mean()
        total = float((course**2).sum())
        if total == 0 or float((course * values[own]).sum()) / total / size < LEAST_SHARE:
            return False
    return True


def _keep_notable(change: Change) -> Change | None:
    return change if abs(math.log(change.factor)) >= math.log1p(NOTABLE) else None


def _fit_drift(times: Any, values: Any) -> tuple[float | None, float]:
    """Return how far a straight line goes from first to last, and its share of the variation.

    None for the first unless Spearman's ranks are correlated with time at P_TREND.
    """
    import numpy as np

    from experiments.statistics.special_functions import stdtr

    count = len(values)
    ranks = [np.argsort(np.argsort(each, kind="stable"), kind="stable") for each in (times, values)]
    rho = float(np.corrcoef(*ranks)[0, 1])
    slope, intercept = np.polyfit(times - times[0], values, 1)
    left = float(((values - intercept - slope * (times - times[0])) ** 2).sum())
    share = 1 - left / float((values**2).sum())
    statistic = abs(rho) * math.sqrt((count - 2) / max(1 - rho * rho, 1e-12))
    if 2 * float(stdtr(count - 2, -statistic)) > P_TREND:
        return None, share
    return float(slope * (times[-1] - times[0])), share


def _find_split(values: Any) -> tuple[int, float, float]:
    """Return where the mean changes most, the share that explains, and the difference of means."""
    share, split = (float(each[0]) for each in _score_splits(values[None, :]))
    index = int(split)
    return index, share, float(values[index:].mean() - values[:index].mean())


def _score_splits(rows: Any) -> tuple[Any, Any]:
    """Return of each row the largest share of its variation that one change of level explains."""
    import numpy as np

    count = rows.shape[1]
    first = np.arange(FEWEST_BESIDE, count - FEWEST_BESIDE + 1)
    sums = rows.cumsum(axis=1)
    before = sums[:, first - 1]
    total = sums[:, -1:]
    between = before**2 / first + (total - before) ** 2 / (count - first) - total**2 / count
    variation = (rows**2).sum(axis=1, keepdims=True) - total**2 / count
    shares = between / np.maximum(variation, 1e-300)
    best = shares.argmax(axis=1)
    return shares[np.arange(len(rows)), best], first[best]


def _is_no_chance(values: Any, share: float) -> bool:
    """Return whether few of the random orders have a split that explains as much."""
    import numpy as np

    draw = np.random.default_rng(SEED)
    shuffled = draw.permuted(np.tile(values, (REARRANGEMENTS, 1)), axis=1)
    shares, _ = _score_splits(shuffled)
    as_large = int((shares >= share - 1e-12).sum())
    return (as_large + 1) / (REARRANGEMENTS + 1) <= P_MOMENT


def _correlate_blocks(
    samples: Sequence[Sample], baseline: str, deviations: Mapping[str, float]
) -> float | None:
    """Return how the baseline and the others of the same block varied together."""
    import numpy as np

    sides: defaultdict[str, tuple[list[float], list[float]]] = defaultdict(lambda: ([], []))
    for sample in samples:
        if sample.run in deviations:
            sides[sample.block][sample.environment != baseline].append(deviations[sample.run])
    both = [(np.mean(own), np.mean(others)) for own, others in sides.values() if own and others]
    if len(both) < FEWEST_BASELINE:
        return None
    columns = np.array(both).T
    if not columns.std(axis=1).all():
        return None
    return float(np.corrcoef(columns)[0, 1])


def describe_unsteadiness(
    unsteady: Unsteadiness, baseline: str, metric: Measured, sampled: Sampled = NOTHING_SAMPLED
) -> str:
    """Return sentences on what was unsteady, what the node's samples show, and whether more blocks
    would help.
    """
    ends = (unsteady.low, unsteady.high)
    low, high = (numbers.beside(end, ends, metric.unit) for end in ends)
    runs = numbers.count(unsteady.runs, "run")
    deviation = numbers.percent(math.expm1(unsteady.variation), decimals=0)
    parts = [
        f"{baseline} itself varied between {low} and {high} in {runs} (standard deviation "
        f"{deviation})."
    ]
    if unsteady.change:
        parts.append(_describe_change(unsteady.change, metric))
    if seen := describe_coincidences(sampled, is_one_change=unsteady.change is not None):
        parts.append(seen)
    if unsteady.cancels:
        parts.append("Both sides of a block varied together, so most of it cancels in their ratio.")
    elif unsteady.change and sampled.coincidences:
        parts.append("More blocks will hardly help until that is mended.")
    elif unsteady.change:
        parts.append(
            "Something else ran on the node, or its clocks or temperature changed: more blocks "
            "will hardly help until that is known."
        )
    else:
        parts.append(
            "What the node did meanwhile stands with each run: look there before planning more."
        )
    return " ".join(parts)


def _describe_change(change: Change, metric: Measured) -> str:
    larger = change.factor > 1
    if metric.better is None:
        became = "larger" if larger else "smaller"
    else:
        became = "slower" if larger == (metric.better == "lower") else "faster"
    if metric.unit != "s" and metric.better is not None:
        became = "worse" if became == "slower" else "better"
    size = max(change.factor, 1 / change.factor)
    by = f"by a factor of {size:.1f}" if size >= 2 else f"by {100 * (size - 1):.0f} %"
    if change.moment is None:
        within = numbers.duration(change.seconds)
        return f"Baseline and environments alike became {became} {by} within {within}."
    at = datetime.fromtimestamp(change.moment, UTC)
    return f"From {at:%Y-%m-%d %H:%M} UTC on all of them were {became} {by}."
