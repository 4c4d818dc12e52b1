"""JSON of pyperf: `python -m pyperf ... -o FILE`. Each worker process is one run."""

from typing import Any

from experiments.statistics.published.formats.base import (
    Format,
    get_object,
    is_json,
    load_json,
    make_text,
    mean_of,
    require_list,
    require_object,
    rows_from,
)
from experiments.statistics.published.printed import TableError
from experiments.statistics.published.sheets import Sheet

UNITS = {"second": "s", "byte": "bytes", "integer": "1"}


def _recognise(text: str) -> bool:
    return is_json(text) and '"benchmarks"' in text and '"runs"' in text and '"values"' in text


def _read(text: str, decimal: str) -> Sheet:
    document = require_object(load_json(text), "This JSON of pyperf")
    shared = get_object(document.get("metadata"))
    benchmarks = [
        require_object(benchmark, f"benchmarks[{k}]")
        for k, benchmark in enumerate(require_list(document.get("benchmarks"), "benchmarks"))
    ]
    metadata = [{**shared, **get_object(benchmark.get("metadata"))} for benchmark in benchmarks]
    units = {make_text(each.get("unit")) or "second" for each in metadata}
    if len(units) > 1:
        raise TableError(f"Mixed units: {' and '.join(sorted(units))} in one file of pyperf.")
    unit = units.pop()
    value = f"value ({UNITS.get(unit, unit)})"
    header = ["benchmark", "run", "began_at", value]
    rows = [
        row
        for benchmark, facts in zip(benchmarks, metadata, strict=True)
        for row in _rows(benchmark, make_text(facts.get("name")) or "benchmark", value)
    ]
    return Sheet(
        header,
        rows_from(header, rows),
        format=FORMAT.name,
        roles={"benchmark": "environment", "run": "run", "began_at": "began", value: "value"},
        notes=(
            "Each worker process is one run: the mean of its values. Values of one process are "
            "no runs, and calibrations and warm-ups do not count.",
            f"Unit: {unit}, as its metadata say.",
        ),
    )


def _rows(benchmark: dict[str, Any], name: str, column: str) -> list[dict[str, str]]:
    rows = []
    for number, run in enumerate(require_list(benchmark.get("runs"), f"The runs of {name}"), 1):
        run = require_object(run, f"Run {number} of {name}")
        values = run.get("values")
        if not isinstance(values, list) or not values:
            continue
        began = make_text(get_object(run.get("metadata")).get("date"))
        rows.append(
            {
                "benchmark": name,
                "run": f"{name} {number}",
                "began_at": began,
                column: mean_of([make_text(value) for value in values]),
            }
        )
    return rows


FORMAT = Format(
    "JSON of pyperf",
    "each worker process is one run: the mean of its `values`",
    _recognise,
    _read,
)
