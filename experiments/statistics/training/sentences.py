"""Sentences about training equivalence, one for each environment."""

from __future__ import annotations

import math

from experiments.statistics import numbers
from experiments.statistics.training.outcomes import Outcome, TrainingComparison

MOST_PLAIN = 0.0005
"""A smaller relative difference is not written in per cent."""


def write_sentence(training: TrainingComparison) -> str:
    """Return the sentence about one environment's training, with the environment's name."""
    return f"{training.environment}: {describe_training(training)}"


def describe_training(training: TrainingComparison) -> str:
    """Return the sentence about one environment's training, without the environment's name."""
    if training.environment == training.baseline:
        return _describe_baseline(training)
    if training.outcome is Outcome.ALONE:
        return f"no run of {training.baseline} has the same seed."
    if training.outcome is Outcome.EQUAL:
        runs = (
            "in its only run"
            if training.runs == 1
            else f"in {numbers.all_of(training.runs, 'run')}"
        )
        if training.what == "loss":
            return f"bitwise equal to {training.baseline} {runs}."
        return f"the same {training.what} as {training.baseline} {runs}."
    if not training.seeds_known:
        return _describe_unpaired(training)
    some = (
        "its only run"
        if training.runs == 1
        else f"{training.runs - training.equal} of {training.runs} runs"
    )
    head = (
        f"differs from {training.baseline} in {some}, the last {training.what} by "
        f"{_size(training, training.largest)} at most"
    )
    if training.outcome in (Outcome.WITHIN, Outcome.BEYOND):
        return f"{head}; {_describe_distance(training)}"
    unknown = f"The noise between {_draws(training)} is unknown: {_why_unknown(training)}"
    if training.outcome is Outcome.WORSE:
        return (
            f"{head}. Its loss fell {numbers.percent(training.lacks, decimals=0)} less far than "
            f"that of {training.baseline}: worse by far. {unknown}."
        )
    return f"{head}. {unknown}."


def _describe_unpaired(training: TrainingComparison) -> str:
    """Return the sentence about runs with unknown seeds, compared with all of the baseline."""
    side = "higher" if (training.shift or 0) > 0 else "lower"
    head = (
        f"{numbers.count(training.runs, 'run')} against {training.baseline_seeds} of "
        f"{training.baseline} with unknown seeds, the last {training.what} "
        f"{_size(training, abs(training.shift or 0))} {side} on average"
    )
    if training.outcome in (Outcome.WITHIN, Outcome.BEYOND):
        where = "within" if training.outcome is Outcome.WITHIN else "beyond"
        return (
            f"{head}; {where} the noise between runs (SD {_size(training, training.seed_sd)}, n = "
            f"{training.baseline_seeds}{_describe_p(training)})."
        )
    unknown = f"The noise between runs is unknown: {_why_unknown(training)}."
    if training.outcome is Outcome.WORSE:
        lacks = numbers.percent(training.lacks, decimals=0)
        return f"{head}. Its loss fell {lacks} less far: worse by far. {unknown}"
    return f"{head}. {unknown}"


def _describe_p(training: TrainingComparison) -> str:
    return "" if training.p_holm is None else f", p after Holm {numbers.p_value(training.p_holm)}"


def explain_stamp(training: TrainingComparison) -> str:
    """Return the reason for the stamp on the environment's verdict."""
    return f"{write_sentence(training)} A run that trains otherwise is not comparable in speed."


def _describe_baseline(training: TrainingComparison) -> str:
    """Return the baseline's seeds, their spread, and whether its runs are bitwise reproducible."""
    spread = f"{_size(training, training.seed_sd)} between them (SD)"
    spread_between = f"the last {training.what} varies by {spread}"
    if not training.seeds_known:
        count = f"{training.seeds} run{'s' * (training.seeds != 1)} whose seeds are not known"
        if training.outcome is Outcome.EQUAL:
            return f"{count}, all {'bitwise ' * (training.what == 'loss')}equal."
        return f"{count}; {spread_between}." if training.seed_sd else f"{count}."
    runs = training.runs + training.seeds
    runs_and_spread = (
        f"{training.seeds} seeds; {spread_between}"
        if training.seed_sd
        else f"{training.seeds} seeds"
    )
    if not training.runs:
        if training.what != "loss" and training.seed_sd:
            return f"{spread_between}."  # the rest was said of its losses
        if training.seeds == 1:
            return "one run of one seed, so whether it repeats itself is not known."
        return f"one run of each of {runs_and_spread}."
    of_seeds = f" of {runs_and_spread}" if training.seeds > 1 else " of one seed"
    if training.equal == training.runs:
        if training.what != "loss":
            return f"repeats its {training.what} in {numbers.all_of(runs, 'run')}{of_seeds}."
        if training.seeds == 1:
            return f"bitwise reproducible ({runs} of {runs} runs, same seed)."
        return f"bitwise reproducible in {numbers.all_of(runs, 'run')}{of_seeds}."
    return (
        f"does not repeat itself; {training.runs - training.equal} of {runs} runs{of_seeds} differ "
        f"from the first of the same seed, the last {training.what} by "
        f"{_size(training, training.largest)} at most."
    )


def _describe_distance(training: TrainingComparison) -> str:
    """Return how far apart the pairs are, in units of the distance between two seeds."""
    side = "higher" if (training.shift or 0) > 0 else "lower"
    within = training.outcome is Outcome.WITHIN
    shifted = (
        "" if within else f"; on average it is {_size(training, abs(training.shift or 0))} {side}"
    )
    times = numbers.factor(training.apart) if (training.apart or 0) >= 0.01 else "less than 0.01"
    return (
        f"{times} times as far as two {_draws(training)} of {training.baseline} (RMS): "
        f"{'within' if within else 'beyond'} the noise between {_draws(training)} "
        f"(SD {_size(training, training.seed_sd)}, n = {training.baseline_seeds}){shifted}."
    )


def _draws(training: TrainingComparison) -> str:
    return "seeds" if training.seeds_known else "runs"


def _why_unknown(training: TrainingComparison) -> str:
    if training.baseline_seeds == 1:
        return "one seed" if training.seeds_known else "one run"
    if training.baseline_seeds == 2:
        return f"two {_draws(training)} are too few"
    return f"all {_draws(training)} of {training.baseline} end alike"


def _size(training: TrainingComparison, value: float | None) -> str:
    """Return a difference or spread as text: relative for logs, points for an accuracy."""
    if value is None:
        return numbers.MISSING
    if training.what != "loss":
        return f"{100 * value:.2g} points"
    if not training.is_relative:
        return f"{value:.2g}"
    share = math.expm1(min(value, 700.0))
    if share >= 0.1:
        return f"{100 * share:,.0f} %"
    return f"{100 * share:.2g} %" if share >= MOST_PLAIN else f"a relative {share:.1g}"
