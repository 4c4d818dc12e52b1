"""Change points in the medians of ten steps: they show where the start-up of a run ends.

As Barrett et al. (OOPSLA'17) tell the shapes of runs apart, with a penalty and a rule of half that
docs/statistics.md gives. Nothing here knows which environment a run ran in.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from experiments.statistics import numbers

Array = Any  # numpy's own types are not followed by our mypy

BLOCK = 10
"""Steps whose median is one point; one slow step in a hundred does not move it."""
MOST_BLOCKS = 1000
"""Longer series have larger blocks: the search takes time with the square of their number."""
FEWEST_BLOCKS = 20
"""With fewer, more than 5 of 100 level runs are taken for something else (simulated)."""
SHORTEST = 3
"""Blocks of the shortest segment."""
PENALTY = 6.0
"""Of one more segment, times ln(number of blocks); in squared robust standard deviations."""
SAME = 1.0
"""Levels that differ by less, in robust standard deviations of a block, are one level."""
LEAST = 0.5
"""Of a run that the steady segment must hold."""
TREND_LEVEL = 0.01
MAD_TO_SD = 1.4826


class Shape(StrEnum):
    """The course of a run's steps."""

    FLAT = "flat"
    WARM_UP = "warm-up"
    SLOWDOWN = "slowdown"
    NONE = "no steady state"
    TOO_SHORT = "too short to tell"


@dataclass(frozen=True)
class SteadyState:
    """The steady state of one run; all places are numbers of steps from the start."""

    shape: Shape
    block_steps: int
    """Steps in a block."""
    warm_up: int | None = None
    """Steps before the cut; None where no steady state was found."""
    steady_from: int | None = None
    """Where the last level begins. After the cut in a slowdown, which is never cut away."""
    trend: float | None = None
    """Kendall's tau of the blocks after the cut with time: above 0 the run slows down."""
    trend_p: float | None = None

    @property
    def has_trend(self) -> bool:
        return self.trend_p is not None and self.trend_p < TREND_LEVEL

    @property
    def sentence(self) -> str:
        """Return the shape as a sentence."""
        if self.shape is Shape.FLAT:
            return f"Flat: nothing at the start is slower than the rest. {self._little}"
        if self.shape is Shape.WARM_UP:
            first = "step is" if self.warm_up == 1 else f"{self.warm_up:,} steps are"
            return f"Warm-up: the first {first} slower; steady from there."
        if self.shape is Shape.SLOWDOWN:
            start = (
                f"Its first {self.warm_up:,} steps are slower and are cut; others"
                if (self.warm_up or 0) > self.block_steps
                else f"{self._little} Some steps"
            )
            return (
                f"Slowdown: the last level begins at step {(self.steady_from or 0) + 1:,}. {start} "
                "before it were faster and stay, as part of the run."
            )
        if self.shape is Shape.NONE:
            return "No steady state: no level holds for the last half of the run."
        return (
            f"Too short to tell whether it settles: that takes {FEWEST_BLOCKS} blocks of "
            f"{self.block_steps:,} steps."
        )

    @property
    def trend_sentence(self) -> str:
        """Return a sentence about the trend after the cut; empty where there is none."""
        if not self.has_trend or self.trend is None:
            return ""
        course = "slows down" if self.trend > 0 else "speeds up"
        what = "It" if self.warm_up is None else "What is left"
        return (
            f"{what} {course} with time (Kendall’s tau {numbers.fixed(self.trend, 2)}, p "
            f"{numbers.p_value(self.trend_p)} if blocks were independent); nothing is cut for that."
        )

    @property
    def _little(self) -> str:
        first = "step is" if self.warm_up == 1 else f"{self.warm_up:,} steps are"
        return f"Only the first {first} cut."


def find(values: Sequence[float], ends: Sequence[int] | None = None) -> SteadyState:
    """Find the start-up of one run from its seconds per step, in order.

    A log may give means of several steps: `ends` then holds the last step of each value. What is
    left after the last full block is not looked at. ValueError names the step that is not finite.
    """
    import numpy as np  # lazily, as in estimates

    times, last = _arrays(values, ends)
    if not np.isfinite(times).all():
        wrong = int(np.argmin(np.isfinite(times)))
        raise ValueError(f"Step {last[wrong]} takes {times[wrong]} s, which is no time.")
    size = _values_a_block(last)
    count = len(times) // size
    block_steps = int(last[-1] - last[-1 - size]) if count > 1 else BLOCK
    if count < FEWEST_BLOCKS:
        return SteadyState(Shape.TOO_SHORT, block_steps)
    blocks = np.median(times[: count * size].reshape(count, size), axis=1)
    starts, levels = _segments(blocks)
    shape, cut, steady = _shape(starts, levels, count)
    if shape is Shape.NONE:
        return SteadyState(shape, block_steps, None, None, *compute_kendall(blocks))
    # A first step that compiles a program hides in the median of the first block.
    cut = max(cut, 1)
    before = [0, *last[size - 1 :: size].tolist()]
    return SteadyState(
        shape, block_steps, before[cut], before[steady], *compute_kendall(blocks[cut:])
    )


