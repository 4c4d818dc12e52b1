"""Loss curves over their whole length: does an environment make any difference, at any step?

One test for the whole curve, so that nobody has to choose a step. Curves are thinned to means of
bins of steps that all runs have. With d the differences environment - baseline of n blocks (or
seeds) in one bin, and RMS their root mean square, the statistic is the largest |mean(d)| / RMS over
all bins; it orders data as the largest |t| does. If the environment makes no difference, its run
and the baseline's might change places in any block, which flips all signs of that block's curve
at once. So p is the share of such flips that give at least as large a statistic: exact, however
the losses are distributed and however much each step resembles the one before it.

Where nothing pairs the runs it is the share of permutations of their labels, and RMS is that of
all runs around their common mean.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from experiments.statistics.training.curve_permutations import flip_signs, permute_labels
from experiments.statistics.training.end_pairs import ComparedBy
from experiments.statistics.training.equivalence import FLOOR
from experiments.statistics.values import ALPHA

MOST_BINS = 200
"""Points of a curve: a training of 100,000 steps has means of 500 steps."""


@dataclass(frozen=True, kw_only=True)
class ThinCurve:
    """The losses of one run, thinned: the mean of each bin."""

    run: str
    environment: str
    draw: str
    block: str
    values: tuple[float, ...]
    diverged_at: int | None = None
    """The first step at which the loss was no number any more; then `values` are of no use."""


@dataclass(frozen=True, kw_only=True)
class CurvePair:
    """The curves of one environment's losses and those of the baseline.

    Differences are of logarithms, and so relative, if `is_relative`; else in the loss's own unit.
    """

    environment: str
    baseline: str
    by: ComparedBy
    n: int = 0
    n_baseline: int = 0
    n_environment: int = 0
    steps: int = 0
    """How many steps all runs have, and so are compared."""
    longest: int = 0
    """How many the longest run has."""
    is_relative: bool = False
    p: float | None = None
    arrangements: int = 0
    is_exact: bool = True
    """Whether all arrangements were counted, and not some drawn at random."""
    at_step: int | None = None
    """The last step of the bin with the largest statistic."""
    largest: float | None = None
    """The mean difference there."""
    x: tuple[int, ...] = ()
    """The last step of each bin."""
    difference: tuple[float, ...] = ()
    """The mean difference in each bin."""
    band: tuple[float, ...] = ()
    """How far from 0 chance takes it: it leaves this band only if p is 5 % or less. Empty where no
    arrangement is rare enough."""
    smallest_p: float | None = None
    """The smallest p that so many blocks or runs can have."""
    why_not: str = ""
    """Why there is no p."""
    diverged: Mapping[str, int] | None = None
    """Runs whose loss was no number any more, by environment; no curve contains them."""

    @property
    def is_different(self) -> bool:
        return self.p is not None and self.p <= ALPHA

    @property
    def has_too_few(self) -> bool:
        """Return whether there are so few values that no difference could reach 5 %."""
        return self.smallest_p is not None and self.smallest_p > ALPHA

    @property
    def columns(self) -> dict[str, Any]:
        """Return the test as a flat row for files, without its curve."""
        return {
            "environment": self.environment,
            "baseline": self.baseline,
            "p": self.p,
            "smallest_possible_p": self.smallest_p,
            "arrangements": self.arrangements or None,
            "all_arrangements": self.is_exact if self.arrangements else None,
            "compared_by": str(self.by),
            "n": self.n,
            "n_baseline": self.n_baseline,
            "n_environment": self.n_environment,
            "steps_compared": self.steps,
            "steps_of_the_longest_run": self.longest,
            "points": len(self.x),
            "scale": "ln" if self.is_relative else "as it is",
            "largest_at_step": self.at_step,
            "mean_difference_there": self.largest,
            "runs_diverged": sum((self.diverged or {}).values()),
            "why_nothing_can_be_said": self.why_not,
        }


def find_common_steps(places: Iterable[tuple[int, Sequence[int] | None]]) -> Any:
    """Return the steps that all runs have, in their order, as an array.

    `places` has, for each run, the number of its losses and the step of each; None: every step
    from 1 on has one.
    """
    import numpy as np  # lazily: pages without losses do without

    shortest = None
    common: Any = None
    for count, steps in places:
        if steps is None:
            shortest = count if shortest is None else min(shortest, count)
            continue
        own = np.unique(np.asarray(steps, dtype=np.int64))
        common = own if common is None else np.intersect1d(common, own, assume_unique=True)
    if common is None:
        return np.arange(1, (shortest or 0) + 1)
    return common if shortest is None else common[common <= shortest]


def split_into_bins(count: int) -> Any:
    """Return where each bin of so many steps begins: at most `MOST_BINS`, nearly of one size."""
    import numpy as np

    bins = min(count, MOST_BINS)
    return np.unique(np.linspace(0, count, bins + 1)[:-1].round().astype(np.int64))


def average_bins(
    values: Sequence[float], steps: Sequence[int] | None, common: Any, starts: Any
) -> tuple[tuple[float, ...], int | None]:
    """Return the mean of each bin of common steps, and the first step without a finite loss.

    Looks for such a step in all losses of the run, the common ones or not.
    """
    import numpy as np

    losses = np.asarray(values, dtype=np.float64)
    places = np.arange(1, len(losses) + 1) if steps is None else np.asarray(steps)
    broken = np.flatnonzero(~np.isfinite(losses))
    if len(broken):
        return (), int(places[broken[0]])
    if not len(common):
        return (), None
    chosen = losses[common - 1] if steps is None else losses[_find_places(places, common)]
    sizes: Any = np.diff(np.append(starts, len(common)))
    return tuple((np.add.reduceat(chosen, starts) / sizes).tolist()), None


def _find_places(places: Any, common: Any) -> Any:
    """Return the index of each common step; of one that was logged twice, the first."""
    import numpy as np

    own, firsts = np.unique(places, return_index=True)
    return firsts[np.searchsorted(own, common)]


def compare_curves(
    curves: Sequence[ThinCurve],
    common: Any,
    *,
    baseline: str,
    by: Mapping[str, ComparedBy],
    longest: int = 0,
    diverged: Mapping[str, int] | None = None,
) -> list[CurvePair]:
    """Compare the curves of each environment in `by` with those of the baseline.

    `by` says what one value of it is, and `common` are the steps that were thinned. Curves of runs
    that diverged are counted and left out; `diverged` counts further ones, which left no curve.
    """
    counts = dict(diverged or {})
    for curve in curves:
        if curve.diverged_at is not None:
            counts[curve.environment] = counts.get(curve.environment, 0) + 1
    finite = [curve for curve in curves if curve.diverged_at is None]
    own_curves = [curve for curve in finite if curve.environment == baseline]
    ends = _find_bin_ends(common)
    pairs = []
    for name, unit in by.items():
        if name == baseline:
            continue
        blank = CurvePair(
            environment=name,
            baseline=baseline,
            by=unit,
            steps=len(common),
            longest=max(longest, len(common)),
            diverged={key: counts[key] for key in (baseline, name) if counts.get(key)},
        )
        runs = [curve for curve in finite if curve.environment == name]
        pairs.append(_compare(blank, own_curves, runs, ends))
    return pairs


def _find_bin_ends(common: Any) -> list[int]:
    """Return the last step of each bin."""
    if not len(common):
        return []
    starts = split_into_bins(len(common))
    return [int(common[place - 1]) for place in (*starts[1:], len(common))]


def _compare(
    pair: CurvePair,
    baseline: Sequence[ThinCurve],
    environment: Sequence[ThinCurve],
    ends: Sequence[int],
) -> CurvePair:
    import numpy as np

    pair = replace(pair, n_baseline=len(baseline), n_environment=len(environment))
    if not ends or not baseline or not environment:
        return replace(pair, why_not="no step has a loss of both" if not ends else "no run of both")
    is_relative = all(min(curve.values) > 0 for curve in (*baseline, *environment))
    scale = np.log if is_relative else np.asarray
    tables = [_average_by_unit(curves, pair.by, scale) for curves in (baseline, environment)]
    if pair.by is ComparedBy.RUN:
        arms = [np.array(list(table.values())) for table in tables]
    else:
        shared = [unit for unit in tables[0] if unit in tables[1]]
        arms = [np.array([table[unit] for unit in shared]) for table in tables]
        if not shared:
            return replace(pair, why_not=f"no {pair.by} has runs of both")
    difference = arms[1].mean(axis=0) - arms[0].mean(axis=0)
    # A difference that nobody would call another training counts as none; of losses that are not
    # all above zero it is a share of how far they fall.
    floor = FLOOR if is_relative else FLOOR * float(np.ptp(arms[0].mean(axis=0)))
    n = len(arms[0]) if pair.by is not ComparedBy.RUN else min(map(len, arms))
    pair = replace(
        pair,
        n=n,
        is_relative=is_relative,
        x=tuple(ends),
        difference=tuple(difference.tolist()),
    )
    if n < 2:
        unit = "run of each" if pair.by is ComparedBy.RUN else str(pair.by)
        return replace(pair, why_not=f"one {unit} says nothing about how much curves vary")
    if pair.by is ComparedBy.RUN:
        test = permute_labels(arms[0], arms[1], floor)
    else:
        test = flip_signs(arms[1] - arms[0], floor)
    if test is None:
        return replace(pair, why_not="no difference is larger than 0.1 % of a loss")
    place = int(test.place)
    band = () if test.critical is None else tuple((test.critical * test.scale + floor).tolist())
    return replace(
        pair,
        p=test.p,
        arrangements=test.arrangements,
        is_exact=test.is_exact,
        at_step=ends[place],
        largest=float(difference[place]),
        band=band,
        smallest_p=test.smallest_p,
    )


def _average_by_unit(curves: Sequence[ThinCurve], by: ComparedBy, scale: Any) -> dict[str, Any]:
    """Return the mean curve of each seed, block or run, on the scale."""
    import numpy as np

    curves_by_unit: dict[str, list[Any]] = {}
    for curve in curves:
        unit = {ComparedBy.SEED: curve.draw, ComparedBy.BLOCK: curve.block}.get(by, curve.run)
        curves_by_unit.setdefault(unit, []).append(scale(np.array(curve.values)))
    return {unit: np.mean(own, axis=0) for unit, own in curves_by_unit.items()}
