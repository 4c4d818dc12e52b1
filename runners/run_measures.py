"""What a run took: its time, and that of its job in the queue. No I/O: a record in, values out.

Every value comes from the cluster and passes `accept`. What is not known is `NotMeasured` with the
reason, never a zero.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from runners.workloads.results import Metric, SanityError, check_positive, parse_number
from runners.workloads.run_metrics import PEAK_HOST_MEMORY, QUEUE_TIME, RUN_TIME

MOST = {"s": 3.2e8, "B": 2.0**50, "J": 1e13}
"""By unit: ten years, a pebibyte, a megawatt for four months. Nothing is measured beyond."""
CLOCK_SECONDS, CLOCK_SHARE = 0.25, 0.001
"""By how much, in all and of the time, a node's clock and its time since start may differ: they are
read one after the other, in steps of 10 ms, and clocks are kept right by 0.05 % at most."""
MOST_RECORD_SECONDS = 30.0
"""More than the record takes on the slowest file system: nothing larger is believed."""
LEAST_SHIFT = 1700.0
"""Seconds: zones change by half an hour at least. Other clocks differ from Slurm's by less."""
JOB_SCRIPT = "clock of the job script"
SLURM = "Slurm's times of submission and start"
TWO_CLOCKS = "Tare's clock at submission, the node's at start"
MARKS = "kernel's marks of processes"
MARKS_AND_TREE = "kernel's marks and samples of the process tree"
_SLURM_TIME = r"(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d)"


class NotMeasured(Exception):
    """A measure that a run does not have; the message says why, as part of a sentence."""


@dataclass(frozen=True)
class Measure:
    """One number of a run, where it comes from, and what limits it."""

    value: float
    unit: str
    source: str
    """By it comparisons tell whether two environments were measured alike."""
    detail: str = ""


def accept(metric: Metric, value: Any, source: str, detail: str = "") -> Measure:
    """Return a number from a cluster as a measure. Raises NotMeasured unless it can be right."""
    try:
        number = check_positive(parse_number(value, metric.name), metric.unit, metric.name)
    except SanityError as error:
        raise NotMeasured(f"{source}: {error}") from None
    if number > MOST[metric.unit]:
        raise NotMeasured(
            f"{source}: {metric.name} is {number:g} {metric.unit}, more than there can be"
        )
    return Measure(number, metric.unit, source, detail)


def measure_run_time(
    began: Mapping[str, Any], ended: Mapping[str, Any], record_seconds: float = 0.0
) -> Measure:
    """Return the time of a run by two lines of its job's journal; either may be empty.

    `uptime` in them are the seconds since the node was started, which no clock changes.
    `record_seconds` is what the payload took, after all that it measured, to write down what had
    run: it is no part of the run.
    """
    if not began or not ended:
        raise NotMeasured("the job's journal does not say when the program began and ended")
    seconds = ended["time"] - began["time"]
    known = [line["uptime"] for line in (began, ended) if line.get("uptime") is not None]
    if len(known) == 2:
        passed = known[1] - known[0]
        if abs(seconds - passed) > CLOCK_SECONDS + CLOCK_SHARE * abs(passed):
            raise NotMeasured(
                f"the node's clock was set by {_sign(seconds - passed)} s while the run ran"
            )
    elif seconds <= 0:
        raise NotMeasured("the node's clock was set back while the run ran")
    left_out = believe_record_seconds(record_seconds, seconds)
    if left_out:
        detail = f"without {left_out:.3f} s in which Tare wrote down what had run"
        return accept(RUN_TIME, seconds - left_out, JOB_SCRIPT, detail)
    return accept(RUN_TIME, seconds, JOB_SCRIPT)


def believe_record_seconds(record_seconds: float, seconds: float) -> float:
    """Return how many of a run's last `seconds` its record took; 0 where that cannot be."""
    return record_seconds if 0 < record_seconds < min(seconds, MOST_RECORD_SECONDS) else 0.0


def _sign(seconds: float) -> str:
    return f"{seconds:+,.1f}".replace("-", "−")


def measure_queue_time(scheduler: str, submitted: float | None, started: float | None) -> Measure:
    """Return how long a job waited: by what its scheduler printed of it, else by two clocks.

    `submitted` is the time of Tare's clock after the scheduler took the job, `started` that of the
    node's clock in the job's journal, in seconds since 1970. Slurm prints local times without their
    zone: the two clocks tell whether its offset changed between them.
    """
    times = [
        re.search(rf"(?:^|\s){name}={_SLURM_TIME}(?:\s|$)", scheduler)
        for name in ("SubmitTime", "StartTime")
    ]
    if all(times):
        try:
            first, last = (datetime.fromisoformat(match[1]) for match in times if match)
        except ValueError:
            raise NotMeasured("Slurm's times of submission and start are no dates") from None
        seconds = (last - first).total_seconds()
        if submitted is not None and started is not None:
            shift = seconds - (started - submitted)
            if abs(shift) > LEAST_SHIFT:
                raise NotMeasured(
                    f"Slurm's local times and two clocks differ by {_sign(shift)} s, as after a "
                    "change of clocks (summer time) while the job waited"
                )
        if seconds == 0:
            raise NotMeasured("the job waited for less than 1 s, and Slurm counts whole seconds")
        return accept(QUEUE_TIME, seconds, SLURM, "in whole seconds")
    if submitted is None or started is None:
        raise NotMeasured("it is not known when the job was submitted and when it started")
    if started <= submitted:
        raise NotMeasured(
            f"by the node's clock the job started {submitted - started:,.1f} s before Tare's clock "
            "noted its submission: it waited for less than these two can tell"
        )
    return accept(QUEUE_TIME, started - submitted, TWO_CLOCKS, "by as much as these clocks differ")


def measure_host_memory(memory: Mapping[str, Mapping[str, Any]]) -> Measure:
    """Return the most that all processes of a run held, by what each payload wrote.

    The payload of each process knows its own mark and that of the largest process that it has
    waited for. Where it sampled what all held together, and that was more, it counts; where any
    ended before its first sample, marks alone do.
    """
    if not memory:
        raise NotMeasured("the payload left no account of memory")
    marked, held, samples = 0.0, 0.0, []
    for name, account in memory.items():
        of_whom = f" ({name})" if name else ""
        if not account:
            raise NotMeasured(f"a process left no account of memory{of_whom}")
        marks = [account.get(key) for key in ("own_bytes", "child_bytes")]
        together = account.get("together_bytes", 0)
        own, child, at_once = (
            read_number(value, f"memory{of_whom}") for value in (*marks, together)
        )
        if not own:
            raise NotMeasured(f"the kernel does not tell the mark of a process{of_whom}")
        marked += own + child
        held += max(own + child, at_once)
        if "together_bytes" in account:
            samples.append(read_number(account.get("samples"), "their number"))
    if not samples or not min(samples):  # one that ended before its first sample has marks alone
        return accept(PEAK_HOST_MEMORY, marked, MARKS, "largest child added to its parent")
    detail = f"{min(samples):,.0f} samples of what its processes held together"
    return accept(PEAK_HOST_MEMORY, held, MARKS_AND_TREE, detail)


def read_number(value: Any, name: str) -> float:
    """Return a number from a cluster that may be zero. Raises NotMeasured with its `name`."""
    try:
        number = parse_number(value, name)
    except SanityError as error:
        raise NotMeasured(str(error)) from None
    if number < 0:
        raise NotMeasured(f"{name} is {number:g}, which is less than nothing")
    return number
