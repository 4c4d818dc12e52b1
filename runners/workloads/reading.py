"""Reads the numbers of a user's program from its files, and refuses wrong ones. No I/O."""

import math
import statistics
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from decimal import Decimal
from typing import Any

from runners.directories import END, OUR_FILE_LIMIT
from runners.transports.base import MIB
from runners.workloads import findings, given
from runners.workloads.patterns import Hit, PatternError, normalize_lines
from runners.workloads.reports import STEP_TIME, read_report
from runners.workloads.results import Result, SanityError, parse_number
from runners.workloads.running_rates import compute_rates_between

OUTPUT = "output.txt"
"""The program's output, as the job script stores it."""
REPORT = "tare-result.json"
"""$TARE_RESULT: the file for the reports of the recorder, or of a program without it."""
FIRST_STEP = "time_to_first_step"
ENOUGH_FOR_A_TAIL = 100
NOT_THE_PROGRAM_S = {OUTPUT, REPORT, "result.json", "spec.json", "inside.json", "command"}

Row = Mapping[str, str]


def list_units(parameters: Mapping[str, Any]) -> dict[str, str]:
    return {row["find"] or row["name"]: row["unit"] for row in parameters["metrics"]}


def _read_report(run_files: Mapping[str, bytes], parameters: Mapping[str, Any]) -> Result:
    """Read the report of the recorder, or of a program in any language."""
    try:
        document = read_report(run_files, REPORT, list_units(parameters))
    except SanityError as error:
        if REPORT in run_files or REPORT + "l" in run_files:
            raise
        raise SanityError(
            f"{error}. Let it write to the file that $TARE_RESULT names: by `import tare` in "
            "Python, as JSON lines in any language. Or read its numbers by patterns, CSV or JSON"
        ) from None
    series = {name: _parse_series(name, entry) for name, entry in document["series"].items()}
    warm_up_steps = parameters["burn_in"] or _parse_warm_up(document["facts"])
    values: dict[str, tuple[float, str]] = {}
    for name, entry in document["metrics"].items():
        values[name] = _parse_metric(name, entry)
    values |= {
        name: value
        for name, value in _summarize_steps(series, warm_up_steps).items()
        if name not in values
    }
    for row in parameters["metrics"]:
        name, source = row["name"], row["find"] or row["name"]
        if source in values:
            number, unit = values.pop(source)
        elif source in series:
            unit, numbers = series[source]
            number = _aggregate(numbers, row, warm_up_steps)
        else:
            known = ", ".join(sorted({*values, *series})) or "nothing"
            raise SanityError(
                f"{source} was not reported, neither by metric nor by step. Was: {known}"
            )
        if unit != row["unit"]:
            raise SanityError(f"{source} is in {unit!r}, and the workload says {row['unit']!r}")
        values[name] = number, unit
    phases = {
        name: parse_number(seconds, f"phase {name!r}")
        for name, seconds in document["phases"].items()
    }
    facts: dict[str, Any] = {"burn_in": warm_up_steps}
    if FIRST_STEP in document["facts"]:
        facts[FIRST_STEP] = parse_number(document["facts"][FIRST_STEP], FIRST_STEP)
    return Result(values, series, phases, facts)


def _parse_series(name: str, entry: Mapping[str, Any]) -> tuple[str, list[float]]:
    numbered = enumerate(entry["values"])
    return _parse_unit(name, entry), [
        parse_number(value, f"{name} at step {step}") for step, value in numbered
    ]


def _parse_metric(name: str, entry: Any) -> tuple[float, str]:
    if not isinstance(entry, dict):
        raise SanityError(f"the metric {name!r} is {entry!r}, not a value with a unit")
    return parse_number(entry.get("value"), name), _parse_unit(name, entry)


def _parse_unit(name: str, entry: Mapping[str, Any]) -> str:
    unit = entry.get("unit") or "1"
    if not isinstance(unit, str) or not unit.isprintable() or len(unit) > given.LONGEST_UNIT:
        raise SanityError(
            f"the unit of {name} is {unit!r}; it is 1 to {given.LONGEST_UNIT} letters"
        )
    return unit


