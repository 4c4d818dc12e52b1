"""Shares of wrong verdicts in simulated experiments, and the bands in which they must lie."""

from collections.abc import Iterator, Mapping

from experiments.statistics.calibration.bands import (
    Band,
    Effort,
    compute_share,
    compute_slack,
)
from experiments.statistics.margins import Goal, Margin
from experiments.statistics.values import Verdict
from experiments.statistics.vectorised import Estimates

MARGIN = 0.02
NOT_SLOWER = Margin.make(Goal.NOT_SLOWER, MARGIN)
UNEVEN = Margin(slower=0.05, faster=0.02)


def measure_errors(estimates: Estimates) -> tuple[float, float, float]:
    """Return false alarms, coverage, and false equivalence at the worse end of the margin."""
    at_margin = [estimates.times(ratio) for ratio in (1 + MARGIN, 1 / (1 + MARGIN))]
    return (
        compute_alarm_share(estimates),
        compute_share(estimates.covers(1)),
        max(compute_share(each.p_equivalence(MARGIN) < 0.05) for each in at_margin),
    )


def list_error_bands(
    who: str,
    measured: Mapping[str, tuple[float, float, float]],
    effort: Effort,
    *,
    alarms: float,
    coverage: float,
) -> Iterator[Band]:
    """Yield the bands of false alarms, coverage and false equivalence."""
    by_kind = [{name: errors[kind] for name, errors in measured.items()} for kind in range(3)]
    yield Band(f"false alarms, {who}", by_kind[0], high=alarms, slack=compute_slack(alarms, effort))
    yield Band(
        f"coverage of the 95 % interval, {who}",
        by_kind[1],
        low=coverage,
        slack=compute_slack(coverage, effort),
    )
    yield Band(
        f"equivalence proved at the margin, {who}",
        by_kind[2],
        high=0.055,
        slack=compute_slack(0.055, effort),
    )


def measure_wrong_verdicts(estimates: Estimates) -> tuple[float, ...]:
    """Return shares of: different though the same, equivalent at the margin, wrong way round.

    Then of NOT SLOWER at the margin, and of EQUIVALENT at the worse end of an uneven margin.
    """
    at_ratio_one, slower, faster = (
        estimates.times(ratio).verdicts(MARGIN) for ratio in (1, 1 + MARGIN, 1 / (1 + MARGIN))
    )
    return (
        compute_share((at_ratio_one == Verdict.SLOWER) | (at_ratio_one == Verdict.FASTER)),
        max(compute_share(each == Verdict.EQUIVALENT) for each in (slower, faster)),
        max(compute_share(slower == Verdict.FASTER), compute_share(faster == Verdict.SLOWER)),
        compute_share(estimates.times(1 + MARGIN).verdicts(NOT_SLOWER) == Verdict.NOT_SLOWER),
        max(
            compute_share(estimates.times(ratio).verdicts(UNEVEN) == Verdict.EQUIVALENT)
            for ratio in UNEVEN.find_bounds("lower")
        ),
    )


def list_verdict_bands(wrong: Mapping[str, tuple[float, ...]], effort: Effort) -> Iterator[Band]:
    """Yield the bands of wrong verdicts."""
    different, equivalent, reverse, not_slower, uneven = (
        {name: shares[kind] for name, shares in wrong.items()} for kind in range(5)
    )
    # At a run-to-run variation of 10 % few runs cannot tell which way 2 % go, whatever the method:
    # the sign of a false alarm is then a toss-up, and half of 5 % is more than this band allows.
    reverse = {name: share for name, share in reverse.items() if "10 %" not in name}
    for promise, shares, high in (
        ("SLOWER or FASTER although the ratio is 1", different, 0.055),
        ("EQUIVALENT although the ratio is at the margin", equivalent, 0.055),
        ("SLOWER although faster by the margin, or the reverse", reverse, 0.005),
        ("NOT SLOWER although the ratio is at the margin", not_slower, 0.055),
        ("EQUIVALENT although at an end of −2 % to +5 %", uneven, 0.055),
    ):
        yield Band(promise, shares, high=high, slack=compute_slack(high, effort))


def compute_alarm_share(estimates: Estimates) -> float:
    """Return how often a difference is called one."""
    return compute_share(estimates.p_difference < 0.05)
