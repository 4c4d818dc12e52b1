"""Training equivalence: did two environments train alike? A run that trains wrongly is not fast.

Runs of the same seed are compared bitwise. Where they differ, what matters is whether they end
farther apart than a change of the seed alone would make them; so the spread between the seeds of
the baseline is the yardstick.

With b and e the last losses of n seeds that both environments have, and S the standard deviation of
the last losses between the m seeds of the baseline (all on logs, if every loss is above zero):

- apart = RMS(e - b) / (sqrt(2) S): 1 if as far apart as two seeds of the baseline are;
- p of "no farther apart", by F(n, m - 1) of apart²: some runs may lie too far off; and p of "not
  shifted", by Student's t of e - b, 1 unless their mean is more than S. Twice the smaller one is
  the p of the environment. Beyond the noise, if Holm's correction over the whole study leaves it
  below 2 %.

Where the seeds are unknown nothing pairs the runs. Then d = e - mean(b), and the sum of d² less
(sum of d)² / (n + m), over n S², is F(n, m - 1); the shift is Student's t of both.

What the digits printed may hide, and less than 0.1 % of a loss or 0.1 points of an accuracy, is no
difference. An environment whose runs come out as those of the baseline with other seeds do is
within the noise.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from experiments.statistics.training.outcomes import Ending, Outcome, TrainingComparison
from experiments.statistics.values import Better

LEVEL = 0.02
"""Probability that a study calls any environment which trains alike "beyond the noise"."""
FLOOR = 0.001
"""Smaller differences of a loss (relative) or of an accuracy (a share) count as none."""
MOST_DECIMALS = 6
"""A printed number with more decimals is taken as not rounded."""
LEARNT = 0.1
"""A baseline whose loss falls by a smaller share of its first value has learnt nothing."""
FEWEST_SEEDS = 3
"""With fewer seeds the noise between seeds is unknown."""
FAR = 0.1
"""A loss that lacks a larger share of the baseline's fall is worse by far, whatever the noise."""


def compare_trainings(
    endings: Sequence[Ending],
    *,
    baseline: str,
    environments: Sequence[str],
    what: str = "loss",
    better: Better = "lower",
    seeds_known: bool = True,
) -> list[TrainingComparison]:
    """Compare the training of each environment that has runs with that of the baseline.

    The first comparison is of the baseline with itself; none at all without runs of the baseline.
    `endings` are in the order of the plan: the first run of a seed is the reference for the
    others. Losses are compared relatively if all are above zero, accuracies never.
    """
    is_relative = what == "loss" and all(ending.last > 0 for ending in endings)
    runs_by_environment = {
        name: _group_by_draw([ending for ending in endings if ending.environment == name])
        for name in (baseline, *(name for name in environments if name != baseline))
    }
    baseline_runs = runs_by_environment.pop(baseline)
    if not baseline_runs:
        return []
    means = {draw: _mean_of_last(runs, is_relative) for draw, runs in baseline_runs.items()}
    seed_sd = statistics.stdev(means.values()) if len(means) >= FEWEST_SEEDS else 0.0
    shared_fields: dict[str, Any] = {
        "baseline": baseline,
        "what": what,
        "better": better,
        "seeds_known": seeds_known,
        "is_relative": is_relative,
        "baseline_seeds": len(baseline_runs),
        "seed_sd": seed_sd or None,
    }
    comparisons = [
        _compare_repeats(
            TrainingComparison(environment=baseline, outcome=Outcome.ALONE, **shared_fields),
            baseline_runs,
        )
    ]
    least = _least_difference([ending.last for ending in endings], is_relative)
    for name, environment_runs in runs_by_environment.items():
        if environment_runs:
            blank = TrainingComparison(environment=name, outcome=Outcome.ALONE, **shared_fields)
            compare = _compare_by_seed if seeds_known else _compare_unpaired
            comparisons.append(compare(blank, baseline_runs, environment_runs, least))
    return decide_with_holm(comparisons)


def decide_with_holm(comparisons: Sequence[TrainingComparison]) -> list[TrainingComparison]:
    """Return `comparisons` with their outcomes after Holm's correction for their number."""
    ordered = sorted((row.p, i) for i, row in enumerate(comparisons) if row.p is not None)
    adjusted, largest_so_far = list(comparisons), 0.0
    for rank, (p, i) in enumerate(ordered):
        largest_so_far = max(largest_so_far, min(1.0, p * (len(ordered) - rank)))
        outcome = Outcome.BEYOND if largest_so_far < LEVEL else Outcome.WITHIN
        adjusted[i] = replace(comparisons[i], p_holm=largest_so_far, outcome=outcome)
    return adjusted


