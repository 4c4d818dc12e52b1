"""Training equivalence at the end of runs: is the difference within a margin in its own unit?

The same rules as for speed (`verdicts.decide`), on the values as they are: two one-sided tests of
environment - baseline. One value is a seed that both have, the mean of its runs; where all runs
have the same seed, or nobody knows it, a block of a paired design; else a single run, by Welch.
"""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from experiments.statistics.arms import Arms
from experiments.statistics.multiple_comparisons import adjust_by_holm
from experiments.statistics.training.end_pairs import (
    ComparedBy,
    EndPair,
    TrainingStamp,
    TrainingVerdict,
)
from experiments.statistics.training.outcomes import Ending
from experiments.statistics.values import ALPHA, Sample

POINTS = 100
"""Accuracies are read as shares of 1."""


def compare_ends(
    endings: Sequence[Ending],
    *,
    baseline: str,
    environments: Sequence[str],
    what: str = "loss",
    seeds_known: bool = True,
    paired: bool = True,
    alpha: float = ALPHA,
    diverged: Mapping[str, int] | None = None,
    excluded: Mapping[str, int] | None = None,
    stopped_early: bool = False,
) -> list[EndPair]:
    """Compare the last values of each environment that has runs with those of the baseline.

    Without margins: `EndPair.judge` gives a verdict. `diverged` counts, by environment, the runs
    that have no end because their loss was no number any more, `excluded` those that persons have
    excluded. With several interim analyses
    planned, `alpha` is the level of each.
    """
    counts = diverged or {}
    own_runs = [ending for ending in endings if ending.environment == baseline]
    pairs = []
    for name in environments:
        runs = [ending for ending in endings if ending.environment == name]
        if name == baseline or not (runs or counts.get(name)):
            continue
        by = choose_unit(own_runs, runs, seeds_known=seeds_known, paired=paired)
        pairs.append(
            _estimate(
                EndPair(
                    environment=name,
                    baseline=baseline,
                    what=what,
                    by=by,
                    alpha=alpha,
                    one_seed=seeds_known and len({run.draw for run in (*own_runs, *runs)}) == 1,
                    diverged=_count_both(diverged, name, baseline),
                    excluded=_count_both(excluded, name, baseline),
                    stopped_early=stopped_early,
                ),
                own_runs,
                runs,
            )
        )
    return pairs


def _count_both(counts: Mapping[str, int] | None, name: str, baseline: str) -> int:
    """Return the runs of both sides of a pair."""
    return sum((counts or {}).get(side, 0) for side in (name, baseline))


def choose_unit(
    baseline: Sequence[Ending],
    environment: Sequence[Ending],
    *,
    seeds_known: bool,
    paired: bool,
) -> ComparedBy:
    """Return what one independent value is, and so what pairs the runs of both.

    Runs of one seed start alike and see the same data, so that a block tells nothing beyond its
    seed, however many blocks share it.
    """
    draws = {run.draw for run in baseline} | {run.draw for run in environment}
    shared = {run.draw for run in baseline} & {run.draw for run in environment}
    if seeds_known and len(draws) > 1 and shared:
        return ComparedBy.SEED
    return ComparedBy.BLOCK if paired else ComparedBy.RUN


def correct_ends_by_holm(pairs: Sequence[EndPair]) -> list[EndPair]:
    """Return the pairs with p values adjusted for their number, each question on its own.

    The family is all verdicts on the training of one study. A verdict that its adjusted p no
    longer supports keeps its word and is stamped. Pairs without a verdict are not in the family.
    """
    judged = [pair for pair in pairs if pair.verdict is not None]
    differences = adjust_by_holm([pair.p_difference for pair in judged])
    equivalences = adjust_by_holm([pair.p_equivalence for pair in judged])
    family = sum(p is not None for p in differences)
    adjusted = iter(zip(differences, equivalences, strict=True))
    return [
        pair if pair.verdict is None else _adjust(pair, *next(adjusted), family) for pair in pairs
    ]


def _adjust(
    pair: EndPair, p_difference: float | None, p_equivalence: float | None, family: int
) -> EndPair:
    pair = replace(pair, p_difference_holm=p_difference, p_equivalence_holm=p_equivalence)
    deciding = {
        TrainingVerdict.EQUIVALENT: p_equivalence,
        TrainingVerdict.DIFFERENT: p_difference,
    }.get(pair.verdict or TrainingVerdict.NO_INFERENCE)
    if deciding is None or deciding <= pair.alpha:
        return pair
    reason = f"Among {family} verdicts on training the adjusted p is {deciding:.2g}."
    return replace(
        pair,
        stamps=(*pair.stamps, TrainingStamp.NOT_AFTER_HOLM),
        reasons=(*pair.reasons, reason),
    )


def _estimate(
    pair: EndPair, baseline_runs: Sequence[Ending], environment_runs: Sequence[Ending]
) -> EndPair:
    """Return the pair with all numbers that need no margin."""
    arms = Arms.of(
        _make_samples(baseline_runs, pair.by),
        _make_samples(environment_runs, pair.by),
        paired=pair.by is not ComparedBy.RUN,
    )
    scale = 1 if pair.what == "loss" else POINTS
    estimate = arms.estimate(lambda value: scale * value)
    values_b, values_e = (
        [scale * sample.value for sample in arm] for arm in (arms.baseline, arms.environment)
    )
    known: dict[str, Any] = {
        "n_baseline": len(values_b),
        "n_environment": len(values_e),
        "n": len(arms.blocks) if arms.paired else min(len(values_b), len(values_e)),
        "baseline_mean": statistics.fmean(values_b) if values_b else None,
        "baseline_sd": statistics.stdev(values_b) if values_b[1:] else None,
        "environment_mean": statistics.fmean(values_e) if values_e else None,
        "environment_sd": statistics.stdev(values_e) if values_e[1:] else None,
    }
    if estimate is None:
        unit = f"{pair.by} with runs" if arms.paired else "run"
        return replace(pair, **known, flaw=f"no {unit} of both")
    known["difference"] = estimate.log_ratio
    if estimate.flaw:
        return replace(pair, **known, flaw=estimate.flaw)
    low, high = estimate.log_interval(1 - 2 * pair.alpha)
    return replace(
        pair,
        **known,
        se=estimate.se,
        df=estimate.df,
        ci95=estimate.log_interval(1 - pair.alpha),
        ci90=(low, high),
        p_difference=estimate.p_difference,
        smallest_margin=max(-low, high),
    )


def _make_samples(runs: Sequence[Ending], by: ComparedBy) -> list[Sample]:
    return [
        Sample(run.run, run.draw if by is ComparedBy.SEED else run.block, run.environment, run.last)
        for run in runs
    ]
