"""How the numbers that a program of the user's leaves are read, with suspicion. Pure."""

import math
import statistics
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from decimal import Decimal
from typing import Any

from runners.directories import END, OUR_FILE_LIMIT
from runners.transports.base import MIB
from runners.workloads import findings, given
from runners.workloads.patterns import Hit, PatternError, plain
from runners.workloads.reports import STEP_TIME, read_report
from runners.workloads.results import Result, SanityError, parse_number
from runners.workloads.running_rates import rates_between

OUTPUT = "output.txt"
"""What the program printed, as the job script keeps it."""
REPORT = "tare-result.json"
"""$TARE_RESULT: what the recorder, or a program without it, reports into."""
FIRST_STEP = "time_to_first_step"
ENOUGH_FOR_A_TAIL = 100
NOT_THE_PROGRAM_S = {OUTPUT, REPORT, "result.json", "spec.json", "inside.json", "command"}

Row = Mapping[str, str]


def units(parameters: Mapping[str, Any]) -> dict[str, str]:
    return {row["find"] or row["name"]: row["unit"] for row in parameters["metrics"]}


def _reported(left: Mapping[str, bytes], parameters: Mapping[str, Any]) -> Result:
    """What the recorder, or a program in any language, has reported."""
    try:
        document = read_report(left, REPORT, units(parameters))
    except SanityError as error:
        if REPORT in left or REPORT + "l" in left:
            raise
        raise SanityError(
            f"{error}. Let it write to the file that $TARE_RESULT names: by `import tare` in "
            "Python, as JSON lines in any language. Or read its numbers by patterns, CSV or JSON"
        ) from None
    series = {name: _stepped(name, entry) for name, entry in document["series"].items()}
    burn_in = parameters["burn_in"] or _burn_in(document["facts"])
    values: dict[str, tuple[float, str]] = {}
    for name, entry in document["metrics"].items():
        values[name] = _measured(name, entry)
    values |= {name: one for name, one in _of_steps(series, burn_in).items() if name not in values}
    for row in parameters["metrics"]:
        name, find = row["name"], row["find"] or row["name"]
        if find in values:
            number, unit = values.pop(find)
        elif find in series:
            unit, numbers = series[find]
            number = _taken(numbers, row, burn_in)
        else:
            known = ", ".join(sorted({*values, *series})) or "nothing"
            raise SanityError(
                f"{find} was not reported, neither by metric nor by step. Was: {known}"
            )
        if unit != row["unit"]:
            raise SanityError(f"{find} is in {unit!r}, and the workload says {row['unit']!r}")
        values[name] = number, unit
    phases = {
        name: parse_number(seconds, f"phase {name!r}")
        for name, seconds in document["phases"].items()
    }
    facts: dict[str, Any] = {"burn_in": burn_in}
    if FIRST_STEP in document["facts"]:
        facts[FIRST_STEP] = parse_number(document["facts"][FIRST_STEP], FIRST_STEP)
    return Result(values, series, phases, facts)


def _stepped(name: str, entry: Mapping[str, Any]) -> tuple[str, list[float]]:
    values = enumerate(entry["values"])
    return _unit(name, entry), [parse_number(one, f"{name} at step {step}") for step, one in values]


def _measured(name: str, entry: Any) -> tuple[float, str]:
    if not isinstance(entry, dict):
        raise SanityError(f"the metric {name!r} is {entry!r}, not a value with a unit")
    return parse_number(entry.get("value"), name), _unit(name, entry)


def _unit(name: str, entry: Mapping[str, Any]) -> str:
    unit = entry.get("unit") or "1"
    if not isinstance(unit, str) or not unit.isprintable() or len(unit) > given.LONGEST_UNIT:
        raise SanityError(
            f"the unit of {name} is {unit!r}; it is 1 to {given.LONGEST_UNIT} letters"
        )
    return unit


def _burn_in(facts: Mapping[str, Any]) -> int:
    steps = facts.get("burn_in", 0)
    if isinstance(steps, bool) or not isinstance(steps, int) or steps < 0:
        raise SanityError(f"the burn-in is {steps!r}, which is no number of steps")
    return steps


def _of_steps(
    series: Mapping[str, tuple[str, list[float]]], burn_in: int
) -> dict[str, tuple[float, str]]:
    """What the times of all steps say together."""
    if STEP_TIME not in series:
        return {}
    unit, times = series[STEP_TIME]
    if unit != "s":
        raise SanityError(f"step_time is in {unit!r}, and is to be in seconds")
    counted = _counted(times, burn_in, STEP_TIME)
    found = {STEP_TIME: (math.fsum(counted) / len(counted), "s")}
    if len(counted) > 1 and (spread := statistics.stdev(counted)):
        found["step_time_sd"] = spread, "s"
    if len(counted) >= ENOUGH_FOR_A_TAIL:
        ranked = sorted(counted)
        middle, high = (ranked[math.ceil(part * len(ranked)) - 1] for part in (0.5, 0.99))
        if middle:
            found["tail_ratio"] = high / middle, "1"
    return found


def _by_patterns(left: Mapping[str, bytes], parameters: Mapping[str, Any]) -> Result:
    name = parameters["file"] or OUTPUT
    if name not in left and name + END in left:
        return _at_the_end(left[name + END], name, parameters)
    text = plain(_content(left, name, parameters))
    numbers, running = {}, {}
    for row in parameters["metrics"]:
        name = row["name"]
        found = _matched(text, row)
        numbers[name] = [number for _, number in found]
        if row["take"] == given.RUNNING_RATE:
            running[name] = _between(name, found)
    result = _result(numbers, parameters)
    for name, (steps, rates) in running.items():
        if rates:
            result.series[name] = result.measurements[name][1], rates
            result.steps[name] = steps
    return result