def _parse_warm_up(facts: Mapping[str, Any]) -> int:
    steps = facts.get("burn_in", 0)
    if isinstance(steps, bool) or not isinstance(steps, int) or steps < 0:
        raise SanityError(f"the warm-up is {steps!r}, which is no number of steps")
    return steps


def _summarize_steps(
    series: Mapping[str, tuple[str, list[float]]], warm_up_steps: int
) -> dict[str, tuple[float, str]]:
    """Return the mean, standard deviation and tail ratio of the times per step."""
    if STEP_TIME not in series:
        return {}
    unit, times = series[STEP_TIME]
    if unit != "s":
        raise SanityError(f"step_time is in {unit!r}, and is to be in seconds")
    counted_times = _skip_warm_up(times, warm_up_steps, STEP_TIME)
    metrics = {STEP_TIME: (math.fsum(counted_times) / len(counted_times), "s")}
    if len(counted_times) > 1 and (spread := statistics.stdev(counted_times)):
        metrics["step_time_sd"] = spread, "s"
    if len(counted_times) >= ENOUGH_FOR_A_TAIL:
        ranked = sorted(counted_times)
        middle, high = (ranked[math.ceil(share * len(ranked)) - 1] for share in (0.5, 0.99))
        if middle:
            metrics["tail_ratio"] = high / middle, "1"
    return metrics


def _read_by_patterns(run_files: Mapping[str, bytes], parameters: Mapping[str, Any]) -> Result:
    name = parameters["file"] or OUTPUT
    if name not in run_files and name + END in run_files:
        return _read_end_of_file(run_files[name + END], name, parameters)
    text = normalize_lines(_get_content(run_files, name, parameters))
    numbers, running = {}, {}
    for row in parameters["metrics"]:
        name = row["name"]
        hits_with_numbers = _find_numbers(text, row)
        numbers[name] = [number for _, number in hits_with_numbers]
        if row["take"] == given.RUNNING_RATE:
            running[name] = _find_rates_between(name, hits_with_numbers)
    result = _make_result(numbers, parameters)
    for name, (steps, rates) in running.items():
        if rates:
            result.series[name] = result.measurements[name][1], rates
            result.steps[name] = steps
    return result


def _find_rates_between(
    name: str, hits_with_numbers: Sequence[tuple[Hit, float]]
) -> tuple[list[int], list[float]]:
    """Return steps and rates between rates that are means of all steps so far. SanityError."""
    last_digit = max(int(Decimal(hit.text).as_tuple().exponent) for hit, _ in hits_with_numbers)
    steps = [findings.parse_step(hit.step, name) for hit, _ in hits_with_numbers]
    rates, printed_step = [rate for _, rate in hits_with_numbers], 10.0 ** min(last_digit, 300)
    try:
        return compute_rates_between(steps, rates, printed_step=printed_step)
    except ValueError as error:
        raise SanityError(f"{name}: {error}") from None


def _find_numbers(text: str, row: Row) -> list[tuple[Hit, float]]:
    try:
        return findings.find_hits_and_numbers(text, row["find"], row["name"])
    except PatternError as error:  # the form refuses such patterns, other ways in may not
        raise SanityError(f"the pattern of {row['name']}: {error}") from None


def _read_end_of_file(content: bytes, name: str, parameters: Mapping[str, Any]) -> Result:
    """Read the last match from the end of a file that is too large to be read whole.

    Metrics that need all matches are unknown.
    """
    text = normalize_lines(content[content.find(b"\n") + 1 :])  # from the first whole line on
    what_was_read = (
        f"{name} is larger than the {OUR_FILE_LIMIT // MIB} MiB that Tare reads of a file: "
        f"of its last {len(content) / MIB:.0f} MiB"
    )
    numbers, unknown = {}, {}
    for row in parameters["metrics"]:
        if row["take"] != given.LAST:
            unknown[row["name"]] = f"{what_was_read} alone {row['name']} cannot be known"
        else:
            try:
                numbers[row["name"]] = [number for _, number in _find_numbers(text, row)]
            except SanityError as error:
                if " is never matched" not in str(error):
                    raise
                unknown[row["name"]] = f"{what_was_read}: {error}"
    known = [row for row in parameters["metrics"] if row["name"] in numbers]
    result = _make_result(numbers, {**parameters, "metrics": known})
    note = f"{what_was_read} the last match was taken for {', '.join(numbers) or 'nothing'}."
    if unknown:
        note += f" Not known, and left out: {', '.join(unknown)}."
    return replace(result, unknown=unknown, note=note)