def compute_tail_means(
    values: Sequence[float], ends: Sequence[int] | None = None
) -> dict[int, float]:
    """Return the mean over the remaining steps for each cut after a full block."""
    import numpy as np

    times, last = _arrays(values, ends)
    steps = np.diff(last, prepend=0)
    size = _values_a_block(last)
    # From the end, so that the sums of short tails are not what is left of large ones.
    sums, counts = (np.cumsum(each[::-1])[::-1] for each in (times * steps, steps))
    starts = np.arange(0, len(times) - size + 1, size)
    cut = (last - steps)[starts].tolist()
    return dict(zip(cut, (sums[starts] / counts[starts]).tolist(), strict=True))


def _arrays(values: Sequence[float], ends: Sequence[int] | None) -> tuple[Array, Array]:
    import numpy as np

    times = np.asarray(values, dtype=float)
    return times, np.arange(1, len(times) + 1) if ends is None else np.asarray(ends, dtype=int)


def _values_a_block(last: Array) -> int:
    """Return the number of values in a block: at least BLOCK, at most MOST_BLOCKS blocks."""
    import numpy as np

    usual = int(np.median(np.diff(last))) if len(last) > 1 else 1
    return max(-(-BLOCK // usual), -(-len(last) // MOST_BLOCKS))


def _segments(blocks: Array) -> tuple[list[int], list[float]]:
    """Return where each segment begins, and its level in robust SDs of a block."""
    import numpy as np

    deviation = _block_deviation(blocks)
    if deviation <= 1e-12 * np.abs(blocks).max():
        return [0], [0.0]
    heights = (blocks - blocks.mean()) / deviation
    ends = find_change_points(heights, PENALTY * math.log(len(blocks)))
    starts = [0, *ends[:-1]]
    levels = [float(heights[a:b].mean()) for a, b in zip(starts, ends, strict=True)]
    return starts, levels


def _block_deviation(blocks: Array) -> float:
    """Return the SD of a block, from differences of neighbours: levels do not matter.

    Robust; where most neighbours are equal, as in rounded times, the ordinary one.
    """
    import numpy as np

    differences = np.diff(blocks)
    robust = MAD_TO_SD * np.median(np.abs(differences - np.median(differences)))
    return float(robust or differences.std()) / math.sqrt(2)


def find_change_points(heights: Array, penalty: float) -> list[int]:
    """Return the ends of the segments with the least sum of squares plus `penalty` for each.

    The optimum of `ruptures.Pelt(model="l2", min_size=3, jump=1)`, by the dynamic programme that
    PELT prunes (Jackson et al. 2005; Killick et al. 2012).
    """
    import numpy as np

    count = len(heights)
    sums = np.concatenate([[0.0], np.cumsum(heights)])
    squares = np.concatenate([[0.0], np.cumsum(heights**2)])
    cost = np.full(count + 1, np.inf)
    cost[0] = 0.0
    begins: Array = np.zeros(count + 1, dtype=int)
    for end in range(SHORTEST, count + 1):
        start = np.arange(end - SHORTEST + 1)
        rest = squares[end] - squares[start] - (sums[end] - sums[start]) ** 2 / (end - start)
        candidates = cost[start] + rest + penalty
        begins[end] = best = int(np.argmin(candidates))
        cost[end] = candidates[best]
    ends: list[int] = []
    end = count
    while end > 0:
        ends.append(end)
        end = int(begins[end])
    return ends[::-1]


def _shape(starts: list[int], levels: list[float], count: int) -> tuple[Shape, int, int]:
    """Return the shape, the block of the cut and the block where the steady segment begins."""
    ends = [*starts[1:], count]
    lengths = [end - start for start, end in zip(starts, ends, strict=True)]

    def level(first: int) -> float:
        """Of all blocks from segment `first` on."""
        total = math.fsum(x * n for x, n in zip(levels[first:], lengths[first:], strict=True))
        return total / sum(lengths[first:])

    steady = len(starts) - 1
    while steady and abs(levels[steady - 1] - level(steady)) < SAME:
        steady -= 1
    if count - starts[steady] < LEAST * count:
        return Shape.NONE, 0, starts[steady]
    above = [levels[i] - level(steady) for i in range(steady)]
    # Only what is slow at the very start is start-up. What is fast there is part of the run, and
    # so is what was slow for a while later on.
    cut = next((i for i, height in enumerate(above) if height < SAME), steady)
    if any(height <= -SAME for height in above):
        return Shape.SLOWDOWN, starts[cut], starts[steady]
    return (Shape.WARM_UP if cut else Shape.FLAT), starts[cut], starts[steady]


def compute_kendall(values: Array) -> tuple[float | None, float | None]:
    """Return Kendall's tau-b with time and its two-sided p (normal, corrected for ties).

    As `scipy.stats.kendalltau(range(n), values, method="asymptotic")`. None where all are equal.
    """
    import numpy as np

    n = len(values)
    concordant = int(np.sign(np.subtract.outer(values, values))[np.tril_indices(n, -1)].sum())
    ties = np.unique(values, return_counts=True)[1]
    untied = n * (n - 1) / 2 - float((ties * (ties - 1)).sum()) / 2
    if not untied:
        return None, None
    variance = (n * (n - 1) * (2 * n + 5) - float((ties * (ties - 1) * (2 * ties + 5)).sum())) / 18
    tau = concordant / math.sqrt(n * (n - 1) / 2 * untied)
    return tau, math.erfc(abs(concordant) / math.sqrt(2 * variance))