def _compare_repeats(
    comparison: TrainingComparison, baseline_runs: dict[str, list[Ending]]
) -> TrainingComparison:
    """Compare the baseline's runs of each seed with its first run of that seed.

    Where the seeds are unknown they may all be the same: all runs against the first.
    """
    groups = list(baseline_runs.values())
    if not comparison.seeds_known:
        groups = [[run for runs in groups for run in runs]]
    repeats = [(run, runs[0]) for runs in groups for run in runs[1:]]
    equal = sum(run.equals(first) for run, first in repeats)
    largest = max(
        (_distance(run, first, comparison.is_relative) for run, first in repeats), default=None
    )
    outcome = Outcome.EQUAL if repeats and equal == len(repeats) else comparison.outcome
    return replace(
        comparison,
        outcome=outcome,
        runs=len(repeats),
        equal=equal,
        seeds=len(baseline_runs),
        largest=largest,
    )


def _compare_by_seed(
    comparison: TrainingComparison,
    baseline_runs: dict[str, list[Ending]],
    environment_runs: dict[str, list[Ending]],
    least: float,
) -> TrainingComparison:
    """Compare each run with the baseline's first run of the same seed."""
    shared = [draw for draw in environment_runs if draw in baseline_runs]
    pairs = [(run, baseline_runs[draw][0]) for draw in shared for run in environment_runs[draw]]
    if not pairs:
        return comparison
    differences = [
        _mean_of_last(environment_runs[draw], comparison.is_relative)
        - _mean_of_last(baseline_runs[draw], comparison.is_relative)
        for draw in shared
    ]
    rms = math.sqrt(statistics.fmean(d * d for d in differences))
    comparison = replace(
        comparison,
        runs=len(pairs),
        equal=sum(run.equals(other) for run, other in pairs),
        seeds=len(shared),
        rms=rms,
        largest=max(_distance(run, other, comparison.is_relative) for run, other in pairs),
        shift=statistics.fmean(differences),
        apart=rms / (math.sqrt(2) * comparison.seed_sd) if comparison.seed_sd else None,
    )
    if comparison.seed_sd and comparison.equal < comparison.runs:
        beyond_floor = [_beyond_floor(d, least) for d in differences]
        squares = statistics.fmean(d * d for d in beyond_floor) / (2 * comparison.seed_sd**2)
        se = (
            statistics.stdev(differences) / math.sqrt(len(beyond_floor))
            if beyond_floor[1:]
            else math.inf
        )
        shift = _p_shifted(
            _beyond_floor(comparison.shift or 0.0, least),
            comparison.seed_sd,
            se,
            len(beyond_floor) - 1,
        )
        comparison = replace(
            comparison, p=_p_alike(squares, len(beyond_floor), comparison.baseline_seeds, shift)
        )
    compared_baseline = [run for draw in shared for run in baseline_runs[draw]]
    return _decide_without_p(
        comparison,
        compared_baseline,
        [run for draw in shared for run in environment_runs[draw]],
        baseline_runs,
    )


def _compare_unpaired(
    comparison: TrainingComparison,
    baseline_runs: dict[str, list[Ending]],
    environment_runs: dict[str, list[Ending]],
    least: float,
) -> TrainingComparison:
    """Compare all runs with all of the baseline: a run's repeat says nothing about its seed."""
    baseline_endings = [run for runs in baseline_runs.values() for run in runs]
    environment_endings = [run for runs in environment_runs.values() for run in runs]
    baseline_values, environment_values = (
        [_scaled(run.last, comparison.is_relative) for run in runs]
        for runs in (baseline_endings, environment_endings)
    )
    baseline_mean, n, m = (
        statistics.fmean(baseline_values),
        len(environment_values),
        len(baseline_values),
    )
    differences = [value - baseline_mean for value in environment_values]
    comparison = replace(
        comparison,
        runs=n,
        equal=_count_equal_to_any(environment_endings, baseline_endings),
        seeds=n,
        rms=math.sqrt(statistics.fmean(d * d for d in differences)),
        largest=max(map(abs, differences)),
        shift=statistics.fmean(differences),
    )
    if seed_sd := comparison.seed_sd:
        comparison = replace(
            comparison, apart=math.sqrt(_sum_of_squares(differences, m) / n) / seed_sd
        )
        if comparison.equal < n:
            squares = (
                _sum_of_squares([_beyond_floor(d, least) for d in differences], m) / n / seed_sd**2
            )
            # If it trains alike, its runs vary as much: both tell how much that is.
            environment_mean = statistics.fmean(environment_values)
            within = (m - 1) * seed_sd**2 + math.fsum(
                (value - environment_mean) ** 2 for value in environment_values
            )
            se = math.sqrt(within / (n + m - 2) * (1 / n + 1 / m))
            shift = _p_shifted(
                _beyond_floor(comparison.shift or 0.0, least), seed_sd, se, n + m - 2
            )
            comparison = replace(comparison, p=_p_alike(squares, n, m, shift))
    return _decide_without_p(comparison, baseline_endings, environment_endings, baseline_runs)