def _read_csv(run_files: Mapping[str, bytes], parameters: Mapping[str, Any]) -> Result:
    name = parameters["file"]
    text = findings.decode_text(_get_content(run_files, name, parameters), name)
    columns = {row["name"]: row["find"] or row["name"] for row in parameters["metrics"]}
    return _make_result(
        _name_file_in_errors(name, lambda: findings.read_columns(text, columns)), parameters
    )


def _read_json(run_files: Mapping[str, bytes], parameters: Mapping[str, Any]) -> Result:
    name = parameters["file"]
    text = findings.decode_text(_get_content(run_files, name, parameters), name)

    def read_numbers() -> dict[str, list[float]]:
        documents = findings.parse_documents(text)
        return {
            row["name"]: findings.read_dotted_name(
                documents, row["find"] or row["name"], row["name"]
            )
            for row in parameters["metrics"]
        }

    return _make_result(_name_file_in_errors(name, read_numbers), parameters)


def _read_nothing(run_files: Mapping[str, bytes], parameters: Mapping[str, Any]) -> Result:
    return Result({}, {}, {}, {})


def _name_file_in_errors(name: str, read_numbers: Any) -> dict[str, list[float]]:
    try:
        numbers: dict[str, list[float]] = read_numbers()
    except SanityError as error:
        raise SanityError(f"{name}: {error}") from None
    return numbers


def _get_content(run_files: Mapping[str, bytes], name: str, parameters: Mapping[str, Any]) -> bytes:
    if name in run_files:
        return run_files[name]
    if name + END in run_files:
        raise SanityError(f"{name} is larger than the {OUR_FILE_LIMIT // MIB} MiB that Tare reads")
    written_by_tare = {*NOT_THE_PROGRAM_S, "exit_code", "runtime_version"}
    others = sorted(run_files.keys() - written_by_tare)
    listing = f"There: {', '.join(others[:8])}" if others else "It wrote no file at all"
    raise SanityError(
        f"the program left no {name} in the run’s folder, where it starts. {listing}. "
        f"{findings.quote_end(normalize_lines(run_files.get(OUTPUT, b'')))}"
    )


def _make_result(numbers: Mapping[str, Sequence[float]], parameters: Mapping[str, Any]) -> Result:
    warm_up_steps = parameters["burn_in"]
    values, series = {}, {}
    for row in parameters["metrics"]:
        name = row["name"]
        all_values = list(numbers[name])
        values[name] = _aggregate(all_values, row, warm_up_steps), row["unit"]
        if row["take"] == given.SERIES:
            series[name] = row["unit"], all_values
    return Result(values, series, {}, {"burn_in": warm_up_steps})


def _aggregate(numbers: Sequence[float], row: Row, warm_up_steps: int) -> float:
    """Return the metric's value: one number from all that were found."""
    if row["take"] in (given.LAST, given.RUNNING_RATE):
        return numbers[-1]
    counted_numbers = _skip_warm_up(numbers, warm_up_steps, row["name"])
    return math.fsum(counted_numbers) / len(counted_numbers)


def _skip_warm_up(numbers: Sequence[float], warm_up_steps: int, name: str) -> Sequence[float]:
    if warm_up_steps >= len(numbers):
        raise SanityError(
            f"{name} has {len(numbers)} values, and the warm-up takes {warm_up_steps}: none is left"
        )
    return numbers[warm_up_steps:]


READERS: dict[str, Callable[[Mapping[str, bytes], Mapping[str, Any]], Result]] = {
    "recorder": _read_report,
    "patterns": _read_by_patterns,
    "csv": _read_csv,
    "json": _read_json,
    "nothing": _read_nothing,
}
