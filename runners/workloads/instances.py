"""Packed runs: several instances of a program at once on one node, read as one run."""

import re
import statistics
from collections.abc import Mapping, Sequence

from runners.untrusted import Damaged, Table, Whole, parse_document
from runners.workloads.results import Metric, Result

INSTANCE_SPREAD = Metric("instance_spread", "1", "lower", "Spread between packed instances")
SPEC = "spec.json"


def split_by_instance(run_files: Mapping[str, bytes]) -> list[dict[str, bytes]]:
    """Return the files of each instance, relative to its own directory; none if nothing was packed.

    The run's specification says how many instances there should be; one that never ran has no
    files.
    """
    files_by_instance: dict[int, dict[str, bytes]] = {
        number: {} for number in range(_read_instance_count(run_files))
    }
    for name, content in run_files.items():
        if match := re.fullmatch(r"instance-(\d{1,6})/(.+)", name, re.DOTALL):
            files_by_instance.setdefault(int(match[1]), {})[match[2]] = content
    return [files_by_instance[number] for number in sorted(files_by_instance)]


def merge_results(results: Sequence[Result], primary: str) -> Result:
    """Merge the results of several instances into that of the run, the unit of all statistics.

    - Each metric is the mean over the instances that report it, rates too: the rate of one instance
      while the others ran. The whole node's rate is that times the number of instances. A metric
      that is unknown for one instance is left out.
    - `instance_spread` (unit 1) is the standard deviation of `step_time` between the instances
      (with n - 1), over their mean. A workload without `step_time` has that of its own metric.
    - Each series of instance 0 keeps its name, so that a warm-up can be detected in it; that of
      instance k is called "step_time of instance k", in the same unit.
    - Phases are those of the instance that took longest in all, since they belong to one process.
    - Facts are those of instance 0, with "instances" (how many) and "by instance" (each instance's
      value of the metric whose spread is computed).
    """
    first = results[0]
    names = dict.fromkeys(name for result in results for name in result.measurements)
    unknown = {name: why for result in results for name, why in result.unknown.items()}
    measurements = {}
    for name in [name for name in names if name not in unknown]:
        reported = [result.measurements[name] for result in results if name in result.measurements]
        measurements[name] = (statistics.fmean(value for value, _ in reported), reported[0][1])
    has_step_time = all("step_time" in result.measurements for result in results)
    spread_of = "step_time" if has_step_time else primary
    values = [result.measurements[spread_of][0] for result in results]
    mean = statistics.fmean(values)
    if len(values) > 1 and mean:
        spread = statistics.stdev(values) / abs(mean)
        measurements[INSTANCE_SPREAD.name] = (spread, INSTANCE_SPREAD.unit)
    series = dict(first.series)
    for number, result in enumerate(results[1:], start=1):
        series |= {f"{name} of instance {number}": values for name, values in result.series.items()}
    longest = max(results, key=lambda result: sum(result.phases.values()))
    facts = {**first.facts, "instances": len(results), "by instance": {spread_of: values}}
    notes = (
        f"Instance {number}: {result.note}" for number, result in enumerate(results) if result.note
    )
    return Result(
        measurements, series, longest.phases, facts, first.steps, unknown, " ".join(notes)
    )


def _read_instance_count(run_files: Mapping[str, bytes]) -> int:
    try:
        spec = parse_document(run_files.get(SPEC, b"{}"), Table({"instances": Whole(1, 10**6)}))
    except Damaged:
        return 0
    count: int = spec.get("instances") or 0
    return count if count > 1 else 0
