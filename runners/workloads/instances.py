"""Packed runs: several instances of a program at once on one node, read as one run."""

import re
import statistics
from collections.abc import Mapping, Sequence

from runners.untrusted import Damaged, Table, Whole, parse_document
from runners.workloads.results import Metric, Result

INSTANCE_SPREAD = Metric("instance_spread", "1", "lower", "Spread between packed instances")
SPEC = "spec.json"


def instances(left: Mapping[str, bytes]) -> list[dict[str, bytes]]:
    """The files of each instance, relative to its own directory; none where nothing was packed.

    How many there should be is what the run was told to do: of one that never came there are no
    files.
    """
    found: dict[int, dict[str, bytes]] = {number: {} for number in range(_asked(left))}
    for name, content in left.items():
        if place := re.fullmatch(r"instance-(\d{1,6})/(.+)", name, re.DOTALL):
            found.setdefault(int(place[1]), {})[place[2]] = content
    return [found[number] for number in sorted(found)]


def merged(results: Sequence[Result], primary: str) -> Result:
    """One result of several instances, by number. The run stays the unit of all statistics.

    - Each metric is the mean over the instances that report it, rates too: what one instance did
      while the others ran. The whole node's rate is that times the number of instances. What is
      unknown of one instance is left out.
    - `instance_spread` (unit 1) is the standard deviation of `step_time` between the instances
      (with n - 1), over their mean. A workload without `step_time` has that of its own metric.
    - Each series of instance 0 keeps its name, so that a warm-up can be looked for in it; that of
      instance k is "step_time of instance k", in the same unit.
    - Phases are those of the instance that took longest in all: they are one process's life.
    - Facts are those of instance 0, with "instances" (how many) and "by instance" (what each had of
      the metric that the spread is of, in its unit).
    """
    first = results[0]
    names = dict.fromkeys(name for one in results for name in one.measurements)
    unknown = {name: why for one in results for name, why in one.unknown.items()}
    measurements = {}
    for name in [name for name in names if name not in unknown]:
        held = [one.measurements[name] for one in results if name in one.measurements]
        measurements[name] = (statistics.fmean(value for value, _ in held), held[0][1])
    spread_of = "step_time" if all("step_time" in one.measurements for one in results) else primary
    values = [one.measurements[spread_of][0] for one in results]
    mean = statistics.fmean(values)
    if len(values) > 1 and mean:
        spread = statistics.stdev(values) / abs(mean)
        measurements[INSTANCE_SPREAD.name] = (spread, INSTANCE_SPREAD.unit)
    series = dict(first.series)
    for number, one in enumerate(results[1:], start=1):
        series |= {f"{name} of instance {number}": kept for name, kept in one.series.items()}
    longest = max(results, key=lambda one: sum(one.phases.values()))
    facts = {**first.facts, "instances": len(results), "by instance": {spread_of: values}}
    notes = (f"Instance {number}: {one.note}" for number, one in enumerate(results) if one.note)
    return Result(
        measurements, series, longest.phases, facts, first.steps, unknown, " ".join(notes)
    )


def _asked(left: Mapping[str, bytes]) -> int:
    try:
        spec = parse_document(left.get(SPEC, b"{}"), Table({"instances": Whole(1, 10**6)}))
    except Damaged:
        return 0
    asked: int = spec.get("instances") or 0
    return asked if asked > 1 else 0
