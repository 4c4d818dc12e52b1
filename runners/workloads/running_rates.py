"""Computes the rates between rates that are means of all steps so far, as of tf_cnn_benchmarks.

The last printed rate is that of all steps. The time between two of them is the difference of the
times that they imply.
"""

from __future__ import annotations

from collections.abc import Sequence

COARSEST = 0.01
"""Times per step that rounding alone could change by more than this share are not shown."""


def compute_seconds_per_step(
    steps: Sequence[int], rates: Sequence[float], batch: float
) -> list[float]:
    """Return the mean time per step since the step before in `steps` (from 0), in seconds.

    `rates` are images per second on the mean of all steps so far. With T_k = k * batch / rate_k,
    the time of the first k steps, each value is a difference of T divided by the number of steps.
    """
    totals = [step * batch / rate for step, rate in zip(steps, rates, strict=True)]
    before = [(0, 0.0), *zip(steps, totals, strict=True)]
    return [
        (total - total_before) / (step - step_before)
        for step, total, (step_before, total_before) in zip(steps, totals, before, strict=False)
    ]


def join_whole_intervals(
    steps: Sequence[int], times: Sequence[float]
) -> tuple[list[int], list[float]]:
    """Join step 1, which is displayed by itself, with the rest of its interval: 1, 10, 20...

    An interval of one step among intervals of ten would pass for one of them.
    """
    if len(steps) < 3 or steps[0] >= steps[1] or steps[2] - steps[1] != steps[1]:
        return list(steps), list(times)
    first = (steps[0] * times[0] + (steps[1] - steps[0]) * times[1]) / steps[1]
    return list(steps[1:]), [first, *times[2:]]


def is_fine_enough(steps: Sequence[int], rates: Sequence[float], *, printed_step: float) -> bool:
    """Return whether rates rounded to `printed_step` give each time per step within `COARSEST`.

    The rounding error of a mean over k steps is multiplied by k / (later - earlier) in the steps
    since the last mean.
    """
    half = printed_step / 2
    for earlier, later, rate in zip([0, *steps], steps, rates, strict=False):
        if (later + earlier) / (later - earlier) * half / rate > COARSEST:
            return False
    return True


def compute_rates_between(
    steps: Sequence[int], rates: Sequence[float], *, printed_step: float
) -> tuple[list[int], list[float]]:
    """Return the last step of each interval, and its rate; empty lists if digits are too few.

    Raises ValueError if these are no running means of one run.
    """
    for earlier, later in zip([0, *steps], steps, strict=False):
        if later <= earlier:
            raise ValueError(f"step {later} comes after step {earlier}: that is no single run")
    for step, rate in zip(steps, rates, strict=True):
        if rate <= 0:
            raise ValueError(f"{rate:g} at step {step} is no rate: it must be above zero")
    if not is_fine_enough(steps, rates, printed_step=printed_step):
        return [], []
    times = compute_seconds_per_step(steps, rates, 1)
    for step, seconds in zip(steps, times, strict=True):
        if seconds <= 0:
            raise ValueError(
                f"the steps up to {step} would have taken no time: a mean since step 1 cannot "
                "change so"
            )
    intervals, times = join_whole_intervals(steps, times)
    return intervals, [1 / seconds for seconds in times]