def _between(name: str, found: Sequence[tuple[Hit, float]]) -> tuple[list[int], list[float]]:
    """What happened between rates that are means of all steps so far. Raises SanityError."""
    last_digit = max(int(Decimal(hit.text).as_tuple().exponent) for hit, _ in found)
    steps = [findings.step_of(hit.step, name) for hit, _ in found]
    rates, printed_step = [rate for _, rate in found], 10.0 ** min(last_digit, 300)
    try:
        return rates_between(steps, rates, printed_step=printed_step)
    except ValueError as error:
        raise SanityError(f"{name}: {error}") from None


def _matched(text: str, row: Row) -> list[tuple[Hit, float]]:
    try:
        return findings.hits_and_numbers(text, row["find"], row["name"])
    except PatternError as error:  # refused by the form; kept safe where it came another way
        raise SanityError(f"the pattern of {row['name']}: {error}") from None


def _at_the_end(content: bytes, name: str, parameters: Mapping[str, Any]) -> Result:
    """What the end of a file tells that is too large to be read whole: the last match, if it is
    there. What needs every match is unknown."""
    text = plain(content[content.find(b"\n") + 1 :])  # from the first whole line on
    all_of_it = (
        f"{name} is larger than the {OUR_FILE_LIMIT // MIB} MiB that Tare reads of a file: "
        f"of its last {len(content) / MIB:.0f} MiB"
    )
    numbers, unknown = {}, {}
    for row in parameters["metrics"]:
        if row["take"] != given.LAST:
            unknown[row["name"]] = f"{all_of_it} alone {row['name']} cannot be known"
        else:
            try:
                numbers[row["name"]] = [number for _, number in _matched(text, row)]
            except SanityError as error:
                if " is never matched" not in str(error):
                    raise
                unknown[row["name"]] = f"{all_of_it}: {error}"
    known = [row for row in parameters["metrics"] if row["name"] in numbers]
    result = _result(numbers, {**parameters, "metrics": known})
    note = f"{all_of_it} the last match was taken for {', '.join(numbers) or 'nothing'}."
    if unknown:
        note += f" Not known, and left out: {', '.join(unknown)}."
    return replace(result, unknown=unknown, note=note)


def _from_csv(left: Mapping[str, bytes], parameters: Mapping[str, Any]) -> Result:
    name = parameters["file"]
    text = findings.text_of(_content(left, name, parameters), name)
    columns = {row["name"]: row["find"] or row["name"] for row in parameters["metrics"]}
    return _result(_in_file(name, lambda: findings.by_column(text, columns)), parameters)


def _from_json(left: Mapping[str, bytes], parameters: Mapping[str, Any]) -> Result:
    name = parameters["file"]
    text = findings.text_of(_content(left, name, parameters), name)

    def found() -> dict[str, list[float]]:
        all_of_it = findings.documents(text)
        return {
            row["name"]: findings.by_name(all_of_it, row["find"] or row["name"], row["name"])
            for row in parameters["metrics"]
        }

    return _result(_in_file(name, found), parameters)


def _nothing(left: Mapping[str, bytes], parameters: Mapping[str, Any]) -> Result:
    return Result({}, {}, {}, {})


def _in_file(name: str, find: Any) -> dict[str, list[float]]:
    try:
        found: dict[str, list[float]] = find()
    except SanityError as error:
        raise SanityError(f"{name}: {error}") from None
    return found


def _content(left: Mapping[str, bytes], name: str, parameters: Mapping[str, Any]) -> bytes:
    if name in left:
        return left[name]
    if name + END in left:
        raise SanityError(f"{name} is larger than the {OUR_FILE_LIMIT // MIB} MiB that Tare reads")
    ours = {*NOT_THE_PROGRAM_S, "exit_code", "runtime_version"}
    others = sorted(left.keys() - ours)
    there = f"There: {', '.join(others[:8])}" if others else "It wrote no file at all"
    raise SanityError(
        f"the program left no {name} in the run’s folder, where it starts. {there}. "
        f"{findings.ends_with(plain(left.get(OUTPUT, b'')))}"
    )


def _result(numbers: Mapping[str, Sequence[float]], parameters: Mapping[str, Any]) -> Result:
    burn_in = parameters["burn_in"]
    values, series = {}, {}
    for row in parameters["metrics"]:
        name, found = row["name"], list(numbers[row["name"]])
        values[name] = _taken(found, row, burn_in), row["unit"]
        if row["take"] == given.SERIES:
            series[name] = row["unit"], found
    return Result(values, series, {}, {"burn_in": burn_in})


def _taken(numbers: Sequence[float], row: Row, burn_in: int) -> float:
    """The one number that a metric takes from all that were found."""
    if row["take"] in (given.LAST, given.RUNNING_RATE):
        return numbers[-1]
    counted = _counted(numbers, burn_in, row["name"])
    return math.fsum(counted) / len(counted)


def _counted(numbers: Sequence[float], burn_in: int, name: str) -> Sequence[float]:
    if burn_in >= len(numbers):
        raise SanityError(
            f"{name} has {len(numbers)} values, and the burn-in takes {burn_in}: none is left"
        )
    return numbers[burn_in:]


READERS: dict[str, Callable[[Mapping[str, bytes], Mapping[str, Any]], Result]] = {
    "recorder": _reported,
    "patterns": _by_patterns,
    "csv": _from_csv,
    "json": _from_json,
    "nothing": _nothing,
}