def _count_equal_to_any(runs: Sequence[Ending], others: Sequence[Ending]) -> int:
    """Return how many of `runs` are the same as any of `others`, bitwise."""
    digests = {ending.digest for ending in others if ending.digest}
    lasts = {ending.last for ending in others}
    return sum(
        run.digest in digests if run.digest and digests else run.last in lasts for run in runs
    )


def _sum_of_squares(differences: Sequence[float], baseline_runs: int) -> float:
    """Return the sum of squares, less what is due to the error of the baseline's mean."""
    total = math.fsum(differences)
    return math.fsum(d * d for d in differences) - total**2 / (len(differences) + baseline_runs)


def _least_difference(values: Sequence[float], is_relative: bool) -> float:
    """Return the size up to which a difference counts as none: rounding, or too small to matter."""
    for decimals in range(MOST_DECIMALS + 1):
        if all(abs(round(value, decimals) - value) <= 1e-12 * abs(value) for value in values):
            smallest = min(map(abs, values)) if is_relative else 1.0
            return max(FLOOR, 10.0**-decimals / smallest)
    return FLOOR


def _beyond_floor(difference: float, least: float) -> float:
    return math.copysign(max(abs(difference) - least, 0.0), difference)


def _p_alike(squares: float, runs: int, baseline_runs: int, p_shift: float) -> float:
    """Return twice the smaller p of two tests: F of the squared differences, t of the shift."""
    # Lazily: half a second that few pages need.
    from experiments.statistics.special_functions import fdtrc

    return min(1.0, 2 * min(float(fdtrc(runs, baseline_runs - 1, squares)), p_shift))


def _p_shifted(shift: float, seed_sd: float, se: float, df: float) -> float:
    """Return the p of no shift, by Student's t; 1 where the shift is within the noise."""
    from experiments.statistics.special_functions import stdtr

    if abs(shift) <= seed_sd or se == math.inf:
        return 1.0
    return 0.0 if se == 0 else float(2 * stdtr(df, -abs(shift) / se))


def _decide_without_p(
    comparison: TrainingComparison,
    baseline_endings: Sequence[Ending],
    environment_endings: Sequence[Ending],
    baseline_runs: dict[str, list[Ending]],
) -> TrainingComparison:
    """Set the outcome as far as it is known without p; `decide_with_holm` decides by p later."""
    if comparison.what == "loss":
        comparison = replace(
            comparison,
            lacks=_missing_share_of_fall(baseline_endings, environment_endings, comparison.better),
        )
    if comparison.equal == comparison.runs:
        return replace(comparison, outcome=Outcome.EQUAL, p=None)
    if comparison.p is not None:
        return replace(comparison, outcome=Outcome.WITHIN)
    worst = max(run.last for runs in baseline_runs.values() for run in runs)
    last = statistics.fmean(run.last for run in environment_endings)
    is_worse = comparison.lacks is not None and comparison.lacks > FAR and last > worst
    return replace(comparison, outcome=Outcome.WORSE if is_worse else Outcome.UNKNOWN)


def _missing_share_of_fall(
    baseline_endings: Sequence[Ending], environment_endings: Sequence[Ending], better: Better
) -> float | None:
    """Return which share of the baseline's fall from first to last loss the environment lacks.

    None where the baseline itself learnt nothing: its loss fell by less than a tenth, or by less
    than its own runs differ.
    """
    firsts = [run.first for run in baseline_endings if run.first is not None]
    if not firsts or better != "lower":
        return None
    lasts = [run.last for run in baseline_endings]
    first, last = statistics.fmean(firsts), statistics.fmean(lasts)
    fall = first - last
    if fall <= LEARNT * abs(first) or fall <= max(lasts) - min(lasts):
        return None
    return (statistics.fmean(run.last for run in environment_endings) - last) / fall


def _group_by_draw(endings: Sequence[Ending]) -> dict[str, list[Ending]]:
    endings_by_draw: dict[str, list[Ending]] = {}
    for ending in endings:
        endings_by_draw.setdefault(ending.draw, []).append(ending)
    return endings_by_draw


def _mean_of_last(runs: Sequence[Ending], is_relative: bool) -> float:
    if len(runs) == 1:  # the usual case, for thousands of runs
        return _scaled(runs[0].last, is_relative)
    return statistics.fmean(_scaled(run.last, is_relative) for run in runs)


def _distance(ending: Ending, other: Ending, is_relative: bool) -> float:
    return abs(_scaled(ending.last, is_relative) - _scaled(other.last, is_relative))


def _scaled(value: float, is_relative: bool) -> float:
    return math.log(value) if is_relative else value
