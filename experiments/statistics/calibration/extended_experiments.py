"""Calibration of extensions: how often the first verdict or the one after it is wrong.

Whoever extends after an open verdict errs more often than in 5 %. What the stamp says of that is
computed; here it is held against experiments whose truth is known.
"""

from collections.abc import Iterator, Mapping
from typing import Any

from experiments.statistics import vectorised
from experiments.statistics.calibration import several_nodes, truths
from experiments.statistics.calibration.bands import Band, Effort, compute_share, compute_slack
from experiments.statistics.extension_levels import compute_error_rates, compute_extension_level
from experiments.statistics.margins import Goal, Margin
from experiments.statistics.values import ALPHA
from experiments.statistics.vectorised import Array, Estimates

MARGIN = 0.02
NOT_SLOWER = Margin.make(Goal.NOT_SLOWER, MARGIN)
CASES = ((5, 1), (5, 5), (5, 15), (10, 5), (10, 10), (10, 30), (20, 20))
"""How many repeats were planned, and how many were added."""
NAIVE = (10, 10)
"""The case in which no stricter level is taken, for the control."""
ESTIMATES = {
    "independent": vectorised.estimate_unpaired,
    "paired": vectorised.estimate_paired,
}
ALARM, EQUIVALENT, PROVED_NOT_SLOWER = "alarm", "equivalent", "not slower"
PROMISES = {
    ALARM: "false alarms of an extended experiment",
    EQUIVALENT: "equivalence proved at the margin, extended",
    PROVED_NOT_SLOWER: "NOT SLOWER at the margin, extended",
}


def list_bands(rng: Any, effort: Effort) -> Iterator[Band]:
    """Yield bands of errors at either verdict, and of how far they exceed what the stamp says.

    Errors are counted at any of both, whether or not another verdict had ended the experiment
    before: whoever extends only after an open verdict is wrong no more often.
    """
    measured = {kind: dict[str, float]() for kind in PROMISES}
    beyond = {kind: dict[str, float]() for kind in PROMISES}
    for case, first, added, paired, estimates in _simulate(rng, effort):
        level = compute_extension_level(first, added)
        rates = compute_error_rates(first, added, level, paired=paired)
        stated = dict.fromkeys(PROMISES, rates.goal) | {ALARM: rates.difference}
        for kind, share in count_errors(*estimates, level).items():
            measured[kind][case] = share
            beyond[kind][case] = share - stated[kind]
    for kind, promise in PROMISES.items():
        yield Band(promise, measured[kind], high=0.08, slack=compute_slack(0.08, effort))
        yield Band(
            f"{promise}: beyond what the stamp says",
            beyond[kind],
            high=0.005,
            slack=compute_slack(0.075, effort),
        )
    first, added = NAIVE
    arms = [rng.normal(0, 0.01, (effort.data_sets, first + added)) for _ in range(2)]
    estimates = _estimate_twice("paired", arms, first)
    rates = compute_error_rates(*NAIVE, compute_extension_level(*NAIVE), paired=True)
    yield Band(
        "the same false alarms, extended and judged at 5 % again",
        {f"{first} + {added}": count_errors(*estimates, ALPHA)[ALARM] - rates.difference},
        high=0.005,
        control=True,
    )


def _simulate(
    rng: Any, effort: Effort
) -> Iterator[tuple[str, int, int, bool, tuple[Estimates, Estimates]]]:
    """Yield each case with its repeats, whether it is paired, and the estimates of both verdicts.

    The last ones are verdicts on the partition, one block a node.
    """
    for first, added in CASES:
        shape = (effort.data_sets, first + added)
        for name, draw in truths.SHAPES.items():
            for design in ESTIMATES:
                arms = [draw(rng, shape) for _ in range(2)]
                case = f"{name}, {design}, {first} + {added}"
                yield case, first, added, design == "paired", _estimate_twice(design, arms, first)
        baseline, noise = (rng.normal(0, several_nodes.RUN_SD, shape) for _ in range(2))
        ratios = several_nodes.draw_ratios(rng, effort.data_sets, (1,) * (first + added), 0.02)
        estimates = _estimate_twice("paired", [baseline, noise + ratios], first)
        yield f"partition, a node each, {first} + {added}", first, added, True, estimates


def _estimate_twice(design: str, arms: list[Array], first: int) -> tuple[Estimates, Estimates]:
    """Return the estimates of the first repeats, and of all."""
    estimate = ESTIMATES[design]
    return estimate(*(arm[:, :first] for arm in arms)), estimate(*arms)


def count_errors(first: Estimates, last: Estimates, level: float) -> Mapping[str, float]:
    """Return the shares of wrong verdicts of either analysis, the last one at `level`."""
    judged = ((first, ALPHA), (last, level))
    alarm: Array = False
    not_slower: Array = False
    equivalent: list[Array] = [False, False]
    for estimates, alpha in judged:
        alarm = alarm | (estimates.p_difference < alpha)
        for side, ratio in enumerate((1 + MARGIN, 1 / (1 + MARGIN))):
            proved = estimates.times(ratio).p_equivalence(MARGIN) < alpha
            equivalent[side] = equivalent[side] | proved
        not_slower = not_slower | (estimates.times(1 + MARGIN).p_equivalence(NOT_SLOWER) < alpha)
    return {
        ALARM: compute_share(alarm),
        EQUIVALENT: max(map(compute_share, equivalent)),
        PROVED_NOT_SLOWER: compute_share(not_slower),
    }
