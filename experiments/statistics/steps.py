"""What the steps inside runs look like: for the eye, never for a test.

Steps of one run resemble each other, and runs differ; so pooled steps show tails, and loss curves
show whether two environments compute the same. The verdict comes from whole runs.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

from experiments.statistics import numbers

MOST_RANKS = 240
"""Points of a tail: evenly spread on the log axis of shares, the longest steps all among them."""
MOST_POINTS = 10_000
"""Points of all curves of a figure, before steps are left out..."""
FEWEST_STEPS = 20
"""...but never more than leaves each run so many."""
DIGITS = 9
"""Significant digits of a drawn value: all that single precision has."""


def read_array(sent: bytes | memoryview) -> Any:
    """The numbers of a one-dimensional `float8[]` as PostgreSQL's `array_send` gives it.

    20 bytes of head (12 if it is empty), then 4 bytes of length and 8 of number for each; as
    numpy's array of float64. ValueError where any number is NULL.
    """
    import numpy as np  # lazily: pages without steps do without

    if int.from_bytes(sent[4:8], "big"):
        raise ValueError("The array holds NULL.")
    elements = np.dtype([("length", ">i4"), ("value", ">f8")])
    return np.frombuffer(sent[20:], elements)["value"].astype(np.float64)


@dataclass(frozen=True)
class Tail:
    """The steps of an environment's runs, pooled: which share of them took at least how long.

    `shares` falls from 1 (the shortest step) to 1 / steps (the longest); every point is a step
    that was measured.
    """

    environment: str
    runs: int
    steps: int
    values: list[float]
    shares: list[float]
    quantiles: dict[float, float]
    """Share of steps that took at most so long -> the longest of them."""


QUANTILES = (0.5, 0.95, 0.99, 0.999, 1.0)


def tail(environment: str, runs: Iterable[Sequence[float]]) -> Tail | None:
    """The empirical distribution of all steps of `runs`, each run a list; None without steps."""
    import numpy as np

    kept = [np.asarray(run, dtype=np.float64) for run in runs if len(run)]
    if not kept:
        return None
    longest_first = np.sort(np.concatenate(kept))[::-1]
    count = len(longest_first)
    ranks = np.unique(np.geomspace(1, count, MOST_RANKS).round().astype(int))[::-1]
    return Tail(
        environment=environment,
        runs=len(kept),
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
    """One run as it is read: its seed and its losses, step by step."""

    run: str
    environment: str
    seed: Any
    """None where nobody knows it: then the run is not compared."""
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
    """Of the baseline: how many it has a run of."""


@dataclass(frozen=True)
class Losses:
    curves: list[Curve] = field(default_factory=list)
    medians: list[Curve] = field(default_factory=list)
    agreements: list[Agreement] = field(default_factory=list)
    """The baseline's first: its own runs against one of them. Empty without known seeds."""
    drawn_steps: int = 0
    steps: int = 0


def losses(
    rows: Iterable[Trained], *, environments: Sequence[str], runs: int, steps: int
) -> Losses:
    """Thin out, take medians, and compare to the bit runs of the same seed.

    `environments` has the baseline first. The first run of it with a seed is what the others of
    that seed are compared with; so its runs have to come before those of the other environments.
    Runs that logged other steps than the first run have their curve, but no part in a median.
    `runs` and `steps` (the longest run) say how much is coming: of each run only the steps that
    are drawn are kept, and of the baseline one whole run a seed.
    """
    import numpy as np

    each = min(steps, max(FEWEST_STEPS, MOST_POINTS // max(runs, 1)))
    drawn = np.unique(np.linspace(0, max(steps - 1, 0), each).round().astype(int))
    references: dict[Any, Any] = {}
    found: dict[str, Agreement] = {}
    kept: dict[str, list[Any]] = {}
    curves = []
    first: Any = None
    for row in rows:
        values = np.asarray(row.losses, dtype=np.float64)
        places = np.arange(1, len(values) + 1) if row.places is None else np.asarray(row.places)
        agreement = found.setdefault(row.environment, Agreement(row.environment))
        if row.seed is None:
            pass
        elif row.environment == environments[0] and row.seed not in references:
            references[row.seed] = values
            agreement.seeds += 1
        elif row.seed in references:
            _compare(agreement, references[row.seed], values)
        at = drawn[drawn < len(values)]
        y = [_rounded(value) for value in values[at]]
        curves.append(Curve(row.environment, places[at].tolist(), y, row.run))
        if first is None or (len(places) > len(first) and _alike(places, first)):
            first = places
        if _alike(places, first):
            padded = np.full(len(drawn), np.nan)
            padded[: len(at)] = values[at]
            kept.setdefault(row.environment, []).append(padded)
    medians = []
    for name in sorted(kept, key=list(environments).index):
        table = np.array(kept[name])
        some = ~np.isnan(table).all(axis=0)
        middle = np.nanmedian(table[:, some], axis=0)
        x = first[drawn[some]].tolist()
        medians.append(Curve(name, x, [_rounded(value) for value in middle]))
    agreements = [found[name] for name in environments if name in found] if references else []
    return Losses(curves, medians, agreements, len(drawn), steps)


def agreement_words(agreements: Sequence[Agreement], *, baseline: str) -> list[str]:
    """A sentence for each environment, the baseline's own repeatability first."""
    words = []
    for one in agreements:
        own = one.environment == baseline
        other = "its first run" if own else baseline
        if own and not one.runs:
            which = "this seed" if one.seeds == 1 else f"each of {one.seeds} seeds"
            words.append(
                f"{baseline} has one run of {which}: whether it repeats itself to the bit is "
                "not known."
            )
        elif not one.runs:
            words.append(f"{one.environment}: no run of {baseline} has the same seed.")
        elif one.equal == one.runs:
            words.append(
                f"{one.environment}: equal to {other} to the bit in {_all(one.runs, own)}."
            )
        else:
            some = f"{one.runs - one.equal} of {one.runs}{' other' * own} runs"
            differs = f"in {some if one.equal else _all(one.runs, own)}"
            words.append(
                f"{one.environment}: differs from {other} {differs}, first at step "
                f"{one.first_step}; the largest relative difference is {one.largest:.2g}."
                if one.first_step is not None
                else f"{one.environment}: equal to {other} as far as both go, but {differs} the "
                "number of steps differs."
            )
    return words


def _all(runs: int, other: bool) -> str:
    run = "other run" if other else "run"
    return f"its only {run}" if runs == 1 else numbers.all_of(runs, run)


def _alike(one: Any, other: Any) -> bool:
    """Whether two arrays of steps are the same as far as both go."""
    both = min(len(one), len(other))
    return bool((one[:both] == other[:both]).all())


def _compare(agreement: Agreement, reference: Any, values: Any) -> None:
    """Add one run. Both are arrays of losses; what only one has does not count as a step."""
    import numpy as np

    both = min(len(reference), len(values))
    ours, theirs = reference[:both], values[:both]
    agreement.runs += 1
    differing = np.flatnonzero(ours != theirs)
    if not len(differing):
        agreement.equal += len(reference) == len(values)
        return
    step = int(differing[0]) + 1
    agreement.first_step = min(step, agreement.first_step or step)
    one, other = ours[differing], theirs[differing]
    relative = np.abs(one - other) / np.maximum(np.abs(one), np.abs(other))
    agreement.largest = max(agreement.largest, float(relative.max()))


def _rounded(value: Any) -> float:
    return float(f"{value:.{DIGITS}g}")
