"""JSON of Google Benchmark: `--benchmark_out_format=json`. Repetitions share one process."""

from typing import Any

from experiments.statistics.published.formats.base import (
    SECONDS,
    Format,
    is_json,
    load_json,
    make_text,
    require_list,
    require_object,
    rows_from,
    to_seconds,
)
from experiments.statistics.published.printed import TableError
from experiments.statistics.published.sheets import Sheet

ONE_PROCESS = (
    "Google Benchmark takes all repetitions in one process: what differs between processes is not "
    "in these values. To see it, start the program several times: one mean a start is a run."
)
CHOICES = ("real_time", "cpu_time")


def _recognise(text: str) -> bool:
    return is_json(text) and '"benchmarks"' in text and '"time_unit"' in text


def _read(text: str, decimal: str) -> Sheet:
    document = require_object(load_json(text), "This JSON of Google Benchmark")
    entries = [
        require_object(entry, f"benchmarks[{k}]")
        for k, entry in enumerate(require_list(document.get("benchmarks"), "benchmarks"))
    ]
    if failed := [entry for entry in entries if entry.get("error_occurred")]:
        raise TableError(
            f"The benchmark {make_text(failed[0].get('name'))} failed: "
            f"{make_text(failed[0].get('error_message')) or 'it says no reason'}."
        )
    repetitions = [entry for entry in entries if entry.get("run_type", "iteration") == "iteration"]
    if repetitions:
        return _read_repetitions(repetitions)
    return _read_aggregates(entries)


def _read_repetitions(entries: list[dict[str, Any]]) -> Sheet:
    metrics = tuple(f"{name} (s)" for name in CHOICES)
    header = ["benchmark", "arguments", "run", *metrics]
    rows = []
    for number, entry in enumerate(entries, 1):
        row = _name(entry) | {"run": f"{make_text(entry.get('name'))} {number}"}
        rows.append(row | {f"{name} (s)": _seconds(entry, name) for name in CHOICES})
    roles = {"benchmark": "environment", "arguments": "label", "run": "run", metrics[0]: "value"}
    return Sheet(
        header,
        rows_from(header, rows),
        format=FORMAT.name,
        roles=roles,
        metrics=metrics,
        notes=(
            "Each repetition is read as a run; real_time is compared unless cpu_time is chosen.",
            ONE_PROCESS,
            "Unit: seconds, from the time_unit of each benchmark.",
        ),
        one_process=ONE_PROCESS,
    )


def _read_aggregates(entries: list[dict[str, Any]]) -> Sheet:
    rows: dict[str, dict[str, str]] = {}
    for entry in entries:
        name = make_text(entry.get("run_name"))
        row = rows.setdefault(name, _name(entry) | {"n": make_text(entry.get("repetitions"))})
        column = {"mean": "mean (s)", "stddev": "sd (s)"}.get(
            make_text(entry.get("aggregate_name"))
        )
        if column:
            row[column] = _seconds(entry, CHOICES[0])
    header = ["benchmark", "arguments", "mean (s)", "sd (s)", "n"]
    roles = {
        "benchmark": "environment",
        "arguments": "label",
        "mean (s)": "mean",
        "sd (s)": "sd",
        "n": "n",
    }
    return Sheet(
        header,
        rows_from(header, rows.values()),
        format=FORMAT.name,
        roles=roles,
        notes=(
            "It has aggregates alone: mean and SD of real_time, with the number of repetitions.",
            ONE_PROCESS,
            "Unit: seconds, from the time_unit of each benchmark.",
        ),
        one_process=ONE_PROCESS,
    )


def _name(entry: dict[str, Any]) -> dict[str, str]:
    """Return a benchmark's name without its arguments, and these: BM_copy/1024 has 1024."""
    name = make_text(entry.get("run_name")) or make_text(entry.get("name"))
    family, _, arguments = name.partition("/")
    return {"benchmark": family, "arguments": arguments}


def _seconds(entry: dict[str, Any], name: str) -> str:
    unit = make_text(entry.get("time_unit"))
    if unit not in SECONDS:
        raise TableError(f"The time_unit {unit!r} is none of {', '.join(SECONDS)}.")
    return to_seconds(make_text(entry.get(name)), unit)


FORMAT = Format(
    "JSON of Google Benchmark",
    "each repetition is one run, stamped ONE PROCESS; aggregates alone give mean, SD and n",
    _recognise,
    _read,
)
