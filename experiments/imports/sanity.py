"""Checks that the numbers in a run's log agree with each other, before they are compared."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from typing import Any

from experiments.imports.benchmark_logger import Metrics
from experiments.imports.problems import ImportProblem

OVERRUN = 1.2
"""Steps may seem to take this much longer than the time that passed: clocks are coarse."""
SLACK_SECONDS = 2.0


def find_batch(path: str, parameters: dict[str, Any]) -> float:
    """Return the batch size of a run. ImportProblem if it is no positive number."""
    batch = parameters.get("batch_size")
    if isinstance(batch, bool) or not isinstance(batch, int | float) or not 0 < batch < 1e9:
        raise ImportProblem(f"{path}: the batch size is {batch!r}; it must be above zero.")
    return batch


def _devices(parameters: dict[str, Any]) -> list[str]:
    return re.findall(r"[cgt]pu:\d+", str(parameters.get("devices", "")).lower())


def count_gpus(path: str, parameters: dict[str, Any]) -> int:
    """Return the number of GPUs of a run. ImportProblem if its devices are not known."""
    devices = _devices(parameters)
    if not devices:
        raise ImportProblem(f"{path} does not say on which devices it ran.")
    return sum(not device.startswith("cpu") for device in devices)


def check_devices(path: str, parameters: dict[str, Any], batch: float) -> None:
    """Raise ImportProblem for a batch size that is not that of all devices together."""
    each, count = parameters.get("batch_size_per_device"), len(_devices(parameters))
    if isinstance(each, bool) or not isinstance(each, int | float):
        return
    if abs(each * count - batch) > 0.5:
        raise ImportProblem(
            f"{path}: the batch size is {batch:g}, but {count} device{'s' * (count != 1)} with "
            f"{each:g} each make {each * count:g}."
        )


def check_clock(path: str, metrics: Metrics, batch: float) -> None:
    """Raise ImportProblem for steps that would have taken longer than the time that passed."""
    if len(metrics.steps) < 2 or not metrics.began_at or not metrics.stepped_at:
        return
    totals = [metrics.steps[i] * batch / metrics.rates[i] for i in (0, -1)]
    needed = totals[1] - totals[0]
    passed = (metrics.stepped_at - metrics.began_at).total_seconds()
    if needed > OVERRUN * passed + SLACK_SECONDS:
        raise ImportProblem(
            f"{path}: with a batch size of {batch:g} the steps {metrics.steps[0]} to "
            f"{metrics.steps[-1]} take {needed:.0f} s; its time stamps say {passed:.0f} s. One of "
            "the two is wrong."
        )


def check_times(path: str, steps: Sequence[int], times: Sequence[float]) -> None:
    """Raise ImportProblem if a time per step is not positive and finite."""
    for step, seconds in zip(steps, times, strict=True):
        if not 0 < seconds < math.inf:
            raise ImportProblem(
                f"{path}: by its speeds the steps up to {step} took {seconds:g} s each; a mean "
                "since step 1 cannot change so."
            )


def describe_failure(
    path: str, metrics: Metrics, parameters: dict[str, Any], *, exists: bool
) -> tuple[str, str]:
    """Return why the run gives no number, in short and in full; two empty texts if it does."""
    if not exists:
        return "no metrics", f"{path} is missing: the run ended before it logged a step."
    if metrics.diverged_at:
        where = f"{path}, line {metrics.diverged_at}"
        return "loss is not a number", f"{where}: the training diverged."
    if metrics.cut_at:
        return "log cut off", f"{path}, line {metrics.cut_at}: the line has no end."
    if metrics.average is None:
        last = metrics.steps[-1] if metrics.steps else 0
        whole = parameters.get("num_batches")
        of = f" of {whole}" if whole else ""
        return (
            "unfinished",
            f"{path} ends after step {last}{of}, without the mean of the whole run.",
        )
    return "", ""
