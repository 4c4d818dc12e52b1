"""Distributions and curves of the steps inside runs: for figures, never for a test.

Steps of one run resemble each other, and runs differ; so pooled steps show tails, and loss curves
show whether two environments compute the same. The verdict comes from whole runs.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

from experiments.statistics import numbers
from experiments.statistics.run_bands import RunBand, make_band, take_stretches

MOST_RANKS = 240
"""Points of a tail: evenly spread on the log axis of shares, the longest steps all among them."""
MOST_POINTS = 8_000
"""Points of all curves of a figure, before steps are left out..."""
FEWEST_STEPS = 20
"""...but never more than leaves each run so many."""
DIGITS = 9
"""Significant digits of a drawn value: all that single precision has."""


def read_array(array_bytes: bytes | memoryview) -> Any:
    """Return a one-dimensional `float8[]`, as PostgreSQL's `array_send` sends it, as numpy array.

    The head has 20 bytes (12 if the array is empty); then come 4 bytes of length and 8 of float64
    for each number. ValueError where any number is NULL.
    """
    import numpy as np  # lazily: pages without steps do without

    if int.from_bytes(array_bytes[4:8], "big"):
        raise ValueError("The array holds NULL.")
    elements = np.dtype([("length", ">i4"), ("value", ">f8")])
    return np.frombuffer(array_bytes[20:], elements)["value"].astype(np.float64)


@dataclass(frozen=True)
class Tail:
    """The pooled steps of an environment's runs: the share of steps that took at least so long.

    `shares` falls from 1 (the shortest step) to 1 / steps (the longest); every point is a step
    that was measured. `values` are in the unit of the runs.
    """

    environment: str
    runs: int
    steps: int
    values: list[float]
    shares: list[float]
    quantiles: dict[float, float]
    """Share of steps that took at most so long -> the longest of them."""


QUANTILES = (0.5, 0.95, 0.99, 0.999, 1.0)


def pool_steps(environment: str, runs: Iterable[Sequence[float]]) -> Tail | None:
    """Return the empirical distribution of all steps of `runs`; None without steps."""
    import numpy as np

    run_arrays = [np.asarray(run, dtype=np.float64) for run in runs if len(run)]
    if not run_arrays:
        return None
    longest_first = np.sort(np.concatenate(run_arrays))[::-1]
    count = len(longest_first)
    ranks = np.unique(np.geomspace(1, count, MOST_RANKS).round().astype(int))[::-1]
    return Tail(
        environment=environment,
        runs=len(run_arrays),
        steps=count,
        values=[_rounded(value) for value in longest_first[ranks - 1]],
        shares=[_rounded(share) for share in ranks / count],
        quantiles={
            share: float(longest_first[count - max(int(np.ceil(share * count)), 1)])
            for share in QUANTILES
        },
    )


@dataclass(frozen=True)
class Curve:
    """One number of one run (or of many: the median), step by step or against seconds."""

    environment: str
    x: Sequence[float]
    y: Sequence[float]
    run: str = ""


@dataclass(frozen=True)
class Trained:
    """One run as it is read from the database: its seed and its losses, step by step."""

    run: str
    environment: str
    seed: Any
    """None where it is unknown: then the run is not compared."""
    losses: Sequence[float]
    places: Sequence[int] | None = None
    """The step of each loss; None: every step has one."""


@dataclass
class Agreement:
    """How the losses of an environment's runs compare with those of one run of the baseline."""

    environment: str
    runs: int = 0
    equal: int = 0
    first_step: int | None = None
    """The earliest step (from 1) at which any run differs."""
    largest: float = 0.0
    """The largest relative difference at any step of any run."""
    seeds: int = 0
    """The number of the baseline's seeds; 0 for other environments."""


@dataclass(frozen=True)
class Losses:
    """The loss curves of a group, their medians, and which runs of one seed agree."""

    curves: list[Curve] = field(default_factory=list)
    medians: list[Curve] = field(default_factory=list)
    agreements: list[Agreement] = field(default_factory=list)
    """The baseline's first: its own runs against one of them. Empty without known seeds."""
    drawn_steps: int = 0
    steps: int = 0
    bands: list[RunBand] = field(default_factory=list)
    """Of environments with three runs or more of the same steps: of stretches of many of them."""


def compare_losses(
    rows: Iterable[Trained], *, environments: Sequence[str], runs: int, steps: int
) -> Losses:
    """Return the loss curves to draw, their medians, and whether runs of a seed are bitwise equal.

    `environments` has the baseline first. The baseline's first run with a seed is the reference
    for the others of that seed; so its runs have to come before those of other environments.
    Runs that logged other steps than the first run have their curve, but no part in a median.
    `runs` and `steps` (of the longest run) are known beforehand, so that only the steps that are
    drawn are kept of each run, and one whole run a seed of the baseline.
    """
    import numpy as np

    drawn_per_run = min(steps, max(FEWEST_STEPS, MOST_POINTS // max(runs, 1)))
    drawn = np.unique(np.linspace(0, max(steps - 1, 0), drawn_per_run).round().astype(int))
    references: dict[Any, Any] = {}
    agreement_by_name: dict[str, Agreement] = {}
    curves_by_environment: dict[str, list[Any]] = {}
    runs_by_environment: dict[str, list[str]] = {}
    curves = []
    first: Any = None
    for row in rows:
        values = np.asarray(row.losses, dtype=np.float64)
        places = np.arange(1, len(values) + 1) if row.places is None else np.asarray(row.places)
        agreement = agreement_by_name.setdefault(row.environment, Agreement(row.environment))
        if row.seed is None:
            pass
        elif row.environment == environments[0] and row.seed not in references:
            references[row.seed] = values
            agreement.seeds += 1
        elif row.seed in references:
            _add_run(agreement, references[row.seed], values)
        drawn_of_run = drawn[drawn < len(values)]
        y = _round_all(values[drawn_of_run].tolist())
        curves.append(Curve(row.environment, places[drawn_of_run].tolist(), y, row.run))
        if first is None or (len(places) > len(first) and _has_same_steps(places, first)):
            first = places
        if _has_same_steps(places, first):
            padded = np.full(len(drawn), np.nan)
            padded[: len(drawn_of_run)] = values[drawn_of_run]
            curves_by_environment.setdefault(row.environment, []).append(padded)
            runs_by_environment.setdefault(row.environment, []).append(row.run)
    medians, bands = [], []
    for name in sorted(curves_by_environment, key=list(environments).index):
        table = np.array(curves_by_environment[name])
        has_value = ~np.isnan(table).all(axis=0)
        middle = np.nanmedian(table[:, has_value], axis=0)
        x = first[drawn[has_value]].tolist()
        medians.append(Curve(name, x, _round_all(middle.tolist())))
        band = make_band(name, runs_by_environment[name], *take_stretches(x, table[:, has_value]))
        bands += [band] if band else []
    agreements = (
        [agreement_by_name[name] for name in environments if name in agreement_by_name]
        if references
        else []
    )
    return Losses(curves, medians, agreements, len(drawn), steps, bands)


def describe_agreements(agreements: Sequence[Agreement], *, baseline: str) -> list[str]:
    """Return a sentence for each environment, the one about the baseline's repeatability first."""
    sentences = []
    for agreement in agreements:
        own = agreement.environment == baseline
        other = "its first run" if own else baseline
        if own and not agreement.runs:
            which = "this seed" if agreement.seeds == 1 else f"each of {agreement.seeds} seeds"
            sentences.append(
                f"{baseline} has one run of {which}: whether it is bitwise reproducible is "
                "not known."
            )
        elif not agreement.runs:
            sentences.append(f"{agreement.environment}: no run of {baseline} has the same seed.")
        elif agreement.equal == agreement.runs:
            sentences.append(
                f"{agreement.environment}: bitwise equal to {other} in "
                f"{_count_all(agreement.runs, own)}."
            )
        else:
            some = f"{agreement.runs - agreement.equal} of {agreement.runs}{' other' * own} runs"
            differs = f"in {some if agreement.equal else _count_all(agreement.runs, own)}"
            sentences.append(
                f"{agreement.environment}: differs from {other} {differs}, first at step "
                f"{agreement.first_step}; the largest relative difference is "
                f"{agreement.largest:.2g}."
                if agreement.first_step is not None
                else f"{agreement.environment}: equal to {other} as far as both go, but {differs} "
                "the number of steps differs."
            )
    return sentences


def _count_all(runs: int, other: bool) -> str:
    run = "other run" if other else "run"
    return f"its only {run}" if runs == 1 else numbers.all_of(runs, run)


def _has_same_steps(steps: Any, other: Any) -> bool:
    """Return whether two arrays of steps are the same as far as both go."""
    both = min(len(steps), len(other))
    return bool((steps[:both] == other[:both]).all())


def _add_run(agreement: Agreement, reference: Any, values: Any) -> None:
    """Add one run to `agreement`. Both are arrays of losses, compared as far as both go."""
    import numpy as np

    both = min(len(reference), len(values))
    reference_losses, run_losses = reference[:both], values[:both]
    agreement.runs += 1
    differing = np.flatnonzero(reference_losses != run_losses)
    if not len(differing):
        agreement.equal += len(reference) == len(values)
        return
    step = int(differing[0]) + 1
    agreement.first_step = min(step, agreement.first_step or step)
    reference_part, run_part = reference_losses[differing], run_losses[differing]
    relative = np.abs(reference_part - run_part) / np.maximum(
        np.abs(reference_part), np.abs(run_part)
    )
    agreement.largest = max(agreement.largest, float(relative.max()))


def _round_all(values: list[float]) -> list[float]:
    """Return the values with DIGITS digits; by one format for all, since there are thousands."""
    return [float(text) for text in (f"%.{DIGITS}g " * len(values) % tuple(values)).split()]


def _rounded(value: Any) -> float:
    return float(f"{value:.{DIGITS}g}")
